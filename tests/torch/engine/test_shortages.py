"""The memory ends while Halftone makes a picture, looks for a cure, checks, changes a plan or trains: one sample of each place.

`tests/bench/memory_faults.py` tries every place.
"""

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.apart import apart
from tests.helpers.controls import loud_net, make_net, picture, save_net
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import Meddler, Recorder, Steady, check, faulty_copy, generate, pixels
from tests.helpers.loras import make_lora
from tests.helpers.memory import Allocations, Chain, passes, running
from tests.helpers.shortages import Scene, Undisturbed, disturbed, fresh_data, place, undisturbed
from tests.torch.engine.test_added_inputs import entered

from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import GenerateReport
from halftone.contract.messages import Examine, Generate, Load, PhaseChanged, Repair, Train
from halftone.contract.plan import inputs_in
from halftone.contract.request import CheckInputs, Control, Lora, Numerics, PictureRequest
from halftone.contract.training import TrainConfig
from halftone.engine.curing.exactness import Exactness, worth_trying
from halftone.engine.inputs.memory import is_shortage
from halftone.engine.rescaling.added_inputs import prove
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.calls import Call
from halftone.health.explain import not_exact, not_proven
from halftone.library.records import set_applied
from halftone.measure.devices import find_device
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
        ("recover", ("_failing_call", "is_in_range")),
        ("recover", ("diagnose", "exact_source")),
        ("recover", ("diagnose", "measured", "run_call")),
        ("recover", ("cure", "_attempt", "_write")),
        ("recover", ("cure", "_attempt", "run_call")),
        ("recover", ("look_again", "to_pixels")),
        ("apply", ("put_loras",)),
        ("apply", ("apply_plan", "mixed")),
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


# --- a rescaling that is proven beside a ControlNet -------------------------------------------------------------------


@dataclass(frozen=True)
class Beside:
    """A model with an applied rescaling, and a ControlNet; whole: their picture where the memory does not end."""

    model: Path
    controls: tuple[Control, ...]
    whole: GenerateReport

    def generate(self, engine: DiffusersEngine | None = None, **changes: Any) -> GenerateReport:
        return generate(engine or DiffusersEngine(), self.model, "float16", controls=self.controls, **changes)[0]


@pytest.fixture
def beside(models: dict[str, Path], tmp_path: Path) -> Generator[Beside]:
    model = faulty_copy(models["sd15"], tmp_path / "model", "unet", "residual stream", 12)
    net = save_net(loud_net(make_net(models["sd15"]), 10), tmp_path / "net")
    controls = (Control(path=str(net), image=str(picture(tmp_path / "square.png")), scale=2.0),)
    with fresh_data():
        set_applied(check(DiffusersEngine(), model)[0], True)
        yield Beside(model, controls, generate(DiffusersEngine(), model, controls=controls)[0])


def test_a_proof_that_fits_in_no_way_costs_the_rescaling_but_not_the_picture(beside: Beside) -> None:
    ending = Allocations(lambda chain, _nth: passes(chain, "_proof", "prove"))
    with ending:
        made = beside.generate()
    assert ending.raised
    assert (made.images[0].state, made.plan.rescale) == ("recovered", {})
    assert not_proven("unet") in made.plan.reasons
    assert not_exact("unet") not in made.plan.reasons
    assert psnr(pixels(made), pixels(beside.whole)) >= 30
    again = beside.generate()
    assert (again.images[0].state, {*again.plan.rescale}) == ("clean", {"unet"}), "nothing false was remembered"
    assert psnr(pixels(again), pixels(beside.whole)) >= 30


def test_a_proof_that_does_not_fit_in_float32_is_made_in_bfloat16(beside: Beside) -> None:
    engine = DiffusersEngine()

    def is_wide() -> bool:
        assert engine.loaded is not None
        return engine.loaded.states["unet"].dtype == "float32"

    ending = Allocations(lambda chain, _nth: passes(chain, "before_call", "prove", "run_call") and is_wide())
    with ending:
        made = beside.generate(engine)
    assert ending.raised
    assert (made.images[0].state, {*made.plan.rescale}) == ("clean", {"unet"})
    assert inputs_in(made.plan.rescale["unet"])
    assert psnr(pixels(made), pixels(beside.whole)) >= 30


def test_a_component_that_a_proof_leaves_half_done_is_put_back(beside: Beside) -> None:
    """The memory ends in the proof and in all that would undo it, until the picture is begun again with more offloaded."""
    engine = DiffusersEngine()
    generate(engine, beside.model, "float16", steps=1)
    apart(engine)
    seen: list[Chain] = []

    def fails(chain: Chain, _nth: int) -> bool:
        seen.extend([chain] if passes(chain, "put_back") else [])
        return not seen and any(passes(chain, "before_call", work) for work in ("prove", "_write"))

    ending = Allocations(fails)
    with ending:
        made = beside.generate(engine, offload="auto")
    assert ending.raised > 1
    assert seen, "it was half done"
    assert (made.images[0].state, {*made.plan.rescale}) == ("clean", {"unet"})
    assert inputs_in(made.plan.rescale["unet"])
    assert psnr(pixels(made), pixels(beside.whole)) >= 30


