"""Models that the head copies to a node that lacks them, where the user asked for it. They are used once every hash is right."""

import asyncio
import contextlib
import hashlib
import os
import threading
from collections.abc import AsyncGenerator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.farm.prints import FilePrint, ModelPrint
from halftone.metadata.picture import free_name, output_error
from halftone.settings.disk import free_bytes, size_text
from halftone.settings.folders import new_folder
from halftone.settings.places import data_dir

PIECE_BYTES: Final = 1 << 23
_SPARE_BYTES: Final = 200_000_000
"""Of the disk, left for pictures that are on their way."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a file of a model. file: its place among those of the model; offset: in it. They come in order."""

    model: ModelPrint
    file: int
    offset: int
    data: bytes

    @property
    def begins(self) -> bool:
        return self.file == 0 and self.offset == 0

    @property
    def ends_file(self) -> bool:
        return self.offset + len(self.data) >= self.model.files[self.file].size


def copies_folder() -> Path:
    """Where a node keeps what the head copied to it."""
    return data_dir() / "farm" / "models"


async def pieces(model: ModelPrint) -> AsyncGenerator[Piece]:
    """All of a model of this machine. Raises HalftoneError farm-model where a file cannot be read, or has another size by now."""
    root = Path(model.path).expanduser().absolute()
    for number, one in enumerate(model.files):
        offset = 0
        while True:
            data = await asyncio.to_thread(_read, model, root / one.name if one.name else root, one, offset)
            yield Piece(model=model, file=number, offset=offset, data=data)
            offset += len(data)
            if offset >= one.size:
                break


def _read(model: ModelPrint, path: Path, wanted: FilePrint, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(min(PIECE_BYTES, wanted.size - offset))
            if (data or not wanted.size) and os.fstat(file.fileno()).st_size == wanted.size:
                return data
    except OSError as error:
        why = Words("the head cannot read {0}", (str(path),))
        raise HalftoneError("farm-model", name=model.name, why=why) from error
    raise HalftoneError("farm-model", name=model.name, why=Words("it changed on the head since the job was submitted"))


class Receiver:
    """Takes the pieces of one model after the other into a folder of its own, which appears when all of it is right."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or copies_folder()
        self._model: ModelPrint | None = None
        self._part = Path()
        self._at = (0, 0)
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self._ends = contextlib.ExitStack()
        self._one_by_one = threading.Lock()
        """A piece of a copy that was cancelled may still be on its way to the disk when the next copy begins."""

    def take(self, piece: Piece) -> bool:
        """Write a piece; whether the model is whole with it. Raises HalftoneError disk-full, farm-model and output-*: then
        nothing of the model is left.
        """
        with self._one_by_one:
            self._take(piece)
            return self._model is None

    def _take(self, piece: Piece) -> None:
        try:
            if piece.begins:
                self._begin(piece.model)
            self._write(piece)
        except HalftoneError as error:
            self._drop(error)
            raise
        except OSError as error:
            self._drop(error)
            raise output_error(error, self._folder / "model", piece.model.files[piece.file].size) from error

    def close(self) -> None:
        """Drop what is not whole."""
        with self._one_by_one:
            self._drop(InterruptedError())

    def _begin(self, model: ModelPrint) -> None:
        self._drop(InterruptedError())
        names = [PurePosixPath(one.name) for one in model.files] + [PurePosixPath(model.name)]
        if any(name.is_absolute() or ".." in name.parts for name in names):
            raise HalftoneError("farm-model", name=model.name, why=Words("its files would lie outside its folder"))
        self._folder.mkdir(parents=True, exist_ok=True)
        need, free = sum(one.size for one in model.files) + _SPARE_BYTES, free_bytes(self._folder)
        if need > free:
            raise HalftoneError("disk-full", need=size_text(need), free=size_text(free), folder=str(self._folder))
        self._part = self._ends.enter_context(new_folder(self._target(model)))
        self._model, self._at = model, (0, 0)

    def _target(self, model: ModelPrint) -> Path:
        """A folder that is not there: an earlier copy, which was changed since, stays as it is."""
        named = self._folder / hashlib.sha256(msgspec.msgpack.encode(model.files)).hexdigest()[:16]
        return free_name(named) if os.path.lexists(named) else named

    def _write(self, piece: Piece) -> None:
        if self._model != piece.model or self._at != (piece.file, piece.offset):
            raise HalftoneError("farm-model", name=piece.model.name, why=Words("its copy was interrupted"))
        one = piece.model.files[piece.file]
        if self._file is None:
            path = self._part / piece.model.name / one.name if one.name else self._part / piece.model.name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file, self._digest = path.open("xb"), hashlib.sha256()
        self._file.write(piece.data)
        self._digest.update(piece.data)
        self._at = (piece.file, piece.offset + len(piece.data))
        if piece.ends_file:
            self._end_file(piece.model, one)

    def _end_file(self, model: ModelPrint, one: FilePrint) -> None:
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        if self._digest.hexdigest() != one.digest:
            why = Words("the copy that arrived has other contents, and was thrown away")
            raise HalftoneError("farm-model", name=model.name, why=why)
        self._at = (self._at[0] + 1, 0)
        if self._at[0] == len(model.files):
            self._model = None
            self._ends.close()

    def _drop(self, error: BaseException) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._model = None
        ends, self._ends = self._ends, contextlib.ExitStack()
        with contextlib.suppress(type(error)):
            ends.__exit__(type(error), error, None)
