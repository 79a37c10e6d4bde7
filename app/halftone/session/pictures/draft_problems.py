"""What keeps a draft from becoming a picture, before anything is computed."""

from collections.abc import Sequence
from typing import Final

from halftone.contract import limits
from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import ModelFacts
from halftone.contract.preprocessors import DEPTH, NORMAL, POSE, PREPROCESSORS
from halftone.contract.request import Control, IpAdapter
from halftone.contract.wording import Words
from halftone.library.tasks import needs_mask, needs_picture
from halftone.session.pictures.draft import Draft, extends, is_masked, masks, usable

Problem = Words | ErrorFacts
_MODELS: Final = {**dict.fromkeys((DEPTH, NORMAL), "Choose a depth model for {0}."), POSE: "Choose a pose model for {0}."}


def problems(draft: Draft, model: ModelFacts | None) -> dict[str, Problem]:
    """Why no picture can be made of the draft as it stands, by the field that is to be changed. What the model cannot use is
    no problem: it is not sent.
    """
    draft = usable(draft, model)
    found = {
        "size": size_problem(draft.size[0]) or size_problem(draft.size[1]),
        "image": _start_problem(draft, model),
        "controls": _lacking(draft.controls),
        "hires": _hires_clash(draft, model),
        "refiner": _refiner_clash(draft, model),
        "ip_adapters": _lacking(draft.ip_adapters),
        "seed_size": _noise_problem(draft.seed_size),
    }
    return {field: problem for field, problem in found.items() if problem is not None}


def size_problem(edge: int) -> Words | None:
    """Why an edge of so many pixels cannot be used, with one that can."""
    low, high = limits.SIZE_RANGE
    if not low <= edge <= high:
        return Words("Use a size from {0} to {1}.", (low, high))
    if edge % limits.SIZE_MULTIPLE:
        nearest = max(low, min(high, round(edge / limits.SIZE_MULTIPLE) * limits.SIZE_MULTIPLE))
        return Words("Use a multiple of 8, for example {0}.", (str(nearest),))
    return None


def _noise_problem(size: tuple[int, int] | None) -> Words | None:
    low = limits.SIZE_RANGE[0]
    if size is not None and any(edge % limits.SIZE_MULTIPLE or edge < low for edge in size):
        return Words("Noise width and height must be multiples of 8.")
    return None


def _lacking(nets: Sequence[Control] | Sequence[IpAdapter]) -> Words | None:
    for net in nets:
        if isinstance(net, Control) and not net.image:
            return Words("Choose a picture for {0}.", (net.name,))
        if isinstance(net, Control) and PREPROCESSORS[net.preprocessor].has_model and not net.preprocessor_model:
            return Words(_MODELS[net.preprocessor], (net.name,))
        if isinstance(net, IpAdapter) and not net.images:
            return Words("Choose a picture for {0}.", (net.name,))
    return None


def _start_problem(draft: Draft, model: ModelFacts | None) -> Problem | None:
    if model is None:
        return None
    if draft.image is None:
        needed = needs_picture(model.pipeline)
        return Words("This model needs a picture under Image to image.") if needed else None
    if draft.mask is not None and not masks(model):
        return ErrorFacts(code="start-no-mask", facts={"model": model.name})
    if needs_mask(model.pipeline) and draft.mask is None and not extends(draft, model):
        return Words("This model needs a mask under Image to image.")
    return None


def _hires_clash(draft: Draft, model: ModelFacts | None) -> Words | None:
    if not draft.hires_on:
        return None
    if is_masked(draft, model):
        return Words("Hires. fix does not work with inpainting or outpainting.")
    return None


def _refiner_clash(draft: Draft, model: ModelFacts | None) -> Words | None:
    if draft.refiner is None:
        return None
    if is_masked(draft, model):
        return Words("The refiner does not work with inpainting or outpainting.")
    if draft.hires_on:
        return Words("The refiner does not work with Hires. fix.")
    return None
