import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.facts import SpeedResult
from halftone.health.forecasts.timing import LEAST, UNREST, Ratio, is_measurable, judged_ratio, mode_ratio, paired_ratio

SECONDS = st.floats(0.01, 100.0)


def speed(mode: str, operation: str, *runs: float, seconds: float = 1.0) -> SpeedResult:
    return SpeedResult(mode=mode, operation=operation, tflops=1.0, seconds=seconds, runs=runs)


@pytest.mark.parametrize(
    ("before", "after", "ratio", "measurable"),
    [
        ((1.0, 1.0, 1.0), (1.5, 1.5, 1.5), 1.5, True),
        ((1.0, 2.0, 4.0), (1.5, 3.0, 6.0), 1.5, True),
        ((1.0, 1.0, 1.0), (1.0, 1.54, 1.6), 1.54, False),
        ((1.0, 1.0, 1.0), (1.02, 1.02, 1.02), 1.02, False),
        ((1.0,), (1.15,), 1.15, False),
        ((1.0,), (1.3,), 1.3, True),
        ((1.0,) * 5, (1.5, 1.5, 1.5, 1.5, 9.0), 1.5, True),
        ((1.0,) * 3, (1.5, 1.5, 9.0), 1.5, True),
        ((1.0,) * 7, (1.7, 1.75, 1.8, 2.0, 2.5, 2.9, 3.0), 2.0, True),  # each of them is slower
        ((1.0,) * 3, (0.97, 1.2, 1.3), 1.2, False),
    ],
)
def test_only_what_exceeds_the_spread_of_the_runs_is_measurable(
    before: tuple[float, ...], after: tuple[float, ...], ratio: float, measurable: bool
) -> None:
    found = paired_ratio(before, after)
    assert found is not None
    assert found.value == pytest.approx(ratio)
    assert found.is_measurable is measurable


@given(st.lists(st.tuples(SECONDS, st.floats(0.9, 1.1)), min_size=2, max_size=9), SECONDS)
def test_a_load_that_lasts_is_no_price(pairs: list[tuple[float, float]], load: float) -> None:
    """Whatever slows a pair of runs slows both sides alike."""
    before, after = [one for one, _ in pairs], [one * share for one, share in pairs]
    plain = paired_ratio(before, after)
    loaded = paired_ratio([one * load for one in before], [one * load for one in after])
    assert plain is not None
    assert loaded is not None
    assert loaded.value == pytest.approx(plain.value)
    assert 0.9 <= plain.value <= 1.1


def test_nothing_to_compare_is_no_ratio() -> None:
    assert paired_ratio((), (1.0,)) is None
    assert paired_ratio((0.0,), (1.0,)) is None
    assert mode_ratio([speed("float16", "unet-step", 1.0)], "float16", "float32") is None


def test_a_ratio_of_old_that_kept_no_spread_stands_alone() -> None:
    assert is_measurable(1.0 + 2 * LEAST, None)
    assert not is_measurable(1.0, None)


def test_modes_are_compared_over_the_operations_of_both() -> None:
    speeds = [
        speed("float32", "unet-step", 2.0, 4.0, 2.0),
        speed("float32", "transformer-step", 1.0, 2.0, 1.0, 1.0),
        speed("float16", "unet-step", 1.0, 2.0, 1.0),
        speed("float16", "transformer-step", 0.5, 1.0, 0.5),
        speed("bfloat16", "unet-step", seconds=0.5),
    ]
    assert mode_ratio(speeds, "float16", "float32") == Ratio(0.5, 0.0)
    assert mode_ratio(speeds, "bfloat16", "float32") == Ratio(0.25, UNREST), "facts that kept no runs have their seconds"


def test_a_network_that_takes_clearly_longer_judges_alone() -> None:
    usual = [speed("float32", "unet-step", 4.0, 4.0, 4.0), speed("float32", "transformer-step", 1.0, 1.0, 1.0)]

    def judged(unet: float, *transformer: float) -> tuple[float, str]:
        own = [speed("bfloat16", "unet-step", unet, unet, unet), speed("bfloat16", "transformer-step", *transformer)]
        found = judged_ratio([*usual, *own], "bfloat16", "float32")
        assert found is not None
        return found[0].value, found[1]

    assert judged(1.0, 2.0, 2.0, 2.0) == (0.5, "transformer-step"), (
        "three seconds in the place of five, but who runs a transformer waits twice as long"
    )
    assert judged(1.0, 1.25, 1.25, 1.25) == (pytest.approx(5 / 2.25), ""), "a quarter longer is made up for"
    assert judged(1.0, 2.0, 2.0, 0.9) == (pytest.approx(5 / 3), ""), "a run that was faster shows that the machine is busy"
    assert judged(6.0, 0.5, 0.5, 0.5) == (pytest.approx(5 / 6.5), ""), "where all together take longer, that is the figure"
