"""A picture whose step failed is kept with all that its loop remembers, and goes on from there to the last bit."""

import math
import resource
from collections import deque
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from tests.bench.bench_resume import EXACT
from tests.bench.faults.families import FAMILIES
from tests.bench.resume.rig import Case, Rig, standing, wide
from tests.helpers.engine_runs import Recorder, Steady, generate, pixels
from tests.helpers.interrupted import failing, stopped
from tests.helpers.loras import make_lora
from tests.helpers.read_back import read_picture

from halftone.contract.errors import HalftoneError, say
from halftone.contract.messages import Generate, StepDone
from halftone.contract.request import Lora, Numerics, PictureRequest, Start
from halftone.contract.vocabulary import NanCheck, OnBlack
from halftone.engine.basics import snapshot as snapshots
from halftone.engine.basics.snapshot import Snapshot
from halftone.engine.sampling.latents import keep_latents
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.engine.sampling.unfinished import LOOP, Loop, NotKeptError, packed_loop, read_loop
from halftone.engine.service import DiffusersEngine
from halftone.health.pictures.unfinished_pictures import read_kept
from halftone.library.files.header import read_header
from halftone.settings.places import latents_dir


@pytest.fixture(scope="module")
def other(models: dict[str, Path]) -> DiffusersEngine:
    """The engine of another worker, which has made none of what goes on."""
    made = DiffusersEngine()
    generate(made, models["sd15"], "float16", steps=1)
    return made


@pytest.mark.filterwarnings("ignore:__array:DeprecationWarning")  # diffusers' DEIS hands tensors to NumPy in a way of NumPy 1
@pytest.mark.parametrize(
    "sampler",
    [
        "Euler",
        "Euler a",
        "DPM++ 2M SDE Karras",
        "DPM++ SDE",
        "Heun",
        "DDIM",
        "DDPM",
        "UniPC",
        "PNDM",
        "DEIS",
        "LCM",
        "DPM adaptive Karras",
    ],
)
def test_going_on_gives_the_picture_that_was_never_interrupted(
    engine: DiffusersEngine, other: DiffusersEngine, models: dict[str, Path], sampler: str
) -> None:
    kept = stopped(engine, models["sd15"], sampler=sampler)
    assert kept.kept_step is not None
    with failing(engine, 3):
        whole, told = generate(engine, models["sd15"], "float16", sampler=sampler, steps=6)
    assert whole.images[0].state == "recovered"
    with failing(other):
        again, events = generate(other, models["sd15"], "float16", resume_latents=kept.latents, prompt="other", steps=1, seed=1)
    assert (pixels(again) == pixels(whole)).all()
    steps = [event.step for event in events.of(StepDone)]
    assert min(steps) == kept.kept_step + 1
    assert max(steps) == max(event.step for event in told.of(StepDone))
    receipts = [(read_picture(Path(report.images[0].path)).parameters or "") for report in (again, whole)]
    assert receipts[0].partition(", Precision")[0] == receipts[1].partition(", Precision")[0]
    assert not list(latents_dir().iterdir())


@pytest.mark.parametrize("family", ["sd15", "sana", "sd3", "cogvideox"])
def test_in_another_precision_it_is_the_run_that_had_it_from_that_step_on(family: str, tmp_path: Path) -> None:
    rig = Rig(FAMILIES[family], tmp_path)
    case = Case(family, steps=3, numerics={**EXACT, "on_black": "stop"})
    rig.prepare(case)
    (kept,) = rig.make(case, fault=standing(1, wide, everywhere=True)).report.images
    assert kept.kept_step == 1
    numerics = Numerics(precision="float32", vae_float32="always")
    place = str(tmp_path / "again.png")  # of a video the first frame
    request = PictureRequest(prompt="", model=str(rig.folder), output=place, resume_latents=kept.latents, numerics=numerics)
    again = rig.engine.generate(Generate(job="b", request=request), Recorder(), Steady())
    assert set(again.images[0].dtypes.values()) == {"float32"}
    assert (pixels(again) == rig.cured_from(case, 1, again.plan).pixels).all()


