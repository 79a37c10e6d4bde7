"""Is a decoded picture a picture? Flat, flat in tiles, merely dark; and how close two pictures are. numpy only."""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FLAT_RANGE: Final = 4
"""Largest minus smallest value of every channel when all pixels lie within 2 of one colour (of 255)."""
TILE_CELLS: Final = 8
"""Edge of a tile in latent cells: 64 pixels where a latent cell covers 8."""
LIVELY: Final = 0.5
"""Latents of a tile are not flat when they vary at least this share of what all latents of the picture vary."""
DARK_LEVEL: Final = 8.0
"""Mean of the brightest channel (of 255) below which a picture is called almost black."""

Pixels = NDArray[np.uint8]


def is_flat(pixels: Pixels) -> bool:
    """All pixels (H, W, 3; 0 to 255) within 2 of one colour, be it black, grey or green. Empty counts as flat."""
    if pixels.size == 0:
        return True
    spread = pixels.max(axis=(0, 1)).astype(int) - pixels.min(axis=(0, 1))
    return bool((spread <= FLAT_RANGE).all())


def flat_tiles(pixels: Pixels, latents: NDArray[Any]) -> list[tuple[int, int]]:
    """(row, column) of every flat tile of the picture (H, W, 3) whose latents (C, h, w) are not flat.

    Tiles are TILE_CELLS latent cells wide; the last ones may be smaller. Latents are compared with their own variation over the
    whole picture, so a clear sky is no finding. Empty when the whole picture fits into one tile and its latents are flat.
    """
    height, width = latents.shape[-2:]
    if pixels.size == 0 or height == 0 or width == 0:
        return []
    values = latents.astype(np.float64)
    whole = _variation(values)
    found: list[tuple[int, int]] = []
    for row in range(0, height, TILE_CELLS):
        for column in range(0, width, TILE_CELLS):
            below, right = min(row + TILE_CELLS, height), min(column + TILE_CELLS, width)
            tile = pixels[
                row * pixels.shape[0] // height : below * pixels.shape[0] // height,
                column * pixels.shape[1] // width : right * pixels.shape[1] // width,
            ]
            if is_flat(tile) and _is_lively(values[..., row:below, column:right], whole):
                found.append((row // TILE_CELLS, column // TILE_CELLS))
    return found


def is_dark(pixels: Pixels) -> bool:
    """Almost black: the brightest channel has a mean below DARK_LEVEL."""
    return pixels.size > 0 and float(pixels.max(axis=-1).mean()) < DARK_LEVEL


def psnr(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Peak signal-to-noise ratio in dB of two pictures of one shape; infinity when they are the same.

    The peak is 255 for uint8 and 1.0 for floating pictures. Raises ValueError when shapes or kinds differ.
    """
    if a.shape != b.shape or (a.dtype == np.uint8) != (b.dtype == np.uint8):
        raise ValueError(f"pictures differ in kind: {a.shape} {a.dtype} and {b.shape} {b.dtype}")
    top = 255.0 if a.dtype == np.uint8 else 1.0
    error = float(np.mean(np.square(a.astype(np.float64) - b.astype(np.float64)))) if a.size else 0.0
    if math.isnan(error):
        return -math.inf
    return math.inf if error == 0 else 20 * math.log10(top) - 10 * math.log10(error)


def _variation(latents: NDArray[np.float64]) -> float:
    """Mean over channels of the standard deviation over positions; nan when not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        return float(latents.reshape(latents.shape[0], -1).std(axis=1).mean())


def _is_lively(tile: NDArray[np.float64], whole: float) -> bool:
    own = _variation(tile)
    return not math.isfinite(own) or not math.isfinite(whole) or own > LIVELY * whole > 0
