"""What the user says to a running LoRA training, and what is said to a bad one: nothing is lost, refusals are sentences."""

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.helpers.hostile_pickles import MARK, hostile
from tests.helpers.trainings import FRAGILE_CURE, Control, Directed, Killed, same_weights, tiny_training, train

from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import HalftoneError, JobCancelled, say
from halftone.contract.messages import (
    AnyEvent,
    Decide,
    PhaseChanged,
    TestPicture,
    TrainBegins,
    TrainCaught,
    TrainHeld,
    TrainSaved,
    TrainStep,
    TrainUnsaved,
)
from halftone.contract.training import TrainConfig, TrainReport
from halftone.engine.checks.fragile import make_fragile
from halftone.health.training.training_record import curve_in
from halftone.settings.places import resources
from halftone.training.lora.state import packed, read_state


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> TrainConfig:
    return tiny_training(tmp_path_factory.mktemp("base"), save_every=2)


@pytest.fixture(scope="module")
def plain(wanted: TrainConfig, tmp_path_factory: pytest.TempPathFactory) -> TrainReport:
    """Of a run that nobody disturbed."""
    return train(msgspec.structs.replace(wanted, output=str(tmp_path_factory.mktemp("plain"))))


def at(step: int, act: Callable[[], object]) -> Callable[[AnyEvent], None]:
    return lambda event: act() if isinstance(event, TrainStep) and event.step == step else None  # type: ignore[return-value]


def test_a_pause_changes_nothing(wanted: TrainConfig, plain: TrainReport, tmp_path: Path) -> None:
    control = Control()

    def direct(event: AnyEvent) -> None:
        at(2, lambda: setattr(control, "holds", True))(event)
        if isinstance(event, TrainHeld) and event.on:
            control.holds = False

    emit = Directed(direct)
    report = train(msgspec.structs.replace(wanted, output=str(tmp_path)), emit, control)
    assert [(held.on, held.step) for held in emit.of(TrainHeld)] == [(True, 2), (False, 2)]
    assert same_weights(report, plain)


def test_stop_and_keep_saves_this_step_and_goes_on_later(wanted: TrainConfig, plain: TrainReport, tmp_path: Path) -> None:
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path))
    control = Control()
    kept = train(wanted, Directed(at(3, lambda: setattr(control, "keeps", True))), control)
    assert (kept.steps, kept.steps_wanted, kept.not_kept) == (3, 4, None)
    assert load_file(kept.path)
    assert same_weights(train(wanted, resume=Path(kept.folder)), plain)


def test_what_was_made_before_a_run_was_broken_off_is_told_when_it_goes_on(wanted: TrainConfig, tmp_path: Path) -> None:
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path), test_every=2, steps=5)
    first, control = Directed(), Control()
    first_on = at(3, lambda: setattr(control, "keeps", True))
    kept = train(wanted, Directed(lambda event: (first(event), first_on(event))), control)
    again = Directed()
    train(wanted, again, resume=Path(kept.folder))
    begins, blob = next((event, blob) for event, blob in again.events if isinstance(event, TrainBegins))
    losses, norms = curve_in(blob)
    steps = first.of(TrainStep)
    assert begins.first == 4
    assert list(losses) == pytest.approx([step.loss for step in steps])
    assert list(norms) == pytest.approx([step.norm for step in steps])
    made = [event for event in again.of(TestPicture) if event.path]
    assert [event.step for event in made] == [2, 4]
    assert all(blob[:4] == b"\x89PNG" for event, blob in again.events if isinstance(event, TestPicture) and event.path)


def test_told_to_stop_before_its_first_step_it_leaves_nothing(wanted: TrainConfig, tmp_path: Path) -> None:
    control = Control()
    early = Directed(lambda event: setattr(control, "keeps", True) if isinstance(event, PhaseChanged) else None)
    with pytest.raises(JobCancelled):
        train(msgspec.structs.replace(wanted, output=str(tmp_path)), early, control)
    assert not early.of(TrainBegins)
    assert not list(tmp_path.iterdir())


def test_stopped_in_its_first_step_it_saves_nothing_and_offers_nothing(wanted: TrainConfig, tmp_path: Path) -> None:
    """A LoRA that changes no picture is not a result."""
    control = Control()
    emit = Directed(lambda event: setattr(control, "keeps", True) if isinstance(event, TrainBegins) else None)
    report = train(msgspec.structs.replace(wanted, output=str(tmp_path), test_every=0), emit, control)
    assert (report.steps, report.path, report.folder, emit.of(TrainSaved)) == (0, "", "", [])
    assert not list(tmp_path.iterdir())


