"""The largest memory that work took, as the device or the system itself counts it."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from halftone.measure.giving_back import trim_heap

log = logging.getLogger(__name__)

_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
_FORGET_PEAK: Final = "5"
"""Linux, proc(5): writing 5 sets the peak of the resident size to the present one."""


class PeakMemory:
    """Begins to watch when it is made. device: of which memory."""

    def __init__(self, device: torch.device) -> None:
        self._read: Callable[[int], int | None] = lambda _weights: None
        if device.type not in ("cpu", "mps", "meta"):
            module: Any = torch.get_device_module(device)
            module.reset_peak_memory_stats(device)
            self._read = lambda _weights: int(module.max_memory_allocated(device))
        elif device.type == "cpu" and _forget_peak():
            start = resident()["RssAnon"]
            self._read = lambda weights: weights + _grown(start)

    def read(self, weights: int) -> int | None:
        """Peak bytes since then; None if unknown. weights: bytes that the networks took from the start, not counted on a CPU."""
        return self._read(weights)


def _grown(start: int) -> int:
    """Bytes that the process held at the most beyond `start`. Weights in mapped files are no growth."""
    now = resident()
    return max(0, now["VmHWM"] - now["RssFile"] - now["RssShmem"] - start)


def resident() -> dict[str, int]:
    """This process's memory on Linux: VmHWM (peak), VmRSS, RssAnon, RssFile, RssShmem, in bytes."""
    lines = (line.split() for line in _STATUS.read_text().splitlines() if line.startswith(("VmHWM", "VmRSS", "Rss")))
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}


def _forget_peak() -> bool:
    """Whether the peak can be watched from now on."""
    trim_heap()
    try:
        _CLEAR.write_text(_FORGET_PEAK)
        return {"VmHWM", "RssAnon", "RssFile", "RssShmem"} <= resident().keys()
    except OSError as error:
        log.info("the peak of the memory is not measured: %s", error)
        return False
