"""The pictures that ControlNets are given: read, brought to the size of the result, and edges drawn where that is asked for."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from halftone.contract.request import Control
from halftone.contract.wording import Words

_LOW: Final = 100.0
_HIGH: Final = 200.0
"""Thresholds of the gradient, A1111's defaults for Canny, for values from 0 to 255."""
_ALIKE: Final = 0.01
"""Largest difference of two aspects that counts as none."""


def prepared(picture: Image.Image, control: Control, size: tuple[int, int]) -> Image.Image:
    """The control picture as its ControlNet takes it. size: (width, height) of the result; its aspect may change."""
    fitting = picture if picture.size == size else picture.resize(size, Image.Resampling.LANCZOS)
    return Image.fromarray(np.repeat(canny(np.asarray(fitting))[:, :, None], 3, axis=2)) if control.canny else fitting


def resized_notes(given: Sequence[tuple[Control, tuple[int, int]]], size: tuple[int, int]) -> tuple[Words, ...]:
    """Note control pictures of another aspect than the result. given: with their (width, height)."""
    width, height = size
    return tuple(
        Words(
            "The control picture of {0} is {1} × {2} and was stretched to {3} × {4}.",
            (control.name, *map(str, (*own, width, height))),
        )
        for control, own in given
        if abs(own[0] * height / (own[1] * width) - 1) > _ALIKE
    )


def canny(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(height, width, 3) -> (height, width): 255 on the edges, 0 elsewhere.

    J. Canny, A Computational Approach to Edge Detection (1986): Gauss, Sobel, thinning along the gradient, two thresholds.
    """
    grey = picture.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    across, down = _gradients(_smooth(grey))
    strength = np.hypot(across, down)
    thin = _thinned(strength, across, down)
    return (_connected(thin >= _HIGH, thin >= _LOW) * 255).astype(np.uint8)


def _smooth(grey: NDArray[Any]) -> NDArray[Any]:
    """Gauss over 5 × 5, sigma 1.1."""
    weights = np.exp(-0.5 * (np.arange(-2, 3) / 1.1) ** 2)
    weights /= weights.sum()
    wide = np.pad(grey, 2, mode="edge")
    height, width = grey.shape
    rows = np.sum([weight * wide[index : index + height] for index, weight in enumerate(weights)], axis=0)
    return np.sum([weight * rows[:, index : index + width] for index, weight in enumerate(weights)], axis=0)


def _gradients(grey: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sobel, to the right and downwards."""
    wide = np.pad(grey, 1, mode="edge")
    above, middle, below = wide[:-2], wide[1:-1], wide[2:]
    sums = above + 2 * middle + below
    across = sums[:, 2:] - sums[:, :-2]
    steps = below - above
    return across, steps[:, :-2] + 2 * steps[:, 1:-1] + steps[:, 2:]


def _thinned(strength: NDArray[Any], across: NDArray[Any], down: NDArray[Any]) -> NDArray[Any]:
    """0 where a neighbour along the gradient, in one of four directions, is stronger."""
    wide = np.pad(strength, 1)
    height, width = strength.shape

    def beside(rows: int, columns: int) -> NDArray[Any]:
        return wide[1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]

    angle = (np.rad2deg(np.arctan2(down, across)) + 180) % 180
    kept = np.zeros_like(strength)
    for low, high, rows, columns in ((22.5, 67.5, 1, 1), (67.5, 112.5, 1, 0), (112.5, 157.5, 1, -1)):
        along = (angle >= low) & (angle < high)
        kept[along] = ((strength >= beside(rows, columns)) & (strength > beside(-rows, -columns)))[along]
    flat = (angle < 22.5) | (angle >= 157.5)
    kept[flat] = ((strength >= beside(0, 1)) & (strength > beside(0, -1)))[flat]
    return strength * kept


def _connected(strong: NDArray[np.bool_], weak: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Keep weak edges that are connected to a strong one."""
    edges = strong
    while True:
        wide = np.pad(edges, 1)
        height, width = edges.shape
        grown = weak & np.logical_or.reduce(
            [wide[row : row + height, column : column + width] for row in range(3) for column in range(3)]
        )
        if (grown == edges).all():
            return edges
        edges = grown
