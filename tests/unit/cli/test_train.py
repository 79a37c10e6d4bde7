"""The command `train`, with a scripted engine: settings from a file, a line for what was caught, the report."""

from pathlib import Path

import msgspec
import pytest
from tests.helpers import samples
from tests.helpers.scripted import ScriptedEngine
from tests.unit.cli.test_commands import Run, run
from tests.unit.library.test_training_runs import broken_run

from halftone.cli.jobs import run_job
from halftone.cli.tools import JOB, Tools
from halftone.cli.train import EXAMPLE, event_line, read_config
from halftone.contract.engine import Emit, TrainControl
from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import Keep, Train, TrainBegins, TrainCaught, TrainSaved, TrainUnsaved
from halftone.contract.training import Omen, TrainConfig, TrainReport

__all__ = ["run"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "my-training.toml"
    path.write_text('model = "pocket"\npictures = "pictures"\noutput = "loras"\nname = "a"\nsteps = 20\n', "utf-8")
    return path


def test_a_training_from_a_file(run: Run, config: Path) -> None:
    done = run("train", str(config))
    assert done.code == 0
    assert "Training finished, 20 steps, 1 bad number stopped." in done.out
    assert "loras/a.safetensors" in done.out
    assert "A bad number was stopped at step 7. Nothing was lost." in done.err


def test_as_an_object(run: Run, config: Path) -> None:
    done = run("train", str(config), "--json")
    assert done.object["training"]["steps"] == 20
    assert done.object["training"]["caught"][0]["step"] == 7


def test_the_example_can_be_read_and_names_every_setting(run: Run, tmp_path: Path) -> None:
    done = run("train", "--example")
    assert done.out == EXAMPLE
    lines = (line.removeprefix("# ") if " = " in line else line for line in EXAMPLE.splitlines())
    (tmp_path / "all.toml").write_text("\n".join(lines), "utf-8")
    read = read_config(str(tmp_path / "all.toml"))
    assert read == TrainConfig(model="pocket", pictures=read.pictures, output=read.output, name="my-style")
    assert all(f"{name} = " in EXAMPLE for name in TrainConfig.__struct_fields__)


def test_a_run_is_gone_on_with(run: Run, tmp_path: Path) -> None:
    folder = broken_run(tmp_path, samples.TRAIN, 7)
    assert run("train", "--resume", str(folder)).code == 0
    refused = run("train", "--resume", str(tmp_path / "none"))
    assert refused.code == 2
    assert "none" in refused.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('model = "pocket"', "pictures"),
        ("model =", "my-training.toml"),
        ('model="a"\npictures="b"\noutput="c"\nstep=5', "step"),
        ('model="a"\npictures="b"\noutput="c"\nsteps="many"', "steps"),
    ],
)
def test_what_is_no_training_is_refused_in_one_sentence(run: Run, config: Path, content: str, said: str) -> None:
    config.write_text(content, "utf-8")
    done = run("train", str(config))
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_lines_of_events() -> None:
    omen = Omen(code="no-clipping", certain=False)
    begins = TrainBegins(config=samples.TRAIN, pictures=(), omens=(omen,), dtype="float16", folder="f")
    assert event_line(begins).startswith("Foreseen: Gradients are not clipped")
    assert "Cost: +0.6" in event_line(TrainCaught(caught=samples.caught(7)))
    assert event_line(TrainSaved(step=3, path="p")) == "Saved at step 3: p"
    full = ErrorFacts(code="output-read-only", facts={"folder": "/x"})
    assert "/x" in event_line(TrainUnsaved(step=3, error=full))


class Asking(ScriptedEngine):
    """A training that is stopped and waits for an answer, as the real one does: for ever if none comes."""

    def train(self, command: Train, emit: Emit, control: TrainControl) -> TrainReport:
        emit(TrainCaught(caught=samples.caught(), asks=True))
        answer = control.choice()
        assert answer is not None, "nobody answered"
        return msgspec.structs.replace(samples.train_report(command.config), name=answer.choice)


def test_a_stop_ends_with_what_was_learnt_where_nobody_can_be_asked() -> None:
    report = run_job(Tools(Asking), Train(job=JOB, config=samples.TRAIN), TrainReport, lambda _event, _blob: None, stop=Keep)
    assert report.name == "stop"
