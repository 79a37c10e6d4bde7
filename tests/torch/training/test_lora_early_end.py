"""What is kept of a LoRA training that ends before its last step, or that a part of fails."""

import shutil
from pathlib import Path

import msgspec
import pytest
import torch
from tests.helpers.device import DEVICE
from tests.helpers.trainings import FRAGILE_CURE, Control, Directed, Killed, draw_pictures, same_weights, tiny_training, train

from halftone.cli import main
from halftone.contract.engine import Control as EngineControl
from halftone.contract.engine import Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.messages import (
    AnyEvent,
    Generate,
    GenerateReport,
    PhaseChanged,
    TestPicture,
    Train,
    TrainBegins,
    TrainSaved,
    TrainStep,
)
from halftone.contract.training import Caught, TrainConfig
from halftone.engine.checks.fragile import make_fragile
from halftone.library.run_logs.folder import read_run
from halftone.library.training_data.training_runs import config_in, unfinished
from halftone.settings.places import resources
from halftone.training.lora.state import packed, read_state
from halftone.training.lora.steps import Unguarded
from halftone.training.service import TrainingEngine


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> TrainConfig:
    return tiny_training(tmp_path_factory.mktemp("base"), accumulate=2, save_every=0)


class Failing(Control):
    """Looks at its flags until something breaks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._left = looks

    def check(self) -> None:
        self._left -= 1
        if not self._left:
            raise RuntimeError("the device is gone")


def test_cures_outlive_a_stop_and_are_told(wanted: TrainConfig, tmp_path: Path) -> None:
    model = str(make_fragile(resources() / "pocket", tmp_path / "fragile"))
    wanted = msgspec.structs.replace(wanted, model=model, size=64, precision="float16", accumulate=1)
    control = Control()

    def keep(event: AnyEvent) -> None:
        control.keeps = isinstance(event, TrainStep) and event.step == 2

    whole = train(msgspec.structs.replace(wanted, output=str(tmp_path / "whole")))
    assert whole.cures == (FRAGILE_CURE,)
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path / "kept"))
    kept = train(wanted, Directed(keep), control)
    assert (kept.steps, kept.cures) == (2, (FRAGILE_CURE,))
    assert [cure for cure, _ in read_state(Path(kept.folder) / "state.safetensors").note.cures] == [FRAGILE_CURE]
    shutil.copytree(kept.folder, tmp_path / "unwatched" / "lora")
    again = train(wanted, resume=Path(kept.folder))
    assert len(again.caught) == 1, "what is cured does not come again"
    assert same_weights(again, whole)
    unwatched = msgspec.structs.replace(wanted, output=str(tmp_path / "unwatched"), guard="off")
    last = train(unwatched, resume=tmp_path / "unwatched" / "lora")
    assert same_weights(last, whole), "a run without the guard keeps the cures that it goes on with"
    assert last.cures == (FRAGILE_CURE,)


def test_an_error_loses_no_whole_step(wanted: TrainConfig, tmp_path: Path) -> None:
    whole = train(msgspec.structs.replace(wanted, output=str(tmp_path / "whole")))
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path / "broken"))
    looks = Looks()
    train(msgspec.structs.replace(wanted, output=str(tmp_path / "counted")), looks.listen, looks)
    emit = Directed()
    with pytest.raises(RuntimeError, match="the device is gone"):
        train(wanted, emit, Failing(looks.second_half_of_step_3))
    assert [saved.step for saved in emit.of(TrainSaved)] == [2]
    assert same_weights(train(wanted, resume=tmp_path / "broken" / "lora"), whole)


class Looks(Control):
    """Counts the looks at the flags: which of them comes between the two halves of the third step."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self.second_half_of_step_3 = 0
        self.listen = Directed(self._hear)

    def check(self) -> None:
        self._count += 1

    def _hear(self, event: AnyEvent) -> None:
        if isinstance(event, TrainStep) and event.step == 3:
            self.second_half_of_step_3 = self._count


def test_a_run_that_is_going_is_neither_offered_nor_begun_again(wanted: TrainConfig, tmp_path: Path) -> None:
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path), save_every=1)
    refused: list[str] = []
    offered: list[int] = []

    def again(event: AnyEvent) -> None:
        if isinstance(event, TrainStep) and event.step == 3:
            offered.append(len(unfinished(str(tmp_path))))
            with pytest.raises(HalftoneError) as raised:
                train(wanted, resume=tmp_path / "lora")
            refused.append(raised.value.code)
            raise Killed

    with pytest.raises(Killed):
        train(wanted, Directed(again))
    assert (refused, offered) == (["train-running"], [0])
    assert [run.step for run in unfinished(str(tmp_path))] == [2]
    assert train(wanted, resume=tmp_path / "lora").steps == 4


