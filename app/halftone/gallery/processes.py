"""Names a process by its number and its start, because the system gives the number of an ended process to another one."""

import os
from functools import cache
from typing import Final

PREFIX: Final = "process "
_SAME_SECONDS: Final = 2.0
"""The start of a process is read from a clock that is set now and then."""


def own_process() -> str:
    """Return the name of this process."""
    return _named(os.getpid())


@cache
def _named(number: int) -> str:
    import psutil

    return f"{PREFIX}{number} {psutil.Process(number).create_time():.2f}"


def is_running(name: str) -> bool:
    """Whether the named process still runs. A name without a start is of an older Halftone, and counts as ended."""
    import psutil

    try:
        number, start = name.removeprefix(PREFIX).split(" ")
        return abs(psutil.Process(int(number)).create_time() - float(start)) < _SAME_SECONDS
    except psutil.AccessDenied:
        return True
    except (psutil.NoSuchProcess, ValueError):
        return False
