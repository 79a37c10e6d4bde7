"""The confined process: reads its standard input, writes the new file into its standard output, and reports on stderr."""

import io
import os
import sys
from collections.abc import Callable
from typing import BinaryIO, Final

import msgspec

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.worker.confined.walls import Wall

SECONDS: Final = 300
BYTES_PER_SECOND: Final = 10 * 2**20
"""Of processor time, in which a slow machine copies a file."""

Work = Callable[[BinaryIO, int, BinaryIO, Callable[[int, int], object]], tuple[int, dict[str, int]]]
"""(source, its size, output, progress) -> number of tensors, and of those that were left out by their place."""
MOST_PLACES: Final = 50


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line on stderr; each holds one of these. done: bytes so far, and all; walls: what the process cannot do.

    left stands beside tensors: place -> number of tensors that were left out.
    """

    done: tuple[int, int] | None = None
    walls: tuple[Wall, ...] | None = None
    tensors: int | None = None
    left: dict[str, int] = {}
    error: ErrorFacts | None = None


def main(prepare: Callable[[], Work], memory: int, largest: int) -> int:
    """Load what the work needs, give up all rights, then work. Returns the exit status.

    memory: bytes that it may use beside its libraries; largest: bytes of the file that it may write.
    """
    output, reports = os.dup(1), os.dup(2)
    os.dup2(2, 1)  # what a library prints does not get into the file
    report = os.fdopen(reports, "wb", buffering=0)
    with os.fdopen(output, "wb") as target, os.fdopen(0, "rb", closefd=False) as source:
        size = source.seek(0, io.SEEK_END)
        work = prepare()
        walls = confine({0, 1, 2, output, reports}, memory, largest, SECONDS + size // BYTES_PER_SECOND)
        _say(report, Report(walls=tuple(sorted(walls))))
        try:
            tensors, left = work(source, size, target, _progress(report))
            found = Report(tensors=tensors, left=dict(list(left.items())[:MOST_PLACES]))
        except HalftoneError as error:
            found = Report(error=error.as_facts())
        _say(report, found)
    return 0 if found.error is None else 1


def confine(keep: set[int], memory: int, largest: int, seconds: int) -> frozenset[Wall]:
    """Give up what this process may do, as far as the system lets it. Returns what it can no longer do."""
    match sys.platform:
        case "linux":
            from halftone.worker.confined import linux as system
        case "darwin":
            from halftone.worker.confined import macos as system
        case "win32":
            from halftone.worker.confined import windows as system
        case _:
            return frozenset()
    return system.confine(keep, memory, largest, seconds)


def _say(report: BinaryIO, said: Report) -> None:
    report.write(msgspec.json.encode(said) + b"\n")


def _progress(report: BinaryIO) -> Callable[[int, int], None]:
    """Reports each percent once."""
    last = -1

    def hear(done: int, total: int) -> None:
        nonlocal last
        if total and (percent := 100 * done // total) != last:
            last = percent
            _say(report, Report(done=(done, total)))

    return hear
