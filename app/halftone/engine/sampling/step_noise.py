"""Noise that samplers add in their steps, as other programs draw it.

The SDE samplers of k-diffusion draw theirs from a Brownian motion over sigma: the same seed gives the same path, whatever the
steps. Its numbers are those of torchsde's `BrownianTree` (https://github.com/google-research/torchsde, Apache 2.0). They are
computed here because A1111 draws them as NVIDIA's cards do, for which torchsde has no way but to replace its functions.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from halftone.engine.basics.philox import normal

_DIGITS: Final = 6
"""To so many decimal places a sigma's place in the tree is found."""
_POOL: Final = 24
"""Words of the seeds' entropy."""

Draw = Callable[[int, torch.Size], Tensor]
"""Normal numbers of a seed, in a shape."""


def of_processor(seed: int, shape: torch.Size) -> Tensor:
    return torch.randn(shape, generator=torch.Generator("cpu").manual_seed(seed))


def of_card(seed: int, shape: torch.Size, draw: int = 0) -> Tensor:
    """The numbers of NVIDIA's cards; draw: how many were drawn before with the seed."""
    return torch.from_numpy(normal(seed, draw, shape.numel())).reshape(shape)


class _Part(NamedTuple):
    """A part of the tree. before: the motion from the first sigma to `start`; gone: from there to `end`; key, depth: its place
    among the others.
    """

    start: float
    end: float
    before: Tensor | float
    gone: Tensor
    key: int
    depth: int


class Brownian:
    """A Brownian motion over sigma between two of them, on the processor."""

    def __init__(self, seed: int, shape: torch.Size, low: float, high: float, draw: Draw) -> None:
        self._seed, self._shape, self._draw = seed, shape, draw
        whole = draw(self._word(()), shape) * math.sqrt(high - low)
        self._path = [_Part(round(low, _DIGITS), round(high, _DIGITS), 0.0, whole, 0, 0)]
        """From the whole to the part that was asked for last: the next is near it."""

    def noise(self, sigma: float, after: float) -> Tensor:
        """Return the motion from one sigma down to another, with variance 1."""
        high, low = (float(np.float32(one)) for one in (sigma, after))
        if high == low:
            return torch.zeros(self._shape)
        before = self._until(high)  # asked first: the step before ended there
        return (self._until(low) - before) / math.sqrt(abs(high - low))

    def _word(self, place: tuple[int, ...]) -> int:
        return int(np.random.SeedSequence(self._seed, spawn_key=place, pool_size=_POOL).generate_state(1)[0])

    def _until(self, sigma: float) -> Tensor:
        path, whole = self._path, self._path[0]
        place = min(max(round(sigma, _DIGITS), whole.start), whole.end)
        while len(path) > 1 and (not path[-1].start < place <= path[-1].end or place == path[-2].end):
            path.pop()  # to where the way down from the whole would pass: sums of other parts round in another way
        while place not in (path[-1].start, path[-1].end):
            path.append(self._half(path[-1], place))
        return path[-1].before + path[-1].gone * float(place == path[-1].end)

    def _half(self, part: _Part, place: float) -> _Part:
        """The half of a part with the place."""
        middle = round(0.5 * (part.end + part.start), _DIGITS)
        left, right, share = middle - part.start, part.end - middle, 1 / (part.end - part.start)
        noise = self._draw(self._word((part.key, part.depth)), self._shape)
        first = left * share * part.gone + math.sqrt(left * right * share) * noise
        if place <= middle:
            return _Part(part.start, middle, part.before, first, 2 * part.key, part.depth + 1)
        return _Part(middle, part.end, part.before + first, part.gone - first, 2 * part.key + 1, part.depth + 1)


@lru_cache(maxsize=1)
def brownian(seed: int, shape: torch.Size, low: float, high: float, draw: Draw) -> Brownian:
    """The motion of a picture: the same for all its steps, also where its loop was copied or begins again."""
    return Brownian(seed, shape, float(np.float32(low)), float(np.float32(high)), draw)
