"""Which precision runs, and why: the user's setting, the self-test, and what is known of the model's numbers."""

from collections.abc import Callable
from typing import Final, NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import CheckReport, DeviceFacts, DTypeReport, ModelFacts, SelfTestReport
from halftone.contract.request import Extras, Numerics
from halftone.contract.vocabulary import DTYPE_NAMES, CureKind, DType, DTypeState, Precision
from halftone.contract.wording import Value, Words, both, either
from halftone.health.forecasts.timing import is_measurable
from halftone.library.add_ons.denoisers import stored_denoiser
from halftone.library.families.known_families import runs_wide
from halftone.library.records import load_report, staleness

AT_SPEED: Final = 0.75
"""Share of the speed of float16 from which bfloat16 counts as available at speed: its range is worth that much time."""


class Weights(NamedTuple):
    """stored: the type of the denoiser's weights, as in `ModelFacts.stored_dtype`; check: the valid one in float16."""

    family: str
    stored: str
    check: CheckReport | None = None


def choose_auto(dtypes: tuple[DTypeReport, ...]) -> tuple[DType, Words]:
    """The fastest dtype that passed every test of the self-test, and the reason as a sentence.

    A dtype that is no faster than float32 counts as slow: float32 keeps more. At equal speed (within 10 %) float16 comes before
    bfloat16: it keeps 11 bits of detail instead of 8, and the check cures its overflows.
    """
    passed = [d for d in dtypes if d.state == "works" and d.dtype != "float32" and d.speed is not None]
    fails = [_fails(d) for d in dtypes if d.state != "works" and d.dtype != "float32"]
    others = both(*fails) if fails else None
    if not passed:
        nothing = Words("FP32, because nothing else was measured.")
        return "float32", nothing if others is None else Words("FP32, because {0}.", (others,))
    best = max(passed, key=lambda d: _speed(d) * (1.1 if d.dtype == "float16" else 1.0))
    return best.dtype, _sentence(best, passed, others)


def follow_weights(report: SelfTestReport, weights: Weights) -> tuple[DType, Words]:
    """Auto's choice for a model with these weights, and the reason as a sentence.

    A model changes the device's choice only where that is float16: a wider type is never traded for a narrower or slower one.
    bfloat16 runs what needs its range: a model that is stored in it, that others run in it, or whose overflows no cure in float16
    fixes. Where it is not at speed (`AT_SPEED`), float16 runs such a model too: the guard recovers overflows, and float32 would
    take several times as long for every picture. So does a check in float16 that found headroom in every layer, or whose cure is
    in force: float16 keeps 11 bits of detail instead of 8. Other stored types (float32, 8 bits, GGUF) say nothing of the range,
    so the family decides.
    """
    if report.auto != "float16":
        return report.auto, report.auto_reason
    why, proven = _need(weights), _proven(weights.check)
    if why is None:
        return report.auto, report.auto_reason
    if proven is not None:
        return "float16", Words("FP16, because {0}, although {1}.", (proven, why))
    half, brain = _reported(report, "float16"), _reported(report, "bfloat16")
    if auto_follows_model(report):
        template = "BF16, because {0}; it is about {1} × as fast as FP32 here (FP16 {2} ×)."
        return "bfloat16", Words(template, (why, f"{_speed(brain):.1f}", f"{_speed(half):.1f}"))
    if brain is None:
        against = Words("{0} is missing here", ("BF16",))
    else:
        against = Words("{0} is much slower than FP16 here", ("BF16",)) if brain.state == "works" else _fails(brain)
    return "float16", Words("FP16, because {0}, although {1}.", (against, why))


def auto_follows_model(report: SelfTestReport) -> bool:
    """Whether Auto takes float16 for some models here and bfloat16 for others: both passed, and bfloat16 is at speed."""
    half, brain = _reported(report, "float16"), _reported(report, "bfloat16")
    if report.auto != "float16" or brain is None or brain.state != "works":
        return False
    return _speed(brain) >= AT_SPEED * _speed(half)


def weights_matter(wanted: Precision, report: SelfTestReport | None) -> bool:
    """Whether the precision depends on the model."""
    return wanted == "auto" and report is not None and report.auto == "float16"


def resolve_precision(
    wanted: Precision, report: SelfTestReport | None, device: DeviceFacts, weights: Weights | None = None
) -> tuple[DType, Words]:
    """(dtype to run in, the reason as a sentence). An explicit setting is granted; the reason has the self-test's objection.
    weights: None where no model runs, or where its weights do not matter.
    """
    if wanted == "auto":
        if report is None:
            return "float32", Words("FP32 until {0} is measured.", (device.name,))
        return (report.auto, report.auto_reason) if weights is None else follow_weights(report, weights)
    state = state_of(report, wanted)
    if state in {"wrong", "missing"}:
        return wanted, Words(_AGAINST_TEST, (DTYPE_NAMES[wanted], Words(_STATES[state]), device.name))
    return wanted, Words(AS_SET, (DTYPE_NAMES[wanted],))


