import json
import math
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers.reports import DEVICE, MODEL, check_report, self_test_report

from halftone.contract.facts import CheckReport, LayerPeak, OperationResult
from halftone.contract.plan import Cure
from halftone.contract.request import Numerics
from halftone.contract.wording import Words
from halftone.library.records import (
    SelfTests,
    load_report,
    load_selftest,
    save_report,
    save_selftest,
    set_applied,
    staleness,
)
from halftone.settings.places import checks_dir


def test_a_report_of_an_earlier_version_is_read_with_its_sentences() -> None:
    plan = replace(check_report().plan, reasons=(Words("{0}, your setting.", ("FP16",)),))
    cure = Cure(kind="rescale", plan=plan, refusal=Words("It gives NaN or infinity as well."))
    save_report(replace(check_report(), plan=plan, cures=(cure,)))
    (file,) = checks_dir().glob("check-*.json")
    content = json.loads(file.read_bytes())
    report = content.get("report", content)
    report["plan"]["reasons"] = ["FP16, as set."]
    report["cures"][0]["refusal"] = "It gives NaN or infinity as well."
    file.write_text(json.dumps(content))
    found = load_report(MODEL, DEVICE, "float16")
    assert found is not None
    assert list(map(str, found.plan.reasons)) == ["FP16, as set."]
    assert str(found.cures[0].refusal) == "It gives NaN or infinity as well."


def test_a_report_comes_back_whole() -> None:
    layers = (LayerPeak(component="vae", module="up", kind="Conv2d", peak=math.inf, peak_after=1.5),)
    report = check_report(layers=layers)
    assert load_report(MODEL, DEVICE, "float16") is None
    save_report(report)
    assert load_report(MODEL, DEVICE, "float16") == report
    assert load_report(MODEL, DEVICE, "bfloat16") is None
    assert load_report(replace(MODEL, path="/m/other"), DEVICE, "float16") is None
    assert load_report(MODEL, replace(DEVICE, name="RTX 10"), "float16") is None


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_records_are_strict_json_whatever_was_measured(number: float) -> None:
    tests = (
        OperationResult(
            mode="float16", operation="gemm", size=Words("8"), outcome="nonfinite", expected=1.0, got=number, error=math.inf,
            tolerance=0.1, seconds=0.1,
        ),
    )  # fmt: skip
    save_selftest(self_test_report(tests=tests))

    def refuse(word: str) -> float:
        raise AssertionError(word)

    (file,) = checks_dir().iterdir()
    json.loads(file.read_text(), parse_constant=refuse)
    kept = load_selftest(DEVICE)
    assert kept is not None
    assert kept.tests[0].error == math.inf
    assert str(kept.tests[0].got) == str(number)


def test_the_latest_report_counts_and_remembers_the_cure() -> None:
    save_report(check_report(verdict="fixable"))
    applied = set_applied(check_report(verdict="tight"), True)
    assert applied.applied
    assert load_report(MODEL, DEVICE, "float16") == applied


def test_a_report_is_read_again_only_after_it_was_written_again() -> None:
    report = check_report()
    save_report(report)
    first = load_report(report.model, report.device, report.precision)
    assert load_report(report.model, report.device, report.precision) is first
    save_report(report)
    again = load_report(report.model, report.device, report.precision)
    assert again == first
    assert again is not first


def test_damaged_records_are_as_good_as_none() -> None:
    save_report(check_report())
    file = next(checks_dir().iterdir())
    for content in (b"", b"\xff", b"{}", b"[" * 5000):
        file.write_bytes(content)
        assert load_report(MODEL, DEVICE, "float16") is None


@pytest.mark.parametrize(
    ("report", "named"),
    [
        (check_report(), None),
        (check_report(numerics=Numerics(on_black="ask", nan_check="off", precision="float32")), None),
        (check_report(device=replace(DEVICE, driver="580.99")), None),
        (check_report(model=replace(MODEL, fingerprint="old")), "files"),
        (check_report(device=replace(DEVICE, name="GTX 1")), "GTX 1"),
        (check_report(device=replace(DEVICE, driver="570.1")), "driver"),
        (check_report(device=replace(DEVICE, torch_version="2.12.0")), "PyTorch"),
        (check_report(numerics=Numerics(tf32=True)), "TF32 for FP32 work"),
    ],
)
def test_what_changed_is_named(report: CheckReport, named: str | None) -> None:
    reason = staleness(report, MODEL, DEVICE, Numerics())
    assert (reason is None) == (named is None)
    assert named is None or named in str(reason)


def test_a_self_test_holds_for_its_driver_and_torch_only() -> None:
    report = self_test_report()
    assert load_selftest(DEVICE) is None
    save_selftest(report)
    assert load_selftest(DEVICE) == report
    assert load_selftest(replace(DEVICE, id="cuda:1")) == report, "the same card in another slot"
    assert load_selftest(replace(DEVICE, driver="581.0")) is None
    assert load_selftest(replace(DEVICE, torch_version="2.14")) is None


def test_a_self_test_whose_numbers_meant_something_else_is_measured_anew() -> None:
    save_selftest(self_test_report())
    (file,) = checks_dir().iterdir()
    content = json.loads(file.read_bytes())
    file.write_text(json.dumps(content | {"version": content["version"] - 1}))
    assert load_selftest(DEVICE) is None
    file.write_text(json.dumps(content["report"]))
    assert load_selftest(DEVICE) is None, "as they were before there was a version"


@pytest.mark.logs("could not be kept")
def test_a_self_test_that_cannot_be_kept_holds_where_it_was_made_and_says_why() -> None:
    folder = checks_dir()
    folder.rmdir()
    folder.touch()
    worker, window = SelfTests(), SelfTests()
    kept = worker.keep(self_test_report(auto="bfloat16"))
    assert kept.not_kept == Words("file exists")
    window.take(kept)
    assert worker.of(DEVICE) == window.of(DEVICE) == kept
    assert SelfTests().of(DEVICE) is None, "the next process measures again"
    folder.unlink()
    again = worker.keep(self_test_report(auto="float16"))
    window.take(again)
    assert again.not_kept is None
    assert worker.of(DEVICE) == window.of(DEVICE) == SelfTests().of(DEVICE) == again


def test_names_of_any_kind_make_files(own_data: Path) -> None:
    odd = replace(MODEL, name="../日本 / x" * 20, path="/m/\udcff")
    save_report(check_report(model=odd))
    assert load_report(odd, DEVICE, "float16") is not None
    assert [file.parent for file in own_data.rglob("*.json")] == [checks_dir()]


def test_a_data_folder_that_cannot_be_holds_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HALFTONE_DATA", str(tmp_path / "file"))
    assert load_selftest(DEVICE) is None
    assert load_report(MODEL, DEVICE, "float16") is None
