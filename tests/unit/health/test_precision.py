import msgspec
import pytest

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, DTypeReport, SelfTestReport
from halftone.contract.words import DType, DTypeState
from halftone.health.precision import choose_auto, granted_precision, resolve_precision, state_of, states

DEVICE = DeviceFacts(id="cpu", backend="cpu", name="A processor")


def dtype(name: DType, state: DTypeState, speed: float | None = None) -> DTypeReport:
    return DTypeReport(dtype=name, state=state, reason="", speed=speed)


FULL = dtype("float32", "works", 1.0)


@pytest.mark.parametrize(
    ("half", "brain", "auto"),
    [
        (dtype("float16", "works", 2.4), dtype("bfloat16", "works", 2.4), "float16"),
        (dtype("float16", "works", 2.0), dtype("bfloat16", "works", 2.4), "bfloat16"),
        (dtype("float16", "wrong", 2.4), dtype("bfloat16", "works", 1.5), "bfloat16"),
        (dtype("float16", "slow", 0.1), dtype("bfloat16", "works", 3.0), "bfloat16"),
        (dtype("float16", "works", 2.0), dtype("bfloat16", "missing"), "float16"),
        (dtype("float16", "wrong"), dtype("bfloat16", "slow", 0.5), "float32"),
        (dtype("float16", "missing"), dtype("bfloat16", "missing"), "float32"),
    ],
)
def test_auto_takes_the_fastest_that_passed(half: DTypeReport, brain: DTypeReport, auto: DType) -> None:
    found, reason = choose_auto((half, brain, FULL))
    assert found == auto
    assert reason.endswith(".")


def test_the_reason_names_figures_and_what_was_turned_down() -> None:
    _, reason = choose_auto((dtype("float16", "slow", 0.1), dtype("bfloat16", "works", 2.44), FULL))
    assert reason == ("BF16 passed every test and is about 2.4 × as fast as FP32, while FP16 is slower than FP32 here.")
    _, reason = choose_auto((dtype("float16", "slow", 0.99), dtype("bfloat16", "slow", None), FULL))
    assert reason == "FP32, because FP16 is no faster than FP32 here and BF16 is no faster than FP32 here."


def report(auto: DType) -> SelfTestReport:
    return SelfTestReport(
        device=DEVICE, dtypes=(dtype("float16", "wrong", 2.0), FULL), tests=(), speeds=(), bits=(), effects=(), auto=auto,
        auto_reason="Because.", measured_at="", seconds=1.0,
    )  # fmt: skip


def test_auto_without_a_measurement_is_float32() -> None:
    assert resolve_precision("auto", None, DEVICE) == ("float32", "FP32, because A processor has not been measured yet.")


def test_auto_follows_the_self_test() -> None:
    assert resolve_precision("auto", report("bfloat16"), DEVICE) == ("bfloat16", "Because.")


def test_a_wish_is_granted_and_what_speaks_against_it_is_said() -> None:
    assert resolve_precision("float32", report("float32"), DEVICE) == ("float32", "FP32, as set.")
    found, reason = resolve_precision("float16", report("float32"), DEVICE)
    assert found == "float16"
    assert "faulty" in reason


def test_what_the_device_has_not_is_refused_when_it_is_to_run() -> None:
    measured = msgspec.structs.replace(report("float32"), dtypes=(*report("float32").dtypes, dtype("bfloat16", "missing")))
    with pytest.raises(HalftoneError) as caught:
        granted_precision("bfloat16", measured, DEVICE)
    assert caught.value.code == "precision-missing"
    assert str(caught.value) == "A processor cannot compute in BF16. Use FP32."
    assert granted_precision("float16", measured, DEVICE)[0] == "float16", "faulty is a warning, not a refusal"
    assert granted_precision("bfloat16", None, DEVICE) == ("bfloat16", "BF16, as set.")


def test_states_of_what_was_not_measured() -> None:
    assert state_of(None, "float16") is None
    assert states(report("float32")) == {"float16": "wrong", "float32": "works"}
