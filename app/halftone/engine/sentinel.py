"""The watch over the latents: one fused reduction per step. On a device with its own queue the result is read one step later."""

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Health:
    """Of the latents after one step. flat: all elements equal (peak then is that one value)."""

    step: int
    peak: float
    finite: bool
    flat: bool


def _judge(step: int, low: float, high: float) -> Health:
    finite = -float("inf") < low and high < float("inf")
    return Health(step, max(-low, high), finite, finite and low == high)


class Sentinel:
    """Tell it the latents after each step; it calls `on_health` with what it read.

    On a CPU, and in general wherever nothing is queued, that is at once; on an accelerator one step later, so that the device
    never waits.
    """

    def __init__(self, device: torch.device, on_health: Callable[[Health], None]) -> None:
        self._on_health = on_health
        self._pending: tuple[int, torch.Tensor, torch.Event | None] | None = None
        self._at_once = device.type == "cpu"

    def note(self, step: int, latents: torch.Tensor) -> None:
        low, high = torch.aminmax(latents)
        if self._at_once:
            self._on_health(_judge(step, float(low), float(high)))
            return
        earlier, self._pending = self._pending, self._send(step, torch.stack([low, high]).float())
        if earlier is not None:
            self._read(earlier)

    def settle(self) -> None:
        """Read what is still on its way."""
        earlier, self._pending = self._pending, None
        if earlier is not None:
            self._read(earlier)

    def forget(self) -> None:
        """Drop what is on its way: the loop was left."""
        self._pending = None

    def _send(self, step: int, pair: torch.Tensor) -> tuple[int, torch.Tensor, torch.Event | None]:
        if pair.device.type != "cuda":
            return step, pair, None
        host = torch.empty(2, dtype=pair.dtype, pin_memory=True)
        host.copy_(pair, non_blocking=True)
        event = torch.Event(device=pair.device)
        event.record()
        return step, host, event

    def _read(self, sent: tuple[int, torch.Tensor, torch.Event | None]) -> None:
        step, pair, event = sent
        if event is not None:
            event.synchronize()
        low, high = pair.tolist()
        self._on_health(_judge(step, low, high))
