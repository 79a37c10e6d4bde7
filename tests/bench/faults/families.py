"""Tiny random pipelines of many architectures, saved as diffusers folders and proven sound by plain torch."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from diffusers import DiffusionPipeline
from tests.bench.faults import architectures as more
from tests.bench.faults import truth, videos
from tests.helpers import tiny

from halftone.contract.request import OptionValue

PROMPT: Final = "a red sun"
STEPS: Final = 3
SEED: Final = 5
CLOSE: Final = 40.0
"""dB that a sound model's picture keeps in float16."""


@dataclass(frozen=True)
class Family:
    """build: the pipeline with fresh random weights. options: arguments its pipeline needs beyond prompt, size and steps.

    negative: whether the pipeline takes a negative prompt.
    """

    name: str
    build: Callable[[], Any]
    options: dict[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    size: int = 32
    guidance: float | None = None
    frames: int | None = None


FAMILIES: Final = {
    family.name: family
    for family in (
        Family("sd15", tiny.sd15),
        Family("sdxl", tiny.sdxl),
        Family("sd3", tiny.sd3, {"max_sequence_length": 32}),
        Family("sana", tiny.sana, {"max_sequence_length": 32, "use_resolution_binning": False}),
        Family("sd2", more.sd2),
        Family("flux", more.flux, {"max_sequence_length": 32}),
        Family("chroma", more.chroma, {"max_sequence_length": 32}),
        Family("pixart", more.pixart, {"max_sequence_length": 32, "use_resolution_binning": False}),
        Family("hunyuandit", more.hunyuandit, {"use_resolution_binning": False}, size=64),
        Family("lumina2", more.lumina2, {"max_sequence_length": 192}),
        Family("auraflow", more.auraflow, {"max_sequence_length": 32}),
        Family("qwen-image", videos.qwen_image, {"max_sequence_length": 256}),
        Family("hunyuan-image", videos.hunyuan_image),
        Family("kandinsky3", videos.kandinsky3),
        Family("kandinsky22", videos.kandinsky22),
        Family("cogview4", more.cogview4, {"max_sequence_length": 32}),
        Family("z-image", more.z_image, {"max_sequence_length": 64}),
        Family("wan", videos.wan, {"max_sequence_length": 32}, frames=5),
        Family("ltx", videos.ltx, {"max_sequence_length": 32}, frames=9),
        Family("cogvideox", videos.cogvideox, {"max_sequence_length": 16}, frames=9),
    )
}


@dataclass
class Sound:
    """A sound model of a family: its folder, the pipeline in float32, what it did, and its peaks by component and module."""

    family: Family
    folder: Path
    pipe: Any
    run: truth.Run
    peaks: dict[tuple[str, str], float]
    halves: dict[str, torch.nn.Module]


def arguments(family: Family, size: int | None = None, guidance: float | None = None) -> dict[str, Any]:
    """What the pipeline is called with, beside the generator."""
    edge = size or family.size
    found: dict[str, Any] = {"prompt": PROMPT, "width": edge, "height": edge, "num_inference_steps": STEPS, **family.options}
    if family.frames is not None:
        found["num_frames"] = family.frames
    if guidance is not None or family.guidance is not None:
        found["guidance_scale"] = family.guidance if guidance is None else guidance
    return found | {"generator": torch.Generator("cpu").manual_seed(SEED)}


def load(folder: Path) -> Any:
    """The folder as diffusers itself loads it, in float32."""
    pipe = DiffusionPipeline.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    for module in truth.networks(pipe).values():
        module.eval().requires_grad_(False)
    return pipe


def make_sound(family: Family, folder: Path, seed: int) -> Sound:
    """A model with random weights that is truly sound; further seeds are drawn until one is. Raises RuntimeError."""
    complaint = ""
    for attempt in range(8):
        torch.manual_seed(1000 * attempt + seed)
        pipe = family.build()
        for module in truth.networks(pipe).values():
            tiny.liven(module)
        target = folder / f"{family.name}-{seed}-{attempt}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pipe.save_pretrained(target)
            pipe = load(target)
        run, peaks = truth.peaks(pipe, arguments(family))
        halves = {name: truth.in_float16(module, target / name) for name, module in truth.networks(pipe).items()}
        sound = Sound(family, target, pipe, run, peaks, halves)
        complaint = unsound(sound)
        if not complaint:
            return sound
    raise RuntimeError(f"no sound model of {family.name}: {complaint}")


def unsound(sound: Sound) -> str:
    """Why a model is not sound, "" if it is: finite and close in float16, four bits of room, and a picture that is not flat."""
    picture = sound.run.picture
    spread = float((picture.amax((0, 1)) - picture.amin((0, 1))).max())
    if not truth.finite(picture) or spread < 0.1:
        return f"the picture is flat (spread {spread:.3f})"
    name, peak = max(sound.peaks.items(), key=lambda pair: pair[1])
    if not peak < truth.LIMIT / 16:
        return f"{name} peaks at {peak:.0f}"
    for component, module in sound.halves.items():
        found = truth.fate(component, module, sound.run.calls)
        if found.module is not None or found.error > truth.WRONG / 4:
            return f"in float16: {found}"
    closeness = truth.psnr(picture, truth.run_beside(sound.pipe, arguments(sound.family), sound.halves))
    return "" if closeness > CLOSE else f"float16 alone changes the picture ({closeness:.1f} dB)"
