"""The last steps made by another model: base and refiner one after the other, both watched, told as one picture."""

import json
import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import Recorder, Steady, faulty_copy, generate, pixels
from tests.helpers.interrupted import LAYER, failing
from tests.helpers.read_back import read_picture
from tests.helpers.tiny import load_tiny
from tests.torch.engine.test_out_of_memory import FULL, full

from halftone.contract.errors import HalftoneError, remedy, sentence
from halftone.contract.messages import AnyEvent, JobEnded, JobStarted, ModelChanged, PhaseChanged, StepDone
from halftone.contract.request import Control, Hires, Numerics, PictureRequest, Refiner, Start
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.memory import fit_together
from halftone.engine.service import DiffusersEngine
from halftone.health.pictures.unfinished_pictures import read_kept
from halftone.library.models import describe
from halftone.measure.devices import find_device

STEPS = 5
AT = 0.6


def refined(engine: DiffusersEngine, models: dict[str, Path], refiner: Path, *args: Any, **changes: Any) -> Any:
    asked = {"steps": STEPS, "guidance": 4.0, "refiner": Refiner(path=str(refiner), at=AT), **changes}
    return generate(engine, models["sdxl"], *args, **asked)


def test_the_picture_is_that_of_the_chain_that_diffusers_documents(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path
) -> None:
    report, told = refined(engine, models, refiner)
    base: Any = load_tiny(models["sdxl"])
    other: Any = diffusers.DiffusionPipeline.from_pretrained(refiner)
    other.scheduler = type(base.scheduler).from_config(base.scheduler.config)
    for pipe in (base, other):
        pipe.set_progress_bar_config(disable=True)
        pipe.vae.register_to_config(force_upcast=False)
    asked: dict[str, Any] = {"prompt": "a red sun", "num_inference_steps": STEPS, "guidance_scale": 4.0}
    generator = torch.Generator("cpu").manual_seed(5)
    with quiet_libraries():
        latents = base(**asked, width=32, height=32, denoising_end=AT, output_type="latent", generator=generator).images
        image = other(**asked, image=latents, denoising_start=AT, output_type="np").images[0]
    assert np.abs(pixels(report).astype(int) - np.round(image * 255).astype(int)).max() <= 1
    (picture,) = report.images
    assert [(one.kind, one.steps) for one in picture.passes] == [("first", 3), ("second", 2)]
    assert (picture.state, picture.steps) == ("clean", STEPS)
    assert len(told.of(JobStarted)) == 1
    assert {(event.in_pass, event.passes, event.steps, event.ahead) for event in told.of(StepDone)} == {
        (1, 2, 3, 2),
        (2, 2, 2, 0),
    }


def test_the_base_leaves_the_memory_before_the_refiner_comes_where_both_do_not_fit(
    models: dict[str, Path], refiner: Path
) -> None:
    """All pictures of a job are begun before, and each is the one that its seed gives alone."""
    ask: dict[str, Any] = {"offload": "model"}  # which is there for models that do not fit whole
    engine = DiffusersEngine()
    generate(engine, models["sdxl"], steps=1)
    assert engine.loaded is not None
    base = weakref.ref(engine.loaded.modules["unet"])
    there: list[bool] = []

    class Watching(Recorder):
        def __call__(self, event: AnyEvent, blob: bytes = b"") -> None:
            if isinstance(event, ModelChanged):
                there.append(base() is not None)
            super().__call__(event, blob)

    both, told = refined(engine, models, refiner, batch=2, emit=Watching(), **ask)
    assert there == [False]
    assert [picture.index for picture in both.images] == [0, 1]
    order = dict.fromkeys((event.in_pass, event.picture) for event in told.of(StepDone))
    assert list(order) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert len(told.of(ModelChanged)) == 1
    alone, _ = refined(engine, models, refiner, seed=6, **ask)
    assert (pixels(both, 1) == pixels(alone)).all()
    request = json.loads(read_picture(Path(alone.images[0].path)).receipt or "")["request"]
    assert any("base model was unloaded" in reason for reason in request["reasons"])


def loads(told: Recorder) -> int:
    return sum(event.phase == "load" and not event.done for event in told.of(PhaseChanged))


def test_both_stay_in_memory_where_they_fit_and_another_picture_loads_none(models: dict[str, Path], refiner: Path) -> None:
    engine = DiffusersEngine()
    first, told = refined(engine, models, refiner)
    assert loads(told) == 2
    again, told = refined(engine, models, refiner)
    assert loads(told) == 0
    assert (pixels(first) == pixels(again)).all()
    assert [event.model and event.model.name for event in told.of(ModelChanged)] == ["sdxl", "refiner"]
    _, told = generate(engine, models["sdxl"], steps=1)
    _, told = refined(engine, models, refiner)
    assert loads(told) == 1, "a picture without it has the memory for itself"


