"""The parameters of a picture, one row each: the request's field, and its names everywhere.

The terminal's options, the text in a picture, its receipt, the checks of a request and the window's row of further options are
made from this table. LoRAs, ControlNets and other structs have places of their own.
"""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from halftone.contract.errors import HalftoneError
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
_SOLVED: Final = ("StableDiffusion", "Sana", "Flux")
"""Pipelines that take the samplers of Halftone."""
_UNETS: Final = ("StableDiffusionPipeline", "StableDiffusionI", "StableDiffusionXL")
FREEU: Final = "freeu"
PAG: Final = "pag_scale"
THRESHOLD: Final = "threshold_scale"
THRESHOLDING: Final = "threshold_options"
"""The entry of a sampler's configuration that holds all options of dynamic thresholding."""
CHURN: Final = "s_churn"
_WAYS: Final = (
    "Constant", "Linear Down", "Cosine Down", "Half Cosine Down", "Linear Up", "Cosine Up", "Half Cosine Up", "Power Up",
    "Power Down", "Linear Repeating", "Cosine Repeating", "Sawtooth",
)  # fmt: skip
"""How dynamic thresholding changes a scale over the steps."""


def seed_after(seed: int, count: int) -> int:
    """The seed so many pictures later; the first one follows the last one."""
    return (seed + count) % (SEED_RANGE[1] + 1)


def seed_in(text: str) -> int | None:
    """The seed that a picture of any program names, None where it names no possible one."""
    digits = text if text.isdecimal() and len(text) <= len(str(SEED_RANGE[1])) else ""
    return int(digits) if digits and int(digits) <= SEED_RANGE[1] else None


def check_range(name: Words | str, value: float, allowed: tuple[float, float]) -> None:
    """Raise HalftoneError value-out-of-range."""
    low, high = allowed
    if not low <= value <= high:
        raise HalftoneError("value-out-of-range", name=name, value=value, low=low, high=high)