def test_what_was_asked_for_then_is_what_goes_on(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    lora = Lora(path=str(make_lora(models["sd15"], tmp_path / "a.safetensors")))
    kept = stopped(engine, models["sd15"], loras=(lora,), options={"guidance_rescale": 0.5}, batch=2, after=9)
    with failing(engine, 9):
        whole, _ = generate(
            engine, models["sd15"], "float16", loras=(lora,), options={"guidance_rescale": 0.5}, steps=6, seed=kept.seed
        )
    again, _ = generate(engine, models["sd15"], "float16", resume_latents=kept.latents)
    assert (again.images[0].seed, again.images[0].state) == (kept.seed, "clean")
    assert (pixels(again) == pixels(whole)).all()


def drawing(path: Path, seed: int) -> str:
    """A picture to begin with, or where to paint: black at the left, white at the right, and noise."""
    noise = np.random.default_rng(seed).integers(0, 64, (32, 32, 3), dtype=np.uint8)
    noise[:, 16:] += 191
    Image.fromarray(noise).save(path)
    return str(path)


@pytest.fixture
def inputs(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    given: dict[str, Any] = {name: drawing(tmp_path / f"{name}.png", len(name)) for name in request.param}
    return {**given, "start": Start(strength=0.9)}


@pytest.mark.parametrize("inputs", [("image",), ("image", "mask")], indirect=True, ids=["image", "inpainting"])
def test_a_picture_made_of_another_goes_on_as_if_never_interrupted(
    engine: DiffusersEngine, other: DiffusersEngine, models: dict[str, Path], inputs: dict[str, Any]
) -> None:
    kept = stopped(engine, models["sd15"], **inputs)
    assert kept.kept_step is not None
    with failing(engine, 3):
        whole, _ = generate(engine, models["sd15"], "float16", steps=6, **inputs)
    with failing(other):
        again, events = generate(other, models["sd15"], "float16", resume_latents=kept.latents)
    assert (pixels(again) == pixels(whole)).all()
    assert min(event.step for event in events.of(StepDone)) == kept.kept_step + 1


@pytest.mark.parametrize("inputs", [("image", "mask")], indirect=True, ids=["inpainting"])
@pytest.mark.parametrize("name", ["image", "mask"])
def test_what_an_unfinished_picture_is_made_of_must_be_there(
    engine: DiffusersEngine, models: dict[str, Path], inputs: dict[str, Any], name: str
) -> None:
    kept = stopped(engine, models["sd15"], **inputs)
    Path(inputs[name]).unlink()
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], "float16", resume_latents=kept.latents)
    what = f"The unfinished picture needs {inputs[name]}, which is missing."
    assert say(caught.value.as_facts()) == f"{what} Restore it, or make the picture again."
    assert Path(str(kept.latents)).exists()


