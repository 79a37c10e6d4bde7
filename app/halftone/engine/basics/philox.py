"""Normal numbers as NVIDIA's cards draw them in torch, computed on the processor: Philox 4x32-10 (Salmon et al. 2011,
https://doi.org/10.1145/2063384.2063405) in the order of cuRAND, and the Box-Muller transform.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_MULTIPLIERS: Final = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_ROUNDS: Final = 10
_WORD: Final = 32
_MASK: Final = 2**_WORD - 1
_BLOCK: Final = 2**13
"""Numbers computed at a time, which a core's cache holds with all that becomes of them: twice as fast as all at once."""
_SCALE: Final = float(np.float32(2.3283064e-10))
_TURN: Final = float(np.float32(2.3283064e-10 * 6.2831855))
"""2^-32, and the same of a full turn, as cuRAND has them in float32."""


def normal(seed: int, draw: int, count: int) -> NDArray[np.float32]:
    """So many numbers of the generator's draw number `draw`, counted from 0."""
    result = np.empty(count, np.float32)
    for start in range(0, count, _BLOCK):
        first, second = _words(seed, draw, np.arange(start, min(start + _BLOCK, count), dtype=np.uint64))
        radius = np.sqrt(-2.0 * np.log(first * _SCALE + _SCALE / 2))
        result[start : start + _BLOCK] = radius * np.sin(second * _TURN + _TURN / 2)
    return result


def _words(seed: int, draw: int, near: NDArray[np.uint64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first two of four words for each number. near: which numbers of the draw."""
    low, high, far = np.full(near.shape, draw, np.uint64), np.zeros_like(near), np.zeros_like(near)
    keys = seed & _MASK, seed >> _WORD & _MASK
    for _ in range(_ROUNDS):
        one, other = low * _MULTIPLIERS[0], near * _MULTIPLIERS[1]
        low, high, near, far = (
            (other >> np.uint64(_WORD)) ^ high ^ np.uint64(keys[0]),
            other & np.uint64(_MASK),
            (one >> np.uint64(_WORD)) ^ far ^ np.uint64(keys[1]),
            one & np.uint64(_MASK),
        )
        keys = (keys[0] + _STEPS[0]) & _MASK, (keys[1] + _STEPS[1]) & _MASK
    return low.astype(np.float64), high.astype(np.float64)