class Parameter(NamedTuple):
    """One row.

    field: of `PictureRequest`; "start.strength" for one of a struct in it, "options.clip_skip" for an entry of its options. kind:
    of the value. label: in the window, in receipts and in refusals. flags, help: of the terminal. keys: names in pictures;
    Halftone writes the first, and the last one in a picture counts. limits: smallest and largest value; step: of the window's
    field. arguments: names in diffusers' pipelines.

    Of an option alone: tip, in the window. neutral: the value that need not be given, None for none. offset: the user's number
    minus diffusers'. settings: of a parameter of the sampler, its names in the schedulers' configuration; pipelines take no such
    argument. together: further entries of the configuration. pipelines: prefixes of pipelines that have it; of an option of ours,
    () for all. ours: no pipeline or sampler of diffusers takes it. names: what the numbers from 0 on are called. of: the option
    without which it says nothing.
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
    ours: bool = False
    names: tuple[str, ...] = ()
    of: str = ""

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

    def text(self, number: float) -> str | None:
        """What a number is called; None where it has no name."""
        return self.names[int(number)] if 0 <= number < len(self.names) else None

    def named(self, name: str) -> int | None:
        """The number that is called so."""
        known = [one.casefold() for one in self.names]
        return known.index(name.strip().casefold()) if name.strip().casefold() in known else None

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
        "How closely to follow the prompt.", ("CFG scale", "Distilled CFG Scale"), GUIDANCE_RANGE, 0.1,
        ("guidance_scale",)),
    Parameter("options.clip_skip", int, Words("Clip skip"), ("--clip-skip",),
        "1 uses all CLIP layers, 2 skips the last, as in A1111. SDXL always skips one more.", ("Clip skip",), CLIP_SKIP_RANGE,
        tip=Words("Skips the last text encoder layers, as in A1111: 1 none, 2 the last one. SDXL always skips one more."),
        neutral=1, offset=1),
    Parameter("options.guidance_rescale", float, Words("CFG rescale"), ("--guidance-rescale", "--cfg-rescale"),
        "Reduce the contrast that guidance adds, from 0 (off) to 1.", ("CFG rescale",), (0, 1), 0.05,
        tip=Words("Reduces the contrast that strong guidance adds. 0: off, 1: full. Usually 0.7."), neutral=0),
    Parameter("options.shift", float, Words("Shift"), ("--shift", "--flow-shift"),
        "For flow models (SD 3, FLUX, Sana …): larger spends more steps at high noise. Default: the model's.", ("Shift",),
        (0.1, 100), 0.1, tip=Words("Larger spends more steps at high noise. –: model default."),
        settings=("shift", "flow_shift"), together=(("use_dynamic_shifting", False),),
        pipelines=("StableDiffusion3", "Sana", "Flux")),
    Parameter("options.eta_ancestral", float, Words("Eta"), ("--eta",),
        "How much noise samplers such as Euler a and DPM++ SDE add, from 0 to 1. Default: the sampler's.", ("Eta",), (0, 1),
        0.05, tip=Words("How much noise the sampler adds at each step. 0: none. –: sampler default."),
        settings=("eta_ancestral",), pipelines=_SOLVED),
    Parameter("options.s_noise", float, Words("Sigma noise"), ("--sigma-noise",),
        "Strength of the noise that a sampler adds at each step. Default: 1.", ("Sigma noise",), (0, 2), 0.01,
        tip=Words("Strength of the noise that the sampler adds at each step. 1: default."), neutral=1,
        settings=("s_noise",), pipelines=_SOLVED),
    Parameter("options.s_churn", float, Words("Sigma churn"), ("--sigma-churn",),
        "Noise that Euler, Heun and DPM2 add before their steps. Default: 0.", ("Sigma churn",), (0, 100), 0.1,
        tip=Words("Noise that the sampler adds before its steps, shared among them. 0: none."), neutral=0,
        settings=("s_churn",), pipelines=_SOLVED),
    Parameter("options.s_tmin", float, Words("Sigma tmin"), ("--sigma-tmin",),
        "The smallest noise level with churn. Default: 0.", ("Sigma tmin",), (0, 1000), 0.01,
        tip=Words("The smallest noise level with churn."), neutral=0, settings=("s_tmin",), pipelines=_SOLVED, of=CHURN),
    Parameter("options.s_tmax", float, Words("Sigma tmax"), ("--sigma-tmax",),
        "The largest noise level with churn. Default: 0, which is any.", ("Sigma tmax",), (0, 1000), 0.1,
        tip=Words("The largest noise level with churn. 0: any."), neutral=0,
        settings=("s_tmax",), pipelines=_SOLVED, of=CHURN),
    Parameter("options.sigma_min", float, Words("Schedule min sigma"), ("--sigma-min",),
        "Where the schedule ends, as in A1111. Default: 0, the model's.", ("Schedule min sigma",), (0, 100), 0.01,
        tip=Words("The smallest noise level of the schedule. 0: model default."), neutral=0,
        settings=("sigma_min",), pipelines=_SOLVED),
    Parameter("options.sigma_max", float, Words("Schedule max sigma"), ("--sigma-max",),
        "Where the schedule begins, as in A1111. Default: 0, the model's.", ("Schedule max sigma",), (0, 1000), 0.1,
        tip=Words("The largest noise level of the schedule. 0: model default."), neutral=0,
        settings=("sigma_max",), pipelines=_SOLVED),
    Parameter("options.rho", float, Words("Schedule rho"), ("--rho",),
        "The bend of Karras and Polyexponential. Default: 0, which stands for 7 and 1.", ("Schedule rho",), (0, 100), 0.1,
        tip=Words("The bend of the schedule: larger spends more steps at low noise. 0: default."), neutral=0,
        settings=("rho",), pipelines=_SOLVED),
    Parameter("options.discard_penultimate", int, Words("Discard penultimate sigma"), ("--discard-penultimate",),
        "True: leave out the last noise level but one, as in A1111.", ("Discard penultimate sigma",), (0, 1),
        tip=Words("True: skips the second-to-last noise level."), neutral=0, names=("False", "True"),
        settings=("discard_penultimate",), pipelines=_SOLVED),
    Parameter("options.zero_snr", int, Words("Noise schedule"), ("--noise-schedule",),
        "Default or Zero Terminal SNR: begin at noise alone, for models that were trained so.", ("Noise Schedule",), (0, 1),
        tip=Words("Zero Terminal SNR: begins at noise alone, for models that were trained so."), neutral=0,
        names=("Default", "Zero Terminal SNR"), settings=("rescale_betas_zero_snr",),
        pipelines=_UNETS),
    Parameter("options.freeu", int, Words("FreeU"), ("--freeu",),
        "Off, V1 or V2 as in ComfyUI, or Diffusers: stronger forms and less noise, without training.", ("FreeU version",), (0, 3),
        tip=Words("Stronger forms and less noise. V1, V2: as in ComfyUI, V2 as in Forge. Diffusers: as there and in SD.Next."),
        neutral=0, ours=True, pipelines=_UNETS, names=("Off", "V1", "V2", "Diffusers")),
    Parameter("options.freeu_b1", float, Words("FreeU b1"), ("--freeu-b1",),
        "Strength of the UNet's own stream in the first stage. Default: 1.3.", ("freeu_b1",), (0, 10), 0.01,
        tip=Words("Strength of the UNet's own stream in the first stage."), neutral=1.3, ours=True, pipelines=_UNETS, of=FREEU),
    Parameter("options.freeu_b2", float, Words("FreeU b2"), ("--freeu-b2",),
        "The same in the second stage. Default: 1.4.", ("freeu_b2",), (0, 10), 0.01,
        tip=Words("Strength of the UNet's own stream in the second stage."), neutral=1.4, ours=True, pipelines=_UNETS, of=FREEU),
    Parameter("options.freeu_s1", float, Words("FreeU s1"), ("--freeu-s1",),
        "Strength of the coarse part of the skip connections in the first stage. Default: 0.9.", ("freeu_s1",), (0, 10), 0.01,
        tip=Words("Strength of the coarse part of the skip connections in the first stage."), neutral=0.9, ours=True,
        pipelines=_UNETS, of=FREEU),
    Parameter("options.freeu_s2", float, Words("FreeU s2"), ("--freeu-s2",),
        "The same in the second stage. Default: 0.2.", ("freeu_s2",), (0, 10), 0.01,
        tip=Words("Strength of the coarse part of the skip connections in the second stage."), neutral=0.2, ours=True,
        pipelines=_UNETS, of=FREEU),
    Parameter("options.freeu_start", float, Words("FreeU start"), ("--freeu-start",),
        "Share of the steps after which it begins, from 0 to 1. Default: 0.", ("freeu_start",), (0, 1), 0.05,
        tip=Words("Share of the steps after which FreeU begins."), neutral=0, ours=True, pipelines=_UNETS, of=FREEU),
    Parameter("options.freeu_end", float, Words("FreeU end"), ("--freeu-end",),
        "Share of the steps after which it ends, from 0 to 1. Default: 1.", ("freeu_end",), (0, 1), 0.05,
        tip=Words("Share of the steps after which FreeU ends."), neutral=1, ours=True, pipelines=_UNETS, of=FREEU),
    Parameter("options.pag_scale", float, Words("PAG scale"), ("--pag",),
        "Perturbed-attention guidance: clearer forms, for a further call of the UNet in each step. 0: off. Usually 3.",
        ("pagi_scale",), (0, 100), 0.1,
        tip=Words("Perturbed-attention guidance: clearer forms, and steps half as long again. 0: off. Usually 3."),
        neutral=0, ours=True, pipelines=_UNETS),
    Parameter("options.pag_attenuation", float, Words("PAG attenuation"), ("--pag-attenuation",),
        "Percent of the PAG scale that each step takes away. Default: 0.", ("pagi_attenuation",), (0, 100), 0.1,
        tip=Words("Percent of the PAG scale that each step takes away."), neutral=0, ours=True, pipelines=_UNETS, of=PAG),
    Parameter("options.pag_start", float, Words("PAG start"), ("--pag-start",),
        "Share of the steps after which it begins, from 0 to 1. Default: 0.", ("pagi_start_step",), (0, 1), 0.05,
        tip=Words("Share of the steps after which PAG begins."), neutral=0, ours=True, pipelines=_UNETS, of=PAG),
    Parameter("options.pag_end", float, Words("PAG end"), ("--pag-end",),
        "Share of the steps after which it ends, from 0 to 1. Default: 1.", ("pagi_end_step",), (0, 1), 0.05,
        tip=Words("Share of the steps after which PAG ends."), neutral=1, ours=True, pipelines=_UNETS, of=PAG),
    Parameter("options.skip_layer_guidance_scale", float, Words("Skip-layer guidance"), ("--skip-layer-guidance",),
        "For SD 3.5: clearer forms, for a call in some steps that leaves out the layers 7, 8 and 9, or those of --option "
        "skip_guidance_layers. Usually 2.8.", ("Skip layer guidance scale",), (0, 10), 0.1,
        tip=Words(
            "Clearer forms with SD 3.5: away from what the model draws without its layers 7, 8 and 9. –: off. Usually 2.8.")),
    Parameter("options.skip_layer_guidance_start", float, Words("Skip-layer guidance start"), ("--skip-layer-guidance-start",),
        "Share of the steps after which it begins. Default: 0.01.", ("Skip layer guidance start",), (0, 1), 0.01,
        tip=Words("Share of the steps after which skip-layer guidance begins."), neutral=0.01),
    Parameter("options.skip_layer_guidance_stop", float, Words("Skip-layer guidance stop"), ("--skip-layer-guidance-stop",),
        "Share of the steps after which it ends. Default: 0.2.", ("Skip layer guidance stop",), (0, 1), 0.01,
        tip=Words("Share of the steps after which skip-layer guidance ends."), neutral=0.2),
    Parameter("options.threshold_scale", float, Words("Dynamic thresholding"), ("--threshold",),
        "Dynamic thresholding: strong guidance with the contrast of this weaker one, the mimic scale. 0: off. Usually 7.",
        ("dynthres_mimic_scale",), (0, 100), 0.5,
        tip=Words("Strong guidance with the contrast of this weaker one, the mimic scale. 0: off. Usually 7."),
        neutral=0, settings=(THRESHOLDING,), pipelines=_UNETS),
    Parameter("options.threshold_percentile", float, Words("Threshold percentile"), ("--threshold-percentile",),
        "Share of the numbers that are not cut off. Default: 1.",
        ("dynthres_threshold_percentile",), (0, 1), 0.01,
        tip=Words("Share of the numbers that dynamic thresholding does not cut off. Usually 0.99 or 1."),
        neutral=1, settings=(THRESHOLDING,), pipelines=_UNETS, of=THRESHOLD),
    Parameter("options.threshold_mode", int, Words("Mimic mode"), ("--threshold-mode",),
        "How the mimic scale changes over the steps. Default: Constant.",
        ("dynthres_mimic_mode",), (0, 11),
        tip=Words("How the mimic scale changes over the steps."),
        neutral=0, settings=(THRESHOLDING,), pipelines=_UNETS, names=_WAYS, of=THRESHOLD),
    Parameter("options.threshold_scale_min", float, Words("Mimic scale minimum"), ("--threshold-min",),
        "The least that the mimic scale comes to. Default: 0.",
        ("dynthres_mimic_scale_min",), (0, 100), 0.5,
        tip=Words("The least that the mimic scale comes to."),
        neutral=0, settings=(THRESHOLDING,), pipelines=_UNETS, of=THRESHOLD),
    Parameter("options.threshold_cfg_mode", int, Words("CFG mode"), ("--threshold-cfg-mode",),
        "How the guidance changes over the steps. Default: Constant.",
        ("dynthres_cfg_mode",), (0, 11),
        tip=Words("How the guidance changes over the steps, with dynamic thresholding."),
        neutral=0, settings=(THRESHOLDING,), pipelines=_UNETS, names=_WAYS, of=THRESHOLD),
    Parameter("options.threshold_cfg_scale_min", float, Words("CFG minimum"), ("--threshold-cfg-min",),
        "The least that the guidance comes to. Default: 0.",
        ("dynthres_cfg_scale_min",), (0, 100), 0.5,
        tip=Words("The least that the guidance comes to, with dynamic thresholding."),
        neutral=0, settings=(THRESHOLDING,), pipelines=_UNETS, of=THRESHOLD),
    Parameter("options.threshold_value", float, Words("Scheduler value"), ("--threshold-value",),
        "The power, or the number of repeats, of such modes. Default: 1.",
        ("dynthres_sched_val",), (0, 100), 0.1,
        tip=Words("The power, or the number of repeats, of modes that have one."),
        neutral=1, settings=(THRESHOLDING,), pipelines=_UNETS, of=THRESHOLD),
    Parameter("options.threshold_together", int, Words("Separate channels"), ("--threshold-channels",),
        "enable or disable: measure each channel of the latents alone. Default: enable.",
        ("dynthres_separate_feature_channels",), (0, 1),
        tip=Words("enable: dynamic thresholding measures each channel of the latents alone."),
        neutral=0, settings=(THRESHOLDING,), pipelines=_UNETS, names=("enable", "disable"), of=THRESHOLD),
    Parameter("options.threshold_startpoint", int, Words("Scaling startpoint"), ("--threshold-startpoint",),
        "MEAN or ZERO: from where the numbers are scaled. Default: MEAN.",
        ("dynthres_scaling_startpoint",), (0, 1),
        tip=Words("From where dynamic thresholding scales the numbers: their mean or zero."),
        neutral=0, settings=(THRESHOLDING,), pipelines=_UNETS, names=("MEAN", "ZERO"), of=THRESHOLD),
    Parameter("options.threshold_variability", int, Words("Variability measure"), ("--threshold-variability",),
        "AD or STD: by the largest number or by the standard deviation. Default: AD.",
        ("dynthres_variability_measure",), (0, 1),
        tip=Words("By what dynamic thresholding measures: AD the largest number, STD the standard deviation."),
        neutral=0, settings=(THRESHOLDING,), pipelines=_UNETS, names=("AD", "STD"), of=THRESHOLD),
    Parameter("options.threshold_phi", float, Words("Interpolate phi"), ("--threshold-phi",),
        "Share of the result, the rest is plain guidance. Default: 1.",
        ("dynthres_interpolate_phi",), (0, 1), 0.05,
        tip=Words("Share of dynamic thresholding in the result; the rest is plain guidance."),
        neutral=1, settings=(THRESHOLDING,), pipelines=_UNETS, of=THRESHOLD),
    Parameter("options.prompt_syntax", int, Words("Prompt syntax"), ("--prompt-syntax",),
        "Halftone, A1111 or ComfyUI: whose rules weights and brackets follow.", ("Prompt syntax",), (0, 2),
        tip=Words("Whose rules weights and brackets in the prompt follow: Halftone's, A1111's or ComfyUI's."), neutral=0,
        ours=True, names=("Halftone", "A1111", "ComfyUI")),
    Parameter("options.emphasis", int, Words("Emphasis"), ("--emphasis",),
        "Original, No norm, Ignore or None: what prompt weights do, as in A1111.", ("Emphasis",), (0, 3),
        tip=Words("What prompt weights do, as in A1111. No norm: the mean changes. Ignore: nothing. None: brackets are text."),
        neutral=0, ours=True, names=("Original", "No norm", "Ignore", "None")),
    Parameter("options.noise_source", int, Words("Noise source"), ("--noise-source",),
        "CPU, NV (A1111's default), ComfyUI, or ComfyUI GPU (for its samplers that end in _gpu).", ("RNG",), (0, 3),
        tip=Words(
            "NV: the noise of an NVIDIA GPU, as A1111 draws it. ComfyUI: as it draws noise with such a GPU. ComfyUI GPU: the "
            "same for its samplers that end in _gpu."
        ),
        neutral=0, ours=True, names=("CPU", "NV", "ComfyUI", "ComfyUI GPU")),
    Parameter("options.eta_noise_seed_delta", int, Words("Eta noise seed delta"), ("--eta-noise-seed-delta", "--ensd"),
        "Added to the seed for the noise that samplers add, as in A1111. Default: 0.", ("ENSD",), (0, 2**31 - 1),
        tip=Words("Added to the seed for the noise that the sampler adds. Only needed to reproduce A1111 pictures."), neutral=0,
        ours=True),
    Parameter("image", str, Words("Image to image"), ("--image",), "The picture for image to image.", arguments=("image",)),
    Parameter("start.strength", float, Words("Denoising strength"), ("--strength", "--denoising-strength"),
        "How much to change the picture, 0.01 to 1.",
        ("Denoising strength",), STRENGTH_RANGE, 0.05, ("strength",)),
    Parameter("start.resize", str, Words("Resize mode"), ("--resize",),
        "For another aspect ratio: stretch, crop or fill.", ("Resize mode",)),
    Parameter("mask", str, Words("Mask"), ("--mask",), "White where to regenerate; same size or aspect ratio.", ("Mask",),
        arguments=("mask_image",)),
    Parameter("start.mask_blur", int, Words("Mask blur"), ("--mask-blur",),
        "In pixels. Default: 4.", ("Mask blur",), MASK_BLUR_RANGE),
    Parameter("start.masked_content", str, Words("Masked content"), ("--masked-content",),
        "What fills the mask at first: original, fill or noise.", ("Masked content",)),
    Parameter("start.only_masked", int, Words("Masked area padding"), ("--only-masked",),
        "Regenerate only the masked area, with this padding in pixels.", ("Masked area padding",), ONLY_MASKED_RANGE,
        arguments=("padding_mask_crop",)),
    Parameter("start.outpaint", str, Words("Outpaint"), ("--outpaint",),
        "Extend the picture: LEFT,TOP,RIGHT,BOTTOM in pixels. Up to five times the mask blur of it changes there.",
        ("Outpaint",)),
    Parameter("vae", str, Words("VAE"), ("--vae",), "A VAE .safetensors file or folder instead of the model's.",
        ("VAE",)),
    Parameter("transformer", str, Words("Transformer"), ("--transformer",),
        "A .gguf or .safetensors file instead of the model's transformer or UNet.", ("Transformer",)),
    Parameter("num_frames", int, Words("Number of frames"), ("--num-frames",), "Frames, for video models.", ("Frames",),
        FRAMES_RANGE, arguments=("num_frames",)),
    Parameter("fps", int, Words("Frames per second"), ("--fps",), "Frames per second. Default: the model's.",
        ("FPS",), FPS_RANGE),
    Parameter("batch", int, Words("Number of pictures"), ("--batch",), "Number of pictures.",
        limits=BATCH_RANGE, arguments=("num_images_per_prompt", "num_videos_per_prompt")),
    Parameter("variation_seed", int, Words("Variation seed"), ("--variation-seed",),
        "The seed whose noise is blended in. Default: random.", ("Variation seed",), SEED_RANGE),
    Parameter("variation_strength", float, Words("Variation strength"), ("--variation-strength",),
        "How much of it to blend in, from 0 to 1.", ("Variation seed strength",), (0, 1), 0.05),
    Parameter("hires.scale", float, Words("Hires. fix scale"), ("--hires",),
        "Upscale by this factor: 1.5, 2 …", ("Hires upscale",), SCALE_RANGE, 0.1),
    Parameter("hires.steps", int, Words("Hires. fix steps"), ("--hires-steps",), "Default: as many as the first pass.",
        ("Hires steps",), STEPS_RANGE),
    Parameter("hires.strength", float, Words("Hires. fix denoising strength"),
        ("--hires-strength",),
        "How much to change, from 0 to 1. Default: 0.7 with latent, else 0.4.", ("Hires denoising strength",),
        STRENGTH_RANGE, 0.05),
    Parameter("refiner.at", float, Words("Refiner switch point"), ("--refiner-at",),
        "How far the base model goes, from 0.01 to 0.99. Default: 0.8.", ("Refiner switch at",),
        REFINER_AT_RANGE, 0.01),
)
# fmt: on
"""In the order of the terminal's help."""

