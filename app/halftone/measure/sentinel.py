"""The watch over the latents: one fused reduction per step. On a device with its own queue the result is read one step later."""

from dataclasses import dataclass

import torch

from halftone.measure.late import Courier, Parcel


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
    """Tell it the latents after each step; it answers with what it has read by then.

    On a CPU, and in general wherever nothing is queued, that is the same step; on an accelerator the one before, so that the
    device never waits.
    """

    def __init__(self, device: torch.device) -> None:
        self._pending: tuple[int, Parcel] | None = None
        self._at_once = device.type == "cpu"
        self._courier = Courier()

    def note(self, step: int, latents: torch.Tensor) -> Health | None:
        """Look at the latents after a step."""
        low, high = torch.aminmax(latents)
        if self._at_once:
            return _judge(step, float(low), float(high))
        earlier, self._pending = self._pending, (step, self._courier.send(torch.stack([low, high]).float()))
        return None if earlier is None else _read(*earlier)

    def settle(self) -> Health | None:
        """What is still on its way."""
        earlier, self._pending = self._pending, None
        return None if earlier is None else _read(*earlier)

    def forget(self) -> None:
        """Drop what is on its way: the loop was left."""
        self._pending = None


def _read(step: int, sent: Parcel) -> Health:
    low, high = sent.read().tolist()
    return _judge(step, low, high)
