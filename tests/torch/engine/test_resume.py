"""Going on from the last good state gives, bit for bit, what an undisturbed run gives."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.engine_runs import OPTIONS, generate, pixels

from halftone.engine.basics import snapshot as snapshots
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.sampling.flight import Flight
from halftone.engine.sampling.hooks import Hooks
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.service import DiffusersEngine
from halftone.library.models import describe

STEPS = 6


def _loaded(path: Path, sampler: str | None) -> Loaded:
    loaded = load_pipeline(describe(str(path)), torch.device("cpu"))
    loaded.pipe.scheduler = make_scheduler(loaded.native_scheduler, sampler)
    return loaded


def _arguments(family: str) -> dict[str, Any]:
    size = {"width": 32, "height": 32}
    return {"prompt": "a red sun", "num_inference_steps": STEPS, "output_type": "pt", **size, **OPTIONS[family]}


def _flight(loaded: Loaded, states: dict[int, snapshots.Snapshot] | None = None) -> Flight:
    """states: filled with the state after each step."""
    flight = Flight(loaded, nan_check="every-step", upcast_sampling=True, hooks=Hooks())
    if states is not None:
        flight.hooks.on_latents = lambda step, _latents, _seconds: states.update({step: flight.last_good})
    return flight


@pytest.mark.parametrize(
    ("family", "sampler"),
    [
        ("sd15", "Euler"),
        ("sd15", "Euler a"),
        ("sd15", "DPM++ 2M"),
        ("sd15", "DPM++ 2M SDE Karras"),
        ("sd15", "DDIM"),
        ("sd15", "UniPC"),
        ("sd15", "PNDM"),
        ("sdxl", "Heun"),
        ("sd15", "DPM++ 2S a Karras"),
        ("sd15", "DPM++ 3M SDE Simple"),
        ("sdxl", "Heun++ 2"),
        ("sd3", "RES multistep Beta"),
        ("sd3", "Euler a Simple"),
        ("sd15", "UniPC BH2 Karras"),
        ("sd15", "SA-Solver PECE Karras"),
        ("sd15", "Restart Karras"),
        ("sd15", "DPM fast Karras"),
        ("sd15", "DPM adaptive Karras"),
        ("sd3", None),
        ("sana", None),
    ],
)
@pytest.mark.parametrize("after", [0, 3])
def test_resume_is_bit_exact(models: dict[str, Path], family: str, sampler: str | None, after: int) -> None:
    with quiet_libraries():
        _resumes_exactly(_loaded(models[family], sampler), family, after)


def _resumes_exactly(loaded: Loaded, family: str, after: int) -> None:
    states: dict[int, snapshots.Snapshot] = {}
    with torch.no_grad():
        whole = _flight(loaded, states)
        expected = whole.run(_arguments(family), torch.Generator().manual_seed(3))[0]
        computed = len(whole.seconds_per_step)
        resumed = whole.run(_arguments(family), torch.Generator().manual_seed(3), states[after])[0]
    assert torch.equal(resumed, expected)
    assert len(whole.seconds_per_step) - computed == max(states) - after, "steps before the state were not computed again"


def test_a_passing_fault_costs_one_step_and_leaves_no_trace(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    clean, _ = generate(engine, models["sd15"], "float32", steps=5)
    kept = engine.loaded
    assert kept is not None
    calls: list[int] = []

    def strike(_module: torch.nn.Module, _args: Any, output: Any) -> Any:
        calls.append(1)
        return tuple(tensor * float("nan") for tensor in output) if len(calls) == 3 else None

    handle = kept.modules["unet"].register_forward_hook(strike)
    try:
        report, _ = generate(engine, models["sd15"], "float32", steps=5)
    finally:
        handle.remove()
    picture = report.images[0]
    assert picture.state == "recovered"
    assert (picture.events[0].step, picture.events[0].action, picture.events[0].cure) == (3, "went-back-one-step", "none")
    assert (pixels(report) == pixels(clean)).all()


def test_damaged_weights_are_noticed_and_read_again(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    clean, _ = generate(engine, models["sd15"], "float32")
    kept = engine.loaded
    assert kept is not None
    with torch.no_grad():
        kept.pipe.unet.mid_block.resnets[0].conv1.weight[0, 0] = float("inf")
    report, events = generate(engine, models["sd15"], "float32")
    from halftone.contract.messages import FindingMade

    assert [event.finding.code for event in events.of(FindingMade)] == ["memory-damage"]
    assert report.images[0].events[0].cure == "read-again"
    assert (pixels(report) == pixels(clean)).all()


def test_stop_and_keep_decodes_what_there_is(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    from tests.helpers.engine_runs import Steady

    report, _ = generate(engine, models["sd15"], "float32", steps=6, control=Steady(keep_after=2))
    assert report.images[0].steps == 2
    assert report.images[0].state == "clean"
