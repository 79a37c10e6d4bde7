"""`python launch.py …` as a person starts it, in a clone whose path has a space and an ü, with a ready environment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from installer import build, gates, places, start, words
from installer.places import Stamp

PROGRAM = """
import json, sys
print(json.dumps({"words": sys.argv[1:], "prefix": sys.prefix, "path": sys.path}))
sys.exit(7 if "--fail" in sys.argv else 0)
"""


class Clone(NamedTuple):
    root: Path
    env: str


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone with a stub for the program, and an environment from the standard library stamped as if set up."""
    root = tmp_path_factory.mktemp("base") / "my clön e"
    shutil.copytree(os.path.join(places.ROOT, "installer"), root / "installer", ignore=shutil.ignore_patterns("__pycache__"))
    package = root / "app" / "halftone"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="ascii")
    (package / "__main__.py").write_text(PROGRAM, encoding="ascii")
    env = root / ".halftone" / "env-00000001"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    build.connect(str(env), str(root))
    want = places.wanted(dev=True, folder=str(root / "installer"))
    places.write_stamp(str(env), Stamp(want.runtime, want.dev, build.base_python(str(env)), "9.9", "cpu"))
    places.make_current(str(env.parent), str(env))
    return Clone(root, str(env))


def launch(root: Path, *arguments: str, cwd: Path | None = None, **variables: str) -> "subprocess.CompletedProcess[str]":
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HALFTONE"))}
    command = [sys.executable, str(root / "installer" / "launch.py"), *arguments]
    environ = {**environ, "PYTHONUTF8": "1", **variables}
    return subprocess.run(
        command, cwd=cwd or root.parent, env=environ, capture_output=True, text=True, encoding="utf-8", check=False
    )


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_the_help_lists_the_launchers_own_commands_before_those_of_the_program(clone: Clone, word: str) -> None:
    import json

    done = launch(clone.root, word)
    *own, last = done.stdout.splitlines()
    assert json.loads(last)["words"] == [word]
    assert {line.split()[0] for line in own if line.startswith("   ")} == {"setup", "ready", "test", "python", "shortcut"}


