"""The command `train`, with a scripted engine: settings from a file, a line for what was caught, the report."""

import contextlib
import io
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.helpers import samples
from tests.helpers.scripted import Fail, Say, ScriptedEngine
from tests.unit.cli.test_commands import Run, run
from tests.unit.library.test_training_runs import broken_run

from halftone.cli import main
from halftone.cli.jobs.engine_and_log import JOB, Tools
from halftone.cli.jobs.in_process import run_job
from halftone.cli.train.config_file import EXAMPLE, read_config
from halftone.cli.train.lines import end_lines, event_line
from halftone.contract.engine import Emit, TrainControl
from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import Keep, TestPicture, Train, TrainBegins, TrainCaught, TrainSaved, TrainUnsaved
from halftone.contract.training import Omen, TrainConfig, TrainPicture, TrainReport

__all__ = ["run"]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder that holds a picture, as far as its name tells."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "a.png").touch()
    return folder


@pytest.fixture
def config(tmp_path: Path, pictures: Path) -> Path:
    path = tmp_path / "my-training.toml"
    path.write_text(f"model = 'pocket'\npictures = '{pictures}'\noutput = \"loras\"\nname = \"a\"\nsteps = 20\n", "utf-8")
    return path


@pytest.fixture
def broken(tmp_path: Path, pictures: Path) -> Path:
    """The folder of a run of 20 steps that was broken off after its seventh."""
    wanted = TrainConfig(model="pocket", pictures=str(pictures), output=str(tmp_path), name="a", steps=20)
    return broken_run(tmp_path, wanted, 7)


def test_a_training_from_a_file(run: Run, config: Path) -> None:
    done = run("train", str(config))
    assert done.code == 0
    assert "Training finished, 20 steps, 1 NaN stopped." in done.out
    assert "loras/a.safetensors" in done.out
    assert "A NaN was stopped at step 7. Nothing was lost." in done.err


def test_as_an_object(run: Run, config: Path) -> None:
    done = run("train", str(config), "--json")
    assert done.object["training"]["steps"] == 20
    assert done.object["training"]["caught"][0]["step"] == 7


def test_the_example_can_be_read_and_names_every_setting(run: Run, tmp_path: Path) -> None:
    done = run("train", "--example")
    assert done.out == EXAMPLE.format(command="halftone train my-training.toml")
    lines = (line.removeprefix("# ") if " = " in line else line for line in EXAMPLE.splitlines())
    (tmp_path / "all.toml").write_text("\n".join(lines), "utf-8")
    read = read_config(str(tmp_path / "all.toml"))
    assert read == TrainConfig(model="pocket", pictures=read.pictures, output=read.output, name="my-style")
    assert all(f"{name} = " in EXAMPLE for name in TrainConfig.__struct_fields__)


def test_what_the_file_leaves_open_is_as_the_model_learns_well(run: Run, config: Path) -> None:
    done = run("train", str(config))
    assert "learning_rate = 0.003" in done.err
    assert "steps" not in done.err.partition("leaves it open")[2].partition("\n")[0], "the file has it"
    read = read_config(str(config))
    assert (read.steps, read.learning_rate, read.snr_gamma, read.rank) == (20, 0.003, 0.0, 16)
    config.write_text(config.read_text("utf-8").replace("pocket", "/no/model"), "utf-8")
    assert read_config(str(config)).learning_rate == TrainConfig(model="", pictures="", output="").learning_rate


def test_a_run_is_gone_on_with(run: Run, tmp_path: Path, broken: Path) -> None:
    assert run("train", "--resume", str(broken)).code == 0
    refused = run("train", "--resume", str(tmp_path / "none"))
    assert refused.code == 2
    assert "none" in refused.err


