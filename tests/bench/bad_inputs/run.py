"""Runs cases one after the other, each in a fork of this process: measured by itself, and ended when it takes too much."""

import gc
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Final

import msgspec
from tests.bench.bad_inputs.case import Answer, Case, answers

SECONDS: Final = 20.0
"""Seconds of processor time that a case may take."""
LARGEST: Final = 2**30
"""Bytes that the process of a case may hold at its peak, libraries included (about 0.45 GB before the case begins)."""
_PATIENCE: Final = 240.0
"""Seconds by the clock: the machine may be busy."""
_ADDRESSES: Final = 8 * 2**30
"""Bytes of address space above what is there already, so that a case cannot take the machine's memory."""


class Outcome(msgspec.Struct, frozen=True):
    """seconds: of the processor; peak: bytes of memory that the case's process held at most."""

    kind: str
    name: str
    answer: Answer
    seconds: float
    peak: int


def run(case: Case) -> Outcome:
    """The case in a process of its own, which sees the modules that are loaded here."""
    folder = Path(tempfile.mkdtemp(prefix="halftone-bad-"))
    try:
        ours, theirs = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()  # what is here is not searched in the case's process, and its pages stay shared
        child = os.fork()
        if not child:
            os.close(ours)
            _inside(case, folder, theirs)
        os.close(theirs)
        content, hung = _read(ours, child)
        _, status, used = os.wait4(child, 0)
    finally:
        _writable(folder)
        shutil.rmtree(folder, ignore_errors=True)
    seconds, peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
    return Outcome(case.kind, case.name, _answer(content, hung, status, seconds, peak), seconds, peak)


def _answer(content: bytes, hung: bool, status: int, seconds: float, peak: int) -> Answer:
    told = msgspec.json.decode(content, type=Answer) if content else None
    text = told.text if told else ""
    if hung:
        return Answer("hung", text=f"stopped after {_PATIENCE:g} s by the clock")
    if told is None:
        code = os.waitstatus_to_exitcode(status)
        slow = code == -signal.SIGXCPU or seconds > SECONDS
        return Answer("slow" if slow else "crashed", text=f"{seconds:.1f} s" if slow else f"exit code {code}")
    if told.verdict in ("ok", "accepted", "refused", "unclear", "library-words"):
        if peak > LARGEST:
            return Answer("large", told.code, f"{peak / 2**20:.0f} MiB {text}")
        if seconds > SECONDS:
            return Answer("slow", told.code, f"{seconds:.1f} s {text}")
    return told


def _read(pipe: int, child: int) -> tuple[bytes, bool]:
    """(what the child wrote until it closed the pipe, whether it had to be ended)."""
    content, until = b"", time.monotonic() + _PATIENCE
    with os.fdopen(pipe, "rb", buffering=0) as file:
        while select.select([file], [], [], max(0.0, until - time.monotonic()))[0]:
            if not (part := file.read(2**16)):
                return content, False
            content += part
    os.kill(child, signal.SIGKILL)
    return b"", True


def _inside(case: Case, folder: Path, pipe: int) -> None:
    """The child; does not return. What the case prints goes nowhere."""
    code = 1
    try:
        _limit()
        nowhere = os.open(os.devnull, os.O_RDWR)
        kept = os.dup(2)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os.environ["HALFTONE_DATA"] = str(folder / "data")
        try:
            found = answers(case, folder)
            os.write(pipe, msgspec.json.encode(found))
            code = 0
        except BaseException:  # noqa: BLE001 - the bench itself failed: its author is to see it
            os.write(kept, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    seconds = int(SECONDS) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if pages:
        limit = pages * resource.getpagesize() + _ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _writable(folder: Path) -> None:
    """A case may have taken the right to write to its folders."""
    for root, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(root) / name
            if not path.is_symlink():
                path.chmod(0o700)
