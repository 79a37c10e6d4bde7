"""The numbers before the first bad one: tracks and happenings in, signs out. Pure."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from halftone.health.doctor.found import Bad, Sign, SignCode, Where
from halftone.library.run_logs.folder import Run
from halftone.library.run_logs.series import Happening, HappeningKind, Point, Quantity, Track

NEAR: Final = 3
"""Steps within which one thing comes right after another."""
_FEW: Final = 5
_MANY: Final = 20
_WINDOW: Final = 200
_AHEAD: Final = 12
"""Numbers in a log within which the processes that write it come level again."""
_IN_EACH_ROW: Final = 0.9
"""Share of the training's rows from which a validation column is in each row."""
_UNFILLED: Final = 50
"""Rows from which an empty column is one that no validation has filled yet."""
_LASTING: Final = 3
"""Bad norms in a row at the end that no search for the loss scale explains."""
_RISEN: Final = 2.0
_RISEN_MEAN: Final = 1.3
_JUMPED: Final = 5.0
_SPIKE: Final = 10.0
_EXPLODED: Final = 10.0
_STEEP: Final = 1.5
"""Times the number before, for each number of an explosion."""
_UNSETTLED: Final = 3
"""Last numbers with the peak of an explosion: it may fall back once more."""
_FALLEN: Final = 16.0
_FLOOR: Final = 1.0


def where(track: Track, point: Point) -> Where:
    return Where(track.file, point.line, point.step, track.counted)


def first_bad(tracks: Iterable[Track]) -> Bad | None:
    """The earliest number that is not finite, of the loss before others at the same step. A norm counts where it stays bad: while
    the loss scale is searched, single norms are infinite in every sound run.
    """
    found = [bad for track in tracks if track.quantity in _ORDER and not track.by_epoch and (bad := _bad_in(track))]
    found = found or [bad for track in tracks if track.quantity == "loss" and (bad := _bad_in(track))]
    return min(found, key=lambda bad: (bad.point.step, _ORDER.index(bad.track.quantity), bad.track.averaged), default=None)


_ORDER: Final[tuple[Quantity, ...]] = ("loss", "gradient", "rate")


def failed_validation(track: Track, trained: Track | None) -> Point | None:
    """The first validation with a number that is not finite.

    trained: the training loss of the same file. A column in nearly each of its rows is filled with NaN where no validation ran,
    so only those NaN count where the rhythm of the finite ones needs a number.
    """
    if trained is None or len(track) < _IN_EACH_ROW * len(trained):
        index = _first(track)
    else:
        index = _off_rhythm([math.isfinite(value) for value in track.values])
    return None if index is None else track[index]


def _off_rhythm(finite: Sequence[bool]) -> int | None:
    """The first row without a number where one was due; None where every gap is as long as others."""
    rows = [row for row, there in enumerate(finite) if there]
    if not rows:
        return 0 if 0 < len(finite) < _UNFILLED else None
    if 2 * len(rows) > len(finite):  # most rows have one, so that the others lack theirs
        return next((row for row, there in enumerate(finite) if not there), None)
    longest = max((later - earlier for earlier, later in pairwise([-1, *rows])), default=1)
    due = rows[-1] + longest
    return due if len(rows) > 1 and due < len(finite) else None


def _bad_in(track: Track) -> Bad | None:
    index = _lasting(track) if track.quantity == "gradient" else _first(track)
    return None if index is None else Bad(track, index, _since(track, index))


def _first(track: Track) -> int | None:
    return next((index for index, value in enumerate(track.values) if not math.isfinite(value)), None)


def _lasting(track: Track) -> int | None:
    """Where the bad values begin that last to the end."""
    index = len(track)
    while index and not math.isfinite(track.values[index - 1]):
        index -= 1
    if len(track) - index >= _LASTING or (index == 0 and track.steps and track.steps[-1] >= _MANY):
        return index
    return None


def _since(track: Track, index: int) -> int:
    """Where the steps begin that lead to this one without starting anew."""
    while index and not begins_anew(track, index):
        index -= 1
    return index


def begins_anew(track: Track, index: int) -> bool:
    """Whether a run begins again at this number: its step goes back, and stays behind. Parallel processes only alternate."""
    last = track.steps[index - 1]
    return track.steps[index] < last and max(track.steps[index : index + _AHEAD]) < last


def mates(run: Run, track: Track, quantity: Quantity) -> list[Track]:
    """Tracks of a quantity of the same run: of the same file, else of the same folder, else of all."""
    known = [one for one in run.tracks if one.quantity == quantity]
    folder = track.file.rpartition("/")[0]
    same = [one for one in known if one.file == track.file]
    return same or [one for one in known if one.file.rpartition("/")[0] == folder] or known


def before(track: Track, bad: Bad) -> list[Point]:
    """Finite numbers up to the bad one: in its own track those before it, in others those up to its step."""
    if track is bad.track:
        return track.finite(bad.since, bad.place)
    end = _end_at(track, bad.point.step - (track.quantity == "loss"))
    return track.finite(_since(track, end - 1) if end else 0, end)


