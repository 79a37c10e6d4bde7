"""Staging buffers: weights go to a device through two pieces of pinned memory, on a stream of their own, while it computes.

What they become there is memory of the computing stream, so that it is freed in that stream's order: the copies wait for what was
computed before they were asked for, and what computes with them waits for the copies. Nobody else waits, save for a buffer that
is to be filled again while the copies out of it have not ended. Two hold the two blocks that lie on the device at once; the host
is no further ahead of it than that.
"""

import logging
from typing import Final

import torch

from halftone.health.faults import first_line

log = logging.getLogger(__name__)

_MOST: Final = 3 * 2**28
"""Bytes of one buffer; a larger block passes in several turns. FLUX.1's largest has 0.68 GB in 16 bits."""
_APART: Final = 64
"""Each tensor begins at a multiple of this."""


class Staging:
    """Two buffers of `size` bytes. Raises RuntimeError where the device has no streams or no memory can be pinned."""

    def __init__(self, device: torch.device, size: int) -> None:
        self.size = size
        self.device = device
        self._stream = torch.Stream(device=device)
        self._buffers = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        self._emptied: list[torch.Event | None] = [None, None]
        self._current = 0
        """The buffer that is being filled."""
        self._filled = 0

    def send(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of the host on the device, once the event of `end` is there."""
        there = torch.empty_like(tensor, device=self.device)
        # what was computed with this memory until now comes first
        self._stream.wait_event(torch.accelerator.current_stream(self.device).record_event())
        laid = tensor if tensor.stride() == there.stride() else torch.empty_like(tensor).copy_(tensor)
        size, item = there.numel(), there.itemsize
        start = 0
        while start < size:
            if self.size - self._filled < item:
                self._turn()
            count = min(size - start, (self.size - self._filled) // item)
            end = self._filled + count * item
            staged = self._buffers[self._current][self._filled : end].view(there.dtype)
            staged.copy_(laid.as_strided((count,), (1,), laid.storage_offset() + start))
            with self._stream:
                there.as_strided((count,), (1,), start).copy_(staged, non_blocking=True)
            self._filled = -(-end // _APART) * _APART
            start += count
        return there

    def end(self) -> torch.Event:
        """Return the event that everything was sent."""
        return self._stream.record_event()

    def await_on_device(self, event: torch.Event) -> None:
        """Let what is computed from now on wait for the event."""
        torch.accelerator.current_stream(self.device).wait_event(event)

    def _turn(self) -> None:
        """Switch to the other buffer."""
        self._emptied[self._current] = self._stream.record_event()
        self._current = 1 - self._current
        emptied = self._emptied[self._current]
        if emptied is not None and not emptied.query():
            emptied.synchronize()
        self._filled = 0


def staging(device: torch.device, size: int) -> Staging | None:
    """Buffers for blocks of so many bytes; None where the device has no streams, or there is no memory that can be pinned."""
    try:
        return Staging(device, max(_APART, min(size, _MOST)))
    except (RuntimeError, MemoryError) as error:
        log.info("Weights are copied to %s without pinned memory: %s", device, first_line(error))
        return None
