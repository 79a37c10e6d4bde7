"""Recognises device errors by their texts; torch has no type for most of them."""

import errno
import re
import traceback
from typing import Final

from halftone.contract.errors import HalftoneError, JobCancelled

_OUT_OF_MEMORY: Final = re.compile(
    r"out of memory|OUT_OF_(DEVICE|HOST)_MEMORY|hipErrorOutOfMemory|(can't|cannot) allocate memory|not enough memory"
    r"|failed to allocate|bad_?alloc|_ALLOC_FAILED|DEVICE_ALLOCATION_FAILED",
    re.IGNORECASE,
)
# Errors after which a CUDA or HIP context answers nothing any more (CUDA runtime API, error codes marked as "the process must be
# terminated and relaunched"); others, such as a missing kernel image, leave the device usable.
_DEVICE_LOST: Final = re.compile(
    r"illegal memory access|device-side assert|unspecified launch failure|misaligned address|launch timed out|illegal instruction"
    r"|hardware stack error|ECC error|DEVICE_LOST|STATUS_EXECUTION_FAILED|GPU is lost|driver shutting down",
    re.IGNORECASE,
)


def is_out_of_memory(error: BaseException) -> bool:
    """True for Python's MemoryError, torch's RuntimeErrors of each backend, and the system's error where a file
    cannot be mapped.
    """
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_OUT_OF_MEMORY.search(str(error))))


def is_device_lost(error: BaseException) -> bool:
    """True when only a new process can use the device again."""
    return isinstance(error, RuntimeError) and not is_out_of_memory(error) and bool(_DEVICE_LOST.search(str(error)))


def ends_the_job(error: BaseException) -> bool:
    """True where another way of running the model would not help: cancelled, no memory, no device, or reported already."""
    return isinstance(error, (HalftoneError, JobCancelled)) or is_out_of_memory(error) or is_device_lost(error)


def forget_frames(error: BaseException) -> None:
    """Drop the local variables of a traceback: after an out-of-memory they are the tensors that filled the device."""
    seen: set[int] = set()  # causes may go in a circle
    here: BaseException | None = error
    while here is not None and id(here) not in seen:
        seen.add(id(here))
        traceback.clear_frames(here.__traceback__)
        here = here.__cause__ or here.__context__


def first_line(error: BaseException) -> str:
    """The first line of the message without its full stop, or the name of the exception."""
    lines = str(error).strip().splitlines()
    line = lines[0].strip().rstrip(".") if lines else ""
    return line or type(error).__name__


def raise_if_lost(error: BaseException, work: str) -> None:
    """Raise a RuntimeError that names the work if the device was lost in it: later measurements would be wrong."""
    if is_device_lost(error):
        raise RuntimeError(f"{work}: {first_line(error)}") from error
