"""The watch over the latents: one fused reduction per step. On a device with its own queue the result is read one step later."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from halftone.measure.late import Courier, Parcel
from halftone.measure.stats import ceiling


@dataclass(frozen=True)
class Health:
    """The latents after one step. finite: False also where they, or the denoiser's result, reach the limit of a narrow type (see
    `ceiling`). flat: all elements equal (peak then is that one value).
    """

    step: int
    peak: float
    finite: bool
    flat: bool


class _Tops(NamedTuple):
    """Magnitudes that sound numbers stay below: of the latents, and of what the denoiser gave."""

    latents: float
    made: float


def _judge(step: int, found: Sequence[float], tops: _Tops) -> Health:
    """found: smallest and largest number of the latents, then of what the denoiser gave."""
    low, high, made_low, made_high = found
    finite = -tops.latents < low and high < tops.latents
    clipped = made_low == -tops.made or made_high == tops.made
    return Health(step, max(-low, high), finite and not clipped, finite and low == high)


class Sentinel:
    """Reads the latents after each step and answers with what is known by then.

    On a CPU, and wherever nothing is queued, that is the same step; on an accelerator the one before, so that the device never
    waits.
    """

    def __init__(self, device: torch.device) -> None:
        self._pending: _Sent | None = None
        self._at_once = device.type == "cpu"
        self._courier = Courier()
        self._made: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._made_top = math.inf

    def see(self, made: torch.Tensor) -> None:
        """Look at the denoiser's result in this step. Where a device clips, an overflow of its last layer shows here: a sampler
        takes a share of it, so the latents need not come near the limit. A wide type is skipped.
        """
        if (top := ceiling(made.dtype)) < math.inf:
            self._made.append(torch.aminmax(made))
            self._made_top = top

    def note(self, step: int, latents: torch.Tensor) -> Health | None:
        """Look at the latents after a step."""
        own = [number.float() for number in torch.aminmax(latents)]
        pairs = torch.stack([*own, *self._extremes(latents.device)])
        tops = _Tops(ceiling(latents.dtype), self._made_top)
        self._clear()
        if self._at_once:
            return _judge(step, pairs.tolist(), tops)
        earlier, self._pending = self._pending, _Sent(step, self._courier.send(pairs), tops)
        return None if earlier is None else _read(earlier)

    def settle(self) -> Health | None:
        """What is still on its way."""
        earlier, self._pending = self._pending, None
        return None if earlier is None else _read(earlier)

    def forget(self) -> None:
        """Drop what is on its way: the loop was left."""
        self._pending = None
        self._clear()

    def _clear(self) -> None:
        self._made.clear()
        self._made_top = math.inf

    def _extremes(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """The smallest and the largest number that the denoiser gave there; two zeros where nothing was seen."""
        pairs = [(low.float(), high.float()) for low, high in self._made if low.device == device]
        if not pairs:
            return torch.zeros((), device=device), torch.zeros((), device=device)
        lows, highs = zip(*pairs, strict=True)
        return torch.stack(lows).amin(), torch.stack(highs).amax()


class _Sent(NamedTuple):
    """What is on its way to the host: smallest and largest numbers, and what they must stay below."""

    step: int
    pairs: Parcel
    tops: _Tops


def _read(sent: _Sent) -> Health:
    return _judge(sent.step, sent.pairs.read().tolist(), sent.tops)
