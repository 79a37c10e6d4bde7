"""Every start that needs more than finding the environment: setting up, system libraries, the tests, the menu entry."""

import _thread
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from installer import build, gates, places, runner, shortcut, systemlibs
from installer.places import Wanted
from installer.start import become, clean, hold
from installer.words import LaunchError, Reporter, fail, open_log

WHILE_INPUT = "--while-input-is-open"


def log_folder(environ: Mapping[str, str]) -> str | None:
    """The logs of the first home that exists or can be made; a clone on a read-only disk logs to the second."""
    for home in places.homes(environ):
        folder = os.path.join(home, "logs")
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


def tell_desktop(text: str, words: Sequence[str]) -> None:
    """Started from a menu there is no terminal to read; then the desktop's own notification says it."""
    notify = shutil.which("notify-send")
    if (
        notify
        and list(words) == ["gui"]
        and not sys.stderr.isatty()
        and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    ):
        # It waits for a daemon that may not be there, and nothing may hang on a notice.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run([notify, "Halftone", text], check=False, capture_output=True, timeout=2)


def report_mistake(error: BaseException) -> None:
    """The launcher's own mistakes, too, end in one sentence; their traceback is in the log."""
    with open_log(log_folder(os.environ)) as log:
        reporter = Reporter(log)
        reporter.log_trace(error)
        happened = f"{type(error).__name__}: {error}".splitlines()[0]
        sentence = (
            f"Halftone's launcher ran into something it does not know ({happened}) and stopped: "
            "start again, and if it repeats report it with the log."
        )
        fail(reporter, sentence, sys.argv[1:])


def stop_without_input() -> None:
    """Stop as on a signal when the input ends: whoever started this set-up was stopped or killed, and nobody waits for it."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        _thread.interrupt_main(signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def prepare(words: Sequence[str], env: str | None, want: Wanted, environ: Mapping[str, str], reporter: Reporter) -> str:
    """The environment for this command, and the system libraries when it opens windows."""
    runner.stop_on_signals()
    if WHILE_INPUT in words:
        stop_without_input()
    command = words[0]
    if env is None:
        tell_desktop("Setting up, this takes a few minutes once.", words)
        env = build.set_up(want, environ, reporter, places.homes(environ), again=command == "setup")
    if command == "gui":
        systemlibs.ensure_qt(True, environ, reporter)
        # Spares later starts the check; an environment that belongs to someone else is simply checked again.
        with contextlib.suppress(OSError), open(os.path.join(env, "qt-ok"), "w", encoding="ascii"):
            pass
    if command == "test":
        systemlibs.ensure_qt(False, environ, reporter)
        systemlibs.ensure_screen(environ, reporter)
    runner.signals_as_before()
    return env


def serve(words: list[str], env: str | None, want: Wanted) -> int:
    environ = clean(os.environ)
    with open_log(log_folder(environ)) as log:
        reporter = Reporter(log)
        reporter.note(f"Python {sys.version.split()[0]} at {sys.executable}, {sys.platform}, words: {list(words)}")
        try:
            if words[0] == "shortcut":
                reporter.line(f"Added to the applications menu: {shortcut.add(environ)}")
                return 0
            env = prepare(words, env, want, environ, reporter)
        except LaunchError as trouble:
            tell_desktop(str(trouble), words)
            return fail(reporter, str(trouble), words)
        except runner.StoppedError:
            reporter.line(
                f"Stopped; the environment in use, if there was one, is whole, and the next start goes on. The log: {log.name}"
            )
            return 130
        if words[0] in ("setup", "ready"):
            return 0
        hold(env)
        if words[0] == "test":
            return gates.run_gates(gates.gates(env, words[1:]), gates.gate_environ(environ, env), reporter)
    return become(env, words, environ)
