"""Each task of a family against a plain call of diffusers: same prompt, seed, steps and size, in float32, all frames.

The plain pipeline is loaded by diffusers' own `from_pretrained` and knows nothing of Halftone. Inpainting is compared where the
mask is white: elsewhere Halftone lays the start picture over the result, which diffusers does not do.
"""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import diffusers
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.bench.families.table import Case, Task
from tests.helpers.engine_runs import Recorder, Steady

from halftone.contract.messages import Load
from halftone.contract.request import Numerics, PictureRequest, Start
from halftone.engine.making.delivery import Delivery
from halftone.engine.making.generate import Generation
from halftone.engine.making.job import Job
from halftone.engine.making.outcome import Finished
from halftone.engine.making.prepared import prepare
from halftone.engine.service import DiffusersEngine
from halftone.measure.devices import find_device

Frames = NDArray[np.uint8]
"""(frames, height, width, 3)."""
ENOUGH: Final = 50.0
"""Decibels from which two pictures count as the same."""
SAME: Final = float("inf")
NEGATIVES: Final[tuple[str | None, ...]] = (None, "")
SEED: Final = 5
_BESIDE: Final[Mapping[str, tuple[str, str]]] = {
    "ChromaPipeline": ("ChromaImg2ImgPipeline", "ChromaInpaintPipeline"),
    "FluxKontextPipeline": ("FluxKontextPipeline", "FluxKontextInpaintPipeline"),
    "Flux2KleinPipeline": ("Flux2KleinPipeline", "Flux2KleinInpaintPipeline"),
    "LTXPipeline": ("LTXImageToVideoPipeline", ""),
    "SanaSprintPipeline": ("SanaSprintImg2ImgPipeline", ""),
}
"""What starts from a picture, and from a picture and a mask, where diffusers' AutoPipelines do not know it."""
_AUTO: Final = {"picture": "AutoPipelineForImage2Image", "mask": "AutoPipelineForInpainting"}
_ARGUMENT: Final = {"picture": "image", "mask": "mask_image"}


def compared(
    prompt: str, case: Case, engine: DiffusersEngine, model: Path, original: Path, task: Task, given: tuple[Path, Path]
) -> str:
    """The worst over the negative prompts. original: the folder as diffusers saved it. Raises AssertionError below ENOUGH."""
    pipe = plain_pipeline(original, task, case.parts(model))
    found: dict[str, float] = {}
    for negative in NEGATIVES:
        wanted = plain_frames(pipe, arguments(pipe, prompt, case, task, negative, given))
        made = halftone_frames(engine, request_of(prompt, case, model, task, negative, given))
        if task == "mask":
            wanted = _scaled(wanted, made.shape[2], made.shape[1])
        assert made.shape == wanted.shape, f"{made.shape} where diffusers gives {wanted.shape}"
        seen = np.asarray(Image.open(given[1]).convert("L")) == 255 if task == "mask" else np.True_
        found["absent" if negative is None else "empty"] = decibels(made, wanted, np.broadcast_to(seen, made.shape[1:3]))
    said = ", ".join(f"{name} {value:.0f}" for name, value in found.items() if value < ENOUGH)
    assert not said, f"dB from plain diffusers, negative prompt {said}"
    return f"{min(found.values()):.0f} dB"


def request_of(
    prompt: str, case: Case, model: Path, task: Task, negative: str | None, given: tuple[Path, Path]
) -> PictureRequest:
    return PictureRequest(
        prompt=prompt,
        negative=negative or "",
        empty_negative=negative == "",
        model=str(model),
        width=case.size,
        height=case.size,
        steps=steps_of(case, task),
        seed=SEED,
        num_frames=case.frames,
        image=None if task == "text" else str(given[0]),
        mask=str(given[1]) if task == "mask" else None,
        start=Start(mask_blur=0),
        options=case.options,
        numerics=Numerics(precision="float32"),
    )