def test_a_size_that_the_model_cannot_train_at_is_refused_with_those_next_to_it(wanted: TrainConfig, tmp_path: Path) -> None:
    odd = msgspec.structs.replace(wanted, output=str(tmp_path), size=17)
    with pytest.raises(HalftoneError) as raised:
        train(odd)
    assert raised.value.facts == {"size": 17, "step": 8, "low": 16, "high": 24}
    assert not list(tmp_path.iterdir())


def test_told_to_stop_it_shows_no_picture_half_made(wanted: TrainConfig, tmp_path: Path) -> None:
    control = Control()
    emit = Directed(lambda event: setattr(control, "keeps", True) if isinstance(event, TestPicture) else None)
    report = train(msgspec.structs.replace(wanted, output=str(tmp_path), test_every=2), emit, control)
    assert (report.steps, report.not_kept) == (2, None)
    assert [event.path for event in emit.of(TestPicture)] == [""]
    assert not list(tmp_path.rglob("*.png"))


def test_cancelled_it_stops_and_what_was_saved_stays(wanted: TrainConfig, tmp_path: Path) -> None:
    control = Control()
    with pytest.raises(JobCancelled):
        train(
            msgspec.structs.replace(wanted, output=str(tmp_path)),
            Directed(at(3, lambda: setattr(control, "cancel", True))),
            control,
        )
    assert load_file(tmp_path / "lora" / "lora-000002.safetensors")
    assert not (tmp_path / "lora.safetensors").exists()


def test_a_picture_that_is_left_out_does_not_come_again(wanted: TrainConfig, tmp_path: Path) -> None:
    control = Control()
    control.answers = [Decide(job="t", choice="leave-out", picture="1.png")]
    report = train(msgspec.structs.replace(wanted, output=str(tmp_path)), control=control)
    note = read_state(Path(report.folder) / "state.safetensors").note
    assert note.out == ["1.png"]
    assert not any("1.png" in batch for batch in note.left)


def test_a_stop_asks_and_ends_with_sound_weights(wanted: TrainConfig, tmp_path: Path) -> None:
    control = Control()

    def answer(event: AnyEvent) -> None:
        if isinstance(event, TrainCaught) and event.asks:
            control.answers.append(Decide(job="t", choice="stop"))

    emit = Directed(answer)
    wild = msgspec.structs.replace(wanted, output=str(tmp_path), learning_rate=100.0, warm_up=40, clip=0.0, steps=50)
    report = train(wild, emit, control)
    assert [caught.asks for caught in emit.of(TrainCaught)][-1]
    assert 0 < report.steps < 50
    assert all(bool(value.isfinite().all()) for value in load_file(report.path).values())


def test_half_precision_scales_the_loss_and_computes_again_what_it_did_not_keep(wanted: TrainConfig, tmp_path: Path) -> None:
    emit = Directed()
    narrow = msgspec.structs.replace(wanted, output=str(tmp_path), precision="float16", checkpointing=True)
    report = train(narrow, emit)
    assert (report.dtype, report.caught) == ("float16", ())
    assert all(step.scale is not None and step.applied for step in emit.of(TrainStep))
    assert all(value.dtype == torch.float32 for value in load_file(report.path).values())
    assert emit.of(TrainBegins)[0].memory


def test_an_overflow_in_half_precision_is_cured_and_the_loss_is_that_of_full_precision(
    wanted: TrainConfig, tmp_path: Path
) -> None:
    model = str(make_fragile(resources() / "pocket", tmp_path / "fragile"))
    fragile = msgspec.structs.replace(wanted, model=model, size=64, steps=3)
    wide = train(msgspec.structs.replace(fragile, output=str(tmp_path / "wide")))
    narrow = train(msgspec.structs.replace(fragile, output=str(tmp_path / "narrow"), precision="float16"))
    (caught,) = narrow.caught
    assert (caught.step, caught.cause, caught.did, caught.cure) == (1, "activation-overflow", "repeated", FRAGILE_CURE)
    assert narrow.steps == 3
    assert narrow.loss == pytest.approx(wide.loss, rel=0.01)


def test_without_the_guard_the_weights_are_the_same(wanted: TrainConfig, plain: TrainReport, tmp_path: Path) -> None:
    assert same_weights(train(msgspec.structs.replace(wanted, output=str(tmp_path), guard="off")), plain)


