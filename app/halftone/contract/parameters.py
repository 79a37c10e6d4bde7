"""The parameters of a picture, one row each: the request's field, and its names everywhere.

The terminal's options, the text in a picture, its receipt, the checks of a request and the window's row of further options are
made from this table. LoRAs, ControlNets and other structs have places of their own.
"""

import math
from typing import Any, Final, NamedTuple

from halftone.contract.limits import (
    BATCH_RANGE,
    CLIP_SKIP_RANGE,
    FPS_RANGE,
    FRAMES_RANGE,
    GUIDANCE_RANGE,
    MASK_BLUR_RANGE,
    ONLY_MASKED_RANGE,
    REFINER_AT_RANGE,
    SCALE_RANGE,
    SEED_RANGE,
    SIZE_RANGE,
    STEPS_RANGE,
    STRENGTH_RANGE,
)
from halftone.contract.wording import Words

_OPTIONS: Final = "options."
_ANY: Final = (-math.inf, math.inf)


class Parameter(NamedTuple):
    """One row.

    field: of `PictureRequest`; "start.strength" for one of a struct in it, "options.clip_skip" for an entry of its options. kind:
    of the value. label: in the window, in receipts and in refusals. flags, help: of the terminal. keys: names in pictures;
    Halftone writes the first, and the last one in a picture counts. limits: smallest and largest value; step: of the window's
    field. arguments: names in diffusers' pipelines.

    Of an option alone: tip, in the window. neutral: the value without effect, None for none. offset: the user's number minus
    diffusers'. settings: of a parameter of the sampler, its names in the schedulers' configuration; pipelines take no such
    argument. together: further entries of the configuration. pipelines: prefixes of pipelines whose samplers have it.
    """

    field: str
    kind: type[int] | type[float] | type[str]
    label: Words
    flags: tuple[str, ...]
    help: str = ""
    keys: tuple[str, ...] = ()
    limits: tuple[float, float] = _ANY
    step: float = 1
    arguments: tuple[str, ...] = ()
    tip: Words | None = None
    neutral: float | None = None
    offset: int = 0
    settings: tuple[str, ...] = ()
    together: tuple[tuple[str, bool], ...] = ()
    pipelines: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The field's own name, without that of the struct it is in."""
        return self.field.rpartition(".")[2]

    @property
    def is_option(self) -> bool:
        """Whether it is an entry of the request's options."""
        return self.field.startswith(_OPTIONS)

    def stored(self, holder: object) -> Any:
        """The request's value, None where it has none. holder: any struct, with or without the field."""
        outer, _, inner = self.field.partition(".")
        found: Any = getattr(holder, outer, None)
        if not inner or found is None:
            return found
        return found.get(inner) if isinstance(found, dict) else getattr(found, inner)

    def number(self, holder: object) -> int | float | None:
        """The request's number, as the user counts; None where it has none."""
        found = self.stored(holder)
        return found + self.offset if isinstance(found, int | float) and not isinstance(found, bool) else None

    def entry(self, number: float | None) -> dict[str, Any]:
        """The entry of the options for a number as the user counts; empty for the neutral one."""
        return {} if number is None or number == self.neutral else {self.name: self.kind(number - self.offset)}


