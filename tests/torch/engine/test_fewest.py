"""A fault that no scale undoes is cured by a few layers in float32, in a check and while a picture is made."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.helpers.engine_runs import Recorder, check, generate, pixels

from halftone.contract.facts import CheckReport, LayerPeak
from halftone.contract.messages import PhaseChanged
from halftone.contract.vocabulary import FLOAT_LIMITS
from halftone.engine.basics.runs import Runs
from halftone.engine.curing.layers import MOST_RUNS, fewest_layers
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.borders import takes
from halftone.engine.weights.calls import Call
from halftone.engine.weights.precision import ComponentState, exact_weights
from halftone.health.judge import held_in
from halftone.library.models import describe
from halftone.measure.pictures import psnr


@pytest.fixture(scope="module")
def timed(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its UNet's time embedding passes the limit of float16, and every residual block reads it through a nonlinearity."""
    folder = tmp_path_factory.mktemp("fewest") / "timed"
    shutil.copytree(models["sd15"], folder)
    (file,) = (folder / "unet").glob("*.safetensors")
    tensors = load_file(file)
    for name in tensors:
        if name.startswith("time_embedding.linear_2."):
            tensors[name] = tensors[name] * 2.0**22
        if ".time_emb_proj.weight" in name:
            tensors[name] = tensors[name] * 2.0**-18
    save_file(tensors, file, {"format": "pt"})
    return folder


def test_a_check_finds_the_fewest_layers(engine: DiffusersEngine, timed: Path) -> None:
    report, events = check(engine, timed, "float16")
    _check_the_search(report, events)
    _check_what_passes_the_limit_beside_such_layers(report)
    kept = engine.loaded
    assert kept is not None
    assert {parameter.dtype for parameter in kept.modules["unet"].parameters()} == {torch.float16}, "the weights come back"


def _check_the_search(report: CheckReport, events: Recorder) -> None:
    told = [event for event in events.of(PhaseChanged) if event.phase == "plan"]
    assert [event.done for event in told] == list(range(len(told)))
    assert len(told) > 1, "the search tells that it goes on"
    assert all(event.total is None for event in told), "and claims no end, as other searches may follow"
    assert report.verdict == "fixable"
    assert report.findings[0].module == "time_embedding.linear_2"
    suggested = next(cure for cure in report.cures if cure.suggested)
    assert (suggested.kind, suggested.plan.verified) == ("upcast-region", True)
    layers = set(report.plan.upcast_modules("unet"))
    assert "time_embedding.linear_2" in layers
    assert all(name.startswith("time_embedding.") or name.endswith(".time_emb_proj") for name in layers)
    assert 0 < report.plan.upcast_parameters < 0.1 * report.plan.total_parameters
    assert any("layers) run in FP32" in str(reason) for reason in report.plan.reasons)
    assert all(layer.peak <= FLOAT_LIMITS[held_in(layer, "float16", report.plan)] for layer in report.layers)


def _check_what_passes_the_limit_beside_such_layers(report: CheckReport) -> None:
    """It is held in float32."""
    inside = LayerPeak(component="unet", module="mid_block", kind="UNetMidBlock2DCrossAttn", peak=1e6)
    assert held_in(inside, "float16", report.plan) == "float32"
    assert held_in(LayerPeak(component="unet", module="conv_in", kind="Conv2d", peak=3.0), "float16", report.plan) == "float16"
    assert held_in(LayerPeak(component="vae", module="decoder", kind="Decoder", peak=1e6), "float16", report.plan) == "float16"


def test_a_picture_goes_on_with_the_fewest_layers(engine: DiffusersEngine, timed: Path) -> None:
    wide, _ = generate(engine, timed, "float32")
    report, _ = generate(engine, timed, "float16")
    picture = report.images[0]
    assert (picture.state, picture.events[0].cure) == ("recovered", "upcast-region")
    plan = picture.events[0].plan
    assert plan is not None
    assert any(name.endswith(".time_emb_proj") for name in plan.upcast_modules("unet"))
    assert psnr(pixels(report), pixels(wide)) >= 30
    again, _ = generate(engine, timed, "float16")
    assert again.images[0].state in {"clean", "cured"}, "what helped is kept for the next picture"
    assert (pixels(again) == pixels(report)).mean() > 0.9


def _failing(timed: Path) -> tuple[Loaded, Call]:
    loaded = load_pipeline(describe(str(timed)), torch.device("cpu"))
    config: Any = loaded.modules["unet"].config
    words = torch.randn(1, 77, config.cross_attention_dim)
    kwargs = {"encoder_hidden_states": words, "return_dict": False}
    return loaded, Call("unet", "forward", (torch.randn(1, 4, 8, 8), torch.tensor(500)), kwargs, step=0)


def _check_that_all_is_back(loaded: Loaded, masters: dict[str, torch.Tensor]) -> None:
    unet = loaded.modules["unet"]
    assert loaded.states["unet"] == ComponentState(dtype="float16")
    assert takes(unet, "float16") == "float16", "it is called as before"
    for name, parameter in unet.named_parameters():
        assert parameter.dtype == torch.float16
        assert torch.equal(parameter, masters[name].half()), name
    assert not any(module._forward_hooks for module in unet.modules())


def test_a_search_leaves_the_component_as_it_was(timed: Path) -> None:
    loaded, call = _failing(timed)
    masters = {name: tensor.clone() for name, tensor in exact_weights(loaded.modules["unet"]).items()}
    found = fewest_layers(loaded, [call], masters, ComponentState(dtype="float16"), Runs(MOST_RUNS, lambda: None))
    assert found is not None
    _check_that_all_is_back(loaded, masters)


@pytest.mark.parametrize("failure", [MemoryError("out of memory"), TypeError("a type that it does not know")])
def test_a_search_that_cannot_be_made_costs_only_its_result(timed: Path, failure: Exception) -> None:
    """The block in float32 may still fit."""
    loaded, call = _failing(timed)
    masters = {name: tensor.clone() for name, tensor in exact_weights(loaded.modules["unet"]).items()}
    runs: list[int] = []

    def fail_later() -> None:
        runs.append(1)
        if len(runs) == 2:
            raise failure

    second = replace(call, args=(call.args[0], torch.tensor(20)))
    assert fewest_layers(loaded, [call, second], masters, ComponentState(dtype="float16"), Runs(MOST_RUNS, fail_later)) is None
    assert len(runs) == 2
    _check_that_all_is_back(loaded, masters)
