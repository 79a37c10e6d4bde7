"""After a failure: the same picture to the last bit, one step twice at most, the rest of the batch, and nothing in vain."""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.bench.bench_resume import EXACT, QUICK, results
from tests.bench.faults.architectures import flux
from tests.bench.faults.families import FAMILIES
from tests.bench.resume.rig import Case, Rig, standing, wide
from tests.helpers.engine_runs import Recorder, generate, pixels
from torch.utils._python_dispatch import TorchDispatchMode

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import AnyEvent, FindingMade, PictureReady, StepDone
from halftone.contract.request import Start
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.sampling.film import flatness
from halftone.engine.sampling.flight import Flight
from halftone.engine.sampling.hooks import Hooks
from halftone.engine.service import DiffusersEngine
from halftone.library.models import describe
from halftone.measure.pictures import psnr

Strike = Callable[[torch.nn.Module, Any, Any], Any]


@contextmanager
def hooked(engine: DiffusersEngine, component: str, module: str, strike: Strike) -> Generator[None]:
    """A model must be in memory."""
    assert engine.loaded is not None
    handle = engine.loaded.modules[component].get_submodule(module).register_forward_hook(strike)
    try:
        yield
    finally:
        handle.remove()


def once(spoil: Callable[[Any], Any], call: int = 1) -> Strike:
    """Spoils the result of the first call, or of a later one, and no other."""
    calls: list[int] = []

    def strike(_module: torch.nn.Module, _args: Any, output: Any) -> Any:
        calls.append(1)
        return spoil(output) if len(calls) == call else None

    return strike


def nan(output: torch.Tensor) -> torch.Tensor:
    return output * math.nan


@pytest.fixture
def picture(tmp_path: Path) -> str:
    path = tmp_path / "input.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(path)
    return str(path)


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_the_cure_of_a_step_gives_the_picture_of_a_run_that_had_it_from_there(case: Any, tmp_path: Path) -> None:
    found = list(results([case], tmp_path))
    assert found
    assert [row for row in found if not row.met] == []


def test_a_network_that_became_wider_is_seen_as_it_was_until_its_step(tmp_path: Path) -> None:
    """Sana's pipeline rounds to the type its network has when it begins: widened too soon, the steps before would be others."""
    rig, case = Rig(FAMILIES["sana"], tmp_path), Case("sana", steps=2, numerics=EXACT)
    rig.prepare(case)
    made = rig.make(case, fault=standing(1, wide, everywhere=True))
    (event,) = made.report.events
    assert (event.action, event.cure, event.step) == ("went-back-one-step", "float32-component", 2)
    assert made.same(rig.cured_from(case, 1, made.plan))