# fmt: off
PARAMETERS: Final[tuple[Parameter, ...]] = (
    Parameter("negative", str, Words("Negative prompt"), ("--negative", "--negative-prompt"),
        'What to leave out. "" encodes an empty one.', arguments=("negative_prompt",)),
    Parameter("steps", int, Words("Steps"), ("--steps",), "Denoising steps.", ("Steps",), STEPS_RANGE,
        arguments=("num_inference_steps",)),
    Parameter("width", int, Words("Width"), ("--width",), "Pixels, a multiple of 8.", limits=SIZE_RANGE, step=8,
        arguments=("width",)),
    Parameter("height", int, Words("Height"), ("--height",), "Pixels, a multiple of 8.", limits=SIZE_RANGE, step=8,
        arguments=("height",)),
    Parameter("seed", int, Words("Seed"), ("--seed",), "Same seed and settings, same picture. -1: a random one.", ("Seed",),
        SEED_RANGE, arguments=("generator",)),
    Parameter("guidance", float, Words("Guidance"), ("--guidance", "--cfg-scale"),
        "How strictly the picture follows the prompt.", ("CFG scale", "Distilled CFG Scale"), GUIDANCE_RANGE, 0.1,
        ("guidance_scale",)),
    Parameter("options.clip_skip", int, Words("Clip skip"), ("--clip-skip",),
        "As A1111 counts: 1 reads CLIP whole, 2 without its last layer.", ("Clip skip",), CLIP_SKIP_RANGE,
        tip=Words("Leaves out the last layers of the text encoder, as A1111 counts: 1 none, 2 the last one."),
        neutral=1, offset=1),
    Parameter("options.guidance_rescale", float, Words("CFG rescale"), ("--guidance-rescale", "--cfg-rescale"),
        "Take back the contrast that guidance adds, from 0 (not at all) to 1.", ("CFG rescale",), (0, 1), 0.05,
        tip=Words("Takes back the contrast that strong guidance adds: 0 not at all, 1 all of it. 0.7 is usual."), neutral=0),
    Parameter("options.shift", float, Words("Shift"), ("--shift", "--flow-shift"),
        "Of flow models (SD 3, FLUX, Sana …): the larger, the more steps at strong noise. Left out: the model's own.", ("Shift",),
        (0.1, 100), 0.1, tip=Words("The larger, the more steps are spent where the noise is strong. –: the model's own."),
        settings=("shift", "flow_shift"), together=(("use_dynamic_shifting", False),),
        pipelines=("StableDiffusion3", "Sana", "Flux")),
    Parameter("image", str, Words("Start picture"), ("--image",), "A picture to start from.", arguments=("image",)),
    Parameter("start.strength", float, Words("Strength"), ("--strength",), "How much of it is made anew, 0.01 to 1.",
        ("Denoising strength",), STRENGTH_RANGE, 0.05, ("strength",)),
    Parameter("start.resize", str, Words("Resize mode"), ("--resize",),
        "Of a start picture of another shape: stretch, crop or fill.", ("Resize mode",)),
    Parameter("mask", str, Words("Mask"), ("--mask",), "White where the picture is to change; of its size or shape.", ("Mask",),
        arguments=("mask_image",)),
    Parameter("start.mask_blur", int, Words("Mask blur"), ("--mask-blur",),
        "Radius in pixels of the blur that softens the mask's edge; 4 when left out.", ("Mask blur",), MASK_BLUR_RANGE),
    Parameter("start.masked_content", str, Words("Masked content"), ("--masked-content",),
        "What the masked part begins with: original, fill or noise.", ("Masked content",)),
    Parameter("start.only_masked", int, Words("Masked area padding"), ("--only-masked",),
        "Compute only the masked part, with so many pixels around it.", ("Masked area padding",), ONLY_MASKED_RANGE,
        arguments=("padding_mask_crop",)),
    Parameter("start.outpaint", str, Words("Outpaint"), ("--outpaint",),
        "Extend the start picture: LEFT,TOP,RIGHT,BOTTOM in pixels. Of it up to five times the mask blur changes there.",
        ("Outpaint",)),
    Parameter("vae", str, Words("VAE"), ("--vae",), "A VAE's .safetensors file or folder in the place of the model's own.",
        ("VAE",)),
    Parameter("transformer", str, Words("Transformer"), ("--transformer",),
        "A .gguf or .safetensors file in the place of the model's transformer or UNet.", ("Transformer",)),
    Parameter("num_frames", int, Words("Number of frames"), ("--num-frames",), "Frames, for video models.", ("Frames",),
        FRAMES_RANGE, arguments=("num_frames",)),
    Parameter("fps", int, Words("Frames per second"), ("--fps",), "Frames per second. Left out: what the model was made for.",
        ("FPS",), FPS_RANGE),
    Parameter("batch", int, Words("Number of pictures"), ("--batch",), "How many pictures, one after another.",
        limits=BATCH_RANGE, arguments=("num_images_per_prompt", "num_videos_per_prompt")),
    Parameter("variation_seed", int, Words("Variation seed"), ("--variation-seed",),
        "Whose noise that of the seed is turned to. Left out: a random one.", ("Variation seed",), SEED_RANGE),
    Parameter("variation_strength", float, Words("Variation strength"), ("--variation-strength",),
        "How far it is turned, from 0 to 1.", ("Variation seed strength",), (0, 1), 0.05),
    Parameter("hires.scale", float, Words("Scale of the second pass"), ("--hires",),
        "By how much the second pass is larger: 1.5, 2 …", ("Hires upscale",), SCALE_RANGE, 0.1),
    Parameter("hires.steps", int, Words("Steps of the second pass"), ("--hires-steps",), "Left out: as many as the first pass.",
        ("Hires steps",), STEPS_RANGE),
    Parameter("hires.strength", float, Words("Denoising strength of the second pass"),
        ("--hires-strength", "--denoising-strength"),
        "How much is drawn anew, from 0 to 1. Left out: 0.7 with latent, else 0.4.", ("Hires denoising strength",),
        STRENGTH_RANGE, 0.05),
    Parameter("refiner.at", float, Words("The refiner's switch point"), ("--refiner-at",),
        "The share of the steps after which it takes over, from 0.01 to 0.99. Left out: 0.8.", ("Refiner switch at",),
        REFINER_AT_RANGE, 0.01),
)
# fmt: on
"""In the order of the terminal's help."""

BY_FIELD: Final = {one.field: one for one in PARAMETERS}
OPTION_PARAMETERS: Final = {one.name: one for one in PARAMETERS if one.is_option}
"""Those that are entries of the request's options, by their names there."""
SAMPLER_OPTIONS: Final = {name: one for name, one in OPTION_PARAMETERS.items() if one.settings}
"""Those of them that the sampler takes, and not the pipeline."""


def option_numbers(holder: object) -> dict[str, int | float]:
    """The options with a row here that are not neutral: name -> number, as the user counts."""
    numbers = ((one, one.number(holder)) for one in OPTION_PARAMETERS.values())
    return {one.name: number for one, number in numbers if number is not None and number != one.neutral}


def option_flag(name: str) -> str:
    """An option's name in a refusal: its own flag where it has one."""
    return OPTION_PARAMETERS[name].flags[0] if name in OPTION_PARAMETERS else name
