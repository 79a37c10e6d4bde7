from typing import Final

import msgspec
import pytest

from halftone.contract.facts import DeviceFacts, Finding, OperationResult, SelfTestReport
from halftone.contract.vocabulary import AttentionBackend
from halftone.contract.wording import Words
from halftone.health.device_faults import avoided_backends, copies_are_faulty, detours, faulty_backends, sound_backends
from halftone.health.explain import finding_words

RIGHT: Final = OperationResult(
    mode="float16",
    operation="matmul",
    size=Words("2 × 2"),
    outcome="right",
    expected=1.0,
    got=1.0,
    error=0.0,
    tolerance=0.1,
    seconds=0.1,
)
NONE: Final[frozenset[AttentionBackend]] = frozenset()


def reported(*tests: tuple[str, AttentionBackend | None, str]) -> SelfTestReport:
    """tests: (operation, backend of attention, outcome)."""
    results = tuple(
        msgspec.structs.replace(RIGHT, operation=operation, backend=backend, outcome=outcome)
        for operation, backend, outcome in tests
    )
    return SelfTestReport(
        device=DeviceFacts(id="card:0", backend="card", name="Card"), dtypes=(), tests=results, speeds=(), bits=(), effects=(),
        auto="float16", auto_reason=Words("FP16."), measured_at="2026-01-01T00:00:00+00:00", seconds=1.0,
    )  # fmt: skip


FLASH: Final = ("attention-backend", "flash", "nonfinite")


def on(*names: AttentionBackend, outcome: str = "right") -> tuple[tuple[str, AttentionBackend | None, str], ...]:
    return tuple(("attention-backend", name, outcome) for name in names)


@pytest.mark.parametrize(
    ("tests", "faulty", "sound"),
    [
        ((), NONE, ()),
        ((*on("flash"), *on("cudnn", outcome="missing")), NONE, ()),
        ((FLASH, ("attention-backend", "flash", "right")), {"flash"}, ("math",)),
        ((FLASH, *on("efficient", "cudnn", "math")), {"flash"}, ("efficient", "cudnn", "math")),
        ((FLASH, *on("math"), *on("efficient", "cudnn", outcome="missing")), {"flash"}, ("math",)),
        ((*on("flash", outcome="wrong"), *on("math", outcome="wrong"), *on("cudnn")), {"flash", "math"}, ("cudnn", "math")),
        ((("attention", None, "wrong"),), NONE, ()),
        (on("flash", "efficient", "cudnn", "math", outcome="zeros"), {"flash", "efficient", "cudnn", "math"}, ()),
        ((FLASH, *on("math", outcome="wrong"), *on("cudnn", outcome="missing")), {"flash", "math"}, ()),
    ],
)
def test_backends_that_were_wrong_are_avoided(
    tests: tuple[tuple[str, AttentionBackend | None, str], ...], faulty: set[str], sound: tuple[str, ...]
) -> None:
    report = reported(*tests)
    assert avoided_backends(report) == faulty
    assert sound_backends(report.tests) == sound
    assert bool(detours(report, "auto")) is bool(sound), "with no sound backend torch chooses, and nothing is said"


@pytest.mark.parametrize(("mode", "counts"), [("float32", True), ("bfloat16", True), ("tf32", False), ("float16-sums", False)])
def test_backends_are_judged_in_types_alone(mode: str, counts: bool) -> None:
    tests = [msgspec.structs.replace(one, mode=mode) for one in reported(FLASH, *on("math")).tests]
    assert bool(faulty_backends(tests)) is bool(sound_backends(tests)) is counts


@pytest.mark.parametrize(("outcome", "faulty"), [("right", False), ("missing", False), ("wrong", True)])
def test_copies_that_were_wrong_are_known(outcome: str, faulty: bool) -> None:
    assert copies_are_faulty(reported(("copies", None, outcome))) is faulty
    assert not copies_are_faulty(None)


def test_each_way_around_a_fault_is_told() -> None:
    report = reported(FLASH, *on("math"), ("copies", None, "wrong"))
    other, copies = detours(report, "auto")
    assert str(other) == "Attention avoids flash, which failed the self-test on this device."
    assert str(copies) == "Copies are synchronous: others failed the self-test on this device."
    as_set = Words("Attention uses {0}, your setting, though it failed the self-test on this device.", ("flash",))
    assert detours(report, "flash") == (as_set, copies)
    assert detours(report, "math") == (copies,)
    assert detours(report, "efficient") == (copies,)
    processor = msgspec.structs.replace(report, device=DeviceFacts(id="cpu", backend="cpu", name="Processor"))
    assert detours(processor, "efficient") == (other, copies), "which has no such backend"
    assert detours(None, "auto") == detours(reported(), "flash") == ()


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        (None, "FP16 is faulty on this device."),
        (msgspec.structs.replace(RIGHT, operation="of-tomorrow"), "FP16 is faulty on this device."),
        (
            msgspec.structs.replace(RIGHT, operation="layer-norm", size=Words("16 × 64")),
            "FP16 is faulty on this device. Failed test: Layer norm, 16 × 64.",
        ),
    ],
)
def test_a_fault_of_the_device_names_the_operation(failing: OperationResult | None, message: str) -> None:
    finding = Finding(code="device-fault", component="", module="", dtype="float16", peak=None, limit=None, failing=failing)
    assert finding_words(finding)[0].text() == message
