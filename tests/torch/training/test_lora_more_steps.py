"""A run that was finished goes on with more steps, and never with fewer than were made."""

import json
import math
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from tests.helpers.scripted import ScriptedEngine
from tests.helpers.trainings import Control, Directed, tiny_training, train

from halftone.cli import main
from halftone.contract.errors import HalftoneError
from halftone.contract.messages import AnyEvent, TrainBegins, TrainStep
from halftone.contract.training import TrainConfig
from halftone.library.training_data.training_runs import config_in
from halftone.training.lora.optimizers import rate_factor
from halftone.training.lora.state import read_state
from halftone.training.service import TrainingEngine


@pytest.fixture
def wanted(tmp_path: Path) -> TrainConfig:
    return tiny_training(tmp_path, output=str(tmp_path / "out"))


def test_a_finished_run_trains_on_under_the_rates_of_more_steps(wanted: TrainConfig, tmp_path: Path) -> None:
    folder = Path(train(wanted).folder)
    emit = Directed()
    report = train(msgspec.structs.replace(wanted, steps=7), emit, resume=folder)
    assert (report.steps, report.steps_wanted, emit.of(TrainBegins)[0].first) == (7, 7, 5)
    told = emit.of(TrainStep)
    assert [step.step for step in told] == [5, 6, 7]
    expected = [wanted.learning_rate * rate_factor("cosine", done, steps=7, warm_up=0) for done in (4, 5, 6)]
    assert [step.rate for step in told] == pytest.approx(expected)
    assert config_in(str(folder)).steps == 7
    assert all(math.isfinite(step.loss) for step in told)


def test_fewer_steps_than_were_made_are_refused(wanted: TrainConfig) -> None:
    folder = Path(train(wanted).folder)
    with pytest.raises(HalftoneError) as caught:
        train(msgspec.structs.replace(wanted, steps=3), resume=folder)
    assert caught.value.code == "train-other-run"
    assert str(caught.value.facts["detail"]) == "4 of its steps are done already, and the settings ask for 3"
    assert read_state(folder / "state.safetensors").note.step == 4


def test_steps_that_were_raised_by_mistake_can_be_lowered_again(wanted: TrainConfig) -> None:
    folder = Path(train(wanted).folder)
    control = Control()

    def stop(event: AnyEvent) -> None:
        control.keeps = control.keeps or isinstance(event, TrainStep)

    train(msgspec.structs.replace(wanted, steps=100_000), Directed(stop), control, resume=folder)
    assert config_in(str(folder)).steps == 100_000
    report = train(msgspec.structs.replace(wanted, steps=6), resume=folder)
    assert (report.steps, report.steps_wanted) == (6, 6)
    assert config_in(str(folder)).steps == 6


def test_the_terminal_says_in_one_sentence_that_a_run_is_finished_and_can_train_it_on(
    wanted: TrainConfig, capfd: pytest.CaptureFixture[str]
) -> None:
    report = train(wanted)

    def no_engine() -> ScriptedEngine:
        pytest.fail("nothing is loaded for that")

    capfd.readouterr()
    assert main(["train", "--resume", report.folder], engine=no_engine) == 0
    said = capfd.readouterr()
    assert said.err == ""
    assert said.out == (
        f"This training is finished: all 4 steps were made, and its LoRA is {report.path}; to train on, raise the steps:  "
        f"halftone train --resume {report.folder} --steps 8\n"
    )
    assert main(["train", "--resume", report.folder, "--json"], engine=no_engine) == 0
    assert json.loads(capfd.readouterr().out)["training"] == {
        "name": wanted.name,
        "path": report.path,
        "folder": report.folder,
        "steps": 4,
        "steps_wanted": 4,
    }
    assert main(["train", "--resume", report.folder, "--steps", "5"], engine=TrainingEngine) == 0
    assert "Training finished, 5 steps" in capfd.readouterr().out
    assert main(["train", "--resume", report.folder], engine=no_engine) == 0
    assert "all 5 steps were made" in capfd.readouterr().out


def test_a_lora_that_is_gone_is_written_again(wanted: TrainConfig, capfd: pytest.CaptureFixture[str]) -> None:
    report = train(wanted)
    before = load_file(report.path)
    Path(report.path).unlink()
    assert main(["train", "--resume", report.folder], engine=TrainingEngine) == 0
    assert "All of its 4 steps are done: only its LoRA is written again." in capfd.readouterr().err
    again = load_file(report.path)
    assert again.keys() == before.keys()
    assert all(torch.equal(again[name], value) for name, value in before.items())
