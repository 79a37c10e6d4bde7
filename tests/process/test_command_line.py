"""The command line as a real process: refusals that load nothing heavy, Ctrl+C, a pipe that closes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.model_files import write_folder
from tests.helpers.scripted import ROOT, Picture, Steps, Touch, Wait, environment
from tests.helpers.writing import recorder

HEAVY = ("torch", "numpy", "diffusers", "transformers", "PIL", "PySide6", "rich", "sqlite3", "tomlkit", "asyncio")
_TELL = f"sys.stderr.write('loaded:' + ' '.join(name for name in {HEAVY!r} if name in sys.modules))"
_LOADED = f"import sys; from halftone.cli import main; code = main(sys.argv[1:]); {_TELL}; sys.exit(code)"
_SCRIPTED = """
import sys
from halftone.cli import main
from tests.helpers.scripted import make
sys.exit(main(sys.argv[1:], engine=make))
"""


def process(code: str, *words: str, variables: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """Python with the checkout's packages, running `code`."""
    found = dict(variables or os.environ)
    found["PYTHONPATH"] = os.pathsep.join([str(ROOT / "app"), str(ROOT), recorder.FOLDER])
    arguments = [sys.executable, "-c", code, *words]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=found)


def ran(code: str, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    started = process(code, *words)
    out, err = started.communicate(timeout=60)
    return started.returncode, out, err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["check", "/nothing/here"], 2),
        (["check", "pocket", "--precision", "float8"], 2),
        (["generate"], 2),
        (["chek"], 2),
        (["generate", "a", "--option", "nothing=1"], 2),
        (["check", "--stepz", "3"], 2),
        (["generate", "a", "--output", "/nothing/a.png"], 2),
        (["generate", "a", "--device", "quantum", "--json"], 2),
        (["repair", "pocket", "--output", "/nothing/copy"], 2),
    ],
)
def test_a_refusal_loads_nothing_heavy(words: list[str], code: int) -> None:
    found, out, err = ran(_LOADED, *words)
    assert found == code
    assert err.endswith("loaded:"), err
    if "--json" in words:
        assert json.loads(out)["error"]["code"] == "device-unknown"


@pytest.mark.parametrize(
    "words", [["check", "a.ckpt"], ["check", "cut.safetensors"], ["check", "."], ["generate", "a", "-o", "a.gif"]]
)
def test_the_module_runs_as_the_command(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "a.ckpt").touch()
    (tmp_path / "cut.safetensors").write_bytes(b"\xff\0\0\0\0\0\0\0{")
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "app"), recorder.FOLDER])}
    arguments = [sys.executable, "-m", "halftone", *words]
    done = subprocess.run(arguments, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows sends Ctrl+C to a whole console")
def test_control_c_cancels_the_job(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    model = write_folder(tmp_path / "model")
    variables = environment({"generate": [Touch(path=str(ready)), Wait(path=str(tmp_path / "never")), Steps()]})
    started = process(_SCRIPTED, "generate", "a", "-m", str(model), "--precision", "fp16", variables=variables)
    while not ready.exists() and started.poll() is None:
        os.sched_yield()
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "Stopping after this step" in err
    assert err.endswith("Cancelled, nothing kept.\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals like these")
def test_a_terminal_shows_the_progress_and_tells_the_story_once(tmp_path: Path) -> None:
    import pty

    model = write_folder(tmp_path / "model")
    variables = environment({"generate": [Steps(nan_at=2), Picture(path=str(tmp_path / "a.png"))]})
    variables |= {"PYTHONPATH": os.pathsep.join([str(ROOT / "app"), str(ROOT), recorder.FOLDER]), "TERM": "xterm"}
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-c", _SCRIPTED, "generate", "a", "-m", str(model), "--precision", "fp16"]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=theirs, env=variables, text=True, timeout=60, check=True)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while data := os.read(ours, 4096):
            shown += data
    os.close(ours)
    assert b"\x1b[" in shown, "a bar was drawn"
    assert b"overflowed" not in shown
    assert b"above the FP16 limit" not in shown
    assert done.stdout.count("→") == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows sends Ctrl+C to a whole console")
def test_a_second_control_c_leaves_at_once(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    model = write_folder(tmp_path / "model")
    variables = environment({"generate": [Touch(path=str(ready)), Wait(path=str(tmp_path / "never"), heed=False)]})
    started = process(_SCRIPTED, "generate", "a", "-m", str(model), "--precision", "fp16", variables=variables)
    while not ready.exists() and started.poll() is None:
        os.sched_yield()
    started.send_signal(signal.SIGINT)
    assert started.stderr is not None
    said = started.stderr.readline() + started.stderr.readline()
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert "Press Ctrl+C again" in said
    assert started.returncode == 130
    assert "Traceback" not in err
