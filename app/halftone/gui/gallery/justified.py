"""Where each picture of the grid stands: lines as wide as the page, each day below its heading.

Only lines are kept, three numbers each; the pictures of a line follow from them. A hundred thousand pictures take one pass.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

GAP: Final = 8
HEADING: Final = 40
_LOOSEST: Final = 1.35
"""A line is at most so much higher than wanted: a last one that is not full keeps its height, and ends before the edge."""


class Box(NamedTuple):
    """A picture's place, in whole pixels from the top left of the grid."""

    place: int
    left: int
    top: int
    width: int
    height: int


class Heading(NamedTuple):
    """A day, by its first picture, with how many there are."""

    place: int
    pictures: int
    top: int


class Justified:
    """Lines of pictures of these days and aspects (width / height), about as high as wanted."""

    def __init__(self, days: Sequence[int], aspects: Sequence[float], width: int, wanted: int, heading: int = HEADING) -> None:
        self._aspects, self._width, self._wanted, self.heading = aspects, max(1, width), wanted, heading
        self._count = len(days)
        self._tops = array("l")
        self._firsts = array("l")
        self._heights = array("l")
        """0 for a heading."""
        self.height = 0
        first = 0
        while first < self._count:
            end = _end_of_day(days, first, self._count)
            self._line(first, 0, heading)
            self._fill(first, end)
            first = end

    def _line(self, first: int, height: int, step: int) -> None:
        self._tops.append(self.height)
        self._firsts.append(first)
        self._heights.append(height)
        self.height += step

    def _fill(self, first: int, end: int) -> None:
        """The lines of one day: a picture begins the next line where that comes nearer to the wanted height."""
        aspects, width, wanted = self._aspects, self._width, self._wanted
        total, before = 0.0, float("inf")
        place = first
        while place < end:
            wide = total + aspects[place]
            high = (width - GAP * (place - first)) / wide
            if high > wanted:
                total, before = wide, high
                place += 1
                continue
            if place > first and before - wanted < wanted - high and before <= wanted * _LOOSEST:
                high = before
            else:
                place += 1
            self._line(first, int(high), int(high) + GAP)
            first, total, before = place, 0.0, float("inf")
        if first < end:
            high = int(min(before, wanted))
            self._line(first, high, high + GAP)

    # --- what is where ----------------------------------------------------------------------------------------------

    def between(self, top: int, bottom: int) -> Iterator[Heading | Box]:
        """Headings and pictures that stand between two heights."""
        line = max(0, bisect_right(self._tops, top) - 1)
        while line < len(self._tops) and self._tops[line] < bottom:
            if self._heights[line]:
                yield from self.boxes(line)
            else:
                yield self._heading(line)
            line += 1

    def boxes(self, line: int) -> list[Box]:
        """The pictures of a line. A full one ends exactly at the edge."""
        first, end = self._firsts[line], self._end(line)
        top, height = self._tops[line], self._heights[line]
        total = sum(self._aspects[first:end])
        free = self._width - GAP * (end - first - 1)
        full = total * (height + 1) >= free - 1
        scale = free / total if full else float(height)
        found: list[Box] = []
        at = 0.0
        for place in range(first, end):
            left = round(at) + GAP * (place - first)
            at += self._aspects[place] * scale
            found.append(Box(place, left, top, round(at) + GAP * (place - first) - left, height))
        return found

    def _heading(self, line: int) -> Heading:
        after = line + 1
        while after < len(self._tops) and self._heights[after]:
            after += 1
        return Heading(self._firsts[line], self._end(after - 1) - self._firsts[line], self._tops[line])

    def _end(self, line: int) -> int:
        return self._firsts[line + 1] if line + 1 < len(self._firsts) else self._count

    def has_pictures(self, line: int) -> bool:
        """Whether it is no heading."""
        return bool(self._heights[line])

    def line_of(self, place: int) -> int:
        """The line of a picture; a heading has the same first picture as the line below it."""
        return bisect_right(self._firsts, place) - 1

    def box(self, place: int) -> Box:
        line = self.line_of(place)
        return self.boxes(line)[place - self._firsts[line]]

    def at(self, x: int, y: int) -> int:
        """The picture at a point, -1 for none."""
        for found in self.between(y, y + 1):
            if isinstance(found, Box) and found.left <= x < found.left + found.width and y < found.top + found.height:
                return found.place
        return -1

    def within(self, left: int, top: int, right: int, bottom: int) -> list[int]:
        """The pictures that a rectangle touches."""
        return [
            found.place
            for found in self.between(top, bottom)
            if isinstance(found, Box)
            and found.left < right
            and found.left + found.width > left
            and found.top + found.height > top
        ]

    def beside(self, place: int, lines: int) -> int:
        """The picture so many lines below (or above, for a negative number) that stands nearest; the last or first at the end."""
        from_box, line = self.box(place), self.line_of(place)
        middle, step = from_box.left + from_box.width / 2, 1 if lines > 0 else -1
        for _ in range(abs(lines)):
            line += step
            while 0 <= line < len(self._tops) and not self._heights[line]:
                line += step
            if not 0 <= line < len(self._tops):
                return self._count - 1 if step > 0 else 0
        return min(self.boxes(line), key=lambda box: abs(box.left + box.width / 2 - middle)).place


def _end_of_day(days: Sequence[int], first: int, count: int) -> int:
    """The place behind the last picture of a day: days fall, so this is a search by halves."""
    day, low, high = days[first], first, count
    while low < high:
        middle = (low + high) // 2
        if days[middle] == day:
            low = middle + 1
        else:
            high = middle
    return low