def model_precision(
    numerics: Numerics,
    report: SelfTestReport | None,
    device: DeviceFacts,
    model: ModelFacts,
    extras: Extras,
    load: Callable[[ModelFacts, DeviceFacts, DType, Extras], CheckReport | None] = load_report,
) -> tuple[DType, Words]:
    """`resolve_precision` for a model with these extras. load: gives the stored check, only where it matters."""
    weights: Weights | None = None
    if weights_matter(numerics.precision, report):
        check = load(model, device, "float16", extras)
        holds = check is not None and staleness(check, model, device, numerics) is None
        weights = Weights(model.family, stored_denoiser(model, extras.transformer), check if holds else None)
    return resolve_precision(numerics.precision, report, device, weights)


def granted_precision(wanted: Precision, report: SelfTestReport | None, device: DeviceFacts) -> tuple[DType, Words]:
    """`resolve_precision` for a run now. Raises HalftoneError precision-missing for a dtype that the device lacks."""
    return _granted(resolve_precision(wanted, report, device), report, device)


def granted_to(
    numerics: Numerics, report: SelfTestReport | None, device: DeviceFacts, model: ModelFacts, extras: Extras
) -> tuple[DType, Words]:
    """`model_precision` for a run now. Raises HalftoneError precision-missing, as `granted_precision`."""
    return _granted(model_precision(numerics, report, device, model, extras), report, device)


def _granted(chosen: tuple[DType, Words], report: SelfTestReport | None, device: DeviceFacts) -> tuple[DType, Words]:
    dtype, reason = chosen
    if report is not None and state_of(report, dtype) == "missing":
        known = [DTYPE_NAMES[d.dtype] for d in report.dtypes if d.state in {"works", "slow"}]
        raise HalftoneError(
            "precision-missing", device=device.name, dtype=DTYPE_NAMES[dtype], known=either(*(known or [DTYPE_NAMES["float32"]]))
        )
    return dtype, reason


def state_of(report: SelfTestReport | None, dtype: DType) -> DTypeState | None:
    """Verdict of the self-test on one dtype, None when it was not measured."""
    return states(report).get(dtype)


def states(report: SelfTestReport | None) -> dict[DType, DTypeState]:
    """Verdicts of all measured dtypes."""
    return {} if report is None else {d.dtype: d.state for d in report.dtypes}


_WIDER: Final[frozenset[CureKind]] = frozenset({"bfloat16", "float32-component", "float32-all"})
_STATES: Final[dict[DTypeState, str]] = {"works": "sound", "wrong": "faulty", "slow": "slow", "missing": "missing"}
_FAILS: Final[dict[DTypeState, str]] = {"wrong": "{0} is faulty here", "missing": "{0} is missing here"}
AS_SET: Final = "{0}, your setting."
_AGAINST_TEST: Final = "{0}, your setting, but the self-test found it {1} on {2}."


def is_set(reason: Words) -> bool:
    """Whether a precision runs because the user set it."""
    return reason.template in (AS_SET, _AGAINST_TEST)


def is_measured(reason: Words) -> bool:
    """Whether a precision runs because it was the fastest of the self-test."""
    return reason.template.startswith(_FASTEST)


def _need(weights: Weights) -> Words | None:
    """Why the range of float16 may be too small for a model, as a clause; None where nothing says so."""
    if weights.stored == "bfloat16":
        return Words("this model is stored in BF16")
    if runs_wide(weights.family):
        return Words("{0} models are made for BF16", (weights.family,))
    beyond = weights.check is not None and any(cure.suggested and cure.kind in _WIDER for cure in weights.check.cures)
    return Words("no cure keeps all of it in FP16") if beyond else None


def _proven(check: CheckReport | None) -> Words | None:
    """Why float16 is enough, as a clause; None where nothing proves it."""
    if check is not None and check.applied and check.plan.verified:
        return Words("its cure passed the check")
    return Words("the check found enough headroom") if check is not None and check.verdict == "healthy" else None


def _reported(report: SelfTestReport, dtype: DType) -> DTypeReport | None:
    return next((one for one in report.dtypes if one.dtype == dtype), None)


def _speed(report: DTypeReport | None) -> float:
    return 0.0 if report is None else report.speed or 0.0


_FASTEST: Final = "{0} passed every test and is about {1} × as fast as FP32"


def _sentence(best: DTypeReport, passed: list[DTypeReport], others: Words | str | None) -> Words:
    values: list[Value] = [DTYPE_NAMES[best.dtype], f"{_speed(best):.1f}"]
    rest = tuple(f"{DTYPE_NAMES[d.dtype]} {_speed(d):.1f} ×" for d in passed if d is not best)
    match bool(rest), others is not None:
        case True, True:
            end = " ({2}), while {3}."
        case True, False:
            end = " ({2})."
        case False, True:
            end = ", while {2}."
        case _:
            end = "."
    return Words(_FASTEST + end, (*values, *((rest,) if rest else ()), *((others,) if others is not None else ())))


def _fails(report: DTypeReport) -> Words:
    """Why Auto skips a type. How much slower single operations were is in the self-test."""
    name = DTYPE_NAMES[report.dtype]
    if report.state != "slow":
        return Words(_FAILS[report.state], (name,))
    slower = report.speed is not None and report.speed < 1.0 and is_measurable(report.speed, report.spread)
    return Words("{0} is slower than FP32 here" if slower else "{0} is no faster than FP32 here", (name,))