def test_without_the_guard_a_broken_lora_is_not_saved(wanted: TrainConfig, tmp_path: Path) -> None:
    wild = {"learning_rate": 1e9, "clip": 0.0, "schedule": "constant", "guard": "off"}
    for every in (0, 2):
        output = tmp_path / f"every {every}"
        emit = Directed()
        with pytest.raises(HalftoneError) as raised:
            train(msgspec.structs.replace(wanted, output=str(output), save_every=every, **wild), emit)
        assert raised.value.code == "train-bad-numbers"
        assert raised.value.facts["step"] == str(every or wanted.steps)
        assert not emit.of(TrainSaved)
        assert not list(output.rglob("lora*.safetensors"))


def test_without_the_guard_losses_that_were_no_numbers_are_told(wanted: TrainConfig, tmp_path: Path) -> None:
    model = str(make_fragile(resources() / "pocket", tmp_path / "fragile"))
    fragile = msgspec.structs.replace(wanted, model=model, size=64, steps=3, precision="float16", guard="off")
    report = train(msgspec.structs.replace(fragile, output=str(tmp_path / "out")))
    assert (report.guarded, report.bad_losses) == (False, 3)


def test_a_state_of_bad_numbers_is_not_gone_on_with(wanted: TrainConfig, tmp_path: Path) -> None:
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path))
    report = train(msgspec.structs.replace(wanted, steps=2))
    folder, sound = Path(report.folder), Path(report.path).read_bytes()
    state = read_state(folder / "state.safetensors")
    next(iter(state.weights.values())).view(-1)[0] = torch.nan
    (folder / "state.safetensors").write_bytes(packed(state))
    assert code(msgspec.structs.replace(wanted, steps=2), folder) == "train-state-broken"
    assert Path(report.path).read_bytes() == sound


# --- nothing is lost -----------------------------------------------------------------------------------------------------


@pytest.mark.logs("was not saved")
@pytest.mark.skipif(importlib.util.find_spec("resource") is None, reason="limits of files are POSIX's")
def test_a_full_disk_is_told_and_the_training_goes_on(wanted: TrainConfig, plain: TrainReport, tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def direct(event: AnyEvent) -> None:
        at(1, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1])))(event)
        if isinstance(event, TrainUnsaved):
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    emit = Directed(direct)
    try:
        report = train(msgspec.structs.replace(wanted, output=str(tmp_path)), emit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [(one.step, one.error.code) for one in emit.of(TrainUnsaved)] == [(2, "output-failed")]
    assert [saved.step for saved in emit.of(TrainSaved)] == [4]
    assert same_weights(report, plain)
    assert not list(tmp_path.rglob("*.part")) + list(tmp_path.rglob("*000002*"))


@pytest.mark.logs("was not saved")
def test_where_only_one_of_two_files_can_be_written_it_is_the_state(
    wanted: TrainConfig, plain: TrainReport, tmp_path: Path
) -> None:
    """A folder lies where the LoRA of the second step is to be."""
    folder = tmp_path / "lora"
    taken = folder / "lora-000002.safetensors"
    kept: list[int] = []

    def direct(event: AnyEvent) -> None:
        at(1, taken.mkdir)(event)
        if isinstance(event, TrainUnsaved):
            kept.append(read_state(folder / "state.safetensors").note.step)

    emit = Directed(direct)
    report = train(msgspec.structs.replace(wanted, output=str(tmp_path)), emit)
    assert [one.step for one in emit.of(TrainUnsaved)] == kept == [2]
    assert not list(taken.iterdir())
    assert same_weights(report, plain)


@pytest.mark.logs("was not saved")
def test_what_cannot_be_saved_is_saved_in_another_folder_and_goes_on_from_there(
    wanted: TrainConfig, plain: TrainReport, tmp_path: Path
) -> None:
    here, there, control = tmp_path / "here", tmp_path / "there", Control()

    def direct(event: AnyEvent) -> None:
        if isinstance(event, TrainStep) and event.step == 1:
            shutil.rmtree(here)
            here.write_text("", encoding="utf-8")
        if isinstance(event, TrainUnsaved):
            control.answers.append(Decide(job="t", choice="save-in", folder=str(there)))
        if isinstance(event, TrainSaved):
            control.keeps = True

    emit = Directed(direct)
    wanted = msgspec.structs.replace(wanted, output=str(here))
    report = train(wanted, emit, control)
    assert [one.step for one in emit.of(TrainUnsaved)] == [2]
    assert [(saved.step, saved.folder) for saved in emit.of(TrainSaved)] == [(2, str(there / "lora"))] * 2
    assert (report.path, report.not_kept) == (str(there / "lora.safetensors"), None)
    assert same_weights(train(wanted, resume=Path(report.folder)), plain)


def test_a_folder_that_cannot_be_either_is_told_and_the_run_stays_where_it_is(
    wanted: TrainConfig, plain: TrainReport, tmp_path: Path
) -> None:
    taken, control = tmp_path / "taken", Control()
    taken.write_text("", encoding="utf-8")
    control.answers = [Decide(job="t", choice="save-in", folder=str(taken))]
    emit = Directed()
    report = train(msgspec.structs.replace(wanted, output=str(tmp_path)), emit, control)
    assert [(one.step, one.error.code) for one in emit.of(TrainUnsaved)] == [(0, "output-not-folder")]
    assert report.path == str(tmp_path / "lora.safetensors")
    assert same_weights(report, plain)


@pytest.mark.logs("the LoRA lies in")
def test_a_finished_lora_finds_another_place_when_its_folder_is_gone(
    wanted: TrainConfig, plain: TrainReport, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    emit = Directed(at(4, lambda: shutil.rmtree(output)))
    report = train(msgspec.structs.replace(wanted, output=str(output)), emit)
    assert not Path(report.path).is_relative_to(output)
    assert report.not_kept is not None
    assert str(output) in say(report.not_kept)
    assert same_weights(report, plain)


def test_a_second_run_of_the_same_name_overwrites_nothing(wanted: TrainConfig, tmp_path: Path) -> None:
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path), steps=1)
    assert [Path(train(wanted).path).name for _ in range(2)] == ["lora.safetensors", "lora-2.safetensors"]


