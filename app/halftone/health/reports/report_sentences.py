"""Words that the command line and the page of a report share: verdicts, states of findings, cures and their prices."""

from gettext import NullTranslations
from typing import Final, Literal

from halftone.contract.facts import CheckReport, Finding
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Extras
from halftone.contract.vocabulary import DTYPE_NAMES, CureKind, DTypeState, FindingCode
from halftone.contract.wording import ENGLISH, Words
from halftone.health.forecasts.timing import is_measurable
from halftone.health.judge import Broken, came_once, cut_off, damaged_lora, is_cured, why_broken
from halftone.health.part_names import percent, share_of_change

Tone = Literal["ok", "warn", "danger", "unknown"]

FINDING_STATES: Final[dict[FindingCode, tuple[str, Tone]]] = {
    "weights-nonfinite": ("Damaged", "danger"),
    "weights-overflow": ("Overflows", "danger"),
    "weights-clipped": ("At the limit", "warn"),
    "activation-overflow": ("Overflows", "danger"),
    "attention-overflow": ("Overflows", "danger"),
    "accumulation-overflow": ("Overflows", "danger"),
    "underflow": ("Too small", "warn"),
    "flat-output": ("One colour", "danger"),
    "saturated-output": ("Wrong", "danger"),
    "inexact-output": ("Wrong", "danger"),
    "nonfinite-output": ("Bad number", "danger"),
    "tight": ("Tight", "warn"),
    "device-fault": ("Device", "danger"),
    "memory-damage": ("Damaged", "warn"),
}
"""One word for each kind of finding, and how bad it is."""
CAME_ONCE: Final[tuple[str, Tone]] = ("Came once", "warn")
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
    "rescale": "Rescale in memory: the file stays as it is",
    "setting": "Change a setting",
    "upcast-region": "Run the smallest region in FP32",
    "bfloat16": "Run the component in BF16",
    "float32-component": "Run the component in FP32",
    "float32-all": "Run everything in FP32",
}

BROKEN: Final[dict[Broken, str]] = {
    "file": "{0} holds broken numbers.",
    "lora": "The LoRA {3} holds broken numbers: {0} cannot run with it.",
    "float32": "{0} gives bad numbers in FP32, too.",
    "no-cure": "{0} does not hold in {1} on {2}, and no cure passed the check.",
    "no-cure-known": "{0} does not hold in {1} on {2}, and the check found no cure.",
}
"""What is said of a model that no cure can help, by what that rests on. {0} model, {1} type, {2} device, {3} LoRA."""


def finding_state(finding: Finding) -> tuple[str, Tone]:
    """Word and tone of a finding."""
    return CAME_ONCE if came_once(finding) else FINDING_STATES[finding.code]


def verdict_words(report: CheckReport) -> tuple[Words, Tone]:
    """The verdict in a sentence, and how good it is."""
    values = (report.model.name, DTYPE_NAMES[report.precision], report.device.name)
    if is_cured(report):
        return Words("{0} holds in {1} on {2} with its cure, which is in use.", values), "ok"
    if (finding := cut_off(report)) is not None:
        where = str(finding.facts.get("file", "")) or Words("a file")
        tight = "{0} works in {1} on {2}, with little room. Numbers in {3} stand at FP16's limit."
        roomy = "{0} works in {1} on {2}, but numbers in {3} stand at FP16's limit."
        return Words(tight if report.verdict == "tight" else roomy, (*values, where)), "warn"
    match report.verdict:
        case "healthy":
            return Words("{0} is healthy in {1} on {2}.", values), "ok"
        case "tight":
            return Words("{0} works in {1} on {2}, with little room.", values), "warn"
        case "fixable":
            return Words("{0} does not hold in {1} on {2}, and there is a cure.", values), "danger"
        case "broken":
            return Words(BROKEN[why_broken(report)], (*values, damaged_lora(report))), "danger"


def size_words(report: CheckReport, catalogue: NullTranslations = ENGLISH) -> str:
    """Name the sizes that a check ran, "512 × 512" or "9 frames of 256 × 448"; empty where nothing had to run."""
    sizes = ((frames, f"{width} × {height}") for width, height, frames in report.sizes)
    return ", ".join(
        size if frames == 1 else Words("{0} frames of {1}", (frames, size)).text(catalogue) for frames, size in sizes
    )


def used_words(report: CheckReport) -> str:
    """When a cure that is in force is used."""
    if report.transformer is not None:
        alone = report.extras == Extras(transformer=report.transformer)
        what = "this transformer" if alone else "just these parts"
        return f"It is used whenever this model runs with {what} on this device."
    if report.controls:
        return "It is used whenever this model runs with just these ControlNets on this device."
    if report.ip_adapters:
        return "It is used whenever this model runs with just these IP-Adapters on this device."
    if report.vae is not None and report.loras:
        return "It is used whenever this model runs with this VAE and these LoRAs on this device."
    if report.vae is not None:
        return "It is used whenever this model runs with this VAE on this device."
    if report.loras:
        return "It is used whenever this model runs with these LoRAs on this device."
    return "It is used whenever this model runs on this device."


def exactness_words(plan: Plan) -> Words | None:
    """Whether a rescaling changes the result, and by how much; None for a plan without one."""
    if not plan.rescale:
        return None
    change = plan.change
    if change is None:
        return Words("Whether the rescaling is exact was not measured.")
    if not change:
        return Words("The rescaling is exact: in exact arithmetic the result is the same.")
    return Words("The rescaling is not exact: it was measured to change the result by up to {0}.", (share_of_change(change),))


def slower_words(cure: Cure) -> Words | None:
    """Say what a cure costs in time; None where that was not measured. What is within the spread of the runs counts as 0."""
    if cure.time_ratio is None:
        return None
    if not is_measurable(cure.time_ratio, cure.time_spread):
        return Words("about {0}", ("0\u00a0%",))
    return Words("about {0}", (percent(cure.time_ratio - 1),))
