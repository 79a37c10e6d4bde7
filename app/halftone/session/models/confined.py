"""Runs the confined process: opens both files for it, hears its reports, and looks at what it wrote before anybody uses that."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Final

import msgspec

from halftone.client.command import worker_environment
from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.wording import Words
from halftone.library.files.header import read_header
from halftone.library.files.pickle_scan import largest_output
from halftone.worker.confined.process import BYTES_PER_SECOND, MOST_PLACES, SECONDS, Report
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


def rewrite(
    source: BinaryIO,
    path: Path,
    part: Path,
    heard: Callable[[int, int], object],
    module: str = MODULE,
    patience: float | None = None,
) -> Ended:
    """Write the weights of an open pickle file into the new file `part`. path: of the source, for errors. module: what is run.

    patience: seconds after which a process that gets no further is ended; None: by the file's size.
    Raises HalftoneError pickle-needs-code, pickle-no-weights, pickle-unread, output-failed, OSError.
    """
    size = os.fstat(source.fileno()).st_size
    patience = SECONDS + size / BYTES_PER_SECOND if patience is None else patience
    largest = largest_output(size)
    with part.open("xb") as output:
        command = [sys.executable, "-P", "-u", "-m", module, str(_MEMORY + 2 * size), str(largest)]
        with subprocess.Popen(command, stdin=source, stdout=output, stderr=subprocess.PIPE, env=_environment()) as process:
            assert process.stderr is not None
            guard = _Guard(process.kill, patience)
            try:
                ended, said = _reports(process.stderr, guard.hearing(heard))
            finally:
                guard.stop()
                process.kill()
        output.flush()
        os.fsync(output.fileno())
    if guard.acted:
        raise HalftoneError(
            "pickle-unread", path=str(path), detail=Words("its conversion got no further for {0} s", (round(patience),))
        )
    return _judged(ended, said, process.returncode, path, part)


class _Guard:
    """Ends a process that gets no further: the limit of processor time does not end one that waits."""

    def __init__(self, kill: Callable[[], object], patience: float) -> None:
        self.acted = False
        self._kill, self._patience = kill, patience
        self._most = -1
        self._begin()

    def hearing(self, heard: Callable[[int, int], object]) -> Callable[[int, int], object]:
        """Only bytes that were not done before count, so that talk alone does not keep a process running."""

        def hear(done: int, total: int) -> None:
            if done > self._most:
                self._most = done
                self._timer.cancel()
                self._begin()
            heard(done, total)

        return hear

    def stop(self) -> None:
        self._timer.cancel()
        self._timer.join()

    def _begin(self) -> None:
        self._timer = threading.Timer(self._patience, self._act)
        self._timer.daemon = True
        self._timer.start()

    def _act(self) -> None:
        self.acted = True
        self._kill()


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


_MAY_RAISE: Final[Mapping[ErrorCode, tuple[str, ...]]] = {
    "pickle-needs-code": ("name",), "pickle-no-weights": (), "pickle-unread": ("detail",), "output-failed": ("detail",),
}  # fmt: skip
"""Error -> the facts that its sentence names, beside the path."""
_MOST_TEMPLATE: Final = 300


def _judged(ended: Report, said: str, code: int, path: Path, part: Path) -> Ended:
    if (error := ended.error) is not None and _can_be_said(error):
        raise HalftoneError(error.code, "", **{name: error.facts[name] for name in _MAY_RAISE[error.code]}, path=str(path))
    if ended.tensors is None:
        raise HalftoneError(
            "pickle-unread", path=str(path), detail=Words("its conversion ended early ({0})", (said or str(code),))
        )
    if len(read_header(part).tensors) != ended.tensors:
        raise HalftoneError("pickle-unread", path=str(path), detail=Words("the converted file does not match"))
    left = dict(list(ended.left.items())[:MOST_PLACES])
    return Ended(ended.tensors, left, frozenset(ended.walls or ()))


def _can_be_said(error: ErrorFacts) -> bool:
    """Whether the error has what its sentence needs, in a form that is safe to fill in: the process may be hostile by now."""
    return error.code in _MAY_RAISE and all(_is_plain(error.facts.get(name)) for name in _MAY_RAISE[error.code])


def _is_plain(fact: object) -> bool:
    """A text, or a template whose placeholders are mere numbers of its values."""
    if not isinstance(fact, Words):
        return isinstance(fact, str)
    rest = fact.template
    for number in range(len(fact.values)):
        rest = rest.replace(f"{{{number}}}", "")
    values = all(isinstance(value, str | int) for value in fact.values)
    return values and "{" not in rest and "}" not in rest and len(rest) <= _MOST_TEMPLATE and not fact.one and not fact.about
