"""The system's locks on files: they end with the process that holds them, however that ends."""

import errno
import sys
from typing import IO, Any, Final

_HELD: Final = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})
"""A system answers these for a lock that somebody else holds: POSIX, then Windows."""


def lock(file: IO[Any]) -> None:
    """Hold the system's lock until the file is closed. Raises OSError if somebody has it, or if there are no locks here."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(file: IO[Any]) -> bool:
    """Whether somebody else has the lock; else it is ours until the file is closed."""
    try:
        lock(file)
    except OSError as error:
        return error.errno in _HELD
    return False
