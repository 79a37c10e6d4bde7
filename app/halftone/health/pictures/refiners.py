"""A second model that makes the last steps: which it can be, and what it can be used with."""

import math
import re
from typing import Final

from msgspec.structs import asdict, replace

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Extras, PictureRequest
from halftone.contract.wording import Words
from halftone.health.pictures.passes import steps_from_picture
from halftone.health.pictures.unfinished_pictures import Kept
from halftone.library.families.known_families import REFINER, SDXL
from halftone.library.models import describe, runnable
from halftone.metadata.parameters import BY_STEPS
from halftone.metadata.reading import Parameters

END: Final = "denoising_end"
START: Final = "denoising_start"
"""Names in diffusers' pipelines of the share of the steps."""
_SWITCHES_BY_STEPS: Final = re.compile(r"v?1\.[0-7]\.|f\d+\.|ComfyUI|SwarmUI|Fooocus|RuinedFooocus")
"""Versions of A1111, Forge and others that know no other way."""


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


def switches_by_steps(said: Parameters) -> bool:
    """Whether the share at which a text switches to the refiner is one of the steps: A1111 says so, and did no other before 1.8
    (its `infotext_versions.py`).
    """
    version = said.fields.get("Version", "")
    return said.fields.get(BY_STEPS) == "True" or bool(_SWITCHES_BY_STEPS.match(version))


def share_of_a1111(at: float, steps: int, strength: float | None) -> float:
    """The share at the first step that is not before A1111's, of so many. strength: of a start picture, None without one: A1111
    counts the steps that it makes then.
    """
    made = steps if strength is None else steps_from_picture(steps, strength)
    first = steps - made + math.ceil(round(at * made, 6))
    return at if made == steps and round(at * steps) == first else first / steps


def decoded_by(kept: Kept, model: ModelFacts) -> ModelFacts:
    """The model that decodes: the refiner after its steps, else the picture's own."""
    refiner = kept.request.refiner
    return check_is_refiner(refiner.path) if refiner is not None and kept.in_pass > 1 else model
