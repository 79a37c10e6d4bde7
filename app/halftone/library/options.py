"""The further arguments of `--option` that the pipelines of the known families take, without loading them.

The table is of diffusers 0.37 and newer; `tests/torch/test_options.py` compares it with their signatures.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import (
    NOISE_SEED_DELTA,
    OPTION_PARAMETERS,
    OUR_OPTIONS,
    SAMPLER_OPTIONS,
    idle_options,
    option_flag,
    overruled,
)
from halftone.contract.request import OptionValue
from halftone.contract.wording import Words, either
from halftone.library.sampler_options import takes_seed_delta
from halftone.library.samplers import OWN_OPTIONS, takes_solver_option

Kind = Literal["number", "whole number", "text", "switch", "list"]

_NAMES: Final[dict[Kind, str]] = {
    "number": "aesthetic_score denoising_end denoising_start eta guidance_rescale max_guidance_scale min_guidance_scale mu "
    "negative_aesthetic_score noise_aug_strength skip_layer_guidance_scale skip_layer_guidance_start "
    "skip_layer_guidance_stop true_cfg_scale",
    "switch": "clean_caption use_resolution_binning",
    "whole number": "clip_skip decode_chunk_size fps max_sequence_length motion_bucket_id",
    "list": "complex_human_instruction crops_coords_top_left negative_crops_coords_top_left negative_original_size "
    "negative_target_size original_size sigmas skip_guidance_layers target_size timesteps",
    "text": "negative_prompt_2 negative_prompt_3 prompt_2 prompt_3",
}
KINDS: Final[dict[str, Kind]] = dict(sorted((name, kind) for kind, names in _NAMES.items() for name in names.split()))
_SIZES: Final = "original_size crops_coords_top_left target_size"
_NEGATIVE_SIZES: Final = "negative_original_size negative_crops_coords_top_left negative_target_size"
_TIMES: Final = "timesteps sigmas"
_SDXL: Final = f"prompt_2 negative_prompt_2 eta guidance_rescale clip_skip denoising_end {_TIMES} {_SIZES} {_NEGATIVE_SIZES}"
_SDXL_FROM: Final = f"{_SDXL} denoising_start aesthetic_score negative_aesthetic_score"
_SD3: Final = "prompt_2 prompt_3 negative_prompt_2 negative_prompt_3 clip_skip max_sequence_length mu sigmas"
_SD3_SKIPS: Final = "skip_guidance_layers skip_layer_guidance_scale skip_layer_guidance_start skip_layer_guidance_stop"
_SVD: Final = "fps motion_bucket_id noise_aug_strength min_guidance_scale max_guidance_scale decode_chunk_size sigmas"
_FLUX: Final = "prompt_2 negative_prompt_2 true_cfg_scale max_sequence_length sigmas"
OPTIONS: Final[dict[str, frozenset[str]]] = {
    pipeline: frozenset(names.split())
    for pipeline, names in {
        "StableDiffusionPipeline": f"eta guidance_rescale clip_skip {_TIMES}",
        "StableDiffusionImg2ImgPipeline": f"eta clip_skip {_TIMES}",
        "StableDiffusionInpaintPipeline": f"eta clip_skip {_TIMES}",
        "StableDiffusionXLPipeline": _SDXL,
        "StableDiffusionXLImg2ImgPipeline": _SDXL_FROM,
        "StableDiffusionXLInpaintPipeline": _SDXL_FROM,
        "StableDiffusion3Pipeline": f"{_SD3} {_SD3_SKIPS}",
        "StableDiffusion3Img2ImgPipeline": _SD3,
        "StableDiffusion3InpaintPipeline": _SD3,
        "SanaPipeline": f"eta clean_caption use_resolution_binning max_sequence_length complex_human_instruction {_TIMES}",
        "FluxPipeline": _FLUX,
        "FluxImg2ImgPipeline": _FLUX,
        "FluxInpaintPipeline": _FLUX,
        "StableVideoDiffusionPipeline": _SVD,
    }.items()
}
SCHEDULE: Final = ("timesteps", "sigmas")
"""Each sets the steps alone, and how many there are."""
_BOTH: Final = "CogView4"
"""Its pipelines take one together with the other."""
CLIP_SKIP: Final = "clip_skip"
_OF_A_PICTURE: Final = ("StableVideoDiffusionPipeline",)
"""Pipelines that take a picture themselves, and make several of it."""
_TASKS: Final = ("Img2ImgPipeline", "InpaintPipeline")
_ACCEPTS: Final[dict[Kind, tuple[type, ...]]] = {
    "number": (int, float),
    "whole number": (int,),
    "text": (str, int, float),
    "switch": (bool,),
    "list": (list,),
}
_ALLOWED: Final[dict[Kind, Words]] = {
    "number": Words("a number"),
    "whole number": Words("a whole number"),
    "switch": Words("true or false"),
    "text": Words("text"),
    "list": Words('a list, such as ["a", "b"] or [1, 2]'),
}


NAMES: Final = frozenset((*KINDS, *OUR_OPTIONS))
"""All options."""


def typed(names: Iterable[str]) -> tuple[str, ...]:
    """Options as they are typed on a command line: those without a flag of their own follow `--option`."""
    flags = {name: option_flag(name) for name in names}
    own = sorted(flag for flag in flags.values() if flag.startswith("--"))
    return (*own, *(f"--option {name}=VALUE" for name, flag in sorted(flags.items()) if not flag.startswith("--")))


def takes_option(facts: ModelFacts, name: str) -> bool:
    """Whether the model's pipeline or some sampler of it takes it; an unknown pipeline may take anything."""
    return name in _taken(facts.pipeline)