def test_asking_for_help_sets_nothing_up(tmp_path: Path) -> None:
    shutil.copytree(os.path.join(places.ROOT, "installer"), tmp_path / "installer", ignore=shutil.ignore_patterns("__pycache__"))
    done = launch(tmp_path, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("Halftone's own commands are listed here once it is set up.\n")
    assert not (tmp_path / ".halftone").exists()


@pytest.mark.parametrize("command", ["setup", "ready", "shortcut"])
def test_help_of_a_launchers_command_does_nothing_else(tmp_path: Path, command: str) -> None:
    shutil.copytree(os.path.join(places.ROOT, "installer"), tmp_path / "installer", ignore=shutil.ignore_patterns("__pycache__"))
    done = launch(tmp_path, command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"python3 installer/launch.py {command}: ")
    assert not (tmp_path / ".halftone").exists()


def test_any_command_reaches_the_program_with_its_words_and_status(clone: Clone) -> None:
    import json

    done = launch(clone.root, "generate", "ein Müller's “tür”", "--fail", "--json")
    assert done.returncode == 7
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert said["words"] == ["generate", "ein Müller's “tür”", "--fail", "--json"]
    assert Path(said["prefix"]) == Path(clone.env)
    assert str(clone.root / "app") in said["path"]


def test_junk_from_other_pythons_and_the_current_folder_changes_nothing(clone: Clone, tmp_path: Path) -> None:
    import json

    for name in ("json", "halftone", "hashlib", "torch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')", encoding="ascii")
    done = launch(clone.root, "--version", cwd=tmp_path, PYTHONPATH=str(tmp_path), VIRTUAL_ENV="/junk", CONDA_PREFIX="/junk")
    assert (done.returncode, done.stderr) == (0, "")
    assert str(tmp_path) not in json.loads(done.stdout)["path"]


def test_the_environments_own_python_can_be_used(clone: Clone) -> None:
    done = launch(clone.root, "python", "-c", "import sys; print(sys.prefix); sys.exit(5)")
    assert (done.returncode, Path(done.stdout.strip())) == (5, Path(clone.env))


def test_a_clone_that_was_moved_still_starts(clone: Clone, tmp_path: Path) -> None:
    moved = tmp_path / "moved ü"
    shutil.copytree(clone.root, moved, symlinks=True)
    done = launch(moved, "--version")
    assert done.returncode == 0
    assert "moved ü" in done.stdout.encode().decode("unicode_escape") or str(moved) in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell script")
def test_the_double_click_file_survives_a_foreign_pythonhome(clone: Clone) -> None:
    environ = {
        **os.environ,
        "PYTHONHOME": "/junk",
        "PYTHONPATH": "/junk",
        "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
    }
    done = subprocess.run(
        [str(clone.root / "installer" / "halftone.sh"), "--version"], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"--version"' in done.stdout


def test_a_folder_that_cannot_hold_it_is_one_sentence_with_the_log(clone: Clone, tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("", encoding="ascii")
    done = launch(clone.root, "generate", "x", HALFTONE_HOME=str(blocked / "home"))
    assert done.returncode == 1
    assert done.stdout == ""
    sentence, newline, rest = done.stderr.partition("\n")
    assert (newline, rest) == ("\n", "")
    assert "cannot be written to" in sentence
    log = Path(sentence.partition("The log: ")[2])
    assert "cannot be written to" in log.read_text(encoding="utf-8")


def test_the_launchers_own_mistake_is_one_sentence_and_its_traceback_is_in_the_log(clone: Clone, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(clone.root, broken, symlinks=True)
    with open(broken / "installer" / "shortcut.py", "a", encoding="utf-8") as file:
        file.write("\ndef add(environ):\n    raise ZeroDivisionError('a mistake')\n")
    said = launch(broken, "shortcut")
    (broken / "installer" / "requirements.lock").unlink()
    incomplete = launch(broken, "--version")
    log = (broken / ".halftone" / "logs" / "launch.log").read_text(encoding="utf-8")
    assert log.count("Traceback") == 2
    for done, mistake in ((said, "ZeroDivisionError: a mistake"), (incomplete, "FileNotFoundError")):
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert mistake in done.stderr
        assert done.stderr.count("\n") == 1


def old_pythons() -> list[str]:
    """Pythons below 3.11 on this machine, by name or from a version manager."""
    named = [shutil.which(f"python3.{minor}") for minor in range(6, 11)]
    managed = Path(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))) / "versions"
    found = [
        path for path in named if path and subprocess.run([path, "-c", ""], check=False, capture_output=True).returncode == 0
    ]
    return found + [str(path) for path in sorted(managed.glob("3.[6789]*/bin/python3"))]


def test_a_real_old_python_is_told_which_is_needed(clone: Clone) -> None:
    pythons = old_pythons()
    if not pythons:
        pytest.skip("no Python below 3.11 on this machine")
    for python in pythons:
        done = subprocess.run(
            [python, str(clone.root / "installer" / "launch.py")], env={"PATH": ""}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert done.stderr.startswith("Halftone needs Python 3.11 or newer, but ")
        assert done.stderr.count("\n") == 1


def test_gates_stop_at_the_first_that_is_shut(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def gate(name: str, code: int) -> gates.Gate:
        return gates.Gate(name, (sys.executable, "-c", f"print('{name} ran', flush=True); raise SystemExit({code})"))

    with words.open_log(str(tmp_path)) as log:
        reporter = words.Reporter(log)
        assert gates.run_gates([gate("one", 0), gate("two", 3), gate("three", 0)], os.environ, reporter, str(tmp_path)) == 3
        assert gates.run_gates([gate("one", 0), gate("two", 0)], os.environ, reporter, str(tmp_path)) == 0
    shown = capfd.readouterr()
    assert shown.out.split("\n") == ["one ran", "two ran", "one ran", "two ran", ""]
    assert "“two” did not pass (exit status 3); not run: three" in log_text(tmp_path)


def test_a_gate_beside_the_others_shows_what_it_said_in_its_turn(tmp_path: Path) -> None:
    def run(first: int, second: int, *, waits: bool = False) -> tuple[int, str]:
        script = f"""
import os, sys
from installer import gates, words
pauses = ({1.5 * waits}, {0.5 * (not waits)})
def gate(name, code, beside=False):
    program = f"import sys, time; print('{{name}} ran', flush=True); time.sleep({{pauses[beside]}}); sys.exit({{code}})"
    return gates.Gate(name, (sys.executable, "-c", program), beside)
folder = {str(tmp_path)!r}
steps = [gate("one", {first}), gate("two", {second}, True)]
with words.open_log(folder) as log:
    sys.exit(gates.run_gates(steps, os.environ, words.Reporter(log), folder))
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=places.ROOT)
        return done.returncode, done.stdout

    assert run(0, 0) == (0, "one ran\ntwo ran\n")
    assert run(0, 5) == (5, "one ran\ntwo ran\n")
    assert run(3, 0) == (3, "one ran\n"), "it is ended"
    assert run(3, 5, waits=True) == (3, "one ran\ntwo ran\n"), "what it said is not lost"


def log_text(folder: Path) -> str:
    return (folder / "launch.log").read_text(encoding="utf-8")


def test_pytest_comes_last_with_the_further_words() -> None:
    both = gates.gates("/env", [])[-2:]
    ignored = tuple(f"--ignore={folder}" for folder in gates.ENGINE)
    assert [(gate.argv[3:], gate.beside) for gate in both] == [(ignored, False), (gates.ENGINE, True)]
    assert all((Path(places.ROOT) / folder).is_dir() for folder in gates.ENGINE)
    steps = gates.gates("/env", ["-k", "a test"])
    assert [gate.name for gate in steps] == ["ruff check", "ruff format", "basedpyright", "lint-imports", "pytest"]
    assert steps[-1].argv[-2:] == ("-k", "a test")
    environ = gates.gate_environ({"PATH": "/bin", "PYTHONDONTWRITEBYTECODE": "1"}, "/env")
    assert "PYTHONDONTWRITEBYTECODE" not in environ, "or each process that a test starts compiles Halftone again"
    assert (environ["QT_QPA_PLATFORM"], environ["OMP_NUM_THREADS"]) == ("offscreen", "1")
    assert gates.gate_environ({"NODE_OPTIONS": "--own"}, "/env")["NODE_OPTIONS"] == f"--own {gates.HEAP}"


def test_hints_show_how_the_launcher_was_called() -> None:
    called = start.as_typed("/a b/launch.py")
    assert called == ('py "/a b/launch.py"' if sys.platform == "win32" else "python3 '/a b/launch.py'")


@pytest.mark.skipif(os.name == "nt", reason="quotes as a POSIX shell does")
def test_hints_name_the_starter_of_a_package_as_it_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFTONE_STARTER", "/home/me/My Apps/Halftone.AppImage")
    assert start.called("launch.py") == "'/home/me/My Apps/Halftone.AppImage'"
    monkeypatch.setenv("HALFTONE_STARTER", "halftone")
    assert start.called("launch.py") == "halftone"


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell script")
@pytest.mark.parametrize("script", ["#!/bin/sh\nexec sleep 30\n", "#!/nowhere\n"])
def test_a_notice_that_hangs_or_fails_ends_nothing(clone: Clone, tmp_path: Path, script: str) -> None:
    notify = tmp_path / "notify-send"
    notify.write_text(script, encoding="ascii")
    notify.chmod(0o755)
    blocked = tmp_path / "a file"
    blocked.touch()
    path = str(tmp_path) + os.pathsep + os.environ["PATH"]
    done = launch(clone.root, "gui", PATH=path, DISPLAY=":0", HALFTONE_HOME=str(blocked / "home"))
    assert "cannot be written to, so it cannot hold" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="closes by the shell")
@pytest.mark.parametrize("closed", ["2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_a_start_without_streams_opens_the_window(clone: Clone, tmp_path: Path, closed: str) -> None:
    """As with pythonw, which has none; the first start of a window is the longer way."""
    seen = tmp_path / "seen"
    there = tmp_path / "there"
    shutil.copytree(clone.root, there, symlinks=True)
    program = f"import os, sys\nopen({str(seen)!r}, 'w').write(repr([sys.argv[1:], [os.isatty(n) for n in (0, 1, 2)]]))\n"
    (there / "app/halftone/__main__.py").write_text(program, encoding="utf-8")
    command = ("sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, str(there / "installer" / "launch.py"), "gui")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HALFTONE"))}
    assert subprocess.run(command, env=environ, check=False, stdin=subprocess.DEVNULL).returncode == 0
    assert seen.read_text(encoding="utf-8").startswith("[['gui'], [")
