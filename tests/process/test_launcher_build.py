"""An environment is built aside, proved, and only then made current: with real folders, processes, locks and kills.

The environments here are empty ones from the standard library, so nothing is fetched; everything else is the launcher's own path.
"""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from installer import build, guard, places, runner, verify, words
from installer.places import Wanted
from installer.runner import Step

WANT = Wanted("runtime-1", "")
PROOF = """print('{"torch": "9.9", "device": "cpu", "name": "a test"}')"""


def recipe(env: Path, *more: Step, proof: str = PROOF, remedies: tuple[Step, ...] = ()) -> build.Recipe:
    python = places.python_in(str(env))
    venv = Step("A Python environment", (sys.executable, "-m", "venv", "--without-pip", str(env)))
    return build.Recipe(str(env), (venv, *more), (python, "-c", proof), remedies, dict(os.environ))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "clön e" / ".halftone"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def reporter(tmp_path: Path) -> Iterator[words.Reporter]:
    with words.open_log(str(tmp_path / "logs")) as log:
        yield words.Reporter(log)


def make(home: Path, reporter: words.Reporter, name: str, want: Wanted = WANT) -> str:
    return build.build_once(str(home), want, reporter, lambda: recipe(home / name), again=False)


def environments(home: Path) -> set[str]:
    return {path.name for path in home.iterdir() if path.name.startswith("env-")}


def works(env: str | None) -> bool:
    return env is not None and subprocess.run([places.python_in(env), "-c", ""], check=False).returncode == 0


def test_a_finished_environment_is_current_ready_and_built_once(home: Path, reporter: words.Reporter) -> None:
    env = make(home, reporter, "env-00000001")
    assert places.current(str(home)) == env
    assert places.ready(str(home), WANT) == env
    assert make(home, reporter, "env-00000002") == env
    assert environments(home) == {"env-00000001"}


def test_new_locks_build_anew_and_the_old_environment_goes(home: Path, reporter: words.Reporter) -> None:
    make(home, reporter, "env-00000001")
    assert places.ready(str(home), Wanted("runtime-2", "")) is None
    env = make(home, reporter, "env-00000002", Wanted("runtime-2", ""))
    assert places.ready(str(home), Wanted("runtime-2", "")) == env
    assert environments(home) == {"env-00000002"}


def test_development_tools_are_asked_for_only_by_those_who_need_them(home: Path, reporter: words.Reporter) -> None:
    env = make(home, reporter, "env-00000001", Wanted("runtime-1", "dev-1"))
    assert places.ready(str(home), Wanted("runtime-1", "")) == env
    assert places.ready(str(home), Wanted("runtime-1", "dev-1")) == env
    assert places.ready(str(home), Wanted("runtime-1", "dev-2")) is None


FAILING = Step("PyTorch", (sys.executable, "-c", "raise SystemExit('dns error')"))
ABSENT = Step("PyTorch", ("/nowhere/uv",))
FAILURES: list[tuple[str, tuple[Step, ...], str, str]] = [
    ("a step that fails", (FAILING,), PROOF, "“PyTorch” because the package index could not be reached"),
    ("a program that does not exist", (ABSENT,), PROOF, "“PyTorch” because"),
    ("a proof that fails", (), "raise SystemExit('torch does not load: c10.dll')", "(torch does not load: c10.dll)"),
]


