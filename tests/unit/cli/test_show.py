"""Reports for people, as lines of text."""

import io

from msgspec.structs import replace
from rich.console import Console
from tests.helpers import samples

from halftone.cli.precision import ChosenPrecision
from halftone.cli.show import show_check, show_pictures
from halftone.contract.facts import CheckReport, Finding, GenerateReport
from halftone.health.explain import explain

AS_SET = ChosenPrecision("float16", "FP16, as set.", measured=False)


def lines(report: CheckReport) -> list[str]:
    """What is printed, without empty lines and indents."""
    out = Console(file=io.StringIO(), width=200, highlight=False)
    show_check(report, AS_SET, console=out)
    assert isinstance(out.file, io.StringIO)
    return [line.strip() for line in out.file.getvalue().splitlines() if line.strip()]


def test_the_verdict_and_the_cure_stand_before_the_findings() -> None:
    shown = lines(samples.check_report(fragile=True))
    starts = [
        "✗ Pocket does not hold",
        "sd · 4 layers",
        "Cure  Rescale",
        "time ",
        "Use it from now on:",
        "Write a repaired",
        "1  ",
    ]
    assert [line[: len(start)] for line, start in zip(shown, starts, strict=False)] == starts


def test_the_memory_of_a_cure_is_told_as_computed() -> None:
    report = samples.check_report(fragile=True)
    cure = replace(report.cures[0], memory_bytes=84_000_000)
    assert any("memory +84\u00a0MB, computed" in line for line in lines(replace(report, cures=(cure,))))


def test_a_damaged_file_is_named_with_its_tensor_and_the_remedy_comes_last() -> None:
    facts: dict[str, str | int | float | bool] = {
        "file": "model.safetensors",
        "tensor": "conv_in.weight",
        "count": 1,
        "read": True,
    }
    finding = Finding(
        code="weights-nonfinite", component="vae", module="conv_in", dtype="float16", peak=None, limit=None, facts=facts
    )
    broken = replace(samples.check_report(), verdict="broken", findings=(explain(finding),), cures=())
    shown = lines(broken)
    assert shown[0] == "✗ Pocket holds broken numbers."
    assert "the file model.safetensors holds numbers that are not numbers, in its tensor conv_in.weight." in shown[-3]
    assert shown[-2:] == ["vae · model.safetensors · conv_in.weight", finding_remedy(finding)]


def finding_remedy(finding: Finding) -> str:
    return explain(finding).remedy


def test_a_picture_that_waits_for_an_answer_is_finished_by_a_command() -> None:
    asking = replace(samples.picture_facts("", "asking"), latents="/kept/7-0.safetensors")
    report = GenerateReport(images=(asking,), plan=samples.PLAIN, events=(), seconds=1.0, seconds_per_step=None)
    out = Console(file=io.StringIO(), width=60, highlight=False)
    show_pictures(report, "pocket", AS_SET, console=out)
    assert isinstance(out.file, io.StringIO)
    assert "  Finish it with:  halftone generate --latents /kept/7-0.safetensors --on-black recover\n" in out.file.getvalue()
