"""A component that is too large to become whole in another type computes with weights that are made block by block."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.engine_runs import Recorder, Steady, faulty_copy
from tests.helpers.originals import published

from halftone.contract.facts import CheckReport
from halftone.contract.messages import Examine, Repair
from halftone.contract.request import CheckInputs, Numerics
from halftone.engine.basics.runs import Runs
from halftone.engine.checks.examine import Examination
from halftone.engine.checks.repair import repair
from halftone.engine.curing.layers import MOST_RUNS, fewest_layers
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.loading.plans import HALF_DONE, apply_state, exact_now, streaming
from halftone.engine.sampling.hooks import is_finite
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.offload import blocks_of, taken_apart
from halftone.engine.weights.precision import ComponentState
from halftone.engine.weights.recipe import Exact
from halftone.library.models import describe
from halftone.measure.devices import find_device

STATES = (
    ComponentState(dtype="float32"),
    ComponentState(dtype="bfloat16", rescale={"conv_out.weight": -2, "conv_out.bias": -2}),
    ComponentState(dtype="float16", rescale={"conv_in.weight[:4]": 3}, upcast=("mid_block.resnets.0",)),
    ComponentState(dtype="float16", upcast=("conv_out",)),
)


def pocket_call(loaded: Loaded) -> Call:
    torch.manual_seed(0)
    unet: Any = loaded.modules["unet"]
    words = torch.randn(1, 7, unet.config.cross_attention_dim)
    return Call("unet", "forward", (torch.randn(1, 4, 8, 8), torch.tensor(500.0), words), {"return_dict": False})


@pytest.fixture
def loaded(models: dict[str, Path]) -> Loaded:
    return load_pipeline(describe(str(models["sd15"])), torch.device("cpu"))


def where(loaded: Loaded) -> dict[str, int]:
    return {name: tensor.data_ptr() for name, tensor in loaded.modules["unet"].named_parameters()}


@torch.no_grad()
def test_each_state_computes_the_same_in_blocks_and_whole(loaded: Loaded) -> None:
    unet, call, masters = loaded.modules["unet"], pocket_call(loaded), exact_now(loaded, "unet")
    before, at = loaded.states["unet"], where(loaded)
    found: list[torch.Tensor] = []
    with streaming(loaded, {"unet": masters}):
        for state in STATES:
            apply_state(loaded, "unet", state, masters)
            found.append(deepcopy(run_call(call, unet, state.dtype)[0]))
            assert where(loaded) == at, "what lies in memory stays"
    assert loaded.states["unet"] == before
    assert where(loaded) == at
    for state, made in zip(STATES, found, strict=True):
        apply_state(loaded, "unet", state, masters)
        assert torch.equal(run_call(call, unet, state.dtype)[0], made), state


@torch.no_grad()
def test_a_stream_within_another_leaves_that_as_it_was(loaded: Loaded) -> None:
    masters = exact_now(loaded, "unet")
    narrow = ComponentState(dtype="float16")
    with streaming(loaded, {"unet": masters}):
        apply_state(loaded, "unet", narrow, masters)
        with streaming(loaded, {"unet": masters}):
            apply_state(loaded, "unet", ComponentState(dtype="bfloat16"), masters)
        assert loaded.states["unet"] == narrow
        assert loaded.streams == {"unet"}
    loaded.states["unet"] = HALF_DONE
    with streaming(loaded, {"unet": masters}):
        apply_state(loaded, "unet", narrow, masters)
    assert loaded.states["unet"] == HALF_DONE, "it is written by the next plan"


def test_transformer_blocks_are_made_one_by_one() -> None:
    blocks = blocks_of(published("sdxl")["unet"])
    parts = [part for block in blocks for part in taken_apart(block)]
    assert sorted(id(one) for part in parts for one in part) == sorted(id(one) for block in blocks for one in block)
    assert not any(sum(hasattr(one, "attn1") for one in part) > 1 for part in parts)
    assert any(sum(hasattr(one, "attn1") for one in block) > 1 for block in blocks)


def examined(model: Path, *, in_blocks: bool) -> tuple[CheckReport, Loaded]:
    loaded = load_pipeline(describe(str(model)), torch.device("cpu"))
    inputs = CheckInputs(width=32, height=32)
    command = Examine(job="c", model=str(model), numerics=Numerics(precision="float16"), inputs=inputs)
    with streaming(loaded, {name: exact_now(loaded, name) for name in loaded.modules} if in_blocks else {}):
        return Examination(loaded, find_device("cpu"), None, command, Recorder(), Steady()).run(), loaded


@pytest.mark.parametrize(("component", "group"), [("unet", "stream of unet"), ("vae", "stream of decoder")])
def test_a_check_in_blocks_ends_as_a_whole_one_does(component: str, group: str, models: dict[str, Path], tmp_path: Path) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", component, group, 17)
    whole, _ = examined(model, in_blocks=False)
    report, loaded = examined(model, in_blocks=True)
    assert [(one.code, one.component, one.module) for one in report.findings] == [
        (one.code, one.component, one.module) for one in whole.findings
    ]
    assert report.plan.rescale[component]
    assert report.plan.verified
    assert report.plan.rescale == whole.plan.rescale
    assert [(one.kind, one.suggested) for one in report.cures] == [(one.kind, one.suggested) for one in whole.cures]
    assert all(parameter.dtype == torch.float32 for parameter in loaded.modules[component].parameters())


def test_the_fewest_layers_are_found_in_blocks_too(loaded: Loaded) -> None:
    unet, call, masters = loaded.modules["unet"], pocket_call(loaded), dict(exact_now(loaded, "unet"))
    for name in ("conv_in", "mid_block.resnets.0.conv2"):
        masters |= {own: masters[own] * 2.0**17 for own in (f"{name}.weight", f"{name}.bias")}
    narrow = ComponentState(dtype="float16")
    exact = Exact(masters)
    found = [fewest_layers(loaded, [call], exact, narrow, Runs(MOST_RUNS, lambda: None))]
    at = where(loaded)
    with streaming(loaded, {"unet": exact}):
        found.append(fewest_layers(loaded, [call], exact, narrow, Runs(MOST_RUNS, lambda: None)))
        assert where(loaded) == at
    assert found[0] is not None
    assert found[0] == found[1]
    apply_state(loaded, "unet", ComponentState(dtype="float16", upcast=found[0].layers), exact)
    assert is_finite(run_call(call, unet, "float16"))


def test_a_copy_is_compared_in_blocks(models: dict[str, Path], tmp_path: Path) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "unet", "stream of unet", 17)
    loaded = load_pipeline(describe(str(model)), torch.device("cpu"))
    command = Repair(job="r", model=str(model), output=str(tmp_path / "copy"))
    with streaming(loaded, {"unet": exact_now(loaded, "unet")}):
        at = where(loaded)
        report = repair(loaded, find_device("cpu"), None, command, Recorder(), Steady())
        assert where(loaded) == at
    assert report.float16_finite
    assert report.changed_tensors
    assert where(loaded) == at