@pytest.mark.parametrize(("more", "proof", "said"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_a_failure_keeps_the_old_environment_in_use(
    home: Path, reporter: words.Reporter, more: tuple[Step, ...], proof: str, said: str
) -> None:
    old = make(home, reporter, "env-00000001")
    new = recipe(home / "env-00000002", *more, proof=proof)
    with pytest.raises(words.LaunchError, match="is untouched") as raised:
        build.build_once(str(home), Wanted("runtime-2", ""), reporter, lambda: new, again=False)
    assert said in str(raised.value)
    assert places.current(str(home)) == old
    assert works(old)
    assert environments(home) == {"env-00000001"}


def test_a_card_that_refuses_the_build_gets_another(home: Path, reporter: words.Reporter, tmp_path: Path) -> None:
    other = tmp_path / "older build"
    proof = f"import os, sys; os.path.exists({str(other)!r}) or sys.exit(4); {PROOF}"
    useless = Step("a build that is not there", (sys.executable, "-c", "raise SystemExit(1)"))
    older = Step("the older build", (sys.executable, "-c", f"open({str(other)!r}, 'w').close()"))
    new = recipe(home / "env-00000001", proof=proof, remedies=(useless, older))
    assert build.build_once(str(home), WANT, reporter, lambda: new, again=False) == places.current(str(home))


@pytest.mark.parametrize("note", ["cuda computes wrongly even in FP32", "cuda cannot compute: CUDA out of memory"])
def test_a_card_that_computes_badly_is_told_and_no_obstacle(home: Path, reporter: words.Reporter, note: str) -> None:
    proof = f"import json; print(json.dumps({{'torch': '9.9', 'device': 'cuda', 'name': 'a card', 'note': {note!r}}}))"
    new = recipe(home / "env-00000001", proof=proof)
    assert build.build_once(str(home), WANT, reporter, lambda: new, again=False) == places.current(str(home))
    assert f"In a first try {note}. Halftone measures" in Path(reporter.log.name).read_text(encoding="utf-8")


def raising(text: str) -> bool:
    raise RuntimeError(text)


VERDICTS: list[tuple[str, Callable[[], bool], int, str]] = [
    ("cuda", lambda: True, 0, ""),
    ("cuda", lambda: False, 0, "cuda computes wrongly even in FP32"),
    ("cuda", lambda: raising("CUDA out of memory\nTried to"), 0, "cuda cannot compute: CUDA out of memory"),
    ("cuda", lambda: raising("CUDA error: no kernel image is available"), verify.NO_CODE, "no kernel image"),
    ("cpu", lambda: raising("could not create a primitive"), verify.DEVICE_FAILED, "cpu cannot compute: could not create"),
]


@pytest.mark.parametrize(("device", "computes", "code", "said"), VERDICTS)
def test_only_a_build_without_code_for_the_card_is_exchanged(
    device: str, computes: Callable[[], bool], code: int, said: str
) -> None:
    found, note = verify.judge(device, computes)
    assert found == code
    assert said in note if said else note == ""


def test_the_first_computation_is_right_on_a_sound_device() -> None:
    code = "from installer.verify import compute; raise SystemExit(0 if compute('cpu') else 1)"
    assert subprocess.run([sys.executable, "-c", code], cwd=places.ROOT, check=False).returncode == 0


def test_a_step_that_cannot_work_here_is_done_in_the_other_way(tmp_path: Path, reporter: words.Reporter) -> None:
    mark = tmp_path / "done"
    other = Step("the configured index", (sys.executable, "-c", f"open({str(mark)!r}, 'w').write('other')"))
    step = Step("its own index", (sys.executable, "-c", "1/0"), probe=(sys.executable, "-c", "1/0"), otherwise=other)
    runner.run_steps([step], os.environ, reporter, had_one=False)
    assert mark.read_text(encoding="ascii") == "other"


def test_what_a_probe_finds_is_said_in_the_title(reporter: words.Reporter) -> None:
    found = (sys.executable, "-c", "print('+ nvidia-cublas==13')")
    step = Step("PyTorch", (), probe=found, remarks={"nvidia-": "(3 GB)", "intel-": "(5 GB)"})
    assert runner.settle(step, os.environ, reporter).title == "PyTorch (3 GB)"


def test_a_command_that_takes_too_long_is_ended(reporter: words.Reporter) -> None:
    forever = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    assert runner.run(forever, os.environ, reporter, limit=0.1).code != 0


def test_an_environment_whose_python_was_removed_is_not_ready(home: Path, reporter: words.Reporter) -> None:
    env = make(home, reporter, "env-00000001")
    os.unlink(places.python_in(env))
    assert places.ready(str(home), WANT) is None


@pytest.mark.parametrize("text", ["", "env-gone\n", "../elsewhere\n", "env-\x00\n", "/\n"])
def test_a_damaged_pointer_is_no_environment(home: Path, text: str) -> None:
    (home / places.POINTER).write_text(text, encoding="utf-8")
    assert places.ready(str(home), WANT) is None


def test_only_the_launchers_own_leftovers_are_swept(home: Path) -> None:
    mine = ("env-0123abcd", "uv-0.13.8-staging-17", "probe-ü 0123abcd-renamed")
    theirs = ("env-production", "env-0123abcd-notes", "current", "my-staging-area", "logs", "uv-0.13.8")
    for name in (*mine, *theirs):
        (home / name).mkdir()
    (home / "current.4711").write_text("", encoding="ascii")
    guard.sweep(str(home), None)
    assert {path.name for path in home.iterdir()} == set(theirs)


@pytest.mark.skipif(os.name == "nt", reason="Windows itself refuses to delete what is in use")
def test_an_environment_with_a_running_program_stays_until_it_ends(home: Path, reporter: words.Reporter) -> None:
    old = make(home, reporter, "env-00000001")
    code = "import sys; from installer.start import hold; hold(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, old], cwd=places.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as window:
        assert window.stdout is not None
        assert window.stdout.readline() == b"held\n"
        make(home, reporter, "env-00000002", Wanted("runtime-2", ""))
        assert environments(home) == {"env-00000001", "env-00000002"}
        assert works(old)
        window.communicate()
    make(home, reporter, "env-00000003", Wanted("runtime-3", ""))
    assert environments(home) == {"env-00000003"}


# A launcher whose set-up halts in the middle: it says so, then waits for the end of its input.
HALTING = """
import os, signal, sys
from installer import build, runner, words
from installer.places import Wanted
from installer.runner import Step
home, env = sys.argv[1:]
halt = Step("PyTorch", (sys.executable, "-c", "import os, sys; os.kill(int(sys.argv[1]), 0); open(sys.argv[2], 'w').write('x'); "
            "import threading; threading.Event().wait()", str(os.getpid()), os.path.join(home, "fifo")))
venv = Step("A Python environment", (sys.executable, "-m", "venv", "--without-pip", env))
made = build.Recipe(env, (venv, halt), (sys.executable, "-c", "raise SystemExit(1)"), (), dict(os.environ))
for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # nohup, which this run may stand under, hands down an ignored SIGHUP
    signal.signal(getattr(signal, name), signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
runner.stop_on_signals()
with words.open_log(home) as log:
    try:
        build.build_once(home, Wanted("runtime-2", ""), words.Reporter(log), lambda: made, again=False)
    except runner.StoppedError:
        sys.exit(130)
"""


@pytest.mark.skipif(os.name == "nt", reason="uses POSIX signals")
@pytest.mark.skipif(os.name == "nt", reason="locks of POSIX")
@pytest.mark.parametrize(("number", "used"), [(errno.ENOLCK, False), (errno.EOPNOTSUPP, False), (errno.EAGAIN, True)])
def test_a_disk_without_locks_has_nothing_in_use(home: Path, monkeypatch: pytest.MonkeyPatch, number: int, used: bool) -> None:
    import fcntl

    def flock(_file: object, _operation: int) -> None:
        raise OSError(number, os.strerror(number))

    (home / places.IN_USE).touch()
    monkeypatch.setattr(fcntl, "flock", flock)
    assert guard.in_use(str(home)) is used
    with open(home / guard.LOCK, "a+b") as file:
        assert guard.try_lock(file) is not used


def test_a_stop_in_the_midst_of_a_start_waits_until_the_child_is_known() -> None:
    """Else nobody would end the child."""
    reached: list[bool] = []

    def start() -> None:
        with runner.stops_held():
            os.kill(os.getpid(), signal.SIGTERM)
            reached.append(True)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    runner.stop_on_signals()
    try:
        with pytest.raises(runner.StoppedError, match="SIGTERM"):
            start()
        with pytest.raises(runner.StoppedError):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert reached == [True]


@pytest.mark.skipif(os.name == "nt", reason="uses POSIX signals and a named pipe")
@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"])
def test_a_set_up_ended_half_way_leaves_the_old_environment(home: Path, reporter: words.Reporter, number: str) -> None:
    old = make(home, reporter, "env-00000001")
    os.mkfifo(home / "fifo")
    with subprocess.Popen(
        [sys.executable, "-c", HALTING, str(home), str(home / "env-00000002")], cwd=places.ROOT, start_new_session=True
    ) as launcher:
        with open(home / "fifo", encoding="ascii") as fifo:
            assert fifo.read() == "x"  # Blocks until the step runs, and thereby the set-up is in its middle.
        launcher.send_signal(getattr(signal, number))
        try:
            code = launcher.wait(timeout=20)
        finally:
            if number == "SIGKILL" or launcher.returncode is None:
                os.killpg(launcher.pid, signal.SIGKILL)  # Its child outlived it, as it would in life.
    (home / "fifo").unlink()
    assert code == (-signal.SIGKILL if number == "SIGKILL" else 130)
    assert places.current(str(home)) == old
    assert places.ready(str(home), WANT) == old
    assert works(old)
    assert environments(home) == ({"env-00000001", "env-00000002"} if number == "SIGKILL" else {"env-00000001"})
    make(home, reporter, "env-00000003", Wanted("runtime-2", ""))
    assert environments(home) == {"env-00000003"}


CONCURRENT = """
import os, sys
from installer import build, words
from installer.places import Wanted, python_in
from installer.runner import Step
home, env, tally = sys.argv[1:]
steps = (Step("A Python environment", (sys.executable, "-m", "venv", "--without-pip", env)),
         Step("count", (sys.executable, "-c", "import sys; open(sys.argv[1], 'a').write('built\\\\n')", tally)))
proof = (python_in(env), "-c", "print('{}')".format('{"torch": "9.9", "device": "cpu", "name": "a test"}'))
print("here", flush=True)
sys.stdin.readline()
with words.open_log(os.path.join(home, "logs")) as log:
    made = build.Recipe(env, steps, proof, (), dict(os.environ))
    print(build.build_once(home, Wanted("runtime-1", ""), words.Reporter(log), lambda: made, again=False))
"""


def test_of_launchers_started_together_one_builds_and_all_get_it(home: Path, tmp_path: Path) -> None:
    tally = tmp_path / "tally"
    environ = {**os.environ, "PYTHONUTF8": "1"}
    commands = [[sys.executable, "-c", CONCURRENT, str(home), str(home / f"env-0000000{n}"), str(tally)] for n in range(3)]
    started = [
        subprocess.Popen(
            command, cwd=places.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environ
        )
        for command in commands
    ]
    for launcher in started:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "here\n"
    for launcher in started:
        assert launcher.stdin is not None
        launcher.stdin.write("go\n")
        launcher.stdin.flush()
    answers = {launcher.communicate(timeout=60)[0] for launcher in started}
    assert tally.read_text(encoding="ascii") == "built\n"
    assert answers == {f"{places.current(str(home))}\n"}
