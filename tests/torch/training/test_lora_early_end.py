"""What is kept of a LoRA training that ends before its last step, or that a part of fails."""

from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from tests.helpers.tiny import save_tiny
from tests.helpers.trainings import Control, Directed, draw_pictures, train

from halftone.contract.engine import Control as EngineControl
from halftone.contract.engine import Emit
from halftone.contract.messages import AnyEvent, Generate, GenerateReport, TestPicture, Train, TrainSaved, TrainStep
from halftone.contract.training import TrainConfig, TrainReport
from halftone.engine.checks.fragile import make_fragile
from halftone.settings.places import resources
from halftone.training.lora.state import read_state
from halftone.training.service import TrainingEngine


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> TrainConfig:
    folder = tmp_path_factory.mktemp("base")
    return TrainConfig(
        model=str(save_tiny(folder / "tiny", "sd15")),
        pictures=str(draw_pictures(folder / "pictures", 3)),
        output="",
        precision="float32",
        rank=2,
        steps=4,
        batch=1,
        accumulate=2,
        save_every=0,
        test_every=0,
    )


def same_weights(one: TrainReport, other: TrainReport) -> bool:
    first, second = load_file(one.path), load_file(other.path)
    return all(torch.equal(first[name], second[name]) for name in first)


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
    assert whole.cures == ("float32-block",)
    wanted = msgspec.structs.replace(wanted, output=str(tmp_path / "kept"))
    kept = train(wanted, Directed(keep), control)
    assert (kept.steps, kept.cures) == (2, ("float32-block",))
    assert [cure for cure, _ in read_state(Path(kept.folder) / "state.safetensors").note.cures] == ["float32-block"]
    again = train(wanted, resume=Path(kept.folder))
    assert len(again.caught) == 1, "what is cured does not come again"
    assert same_weights(again, whole)


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
