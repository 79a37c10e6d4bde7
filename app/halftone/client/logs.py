"""The worker's log: one file for its log records, stray prints and crash dumps, in the order they happened."""

from pathlib import Path
from typing import Final

from halftone.settings import places

MAX_BYTES: Final = 2 * 2**20
KEPT: Final = 3


def worker_log() -> Path:
    """The file for the next worker's stderr, to be appended to. A full one is rotated away first."""
    path = places.log_dir() / "worker.log"
    if path.exists() and path.stat().st_size > MAX_BYTES:
        _rotate(path)
    return path


def last_lines(path: Path, size: int = 8192) -> str:
    """The end of the log, at most `size` bytes, for the details of a lost worker. Empty if there is no log."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        return file.read().decode("utf-8", "replace")


def _rotate(path: Path) -> None:
    """worker.log becomes worker.log.1, and so on; the oldest goes."""
    for number in range(KEPT - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{number + 1}"))
    path.replace(path.with_name(f"{path.name}.1"))
