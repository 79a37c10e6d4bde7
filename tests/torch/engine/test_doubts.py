"""What goes bad once, or in memory, is no finding about the model, and the check goes on without it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.engine_runs import Recorder, Steady, check, generate
from torch import nn

from halftone.contract.facts import Finding
from halftone.contract.messages import Examine
from halftone.contract.request import CheckInputs, Numerics
from halftone.contract.vocabulary import DType
from halftone.engine.checks.doubts import Doubts
from halftone.engine.checks.examine import Examination
from halftone.engine.loading.load import exact_source, load_pipeline
from halftone.engine.loading.plans import streamed
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.recipe import forget_base
from halftone.health.explain import finding_words
from halftone.library.models import describe
from halftone.measure.devices import find_device

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
    assert "one wrong result, which did not repeat. The model is not the cause." in str(finding_words(once)[0])


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


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_weights_that_others_are_made_from_are_read_again_where_they_go_bad(
    models: dict[str, Path], precision: DType, mapped: bool
) -> None:
    loaded = load_pipeline(describe(str(models["sd15"])), torch.device("cpu"))
    unet = loaded.modules["unet"]
    if not mapped:
        forget_base(unet)
    own = unet.get_submodule(LAYER).get_parameter("weight").data
    before = own.clone()
    inputs = CheckInputs(width=32, height=32)
    command = Examine(job="c", model=str(models["sd15"]), numerics=Numerics(precision=precision), inputs=inputs)
    loaded.sizes["unet"] = 2**50  # parameters
    examination = Examination(loaded, find_device("cpu"), None, command, Recorder(), Steady())
    assert examination.in_blocks == {"unet"}
    with struck(unet.get_submodule(LAYER), lambda _module, _output: own.fill_(float("nan")), getattr(torch, precision)):
        report = examination.run()
    assert torch.equal(own, before)
    (found,) = (one for one in report.findings if one.code == "memory-damage")
    assert (found.component, found.facts["tensor"]) == ("unet", f"{LAYER}.weight")
    assert report.verdict in ("healthy", "tight")


@torch.no_grad()
def test_a_model_at_the_edge_is_not_acquitted_by_a_kernel_that_sums_in_another_order(models: dict[str, Path]) -> None:
    loaded = load_pipeline(describe(str(models["sd15"])), torch.device("cpu"))
    unet: Any = loaded.modules["unet"]
    words = torch.randn(1, 7, unet.config.cross_attention_dim)
    call = Call("unet", "forward", (torch.randn(1, 4, 8, 8), torch.tensor(500.0), words), {"return_dict": False})
    reference = run_call(call, unet, "float32")
    wrong = (1.12 * reference[0],)
    doubts = Doubts(loaded, {})
    handle = unet.conv_out.register_forward_hook(lambda _module, _args, output: 1.09 * output)
    try:
        assert not doubts.is_right_now(call, wrong, reference, 0.1), "it differs little from what it was"
    finally:
        handle.remove()
    assert doubts.found == []
    assert doubts.is_right_now(call, wrong, reference, 0.1)
    assert [one.facts for one in doubts.found] == [{"once": True}]


class Shy(nn.Conv2d):
    """In float16 its result is only finite while a hook looks at it."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - the name torch gives it
        made = super().forward(input)
        return made if self._forward_hooks or made.dtype != torch.float16 else made.fill_(float("inf"))


def test_what_only_a_probe_makes_finite_is_not_the_devices(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    """Hooks change some ways of computing."""
    generate(engine, models["sd15"], "float16")
    layer = layer_of(engine)
    assert type(layer) is nn.Conv2d
    kept = layer.__dict__.pop("forward", None)  # of a processor that has no float16 convolutions of its own
    layer.__class__ = Shy
    try:
        report, _ = check(engine, models["sd15"], "float16")
    finally:
        layer.__class__ = nn.Conv2d
        if kept is not None:
            layer.__dict__["forward"] = kept
    assert "memory-damage" not in [one.code for one in report.findings]
    assert report.verdict not in ("healthy", "tight")


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
