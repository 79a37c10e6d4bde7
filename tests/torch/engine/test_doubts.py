"""What goes bad once, or in memory, is no finding about the model, and the check goes on without it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.engine_runs import check, generate
from torch import nn

from halftone.contract.facts import Finding
from halftone.contract.words import DType
from halftone.engine.checks.doubts import Doubts
from halftone.engine.loading.load import exact_source
from halftone.engine.loading.plans import streamed
from halftone.engine.service import DiffusersEngine

LAYER = "mid_block.resnets.0.conv1"


@contextmanager
def struck(layer: nn.Module, strike: Callable[[nn.Module, torch.Tensor], object], dtype: torch.dtype) -> Generator[None]:
    """Does something to the layer and its result when it first gives one of this type."""
    done: list[int] = []

    def hook(module: nn.Module, _args: Any, output: torch.Tensor) -> None:
        if output.dtype == dtype and not done:
            done.append(1)
            strike(module, output)

    handle = layer.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
    assert done


def weights_to(value: float) -> Callable[[nn.Module, torch.Tensor], object]:
    def strike(module: nn.Module, output: torch.Tensor) -> None:
        module.get_parameter("weight").data.fill_(value)
        output.fill_(value)

    return strike


def result_to(value: float) -> Callable[[nn.Module, torch.Tensor], object]:
    return lambda _module, output: output.fill_(value)


def layer_of(engine: DiffusersEngine) -> nn.Module:
    assert engine.loaded is not None
    return engine.loaded.modules["unet"].get_submodule(LAYER)


def checked(
    engine: DiffusersEngine, model: Path, precision: DType, strike: Callable[[nn.Module, torch.Tensor], object]
) -> Finding:
    """A check in which the layer is struck, and the one finding; the model itself has no fault."""
    generate(engine, model, precision)
    with struck(layer_of(engine), strike, getattr(torch, precision)):
        report, _ = check(engine, model, precision)
    (found,) = (one for one in report.findings if one.code != "tight")
    assert found.code == "memory-damage"
    assert report.verdict in ("healthy", "tight")
    assert not report.cures
    return found


BAD = pytest.mark.parametrize(("precision", "value"), [("float32", float("nan")), ("float16", float("nan")), ("float16", 3e4)])
"""A finite number in FP32 itself, which the others are compared with, cannot be told from a right one."""


@BAD
def test_weights_that_go_bad_in_memory_are_read_again(
    engine: DiffusersEngine, models: dict[str, Path], precision: DType, value: float
) -> None:
    damage = checked(engine, models["sd15"], precision, weights_to(value))
    assert (damage.component, damage.module) == ("unet", LAYER)
    assert damage.facts["tensor"] == f"{LAYER}.weight"
    assert layer_of(engine).get_parameter("weight").isfinite().all()


@BAD
def test_a_result_that_goes_bad_once_is_not_the_models(
    engine: DiffusersEngine, models: dict[str, Path], precision: DType, value: float
) -> None:
    once = checked(engine, models["sd15"], precision, result_to(value))
    assert (once.component, once.facts) == ("unet", {"once": True})
    assert "not again when the same was computed again" in once.message


def test_weights_that_are_made_block_by_block_are_not_compared_with_what_lies_in_their_place(
    engine: DiffusersEngine, models: dict[str, Path]
) -> None:
    generate(engine, models["sd15"], "float16")
    assert engine.loaded is not None
    exact = exact_source(engine.loaded, "unet")
    doubts = Doubts(engine.loaded, {"unet": exact})
    with streamed(engine.loaded, "unet", "float32", exact):
        assert not doubts.reads_again("unet")
    assert doubts.found == []


def test_what_comes_again_is_the_models(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    generate(engine, models["sd15"], "float16")
    layer = layer_of(engine)

    def overflow(_layer: nn.Module, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        return output.fill_(float("inf")) if output.dtype == torch.float16 else None

    handle = layer.register_forward_hook(overflow)
    try:
        report, _ = check(engine, models["sd15"], "float16")
    finally:
        handle.remove()
    assert [one.code for one in report.findings if one.code != "tight"] == ["accumulation-overflow"]