def steps_of(case: Case, task: Task) -> int:
    """With half the strength at least one of them is computed."""
    return 2 if task == "text" or case.frames else 4


def halftone_frames(engine: DiffusersEngine, request: PictureRequest) -> Frames:
    """What Halftone would write into the file, before any compression."""
    engine.load(Load(model=request.model, numerics=request.numerics), Recorder())
    assert engine.loaded is not None
    emit = Recorder()
    delivery = _Kept(request, engine.loaded.facts, emit, None, {})
    job = Job(request, find_device("cpu"), None, emit, Steady(), (), lambda: False)
    Generation(prepare(engine.loaded, job), job, delivery=delivery).run()
    return delivery.frames


class _Kept(Delivery):
    """Keeps the frames in the place of a file."""

    frames: Frames

    def save(self, made: Finished) -> None:
        self.frames = np.stack([made.film[index] for index in range(len(made.film))])


def plain_pipeline(folder: Path, task: Task, parts: Mapping[str, Any]) -> Any:
    """parts: those that `from_pretrained` cannot load here."""
    given: dict[str, Any] = {"local_files_only": True, "torch_dtype": torch.float32, **parts}
    own = diffusers.DiffusionPipeline.from_pretrained(folder, **given)
    if task != "text" and _ARGUMENT[task] not in inspect.signature(own.__call__).parameters:
        beside = _BESIDE.get(type(own).__name__)
        kind = _AUTO[task] if beside is None else beside[0 if task == "picture" else 1]
        own = getattr(diffusers, kind).from_pretrained(folder, **given)
    if type(own).__name__ == "ChromaInpaintPipeline":  # diffusers 0.42 cannot run it: it asks for an entry that Chroma lacks
        own.transformer.register_to_config(guidance_embeds=False)
    own.set_progress_bar_config(disable=True)
    return own


def arguments(pipe: Any, prompt: str, case: Case, task: Task, negative: str | None, given: tuple[Path, Path]) -> dict[str, Any]:
    """Only what the pipeline knows; a negative prompt that is absent is not named at all."""
    wanted: dict[str, Any] = {
        "prompt": prompt,
        "width": case.size,
        "height": case.size,
        "num_inference_steps": steps_of(case, task),
        "num_frames": case.frames,
        "negative_prompt": negative,
        **case.options,
    }
    if task != "text":
        wanted["image"] = Image.open(given[0]).convert("RGB")
    if task == "mask":
        wanted["mask_image"] = Image.open(given[1]).convert("L")
    known = inspect.signature(pipe.__call__).parameters
    found = {name: value for name, value in wanted.items() if name in known and value is not None}
    if "intermediate_timesteps" in known and found["num_inference_steps"] != 2:
        found["intermediate_timesteps"] = None  # the default is for two steps alone
    return found


def plain_frames(pipe: Any, given: Mapping[str, Any]) -> Frames:
    made = pipe(**given, generator=torch.Generator("cpu").manual_seed(SEED), output_type="np")
    frames = made.images if hasattr(made, "images") else made.frames
    array = np.asarray(frames)
    array = array[0] if array.ndim == 5 else array
    return (array * 255).round().astype(np.uint8)


def _scaled(frames: Frames, width: int, height: int) -> Frames:
    """As they are laid over a start picture of that size: some pipelines bring every picture to a megapixel."""
    sized = [Image.fromarray(frame).resize((width, height), Image.Resampling.LANCZOS) for frame in frames]
    return frames if frames.shape[1:3] == (height, width) else np.stack([np.asarray(frame) for frame in sized])


def decibels(made: Frames, wanted: Frames, seen: NDArray[np.bool_]) -> float:
    """Peak signal to noise over all frames. seen: (height, width), where they are compared."""
    off = float(((made.astype(np.float64) - wanted)[:, seen] ** 2).mean())
    return SAME if off == 0 else 10 * float(np.log10(255**2 / off))
