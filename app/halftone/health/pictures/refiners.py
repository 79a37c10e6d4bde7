"""A second model that makes the last steps: which it can be, and what it can be used with."""

from typing import Final

from msgspec.structs import asdict, replace

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Extras, PictureRequest
from halftone.contract.wording import Words
from halftone.health.pictures.unfinished_pictures import Kept
from halftone.library.families.known_families import REFINER, SDXL
from halftone.library.models import describe, runnable

END: Final = "denoising_end"
START: Final = "denoising_start"
"""Names in diffusers' pipelines of the share of the steps."""


def check_refiner(request: PictureRequest, model: ModelFacts | None) -> None:
    """Raise HalftoneError setting-bad-value, value-out-of-range, and as `check_is_refiner`. model: where it is known."""
    refiner = request.refiner
    if refiner is None:
        return
    if model is not None:
        check_takes_refiner(model)
    if request.masked:
        raise _refused(Words("used with a mask"), Words("one of the two"))
    if request.hires is not None:
        raise _refused(Words("used with --hires"), Words("one of the two"))
    for option in (END, START):
        if option in request.options:
            raise HalftoneError("setting-bad-value", name="--option", value=option, allowed="--refiner-at")
    check_is_refiner(refiner.path)


def check_takes_refiner(model: ModelFacts) -> None:
    """Raise HalftoneError setting-bad-value for a model without refiners."""
    if model.family != SDXL.name:
        value = Words("used with {0}, an unknown model", (model.name,))
        if model.family:
            value = Words("used with {0}, a {1} model", (model.name, model.family))
        raise _refused(value, Words("it with an SDXL base model"))


def _refused(value: Words, allowed: Words) -> HalftoneError:
    return HalftoneError("setting-bad-value", name=Words("The refiner"), value=value, allowed=allowed)


def check_is_refiner(path: str) -> ModelFacts:
    """Its facts. Raises HalftoneError setting-bad-value for another model, and as `describe` and `runnable`."""
    facts = describe(path)
    if facts.family != REFINER.name:
        raise _refused(Words("{0}: it is no SDXL refiner", (path,)), Words("the folder or file of an SDXL refiner"))
    runnable(facts)
    return facts


def alone(request: PictureRequest) -> PictureRequest:
    """The refiner's own request: of the base's add-ons it takes the VAE, which decodes for both."""
    return replace(request, refiner=None, image=None, **asdict(Extras(vae=request.vae)))


def decoded_by(kept: Kept, model: ModelFacts) -> ModelFacts:
    """The model that decodes: the refiner after its steps, else the picture's own."""
    refiner = kept.request.refiner
    return check_is_refiner(refiner.path) if refiner is not None and kept.in_pass > 1 else model
