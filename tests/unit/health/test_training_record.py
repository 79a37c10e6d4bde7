"""What a chart of a training draws: the record of its events, and values gathered into bins."""

import math
from array import array
from collections.abc import Sequence

import msgspec
import pytest
from tests.helpers import samples

from halftone.contract.messages import Ready, TestPicture, TrainBegins, TrainCaught, TrainHeld, TrainStep
from halftone.contract.training import Caught
from halftone.health.training import training_curve as curve
from halftone.health.training.training_record import RunRecord, packed_curve

NAN = math.nan


def step(number: int, loss: float = 0.1, norm: float | None = 0.2, seconds: float = 0.5) -> TrainStep:
    return TrainStep(step=number, steps=20, loss=loss, norm=norm, rate=1e-4, scale=1.0, seconds=seconds)


def test_a_whole_training_is_followed() -> None:
    record = RunRecord(samples.TRAIN)
    assert all(record.take(event) for event in samples.training())
    assert (record.step, record.steps, record.stopped) == (20, 20, 1)
    assert record.saved is not None
    assert record.saved.step == 20
    assert record.seconds_left == 0.0
    assert record.norms[6] == 7.5
    assert not record.take(Ready(version="1", protocol=1, pid=1, devices=()))


def test_the_pace_is_told_after_three_steps() -> None:
    record = RunRecord(samples.TRAIN)
    for number in (1, 2):
        record.take(step(number))
    assert record.seconds_left is None
    record.take(step(3))
    assert record.seconds_left == pytest.approx(17 * 0.5)


def test_steps_that_were_taken_back_are_made_anew() -> None:
    record = RunRecord(samples.TRAIN)
    for number in (1, 2, 3, 4, 3):
        record.take(step(number, loss=number / 10))
    assert list(record.losses) == [0.1, 0.2, 0.3]
    assert len(record.smoothed) == len(record.norms) == 3


def test_a_resumed_training_begins_where_it_was() -> None:
    record = RunRecord(samples.TRAIN)
    record.take(TrainBegins(config=samples.TRAIN, pictures=(), omens=(), dtype="float16", folder="f", first=9))
    assert record.step == 8
    record.take(step(9))
    assert record.step == 9
    assert [one.step for one in curve.bin_values(record.losses, 20, 100)] == [9]
    assert record.smoothed[8] == 0.1


def test_a_resumed_training_shows_what_was_before() -> None:
    record, before = RunRecord(samples.TRAIN), samples.caught(2)
    begins = TrainBegins(config=samples.TRAIN, pictures=(), omens=(), dtype="float16", folder="f", first=4, caught=(before,))
    record.take(begins, packed_curve(array("f", [0.5, 0.25]), array("f", [2.0, NAN])))
    assert list(record.losses[:2]) == [0.5, 0.25]
    assert math.isnan(record.losses[2])
    assert record.norms[0] == 2.0
    assert record.smoothed[0] == 0.5
    assert 0.25 < record.smoothed[1] < 0.5
    assert (record.step, record.stopped, record.folder) == (3, 1, "f")
    assert record.saved is not None
    assert record.saved.step == 3, "it goes on from there once more where it is broken off again"


def test_a_step_that_was_left_out_is_none_that_was_made() -> None:
    record = RunRecord(samples.TRAIN)
    record.take(step(1))
    record.take(msgspec.structs.replace(step(2), applied=False))
    assert (record.step, len(record.losses)) == (1, 2)
    record.take(step(2))
    assert (record.step, len(record.losses)) == (2, 2)


def test_a_picture_is_being_made_until_it_is_there() -> None:
    record = RunRecord(samples.TRAIN)
    record.take(TestPicture(step=1, path="", prompt="a", seed=1))
    assert record.making_picture
    record.take(TestPicture(step=1, path="/1.png", prompt="a", seed=1))
    assert not record.making_picture
    assert [picture.path for picture in record.pictures] == ["/1.png"]


