"""Lines of the gallery are as wide as the page, and everything in them can be found again."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.gui.gallery.justified import GAP, HEADING, Box, Heading, Justified

ASPECTS = st.sampled_from((0.4, 0.67, 1.0, 1.5, 1.78, 3.2))


def lines_of(grid: Justified) -> list[list[Box]]:
    found: dict[int, list[Box]] = {}
    for one in grid.between(0, grid.height):
        if isinstance(one, Box):
            found.setdefault(one.top, []).append(one)
    return list(found.values())


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    aspects=st.lists(ASPECTS, min_size=45, max_size=45),
    width=st.integers(300, 2000),
    wanted=st.integers(120, 320),
)
def test_every_picture_stands_once_below_its_day(counts: list[int], aspects: list[float], width: int, wanted: int) -> None:
    days = [day for number, count in enumerate(counts) for day in [100 - number] * count]
    grid = Justified(days, aspects[: len(days)], width, wanted)
    found = list(grid.between(0, grid.height))
    assert [one.pictures for one in found if isinstance(one, Heading)] == counts
    assert [one.place for one in found if isinstance(one, Box)] == list(range(len(days)))
    for line in lines_of(grid):
        assert line[0].left == 0
        assert line[-1].left + line[-1].width <= width
        assert all(after.left - before.left - before.width == GAP for before, after in pairwise(line))
        assert line[0].height <= wanted * 1.35 + 1
        for box in line:
            assert grid.at(box.left + box.width // 2, box.top + box.height // 2) == box.place
            assert grid.box(box.place) == box


def test_a_full_line_ends_at_the_edge() -> None:
    grid = Justified([5] * 12, [1.0] * 12, 1000, 180)
    full = lines_of(grid)[0]
    assert full[-1].left + full[-1].width == 1000


def test_a_last_line_keeps_its_height() -> None:
    grid = Justified([5], [1.0], 1000, 180)
    assert lines_of(grid) == [[Box(0, 0, HEADING, 180, 180)]]


@pytest.mark.parametrize(("place", "lines", "reached"), [(0, 1, 5), (7, -1, 2), (2, -1, 0), (11, 1, 11), (6, 1, 11), (0, 9, 11)])
def test_up_and_down_lead_to_the_nearest_picture(place: int, lines: int, reached: int) -> None:
    grid = Justified([5] * 10 + [4] * 2, [1.0] * 12, 5 * 180 + 4 * GAP, 180)
    assert [len(line) for line in lines_of(grid)] == [5, 5, 2]
    assert grid.beside(place, lines) == reached


def test_a_rectangle_touches_pictures() -> None:
    grid = Justified([5] * 10, [1.0] * 10, 5 * 180 + 4 * GAP, 180)
    assert grid.within(170, HEADING + 10, 200, HEADING + 20) == [0, 1]
    assert grid.within(181, HEADING, 187, HEADING + 400) == []


def test_nothing_has_no_height() -> None:
    grid = Justified([], [], 800, 180)
    assert (grid.height, list(grid.between(0, 100)), grid.at(5, 5)) == (0, [], -1)