# --- refusals ------------------------------------------------------------------------------------------------------------


def code(config: TrainConfig, resume: Path | None = None) -> ErrorCode:
    with pytest.raises(HalftoneError) as raised:
        train(config, resume=resume)
    return raised.value.code


def test_too_little_memory_is_told_with_what_a_training_can_save(wanted: TrainConfig, tmp_path: Path) -> None:
    def ends() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    with pytest.raises(HalftoneError) as raised:
        train(msgspec.structs.replace(wanted, output=str(tmp_path)), Directed(at(3, ends)))
    assert raised.value.code == "train-no-memory"
    assert "Tried to allocate" in str(raised.value.facts["detail"])
    assert read_state(tmp_path / "lora" / "state.safetensors").note.step == 3


def test_what_no_training_can_be_made_of_is_refused_in_a_sentence(wanted: TrainConfig, tmp_path: Path) -> None:
    lora = tmp_path / "a.safetensors"
    names = ("lora_down.weight", "lora_up.weight")
    save_file({f"lora_unet_mid_block_attentions_0_proj_in.{name}": torch.zeros(4, 4) for name in names}, lora)
    taken = tmp_path / "taken"
    taken.write_text("a file", encoding="utf-8")
    broken = shutil.copytree(wanted.model, tmp_path / "broken")
    weights = load_file(broken / "unet" / "diffusion_pytorch_model.safetensors")
    weights["conv_out.bias"][1] = torch.nan
    save_file(weights, broken / "unet" / "diffusion_pytorch_model.safetensors")
    other = shutil.copytree(wanted.model, tmp_path / "other")
    index = (other / "model_index.json").read_text(encoding="utf-8")
    (other / "model_index.json").write_text(index.replace("StableDiffusionPipeline", "StableDiffusionInpaintPipeline"), "utf-8")
    cases: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"model": str(lora)}, "train-other-base"),
        ({"model": str(other)}, "train-other-base"),
        ({"model": str(broken)}, "model-broken"),
        ({"model": str(tmp_path / "nowhere")}, "model-missing"),
        ({"output": str(taken)}, "output-not-folder"),
        ({"pictures": str(tmp_path / "nowhere")}, "train-no-folder"),
        ({"steps": 0}, "value-out-of-range"),
        ({"name": "../a"}, "setting-bad-value"),
    ]
    packages = {"prodigy": "prodigyopt", "adamw8bit": "bitsandbytes"}
    lacking = [name for name, package in packages.items() if importlib.util.find_spec(package) is None]
    cases.extend(({"optimizer": name}, "train-no-optimizer") for name in lacking)
    for index, (changes, expected) in enumerate(cases):
        fields = {"output": str(tmp_path / f"out {index}"), **changes}
        assert (changes, code(msgspec.structs.replace(wanted, **fields))) == (changes, expected)
        assert not list(tmp_path.glob("out */lora")), "nothing is left behind"


