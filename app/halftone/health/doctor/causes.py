"""Signs, causes, and what can be done about each. A table, and the sum of its numbers.

The numbers are plain points: 5 and more where a sign alone nearly proves a cause, 3 where it is typical, 1 where it fits, below
zero against it.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from halftone.health.doctor.found import Advice, Sign, SignCode, Suspect, Suspicion
from halftone.health.doctor.setup import Setup


class _Case(NamedTuple):
    """needed: a cause needs one of these signs."""

    needed: frozenset[SignCode]
    points: Mapping[SignCode, int]
    advice: tuple[Advice, ...]


def _case(needed: Iterable[SignCode], points: Mapping[SignCode, int], *advice: Advice) -> _Case:
    return _Case(frozenset(needed), points, advice)


_CASES: Final[dict[Suspicion, _Case]] = {
    "vae-overflow": _case(
        ("nan-latents", "sdxl-half-vae"),
        {
            "nan-latents": 6,
            "sdxl-half-vae": 3,
            "first-step": 2,
            "first-logged": 1,
            "half": 1,
            "finite-then": -3,
            "second-step": -1,
        },
        "vae-float32",
        "bfloat16",
    ),
    "optimizer-epsilon": _case(
        ("weights-half-bad", "epsilon-zero"),
        {
            "weights-half-bad": 6,
            "epsilon-zero": 3,
            "second-step": 3,
            "half-weights": 1,
            "finite-then": -4,
            "after-validation": -2,
        },
        "epsilon-1e-4",
        "float32-states",
        "float32-master",
        "amsgrad",
        "bfloat16",
    ),
    "validation": _case(
        ("after-validation", "after-validation-again"),
        {
            "after-validation": 6,
            "after-validation-again": 2,
            "second-step": 2,
            "half": 1,
            "loss-rising": -2,
            "loss-exploding": -2,
            "gradient-spike": -2,
            "gradient-rising": -2,
        },
        "validate-apart",
        "watch",
    ),
    "optimizer-state": _case(
        ("after-resume",),
        {"after-resume": 5, "first-step": 1, "first-logged": 1, "loss-rising": -2, "loss-exploding": -2},
        "earlier-checkpoint",
        "new-optimizer-state",
    ),
    "weights-nonfinite": _case(
        ("weights-bad-before",),
        {"weights-bad-before": 6, "after-resume": 2, "first-step": 1, "first-logged": 1},
        "earlier-checkpoint",
    ),
    "activation-overflow": _case(
        ("half", "half-weights", "steady", "gradient-steady"),
        {
            "half": 3,
            "half-weights": 1,
            "steady": 3,
            "finite-then": 1,
            "gradient-steady": 1,
            "rate-low": 1,
            "first-step": 1,
            "scale-floor": 1,
            "scale-gone": 1,
            "recovers": 1,
            "weights-half-bad": -1,
            "loss-rising": -3,
            "loss-exploding": -3,
            "gradient-spike": -3,
            "gradient-rising": -3,
            "precision-untold": -2,
            "float32": -6,
            "bfloat16": -6,
        },
        "bfloat16",
        "watch",
    ),
    "learning-rate": _case(
        ("rate-high", "loss-exploding", "loss-rising", "gradient-spike", "gradient-rising", "warm-up-end", "loss-jump"),
        {
            "rate-high": 4,
            "loss-exploding": 5,
            "loss-rising": 4,
            "loss-jump": 3,
            "gradient-spike": 3,
            "gradient-rising": 3,
            "warm-up-end": 3,
            "no-clip": 1,
            "finite-then": 1,
            "steady": -2,
            "rate-low": -1,
            "first-step": -2,
            "second-step": 1,
        },
        "lower-rate",
        "warm-up",
        "clip-1",
        "cosine",
    ),
    "gradient-overflow": _case(
        ("gradient-first", "gradient-spike"),
        {"gradient-first": 5, "gradient-spike": 4, "half": 1, "no-clip": 1, "scale-falling": 1, "float32": -1},
        "clip-1",
        "grad-scaler",
        "bfloat16",
    ),
    "loss-scale": _case(
        ("scale-floor", "scale-gone", "scale-falling", "steps-skipped"),
        {"scale-floor": 6, "scale-gone": 6, "scale-falling": 3, "steps-skipped": 2, "half": 1},
        "bfloat16",
        "clip-1",
        "lower-rate",
    ),
    "data-nonfinite": _case(
        ("recovers", "nan-latents", "float32", "bfloat16"),
        {
            "recovers": 4,
            "nan-latents": 2,
            "steady": 2,
            "float32": 2,
            "bfloat16": 2,
            "first-step": 1,
            "loss-rising": -2,
            "loss-exploding": -2,
            "rate-high": -1,
        },
        "mend-file",
        "normalise",
    ),
}
_LEAST: Final = 2
"""Points below which nothing is suspected."""
_SHOWN: Final = 4


def suspects(signs: Iterable[Sign], setup: Setup) -> tuple[Suspect, ...]:
    """The likeliest first; equal ones in the table's order."""
    seen = tuple(signs)
    codes: set[SignCode] = {sign.code for sign in seen}
    found: list[Suspect] = []
    for cause, case in _CASES.items():
        score = sum(case.points.get(code, 0) for code in codes)
        if codes & case.needed and score >= _LEAST:
            found.append(
                Suspect(
                    cause=cause,
                    score=score,
                    signs=_weighed(seen, case, speak=1),
                    against=_weighed(seen, case, speak=-1),
                    advice=useful(case.advice, setup),
                )
            )
    return tuple(sorted(found, key=lambda one: -one.score)[:_SHOWN])


def _weighed(signs: Iterable[Sign], case: _Case, *, speak: int) -> tuple[Sign, ...]:
    """Signs for (1) or against (-1), the weightiest first, each kind once."""
    told: dict[SignCode, Sign] = {sign.code: sign for sign in signs if case.points.get(sign.code, 0) * speak > 0}
    return tuple(sorted(told.values(), key=lambda sign: -abs(case.points[sign.code])))


def useful(advice: Iterable[Advice], setup: Setup) -> tuple[Advice, ...]:
    """The advice that the run does not follow already."""
    had: set[Advice] = set()
    if setup.precision == "bfloat16":
        had.add("bfloat16")
    if setup.clip is not None and 0 < setup.clip <= 1:
        had.add("clip-1")
    if setup.warm_up:
        had.add("warm-up")
    if setup.falling:
        had.add("cosine")
    if setup.precision in {"float32", "bfloat16"}:
        had.add("grad-scaler")
    return tuple(one for one in advice if one not in had)
