"""What an exception means to the user: an exception in, error facts out."""

import re
import traceback
from typing import Final

import msgspec

from halftone.contract.errors import WORDS, ErrorFacts, HalftoneError

_OUT_OF_MEMORY: Final = re.compile(
    r"out of memory|OUT_OF_(DEVICE|HOST)_MEMORY|can't allocate memory|failed to allocate|CUBLAS_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)
# Errors after which a CUDA or HIP context answers nothing any more (CUDA runtime API, error codes marked as "the process must be
# terminated and relaunched"); others, such as a missing kernel image, leave the device usable.
_DEVICE_LOST: Final = re.compile(
    r"illegal memory access|device-side assert|unspecified launch failure|misaligned address|launch timed out|illegal instruction"
    r"|hardware stack error|ECC error|DEVICE_LOST|STATUS_EXECUTION_FAILED|GPU is lost|driver shutting down",
    re.IGNORECASE,
)


def error_facts(error: BaseException, device: str, log: str) -> ErrorFacts:
    """The facts of any exception.

    device: the device that was asked for; log: where the user finds more. What is not foreseen becomes `internal`, with the
    traceback in `details`.
    """
    if isinstance(error, HalftoneError):
        return _with_log(error.as_facts(), log)
    trace = "".join(traceback.format_exception(error))
    if is_out_of_memory(error):
        return ErrorFacts(code="out-of-memory", facts={"detail": first_line(error)}, details=trace)
    if is_device_lost(error):
        return ErrorFacts(code="device-lost", facts={"device": device, "detail": first_line(error)}, details=trace)
    return ErrorFacts(code="internal", facts={"detail": first_line(error), "log": log}, details=trace)


def is_out_of_memory(error: BaseException) -> bool:
    """True for Python's MemoryError and for what torch raises on each backend (a RuntimeError that says so)."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_OUT_OF_MEMORY.search(str(error))))


def is_device_lost(error: BaseException) -> bool:
    """True when the device answers nothing more to this process, so that only a new process can go on."""
    return isinstance(error, RuntimeError) and not is_out_of_memory(error) and bool(_DEVICE_LOST.search(str(error)))


def first_line(error: BaseException) -> str:
    """The first line of the message without its full stop, or the name of the exception."""
    lines = str(error).strip().splitlines()
    line = lines[0].strip().rstrip(".") if lines else ""
    return line or type(error).__name__


def forget_frames(error: BaseException) -> None:
    """Drop the local variables that a traceback holds: after an out-of-memory they are the tensors that filled the device."""
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__


def _with_log(facts: ErrorFacts, log: str) -> ErrorFacts:
    if "{log}" not in "".join(WORDS[facts.code]) or "log" in facts.facts:
        return facts
    return msgspec.structs.replace(facts, facts={**facts.facts, "log": log})
