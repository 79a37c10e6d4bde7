"""Pipelines that run one loop after another, each with its own scheduler: every step is watched, and can be gone back to."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.bench.families.stages import cascade
from tests.bench.faults.videos import kandinsky22, wan
from tests.helpers.engine_runs import Steady, generate, pixels
from tests.helpers.tiny import liven

from halftone.contract.messages import StepDone
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.basics.snapshot import Snapshot
from halftone.engine.loading.load import load_pipeline
from halftone.engine.sampling.flight import Flight
from halftone.engine.sampling.hooks import Hooks
from halftone.engine.sampling.samplers import make_scheduler, put_scheduler, schedulers
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.parts import role
from halftone.library.models import describe
from halftone.measure.pictures import psnr

MODULE = "down_blocks.0.resnets.0.conv1"
OPTIONS: dict[str, Any] = {"prior_num_inference_steps": 2}


def _save(folder: Path, planted: float) -> Path:
    """planted: factor of the first convolution of a block, before the norm that undoes it."""
    torch.manual_seed(0)
    with quiet_libraries():
        pipe = kandinsky22()
        for module in (pipe.unet, pipe.movq, pipe.prior_prior, pipe.prior_text_encoder, pipe.prior_image_encoder):
            liven(module)
        with torch.no_grad():
            for parameter in pipe.unet.get_submodule(MODULE).parameters():
                parameter.mul_(planted)
        pipe.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _save(tmp_path_factory.mktemp("combined") / "sound", 1.0)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _save(tmp_path_factory.mktemp("combined") / "faulty", 2.0**20)


def test_a_chosen_sampler_reaches_the_loop_inside(sound: Path) -> None:
    loaded = load_pipeline(describe(str(sound)), torch.device("cpu"))
    with quiet_libraries():
        put_scheduler(loaded.pipe, make_scheduler(loaded.native_scheduler, "Euler a"))
    assert type(loaded.pipe.decoder_pipe.scheduler).__name__ == "EulerAncestralDiscreteScheduler"
    assert loaded.pipe.prior_pipe.scheduler in schedulers(loaded.pipe)
    assert len(schedulers(loaded.pipe)) == 2
    assert role("prior_text_encoder", loaded.pipe.prior_text_encoder) == "encode"


def test_every_step_of_every_loop_is_told(engine: DiffusersEngine, sound: Path) -> None:
    report, events = generate(engine, sound, options=OPTIONS)
    assert report.images[0].state == "clean"
    assert [(told.step, told.steps) for told in events.of(StepDone)] == [(1, 2), (2, 2), (1, 3), (2, 3), (3, 3)]


def test_every_step_is_told_of_schedulers_that_have_no_timesteps_before_their_first_loop(
    engine: DiffusersEngine, tmp_path: Path
) -> None:
    """And whose schedule holds one more than there are steps."""
    torch.manual_seed(0)
    with quiet_libraries():
        cascade().save_pretrained(tmp_path / "cascade")
    for _ in range(2):
        report, events = generate(engine, tmp_path / "cascade", width=128, height=128, steps=3, options=OPTIONS)
        assert report.images[0].state == "clean"
        assert report.images[0].steps == 3
        assert [(told.step, told.steps) for told in events.of(StepDone)] == [(1, 2), (2, 2), (1, 3), (2, 3), (3, 3)]


def test_a_failure_in_the_second_loop_is_cured_and_gone_on_from(engine: DiffusersEngine, faulty: Path) -> None:
    wide, _ = generate(engine, faulty, options=OPTIONS)
    report, _ = generate(engine, faulty, "float16", options=OPTIONS)
    event = report.images[0].events[0]
    assert (event.component, event.module, event.step) == ("unet", MODULE, 1)
    assert report.images[0].state == "recovered"
    assert psnr(pixels(report), pixels(wide)) >= 30


@pytest.mark.parametrize("component", ["prior_prior", "unet"])
def test_of_several_loops_nothing_is_kept(engine: DiffusersEngine, sound: Path, component: str) -> None:
    """What the first of them makes is no picture, and both would be needed to go on."""
    generate(engine, sound, "float16", options=OPTIONS)
    assert engine.loaded is not None
    layer = next(part for part in engine.loaded.modules[component].modules() if isinstance(part, torch.nn.Linear))
    calls: list[int] = []

    def strike(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        calls.append(1)
        return output * math.nan if len(calls) > 1 else None

    handle = layer.register_forward_hook(strike)
    try:
        report, _ = generate(engine, sound, "float16", options=OPTIONS, on_black="stop")
    finally:
        handle.remove()
    (left,) = report.images
    assert (left.not_kept, left.latents, left.events[-1].component) == (True, None, component)


def test_going_on_from_any_step_gives_the_same_picture(sound: Path) -> None:
    loaded = load_pipeline(describe(str(sound)), torch.device("cpu"))
    states: dict[int, Snapshot] = {}
    flight = Flight(loaded, nan_check="every-step", upcast_sampling=True, hooks=Hooks())
    flight.hooks.on_latents = lambda _step, _latents, _seconds: states.update({flight.last_good.step: flight.last_good})
    size = {"width": 32, "height": 32, "num_inference_steps": 3, "output_type": "pt"}
    given = {"prompt": "a red sun", **size, **OPTIONS}
    with quiet_libraries():
        whole = flight.run(given, torch.Generator().manual_seed(5))[0]
        assert sorted(states) == [0, 1, 2, 3, 4]
        for step, state in list(states.items()):
            assert torch.equal(flight.run(given, torch.Generator().manual_seed(5), state)[0], whole), step


def test_a_picture_is_kept_before_the_second_of_two_denoisers_ran(engine: DiffusersEngine, tmp_path: Path) -> None:
    torch.manual_seed(0)
    with quiet_libraries():
        pipe, other = wan(), wan()
        pipe.register_modules(transformer_2=other.transformer)
        pipe.register_to_config(boundary_ratio=0.5)
        pipe.save_pretrained(tmp_path)
    given: dict[str, Any] = {"steps": 6, "num_frames": 5, "options": {"max_sequence_length": 32}}
    report, _ = generate(engine, tmp_path, **given, control=Steady(keep_after=1))
    assert report.images[0].steps == 1
    whole, _ = generate(engine, tmp_path, **given)
    assert whole.images[0].steps == 6
