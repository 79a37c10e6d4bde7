import math

import msgspec
import pytest

from halftone.contract.facts import CheckReport, DeviceFacts, Finding, LayerPeak, ModelFacts
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DType, FindingCode, Verdict
from halftone.contract.wording import Words
from halftone.health.judge import (
    Badge,
    badge,
    cured_by,
    cut_off,
    headroom_bits,
    judge,
    kept,
    smallest_room,
    tried,
    why_broken,
)
from halftone.health.reports.report_sentences import verdict_words

DEVICE = DeviceFacts(id="cpu", backend="cpu", name="A processor", torch_version="2.13.0")
MODEL = ModelFacts(
    id="m", name="m", path="/m", family="sd15", format="folder", stored_dtype="float16", size_bytes=1, fingerprint="f"
)
CURED = Plan(rescale={"vae": {"a": -1}}, verified=True)


def finding(code: FindingCode, dtype: DType = "float16", **facts: str | int | float) -> Finding:
    return Finding(code=code, component="vae", module="m", dtype=dtype, peak=None, limit=None, facts=facts)


def layer(peak: float, after: float | None = None) -> LayerPeak:
    return LayerPeak(component="vae", module=f"m{peak}", kind="Conv2d", peak=peak, peak_after=after)


def report(verdict: Verdict, plan: Plan = Plan(), *, applied: bool = False, layers: tuple[LayerPeak, ...] = ()) -> CheckReport:  # noqa: B008
    return CheckReport(
        model=MODEL, device=DEVICE, precision="float16", depth="quick", verdict=verdict, findings=(), plan=plan, cures=(),
        components={}, layers=layers, numerics=Numerics(), checked_at="", seconds=1.0, applied=applied,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("peak", "dtype", "bits"),
    [(65504.0, "float16", 0.0), (131008.0, "float16", -1.0), (1.0, "float16", 15.9993), (65504.0, "bfloat16", 112.0)],
)
def test_headroom_is_the_distance_to_the_limit_in_bits(peak: float, dtype: DType, bits: float) -> None:
    assert headroom_bits(peak, dtype) == pytest.approx(bits, abs=0.01)


@pytest.mark.parametrize("peak", [None, 0.0, math.inf, math.nan])
def test_without_a_finite_peak_there_is_no_headroom(peak: float | None) -> None:
    assert headroom_bits(peak, "float16") is None


def test_the_smallest_room_can_be_read_with_the_cure_in_mind() -> None:
    layers = (layer(131008.0, after=65504 / 8), layer(65504 / 4))
    assert smallest_room(layers, "float16") == pytest.approx(-1)
    assert smallest_room(layers, "float16", after_cure=True) == pytest.approx(3), "the second was not measured under the cure"
    untouched = msgspec.structs.replace(layer(65504 / 4), component="unet")
    assert smallest_room((*layers, untouched), "float16", after_cure=True) == pytest.approx(2), (
        "the cure leaves the denoiser alone"
    )
    assert smallest_room((), "float16") is None


@pytest.mark.parametrize(
    ("plan", "room"),
    [
        (None, -1.0),
        (Plan(), -1.0),
        (Plan(dtypes={"vae": "float16", "unet": "float16"}), -1.0),
        (Plan(dtypes={"vae": "float32"}), 4.0),
        (Plan(dtypes={"vae": "bfloat16"}), 4.0),
        (Plan(upcast={"vae": ("decoder.up",)}), 3.0),
        (Plan(upcast={"vae": ("decoder.u",)}), -1.0),
        (Plan(upcast={"vae": ("decoder",)}), 4.0),
        (Plan(dtypes={"vae": "float32", "unet": "float32"}), None),
    ],
)
def test_what_the_cure_moves_to_a_wider_type_has_no_limit_there(plan: Plan | None, room: float | None) -> None:
    layers = (
        LayerPeak(component="vae", module="decoder.up.conv", kind="Conv2d", peak=131008.0),
        LayerPeak(component="vae", module="decoder.in", kind="Conv2d", peak=65504.0 / 8),
        LayerPeak(component="unet", module="conv", kind="Conv2d", peak=65504.0 / 16),
    )
    found = smallest_room(layers, "float16", after_cure=True, plan=plan)
    assert found == (None if room is None else pytest.approx(room))
    assert smallest_room(layers, "float16", plan=plan) == pytest.approx(-1.0), "before the cure all count"


