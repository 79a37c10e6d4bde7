"""Runs the confined process: opens both files for it, hears its reports, and looks at what it wrote before anybody uses that."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Final

import msgspec

from halftone.client.command import worker_environment
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.library.files.header import read_header
from halftone.library.files.pickle_scan import largest_output
from halftone.worker.confined.process import Report
from halftone.worker.confined.walls import WALLS, Wall

MODULE: Final = "halftone.worker.confined"
_MEMORY: Final = 2**30
"""Bytes beside twice the file's size, for the names and shapes. An old torch reads all tensors at once."""
_KEPT: Final = frozenset({
    "PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "TEMP", "TMP", "PYTHONPATH",
    "PYTHONUTF8",
})  # fmt: skip
"""What a process needs of its environment to start. Tokens and passwords stay here."""
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
_MOST_LINE: Final = 2**16
_MOST_LINES: Final = 1000


@dataclass(frozen=True)
class Ended:
    """tensors: how many it wrote; left: how many it left out, by their place; walls: what it could not do."""

    tensors: int
    left: dict[str, int]
    walls: frozenset[Wall]

    @property
    def open(self) -> tuple[Wall, ...]:
        """What the system could not keep it from."""
        return tuple(wall for wall in WALLS if wall not in self.walls)


def rewrite(source: BinaryIO, path: Path, part: Path, heard: Callable[[int, int], object], module: str = MODULE) -> Ended:
    """Write the weights of an open pickle file into the new file `part`. path: of the source, for errors. module: what is run.

    Raises HalftoneError pickle-needs-code, pickle-no-weights, pickle-unread, output-failed, OSError.
    """
    size = os.fstat(source.fileno()).st_size
    largest = largest_output(size)
    with part.open("xb") as output:
        command = [sys.executable, "-P", "-u", "-m", module, str(_MEMORY + 2 * size), str(largest)]
        with subprocess.Popen(command, stdin=source, stdout=output, stderr=subprocess.PIPE, env=_environment()) as process:
            assert process.stderr is not None
            try:
                ended, said = _reports(process.stderr, heard)
            finally:
                process.kill()
        output.flush()
        os.fsync(output.fileno())
    return _judged(ended, said, process.returncode, path, part)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in worker_environment().items() if name.upper() in _KEPT}
    return kept | _ONE_THREAD


def _reports(lines: IO[bytes], heard: Callable[[int, int], object]) -> tuple[Report, str]:
    """Everything it reports, and the last other line. It may be hostile by now: no more than it can need to say is read."""
    known, said = Report(), ""
    for _number in range(_MOST_LINES):
        line = lines.readline(_MOST_LINE)
        if not line:
            break
        try:
            report = msgspec.json.decode(line, type=Report)
        except msgspec.MsgspecError:
            said = line.decode("utf-8", "replace").strip() or said
            continue
        if report.done is not None:
            heard(*report.done)
        if report.walls is not None:
            known = msgspec.structs.replace(known, walls=report.walls)
        if report.tensors is not None or report.error is not None:
            return msgspec.structs.replace(report, walls=known.walls), said
    return known, said


_MAY_RAISE: Final = frozenset({"pickle-needs-code", "pickle-no-weights", "pickle-unread", "output-failed"})


def _judged(ended: Report, said: str, code: int, path: Path, part: Path) -> Ended:
    if (error := ended.error) is not None and error.code in _MAY_RAISE:
        raise HalftoneError(error.code, "", **{**error.facts, "path": str(path)})
    if ended.tensors is None:
        raise HalftoneError(
            "pickle-unread", path=str(path), detail=Words("its conversion ended early ({0})", (said or str(code),))
        )
    if len(read_header(part).tensors) != ended.tensors:
        raise HalftoneError("pickle-unread", path=str(path), detail=Words("the converted file does not match"))
    return Ended(ended.tensors, ended.left, frozenset(ended.walls or ()))