def test_a_third_model_is_gone_before_the_two_come(models: dict[str, Path], refiner: Path) -> None:
    """Room was looked for as if it were not there."""
    engine = DiffusersEngine()
    generate(engine, models["sd15"], steps=1)
    assert engine.loaded is not None
    third = weakref.ref(engine.loaded.modules["unet"])
    there: list[bool] = []

    class Watching(Recorder):
        def __call__(self, event: AnyEvent, blob: bytes = b"") -> None:
            if isinstance(event, ModelChanged):
                there.append(third() is not None)
            super().__call__(event, blob)

    _, told = refined(engine, models, refiner, emit=Watching())
    assert there == [False, False]
    _, told = refined(engine, models, refiner)
    assert loads(told) == 0


def test_the_base_leaves_where_the_memory_ends_all_the_same(models: dict[str, Path], refiner: Path) -> None:
    engine = DiffusersEngine()
    whole, _ = refined(engine, models, refiner)
    assert engine.loaded is not None
    calls: list[int] = []
    with full(engine.loaded.modules["unet"].get_submodule("conv_in"), FULL[0], lambda _: calls.append(1) or len(calls) == 2):
        report, _ = refined(engine, models, refiner)
    (picture,) = report.images
    assert (picture.state, picture.shortages) == ("clean", ())
    assert (pixels(report) == pixels(whole)).all()
    _, told = refined(engine, models, refiner)
    assert loads(told) == 1


def test_models_that_would_not_fit_together_are_told(models: dict[str, Path], refiner: Path) -> None:
    base, other = describe(str(models["sdxl"])), describe(str(refiner))
    cpu = find_device("cpu")

    def together(**changes: Any) -> bool:
        request = PictureRequest(prompt="", **changes)
        return fit_together(((base, request), (other, request)), cpu, None, ())

    assert together()
    assert not together(width=2**17, height=2**17)
    assert not together(numerics=Numerics(offload="group"))


class Failing(Recorder):
    """The refiner fails in float16 from a call on, as soon as it is in use, until the job ends."""

    def __init__(self, engine: DiffusersEngine, after: int) -> None:
        super().__init__()
        self._engine, self._after, self._stack = engine, after, ExitStack()

    def __call__(self, event: AnyEvent, blob: bytes = b"") -> None:
        super().__call__(event, blob)
        if isinstance(event, ModelChanged) and event.model is not None and event.model.family == "SDXL refiner":
            self._stack.enter_context(failing(self._engine, self._after))
        elif isinstance(event, JobEnded):
            self._stack.close()


def test_a_fault_of_the_refiner_is_found_named_and_cured_or_gone_on_from(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path
) -> None:
    whole, _ = refined(engine, models, refiner, "float16", emit=Failing(engine, 1))
    (picture,) = whole.images
    assert picture.state == "recovered"
    assert {(event.in_pass, event.step, event.component, event.module) for event in picture.events} == {(2, 2, "unet", LAYER)}
    assert (picture.passes[0].cures, bool(picture.passes[1].cures)) == ({}, True)
    left, _ = refined(engine, models, refiner, "float16", emit=Failing(engine, 1), on_black="stop")
    (stopped,) = left.images
    assert stopped.latents is not None
    assert (stopped.kept_step, read_kept(Path(stopped.latents)).in_pass) == (1, 2)
    fresh = DiffusersEngine()
    again, told = generate(fresh, models["sdxl"], "float16", emit=Failing(fresh, 0), resume_latents=stopped.latents)
    assert (pixels(again) == pixels(whole)).all()
    assert [one.kind for one in again.images[0].passes] == ["first", "second"]
    assert {event.in_pass for event in told.of(StepDone)} == {2}


def test_a_picture_that_waits_for_its_decode_gets_that_of_the_refiner(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path, tmp_path: Path
) -> None:
    fragile = faulty_copy(refiner, tmp_path / "fragile", "vae", "stream of decoder", 16)
    left, _ = refined(engine, models, fragile, "float16", on_black="stop")
    (stopped,) = left.images
    assert stopped.latents is not None
    again, told = generate(engine, models["sdxl"], "float16", resume_latents=stopped.latents)
    (picture,) = again.images
    assert picture.state == "recovered", "its decoder is the one that overflows"
    assert not told.of(StepDone)
    assert (engine.loaded and engine.loaded.facts.path) == str(fragile)
    whole, _ = refined(engine, models, refiner, "float32")
    assert np.abs(pixels(again).astype(int) - pixels(whole)).max() < 24


def test_the_receipt_names_the_refiner(engine: DiffusersEngine, models: dict[str, Path], refiner: Path) -> None:
    report, _ = refined(engine, models, refiner)
    read = read_picture(Path(report.images[0].path))
    assert f"Steps: {STEPS}," in (read.parameters or "")
    assert "Refiner: refiner, Refiner switch at: 0.6" in (read.parameters or "")
    request = json.loads(read.receipt or "")["request"]
    assert request["refiner"] == {"path": "refiner", "at": AT}
    assert "denoising_end" not in request["options"]
    assert "The refiner makes the last 2 steps." in request["reasons"]