def test_a_run_goes_on_only_as_what_it_was(wanted: TrainConfig, tmp_path: Path) -> None:
    pictures = shutil.copytree(wanted.pictures, tmp_path / "pictures")
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path / "out"), pictures=str(pictures), steps=2)
    folder = Path(train(wanted).folder)
    assert code(msgspec.structs.replace(wanted, rank=4), folder) == "train-other-run"
    assert code(wanted, tmp_path) == "train-no-run"
    (pictures / "1.txt").write_text("something else", encoding="utf-8")
    assert code(wanted, folder) == "train-pictures-changed"
    (pictures / "1.txt").write_text("a hill 1", encoding="utf-8")
    state = folder / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    assert code(wanted, folder) == "train-state-unreadable"
    (folder / "run.json").write_text("{", encoding="utf-8")
    assert code(wanted, folder) == "train-state-unreadable"


def test_a_copied_run_writes_over_no_other_lora(wanted: TrainConfig, tmp_path: Path) -> None:
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path), steps=2)
    report = train(wanted)
    before = Path(report.path).stat().st_mtime_ns
    copied = train(wanted, resume=shutil.copytree(report.folder, tmp_path / "copy"))
    assert copied.path == str(tmp_path / "copy.safetensors")
    assert Path(report.path).stat().st_mtime_ns == before


@pytest.mark.parametrize("optimizer", ["prodigy", "adamw8bit"])
def test_every_optimizer_goes_on_exactly_with_and_without_the_guard(wanted: TrainConfig, tmp_path: Path, optimizer: str) -> None:
    """Prodigy keeps its estimate of the rate in its groups; 8-bit moments have codes and scales of blocks."""
    if optimizer == "adamw8bit":
        pytest.importorskip("bitsandbytes")
    rate = 1.0 if optimizer == "prodigy" else 1e-3
    made = {
        "output": str(tmp_path / "whole"),
        "optimizer": optimizer,
        "learning_rate": rate,
        "rank": 128,
        "save_every": 2,
        "warm_up": 1,
    }
    wanted = msgspec.structs.replace(wanted, **made)
    told = Directed()
    whole = train(wanted, told)
    assert all(step.applied for step in told.of(TrainStep))
    bare = train(msgspec.structs.replace(wanted, output=str(tmp_path / "bare"), guard="off"))
    assert same_weights(bare, whole)
    broken = msgspec.structs.replace(wanted, output=str(tmp_path / "broken"))

    def die(event: AnyEvent) -> None:
        if isinstance(event, TrainStep) and event.step == 3:
            raise Killed

    with pytest.raises(Killed):
        train(broken, Directed(die))
    again = Directed()
    assert same_weights(train(broken, again, resume=tmp_path / "broken" / "lora"), whole)
    assert [step.rate for step in again.of(TrainStep)] == [step.rate for step in told.of(TrainStep)][2:]


# --- pickles in the base model ---------------------------------------------------------------------------------------


@pytest.fixture
def with_pickles(wanted: TrainConfig, tmp_path: Path) -> TrainConfig:
    """Its base model has a pickle beside the files of every part, each under the name that the libraries read."""
    model = Path(shutil.copytree(wanted.model, tmp_path / "model"))
    for part in (path for path in model.iterdir() if path.is_dir()):
        for name in ("pytorch_model.bin", "diffusion_pytorch_model.bin", "model.pt", "scheduler.bin", "vocab.pkl"):
            hostile(part / name, tmp_path / MARK)
    return msgspec.structs.replace(wanted, model=str(model), output=str(tmp_path / "out"), steps=2)


def test_a_pickle_beside_the_weights_of_the_base_model_is_not_opened(with_pickles: TrainConfig, tmp_path: Path) -> None:
    assert train(with_pickles).steps == 2
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("part", ["text_encoder", "unet", "vae"])
def test_a_base_model_whose_weights_are_a_pickle_is_refused(with_pickles: TrainConfig, tmp_path: Path, part: str) -> None:
    """Some other safetensors file lies beside the pickle."""
    own = next((Path(with_pickles.model) / part).glob("*.safetensors"))
    own.rename(own.with_name("other.safetensors"))
    with pytest.raises(HalftoneError) as caught:
        train(with_pickles)
    assert caught.value.code == "model-pickle"
    assert not (tmp_path / MARK).exists()