def _end_at(track: Track, step: int) -> int:
    """The index after the last number up to a step."""
    end = len(track)
    while end and track.steps[end - 1] > step:
        end -= 1
    return end


def loss_signs(track: Track, bad: Bad) -> Iterator[Sign]:
    """track: the loss, mostly the one that went bad."""
    points = before(track, bad)
    step = bad.point.step
    if not points:
        told: SignCode = "first-step" if step <= 2 else "first-logged"
        yield Sign(code=told, where=where(bad.track, bad.point), values=(step,))
        return
    last = points[-1]
    if len(points) == 1 and last.step <= 1:
        yield Sign(code="second-step", where=where(track, last), values=(last.value, step))
    if len(points) >= _MANY:
        yield Sign(code="finite-then", where=where(track, last), values=(len(points), last.step, last.value))
    values = [point.value for point in points]
    exploded, risen, jumped = explosion(points), _rise(points, _RISEN_MEAN if track.averaged else _RISEN), _jump(values)
    if exploded:
        usual, begun, peak = exploded
        leaps = (usual, begun.step, begun.value, peak.step, peak.value)
        yield Sign(code="loss-exploding", where=where(track, begun), values=leaps)
    if risen:
        lowest, peak = risen
        yield Sign(code="loss-rising", where=where(track, peak), values=(lowest, peak.value, peak.step))
    elif exploded:
        return
    elif jumped:
        yield Sign(code="loss-jump", where=where(track, last), values=jumped)
    elif len(points) >= _MANY:
        yield Sign(code="steady", where=where(track, last), values=(median(values[-_FEW:]), median(values[-_WINDOW:])))


def explosion(points: Sequence[Point]) -> tuple[float, Point, Point] | None:
    """(usual level, first point above it, highest point) where the last few numbers leap up one over the other."""
    if len(points) < 2:
        return None
    top = max(range(max(1, len(points) - _UNSETTLED), len(points)), key=lambda at: points[at].value)
    begun = top
    while begun > 1 and points[begun - 1].value >= _STEEP * points[begun - 2].value:
        begun -= 1
    earlier = [point.value for point in points[max(0, begun - _WINDOW) : begun]]
    usual, peak = median(earlier[-_MANY:]), points[top].value
    leaps = points[begun].value >= _STEEP * points[begun - 1].value
    far = usual > 0 and peak >= _EXPLODED * usual and peak >= _RISEN * max(earlier)
    return (usual, points[begun], points[top]) if leaps and far else None