@pytest.mark.parametrize(
    ("findings", "plan", "verdict"),
    [
        ([], Plan(), "healthy"),
        ([finding("tight")], Plan(), "tight"),
        ([finding("activation-overflow"), finding("tight")], CURED, "fixable"),
        ([finding("flat-output")], CURED, "fixable"),
        ([finding("flat-output")], Plan(), "broken"),
        ([finding("activation-overflow")], Plan(rescale={"vae": {"a": -1}}), "broken"),
        ([finding("activation-overflow", "float32")], CURED, "broken"),
        ([finding("weights-overflow", "float32")], CURED, "broken"),
        ([], CURED, "fixable"),
        ([finding("weights-nonfinite")], Plan(), "broken"),
        ([finding("weights-nonfinite", read=True)], Plan(), "broken"),
        ([finding("weights-nonfinite", read=False)], Plan(), "healthy"),
        ([finding("nonfinite-output", "float32")], Plan(), "broken"),
        ([finding("nonfinite-output")], CURED, "fixable"),
        ([finding("device-fault")], CURED, "fixable"),
    ],
)
def test_verdicts(findings: list[Finding], plan: Plan, verdict: Verdict) -> None:
    assert judge(findings, plan) == verdict


@pytest.mark.parametrize(
    ("old", "new", "stays"),
    [
        (None, CURED, False),
        (report("fixable", CURED), CURED, False),
        (report("fixable", CURED, applied=True), CURED, True),
        (report("fixable", CURED, applied=True), msgspec.structs.replace(CURED, error=0.1, reasons=(Words("why"),)), True),
        (report("fixable", CURED, applied=True), msgspec.structs.replace(CURED, verified=False), False),
        (report("fixable", CURED, applied=True), Plan(rescale={"vae": {"a": -2}}, verified=True), False),
        (report("fixable", CURED, applied=True), Plan(verified=True), False),
        (report("fixable", CURED, applied=True), msgspec.structs.replace(CURED, dtypes={"vae": "float32"}), False),
    ],
)
def test_a_cure_stays_in_force_when_a_new_check_confirms_it(old: CheckReport | None, new: Plan, stays: bool) -> None:
    after, dropped = kept(old, report("fixable", new))
    assert (after.plan, after.applied) == (new, stays)
    assert dropped is (old is not None and old.applied and not stays)


def test_what_the_settings_order_is_no_cure() -> None:
    base = Plan(
        dtypes={"unet": "float16", "vae": "float32"}, upcast={"unet": ("attn2",)}, upcast_parameters=5, reasons=(Words("Always"),)
    )
    plain = msgspec.structs.replace(base, verified=True, error=0.001)
    assert judge([], plain, base) == "healthy"
    assert judge([finding("tight")], plain, base) == "tight"
    assert judge([], msgspec.structs.replace(plain, rescale={"vae": {"a": -1}}), base) == "fixable"


@pytest.mark.parametrize(
    ("found", "state", "room"),
    [
        (None, "unchecked", None),
        (report("healthy", layers=(layer(1.0),)), "healthy", 16.0),
        (report("tight", layers=(layer(40000.0),)), "tight", 0.7),
        (report("fixable", CURED, layers=(layer(131008.0, after=8188.0),)), "overflows", -1.0),
        (report("fixable", CURED, applied=True, layers=(layer(131008.0, after=8188.0),)), "cured", 3.0),
        (report("fixable", Plan(rescale={"vae": {"a": -1}}), applied=True), "overflows", None),
        (report("broken"), "broken", None),
    ],
)
def test_badges(found: CheckReport | None, state: str, room: float | None) -> None:
    shown = badge(found, MODEL, DEVICE, Numerics())
    assert shown.state == state
    assert str(shown.reason).endswith(".")
    assert shown.room_bits == (None if room is None else pytest.approx(room, abs=0.05))


@pytest.mark.parametrize(
    ("findings", "cures", "why"),
    [
        ((finding("weights-nonfinite"),), (), "file"),
        ((finding("weights-nonfinite", lora="glow"),), (), "lora"),
        ((finding("weights-nonfinite", lora="glow"), finding("weights-nonfinite")), (), "file"),
        ((finding("weights-nonfinite", read=False), finding("activation-overflow")), (), "no-cure-known"),
        ((finding("activation-overflow", "float32"),), (), "float32"),
        ((finding("activation-overflow"),), (Cure(kind="rescale", plan=Plan(), refusal=Words("too far")),), "no-cure"),
    ],
)
def test_a_broken_model_is_told_by_what_was_found(findings: tuple[Finding, ...], cures: tuple[Cure, ...], why: str) -> None:
    found = msgspec.structs.replace(report("broken"), findings=findings, cures=cures)
    assert why_broken(found) == why
    assert "every precision" not in str(badge(found, MODEL, DEVICE, Numerics()).reason)


