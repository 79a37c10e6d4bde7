"""The memory ends while Halftone makes a picture, looks for a cure, checks, changes a plan or trains: one sample of each place.

`tests/bench/memory_faults.py` tries every place.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.apart import apart
from tests.helpers.engine_runs import Meddler, generate, pixels
from tests.helpers.loras import make_lora
from tests.helpers.memory import Allocations, passes
from tests.helpers.shortages import Scene, Undisturbed, disturbed, place, undisturbed

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Examine, Generate, Train
from halftone.contract.request import CheckInputs, Lora, Numerics, PictureRequest
from halftone.contract.training import TrainConfig
from halftone.engine.service import DiffusersEngine
from halftone.measure.pictures import psnr


def picture_of(model: Path, precision: Any, **changes: Any) -> Generate:
    numerics = Numerics(precision=precision)
    fields: dict[str, Any] = {"width": 32, "height": 32, "steps": 3, "seed": 5, **changes}
    return Generate(job="", request=PictureRequest(prompt="a red sun", model=str(model), numerics=numerics, **fields))


@pytest.fixture(scope="module")
def scenes(models: dict[str, Path], faulty: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scene]:
    folder = tmp_path_factory.mktemp("scenes")
    sound = models["sd15"]
    from tests.helpers.trainings import draw_pictures

    training = TrainConfig(
        model=str(sound),
        pictures=str(draw_pictures(folder / "pictures", 2)),
        output="",
        precision="float32",
        rank=2,
        steps=2,
        batch=1,
        test_every=0,
        save_every=1,
    )
    inputs = CheckInputs(width=32, height=32)
    lora = Lora(path=str(make_lora(sound, folder / "add.safetensors")))
    return {
        "recover": Scene("recover", picture_of(faulty, "float16")),
        "apply": Scene("apply", picture_of(sound, "bfloat16", loras=(lora,)), (picture_of(sound, "float32"),)),
        "check": Scene("check", Examine(job="", model=str(faulty), numerics=Numerics(precision="float16"), inputs=inputs)),
        "train": Scene("train", Train(job="", config=training)),
    }


@pytest.fixture(scope="module")
def normal(scenes: dict[str, Scene]) -> Callable[[str], Undisturbed]:
    known: dict[str, Undisturbed] = {}

    def of(name: str) -> Undisturbed:
        if name not in known:
            known[name] = undisturbed(scenes[name])
        return known[name]

    return of


@pytest.mark.parametrize(
    ("scene", "way"),
    [
        ("recover", ("load_pipeline",)),
        ("recover", ("encode_prompt", "invoke")),
        ("recover", ("_failing_call", "is_finite")),
        ("recover", ("diagnose", "fresh_component")),
        ("recover", ("diagnose", "_measured_in", "run_call")),
        ("recover", ("diagnose", "put_back", "_write")),
        ("recover", ("cure", "_attempt", "run_call")),
        ("recover", ("look_again", "to_pixels")),
        ("apply", ("put_loras",)),
        ("apply", ("apply_plan", "fresh_component", "add_loras")),
        ("apply", ("apply_plan", "_write")),
        ("check", ("range_pass", "invoke")),
        ("check", ("_targets", "run_call")),
        ("check", ("_priced", "_groups_of")),
        ("check", ("price", "apply_plan")),
        ("check", ("_put_back", "_write")),
        ("train", ("encode_all",)),
        ("train", ("_until_applied", "_loss")),
        ("train", ("_save", "lora_bytes")),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value).strip("_"),
)
def test_the_job_goes_on_or_says_so_and_the_next_one_works(
    scenes: dict[str, Scene], normal: Callable[[str], Undisturbed], scene: str, way: tuple[str, ...]
) -> None:
    whole = normal(scene)
    what, wrong = disturbed(scenes[scene], whole, place(whole.chains, *way))
    assert wrong == "", what
    assert what != "not reached"


def test_what_was_computed_before_a_diagnosis_is_kept(models: dict[str, Path], tmp_path: Path) -> None:
    """A weight is damaged after two steps, and the memory ends wherever the cause is looked for."""
    engine = DiffusersEngine()
    whole, _ = generate(engine, models["sd15"], "float16")

    def damage() -> None:
        assert engine.loaded is not None
        layer: Any = engine.loaded.modules["unet"].get_submodule("conv_in")
        layer.weight.data[0] = float("nan")

    class Late(Meddler):
        def keep(self) -> bool:
            self.steps += 1
            return super().keep() if self.steps == 2 else False

    looking = Allocations(lambda chain, _nth: passes(chain, "diagnose"))
    with looking:
        failed, _ = generate(engine, models["sd15"], "float16", control=Late(damage))
    picture = failed.images[0]
    assert looking.raised
    assert (picture.state, picture.kept_step, picture.shortages[-1].then) == ("not-recovered", 2, "stopped")
    again, _ = generate(engine, models["sd15"], "float16", resume_latents=picture.latents)
    assert psnr(pixels(again), pixels(whole)) >= 30


def test_a_float32_that_does_not_fit_is_had_with_the_others_moved_out(models: dict[str, Path], faulty: Path) -> None:
    whole, _ = generate(DiffusersEngine(), faulty, "float16", tf32=True)  # nothing that was learned holds for other settings
    engine = DiffusersEngine()
    generate(engine, faulty, "float32", steps=1)
    loaded = apart(engine)
    looking = Allocations(lambda chain, _nth: loaded.places.mode == "none" and passes(chain, "_measured_in"))
    with looking:
        made, _ = generate(engine, faulty, "float16", offload="auto")
    assert looking.raised == 1, "asked for once, then the others left"
    assert loaded.places.mode == "none", "the picture goes on as it was"
    assert [one.cure for one in made.images[0].events] == [one.cure for one in whole.images[0].events]
    assert made.images[0].events[0].sound_in_float32
    assert (pixels(made) == pixels(whole)).all()


def test_where_no_float32_fits_bfloat16_is_compared_with(faulty: Path) -> None:
    whole, _ = generate(DiffusersEngine(), faulty, "float16", tf32=True)
    engine = DiffusersEngine()

    def engine_dtype() -> str:
        assert engine.loaded is not None
        return engine.loaded.states["unet"].dtype

    looking = Allocations(lambda chain, _nth: passes(chain, "_measured_in", "measure_call") and engine_dtype() == "float32")
    with looking:
        made, _ = generate(engine, faulty, "float16")
    event = made.images[0].events[0]
    assert looking.raised
    assert (made.images[0].state, event.sound_in_float32, event.cure) == ("recovered", None, whole.images[0].events[0].cure)
    assert psnr(pixels(made), pixels(whole)) >= 30


def test_what_does_not_run_leaves_the_device_first(models: dict[str, Path]) -> None:
    engine = DiffusersEngine()
    generate(engine, models["sd15"], steps=1)
    loaded = apart(engine)
    seen: list[dict[str, bool]] = []

    def look(_module: torch.nn.Module, _args: Any) -> None:
        seen.append({name: "_hf_hook" in vars(module) for name, module in loaded.modules.items()})
        if loaded.places.mode == "none":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    handle = loaded.modules["unet"].get_submodule("conv_in").register_forward_pre_hook(look)
    made, _ = generate(engine, models["sd15"], offload="auto")
    handle.remove()
    assert made.images[0].state == "clean"
    assert not any(seen[0].values())
    assert all(seen[1].values()), "text encoder and VAE are at home before the denoiser runs again"


def test_weights_in_eight_bits_are_unpacked_once_however_often_it_is_tried(models: dict[str, Path]) -> None:
    engine = DiffusersEngine()
    whole, _ = generate(engine, models["sd15"], "bfloat16", fp8_storage=True)
    unpacking = Allocations(lambda chain, nth: passes(chain, "settle", "computed") and nth == 9)
    with unpacking, pytest.raises(HalftoneError, match="does not fit"):
        generate(engine, models["sd15"], "float16")
    assert unpacking.raised == 1
    again, _ = generate(engine, models["sd15"], "bfloat16", fp8_storage=True)
    assert (pixels(again) == pixels(whole)).all()
