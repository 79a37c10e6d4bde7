"""Facts and reports as tests of stored records and of the command line need them."""

from typing import Any

from halftone.contract.facts import (
    CheckReport,
    ComponentFacts,
    DeviceFacts,
    DTypeReport,
    LayerPeak,
    ModelFacts,
    OperationResult,
    SelfTestReport,
)
from halftone.contract.plan import Plan
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import AttentionBackend
from halftone.contract.wording import Words

DEVICE = DeviceFacts(id="cuda:0", backend="cuda", name="RTX 9", driver="580.12", torch_version="2.13.0")
MODEL = ModelFacts(
    id="/m/tiny",
    name="tiny",
    path="/m/tiny",
    family="SDXL",
    format="diffusers",
    stored_dtype="float16",
    size_bytes=10,
    fingerprint="abc",
)


def check_report(**changes: Any) -> CheckReport:
    known: dict[str, Any] = {
        "model": MODEL,
        "device": DEVICE,
        "precision": "float16",
        "depth": "quick",
        "verdict": "healthy",
        "findings": (),
        "plan": Plan(dtypes={"unet": "float16"}, total_parameters=10, verified=True),
        "cures": (),
        "components": {"unet": ComponentFacts(parameters=10, peak=100.0, headroom_bits=9.4, seconds=0.1, modules=3)},
        "layers": (LayerPeak(component="unet", module="conv_in", kind="Conv2d", peak=100.0),),
        "numerics": Numerics(),
        "checked_at": "2026-05-12T21:14:00+02:00",
        "seconds": 2.0,
    }
    return CheckReport(**(known | changes))


def self_test_report(**changes: Any) -> SelfTestReport:
    known: dict[str, Any] = {
        "device": DEVICE,
        "dtypes": (
            DTypeReport(dtype="float32", state="works", reason=Words("All 30 tests right."), speed=1.0),
            DTypeReport(dtype="float16", state="works", reason=Words("All 30 tests right."), speed=2.4),
        ),
        "tests": (),
        "speeds": (),
        "bits": (),
        "effects": (),
        "auto": "float16",
        "auto_reason": Words("FP16 is right in all tests and 2.4 times faster than FP32."),
        "measured_at": "2026-05-12T21:14:00+02:00",
        "seconds": 4.0,
    }
    return SelfTestReport(**(known | changes))


def with_faulty_flash(device: DeviceFacts) -> SelfTestReport:
    """The self-test of a device where flash attention is wrong and the math backend right."""
    faulty: tuple[tuple[AttentionBackend, str], ...] = (("flash", "wrong"), ("math", "right"))
    tests = tuple(
        OperationResult(
            mode="float32", operation="attention-backend", size=Words("64 tokens"), backend=name, outcome=outcome, expected=1.0,
            got=1.0, error=0.0, tolerance=0.1, seconds=0.1,
        )
        for name, outcome in faulty
    )  # fmt: skip
    return self_test_report(device=device, tests=tests)
