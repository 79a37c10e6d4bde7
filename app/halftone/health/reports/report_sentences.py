"""Words that the command line and the page of a report share: verdicts, states of findings, cures and their prices."""

from gettext import NullTranslations
from typing import Final, Literal

from halftone.contract.facts import CheckReport, Finding
from halftone.contract.plan import Cure, Plan, is_epsilon
from halftone.contract.request import Extras
from halftone.contract.vocabulary import DTYPE_NAMES, CureKind, DTypeState, FindingCode
from halftone.contract.wording import ENGLISH, Words
from halftone.health.forecasts.timing import is_measurable
from halftone.health.judge import Broken, came_once, clipped, damaged_lora, is_cured, why_broken
from halftone.health.part_names import percent, share_of_change

Tone = Literal["ok", "warn", "danger", "unknown"]

FINDING_STATES: Final[dict[FindingCode, tuple[str, Tone]]] = {
    "weights-nonfinite": ("Damaged", "danger"),
    "weights-overflow": ("Overflows", "danger"),
    "weights-clipped": ("At the limit", "warn"),
    "activation-overflow": ("Overflows", "danger"),
    "attention-overflow": ("Overflows", "danger"),
    "accumulation-overflow": ("Overflows", "danger"),
    "underflow": ("Underflows", "warn"),
    "flat-output": ("One colour", "danger"),
    "saturated-output": ("Wrong", "danger"),
    "inexact-output": ("Wrong", "danger"),
    "nonfinite-output": ("NaN", "danger"),
    "tight": ("Tight", "warn"),
    "device-fault": ("Device", "danger"),
    "memory-damage": ("Damaged", "warn"),
}
"""One word for each kind of finding, and how bad it is."""
CAME_ONCE: Final[tuple[str, Tone]] = ("One-off", "warn")
"""The same for a wrong result that did not come again."""

DTYPE_STATES: Final[dict[DTypeState, tuple[str, Tone]]] = {
    "works": ("works", "ok"),
    "slow": ("slow", "warn"),
    "wrong": ("faulty", "danger"),
    "missing": ("missing", "unknown"),
}
"""What the self-test found of a precision."""

CURE_TITLES: Final[dict[CureKind, str]] = {
    "none": "Nothing to do",
    "rescale": "Rescale in memory",
    "setting": "Change a setting",
    "upcast-region": "Smallest region in FP32",
    "bfloat16": "Component in BF16",
    "float32-component": "Component in FP32",
    "float32-all": "Everything in FP32",
}

BROKEN: Final[dict[Broken, str]] = {
    "file": "{0} has NaN in its file.",
    "lora": "The LoRA {3} has NaN, so {0} cannot run with it.",
    "float32": "{0} produces NaN even in FP32.",
    "no-cure": "{0} fails in {1} on {2}, and no cure passed the check.",
    "no-cure-known": "{0} fails in {1} on {2}, and the check found no cure.",
}
"""What is said of a model that no cure can help, by what that rests on. {0} model, {1} type, {2} device, {3} LoRA."""


def finding_state(finding: Finding) -> tuple[str, Tone]:
    """Word and tone of a finding."""
    return CAME_ONCE if came_once(finding) else FINDING_STATES[finding.code]


def verdict_words(report: CheckReport) -> tuple[Words, Tone]:
    """The verdict in a sentence or two, and how good it is."""
    said, tone = _verdict(report)
    finding = clipped(report)
    if finding is None or report.verdict == "broken":
        return said, tone
    where = str(finding.facts.get("file", "")) or Words("a file")
    return Words("{0} Weights in {1} sit at the FP16 limit.", (said, where)), "warn" if tone == "ok" else tone


def _verdict(report: CheckReport) -> tuple[Words, Tone]:
    values = (report.model.name, DTYPE_NAMES[report.precision], report.device.name)
    if is_cured(report):
        return Words("{0} works in {1} on {2} with its cure, which is in use.", values), "ok"
    match report.verdict:
        case "healthy" if clipped(report) is not None:
            return Words("{0} works in {1} on {2}.", values), "ok"
        case "healthy":
            return Words("{0} is healthy in {1} on {2}.", values), "ok"
        case "tight":
            return Words("{0} works in {1} on {2}, with little headroom.", values), "warn"
        case "fixable":
            return Words("{0} fails in {1} on {2}. A cure is ready.", values), "danger"
        case "broken":
            return Words(BROKEN[why_broken(report)], (*values, damaged_lora(report))), "danger"


def size_words(report: CheckReport, catalogue: NullTranslations = ENGLISH) -> str:
    """Name the sizes that a check ran, "512 × 512" or "9 frames of 256 × 448"; empty where nothing had to run."""
    sizes = ((frames, f"{width} × {height}") for width, height, frames in report.sizes)
    return ", ".join(
        size if frames == 1 else Words("{0} frames of {1}", (frames, size)).text(catalogue) for frames, size in sizes
    )


def used_words(report: CheckReport) -> Words:
    """When a cure that is in force is used."""
    if report.extras != Extras():
        return Words("It is used with this model and exactly these add-ons on this device.")
    return Words("It is used with this model on this device.")


def exactness_words(plan: Plan) -> Words | None:
    """Whether a rescaling changes the result, and by how much; None for a plan without one."""
    if not plan.rescale:
        return None
    change = plan.change
    if change is None:
        return Words("Not measured whether the rescaling is exact.")
    if not change:
        if any(is_epsilon(name) for own in plan.rescale.values() for name in own):
            return Words("Exact but for rounding. A copy cannot store norm epsilons, so it may differ.")
        return Words("Exact but for rounding.")
    return Words("Not exact: the result changed by up to {0}.", (share_of_change(change),))


def slower_words(cure: Cure) -> Words | None:
    """Say what a cure costs in time; None where that was not measured. What is within the spread of the runs counts as 0."""
    if cure.time_ratio is None:
        return None
    if not is_measurable(cure.time_ratio, cure.time_spread):
        return Words("about {0}", ("0\u00a0%",))
    return Words("about {0}", (percent(cure.time_ratio - 1),))
