"""By how much a picture is extended when its edges are dragged."""

import pytest

from halftone.session.pictures.outpainting import GRIPS, Grip, Sides, dragged, extended

LEFT, RIGHT, TOP, BOTTOM, CORNER = (-1, 0), (1, 0), (0, -1), (0, 1), (1, 1)


@pytest.mark.parametrize(
    ("sides", "size", "grip", "by", "left"),
    [
        ((0, 0, 0, 0), (512, 512), LEFT, (-100.0, 40.0), (104, 0, 0, 0)),
        ((0, 0, 0, 0), (512, 512), TOP, (30.0, -63.0), (0, 64, 0, 0)),
        ((0, 0, 0, 0), (512, 512), RIGHT, (100.0, 0.0), (0, 0, 104, 0)),
        ((0, 0, 0, 0), (512, 512), BOTTOM, (0.0, 3.0), (0, 0, 0, 0)),
        ((0, 0, 0, 0), (512, 512), CORNER, (65.0, 31.0), (0, 0, 64, 32)),
        ((0, 0, 64, 0), (512, 512), RIGHT, (-200.0, 0.0), (0, 0, 0, 0)),
        ((0, 0, 0, 0), (512, 512), RIGHT, (9999.0, 0.0), (0, 0, 2048, 0)),
        ((0, 0, 0, 0), (1001, 512), RIGHT, (20.0, 0.0), (0, 0, 23, 0)),
        ((0, 0, 0, 0), (1001, 512), RIGHT, (9999.0, 0.0), (0, 0, 2047, 0)),
        ((7, 0, 0, 0), (1001, 512), RIGHT, (8.0, 0.0), (7, 0, 8, 0)),
        ((16, 8, 24, 32), (512, 512), LEFT, (8.0, 0.0), (8, 8, 24, 32)),
    ],
)
def test_dragging_an_edge(sides: Sides, size: tuple[int, int], grip: Grip, by: tuple[float, float], left: Sides) -> None:
    assert dragged(sides, size, grip, by) == left


@pytest.mark.parametrize("grip", GRIPS)
@pytest.mark.parametrize("size", [(512, 512), (1001, 733)])
def test_what_is_dragged_out_ends_at_a_multiple(size: tuple[int, int], grip: Grip) -> None:
    out = extended(size, dragged((0, 0, 0, 0), size, grip, (grip[0] * 91.0, grip[1] * 91.0)))
    assert all(after == before or after % 8 == 0 for after, before in zip(out, size, strict=True))