NEEDED = 'model="a"\npictures="b"\noutput="c"\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('model = "pocket"', "pictures is not set"),
        ("", "it is empty"),
        ("model =", "invalid value"),
        ("model = pocket", 'words need quotes, as in name = "my-style"'),
        ('model = "C:\\Users\\me"', "in a path write / or"),
        (NEEDED + "lerning_rate=5", "there is no setting lerning_rate; learning_rate may be meant"),
        (NEEDED + "learning-rate=5", "there is no setting learning-rate; learning_rate may be meant"),
        (NEEDED + "xyz=5", "there is no setting xyz."),
        (
            'pretrained_model_name_or_path = "a"\nnetwork_dim = 8\nseed = 1\n[more]\nmax_train_steps = 9',
            "sd-scripts, whose settings have other names here: pretrained_model_name_or_path = model, network_dim = rank, "
            "max_train_steps = steps.",
        ),
        ('network_module = "networks.lora"', "sd-scripts, whose settings have other names here."),
        ("[general]\n[[datasets]]\nresolution = 512", 'Halftone takes one folder, as in pictures = "FOLDER".'),
        (NEEDED + 'steps="many"', "steps takes a whole number, not “many”"),
        (NEEDED + "batch=2.5", "batch takes a whole number, not 2.5"),
        (NEEDED + "rank=true", "rank takes a whole number, not true"),
        (NEEDED + 'learning_rate="fast"', "learning_rate takes a number, not “fast”"),
        (NEEDED + 'flip="yes"', "flip takes true or false, not “yes”"),
        (NEEDED + "word=7", "word takes words in quotes, not 7"),
        (NEEDED + 'left_out="a.png"', "left_out takes a list of words in quotes, not “a.png”"),
        (NEEDED + 'optimizer="adam"', "optimizer takes one of adamw, adamw8bit, prodigy, not “adam”"),
        ("[train]\n" + NEEDED, "there is no setting train"),
    ],
)
def test_what_is_no_training_is_refused_in_one_sentence(run: Run, config: Path, content: str, said: str) -> None:
    config.write_text(content, "utf-8")
    done = run("train", str(config))
    assert done.code == 2
    assert f"{config} is not a valid training file: " in done.err
    assert said in done.err
    assert done.err.endswith("A file with every setting is printed by:  halftone train --example\n")
    assert "Traceback" not in done.err


def test_a_file_that_is_none_is_refused(run: Run, config: Path) -> None:
    assert "cannot be read (no such file" in run("train", str(config.with_name("other.toml"))).err
    assert "cannot be read (it is a folder)" in run("train", str(config.parent)).err
    config.write_bytes(b"\xf7\x00")
    assert "it is not a UTF-8 text file" in run("train", str(config)).err


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16"])
def test_a_file_as_windows_writes_it_is_read(config: Path, coding: str) -> None:
    read = read_config(str(config))
    config.write_text(config.read_text("utf-8").replace("\n", "\r\n"), coding)
    assert read_config(str(config)) == read


def test_lines_of_events() -> None:
    omen = Omen(code="no-clipping", certain=False)
    begins = TrainBegins(config=samples.TRAIN, pictures=(), omens=(omen,), dtype="float16", folder="f")
    assert "Warning: Without gradient clipping" in event_line(begins)
    assert "Cost: +0.6" in event_line(TrainCaught(caught=samples.caught(7)))
    assert event_line(TrainSaved(step=3, path="p")) == "Saved at step 3: p"
    full = ErrorFacts(code="output-read-only", facts={"folder": "/x"})
    assert "/x" in event_line(TrainUnsaved(step=3, error=full))


def begins(**changes: Any) -> TrainBegins:
    fields: dict[str, Any] = {
        "config": samples.TRAIN,
        "pictures": (),
        "omens": (),
        "dtype": "float16",
        "folder": "loras/a",
        **changes,
    }
    return TrainBegins(**fields)


