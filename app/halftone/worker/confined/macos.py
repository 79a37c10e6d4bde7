"""Confines this process on macOS by a sandbox profile that denies everything but its own signals (sandbox_init)."""

import ctypes
from collections.abc import Iterable
from typing import Final

from halftone.worker.confined.walls import ALL, Wall

_PROFILE: Final = b"(version 1)(deny default)(allow signal (target self))"


def confine(keep: Iterable[int], memory: int, largest: int, seconds: int) -> frozenset[Wall]:  # noqa: ARG001
    """Give up what this process may do, as `linux.confine`. The system limits no memory, and open files stay as they are."""
    import resource

    for limit, value in ((resource.RLIMIT_FSIZE, largest), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (value, value))
    try:
        begin = ctypes.CDLL("/usr/lib/libsandbox.1.dylib").sandbox_init
    except (OSError, AttributeError):
        return frozenset()
    begin.argtypes = (ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_char_p))
    said = ctypes.c_char_p()
    return ALL - {"memory"} if begin(_PROFILE, 0, ctypes.byref(said)) == 0 else frozenset()