def test_a_run_goes_on_from_any_folder(wanted: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(wanted.model).parent)
    begun = train(msgspec.structs.replace(wanted, model=Path(wanted.model).name, output=str(tmp_path), steps=1))
    monkeypatch.chdir(tmp_path)
    assert train(config_in(begun.folder), resume=Path(begun.folder)).steps == 1


def test_the_doctor_reads_the_folder_of_a_run(wanted: TrainConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(msgspec.structs.replace(wanted, output=str(tmp_path)))
    assert main(["train", "doctor", run.folder]) == 0
    assert capsys.readouterr().out.startswith("✓ The run is sound from step 1 to 4.")
    read = read_run(Path(run.folder))
    assert [(track.quantity, list(track.steps)) for track in read.tracks] == [("loss", [1, 2, 3, 4]), ("gradient", [1, 2, 3, 4])]
    assert {setting.name for setting in read.settings} == {"precision"}


def test_the_doctor_sees_a_loss_of_a_run_that_is_not_finite(
    wanted: TrainConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(msgspec.structs.replace(wanted, output=str(tmp_path)))
    place = Path(run.folder) / "state.safetensors"
    state = read_state(place)
    assert state.curve is not None
    state.curve[0, 2:] = torch.nan
    left_out = Caught(step=2, cause="loss-nonfinite", watched="loss", name="unet", did="skipped")
    place.write_bytes(packed(msgspec.structs.replace(state, note=msgspec.structs.replace(state.note, caught=[left_out]))))
    assert main(["train", "doctor", run.folder]) == 1
    assert "The loss is not finite from step 3 on. state.safetensors" in " ".join(capsys.readouterr().out.split())
    assert [(one.kind, one.step) for one in read_run(Path(run.folder)).happenings] == [("skipped-step", 2)]


@pytest.mark.parametrize("content", [b"", b"no state", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_another_file_of_that_name_is_no_state(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.safetensors").write_bytes(content)
    assert read_run(tmp_path).silent


def test_what_a_scaler_leaves_out_is_no_step() -> None:
    torch.manual_seed(0)
    network = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**127)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _step: 1.0)
    bare = Unguarded(network, optimizer, schedule, scaler, clip=None, accumulate=1)
    before = network.weight.detach().clone()
    report = bare.step(lambda: network(torch.full((1, 4), 100.0)).square().mean())
    assert torch.equal(network.weight, before)
    assert (report.applied, bare.steps, schedule.last_epoch) == (False, 0, 0)
    while not bare.step(lambda: network(torch.full((1, 4), 100.0)).square().mean()).applied:
        pass
    assert bare.steps == 1
    reports = [bare.step(lambda: network(torch.full((1, 4), torch.nan)).mean()) for _ in range(200)]
    assert reports[-1].applied, "what no scale helps does not go on for ever"


def test_a_picture_that_goes_while_it_is_read_is_not_laid_on_the_vae(wanted: TrainConfig, tmp_path: Path) -> None:
    pictures = draw_pictures(tmp_path / "pictures", 3)

    def take_away(event: AnyEvent) -> None:
        if isinstance(event, PhaseChanged) and event.phase == "encode":
            (pictures / "2.png").unlink(missing_ok=True)

    emit = Directed(take_away)
    train(msgspec.structs.replace(wanted, pictures=str(pictures), output=str(tmp_path), steps=1), emit)
    (begins,) = emit.of(TrainBegins)
    assert [(picture.name, picture.problem) for picture in begins.pictures] == [
        ("0.png", ""),
        ("1.png", ""),
        ("2.png", "unreadable"),
    ]


class WithoutPictures(TrainingEngine):
    """One whose pictures fail of something that nobody foresaw."""

    def generate(self, command: Generate, emit: Emit, control: EngineControl) -> GenerateReport:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


@pytest.mark.logs("no test picture")
def test_a_test_picture_that_fails_does_not_end_the_training(wanted: TrainConfig, tmp_path: Path) -> None:
    emit = Directed()
    asked = msgspec.structs.replace(wanted, output=str(tmp_path), test_every=1, steps=2)
    report = WithoutPictures().train(Train(job="t", config=asked), emit, Control())
    assert report.steps == 2
    assert [one.error.code for one in emit.of(TestPicture) if one.error is not None] == ["internal", "internal"]