def test_what_is_left_out_or_lacks_something_is_told_before_the_first_step() -> None:
    sound = [TrainPicture(name=f"{n}.png") for n in range(3)]
    silent = [TrainPicture(name=f"s{n}.png", note="no-caption") for n in range(7)]
    broken = [TrainPicture(name="a.png", problem="unreadable"), TrainPicture(name="b.png", problem="too-small")]
    lines = event_line(begins(pictures=(*sound, *silent, *broken))).splitlines()
    assert lines[:4] == [
        "Pictures: 10 of 12 are used.",
        "Excluded, unreadable: a.png",
        "Excluded, far too small: b.png",
        "no caption: s0.png, s1.png, s2.png, s3.png, s4.png and 2 more",
    ]
    assert event_line(begins(pictures=tuple(sound))).startswith("Pictures: 3.\n")


def test_type_memory_beginning_and_an_absent_guard_are_told() -> None:
    off = msgspec.structs.replace(samples.TRAIN, guard="off")
    lines = event_line(begins(config=off, memory=2_500_000_000, first=8)).splitlines()
    assert lines == [
        "Training runs in FP16, about 2.5\u00a0GB of memory. Its folder: loras/a",
        f"It resumes after step 7 of {off.steps}.",
        "The NaN guard is off: NaN can reach the LoRA.",
    ]


def test_a_run_that_was_finished_has_nothing_left_to_do() -> None:
    assert event_line(begins(first=samples.TRAIN.steps + 1)).endswith("steps are done: only its LoRA is written again.")


def test_test_pictures_are_told() -> None:
    picture = TestPicture(step=3, path="", prompt="", seed=7)
    assert event_line(picture) == ""
    assert event_line(msgspec.structs.replace(picture, path="a.png")) == "Test picture after step 3: a.png"
    assert event_line(msgspec.structs.replace(picture, path="a.png", black=True)) == "Test picture after step 3, all black: a.png"
    lost = msgspec.structs.replace(picture, error=ErrorFacts(code="out-of-memory", facts={"detail": "x"}))
    assert event_line(lost).startswith("No test picture after step 3: This size does not fit")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rank = 100000", "Rank cannot be 100000. Choose a value from 1 to 4096."),
        ("learning_rate = 0", "Learning rate cannot be 0.0. Use a number above 0, such as 0.0001."),
        ("clip = -1", "Clip cannot be -1.0. Use 0 or a number above it."),
        ("learning_rate = nan", "Learning rate cannot be nan."),
        ("caption_dropout = 2", "Caption dropout cannot be 2.0."),
        ('pictures = "nowhere"', "There is no picture folder at"),
        ('model = "nowhere"', "There is no model at"),
        ('left_out = ["a.png", "b.png"]', "left_out cannot be b.png. Use names of pictures in that folder."),
    ],
)
def test_what_no_training_can_be_made_with_is_told_before_anything_is_loaded(config: Path, line: str, said: str) -> None:
    name = line.partition(" ")[0]
    kept = [one for one in config.read_text("utf-8").splitlines() if not one.startswith(f"{name} ")]
    config.write_text("\n".join([*kept, line]), "utf-8")

    def no_engine() -> ScriptedEngine:
        pytest.fail("nothing is loaded for that")

    with contextlib.redirect_stderr(io.StringIO()) as told:
        assert main(["train", str(config)], engine=no_engine) == 2
    assert said in told.getvalue()


def test_the_ending_of_the_file_is_no_part_of_the_name(config: Path) -> None:
    config.write_text(config.read_text("utf-8").replace('"a"', '"a.safetensors"'), "utf-8")
    assert read_config(str(config)).name == "a"


def test_an_omen_is_told_with_what_helps() -> None:
    omen = Omen(code="no-clipping", certain=False, remedies=("clip-1",))
    assert event_line(begins(omens=(omen,))).endswith("Try gradient clipping at 1.0.")


def test_the_same_training_that_was_broken_off_is_not_forgotten(run: Run, config: Path, broken: Path) -> None:
    config.write_text(config.read_text("utf-8").replace('"loras"', f"'{broken.parent}'"), "utf-8")
    assert f"{broken} was stopped after step 7 of 20" in run("train", str(config)).err
    assert "broken off" not in run("train", "--resume", str(broken)).err
    config.write_text(config.read_text("utf-8").replace('"a"', '"b"'), "utf-8")
    assert "broken off" not in run("train", str(config)).err


