"""Which layers a finding stands for: every origin is told, and what follows from it is counted there."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.facts import Finding, LayerPeak
from halftone.contract.vocabulary import FindingCode
from halftone.engine.finding.findings import ordered, peak_findings
from halftone.health.judge import highest_peak, over_and_tight
from halftone.measure.probe import Reading

LIMIT = 65504.0
OVER, TIGHT, FINE = 2 * LIMIT, 0.5 * LIMIT, 10.0


def reading(module: str, order: int, peak: float, came_in: float = FINE) -> Reading:
    return Reading(
        component="vae", module=module, kind="Conv2d", peak=peak, output_peak=peak, input_peak=came_in, finite=True,
        inputs_finite=True, weights_finite=True, order=order, uses=1,
    )  # fmt: skip


def finding(module: str, code: FindingCode = "activation-overflow") -> Finding:
    return Finding(code=code, component="vae", module=module, dtype="float16", peak=OVER, limit=LIMIT)


def told(readings: list[Reading], measured: list[Finding], *, overflowed: bool = True) -> list[tuple[str, str, list[str]]]:
    found = peak_findings("vae", "float16", readings, measured, overflowed=overflowed)
    return [(one.code, one.module, [layer.module for layer in one.further]) for one in found]


def test_what_was_handed_too_large_values_is_counted_at_the_origin_before_it() -> None:
    readings = [reading("a", 0, OVER), reading("b", 1, OVER, OVER), reading("c", 2, OVER), reading("d", 3, 3 * LIMIT, OVER)]
    expected = [("activation-overflow", "a", ["b"]), ("activation-overflow", "c", ["d"])]
    assert told(readings, [finding("a")]) == expected
    found = peak_findings("vae", "float16", readings, [finding("a")], overflowed=True)
    assert found[1].further[0].peak == 3 * LIMIT


def test_an_origin_of_its_own_is_a_finding_of_its_own() -> None:
    readings = [reading("a", 0, OVER), reading("b", 1, FINE), reading("c", 2, OVER)]
    assert told(readings, []) == [("activation-overflow", "a", []), ("activation-overflow", "c", [])]


def test_a_layer_before_every_origin_is_told_by_itself() -> None:
    readings = [reading("a", 0, OVER, OVER), reading("b", 1, OVER)]
    assert told(readings, [finding("b")]) == [("activation-overflow", "b", []), ("activation-overflow", "a", [])]


def test_the_module_around_an_origin_says_nothing_new() -> None:
    readings = [reading("block.conv", 0, OVER), reading("block", 1, OVER), reading("", 2, OVER)]
    assert told(readings, []) == [("activation-overflow", "block.conv", [])]


def test_a_block_whose_sum_is_larger_than_its_terms_is_counted_at_the_origin_inside_it() -> None:
    readings = [reading("block.conv", 0, OVER), reading("block", 1, 3 * LIMIT), reading("", 2, 3 * LIMIT)]
    assert told(readings, []) == [("activation-overflow", "block.conv", ["block"])]
    assert told(readings, [finding("block.conv")]) == [("activation-overflow", "block.conv", ["block"])]


NAMES = st.lists(st.sampled_from("ab"), max_size=3).map(".".join)
PEAKS = st.floats(1.0, 16 * LIMIT)


@given(st.dictionaries(NAMES, st.tuples(PEAKS, PEAKS), min_size=1, max_size=12))
def test_no_layer_is_louder_than_every_listed_finding(layers: dict[str, tuple[float, float]]) -> None:
    """The verdict tells the largest value that was met: one of the findings, or the layers that they count, has it."""
    readings = [reading(name, order, *peaks) for order, (name, peaks) in enumerate(layers.items())]
    found = peak_findings("vae", "float16", readings, [], overflowed=True)
    listed = [one.peak or 0.0 for one in found] + [layer.peak for one in found for layer in one.further]
    loudest = max(one.peak for one in readings)
    assert max(listed, default=0.0) == (loudest if loudest > LIMIT / 4 else 0.0)
    told = [LayerPeak(component="vae", module=one.module, kind="", peak=one.peak) for one in readings]
    assert highest_peak(told, found) == loudest
    over, tight = over_and_tight([("vae", one.module) for one in readings], [math.log2(LIMIT / one.peak) for one in readings])
    named = [one.peak or 0.0 for one in found] + [layer.peak for one in found for layer in one.further]
    assert (over, tight) == (sum(peak > LIMIT for peak in named), sum(peak <= LIMIT for peak in named))


def test_a_finding_may_be_louder_than_every_layer() -> None:
    """Attention scores stand in no layer's output."""
    scores = msgspec.structs.replace(finding("attn", "attention-overflow"), peak=9 * LIMIT)
    assert highest_peak([LayerPeak(component="vae", module="attn", kind="", peak=3.0)], [scores]) == 9 * LIMIT
    assert highest_peak([], []) is None


@pytest.mark.parametrize("overflowed", [True, False])
def test_tight_layers_are_one_finding_of_the_tightest(overflowed: bool) -> None:
    readings = [reading("a", 0, TIGHT), reading("b", 1, 0.9 * LIMIT), reading("c", 2, TIGHT)]
    assert told(readings, [], overflowed=overflowed) == [("tight", "b", ["a", "c"])]


def test_without_an_overflow_in_the_target_pass_a_large_peak_is_no_finding() -> None:
    assert told([reading("a", 0, OVER)], [], overflowed=False) == []


def test_the_origin_of_the_first_failure_goes_before_what_passes_the_limit_at_a_later_step() -> None:
    orders = {"vae": {"a": 0, "b": 1, "c": 2}}
    found = [finding("c"), finding("a"), finding("b"), finding("a", "tight")]
    told = ordered(found, orders, {"vae": "b"})
    assert [(one.code == "tight", one.module) for one in told] == [(False, "b"), (False, "a"), (False, "c"), (True, "a")]
    assert [one.module for one in ordered(found, orders)] == ["a", "b", "c", "a"]


def test_what_ran_first_is_told_first_whatever_the_pipeline_lists_first() -> None:
    found = [msgspec.structs.replace(finding("a"), component=name) for name in ("image_encoder", "prior", "unknown")]
    first = ordered(found, {"prior": {"a": 3}, "image_encoder": {"a": 0}})
    assert [one.component for one in first] == ["prior", "image_encoder", "unknown"]