def _rise(points: Sequence[Point], clearly: float) -> tuple[float, Point] | None:
    """(lowest level of medians, highest point since), where the level at the end is `clearly` times the lowest."""
    if len(points) < 2 * _FEW:
        return None
    size = max(_FEW, len(points) // 10)
    begins = range(0, len(points) - size + 1, size)
    levels = [median(point.value for point in points[at : at + size]) for at in begins]
    lowest, last = min(levels), median(point.value for point in points[-size:])
    if lowest <= 0 or last < clearly * lowest:
        return None
    return lowest, max(points[begins[levels.index(lowest)] :], key=lambda point: point.value)


def _jump(values: Sequence[float]) -> tuple[float, float] | None:
    """(usual, last) where one of the last two is far above those before."""
    if len(values) < _FEW + 2:
        return None
    usual, last = median(values[-_MANY - 2 : -2]), max(values[-2:])
    highest = max(values[-_WINDOW:-2])
    return (usual, last) if usual > 0 and last >= _JUMPED * usual and last > highest else None


def gradient_signs(tracks: Sequence[Track], bad: Bad) -> Iterator[Sign]:
    """The norm before the bad number: it leapt, rose, was bad before the loss, or was as usual."""
    for track in tracks:
        early = _bad_before(track, bad)
        if early is not None:
            yield Sign(code="gradient-first", where=where(track, early), values=(early.step, early.value))
        points = before(track, bad)
        if len(points) < 2 * _FEW:
            continue
        usual = median(point.value for point in points[-_WINDOW:])
        peak = max(points[-2 * _FEW :], key=lambda point: point.value)
        risen = _rise(points, _RISEN)
        near = [point.value for point in points[-3 * _FEW : -2 * _FEW]]
        gradual = bool(near) and peak.value < _SPIKE * median(near)
        if usual > 0 and peak.value >= _SPIKE * usual and not (risen and gradual):
            yield Sign(code="gradient-spike", where=where(track, peak), values=(peak.value, peak.step, usual))
        elif risen:
            lowest, highest = risen
            yield Sign(code="gradient-rising", where=where(track, highest), values=(lowest, highest.value, highest.step))
        elif early is None:
            yield Sign(code="gradient-steady", where=where(track, points[-1]), values=(usual, points[-1].value))
        return


def _bad_before(track: Track, bad: Bad) -> Point | None:
    """The first of the bad norms that lead to the bad loss without a good one between."""
    if track is bad.track:
        return bad.point
    step = bad.point.step
    index = end = _end_at(track, step)
    while index and not math.isfinite(track.values[index - 1]):
        index -= 1
    return track[index] if index < end and track.steps[index] < step else None


def scale_signs(tracks: Sequence[Track], bad: Bad | None) -> Iterator[Sign]:
    """Signs of the loss scale up to the bad number, or to the end of a run without one."""
    for track in tracks:
        points = before(track, bad) if bad else track.finite()
        if len(points) < 2:
            continue
        last = points[-1]
        peak = max(points[-_WINDOW:], key=lambda point: point.value)
        if last.value < peak.value and last.value <= _FLOOR and peak.value / max(last.value, 1e-300) >= 2**10:
            least = min(point.value for point in points)
            stays = len(points) > _LASTING and all(point.value == least for point in points[-_LASTING:])
            told: SignCode = "scale-floor" if stays else "scale-gone"
            yield Sign(code=told, where=where(track, last), values=(peak.value, peak.step, last.value, last.step))
        elif last.value > 0 and peak.value / last.value >= _FALLEN and peak.step < last.step:
            yield Sign(code="scale-falling", where=where(track, last), values=(peak.value, peak.step, last.value, last.step))
        elif last.value >= 2.0**32:
            yield Sign(code="scale-growing", where=where(track, last), values=(points[0].value, last.value))
        return


def happening_signs(happenings: Sequence[Happening], bad: Bad) -> Iterator[Sign]:
    """What was done right before the bad number."""
    previous = bad.track[bad.place - 1] if bad.place > bad.since else None
    for kind, code in _AFTER:
        same = [one for one in happenings if one.kind == kind]
        last = next((one for one in reversed(same) if _right_before(one, bad, previous)), None)
        if last is None:
            continue
        earlier = sum(1 for one in same if one.step is not None and last.step is not None and one.step < last.step)
        told: SignCode = "after-validation-again" if kind == "validation" and earlier else code
        yield Sign(code=told, where=Where(last.file, last.line, last.step), values=(last.words, earlier))


_AFTER: Final[tuple[tuple[HappeningKind, SignCode], ...]] = (
    ("resume", "after-resume"),
    ("validation", "after-validation"),
    ("checkpoint", "after-checkpoint"),
)


def _right_before(one: Happening, bad: Bad, previous: Point | None) -> bool:
    """Whether something happened at most NEAR steps before, in the same file after the last good number or so."""
    step = bad.point.step
    if one.file == bad.track.file:
        if one.seat > bad.point.seat:
            return False
        since = one.step if one.step is not None else (previous.step if previous and previous.seat <= one.seat else None)
        if since is None or since > step:
            return one.kind == "resume" and bad.place - bad.since <= NEAR
        few = bad.place - bisect_right(bad.track.seats, one.seat) <= NEAR
        return step - since <= NEAR or (one.kind == "resume" and few)
    return one.step is not None and 0 <= step - one.step <= NEAR


def rate_signs(tracks: Sequence[Track], bad: Bad) -> Iterator[Sign]:
    """The end of the warm-up right before."""
    for track in tracks:
        points = before(track, bad)
        if len(points) < 2 * _FEW:
            continue
        top = max(point.value for point in points)
        peak = next(point for point in points if point.value >= 0.99 * top)
        near = max(_MANY, peak.step // 10)
        rose = points[0].value <= top / 2 and peak.step > points[0].step
        if rose and top > 0 and bad.point.step - peak.step <= near:
            yield Sign(code="warm-up-end", where=where(track, peak), values=(peak.step, top))
            return


def skipped_norms(tracks: Iterable[Track]) -> Iterator[Sign]:
    """Norms that were not finite in a run that went on."""
    for track in tracks:
        if (index := _first(track)) is not None:
            count = sum(1 for value in track.values if not math.isfinite(value))
            yield Sign(code="gradient-skips", where=where(track, track[index]), values=(count, len(track)))


def stretch_end(bad: Bad) -> int:
    """The index after the last number of the bad one's stretch: the end of the track, or a new start of the run."""
    track = bad.track
    return next((at for at in range(bad.place + 1, len(track)) if begins_anew(track, at)), len(track))


def back_to_good(bad: Bad) -> tuple[int | str, ...]:
    """() if a number stayed bad to the end; else (bad ones, "in a row" or "apart", step of the last, first finite
    step if any).
    """
    track = bad.track
    rows = [at for at in range(bad.place, stretch_end(bad)) if not math.isfinite(track.values[at])]
    last = rows[-1]
    unbroken = last - bad.place + 1 == len(rows)
    ends = last + 1 == stretch_end(bad)
    if unbroken and ends:
        return ()
    told = (len(rows), "in a row" if unbroken else "apart", track.steps[last])
    return told if ends else (*told, track.steps[last + 1])


def recovers(bad: Bad) -> Sign | None:
    """A sign if finite numbers follow in the same stretch, so that the weights stayed sound."""
    track = bad.track
    finite = [math.isfinite(value) for value in track.values[bad.place : stretch_end(bad)]]
    good, count = finite.count(True), finite.count(False)
    return Sign(code="recovers", where=where(track, bad.point), values=(count, good)) if good >= _LASTING else None
