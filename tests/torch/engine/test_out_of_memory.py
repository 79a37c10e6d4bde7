"""The memory ends while a picture is made: what is done then, and what is left of the picture."""

import gc
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.apart import apart
from tests.helpers.engine_runs import Steady, generate, pixels

from halftone.contract.facts import PictureFacts, Shortage
from halftone.contract.messages import AnyEvent, Generate, JobEnded, PictureReady
from halftone.contract.request import Numerics, PictureRequest
from halftone.contract.vocabulary import DType
from halftone.engine.inputs.memory import Room
from halftone.engine.service import DiffusersEngine
from halftone.health.forecasts.activations import Size
from halftone.measure.devices import find_device
from halftone.training.service import TrainingEngine
from halftone.worker.runner import JobRunner

FULL: tuple[Exception, ...] = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    MemoryError(),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
)
LARGE = 3 * 8 * 8
"""Latents on a face that no longer find room where the whole picture has 16 x 16."""


@contextmanager
def full(module: torch.nn.Module, error: Exception, when: Callable[[torch.Tensor], bool]) -> Generator[list[int]]:
    """The memory ends in a call of the module whenever its first tensor is so."""
    asked: list[int] = []

    def look(_module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        first = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
        asked.append(first.shape[-1])
        if when(first):
            raise type(error)(*error.args)  # a fresh one: what was raised before holds the frames of its job

    handle = module.register_forward_pre_hook(look, with_kwargs=True)
    try:
        yield asked
    finally:
        handle.remove()


@pytest.fixture
def engine(models: dict[str, Path]) -> TrainingEngine:
    made = TrainingEngine()
    generate(made, models["sd15"])
    return made


def part(engine: DiffusersEngine, path: str) -> torch.nn.Module:
    assert engine.loaded is not None
    name, _, inside = path.partition(".")
    return engine.loaded.modules[name].get_submodule(inside)


def large(latents: torch.Tensor) -> bool:
    return latents.shape[-1] * latents.shape[-2] > LARGE


def only(facts: tuple[PictureFacts, ...]) -> PictureFacts:
    assert len(facts) == 1
    return facts[0]


@pytest.mark.parametrize("error", FULL, ids=["torch", "python", "processor"])
def test_a_decode_that_does_not_fit_is_done_in_tiles(engine: DiffusersEngine, models: dict[str, Path], error: Exception) -> None:
    whole, _ = generate(engine, models["sd15"])
    with (
        full(part(engine, "vae.decoder"), error, large) as asked,
        full(part(engine, "unet.conv_in"), error, lambda _: False) as steps,
    ):
        report, _ = generate(engine, models["sd15"])
    picture = only(report.images)
    assert (asked[0], max(asked[1:]) < 16) == (16, True)
    assert len(steps) == 3, "no step was computed again"
    assert (picture.state, picture.finite, picture.tiled) == ("clean", True, True)
    assert picture.shortages == (Shortage(phase="decode", step=None, then="tiles", width=32, height=32),)
    assert np.abs(pixels(report).astype(int) - pixels(whole).astype(int)).mean() < 40, "the same picture"
    assert not only(whole.images).tiled


def test_a_pipeline_that_catches_it_does_not_go_on_without_a_picture(models: dict[str, Path]) -> None:
    """Sana's warns, and fails for another reason then."""
    engine = DiffusersEngine()
    generate(engine, models["sana"])
    with full(part(engine, "vae.decoder"), FULL[0], lambda _: True):
        report, _ = generate(engine, models["sana"], vae_tiling="never", offload="none")
    assert [shortage.then for shortage in only(report.images).shortages] == ["stopped"]


def test_the_rest_of_the_batch_is_decoded_in_tiles_from_the_start(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    with full(part(engine, "vae.decoder"), FULL[0], large) as asked:
        report, _ = generate(engine, models["sd15"], batch=2)
    assert [picture.tiled for picture in report.images] == [True, True]
    assert [len(picture.shortages) for picture in report.images] == [1, 0]
    assert asked.count(16) == 1
    after, _ = generate(engine, models["sd15"])
    assert not only(after.images).tiled, "another job begins anew"


@pytest.mark.parametrize("choice", ["auto", "never"])
def test_a_picture_that_no_way_can_finish_is_kept_and_can_go_on(
    engine: DiffusersEngine, models: dict[str, Path], choice: str
) -> None:
    whole, _ = generate(engine, models["sd15"])
    with full(part(engine, "vae.decoder"), FULL[0], lambda _: True) as asked:
        report, _ = generate(engine, models["sd15"], batch=3, vae_tiling=choice, offload="none")
    picture = only(report.images)
    assert len(asked) == (2 if choice == "auto" else 1), "each way is tried once, and no picture after the first"
    assert picture.state == "not-recovered"
    assert [shortage.then for shortage in picture.shortages] == (["tiles", "stopped"] if choice == "auto" else ["stopped"])
    assert picture.shortages[-1].needed
    assert picture.shortages[-1].free
    assert picture.latents is not None
    again, _ = generate(engine, models["sd15"], resume_latents=picture.latents)
    assert np.array_equal(pixels(again), pixels(whole))


def test_a_step_that_does_not_fit_keeps_the_steps_before_it(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    whole, _ = generate(engine, models["sd15"])
    calls: list[int] = []

    def third(_: torch.Tensor) -> bool:
        calls.append(1)
        return len(calls) > 2

    with full(part(engine, "unet"), FULL[0], third):
        report, _ = generate(engine, models["sd15"], offload="none")
    picture = only(report.images)
    assert (picture.state, picture.kept_step, picture.shortages[-1].step) == ("not-recovered", 2, 3)
    again, _ = generate(engine, models["sd15"], resume_latents=picture.latents)
    assert np.array_equal(pixels(again), pixels(whole))


def test_an_encoder_that_does_not_fit_ends_the_picture(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    with full(part(engine, "text_encoder"), FULL[0], lambda _: True):
        report, _ = generate(engine, models["sd15"], prompt="never read before")
    picture = only(report.images)
    assert (picture.state, picture.latents) == ("not-recovered", None)
    assert (picture.shortages[-1].phase, picture.shortages[-1].step) == ("encode", None)


def test_what_the_failed_call_held_is_given_back(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    import gc
    import weakref

    held: list[weakref.ref[torch.Tensor]] = []

    def hold(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if args[0].shape[-1] == 16:
            there = torch.empty(1000)
            held.append(weakref.ref(there))
            raise torch.OutOfMemoryError("out of memory")
        assert held[0]() is None, "freed before the next way is tried"

    handle = part(engine, "vae.decoder").register_forward_pre_hook(hold)
    gc.disable()
    try:
        generate(engine, models["sd15"])
    finally:
        gc.enable()
        handle.remove()
    assert held


@pytest.mark.parametrize(("choice", "tiled"), [("always", True), ("auto", False), ("never", False)])
def test_the_setting_acts_and_says_why(models: dict[str, Path], choice: str, tiled: bool) -> None:
    engine = DiffusersEngine()
    generate(engine, models["sd15"])
    with full(part(engine, "vae.decoder"), FULL[0], lambda _: False) as asked:
        report, _ = generate(engine, models["sd15"], vae_tiling=choice)
    assert (max(asked) < 16) == tiled
    assert only(report.images).tiled == tiled
    assert any("VAE tiling is set to Always" in str(reason) for reason in report.plan.reasons) == tiled


def test_any_other_error_stays_what_it_is(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    with (
        full(part(engine, "unet"), RuntimeError("a shape"), lambda _: True),
        pytest.raises(RuntimeError, match="a shape"),
    ):
        generate(engine, models["sd15"], control=Steady())


def test_what_the_allocator_itself_raises_is_caught(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    def ask_for_too_much(_module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if args[0].shape[-1] == 16:
            torch.empty(2**46)

    handle = part(engine, "vae.decoder").register_forward_pre_hook(ask_for_too_much)
    report, _ = generate(engine, models["sd15"])
    handle.remove()
    picture = only(report.images)
    assert (picture.state, picture.tiled, [one.then for one in picture.shortages]) == ("clean", True, ["tiles"])


def test_the_worker_tells_it_and_goes_on_with_the_next_job(engine: TrainingEngine, models: dict[str, Path]) -> None:
    sent: list[AnyEvent] = []
    runner = JobRunner(engine, lambda event, _blob: sent.append(event))
    jobs = [PictureRequest(prompt="a red sun", model=str(models["sd15"]), width=32, height=32, steps=2, seed=1)] * 2
    runner.submit(Generate(job="first", request=jobs[0]))
    with full(part(engine, "vae.decoder"), FULL[1], lambda _: True):
        runner.run_until_idle()
    runner.submit(Generate(job="second", request=jobs[1]))
    runner.run_until_idle()
    pictures = [event.facts for event in sent if isinstance(event, PictureReady)]
    assert [(picture.state, bool(picture.path)) for picture in pictures] == [("not-recovered", False), ("clean", True)]
    assert pictures[0].latents is not None
    assert [event.outcome for event in sent if isinstance(event, JobEnded)] == ["done", "done"]


def test_the_memory_of_a_picture_is_measured(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    generate(engine, models["sd15"], steps=1)  # loads what the first picture needs, which would count for the small one
    gc.collect()
    small, _ = generate(engine, models["sd15"])
    large, _ = generate(engine, models["sd15"], width=256, height=256, steps=1)
    if sys.platform == "linux":
        assert small.images[0].peak_memory is not None
        assert large.images[0].peak_memory is not None
        assert large.images[0].peak_memory > 1.5 * small.images[0].peak_memory


def test_a_step_that_does_not_fit_is_done_with_the_model_offloaded(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    """The processor stands for a device with memory of its own."""
    whole, _ = generate(engine, models["sd15"], offload="none")  # another request: the places change under the engine
    loaded = apart(engine)

    def while_all_is_there(_: torch.Tensor) -> bool:
        return loaded.places.mode == "none"

    with full(part(engine, "unet.conv_in"), FULL[0], while_all_is_there):
        report, _ = generate(engine, models["sd15"], offload="auto")
    picture = only(report.images)
    assert (picture.state, loaded.places.mode) == ("clean", "model")
    assert [(one.phase, one.step, one.then) for one in picture.shortages] == [("denoise", 1, "offload")]
    assert np.array_equal(pixels(report), pixels(whole))
    generate(engine, models["sd15"], offload="auto")
    assert loaded.places.mode == "none", "another job begins anew"


@pytest.mark.parametrize(("share", "mode"), [(4.0, "none"), (0.001, "sequential")])
def test_the_way_is_chosen_by_what_is_free(engine: DiffusersEngine, models: dict[str, Path], share: float, mode: str) -> None:
    """share: of what the whole picture at once would need."""
    loaded = apart(engine)
    request = PictureRequest(prompt="a", model=str(models["sd15"]), numerics=Numerics(precision="float32"))
    dtypes: dict[str, DType] = {name: state.dtype for name, state in loaded.states.items()}
    room = Room(loaded, find_device("cpu"), request, Size(512, 512), guided=False, dtypes=dtypes, networks=loaded.networks)
    reasons = room.settle(round(share * room.plain.peak))
    assert (room.way.offload, loaded.places.mode) == (mode, mode)
    told = any(str(reason).startswith("Offload (Sequential): all at once would need") for reason in reasons)
    assert told == (mode != "none")
