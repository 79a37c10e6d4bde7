"""However the program ends, what was finished before is in the history, and nothing half-written stays."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest
from tests.helpers.model_files import write_folder
from tests.helpers.scripted import ROOT, AnyAction, Picture, Say, Steps, Throw, Touch, Wait, environment
from tests.helpers.writing import recorder
from tests.process.test_command_line import process

from halftone.contract.messages import WorkerLost
from halftone.gallery.history import History
from halftone.settings.places import log_dir, settings_file
from halftone.settings.streams import open_log

_SCRIPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so does what it starts
for name in {"SIGTERM", "SIGHUP"} & set(dir(signal)):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
from halftone.cli import main
from tests.helpers.scripted import make
sys.exit(main(sys.argv[1:], engine=make))
"""
_LIMITED = (
    """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)  # as on a disk that is full beyond it
del sys.argv[1]
"""
    + _SCRIPTED
)

LOGGED = WorkerLost(exit_code=0, signal=None, log="")
"""An event that no engine may send: the log says so."""

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has neither these signals nor these rights")


def started(tmp_path: Path, *actions: AnyAction) -> "subprocess.Popen[str]":
    """A job that made one picture and waits for ever, or what the actions say."""
    ready = tmp_path / "ready"
    first = Picture(path=str(tmp_path / "first.png"))
    script = actions or (Steps(), first, Touch(path=str(ready)), Wait(path=str(tmp_path / "never")))
    model = write_folder(tmp_path / "model")
    found = process(
        _SCRIPTED, "generate", "a", "-m", str(model), "--precision", "fp16", variables=environment({"generate": list(script)})
    )
    while not ready.exists() and found.poll() is None:
        os.sched_yield()
    return found


def listed() -> list[str]:
    with History() as history:
        return [Path(entry.facts.path).name for entry in history.recent()]


@posix
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130), ("SIGKILL", -9)])
def test_a_finished_picture_is_in_the_history_however_the_program_ends(name: str, code: int, tmp_path: Path) -> None:
    job = started(tmp_path)
    job.send_signal(getattr(signal, name))
    _, err = job.communicate(timeout=60)
    assert job.returncode == code
    assert listed() == ["first.png"]
    assert "Traceback" not in err
    if name in ("SIGTERM", "SIGINT"):  # a terminal that is closed is told nothing
        assert "What was finished before is kept." in err


@posix
def test_left_over_parts_go_at_the_next_start_and_those_in_work_stay(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from typing import IO, Any
from halftone.settings.atomic import create_atomically
def half(file):
    file.write(b"half"); file.flush()
    if len(sys.argv) > 2:
        print("ready", flush=True); sys.stdin.readline()
    else:
        os.kill(os.getpid(), 9)
create_atomically(Path(sys.argv[1]), half)
"""
    folder = tmp_path / "pictures"
    folder.mkdir()
    process(code, str(folder / "dead.png")).communicate(timeout=60)
    strange = folder / ".download.12345.part"
    strange.touch()
    left = [path.name for path in folder.iterdir() if path != strange]
    assert [name.startswith(".dead.") for name in left] == [True]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "app"), recorder.FOLDER))}
    words = [sys.executable, "-c", code, str(folder / "alive.png"), "wait"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as alive:
        assert alive.stdout is not None
        assert alive.stdout.readline() == "ready\n"
        job = started(tmp_path, Picture(path=str(folder / "next.png")))
        _, err = job.communicate(timeout=60)
        assert (job.returncode, err) == (0, "")
        settings_file().write_text(f"[folders]\npictures = {json.dumps(str(folder))}\n")
        started(tmp_path, Picture(path=str(folder / "more.png"))).communicate(timeout=60)
        names = sorted(path.name for path in folder.iterdir())
        assert [name for name in names if name.startswith(".alive.")], "somebody writes it"
        assert not [name for name in names if name.startswith(".dead.")]
        assert strange.name in names
        alive.communicate("\n", timeout=60)
    assert sorted(path.name for path in folder.iterdir()) == [strange.name, "alive.png", "more.png", "next.png"]


@posix
def test_data_log_and_history_are_the_owners_alone(own_data: Path, tmp_path: Path) -> None:
    """Also where an older version made them; the user's pictures keep their rights."""
    (own_data / "data" / "checks").mkdir(parents=True)
    (own_data / "logs").mkdir()
    (own_data / "pictures").mkdir()
    old = own_data / "data" / "checks" / "old.json"
    for path in (old, own_data / "logs" / "worker.log", own_data / "settings.toml", own_data / "pictures" / "a.png"):
        path.touch(0o644)
    before = (own_data.stat().st_mode, (own_data / "pictures").stat().st_mode)
    started(tmp_path, Say(event=LOGGED), Picture(path=str(tmp_path / "first.png"))).communicate(timeout=60)
    open_ones = [path for name in ("data", "logs", "cache") for path in (own_data / name, *(own_data / name).rglob("*"))]
    assert {path.name for path in open_ones} >= {"history.sqlite", "command-line.log", "old.json"}
    assert [path for path in open_ones if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077] == []
    assert stat.S_IMODE((own_data / "settings.toml").stat().st_mode) == 0o600
    assert (own_data.stat().st_mode, (own_data / "pictures").stat().st_mode) == before
    assert stat.S_IMODE((own_data / "pictures" / "a.png").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "first.png").stat().st_mode) & 0o044 == 0o044