def test_a_bad_loss_is_no_number_of_the_curve() -> None:
    record = RunRecord(samples.TRAIN)
    for number, loss in ((1, 0.1), (2, NAN), (3, math.inf)):
        record.take(step(number, loss=loss, norm=loss))
    assert [one.step for one in curve.bin_values(record.losses, 20, 100)] == [1]
    assert list(record.smoothed) == [0.1] * 3


def test_a_question_is_open_until_training_goes_on() -> None:
    record = RunRecord(samples.TRAIN)
    record.take(TrainCaught(caught=samples.caught(3), asks=True))
    assert record.asks == samples.caught(3)
    record.take(TrainHeld(on=True, step=2))
    assert record.held
    record.take(TestPicture(step=2, path="p", prompt="a", seed=7))
    record.take(step(3))
    assert record.asks is None
    assert len(record.pictures) == 1


@pytest.mark.parametrize(
    ("values", "total", "columns", "found"),
    [
        ([], 10, 5, []),
        ([1.0, 2.0], 2, 5, [(1, 1.0, 1.0, 1.0), (2, 2.0, 2.0, 2.0)]),
        ([1.0, NAN, 3.0], 3, 3, [(1, 1.0, 1.0, 1.0), (3, 3.0, 3.0, 3.0)]),
        ([1.0, 5.0, 2.0, 4.0], 4, 2, [(1.5, 1.0, 5.0, 5.0), (3.5, 2.0, 4.0, 4.0)]),
        ([1.0, 5.0, 2.0], 8, 4, [(1.5, 1.0, 5.0, 5.0), (3, 2.0, 2.0, 2.0)]),
        ([NAN, NAN, 2.0, NAN], 4, 2, [(3.5, 2.0, 2.0, 2.0)]),
    ],
)
def test_bins(values: list[float], total: int, columns: int, found: list[tuple[float, float, float, float]]) -> None:
    assert [(one.step, one.low, one.high, one.last) for one in curve.bin_values(values, total, columns)] == found


@pytest.mark.parametrize(
    ("values", "total", "columns", "found"),
    [
        ([], 10, 5, []),
        ([1.0, 2.0], 2, 5, [(1, 1.0), (2, 2.0)]),
        ([1.0, 5.0, 2.0], 8, 4, [(2, 5.0), (3, 2.0)]),
        ([1.0, NAN, 2.0, 3.0], 4, 2, [(4, 3.0)]),
    ],
)
def test_samples(values: list[float], total: int, columns: int, found: list[tuple[float, float]]) -> None:
    assert [(one.step, one.last) for one in curve.sample_values(values, total, columns)] == found


def test_no_more_bins_than_columns() -> None:
    assert len(curve.bin_values([0.1] * 100_000, 100_000, 900)) <= 900


@pytest.mark.parametrize(
    ("done", "total", "columns", "found"),
    [
        (912, 1600, 80, (20, 80, 46)),
        (0, 1600, 80, (20, 80, 0)),
        (7, 20, 80, (1, 20, 7)),
        (100_000, 100_000, 80, (2000, 50, 50)),
    ],
)
def test_the_strip(done: int, total: int, columns: int, found: tuple[int, int, int]) -> None:
    strip = curve.strip_of(done, total, columns, ())
    assert (strip.per, strip.dots, strip.done) == found


def test_a_bad_number_stands_in_its_row_and_dot() -> None:
    gradient = msgspec.structs.replace(samples.caught(742), watched="gradients")
    strip = curve.strip_of(912, 1600, 80, (samples.caught(742), samples.caught(741), gradient))
    assert strip.bad["activations"] == (37,)
    assert strip.bad["gradients"] == (37,)
    assert strip.bad["loss"] == ()


def test_what_was_only_noted_is_no_bad_number_in_the_strip() -> None:
    noted = msgspec.structs.replace(samples.caught(742), did="warned")
    assert curve.strip_of(912, 1600, 80, (noted,)).bad["activations"] == ()


