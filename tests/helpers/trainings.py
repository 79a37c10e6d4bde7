"""Trainings of LoRAs on tiny models: pictures, a control that answers, and the run itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from PIL import Image
from safetensors.torch import load_file
from tests.helpers import tiny
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import Recorder
from transformers import T5Config, T5EncoderModel

from halftone.contract.engine import Emit
from halftone.contract.errors import JobCancelled
from halftone.contract.messages import AnyEvent, Decide, Train
from halftone.contract.training import TrainConfig, TrainCure, TrainReport
from halftone.training.service import TrainingEngine

FRAGILE_CURE: Final[TrainCure] = "float32-block" if DEVICE.type == "cpu" else "float32-module"
"""What cures the fragile twin's training in float16. A convolution makes numbers that only float32 holds, and a norm takes them:
autocast computes norms in float32 but on a processor, where that layer alone in float32 has to give narrow numbers to the norm.
"""


def flux() -> Any:
    """A tiny FLUX.1 dev: guided, its latents in patches, its times shifted by the number of them."""
    text = T5EncoderModel(T5Config(vocab_size=128, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=2))
    return FluxPipeline(
        transformer=FluxTransformer2DModel(
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=32,
            pooled_projection_dim=tiny.WIDTH,
            guidance_embeds=True,
            axes_dims_rope=(4, 6, 6),
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=tiny.vae(shift=0.1),
        text_encoder=tiny.clip_text(),
        tokenizer=tiny.clip_tokenizer(),
        text_encoder_2=text,
        tokenizer_2=tiny.t5_tokenizer(),
    )


def draw_pictures(folder: Path, count: int = 4, *, wide: int = 0) -> Path:
    """Pictures of 32 x 32 with captions; the first `wide` of them of 40 x 30."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(4)
    for index in range(count):
        size = (40, 30) if index < wide else (32, 32)
        coarse = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(folder / f"{index}.png")
        (folder / f"{index}.txt").write_text(f"a hill {index}", encoding="utf-8")
    return folder


def tiny_training(folder: Path, **changes: Any) -> TrainConfig:
    """Four steps on a tiny SD 1.5 with three pictures, both made in the folder; its output has to be set."""
    model, pictures = tiny.save_tiny(folder / "tiny", "sd15"), draw_pictures(folder / "pictures", 3)
    plain = TrainConfig(
        model=str(model), pictures=str(pictures), output="", precision="float32", rank=2, steps=4, batch=1, test_every=0
    )
    return msgspec.structs.replace(plain, **changes)


def same_weights(one: TrainReport, other: TrainReport) -> bool:
    """Bit by bit, of their LoRAs."""
    first, second = load_file(one.path), load_file(other.path)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


class Killed(BaseException):
    """The process is gone."""


class Directed(Recorder):
    """Records events, and does something after one of a kind."""

    def __init__(self, on: Callable[[AnyEvent], object] = lambda _: None) -> None:
        super().__init__()
        self._on = on

    def __call__(self, event: AnyEvent, blob: bytes = b"") -> None:
        super().__call__(event, blob)
        self._on(event)


class Control:
    """The flags of a job."""

    def __init__(self) -> None:
        self.cancel = self.keeps = self.holds = False
        self.answers: list[Decide] = []

    def cancelled(self) -> bool:
        return self.cancel

    def keep(self) -> bool:
        return self.keeps

    def held(self) -> bool:
        return self.holds

    def choice(self) -> Decide | None:
        return self.answers.pop(0) if self.answers else None

    def check(self) -> None:
        if self.cancel:
            raise JobCancelled


def train(
    config: TrainConfig, emit: Emit | None = None, control: Control | None = None, *, resume: Path | None = None
) -> TrainReport:
    """With an engine of its own, as a fresh process would have one."""
    command = Train(job="t", config=config, resume=None if resume is None else str(resume))
    return TrainingEngine().train(command, emit or Recorder(), control or Control())