@pytest.mark.parametrize("verdict", ["healthy", "tight"])
def test_numbers_at_the_limit_in_the_file_are_told_of_a_model_that_works(verdict: Verdict) -> None:
    clipped = finding("weights-clipped", file="net.safetensors")
    found = msgspec.structs.replace(report(verdict), findings=(clipped,))
    assert cut_off(report(verdict)) is None
    assert cut_off(found) == clipped
    shown = badge(found, MODEL, DEVICE, Numerics())
    assert shown.state == "tight"
    words, tone = verdict_words(found)
    assert tone == "warn"
    assert "Weights in net.safetensors sit at the FP16 limit." in str(words)
    assert ("with little headroom" in str(words), "than 2 bits" in str(shown.reason)) == ((verdict == "tight"),) * 2
    assert cut_off(msgspec.structs.replace(found, verdict="fixable")) is None


@pytest.mark.parametrize(
    ("found", "said", "tone"),
    [
        (report("healthy"), "m works in FP16 on A processor. Weights in net.safetensors sit at the FP16 limit.", "warn"),
        (
            report("fixable", CURED),
            "m fails in FP16 on A processor. A cure is ready. Weights in net.safetensors sit at the FP16 limit.",
            "danger",
        ),
        (
            report("fixable", CURED, applied=True),
            "m works in FP16 on A processor with its cure, which is in use. Weights in net.safetensors sit at the FP16 limit.",
            "warn",
        ),
        (report("broken"), "m fails in FP16 on A processor, and the check found no cure.", "danger"),
    ],
)
def test_the_verdict_adds_numbers_at_the_limit_in_the_file(found: CheckReport, said: str, tone: str) -> None:
    clipped = finding("weights-clipped", file="net.safetensors")
    words, shown = verdict_words(msgspec.structs.replace(found, findings=(clipped,)))
    assert (str(words), shown) == (said, tone)


def test_a_stale_report_is_no_check_and_says_why() -> None:
    shown = badge(report("healthy"), MODEL, DEVICE, Numerics(tf32=True))
    assert shown == Badge("unchecked", None, shown.reason)
    assert "TF32" in str(shown.reason)


def test_a_cure_that_was_tried_by_itself_brings_its_prices_to_the_report() -> None:
    chosen = Plan(upcast={"vae": ("decoder",)}, reasons=(Words("why"),))
    cures = (
        Cure(kind="rescale", plan=CURED, time_ratio=1.0, suggested=True),
        Cure(kind="upcast-region", plan=chosen, memory_bytes=7, disk_bytes=0),
    )
    before = msgspec.structs.replace(report("fixable", chosen), cures=cures)
    held = msgspec.structs.replace(chosen, verified=True, error=0.01, reasons=(Words("another"),))
    alone = Cure(kind="setting", plan=held, time_ratio=1.2, memory_bytes=8, psnr=40.0)
    after = tried(before, msgspec.structs.replace(report("healthy", held), cures=(alone,)))
    assert (after.plan.verified, after.plan.error, after.plan.reasons) == (True, 0.01, (Words("why"),))
    assert after.cures[0] == cures[0]
    found = after.cures[1]
    assert (found.kind, found.time_ratio, found.memory_bytes, found.disk_bytes, found.psnr) == ("upcast-region", 1.2, 8, 0, 40.0)
    assert found.plan.verified
    refused = msgspec.structs.replace(alone, refusal=Words("It gives NaN or infinity as well."), time_ratio=None)
    failed = tried(before, msgspec.structs.replace(report("broken", chosen), cures=(refused,)))
    assert not failed.plan.verified
    assert failed.cures[1].refusal == Words("It gives NaN or infinity as well.")


HALF = Plan(dtypes={"unet": "float16", "vae": "float16"}, rescale={"vae": {"decoder.conv_in.weight": -4}}, verified=True)
WIDE = Plan(dtypes={"unet": "bfloat16", "vae": "bfloat16"}, verified=True)


@pytest.mark.parametrize(
    ("found", "plan", "cured"),
    [
        (finding("activation-overflow"), HALF, True),
        (finding("nonfinite-output"), WIDE, True),
        (finding("weights-nonfinite", read=False), HALF, False),
        (finding("weights-nonfinite", read=False), WIDE, False),
        (finding("memory-damage"), HALF, False),
        (finding("device-fault"), HALF, False),
        (finding("device-fault"), Plan(verified=True), False),
        (finding("device-fault"), WIDE, True),
        (msgspec.structs.replace(finding("tight"), component="unet"), HALF, False),
        (msgspec.structs.replace(finding("tight"), component="unet"), WIDE, True),
        (msgspec.structs.replace(finding("tight"), component="vae"), HALF, True),
    ],
)
def test_only_what_a_plan_reaches_is_cured_by_it(found: Finding, plan: Plan, cured: bool) -> None:
    assert cured_by(plan, found) == cured
