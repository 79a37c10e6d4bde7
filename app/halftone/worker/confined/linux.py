"""Confines this process on Linux: seccomp leaves the calls that compute, read and write open files; Landlock closes the rest."""

import ctypes
import os
import platform
import signal
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from halftone.worker.confined.walls import ALL, Wall

_SET_NO_NEW_PRIVS: Final = 38
_SET_PDEATHSIG: Final = 1
_SET_SECCOMP: Final = 22
_FILTER: Final = 2

# --- seccomp (kernel: include/uapi/linux/seccomp.h, bpf_common.h) ---------------------------------------------------------------

_KILL: Final = 0x80000000
_DENY: Final = 0x00050000 | 1  # EPERM
_ALLOW: Final = 0x7FFF0000
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_ARCHES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_CALLS: Final[dict[str, tuple[int, int]]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "dup": (32, 23),
    "getpid": (39, 172),
    "exit": (60, 93),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "gettid": (186, 178),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "clock_gettime": (228, 113),
    "exit_group": (231, 94),
    "sigaltstack": (131, 132),
    "getrandom": (318, 278),
}
"""Name -> number on x86_64 and on aarch64 (asm/unistd_64.h, asm-generic/unistd.h). Whatever is not here fails:
newfstatat too, as no filter sees whether it is given a path beside the descriptor.
"""
_PLAIN_MEMORY: Final[dict[str, tuple[int, int]]] = {"mmap": (9, 222), "mprotect": (10, 226)}
"""Calls that may not make memory executable."""
_PROT_EXEC: Final = 4
_FCNTL: Final = (72, 25)
_FCNTLS: Final = (1, 3, 1030)
"""F_GETFD, F_GETFL, F_DUPFD_CLOEXEC. Others can send signals."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def _argument(number: int) -> int:
    return _ARGUMENTS_AT + 8 * number  # the lower half: both machines are little-endian


def _program(arch: int, column: int) -> bytes:
    """The filter: every call fails, but those listed."""
    steps = [_step(_LOAD, _ARCH_AT), _step(_EQUAL, arch, 1, 0), _step(_RETURN, _KILL), _step(_LOAD, _NUMBER_AT)]
    for numbers in _CALLS.values():
        steps += [_step(_EQUAL, numbers[column], 0, 1), _step(_RETURN, _ALLOW)]
    for numbers in _PLAIN_MEMORY.values():
        steps += [_step(_EQUAL, numbers[column], 0, 4), _step(_LOAD, _argument(2))]
        steps += [_step(_ANY_BIT, _PROT_EXEC, 1, 0), _step(_RETURN, _ALLOW), _step(_RETURN, _DENY)]
    steps += [_step(_EQUAL, _FCNTL[column], 0, len(_FCNTLS) * 2 + 2), _step(_LOAD, _argument(1))]
    for command in _FCNTLS:
        steps += [_step(_EQUAL, command, 0, 1), _step(_RETURN, _ALLOW)]
    return b"".join((*steps, _step(_RETURN, _DENY), _step(_RETURN, _DENY)))


def _filter_calls() -> bool:
    """Install the filter. False where the machine or the kernel has none."""
    if platform.machine() not in _ARCHES or struct.calcsize("P") != 8:
        return False
    steps = _program(*_ARCHES[platform.machine()])
    held = ctypes.create_string_buffer(steps, len(steps))
    program = _Program(len(steps) // 8, ctypes.cast(held, ctypes.c_void_p).value)
    return _libc().prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0


# --- Landlock (kernel: include/uapi/linux/landlock.h) ---------------------------------------------------------------------------

_CREATE_RULESET: Final = 444
_RESTRICT_SELF: Final = 446
_VERSION: Final = 1
_FILE_RIGHTS: Final = (0, 13, 14, 15, 15, 16)
"""How many rights over files each version knows."""


def _close_files() -> bool:
    """Give up every right over files, and what else Landlock knows. False where the kernel has none."""
    version = _libc().syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < 1:
        return False
    files = (1 << _FILE_RIGHTS[min(version, len(_FILE_RIGHTS) - 1)]) - 1
    rules = struct.pack("<QQQ", files, 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _libc().syscall(_CREATE_RULESET, rules, size, 0)
    done = ruleset >= 0 and _libc().syscall(_RESTRICT_SELF, ruleset, 0) == 0
    if ruleset >= 0:
        os.close(ruleset)
    return done


# --- all of it ------------------------------------------------------------------------------------------------------------------


def confine(keep: Iterable[int], memory: int, largest: int, seconds: int) -> frozenset[Wall]:
    """Give up what this process may do. It must have one thread. Returns the walls that stand.

    keep: open files that stay; memory: bytes beside those in use; largest: of the file that it writes, in bytes; seconds: of
    processor time.
    """
    import resource

    _libc().prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _close_others(sorted(keep))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for limit, value in (
        (resource.RLIMIT_AS, used + memory),
        (resource.RLIMIT_FSIZE, largest),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (least, least))
    alone = len(os.listdir("/proc/self/task")) == 1
    walls: set[Wall] = {"memory"}
    if alone and _libc().prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        if _close_files():
            walls |= {"writing", "reading"}
        if _filter_calls():
            walls |= ALL
    return frozenset(walls)


def _close_others(keep: list[int]) -> None:
    first = 0
    for one in (*keep, os.sysconf("SC_OPEN_MAX")):
        if first < one:  # an empty range would close everything
            os.closerange(first, one)
        first = one + 1
