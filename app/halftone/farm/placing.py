"""The head alone makes files: whole or not at all, once, and never over another file."""

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from halftone.farm.ledger import Ledger
from halftone.farm.states import Arrived, Failed, Job, NotPlaced, Placed
from halftone.metadata.picture import free_name, output_error
from halftone.settings.atomic import clear_once, create_atomically
from halftone.settings.regular_files import open_regular

_ATTEMPTS: Final = 100
"""Names that are tried while others keep taking them."""
_PIECE: Final = 1 << 22


def digest_of(data: bytes) -> str:
    """The SHA-256 of a file's bytes."""
    return hashlib.sha256(data).hexdigest()


def place(
    ledger: Ledger, key: str, attempt: int, data: bytes, listed: Callable[[Path], object] = lambda _path: None
) -> Path | None:
    """Write the result of a job's attempt, under the next free name where its own is taken meanwhile; its place. None where
    nothing is written: the attempt is no longer the job's, or the job failed, as no file can be written there.

    The ledger says first which bytes will appear where: a head that ends in between finds out from the file alone whether it
    was made. listed: gets the file before the ledger says that it is there. Raises HalftoneError disk-full, which concerns all
    jobs; this one then waits again.
    """
    job = ledger.job(key)
    if job is None:
        return None
    path, digest = Path(job.output), digest_of(data)
    if os.path.lexists(path):
        path = free_name(path)
    if ledger.tell(key, Arrived(attempt, str(path), digest)) is None:
        return None
    try:
        path = _created(ledger, key, path, data)
    except OSError as error:
        found = output_error(error, path, len(data))
        if found.code == "disk-full":
            ledger.tell(key, NotPlaced())
            raise found from error
        ledger.tell(key, Failed(attempt, found.as_facts()))
        return None
    listed(path)
    ledger.tell(key, Placed())
    return path


def _created(ledger: Ledger, key: str, path: Path, data: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # a file has the folder's name
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path.parent)) from error
    for _ in range(_ATTEMPTS):
        try:
            create_atomically(path, data)
        except FileExistsError:
            path = free_name(path)
            ledger.move(key, str(path))
        else:
            return path
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def settle(ledger: Ledger) -> tuple[int, int]:
    """Decide what became of files that were about to appear when a head ended: (files that are there, jobs that wait again).

    A file counts only where its bytes are those that the ledger names: another one at that place is not the job's.
    """
    there = lost = 0
    for job in ledger.in_state("placing"):
        path = Path(job.place or job.output)
        clear_once(path.parent)
        if job.digest is not None and file_digest(path) == job.digest:
            ledger.tell(job.key, Placed())
            there += 1
        else:
            ledger.tell(job.key, NotPlaced())
            lost += 1
    return there, lost


def file_digest(path: Path) -> str | None:
    """The SHA-256 of a regular file; None where there is none that can be read."""
    digest = hashlib.sha256()
    try:
        with open_regular(str(path)) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()


def unsound(ledger: Ledger) -> tuple[Job, ...]:
    """Finished jobs whose file is gone, or is another one."""
    return tuple(job for job in ledger.in_state("done") if job.place and file_digest(Path(job.place)) != job.digest)
