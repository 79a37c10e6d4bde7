"""Which layers a finding stands for: every origin is told, and what follows from it is counted there."""

import msgspec
import pytest

from halftone.contract.facts import Finding
from halftone.contract.words import FindingCode
from halftone.engine.finding.findings import ordered, peak_findings
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
