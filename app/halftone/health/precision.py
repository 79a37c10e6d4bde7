"""Which precision runs, and why: the wish of the user against what the self-test measured."""

from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, DTypeReport, SelfTestReport
from halftone.contract.words import DTYPE_NAMES, DType, DTypeState, Precision
from halftone.health.timing import is_measurable


def choose_auto(dtypes: tuple[DTypeReport, ...]) -> tuple[DType, str]:
    """The fastest dtype that passed every test of the self-test, and a sentence that says why.

    A dtype that passed but is no faster than float32 counts as slow: float32 computes the same and keeps more. At equal speed
    (within 10 %) float16 comes before bfloat16, because it keeps 11 bits of detail instead of 8 and the check cures what
    overflows.
    """
    passed = [d for d in dtypes if d.state == "works" and d.dtype != "float32" and d.speed is not None]
    others = _others(dtypes)
    if not passed:
        return "float32", f"FP32, because {others}." if others else "FP32, because nothing else was measured."
    best = max(passed, key=lambda d: _speed(d) * (1.1 if d.dtype == "float16" else 1.0))
    return best.dtype, _sentence(best, passed, others)


def resolve_precision(wanted: Precision, report: SelfTestReport | None, device: DeviceFacts) -> tuple[DType, str]:
    """(dtype to run in, the reason as a sentence). An explicit wish is granted; what the self-test says against it stands in
    the reason.
    """
    if wanted == "auto":
        if report is None:
            return "float32", f"FP32, because {device.name} has not been measured yet."
        return report.auto, report.auto_reason
    state = state_of(report, wanted)
    if state in {"wrong", "missing"}:
        return wanted, f"{DTYPE_NAMES[wanted]}, as set, though the self-test found it {_STATES[state]} on {device.name}."
    return wanted, f"{DTYPE_NAMES[wanted]}, as set."


def granted_precision(wanted: Precision, report: SelfTestReport | None, device: DeviceFacts) -> tuple[DType, str]:
    """`resolve_precision` for what is to run now. Raises HalftoneError precision-missing for a dtype that the device has not."""
    dtype, reason = resolve_precision(wanted, report, device)
    if report is not None and state_of(report, dtype) == "missing":
        known = [DTYPE_NAMES[d.dtype] for d in report.dtypes if d.state in {"works", "slow"}]
        raise HalftoneError(
            "precision-missing", device=device.name, dtype=DTYPE_NAMES[dtype], known=" or ".join(known) or DTYPE_NAMES["float32"]
        )
    return dtype, reason


def state_of(report: SelfTestReport | None, dtype: DType) -> DTypeState | None:
    """Verdict of the self-test on one dtype, None when it was not measured."""
    return states(report).get(dtype)


def states(report: SelfTestReport | None) -> dict[DType, DTypeState]:
    """Verdicts of all measured dtypes."""
    return {} if report is None else {d.dtype: d.state for d in report.dtypes}


_STATES: Final[dict[DTypeState, str]] = {"works": "sound", "wrong": "faulty", "slow": "slow", "missing": "missing"}
_FAILS: Final[dict[DTypeState, str]] = {"wrong": "is faulty here", "missing": "is missing here"}


def _speed(report: DTypeReport) -> float:
    return report.speed or 0.0


def _sentence(best: DTypeReport, passed: list[DTypeReport], others: str) -> str:
    said = f"{DTYPE_NAMES[best.dtype]} passed every test and is about {_speed(best):.1f} × as fast as FP32"
    rest = [f"{DTYPE_NAMES[d.dtype]} {_speed(d):.1f} ×" for d in passed if d is not best]
    if rest:
        said += f" ({', '.join(rest)})"
    return f"{said}, while {others}." if others else f"{said}."


def _others(dtypes: tuple[DTypeReport, ...]) -> str:
    return " and ".join(f"{DTYPE_NAMES[d.dtype]} {_fails(d)}" for d in dtypes if d.state != "works" and d.dtype != "float32")


def _fails(report: DTypeReport) -> str:
    """Why Auto passes over it. How much slower its operations were is no price of a picture, and stands with the self-test."""
    if report.state != "slow":
        return _FAILS[report.state]
    slower = report.speed is not None and report.speed < 1.0 and is_measurable(report.speed, report.spread)
    return "is slower than FP32 here" if slower else "is no faster than FP32 here"