@pytest.mark.parametrize(
    ("total", "count", "found"),
    [(1600, 8, (0, 200, 400, 600, 800, 1000, 1200, 1400, 1600)), (20, 8, (0, 5, 10, 15, 20)), (1, 8, (0, 1))],
)
def test_ticks_of_steps(total: int, count: int, found: tuple[int, ...]) -> None:
    assert curve.step_ticks(total, count) == found


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(0.06, 0.2, (0.1, 0.15, 0.2)), (0.0, 1.0, (0.0, 0.4, 0.8)), (1.0, 1.0, ()), (-1.0, 1.0, (-1.0, 0.0, 1.0))],
)
def test_ticks_of_values(low: float, high: float, found: tuple[float, ...]) -> None:
    assert curve.value_ticks(low, high, 3) == found


def bins(*values: float) -> tuple[curve.Bin, ...]:
    return curve.bin_values(values, len(values), 100)


def test_ranges() -> None:
    assert curve.value_range(()) == (0.0, 1.0)
    low, high = curve.value_range(bins(0.1, 0.2))
    assert 0 <= low < 0.1 < 0.2 < high
    assert curve.value_range(bins(-1.0, 1.0))[0] < -1
    low, high = curve.value_range(bins(0.0, 0.0))
    assert high > low == 0.0


@pytest.mark.parametrize(
    ("values", "clip", "found"),
    [
        ((), 0.0, (-1, 1)),
        ((), 1.0, (-1, 1)),
        ((0.3, 7.5), 1.0, (-1, 1)),
        ((0.3, 70.0), 1.0, (-1, 2)),
        ((2.0,), 0.0, (0, 2)),
        ((0.0,), 1.0, (0, 2)),
    ],
)
def test_range_of_the_logarithm(values: tuple[float, ...], clip: float, found: tuple[int, int]) -> None:
    assert curve.log_range(bins(*values), clip) == found


def test_the_nearest_event() -> None:
    caught: list[Caught] = [samples.caught(10), samples.caught(50)]
    assert curve.near(14, caught, 5) == caught[0]
    assert curve.near(30, caught, 5) is None
    assert curve.near(1, (), 5) is None


@pytest.mark.parametrize("per", [1, 7])
def test_full_bins_are_made_once_and_are_what_they_would_be_anew(per: int) -> None:
    values = [NAN if n % 5 == 0 else n / 10 for n in range(60)]
    looked_at: list[tuple[int, int]] = []

    def bin_of(numbers: Sequence[float], start: int, end: int) -> curve.Bin | None:
        looked_at.append((start, end))
        return curve._whole(numbers, start, end)

    bins = curve.Bins(bin_of)
    for count in range(1, len(values) + 1):
        assert bins.of(values[:count], 70, 70 // per) == curve.bin_values(values[:count], 70, 70 // per)
    full = [span for span in looked_at if span[1] - span[0] == per]
    assert len(full) == len(set(full)) == len(values) // per
    assert bins.of(values[:20], 70, 70 // per) == curve.bin_values(values[:20], 70, 70 // per)
    assert bins.of(values, 70, 9) == curve.bin_values(values, 70, 9)


def test_lines_are_gathered_anew_when_steps_were_taken_back() -> None:
    record, curves = RunRecord(samples.TRAIN), curve.Curves()
    for number in (1, 2, 3):
        record.take(step(number, loss=0.5))
    curves.follow(record, record.rewound)
    assert [one.last for one in curves.loss.of(record.losses, 20, 20)] == [0.5, 0.5, 0.5]
    for number in (2, 3, 4):
        record.take(step(number, loss=0.25))
    curves.follow(record, record.rewound)
    assert [one.last for one in curves.loss.of(record.losses, 20, 20)] == [0.5, 0.25, 0.25, 0.25]