BY_FIELD: Final = {one.field: one for one in PARAMETERS}
OPTION_PARAMETERS: Final = {one.name: one for one in PARAMETERS if one.is_option}
"""Those that are entries of the request's options, by their names there."""
SAMPLER_OPTIONS: Final = {name: one for name, one in OPTION_PARAMETERS.items() if one.settings}
"""Those of them that the sampler takes, and not the pipeline."""
OUR_OPTIONS: Final = frozenset(name for name, one in OPTION_PARAMETERS.items() if one.settings or one.ours)
"""Those of them that no pipeline takes."""
EMPHASIS: Final = "emphasis"
PROMPT_SYNTAX: Final = "prompt_syntax"
NOISE_SOURCE: Final = "noise_source"
NOISE_OF_NVIDIA: Final = 1
NOISE_OF_COMFYUI: Final = (2, 3)
"""Numbers of `NOISE_SOURCE`; the second of ComfyUI's is that of its samplers that end in _gpu."""
NOISE_SEED_DELTA: Final = "eta_noise_seed_delta"
COMFYUI_SYNTAX: Final = 2
"""The number of `PROMPT_SYNTAX` whose weights act in one way only."""


def option_numbers(holder: object) -> dict[str, int | float]:
    """The options with a row here that are not neutral: name -> number, as the user counts."""
    numbers = ((one, one.number(holder)) for one in OPTION_PARAMETERS.values())
    return {one.name: number for one, number in numbers if number is not None and number != one.neutral}


def option_flag(name: str) -> str:
    """An option's name in a refusal: its own flag where it has one."""
    return OPTION_PARAMETERS[name].flags[0] if name in OPTION_PARAMETERS else name


def option_value(options: Mapping[str, Any], name: str) -> float:
    """A number among the options, or the one that it is where it is not given."""
    return options.get(name, OPTION_PARAMETERS[name].neutral)


def idle_options(options: Mapping[str, Any]) -> frozenset[str]:
    """Those that say nothing, because the option that they belong to is not set, or another one overrules them."""
    of = ((name, OPTION_PARAMETERS[name].of) for name in options if name in OPTION_PARAMETERS)
    alone = {name for name, other in of if other and not options.get(other)}
    return frozenset(alone | overruled(options).keys())


def overruled(options: Mapping[str, Any]) -> dict[str, str]:
    """Options that do nothing because of another one -> that one."""
    comfy = options.get(PROMPT_SYNTAX) == COMFYUI_SYNTAX
    return {EMPHASIS: PROMPT_SYNTAX} if comfy and options.get(EMPHASIS) else {}
