"""Pictures whose step fails: one layer of the denoiser gives bad numbers in half precision, from a call on."""

import math
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tests.helpers.engine_runs import generate

from halftone.contract.facts import PictureFacts
from halftone.contract.vocabulary import OnBlack
from halftone.engine.service import DiffusersEngine
from halftone.settings.places import data_dir

LAYER = "mid_block.resnets.0.conv1"


@contextmanager
def failing(engine: DiffusersEngine, after: int = 0) -> Generator[None]:
    """One layer fails in float16 from its call `after` on; a model must be in memory. What is known of cures is forgotten."""
    shutil.rmtree(data_dir() / "cures", ignore_errors=True)
    assert engine.loaded is not None
    calls: list[int] = []

    def strike(module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        calls.append(1)
        return output * math.nan if len(calls) > after and module.weight.dtype == torch.float16 else None

    handle = engine.loaded.modules["unet"].get_submodule(LAYER).register_forward_hook(strike)
    try:
        yield
    finally:
        handle.remove()


def stopped(engine: DiffusersEngine, model: Path, after: int = 3, on_black: OnBlack = "stop", **changes: Any) -> PictureFacts:
    """The picture that was left where call `after` failed, as the setting says."""
    generate(engine, model, "float16", steps=1)
    with failing(engine, after):
        report, _ = generate(engine, model, "float16", on_black=on_black, steps=6, **changes)
    return report.images[-1]
