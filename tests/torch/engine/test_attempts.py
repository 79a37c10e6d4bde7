"""A cure that the model cannot be run with is refused; the job goes on with the next, unless nothing can."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from tests.helpers.engine_runs import check, faulty_copy, generate

from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.engine.service import DiffusersEngine
from halftone.health.faults import ends_the_job

UNABLE = "mat1 and mat2 must have the same dtype, but got Half and Float"


@pytest.fixture(scope="module")
def fragile(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faulty_copy(models["sd15"], tmp_path_factory.mktemp("fragile") / "faulty", "vae", "stream of decoder", 16)


@contextmanager
def _failing(engine: DiffusersEngine, wrong: Callable[[torch.Tensor, float], bool], error: Exception) -> Generator[None]:
    """The decoder raises while its first weight is `wrong`, given that and its peak now."""
    assert engine.loaded is not None
    first = engine.loaded.modules["vae"].get_submodule("decoder.conv_in")
    peak = float(first.get_parameter("weight").abs().max())

    def look(_module: torch.nn.Module, _args: object) -> None:
        if wrong(first.get_parameter("weight"), peak):
            raise error

    handle = first.register_forward_pre_hook(look)
    try:
        yield
    finally:
        handle.remove()


def _narrow(weight: torch.Tensor, _peak: float) -> bool:
    return weight.dtype == torch.bfloat16


def _rescaled(weight: torch.Tensor, peak: float) -> bool:
    return weight.dtype == torch.float16 and float(weight.abs().max()) < peak / 2


def test_a_check_refuses_a_cure_that_cannot_be_run(fragile: Path) -> None:
    engine = DiffusersEngine()
    generate(engine, fragile, steps=1)
    with _failing(engine, _narrow, RuntimeError(UNABLE)):
        report, _ = check(engine, fragile, depth="thorough", prompt="a red sun", steps=1)
    cures = {cure.kind: cure for cure in report.cures}
    assert report.verdict == "fixable"
    assert str(cures["bfloat16"].refusal) == "The model cannot be run with it."
    assert (cures["bfloat16"].plan.verified, cures["bfloat16"].time_ratio) == (False, None)
    assert cures["float32-component"].refusal is None, "what follows is tried all the same"


def test_a_picture_is_cured_by_the_next_cure(fragile: Path) -> None:
    engine = DiffusersEngine()
    generate(engine, fragile, steps=1)
    with _failing(engine, _rescaled, RuntimeError(UNABLE)):
        report, _ = generate(engine, fragile, "float16", steps=1)
    assert report.images[0].state == "recovered"
    assert report.images[0].events[0].cure == "upcast-region"


def test_cancelling_ends_a_cure_and_the_job(fragile: Path) -> None:
    engine = DiffusersEngine()
    generate(engine, fragile, steps=1)
    with _failing(engine, _rescaled, JobCancelled()), pytest.raises(JobCancelled):
        generate(engine, fragile, "float16", steps=1)
    check(engine, fragile)
    with _failing(engine, _rescaled, JobCancelled()), pytest.raises(JobCancelled):
        check(engine, fragile)


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (HalftoneError("model-too-large"), True),
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("CUDA error: device-side assert triggered"), True),
        (RuntimeError(UNABLE), False),
        (AttributeError("no attribute 'net'"), False),
    ],
)
def test_what_nothing_helps_against_ends_the_job(error: Exception, ends: bool) -> None:
    assert ends_the_job(error) == ends
