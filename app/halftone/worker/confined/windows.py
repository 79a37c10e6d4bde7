"""Confines this process on Windows: a job with one process and little memory, no privileges, lowest integrity."""

import ctypes
import sys
from collections.abc import Iterable
from ctypes import byref, wintypes
from typing import Any, Final

from halftone.worker.confined.walls import Wall

_PROCESS_TIME, _ACTIVE_PROCESSES, _PROCESS_MEMORY, _DIE = 0x2, 0x8, 0x100, 0x400
_EXTENDED_LIMITS, _UI_RESTRICTIONS, _ALL_UI = 9, 4, 0xFF
_TOKEN_RIGHTS: Final = 0x20 | 0x8 | 0x80
"""TOKEN_ADJUST_PRIVILEGES, TOKEN_QUERY, TOKEN_ADJUST_DEFAULT."""
_PRIVILEGES, _INTEGRITY, _REMOVED, _GROUP_INTEGRITY = 3, 25, 0x4, 0x20
_UNTRUSTED: Final = "S-1-16-0"


class _Limits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION (winnt.h)."""

    _fields_ = (
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", wintypes.DWORD),
        ("least_working_set", ctypes.c_size_t),
        ("most_working_set", ctypes.c_size_t),
        ("active_processes", wintypes.DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority", wintypes.DWORD),
        ("scheduling", wintypes.DWORD),
        ("counters", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


class _Label(ctypes.Structure):
    """TOKEN_MANDATORY_LABEL."""

    _fields_ = (("sid", ctypes.c_void_p), ("attributes", wintypes.DWORD))


class _Privilege(ctypes.Structure):
    """LUID_AND_ATTRIBUTES."""

    _fields_ = (("low", wintypes.DWORD), ("high", wintypes.LONG), ("attributes", wintypes.DWORD))


def confine(keep: Iterable[int], memory: int, largest: int, seconds: int) -> frozenset[Wall]:  # noqa: ARG001
    """Give up what this process may do, as `linux.confine`. Windows lets a process neither cut itself off the network nor stop
    reading files.
    """
    walls = set[Wall]()
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        kernel.CreateJobObjectW.restype = wintypes.HANDLE
        own = wintypes.HANDLE(kernel.GetCurrentProcess())
        if _has_job(kernel, own, memory, seconds):
            walls.add("memory")
        if _has_no_rights(kernel, ctypes.WinDLL("advapi32", use_last_error=True), own):
            walls.add("writing")
    if len(walls) == 2:
        walls.add("processes")
    return frozenset(walls)


def _has_job(kernel: Any, own: wintypes.HANDLE, memory: int, seconds: int) -> bool:
    """Whether the process is in a job of its own: it leaves no job, and this one ends with it."""
    import psutil

    job = wintypes.HANDLE(kernel.CreateJobObjectW(None, None))
    if not job:
        return False
    limits = _Limits(
        process_time=seconds * 10**7,  # in units of 100 ns
        flags=_PROCESS_TIME | _ACTIVE_PROCESSES | _PROCESS_MEMORY | _DIE,
        active_processes=1,
        process_memory=psutil.Process().memory_info().vms + memory,
    )
    interface = wintypes.DWORD(_ALL_UI)
    done = (
        kernel.SetInformationJobObject(job, _EXTENDED_LIMITS, byref(limits), ctypes.sizeof(limits))
        and kernel.SetInformationJobObject(job, _UI_RESTRICTIONS, byref(interface), ctypes.sizeof(interface))
        and kernel.AssignProcessToJobObject(job, own)
    )
    kernel.CloseHandle(job)
    return bool(done)


def _has_no_rights(kernel: Any, rights: Any, own: wintypes.HANDLE) -> bool:
    """Whether the process has lost its privileges, and may change nothing that is not for the least trusted."""
    token = wintypes.HANDLE()
    if not rights.OpenProcessToken(own, _TOKEN_RIGHTS, byref(token)):
        return False
    sid = ctypes.c_void_p()
    done = (
        _remove_privileges(rights, token)
        and rights.ConvertStringSidToSidW(ctypes.c_wchar_p(_UNTRUSTED), byref(sid))
        and rights.SetTokenInformation(token, _INTEGRITY, byref(_Label(sid, _GROUP_INTEGRITY)), ctypes.sizeof(_Label))
    )
    kernel.CloseHandle(token)
    return bool(done)


def _remove_privileges(rights: Any, token: wintypes.HANDLE) -> bool:
    size = wintypes.DWORD()
    rights.GetTokenInformation(token, _PRIVILEGES, None, 0, byref(size))
    held = ctypes.create_string_buffer(size.value)
    if not rights.GetTokenInformation(token, _PRIVILEGES, held, size, byref(size)):
        return False
    count = wintypes.DWORD.from_buffer(held).value
    for one in (_Privilege * count).from_buffer(held, ctypes.sizeof(wintypes.DWORD)):
        one.attributes = _REMOVED
    return bool(rights.AdjustTokenPrivileges(token, False, held, 0, None, None))
