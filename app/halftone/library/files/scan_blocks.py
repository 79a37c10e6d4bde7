"""Looks at weights that GGUF packs in blocks, without torch and without unpacking them all.

A block holds small whole numbers and one or two factors in float16. Its numbers are finite where its factors are, and none is
larger than the factors allow; so only the few blocks that could hold the largest number are unpacked.
"""

from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from halftone.library.files.gguf_header import BLOCKS

_SIZES: Final = {name: (numbers, size) for name, numbers, size in BLOCKS.values()}
_LOT: Final = 256
"""Blocks that are unpacked at a time."""

BOUNDS: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "Q4_0": ((0, 8),),
    "Q4_1": ((0, 15), (2, 1)),
    "Q5_0": ((0, 16),),
    "Q5_1": ((0, 31), (2, 1)),
    "Q8_0": ((0, 128),),
    "Q2_K": ((80, 15 * 3), (82, 15)),
    "Q3_K": ((108, 32 * 4),),
    "Q4_K": ((0, 63 * 15), (2, 63)),
    "Q5_K": ((0, 63 * 31), (2, 63)),
    "Q6_K": ((208, 128 * 32),),
    "IQ4_NL": ((0, 127),),
    "IQ4_XS": ((0, 32 * 127),),
}
"""By type: where its float16 factors lie in a block, and the largest whole number that each is multiplied with."""


def whole_blocks(kind: str, most: int) -> int:
    """Bytes of as many whole blocks as go into `most`."""
    size = _SIZES[kind][1] if kind in BOUNDS else 1
    return most // size * size


def tally_blocks(data: NDArray[np.uint8], kind: str) -> tuple[int, float]:
    """(numbers that are not finite, the largest finite magnitude). data: bytes of whole blocks."""
    numbers, size = _SIZES[kind]
    blocks = data.reshape(-1, size)
    bounds = np.zeros(len(blocks), np.float32)
    for place, largest in BOUNDS[kind]:
        factors = np.ascontiguousarray(blocks[:, place : place + 2]).view(np.float16)[:, 0]
        bounds += np.abs(factors.astype(np.float32)) * largest
    bad = ~np.isfinite(bounds)
    bounds[bad] = -1
    return int(bad.sum()) * numbers, _peak(blocks, bounds, kind)


def _peak(blocks: NDArray[np.uint8], bounds: NDArray[np.float32], kind: str) -> float:
    """bounds: what no number of a block passes; below zero for one that is left out."""
    from gguf import GGMLQuantizationType, quants

    found = 0.0
    while (left := np.flatnonzero(bounds > found)).size:
        chosen = left[np.argsort(bounds[left])[-_LOT:]]
        unpacked = cast("Any", quants).dequantize(blocks[chosen], GGMLQuantizationType[kind])
        found = max(found, float(np.abs(unpacked).max()))
        bounds[chosen] = -1
    return found
