"""Computes by how many pixels a start picture is extended when its edges are dragged."""

from typing import Final

from halftone.contract.limits import OUTPAINT_RANGE, SIZE_MULTIPLE

Sides = tuple[int, int, int, int]
"""Pixels added at the left, top, right and bottom."""
Grip = tuple[int, int]
"""An edge or a corner: -1 for left, 1 for right, 0 for neither; then -1 for top, 1 for bottom."""
GRIPS: Final[tuple[Grip, ...]] = ((-1, -1), (0, -1), (1, -1), (1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0))
"""Clockwise from the top left."""


def dragged(sides: Sides, size: tuple[int, int], grip: Grip, by: tuple[float, float]) -> Sides:
    """Move a grip by so many pixels to the right and down. size: of the picture. The edges of the result snap to multiples."""
    left, top, right, bottom = sides
    (across, down), (width, height) = grip, size
    return (
        _snapped(left - by[0], width + right) if across < 0 else left,
        _snapped(top - by[1], height + bottom) if down < 0 else top,
        _snapped(right + by[0], width + left) if across > 0 else right,
        _snapped(bottom + by[1], height + top) if down > 0 else bottom,
    )


def extended(size: tuple[int, int], sides: Sides) -> tuple[int, int]:
    """(width, height) of a picture with what is added to it."""
    left, top, right, bottom = sides
    return size[0] + left + right, size[1] + top + bottom


def _snapped(side: float, rest: int) -> int:
    """Return the nearest number of pixels with which the whole edge is a multiple. rest: the edge without them."""
    least, most = OUTPAINT_RANGE
    if side < SIZE_MULTIPLE / 2:
        return least
    whole = int((rest + min(side, most)) / SIZE_MULTIPLE + 0.5) * SIZE_MULTIPLE - rest
    return max(least, whole if whole <= most else whole - SIZE_MULTIPLE)