@lru_cache(maxsize=64)
def _taken(pipeline: str) -> Collection[str]:
    """Options of a pipeline and its samplers, all of them where the pipeline is not known."""
    of_samplers = {name for name, one in SAMPLER_OPTIONS.items() if pipeline.startswith(one.pipelines)}
    of_all = {name for name, one in OPTION_PARAMETERS.items() if one.ours and pipeline.startswith(one.pipelines or "")}
    return frozenset(OPTIONS[pipeline] | of_samplers | of_all) if pipeline in OPTIONS else NAMES


def check_options(
    facts: ModelFacts, options: Mapping[str, OptionValue], *, image: bool, mask: bool, num_frames: bool = False
) -> None:
    """Raise option-unknown or setting-bad-value for what the model's pipeline does not take; an unknown pipeline may take
    anything. image, mask, num_frames: whether they are set; with a picture or a mask a sibling of the pipeline runs.
    """
    own = facts.pipeline
    check_one_schedule(own, options)
    check_belonging(options)
    if own not in OPTIONS:
        return
    running = _running(own, image=image, mask=mask)
    if running not in OPTIONS:
        raise HalftoneError("start-no-mask" if mask else "start-no-picture", model=facts.name)
    known = _taken(running)
    if num_frames and own not in _OF_A_PICTURE:
        raise HalftoneError("option-unknown", name="--num-frames", known=typed(known))
    for name, value in options.items():
        if name not in known and name in _taken(own):
            beside = Words("used with a mask") if mask else Words("used with image to image")
            raise HalftoneError("setting-bad-value", name=option_flag(name), value=beside, allowed=Words("one of the two"))
        if name not in known:
            raise HalftoneError("option-unknown", name=option_flag(name), known=typed(known))
        check_kind(name, value, (KINDS.get(name, "number"),))


def _running(own: str, *, image: bool, mask: bool) -> str:
    """Name the pipeline that runs: with a picture or a mask it is a sibling of the model's own."""
    task = _TASKS[1] if mask else _TASKS[0] if image and own not in _OF_A_PICTURE else None
    return own if task is None or own.endswith(_TASKS) else own.removesuffix("Pipeline") + task


def known_options(
    facts: ModelFacts, sampler: str | None, options: Mapping[str, OptionValue], *, image: bool, mask: bool
) -> Collection[str]:
    """Return the names that the pipeline takes which runs with these, and that do something with the sampler; all of them where
    it is not known. sampler: the wanted one, None for the model's own. options: those that are wanted.
    """
    taken = _taken(_running(facts.pipeline, image=image, mask=mask))
    lacking = {name for name in OWN_OPTIONS if not takes_solver_option(sampler, name, facts.samplers)}
    if not takes_seed_delta(facts, sampler, options):
        lacking.add(NOISE_SEED_DELTA)
    return {name for name in taken if name not in lacking}


def over(options: Mapping[str, OptionValue], others: Mapping[str, OptionValue], pipeline: str) -> dict[str, OptionValue]:
    """Put options over others, and drop those of the others that set the steps in another way."""
    replaced = () if pipeline.startswith(_BOTH) or not set(SCHEDULE) & options.keys() else SCHEDULE
    return {name: value for name, value in others.items() if name not in replaced} | dict(options)


def check_one_schedule(pipeline: str, options: Mapping[str, OptionValue]) -> None:
    """Raise setting-bad-value for timesteps together with sigmas."""
    if all(options.get(name) is not None for name in SCHEDULE) and not pipeline.startswith(_BOTH):
        value, allowed = Words("timesteps together with sigmas"), Words("one of the two: each says alone how the steps lie")
        raise HalftoneError("setting-bad-value", name="--option", value=value, allowed=allowed)


def check_belonging(options: Mapping[str, OptionValue]) -> None:
    """Raise setting-bad-value for an option without the one that it belongs to, or with one that overrules it."""
    for name, other in overruled(options).items():
        one, choice = OPTION_PARAMETERS[other], options[other]
        chosen = one.text(choice) if isinstance(choice, int) else None
        value = Words("used with {0} {1}", (one.flags[0], chosen or str(choice)))
        raise HalftoneError("setting-bad-value", name=option_flag(name), value=value, allowed=Words("one of the two"))
    for name in sorted(idle_options(options)):
        flag, other = option_flag(name), option_flag(OPTION_PARAMETERS[name].of)
        value, allowed = Words("set without {0}", (other,)), Words("{0} with it, or neither", (other,))
        raise HalftoneError("setting-bad-value", name=flag, value=value, allowed=allowed)


def check_kind(name: str, value: OptionValue, kinds: Sequence[Kind]) -> None:
    """Raise setting-bad-value for a value that is of none of these kinds."""
    if not any(isinstance(value, bool) == (kind == "switch") and isinstance(value, _ACCEPTS[kind]) for kind in kinds):
        allowed = either(*(_ALLOWED[kind] for kind in kinds))
        raise HalftoneError("setting-bad-value", name=f"--option {name}", value=str(value), allowed=allowed)
