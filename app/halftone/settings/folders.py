"""New folders appear whole or not at all; what a run that was killed left behind, the next one clears away."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Final

_ENDING: Final = ".halftone-part"
_MARK: Final = ".halftone-part"
"""A file in each unfinished folder, with the number of the process that fills it: what has none is not ours to remove."""


@contextlib.contextmanager
def new_folder(target: Path) -> Generator[Path]:
    """A folder beside `target` to fill. It becomes `target` (new, or an empty folder) when the block ends well, else it is gone.

    Raises OSError.
    """
    clear_leftovers(target.parent)
    part = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}{_ENDING}")
    part.mkdir()
    try:
        (part / _MARK).write_text(str(os.getpid()))
        yield part
        (part / _MARK).unlink()
        if target.is_dir():
            target.rmdir()
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def clear_leftovers(folder: Path) -> None:
    """Remove unfinished folders of `new_folder` whose process is no more."""
    for part in folder.glob(f".*{_ENDING}"):
        if not part.is_symlink() and _is_abandoned(part / _MARK):
            shutil.rmtree(part, ignore_errors=True)


def _is_abandoned(mark: Path) -> bool:
    import psutil

    try:
        return not psutil.pid_exists(int(mark.read_text()))
    except (OSError, ValueError):
        return False