def test_a_fault_of_the_decoder_that_passed_leaves_no_trace(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    clean, _ = generate(engine, models["sd15"], "float16")
    with hooked(engine, "vae", "decoder.conv_in", once(nan)):
        report, events = generate(engine, models["sd15"], "float16")
    (event,) = report.images[0].events
    assert (event.action, event.cure) == ("decoded-again", "none")
    assert len(events.of(StepDone)) == 3
    assert report.plan == clean.plan
    assert (pixels(report) == pixels(clean)).all()


def test_a_fault_of_an_encoder_that_passed_leaves_no_trace(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    prompt = "words that were not read before"
    clean, _ = generate(DiffusersEngine(), models["sd15"], "float16", prompt=prompt)
    generate(engine, models["sd15"], "float16")
    with hooked(engine, "text_encoder", "final_layer_norm", once(nan)):
        report, _ = generate(engine, models["sd15"], "float16", prompt=prompt)
    (event,) = report.images[0].events
    assert (event.action, event.cure, event.component) == ("encoded-again", "none", "text_encoder")
    assert (pixels(report) == pixels(clean)).all()


def test_an_input_picture_is_encoded_once_whatever_comes_after(
    engine: DiffusersEngine, models: dict[str, Path], picture: str
) -> None:
    generate(engine, models["sd15"], "float16")
    encoded: list[int] = []
    with (
        hooked(engine, "vae", "encoder.conv_in", lambda *_: encoded.append(1)),
        hooked(engine, "unet", "conv_in", once(nan, 2)),
    ):
        report, _ = generate(engine, models["sd15"], "float16", image=picture, steps=4, batch=2)
    assert [image.state for image in report.images] == ["recovered", "clean"]
    assert len(encoded) == 1


def test_flat_tiles_are_decoded_again_until_none_is_left(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    """The tile is too small a part of the picture, and too near its colour, to stand out in its error."""
    size: dict[str, Any] = {"width": 112, "height": 112, "steps": 1}
    wide, _ = generate(engine, models["sd15"], "float32", **size)
    generate(engine, models["sd15"], "float16", **size)
    assert engine.loaded is not None
    states = engine.loaded.states

    def flatten(_module: torch.nn.Module, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        if states["vae"].dtype == "float32":
            return None
        spoiled = output.clone()
        spoiled[..., :16, :16] = output[..., :16, :16].mean((-1, -2), keepdim=True)
        return spoiled

    with hooked(engine, "vae", "decoder.conv_out", flatten):
        report, events = generate(engine, models["sd15"], "float16", **size)
    (event,) = report.images[0].events
    assert (event.kind, event.action) == ("flat-tiles", "decoded-again")
    assert (report.images[0].state, len(events.of(StepDone))) == ("recovered", 1)
    assert psnr(pixels(report), pixels(wide)) >= 40


def test_weights_of_the_decoder_that_were_damaged_to_zero_are_read_again(
    engine: DiffusersEngine, models: dict[str, Path]
) -> None:
    """A flat picture in float32, too: no precision explains it."""
    clean, _ = generate(engine, models["sd15"], "float32")
    assert engine.loaded is not None
    with torch.no_grad():
        engine.loaded.modules["vae"].get_parameter("decoder.conv_out.weight").zero_()
    report, events = generate(engine, models["sd15"], "float32")
    assert [event.finding.code for event in events.of(FindingMade)] == ["memory-damage"]
    assert report.images[0].events[0].cure == "read-again"
    assert (pixels(report) == pixels(clean)).all()


def test_tiles_of_a_video_are_those_of_its_first_frame() -> None:
    noise = torch.randn(1, 4, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    shown = np.random.default_rng(1).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    assert flatness(shown, noise) is None
    shown[:16, 16:] = 7
    assert flatness(shown, noise) == "flat-tiles"
    assert flatness(shown, None) is None
    noise[:, :, 0, :8, 8:] = 0.0
    assert flatness(shown, noise) is None
    assert flatness(np.zeros_like(shown), None) == "flat"


class Second(Recorder):
    """`on` while the second picture is in work."""

    done = 0

    def __call__(self, event: AnyEvent, blob: bytes = b"") -> None:
        super().__call__(event, blob)
        self.done += isinstance(event, PictureReady)


@pytest.mark.parametrize(("component", "module"), [("unet", "mid_block"), ("vae", "decoder.conv_in")])
def test_a_picture_that_nothing_helps_stops_alone(
    engine: DiffusersEngine, models: dict[str, Path], component: str, module: str
) -> None:
    clean, _ = generate(engine, models["sd15"], "float16", batch=3)
    emit = Second()
    with hooked(engine, component, module, lambda _m, _a, output: nan(output) if emit.done == 1 else None):
        report, _ = generate(engine, models["sd15"], "float16", batch=3, emit=emit)
    assert [image.state for image in report.images] == ["clean", "not-recovered", "clean"]
    stopped = report.images[1]
    assert (stopped.events[0].why, stopped.events[0].sound_in_float32) == ("float32", False)
    assert (stopped.latents is not None) == (component == "vae"), "what was finished is kept"
    for index in (0, 2):
        assert (pixels(report, index) == pixels(clean, index)).all()
    if stopped.latents is not None:
        again, _ = generate(engine, models["sd15"], "float16", resume_latents=stopped.latents)
        assert (pixels(again) == pixels(clean, 1)).all()


@pytest.mark.parametrize("strength", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_a_strength_that_leaves_no_step_is_told(
    engine: DiffusersEngine, models: dict[str, Path], picture: str, family: str, strength: float
) -> None:
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models[family], image=picture, steps=3, start=Start(strength=strength))
    assert caught.value.code == "strength-too-small"
    told = str(caught.value)
    assert f"3 steps at a strength of {strength} leave no step to compute." in told
    assert "Use a strength of at least 0.34, or more steps." in told
    least, events = generate(engine, models[family], image=picture, steps=3, start=Start(strength=0.34))
    assert (least.images[0].state, len(events.of(StepDone))) == ("clean", 1)


def test_a_sampler_that_the_pipeline_does_not_take_is_told(tmp_path: Path) -> None:
    torch.manual_seed(0)
    with quiet_libraries():
        flux().save_pretrained(tmp_path / "flux")
    engine = DiffusersEngine()
    for sampler in ("Heun", "DPM++ 2M"):
        with pytest.raises(HalftoneError) as caught:
            generate(engine, tmp_path / "flux", options={"max_sequence_length": 32}, sampler=sampler)
        assert str(caught.value) == f"Sampler cannot be {sampler}. Use the model's own, Euler."
    report, _ = generate(engine, tmp_path / "flux", options={"max_sequence_length": 32}, sampler="UniPC")
    assert report.images[0].state == "clean"


class _Reads(TorchDispatchMode):
    """Counts the numbers that are fetched from tensors, each of them a wait on a device with a queue."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)
        return func(*args, **(kwargs or {}))


def _reads_in_the_loop(loaded: Loaded, run: Callable[[], Any]) -> int:
    """From the first call of the denoiser to the last."""
    seen: list[int] = []
    with _Reads() as reads:
        handle = loaded.modules["unet"].register_forward_pre_hook(lambda *_: seen.append(reads.count))
        try:
            run()
        finally:
            handle.remove()
    return seen[-1] - seen[0]


def test_watching_a_loop_that_is_well_waits_for_nothing(models: dict[str, Path]) -> None:
    given = {"prompt": "a red sun", "width": 32, "height": 32, "num_inference_steps": 6, "output_type": "pt"}
    with quiet_libraries(), torch.no_grad():
        loaded = load_pipeline(describe(str(models["sd15"])), torch.device("cpu"))
        bare = _reads_in_the_loop(loaded, lambda: loaded.pipe(**given))
        told: list[int] = []
        hooks = Hooks(on_step=lambda step, *_: told.append(step))
        queued = replace(loaded, device=torch.device("mps"))  # the watch takes it for a device that runs behind
        flight = Flight(queued, nan_check="every-step", upcast_sampling=True, hooks=hooks)
        watched = _reads_in_the_loop(loaded, lambda: flight.run(given, torch.Generator().manual_seed(1)))
    assert watched == bare
    assert told == [1, 2, 3, 4, 5, 6]


def test_on_a_device_that_runs_behind_the_step_is_still_named_and_gone_back_to(models: dict[str, Path]) -> None:
    from halftone.engine.sampling.hooks import StepFailed

    given = {"prompt": "a red sun", "width": 32, "height": 32, "num_inference_steps": 6, "output_type": "pt"}
    with quiet_libraries(), torch.no_grad():
        loaded = load_pipeline(describe(str(models["sd15"])), torch.device("cpu"))
        queued = replace(loaded, device=torch.device("mps"))
        flight = Flight(queued, nan_check="every-step", upcast_sampling=True, hooks=Hooks())
        clean = flight.run(given, torch.Generator().manual_seed(1))[0]
        for step in range(6):
            handle = loaded.modules["unet"].register_forward_hook(once(lambda output: (nan(output[0]),), step + 1))
            with pytest.raises(StepFailed) as caught:
                flight.run(given, torch.Generator().manual_seed(1))
            handle.remove()
            assert caught.value.health.step == step
            assert (caught.value.good is None) == (step == 0)
            again = flight.run(given, torch.Generator().manual_seed(1), caught.value.good)[0]
            assert torch.equal(again, clean)
