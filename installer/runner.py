"""Steps are data; this runs them. Output goes to the log, a refusal becomes one sentence, and no child outlives the launcher."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from types import FrameType
from typing import NamedTuple

from installer import places, words
from installer.words import Reporter

TAIL = 20_000


class Step(NamedTuple):
    title: str
    argv: tuple[str, ...]
    environ: Mapping[str, str] = {}
    # A quick command that tells whether this step can work at all; when it fails, `otherwise` is done in its place. Some words in
    # its output are worth a remark in the title.
    probe: tuple[str, ...] = ()
    probe_environ: Mapping[str, str] = {}
    otherwise: "Step | None" = None
    cwd: str | None = None
    remarks: Mapping[str, str] = {}


class Outcome(NamedTuple):
    code: int
    output: str  # the end of it


class StoppedError(Exception):
    """The person (Ctrl-C) or the system (SIGTERM, closed terminal) wants the set-up to end now."""


class _Held:
    """Whether a stop has to wait, and the signal that waits."""

    on = False
    number = 0


def raise_stopped(number: int, _frame: FrameType | None) -> None:
    if _Held.on:
        _Held.number = number
        return
    raise StoppedError(signal.Signals(number).name)


@contextlib.contextmanager
def stops_held() -> Generator[None]:
    """Let a stop wait until a child is started and known: one that comes between would leave the child running."""
    _Held.on, _Held.number = True, 0
    try:
        yield
    finally:
        _Held.on = False
    if _Held.number:
        raise StoppedError(signal.Signals(_Held.number).name)


def stop_on_signals() -> None:
    """A terminated set-up tidies up as one ended with Ctrl-C does."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        number = getattr(signal, name, None)
        # A launcher started with nohup, or in the background by a script, was told to ignore the signal: so be it.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, raise_stopped)


def signals_as_before() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGTERM", "SIGHUP", "SIGBREAK"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is raise_stopped:
            signal.signal(number, signal.SIG_DFL)


def end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def run(
    argv: Sequence[str], environ: Mapping[str, str], reporter: Reporter, limit: float = float("inf"), cwd: str | None = None
) -> Outcome:
    """Run one command to its end (or `limit` seconds) with its output in the log, showing the elapsed time meanwhile."""
    reporter.note("$ " + " ".join(argv))
    with tempfile.TemporaryFile() as capture:
        child = None
        try:
            try:
                with stops_held():
                    child = subprocess.Popen(
                        argv,
                        env=dict(environ),
                        cwd=cwd,
                        stdin=subprocess.DEVNULL,
                        stdout=capture,
                        stderr=capture,
                        creationflags=places.window_flags(),
                    )
            except OSError as error:
                reporter.note(str(error))
                return Outcome(127, str(error))
            wait(child, reporter, limit)
        finally:
            if child is not None and child.poll() is None:
                end(child)
        assert child is not None
        capture.seek(max(0, capture.seek(0, os.SEEK_END) - TAIL))
        output = capture.read().decode("utf-8", "replace")
    reporter.note(f"{output.rstrip()}\n(exit status {child.returncode})")
    return Outcome(child.returncode, output)


def wait(child: "subprocess.Popen[bytes]", reporter: Reporter, limit: float) -> None:
    begun = time.monotonic()
    while (left := limit - (time.monotonic() - begun)) > 0:
        try:
            child.wait(timeout=min(1.0, left))
            return
        except subprocess.TimeoutExpired:
            reporter.tick()


def distrusts_certificate(output: str) -> bool:
    return "invalid peer certificate" in output or "UnknownIssuer" in output


def attempt(step: Step, environ: Mapping[str, str], reporter: Reporter) -> Outcome:
    """Run a step. uv has its own list of trusted authorities; when that refuses, the system's list is asked, as pip does."""
    outcome = run(step.argv, {**environ, **step.environ}, reporter, cwd=step.cwd)
    if outcome.code != 0 and distrusts_certificate(outcome.output) and "UV_SYSTEM_CERTS" not in environ:
        system = {"UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
        outcome = run(step.argv, {**environ, **step.environ, **system}, reporter, cwd=step.cwd)
    return outcome


def settle(step: Step, environ: Mapping[str, str], reporter: Reporter) -> Step:
    """The step that will really be done: this one, or its alternative when the probe says no."""
    while step.probe:
        outcome = run(step.probe, {**environ, **step.environ, **step.probe_environ}, reporter, limit=60, cwd=step.cwd)
        if outcome.code == 0:
            said = [remark for word, remark in step.remarks.items() if word in outcome.output]
            return step._replace(title=" ".join([step.title, *said]))
        if step.otherwise is None:
            return step  # It will fail as its probe did, and then say why.
        step = step.otherwise
    return step


def run_steps(steps: Sequence[Step], environ: Mapping[str, str], reporter: Reporter, had_one: bool) -> None:
    for number, planned in enumerate(steps, start=1):
        step = settle(planned, environ, reporter)
        reporter.begin(f"[{number}/{len(steps) + 1}] {step.title}")  # One more is the check at the end.
        outcome = attempt(step, environ, reporter)
        reporter.end()
        if outcome.code != 0:
            raise words.set_up_failed(step.title, outcome.output, had_one)


def python_command() -> str:
    """The interpreter that runs the launcher; sys.executable is empty only in embedded Pythons."""
    return sys.executable or "python3"