def test_stop_and_keep_while_the_base_runs_shows_what_there_is(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path
) -> None:
    report, told = refined(engine, models, refiner, control=Steady(keep_after=2))
    assert [one.kind for one in report.images[0].passes] == ["first"]
    assert len(np.unique(pixels(report))) > 8
    assert len(told.of(ModelChanged)) <= 1, "the refiner is not read"


def test_a_start_picture_is_refined_too(engine: DiffusersEngine, models: dict[str, Path], refiner: Path, tmp_path: Path) -> None:
    Image.new("RGB", (32, 32), (200, 40, 40)).save(tmp_path / "start.png")
    report, _ = refined(engine, models, refiner, image=str(tmp_path / "start.png"), start=Start(strength=0.8))
    assert [one.steps for one in report.images[0].passes] == [2, 2]


def test_a_picture_of_a_controlnet_is_refined_too(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path, tmp_path: Path
) -> None:
    """As the chain of diffusers has it: the net has its part in the base's steps alone."""
    net = make_net(models["sdxl"])
    control = Control(path=str(save_net(net, tmp_path / "net")), image=str(picture(tmp_path / "square.png")), scale=0.7)
    report, _ = refined(engine, models, refiner, controls=(control,))
    base: Any = diffusers.AutoPipelineForText2Image.from_pipe(load_tiny(models["sdxl"]), controlnet=net)
    other: Any = diffusers.DiffusionPipeline.from_pretrained(refiner)
    other.scheduler = type(base.scheduler).from_config(base.scheduler.config)
    asked: dict[str, Any] = {"num_inference_steps": STEPS, "guidance_scale": 4.0}
    begun = {"image": Image.open(control.image), "controlnet_conditioning_scale": 0.7, "denoising_end": AT}
    generator = torch.Generator("cpu").manual_seed(5)
    with quiet_libraries():
        for pipe in (base, other):
            pipe.set_progress_bar_config(disable=True)
            pipe.to(DEVICE)
            pipe.vae.register_to_config(force_upcast=False)
        latents = base("a red sun", **asked, **begun, width=32, height=32, output_type="latent", generator=generator).images
        image = other("a red sun", **asked, image=latents, denoising_start=AT, output_type="np").images[0]
    assert np.abs(pixels(report).astype(int) - np.round(image * 255).astype(int)).max() <= 1
    assert [one.steps for one in report.images[0].passes] == [3, 2]
    assert len(report.images[0].events) == 0


REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("of another kind", {"refiner": "sdxl"}, "The refiner cannot be {sdxl}: it is no SDXL refiner."),
    ("not there", {"refiner": "nothing"}, "There is no model at {nothing}."),
    (
        "a pickle",
        {"refiner": "pickle"},
        "{pickle} is a pickle file. Halftone does not open these: they can run code.",
    ),
    ("half a file", {"refiner": "half"}, "{half} is incomplete: {half_size} of {size} bytes."),
    ("an empty folder", {"refiner": "empty"}, "The folder {empty} is empty."),
    ("for another base", {"model": "sd15"}, "The refiner cannot be used with sd15, a Stable Diffusion 1.x model."),
    ("from the beginning", {"at": 0.0}, "Refiner switch point cannot be 0.0."),
    (
        "no step left for it",
        {"steps": 2, "sampler": "Euler SGM Uniform"},
        "--refiner-at cannot be 0.6 with 2 steps: none would be left for the refiner.",
    ),
    (
        "with steps that are not known",
        {"sampler": "DPM adaptive Karras"},
        "Sampler cannot be DPM adaptive Karras together with a refiner.",
    ),
    ("with a second pass", {"hires": Hires()}, "The refiner cannot be used with --hires."),
    ("its option", {"options": {"denoising_end": 0.5}}, "--option cannot be denoising_end."),
)


@pytest.mark.parametrize(("changes", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_refined_is_refused_before_any_step(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "model.ckpt").write_bytes(b"\x80\x02}q\x00.")
    whole = next((refiner / "unet").glob("*.safetensors")).read_bytes()
    (tmp_path / "half.safetensors").write_bytes(whole[: len(whole) // 2])
    files = {"pickle": "model.ckpt", "half": "half.safetensors", "empty": "empty", "nothing": "nothing"}
    places = models | {name: tmp_path / file for name, file in files.items()}
    given = Refiner(path=str(places.get(changes.get("refiner", ""), refiner)), at=changes.get("at", AT))
    others = {name: value for name, value in changes.items() if name not in ("refiner", "at", "model")}
    told = Recorder()
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models[changes.get("model", "sdxl")], refiner=given, emit=told, **others)
    sizes = {"size": len(whole), "half_size": len(whole) // 2}
    assert sentence(caught.value.as_facts()) == said.format(**places, **sizes)
    assert remedy(caught.value.as_facts()).endswith(".")
    assert not told.of(StepDone)
