"""What the launcher says: short lines on stderr (stdout belongs to the program), everything else in the log."""

import contextlib
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from typing import TextIO

from installer import places

LOG_LIMIT = 1_000_000


class LaunchError(Exception):
    """A failure in one sentence: what happened, what Halftone did, what the reader can do."""


def without_secrets(text: str) -> str:
    """Package index addresses may carry a password, or a token as the user; the log must not."""
    return re.sub(r"(\w+://)[^\s/@]+@", r"\1***@", text)


def duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def open_log(folder: str | None) -> TextIO:
    """The log in `folder`, or in the temporary folder while there is no place. Past a megabyte it starts anew, keeping one."""
    user = os.environ.get("USERNAME", "") if sys.platform == "win32" else str(os.getuid())
    for candidate in (folder, tempfile.gettempdir()):
        if candidate is None:
            continue
        # The temporary folder may be everybody's, and another person's log there cannot be written to.
        name = "launch.log" if candidate == folder else f"halftone-launch-{user}.log"
        path = os.path.join(candidate, name)
        try:
            os.makedirs(candidate, exist_ok=True)
            if os.path.exists(path) and os.path.getsize(path) > LOG_LIMIT:
                os.replace(path, path + ".1")
            return open(path, "a", encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
    return open(os.devnull, "a", encoding="utf-8")


class Reporter:
    """Progress for people. On a terminal the running step shows its elapsed time in place; elsewhere each step is one line."""

    def __init__(self, log: TextIO, out: TextIO = sys.stderr) -> None:
        self.log = log
        self.out = out
        self.live = out.isatty()
        self.step = ""
        self.begun = 0.0

    def line(self, text: str) -> None:
        self.note(text)
        self._write(text + "\n")

    def note(self, text: str) -> None:
        """For the log only."""
        self.log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {without_secrets(text)}\n")
        self.log.flush()

    def begin(self, text: str) -> None:
        self.step, self.begun = text, time.monotonic()
        self.note(text)
        self._write(text + (" …" if self.live else "\n"))

    def tick(self) -> None:
        if self.live and self.step:
            self._write(f"\r{self.step} … {duration(time.monotonic() - self.begun)}")

    def end(self) -> None:
        took = duration(time.monotonic() - self.begun)
        self.note(f"{self.step}: {took}")
        if self.live:
            self._write(f"\r{self.step}: {took}   \n")
        self.step = ""

    def log_trace(self, error: BaseException) -> None:
        self.note("".join(traceback.format_exception(error)))

    def _write(self, text: str) -> None:
        # A console in an old code page cannot show every path; a closed one cannot show anything. Neither may end the set-up.
        with contextlib.suppress(OSError, ValueError):
            encoding = self.out.encoding or "ascii"
            self.out.write(text.encode(encoding, "replace").decode(encoding))
            self.out.flush()


# What uv and pip print, in the order of how much it explains: (words in the output, what happened, what the reader can do).
SIGNS: tuple[tuple[str, str, str], ...] = (
    (r"no space left|os error 112|not enough space", "there is not enough space on the disk", "free some space and start again"),
    (r"invalid peer certificate|certificate verify failed|UnknownIssuer",
     "the connection's certificate is not one this system trusts",
     "set SSL_CERT_FILE to your organisation's certificate file and start again"),
    (r"401 unauthorized|403 forbidden|407 proxy", "the package index refused the request",
     "check the index address and its password in pip's configuration and start again"),
    (r"hash mismatch|do not match the hashes", "a downloaded package is not the locked one",
     "start again, and if it repeats check which package index is configured"),
    (r"dns error|failed to lookup|client error \(connect\)|connection refused|connection reset|network is unreachable|timed out|"
     r"error sending request|newconnectionerror|failed to fetch",
     "the package index could not be reached", "check the internet connection or proxy and start again"),
    (r"failed to build|cargo|rustc|linker .* not found", "a package has no build for this system and could not be compiled",
     "use 64-bit Python 3.12 on an ordinary x86-64 system, or install a Rust compiler, and start again"),
    (r"no wheels with a matching platform tag", "a package has no build for this system",
     "update the operating system (Linux needs glibc 2.34, macOS 14) and start again"),
    (r"no interpreter found|no python", "no Python that fits could be found or fetched", "install Python 3.12 and start again"),
    (r"no solution found|no matching distribution|not found in the package registry",
     "the configured package index lacks a locked package", "check which package index is configured and start again"),
    (r"permission denied|access is denied|os error 5\b", "a file could not be written",
     "close other Halftone windows, check the folder's permissions and start again"),
)  # fmt: skip


def diagnose(output: str) -> tuple[str, str]:
    """(what happened, what to do) from a failed command's output."""
    for sign, happened, remedy in SIGNS:
        if re.search(sign, output, re.IGNORECASE):
            return happened, remedy
    return "a step of the set-up failed", "start again, and if it repeats read the end of the log"


def set_up_failed(step: str, output: str, had_one: bool) -> LaunchError:
    happened, remedy = diagnose(output)
    kept = "the environment you had is untouched" if had_one else "nothing half-finished was kept"
    return LaunchError(f"Halftone could not be set up at “{step}” because {happened}; {kept}: {remedy}.")


def fail(reporter: Reporter, sentence: str, words: Sequence[str]) -> int:
    reporter.line(f"{sentence} The log: {reporter.log.name}")
    show_where_double_clicked(sentence, words)
    return 1


def show_where_double_clicked(sentence: str, words: Sequence[str]) -> None:
    """A console that Windows opened for this double-click closes with us, and the sentence with it; a menu gives none at all."""
    if sys.platform != "win32" or list(words) not in ([], ["gui"]) or os.environ.get("HALFTONE_WRAPPER"):
        return
    import ctypes

    if not places.has_console():
        ctypes.windll.user32.MessageBoxW(None, sentence, "Halftone", 0x10)  # MB_ICONERROR
        return
    attached = ctypes.windll.kernel32.GetConsoleProcessList((ctypes.c_uint * 4)(), 4)
    # Alone, or with the py launcher: nobody's shell is attached that would keep the console open.
    if attached <= 2 and sys.stdin is not None and sys.stdin.isatty():
        with contextlib.suppress(EOFError, KeyboardInterrupt):
            input("Press Enter to close. ")