def test_a_run_is_found_by_the_lora_it_was_to_become(run: Run, broken: Path) -> None:
    assert run("train", "--resume", f"{broken}.safetensors").code == 0


def test_a_damaged_run_is_not_called_none(run: Run, broken: Path) -> None:
    (broken / "run.json").write_text("{", "utf-8")
    assert f"Cannot resume: {broken / 'run.json'} is unreadable." in run("train", "--resume", str(broken)).err


class Ending(ScriptedEngine):
    """A training that a bad number (`stopped`), or the user, ended at step 7."""

    def __init__(self, stopped: bool) -> None:
        super().__init__()
        self._stopped = stopped

    def train(self, command: Train, emit: Emit, control: TrainControl) -> TrainReport:
        emit(TrainSaved(step=5, path="p", folder="loras/a"))
        last = msgspec.structs.replace(samples.caught(8), did="stopped") if self._stopped else samples.caught(3)
        return msgspec.structs.replace(samples.train_report(command.config), steps=7, caught=(last,), folder="loras/a b")


@pytest.mark.parametrize("stopped", [True, False])
def test_an_end_before_its_time_tells_how_to_go_on(config: Path, capfd: pytest.CaptureFixture[str], stopped: bool) -> None:
    assert main(["train", str(config)], engine=lambda: Ending(stopped)) == int(stopped)
    assert capfd.readouterr().out.endswith("Resume with: halftone train --resume 'loras/a b'\n")


def test_a_training_that_learned_nothing_names_no_file() -> None:
    report = msgspec.structs.replace(samples.train_report(), steps=0, path="", folder="")
    (line,) = end_lines(report, samples.TRAIN)
    assert line == "Training stopped at step 0 of 20. Nothing was learned or saved."


def test_an_odd_size_is_refused_before_anything_is_loaded(run: Run, config: Path) -> None:
    config.write_text(config.read_text("utf-8") + "size = 17\n", "utf-8")
    said = run("train", str(config))
    assert (said.code, said.err.splitlines()[-1]) == (
        2,
        "The training size 17 is not a multiple of 16. Use 16 or 32, or 0 for the native size.",
    )


def test_a_lora_that_is_finished_can_be_tried_at_once(run: Run, config: Path) -> None:
    config.write_text(config.read_text("utf-8") + 'word = "in sks style"\n', "utf-8")
    assert run("train", str(config)).out.endswith(
        "Try it:  halftone generate 'in sks style' --model pocket --lora loras/a.safetensors\n"
    )


def test_an_error_tells_how_to_go_on_with_what_was_saved(run: Run, config: Path) -> None:
    saved = Say(event=TrainSaved(step=5, path="p", folder="loras/a"))
    lost = Fail(code="out-of-memory", facts={"detail": "x"})
    assert "Resume with: halftone train --resume loras/a\n" in run("train", str(config), train=[saved, lost]).err
    assert "Go on with" not in run("train", str(config), train=[lost]).err


class Told(ScriptedEngine):
    """A training that the system tells to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def train(self, command: Train, emit: Emit, control: TrainControl) -> TrainReport:
        signal.raise_signal(self._number)
        emit(TrainSaved(step=5, path="p", folder="loras/a"))
        assert control.keep()
        return samples.train_report(command.config)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows ends programs without a word")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_training_that_the_system_ends_keeps_what_it_learnt(config: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    number = getattr(signal, name)
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, getattr(sys, stream))  # a closed terminal's are replaced
    before = signal.signal(number, signal.SIG_DFL)  # under nohup it would be ignored, and nothing would end
    try:
        assert main(["train", str(config)], engine=lambda: Told(number)) == 0
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


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
