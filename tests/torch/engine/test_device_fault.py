"""A precision that the self-test found faulty is a finding of its own, cured by another precision only."""

from pathlib import Path

import pytest
from tests.helpers.engine_runs import check
from tests.helpers.reports import self_test_report

from halftone.contract.facts import DTypeReport, OperationResult
from halftone.contract.wording import Words
from halftone.engine.service import DiffusersEngine
from halftone.health.explain import finding_words
from halftone.library.records import save_selftest
from halftone.measure.devices import find_device


@pytest.fixture
def faulty() -> None:
    """What the self-test of this device would have kept, had it found float16 faulty."""
    failing = OperationResult(
        mode="float16",
        operation="gemm",
        size=Words("1024"),
        outcome="wrong",
        expected=1.0,
        got=2.0,
        error=1.0,
        tolerance=0.01,
        seconds=0.1,
    )
    dtypes = (
        DTypeReport(dtype="float32", state="works", reason=Words("measured"), speed=1.0),
        DTypeReport(dtype="float16", state="wrong", reason=Words("measured"), speed=2.0, failing=failing),
        DTypeReport(dtype="bfloat16", state="works", reason=Words("measured"), speed=2.0),
    )
    save_selftest(self_test_report(device=find_device("auto"), dtypes=dtypes, auto="bfloat16"))


@pytest.mark.usefixtures("faulty")
def test_a_faulty_precision_is_named_and_another_one_suggested(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = check(engine, models["sd15"], "float16")
    first = report.findings[0]
    assert (first.code, first.component, first.dtype) == ("device-fault", "", "float16")
    assert first.failing is not None
    assert (first.failing.operation, first.failing.size, first.failing.outcome) == ("gemm", Words("1024"), "wrong")
    assert str(finding_words(first)[0]) == "FP16 is faulty on this device."
    assert report.verdict == "fixable"
    assert [cure.kind for cure in report.cures if cure.suggested] == ["bfloat16"]
    assert set(report.plan.dtypes.values()) == {"bfloat16"}


@pytest.mark.usefixtures("faulty")
def test_a_sound_precision_on_the_same_device_is_healthy(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    assert check(engine, models["sd15"], "bfloat16")[0].findings == ()
