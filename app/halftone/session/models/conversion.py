"""Pickle files rewritten as safetensors, beside the original, by a process of its own that runs nothing of the file."""

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from halftone.contract.errors import ErrorFacts
from halftone.library.families.recognise import recognise
from halftone.library.files.header import read_header
from halftone.session.events import Noted
from halftone.session.ports import Commands, Finished
from halftone.session.store import Store
from halftone.worker.engines import loaded

_log = logging.getLogger(__name__)


class Converted(msgspec.Struct, frozen=True):
    """What the command prints: the new file, or why there is none. known: whether Halftone recognises what the new file holds."""

    path: str = ""
    tensors: int = 0
    known: bool = True
    error: ErrorFacts | None = None


def target_of(source: Path) -> Path:
    """Where the safetensors file is written."""
    return source.with_suffix(".safetensors")


def convert(source: str) -> Converted:
    """Write it, in this process, which loads torch. Raises HalftoneError."""
    file = Path(source).absolute()
    target = target_of(file)
    tensors: int = loaded("halftone.engine.weights.pickles:convert")(file, target)
    return Converted(str(target), tensors, known=recognise(read_header(target), target.stem).kind != "unknown")


class Converter:
    """One file at a time; the others wait."""

    def __init__(self, store: Store, commands: Commands) -> None:
        self._store = store
        self._commands = commands
        self._waiting: list[str] = []
        self._now = ""
        self._kill: Callable[[], object] | None = None

    def convert(self, path: str) -> None:
        if path != self._now and path not in self._waiting:
            self._waiting.append(path)
            self._store.take(Noted(kind="converting", facts=(Path(path).name,)))
            self._next()

    def stop(self) -> set[Path]:
        """Kill the process, if there is one. Returns the folder in which it leaves a half-written file."""
        kill, self._kill = self._kill, None
        self._waiting.clear()
        if kill is None:
            return set()
        kill()
        return {Path(self._now).parent}

    def _next(self) -> None:
        if self._kill is None and self._waiting:
            self._now = self._waiting.pop(0)
            self._kill = self._commands.start("convert", "--json", "--", self._now, ended=self._ended)

    def _ended(self, end: Finished) -> None:
        source, self._now, self._kill = Path(self._now), "", None
        try:
            found = msgspec.json.decode(end.output, type=Converted)
        except msgspec.MsgspecError:
            detail = end.errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
            _log.error("%s could not be converted: %s", source, detail)
            found = Converted(error=ErrorFacts(code="model-load-failed", facts={"path": str(source), "detail": detail}))
        if found.error is not None:
            self._store.take(Noted(kind="convert-failed", facts=(source.name,), error=found.error))
        else:
            kind = "converted" if found.known else "converted-unknown"
            self._store.take(Noted(kind=kind, facts=(Path(found.path).name, found.path)))
        self._next()