@posix
def test_a_log_that_takes_no_more_ends_nothing(tmp_path: Path) -> None:
    size = 200_000
    with open_log(log_dir() / "command-line.log") as log:
        log.write("x" * size)
    model, place = write_folder(tmp_path / "model"), tmp_path / "a.png"
    words = (str(size), "generate", "a", "-m", str(model), "--precision", "fp16")
    variables = environment({"generate": [Say(event=LOGGED), Steps(), Picture(path=str(place))]})  # the first is logged
    job = process(_LIMITED, *words, variables=variables)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0
    assert place.exists()
    assert str(place) in out
    assert err == "The log cannot be written (file too large), so Halftone continues without it.\n"
    assert listed() == ["a.png"]


@posix
@pytest.mark.parametrize("what", ["the folder is a file", "the log is a folder", "the log is a pipe"])
def test_a_log_that_cannot_be_opened_ends_nothing(what: str, own_data: Path, tmp_path: Path) -> None:
    logs = own_data / "logs"
    match what:
        case "the folder is a file":
            logs.write_text("a")
        case "the log is a folder":
            (logs / "command-line.log").mkdir(parents=True)
        case _:
            logs.mkdir()
            os.mkfifo(logs / "command-line.log")
    job = started(tmp_path, Say(event=LOGGED), Picture(path=str(tmp_path / "first.png")))
    _, err = job.communicate(timeout=60)
    assert job.returncode == 0
    assert err.count("\n") <= 1
    assert listed() == ["first.png"]


@posix
def test_a_history_that_takes_no_more_loses_no_picture(tmp_path: Path) -> None:
    with History() as history, sqlite3.connect(history._path) as database:
        database.execute("CREATE TABLE more (content BLOB)")
        database.execute("INSERT INTO more VALUES (zeroblob(300000))")
    model, place = write_folder(tmp_path / "model"), tmp_path / "a.png"
    words = ("100000", "generate", "a", "-m", str(model), "--precision", "fp16")
    job = process(_LIMITED, *words, variables=environment({"generate": [Steps(), Picture(path=str(place))]}))
    _, err = job.communicate(timeout=60)
    assert job.returncode == 0
    assert place.exists()
    assert err.startswith("The history could not be saved (")


def printed(*words: str, to: IO[str] | int, code: str = "import sys; from halftone.cli import main; sys.exit(main())") -> Any:
    """A command whose words go to that file."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "app"), str(ROOT), recorder.FOLDER))}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, stdout=to, stderr=subprocess.PIPE, env=variables, text=True, timeout=60, check=False)


COMMANDS = (["models"], ["models", "--json"], ["--help"], ["--version"], ["generate", "--help"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_words_that_cannot_be_written_are_told_where_they_can(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = printed(*words, to=full)
    said = "Could not write the output: not enough space on the disk."
    assert (done.returncode, done.stderr) == (2, f"{said} Free some space, or write it elsewhere.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_an_error_keeps_its_exit_code_where_no_stream_takes_words() -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "app"), recorder.FOLDER))}
    words = [sys.executable, "-m", "halftone", "check", "/nothing"]
    with open("/dev/full", "w") as full:
        assert subprocess.run(words, stderr=full, env=variables, timeout=60, check=False).returncode == 2


@posix
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_reader_that_has_gone_ends_a_command_quietly(words: list[str]) -> None:
    """The pipe has no reader from the beginning, as `halftone models | head -1` has none after its first line."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = printed(*words, to=write)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@posix
def test_a_full_disk_of_the_work_is_not_blamed_on_what_is_printed(tmp_path: Path) -> None:
    job = started(tmp_path, Throw(kind="full-disk"))
    _, err = job.communicate(timeout=60)
    assert job.returncode == 2
    assert err.endswith("A file that Halftone needs could not be saved: not enough space on the disk. Choose another folder.\n")
    assert "Traceback" not in err
    assert "Traceback" in (log_dir() / "command-line.log").read_text("utf-8")
