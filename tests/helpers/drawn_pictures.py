"""Pictures for tests that are the same on every machine: whole numbers alone."""

import numpy as np
from numpy.typing import NDArray


def shapes(width: int, height: int) -> NDArray[np.uint8]:
    """(height, width, 3): coloured rectangles, lines and slopes with hard and soft edges, and some noise."""
    down, across = np.mgrid[0:height, 0:width]
    noise = (across * 7919 + down * 104729 + across * down * 31) % 23
    slope = (across * 255 // max(1, width - 1) + down * 3) % 256
    waves = np.where((across // 9 + down // 13) % 2 == 0, 70, 190)
    picture = np.stack((slope, waves, (slope + 2 * waves) // 3), axis=2) // 2 + 40
    disc = (across - width // 2) ** 2 + (down - height // 2) ** 2 < (min(width, height) // 3) ** 2
    picture[disc] = (230, 60, 20)
    picture[np.abs(across - down) < 2] = (8, 12, 10)
    return (picture + noise[:, :, None]).clip(0, 255).astype(np.uint8)