def test_a_step_that_fails_again_loses_nothing(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    kept = stopped(engine, models["sd15"])
    with failing(engine):
        again, _ = generate(engine, models["sd15"], "float16", resume_latents=kept.latents, on_black="stop")
    assert (again.images[0].latents, again.images[0].kept_step) == (kept.latents, kept.kept_step)
    assert [str(path) for path in latents_dir().iterdir()] == [kept.latents]


def test_a_later_step_that_fails_replaces_what_the_picture_went_on_from(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    kept = stopped(engine, models["sd15"])
    with failing(engine, 2):
        later, _ = generate(engine, models["sd15"], "float16", resume_latents=kept.latents, on_black="stop")
    assert (kept.kept_step, later.images[0].kept_step) == (3, 5)
    assert [str(path) for path in latents_dir().iterdir()] == [later.images[0].latents]
    with failing(engine, 5):
        whole, _ = generate(engine, models["sd15"], "float16", steps=6)
    with failing(engine):
        again, _ = generate(engine, models["sd15"], "float16", resume_latents=later.images[0].latents)
    assert (pixels(again) == pixels(whole)).all()
    assert not list(latents_dir().iterdir())


@pytest.mark.logs("could not be kept")
def test_a_later_failure_that_cannot_be_written_leaves_what_the_picture_went_on_from(
    engine: DiffusersEngine, models: dict[str, Path]
) -> None:
    kept = stopped(engine, models["sd15"])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with failing(engine, 2):
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
        try:
            later, _ = generate(engine, models["sd15"], "float16", resume_latents=kept.latents, on_black="stop")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (later.images[0].latents, later.images[0].kept_step) == (kept.latents, kept.kept_step)
    assert [str(path) for path in latents_dir().iterdir()] == [kept.latents]


def test_a_decode_that_fails_after_going_on_keeps_the_finished_steps(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    kept = stopped(engine, models["sd15"])
    assert engine.loaded is not None
    decoder = engine.loaded.modules["vae"].get_submodule("decoder.conv_in")

    def spoil(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor:
        return output * math.nan

    handle = decoder.register_forward_hook(spoil)
    try:
        later, _ = generate(engine, models["sd15"], "float16", resume_latents=kept.latents, on_black="stop")
    finally:
        handle.remove()
    assert later.images[0].kept_step is None
    assert [str(path) for path in latents_dir().iterdir()] == [later.images[0].latents]
    _, events = generate(engine, models["sd15"], "float16", resume_latents=later.images[0].latents)
    assert not events.of(StepDone)


def test_of_the_first_step_nothing_is_kept(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    kept = stopped(engine, models["sd15"], after=0)
    assert (kept.latents, kept.kept_step) == (None, None)


class Remembering(diffusers.DDIMScheduler):
    """A sampler that holds more than numbers."""

    def set_timesteps(self, *args: Any, **kwargs: Any) -> None:
        super().set_timesteps(*args, **kwargs)
        self.memory = iter(())


@pytest.mark.parametrize("on_black", ["stop", "ask"])
def test_of_a_sampler_that_cannot_be_kept_nothing_is(models: dict[str, Path], on_black: OnBlack) -> None:
    """Its latents are not what the decoder is given: a pipeline scales, shifts or unpacks them first."""
    engine = DiffusersEngine()
    generate(engine, models["sd15"], "float16", steps=1)
    assert engine.loaded is not None
    object.__setattr__(engine.loaded, "native_scheduler", Remembering.from_config(engine.loaded.native_scheduler.config))
    left = stopped(engine, models["sd15"], on_black=on_black)
    assert (left.not_kept, left.latents, left.kept_step) == (True, None, None)
    assert not list(latents_dir().iterdir())


@pytest.mark.parametrize("nan_check", ["every-step", "at-end"])
def test_no_step_that_was_kept_is_made_again(engine: DiffusersEngine, models: dict[str, Path], nan_check: NanCheck) -> None:
    kept = stopped(engine, models["sd15"])
    assert kept.kept_step is not None
    with failing(engine):
        again, events = generate(engine, models["sd15"], "float16", resume_latents=kept.latents, nan_check=nan_check)
    assert again.images[0].state == "recovered"
    assert min(event.step for event in events.of(StepDone)) == kept.kept_step + 1


def test_a_picture_that_stopped_twice_is_kept_as_if_it_had_stopped_once(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    once = Path(str(stopped(engine, models["sd15"], after=5).latents))
    tensors, loop = load_file(once), read_header(once).metadata[LOOP]
    kept = stopped(engine, models["sd15"])
    with failing(engine, 2):
        later, _ = generate(engine, models["sd15"], "float16", resume_latents=kept.latents, on_black="stop")
    twice = Path(str(later.images[0].latents))
    assert read_header(twice).metadata[LOOP] == loop
    assert load_file(twice).keys() == tensors.keys()
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in load_file(twice).items())


def test_the_folder_is_bounded_for_unfinished_pictures_too(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    path = Path(str(stopped(engine, models["sd15"]).latents))
    record, loop = read_kept(path), loop_of({})
    size = keep_latents(loop, record).stat().st_size
    written = [keep_latents(loop, record, 5 * size // 2) for _ in range(3)]
    assert sorted(latents_dir().iterdir()) == sorted(written[1:])


def loop_of(state: dict[str, Any], sampler: str = "DDIMScheduler") -> Loop:
    generator = torch.Generator().manual_seed(1).get_state()
    snapshot = Snapshot(2, (torch.ones(1, 2),), state, generator, 0, ({"momentum": torch.ones(3)},))
    return Loop(snapshot, sampler, {(0, 0): (torch.empty(2, 3, device="meta", dtype=torch.float16),)}, {})


def test_every_kind_of_value_comes_back_as_it_was(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    path = Path(str(stopped(engine, models["sd15"]).latents))
    shared = torch.arange(4.0)
    state: dict[str, Any] = {
        **snapshots.scheduler_state(diffusers.DDIMScheduler()),
        "sigmas": shared,
        "also": shared,
        "wide": torch.tensor(1.5, dtype=torch.float64),
        "flags": [None, True, 3, 0.1, math.inf, "text", (1, 2)],
        "counts": {3: torch.int64, "a": {1, 2}},
        "size": torch.Size([1, 4]),
        "last": deque([1], 2),
        "numbers": np.arange(3),
        "number": np.float32(0.1),
    }
    written = keep_latents(loop_of(state), read_kept(path))
    read = read_loop(written, diffusers.DDIMScheduler(), torch.device("cpu"))
    found = read.snapshot.scheduler
    assert torch.equal(found["sigmas"], shared)
    assert torch.equal(found["also"], shared)
    assert (found["wide"].dtype, found["wide"].item()) == (torch.float64, 1.5)
    assert found["flags"] == state["flags"]
    assert found["counts"] == state["counts"]
    assert found["size"] == (1, 4)
    assert (found["last"], found["last"].maxlen) == (deque([1]), 2)
    assert (found["numbers"] == state["numbers"]).all()
    assert (type(found["number"]), found["number"]) == (np.float32, state["number"])
    assert read.shapes[(0, 0)][0].shape == (2, 3)
    assert read.shapes[(0, 0)][0].is_meta
    assert torch.equal(read.snapshot.guiders[0]["momentum"], torch.ones(3))


def test_what_could_run_is_not_written() -> None:
    with pytest.raises(NotKeptError):
        packed_loop(loop_of({"noise_sampler": lambda: 0}), {})


def test_a_loop_that_an_earlier_version_kept_goes_on_with_its_noise(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    path = Path(str(stopped(engine, models["sd15"]).latents))
    scheduler = SolverScheduler(solver="DPM++ 2M SDE", schedule="Karras")
    scheduler.set_timesteps(4)
    state = snapshots.scheduler_state(scheduler)
    earlier = {name: value for name, value in state.items() if name not in SolverScheduler.NOT_KEPT_EARLIER}
    written = keep_latents(loop_of(earlier, "SolverScheduler"), read_kept(path))
    fresh = SolverScheduler(solver="DPM++ 2M SDE", schedule="Karras")
    fresh.noise_seed = 5
    found = read_loop(written, fresh, torch.device("cpu")).snapshot.scheduler
    assert found["noise_seed"] is None, "its noise came from the generator alone"
    assert found["levels"] == scheduler.levels
    with pytest.raises(HalftoneError):
        read_loop(keep_latents(loop_of({"levels": []}, "SolverScheduler"), read_kept(path)), fresh, torch.device("cpu"))


@pytest.mark.parametrize("sampler", [None, "DDIMScheduler"])
def test_a_loop_of_another_sampler_or_none_is_refused(
    engine: DiffusersEngine, models: dict[str, Path], sampler: str | None
) -> None:
    path = Path(str(stopped(engine, models["sd15"]).latents))
    written = keep_latents(torch.ones(1, 2) if sampler is None else loop_of({}, sampler), read_kept(path))
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], "float16", resume_latents=str(written), steps=6)
    assert caught.value.code == "latents-unreadable"
