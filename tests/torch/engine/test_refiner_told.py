"""What the receipt and the files say of a picture that a refiner finished, or was to finish."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from tests.helpers.engine_runs import Recorder, Steady, generate, pixels
from tests.helpers.interrupted import failing
from tests.helpers.read_back import read_picture
from tests.helpers.tiny import load_tiny
from tests.torch.engine.test_out_of_memory import FULL, full, part
from tests.torch.engine.test_refiner import AT, STEPS, Failing, refined

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import ModelChanged, PictureReady, StepDone
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.service import DiffusersEngine
from halftone.health.pictures.unfinished_pictures import read_kept


def test_the_noise_of_a_sampler_goes_on_where_the_base_ended(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path
) -> None:
    """With one generator for both, as diffusers' own chain has it: the refiner does not add what the base began with."""
    report, told = refined(engine, models, refiner, sampler="DPM2 a")
    base: Any = load_tiny(models["sdxl"])
    other: Any = diffusers.DiffusionPipeline.from_pretrained(refiner)
    with quiet_libraries():
        base.scheduler = make_scheduler(base.scheduler, "DPM2 a")
        other.scheduler = type(base.scheduler).from_config(base.scheduler.config)
        for pipe in (base, other):
            pipe.set_progress_bar_config(disable=True)
            pipe.vae.register_to_config(force_upcast=False)
        generator = torch.Generator("cpu").manual_seed(5)
        asked: dict[str, Any] = {
            "prompt": "a red sun",
            "num_inference_steps": STEPS,
            "guidance_scale": 4.0,
            "generator": generator,
        }
        latents = base(**asked, width=32, height=32, denoising_end=AT, output_type="latent").images
        image = other(**asked, image=latents, denoising_start=AT, output_type="np").images[0]
    assert np.abs(pixels(report).astype(int) - np.round(image * 255).astype(int)).max() <= 1
    (picture,) = report.images
    ahead = {event.ahead for event in told.of(StepDone) if event.in_pass == 1}
    assert ahead == {picture.passes[1].steps}, "a sampler of second order makes one more than there are noise levels left"


@pytest.mark.parametrize(
    ("sampler", "options"), [("Euler Karras", {"rho": 3.0}), ("Euler Karras", {"sigma_min": 0.4}), ("Euler Align Your Steps", {})]
)
def test_the_refiner_makes_as_many_steps_as_are_promised(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path, sampler: str, options: dict[str, Any]
) -> None:
    """Both halves go through one schedule, that of the base with the options of the request."""
    report, told = refined(engine, models, refiner, sampler=sampler, options=options, steps=10)
    base, last = report.images[0].passes
    assert base.steps + last.steps == 10
    assert {event.ahead for event in told.of(StepDone) if event.in_pass == 1} == {last.steps}


def test_the_receipt_tells_the_variation(engine: DiffusersEngine, models: dict[str, Path], refiner: Path) -> None:
    report, _ = refined(engine, models, refiner, variation_seed=7, variation_strength=0.3)
    assert report.images[0].variation_seed == 7
    assert "Variation seed: 7," in (read_picture(Path(report.images[0].path)).parameters or "")


def test_a_picture_is_told_its_own_time_and_place(engine: DiffusersEngine, models: dict[str, Path], refiner: Path) -> None:
    """Not that of the others of its job, which are made in turns with it; and the second, left by the base, comes second."""
    generate(engine, models["sdxl"], "float16", steps=1)
    with failing(engine, 8):
        report, _ = refined(engine, models, refiner, "float16", batch=3, on_black="stop")
    assert [(one.index, bool(one.path)) for one in report.images] == [(0, True), (1, True), (2, False)]
    for one in report.images[:2]:
        assert one.seconds < sum(each.seconds for each in one.passes) + 0.5 * report.seconds
    assert sum(one.seconds for one in report.images) <= report.seconds


def test_no_step_of_the_refiner_is_told_where_it_made_none(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path
) -> None:
    report, _ = refined(engine, models, refiner, control=Steady(keep_after=2))
    request = json.loads(read_picture(Path(report.images[0].path)).receipt or "")["request"]
    assert not any("refiner" in reason for reason in request["reasons"])


@pytest.mark.parametrize("on_black", ["stop", "ask"])
def test_what_the_base_made_is_kept_where_the_refiner_fails_at_once(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path, on_black: str
) -> None:
    whole, _ = refined(engine, models, refiner, "float16", emit=Failing(engine, 0))
    left, _ = refined(engine, models, refiner, "float16", emit=Failing(engine, 0), on_black=on_black)
    (stopped,) = left.images
    assert stopped.latents is not None
    assert read_kept(Path(stopped.latents)).in_pass == 2
    fresh = DiffusersEngine()
    again, told = generate(fresh, models["sdxl"], "float16", emit=Failing(fresh, 0), resume_latents=stopped.latents)
    assert (pixels(again) == pixels(whole)).all()
    assert [one.kind for one in again.images[0].passes] == ["first", "second"]
    assert [event.model and event.model.name for event in told.of(ModelChanged)] == ["refiner"], "the base has no part in it"


class Crowded(Recorder):
    """The memory ends at the refiner's first step."""

    def __init__(self, engine: DiffusersEngine) -> None:
        super().__init__()
        self._engine, self._stack = engine, ExitStack()

    def __call__(self, event: Any, blob: bytes = b"") -> None:
        super().__call__(event, blob)
        if isinstance(event, ModelChanged) and event.model is not None and event.model.name == "refiner":
            self._stack.enter_context(full(part(self._engine, "unet.conv_in"), FULL[0], lambda _latents: True))


def test_it_is_kept_where_the_memory_ends_at_once(engine: DiffusersEngine, models: dict[str, Path], refiner: Path) -> None:
    whole, _ = refined(engine, models, refiner)
    fresh = DiffusersEngine()
    left, _ = refined(fresh, models, refiner, emit=Crowded(fresh), batch=2)
    assert [one.index for one in left.images] == [0, 1], "the second is kept, too, though it was not tried"
    for one in left.images:
        assert one.latents is not None
    again, _ = generate(engine, models["sdxl"], resume_latents=left.images[0].latents)
    assert (pixels(again) == pixels(whole)).all()


def test_it_is_kept_where_the_refiner_cannot_be_read(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path, tmp_path: Path
) -> None:
    config = refiner / "vae" / "config.json"
    sound = config.read_text(encoding="utf-8")
    told = Recorder()
    config.write_text(json.dumps(json.loads(sound) | {"block_out_channels": [4, 8]}), encoding="utf-8")
    try:
        with pytest.raises(HalftoneError) as caught:
            refined(engine, models, refiner, emit=told, batch=2)
    finally:
        config.write_text(sound, encoding="utf-8")
    assert caught.value.code == "model-cannot-run"
    left = [event.facts for event in told.of(PictureReady)]
    assert [(one.index, one.state, one.path) for one in left] == [(0, "not-recovered", ""), (1, "not-recovered", "")]
    whole, _ = refined(engine, models, refiner)
    again, _ = generate(engine, models["sdxl"], resume_latents=left[0].latents)
    assert (pixels(again) == pixels(whole)).all()
