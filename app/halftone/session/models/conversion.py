"""Pickle files rewritten as safetensors under a new name, by a confined process that runs nothing of the file."""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.wording import Words
from halftone.library.families.recognise import recognise
from halftone.library.files.header import quoted, read_header, refuse_misnamed
from halftone.library.models import PICKLES
from halftone.session.events import Noted, Replaced
from halftone.session.models import confined
from halftone.session.ports import Commands, Finished
from halftone.session.store import Store
from halftone.settings.disk import need_room, no_folder, no_right, system_words
from halftone.settings.folders import new_file
from halftone.settings.regular_files import open_regular
from halftone.worker.confined.walls import Wall

_log = logging.getLogger(__name__)


class Converted(msgspec.Struct, frozen=True):
    """What the command prints: the new file, or why there is none. left: how many tensors were left out, by their place in the
    old one. known: whether Halftone recognises what the new file holds. open: what the system could not keep the process from.
    """

    path: str = ""
    tensors: int = 0
    left: dict[str, int] = {}
    known: bool = True
    open: tuple[Wall, ...] = ()
    error: ErrorFacts | None = None


def left_words(left: Mapping[str, int]) -> Words | None:
    """Say which tensors of the old file the new one lacks; None where it has all."""
    places = tuple(Words("{0} tensors in {1}", (count, quoted(place)), one="{0} tensor in {1}") for place, count in left.items())
    return Words("Not in the new file: {0}.", (places,)) if places else None


def target_of(source: Path) -> Path:
    """Where the safetensors file is written, if nothing is there yet."""
    return source.with_suffix(".safetensors")


def convert(source: str, folder: Path | None = None, heard: Callable[[int, int], object] = lambda _done, _all: None) -> Converted:
    """Write it under a new name, beside the source or in a folder. heard: hears of bytes done and all. Raises HalftoneError."""
    file = Path(source).absolute()
    target = target_of(file if folder is None else folder.absolute() / file.name)
    if not target.parent.is_dir():
        raise no_folder(target.parent)
    if file.is_dir():
        raise HalftoneError("pickle-not", path=str(file), what=Words("a folder"))
    try:
        with open_regular(file) as opened:
            _refuse_other_files(opened, file)
            return _converted(opened, file, target, heard)
    except FileNotFoundError as error:
        raise HalftoneError("file-missing", path=str(file)) from error
    except PermissionError as error:
        raise no_right(error, file) from error
    except OSError as error:
        raise HalftoneError("pickle-unread", path=str(file), detail=system_words(error)) from error


def _refuse_other_files(opened: BinaryIO, file: Path) -> None:
    """Files that are no pickles by name and by content. Raises HalftoneError pickle-not, and as `refuse_misnamed`; one called a
    pickle may be damaged.
    """
    ending, begins = file.suffix.lower(), opened.read(2)
    opened.seek(0)
    if ending in PICKLES:
        refuse_misnamed(file)
        return
    if begins.startswith((b"PK", b"\x80")):
        return
    what = Words("a safetensors file already") if ending == ".safetensors" else Words("not a pickle file")
    raise HalftoneError("pickle-not", path=str(file), what=what)


def _converted(opened: BinaryIO, file: Path, target: Path, heard: Callable[[int, int], object]) -> Converted:
    try:
        need_room(target, target.parent, os.fstat(opened.fileno()).st_size)
        target = _fresh(target)
        with new_file(target) as part:
            ended = confined.rewrite(opened, file, part, heard)
    except OSError as error:
        raise HalftoneError("output-failed", path=str(target), detail=system_words(error)) from error
    known = recognise(read_header(target), target.stem).kind != "unknown"
    return Converted(str(target), ended.tensors, ended.left, known, ended.open)


def _fresh(target: Path) -> Path:
    """The name, or the first with a number that nothing has."""
    names = (target, *(target.with_stem(f"{target.stem}-{number}") for number in range(2, 10_000)))
    return next((name for name in names if not os.path.lexists(name)), target)


class _Came(msgspec.Struct):
    """What the process prints meanwhile, a line each. done, total: bytes."""

    done: int
    total: int


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
            self._show((self._now, 0, 0))
            arguments = ("convert", "--json", "--progress", "--", self._now)
            self._kill = self._commands.start(*arguments, ended=self._ended, heard=self._heard)

    def _heard(self, printed: bytes) -> None:
        """The last whole line says how much is done."""
        for line in reversed(printed.splitlines(keepends=True)):
            if line.endswith(b"\n"):
                with suppress(msgspec.MsgspecError):
                    found = msgspec.json.decode(line, type=_Came)
                    self._show((self._now, found.done, found.total))
                return

    def _show(self, converting: tuple[str, int, int] | None) -> None:
        self._store.take(Replaced(part=replace(self._store.state.library, converting=converting)))

    def _ended(self, end: Finished) -> None:
        source, self._now, self._kill = Path(self._now), "", None
        self._show(None)
        try:
            found = msgspec.json.decode(end.output, type=Converted)
        except msgspec.MsgspecError:
            detail = end.errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
            _log.error("%s could not be converted: %s", source, detail)
            found = Converted(error=ErrorFacts(code="pickle-unread", facts={"path": str(source), "detail": detail}))
        if found.error is not None:
            self._store.take(Noted(kind="convert-failed", facts=(source.name,), error=found.error))
        else:
            kind = "converted-unknown" if not found.known else "converted-open" if found.open else "converted"
            self._store.take(Noted(kind=kind, facts=(Path(found.path).name, found.path), why=left_words(found.left)))
        self._next()
