"""What the user gave for a picture or a check, completed by what a model carries itself."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from halftone.contract.facts import ModelFacts
from halftone.contract.request import CheckInputs, Control, IpAdapter, OptionValue, PictureRequest, Start

PLAIN: Final = Start()
NOTE: Final = "halftone.json"
"""A model folder may carry its own defaults in this file, as Pocket does; others keep the pipeline's own."""


@dataclass(frozen=True)
class Inputs:
    """What the user gave, for a picture or for a check; None: the pipeline's own default."""

    prompt: str
    negative: str | None
    width: int | None
    height: int | None
    steps: int | None
    guidance: float | None
    image: Any
    """A file, or a picture of Pillow."""
    mask: Any
    """The mask, None where all of the picture is made anew."""
    num_frames: int | None
    fps: int | None
    options: dict[str, OptionValue]
    controls: tuple[Control, ...] = ()
    ip_adapters: tuple[IpAdapter, ...] = ()
    start: Start = PLAIN
    shown: dict[str, Any] = field(default_factory=dict[str, Any])
    """Further arguments of the pipeline that a check made up."""
    made_up: tuple[str, ...] = ()
    """What a check made up: "picture", "mask", "control picture", "reference picture", "video"."""

    @property
    def masked(self) -> bool:
        return self.mask is not None or self.start.extends


def negative_of(text: str, *, empty: bool) -> str | None:
    """What a pipeline is given. empty: an empty text is encoded; else it is left out."""
    return text if text or empty else None


def of_request(request: PictureRequest, facts: ModelFacts, image: Any = None) -> Inputs:
    """The request's inputs, completed by the defaults a model carries itself. image: in the place of the request's."""
    own = (Path(facts.path) / NOTE).is_file()
    image = request.image if image is None else image
    sized = (own or bool(request.controls)) and image is None  # a control picture is brought to the size of the result
    sized = sized or request.start.only_masked is not None  # which is computed in the size that the model is made for
    return Inputs(
        prompt=request.prompt,
        negative=negative_of(request.negative, empty=request.empty_negative),
        width=request.width or (facts.native_width if sized else None),
        height=request.height or (facts.native_height if sized else None),
        steps=request.steps or (facts.default_steps if own else None),
        guidance=facts.default_guidance if own and request.guidance is None else request.guidance,
        image=image,
        mask=request.mask,
        num_frames=request.num_frames,
        fps=request.fps,
        options=request.options,
        controls=request.controls,
        ip_adapters=request.ip_adapters,
        start=request.start,
    )


def of_check(inputs: CheckInputs, facts: ModelFacts, prompt: str) -> Inputs:
    """The same for a check; prompt: used when none was given."""
    request = PictureRequest(
        prompt=inputs.prompt or prompt,
        negative=inputs.negative or "",
        empty_negative=inputs.negative == "",
        width=inputs.width,
        height=inputs.height,
        steps=inputs.steps,
        guidance=inputs.guidance,
        image=inputs.image,
        mask=inputs.mask,
        num_frames=inputs.num_frames,
        options=inputs.options,
        controls=inputs.controls,
        ip_adapters=inputs.ip_adapters,
        start=inputs.start,
    )
    return of_request(request, facts)