@pytest.mark.parametrize("ends", ["memory", "cancelled"])
def test_a_copy_keeps_its_own_inputs_where_a_proof_is_broken_off(beside: Beside, tmp_path: Path, ends: str) -> None:
    """The weights of a rescaled copy need what a ControlNet adds in their scale, in the next job too."""
    engine = DiffusersEngine()
    command = Repair(job="r", model=str(beside.model), numerics=Numerics(), output=str(tmp_path / "copy"))
    engine.repair(command, Recorder(), Steady())

    class Over(Steady):
        def check(self) -> None:
            if ends == "cancelled" and passes(running(), "_proof"):
                raise JobCancelled

    def made(control: Steady) -> GenerateReport:
        return generate(engine, tmp_path / "copy", "float16", family="sd15", controls=beside.controls, control=control)[0]

    ending = Allocations(lambda chain, _nth: ends == "memory" and passes(chain, "before_call", "_proof", "prove"))
    with ending, suppress(JobCancelled):
        made(Over())
    again = made(Steady())
    assert psnr(pixels(again), pixels(beside.whole)) >= 30


def test_a_proof_that_did_not_fit_is_tried_again_when_more_is_free(beside: Beside, tmp_path: Path) -> None:
    """A rescaled copy with a ControlNet needs its proof before each step, and the memory holds it in no way."""
    engine = DiffusersEngine()
    command = Repair(job="r", model=str(beside.model), numerics=Numerics(), output=str(tmp_path / "copy"))
    engine.repair(command, Recorder(), Steady())
    engine.load(Load(model=str(tmp_path / "copy"), numerics=Numerics(precision="float16")), Recorder())
    loaded = engine.loaded
    assert loaded is not None
    exactness, free = Exactness(loaded, find_device("auto"), "float16", lambda: None), [0]
    exactness.free = lambda: free[0]
    call = Call("unet", "forward", (torch.zeros(1), 1), {"mid_block_additional_residual": torch.ones(1)})
    tries: list[int] = []
    with Allocations(lambda chain, _nth: passes(chain, "_proof", "prove")), entered(prove) as found:
        for free[0] in (100, 100, 50, 100, 120, 120):
            with pytest.raises((RuntimeError, MemoryError)) as caught:
                exactness.fits_copy(call)
            assert is_shortage(caught.value)
            tries.append(len(found))
    assert tries == [1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("before", "free", "tried"), [(None, 0, True), (100, 100, False), (100, 110, False), (100, 111, True), (100, 50, False)]
)
def test_a_proof_is_worth_trying_with_more_memory(before: int | None, free: int, tried: bool) -> None:
    assert worth_trying(before, free) is tried


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


def test_steps_are_kept_where_the_memory_stays_full_from_the_decode_on(models: dict[str, Path]) -> None:
    engine, said = DiffusersEngine(), Recorder()
    whole, _ = generate(engine, models["sd15"])
    with Allocations(lambda _chain, _nth: any(event.phase == "decode" for event in said.of(PhaseChanged)), on=DEVICE):
        failed, _ = generate(engine, models["sd15"], emit=said)
    picture = failed.images[0]
    assert (picture.state, picture.kept_step, picture.shortages[-1].then) == ("not-recovered", 3, "stopped")
    again, _ = generate(engine, models["sd15"], resume_latents=picture.latents)
    assert psnr(pixels(again), pixels(whole)) >= 30


def test_a_float32_that_does_not_fit_is_had_with_the_others_moved_out(models: dict[str, Path], faulty: Path) -> None:
    whole, _ = generate(DiffusersEngine(), faulty, "float16", tf32=True)  # nothing that was learned holds for other settings
    engine = DiffusersEngine()
    generate(engine, faulty, "float32", steps=1)
    loaded = apart(engine)
    looking = Allocations(lambda chain, _nth: loaded.places.mode == "none" and passes(chain, "measured"), on=loaded.device)
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

    looking = Allocations(lambda chain, _nth: passes(chain, "measured", "measure_call") and engine_dtype() == "float32")
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


def unpacking() -> Allocations:
    """The memory ends once while weights that were stored in eight bits are unpacked."""
    return Allocations(lambda chain, nth: passes(chain, "settle", "computed") and nth == 9)


def test_weights_in_eight_bits_that_are_not_unpacked_stay_as_they_are(models: dict[str, Path]) -> None:
    engine = DiffusersEngine()
    whole, _ = generate(engine, models["sd15"], "bfloat16", fp8_storage=True)
    with unpacking() as looking, pytest.raises(HalftoneError, match="does not fit"):
        generate(engine, models["sd15"], "float16", offload="none")
    assert looking.raised == 1
    again, _ = generate(engine, models["sd15"], "bfloat16", fp8_storage=True)
    assert (pixels(again) == pixels(whole)).all()


def test_weights_in_eight_bits_are_unpacked_once_however_often_it_is_tried(models: dict[str, Path]) -> None:
    whole, _ = generate(DiffusersEngine(), models["sd15"], "float16")
    engine = DiffusersEngine()
    generate(engine, models["sd15"], "bfloat16", fp8_storage=True)
    loaded = apart(engine)
    with unpacking() as looking:
        made, _ = generate(engine, models["sd15"], "float16", offload="auto")
    assert looking.raised
    assert loaded.places.mode != "none", "tried again, with more of it left out"
    assert (pixels(made) == pixels(whole)).all()
