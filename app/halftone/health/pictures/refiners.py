"""A second model that makes the last steps: what it can be, and with what it goes."""

from typing import Final

from msgspec.structs import replace

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import PictureRequest
from halftone.contract.wording import Words
from halftone.health.pictures.unfinished_pictures import Kept
from halftone.library.families.known_families import REFINER, SDXL
from halftone.library.models import describe, runnable

END: Final = "denoising_end"
START: Final = "denoising_start"
"""Under these names diffusers' pipelines take the share of the steps."""


def check_refiner(request: PictureRequest, model: ModelFacts | None) -> None:
    """Raise HalftoneError for a refiner that cannot work with the rest of the request: setting-bad-value, value-out-of-range, and
    as `check_is_refiner`. model: where it is known.
    """
    refiner = request.refiner
    if refiner is None:
        return
    if model is not None:
        check_takes_refiner(model)
    if request.masked:
        raise HalftoneError(
            "setting-bad-value", name=Words("The refiner"), value=Words("used with a mask"), allowed=Words("one of the two")
        )
    if request.hires is not None:
        raise HalftoneError(
            "setting-bad-value", name=Words("The refiner"), value=Words("used with --hires"), allowed=Words("one of the two")
        )
    for option in (END, START):
        if option in request.options:
            raise HalftoneError("setting-bad-value", name="--option", value=option, allowed="--refiner-at")
    check_is_refiner(refiner.path)


def check_takes_refiner(model: ModelFacts) -> None:
    """Raise HalftoneError setting-bad-value for a model that none goes on with."""
    if model.family != SDXL.name:
        value = Words("used with {0}, a strange model", (model.name,))
        if model.family:
            value = Words("used with {0}, a {1} model", (model.name, model.family))
        raise HalftoneError(
            "setting-bad-value", name=Words("The refiner"), value=value, allowed=Words("it with an SDXL base model")
        )


def check_is_refiner(path: str) -> ModelFacts:
    """Its facts. Raises HalftoneError setting-bad-value for another model, and as `describe` and `runnable`."""
    facts = describe(path)
    if facts.family != REFINER.name:
        value = Words("{0}: it is no SDXL refiner", (path,))
        raise HalftoneError(
            "setting-bad-value", name=Words("The refiner"), value=value, allowed=Words("the folder or file of an SDXL refiner")
        )
    runnable(facts)
    return facts


def alone(request: PictureRequest) -> PictureRequest:
    """What the refiner is asked: of what is used with the base it takes the VAE, which decodes for both."""
    return replace(
        request,
        refiner=None,
        image=None,
        loras=(),
        transformer=None,
        inversions=(),
        controls=(),
        ip_adapters=(),
    )


def decoded_by(kept: Kept, model: ModelFacts) -> ModelFacts:
    """The model whose decoder is left to run: the refiner where its steps are done, else the picture's own."""
    refiner = kept.request.refiner
    return check_is_refiner(refiner.path) if refiner is not None and kept.in_pass > 1 else model
