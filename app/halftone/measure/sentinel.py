"""The watch over the latents: one fused reduction per step. On a device with its own queue the result is read one step later."""

from dataclasses import dataclass
from typing import Final

import torch


@dataclass(frozen=True)
class Health:
    """Of the latents after one step. flat: all elements equal (peak then is that one value)."""

    step: int
    peak: float
    finite: bool
    flat: bool


_SLOTS: Final = 2
"""Places on the host that results arrive in: the one that is read, and the one that is on its way."""


def _judge(step: int, low: float, high: float) -> Health:
    finite = -float("inf") < low and high < float("inf")
    return Health(step, max(-low, high), finite, finite and low == high)


class Sentinel:
    """Tell it the latents after each step; it answers with what it has read by then.

    On a CPU, and in general wherever nothing is queued, that is the same step; on an accelerator the one before, so that the
    device never waits.
    """

    def __init__(self, device: torch.device) -> None:
        self._pending: tuple[int, torch.Tensor, torch.Event | None] | None = None
        self._at_once = device.type == "cpu"
        self._slots: list[torch.Tensor] = []

    def note(self, step: int, latents: torch.Tensor) -> Health | None:
        """Look at the latents after a step."""
        low, high = torch.aminmax(latents)
        if self._at_once:
            return _judge(step, float(low), float(high))
        earlier, self._pending = self._pending, self._send(step, torch.stack([low, high]).float())
        return None if earlier is None else _read(earlier)

    def settle(self) -> Health | None:
        """What is still on its way."""
        earlier, self._pending = self._pending, None
        return None if earlier is None else _read(earlier)

    def forget(self) -> None:
        """Drop what is on its way: the loop was left."""
        self._pending = None

    def _send(self, step: int, pair: torch.Tensor) -> tuple[int, torch.Tensor, torch.Event | None]:
        if pair.device.type in ("cpu", "mps"):
            return step, pair, None
        if not self._slots:  # once: to ask for such memory may wait for the device
            self._slots = [torch.empty(2, dtype=pair.dtype, pin_memory=True) for _ in range(_SLOTS)]
        host = self._slots[step % _SLOTS]
        host.copy_(pair, non_blocking=True)
        event = torch.Event(device=pair.device)
        event.record(torch.accelerator.current_stream(pair.device))  # of the tensor's device, which need not be the current one
        return step, host, event


def _read(sent: tuple[int, torch.Tensor, torch.Event | None]) -> Health:
    step, pair, event = sent
    if event is not None:
        event.synchronize()
    low, high = pair.tolist()
    return _judge(step, low, high)
