"""Verdicts: room in bits, healthy or not, and the badge a model wears."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from halftone.contract.facts import CheckReport, DeviceFacts, Finding, LayerPeak, ModelFacts
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import FLOAT_LIMITS, TIGHT_BITS, DType, FindingCode, Verdict
from halftone.contract.wording import Words
from halftone.library.records import staleness

Broken = Literal["file", "lora", "float32", "no-cure", "no-cure-known"]
BadgeState = Literal["healthy", "tight", "overflows", "cured", "unchecked", "broken"]

_HARMLESS: Final[frozenset[FindingCode]] = frozenset({"tight", "memory-damage", "weights-clipped"})
NOT_BY_PLAN: Final[frozenset[FindingCode]] = frozenset({"weights-nonfinite", "weights-clipped", "memory-damage"})
"""Bad numbers themselves: no way to compute with them helps."""
BEYOND: Final[frozenset[FindingCode]] = frozenset(
    {"nonfinite-output", "activation-overflow", "weights-overflow", "attention-overflow", "accumulation-overflow"}
)
"""Numbers beyond a limit; in FP32 that cannot be cured."""

ONCE: Final = "once"
"""Fact of a finding: the same numbers were computed again, and came out sound."""


class Badge(msgspec.Struct, frozen=True):
    """room_bits: the smallest room of all layers, under an applied cure. elsewhere: checked in another precision only."""

    state: BadgeState
    room_bits: float | None
    reason: Words | None
    elsewhere: bool = False


def came_once(finding: Finding) -> bool:
    """Whether a wrong result did not repeat when the same was computed again."""
    return finding.code == "memory-damage" and ONCE in finding.facts


def headroom_bits(peak: float | None, dtype: DType) -> float | None:
    """log2(limit / peak): negative when it overflows; None when there is no peak, or it is 0 or not finite."""
    if peak is None or not math.isfinite(peak) or peak <= 0:
        return None
    return math.log2(FLOAT_LIMITS[dtype]) - math.log2(peak)


def smallest_room(
    layers: Iterable[LayerPeak], dtype: DType, *, after_cure: bool = False, plan: Plan | None = None
) -> float | None:
    """Smallest headroom in bits over all layers; None when none has one.

    after_cure: by `peak_after`; in a component measured under the cure, layers without it do not count, in an unchanged one the
    peaks stand. plan: the cure; layers in a wider type are not bound by the limit of `dtype`, and do not count.
    """
    known = tuple(layer for layer in layers if plan is None or not after_cure or held_in(layer, dtype, plan) == dtype)
    cured = {layer.component for layer in known if layer.peak_after is not None} if after_cure else set[str]()
    peaks = (layer.peak_after if layer.component in cured else layer.peak for layer in known)
    return min((room for peak in peaks if (room := headroom_bits(peak, dtype)) is not None), default=None)


def innermost(layers: Sequence[tuple[str, str]], peaks: Sequence[float]) -> tuple[bool, ...]:
    """Which of these layers, by component and module, make their peak themselves: they contain no other of them, or have a larger
    peak than all these, such as a block whose sum is larger than its terms.
    """
    loudest: dict[tuple[str, str], float] = {}
    peaks = [math.inf if math.isnan(peak) else peak for peak in peaks]
    for (component, module), peak in zip(layers, peaks, strict=True):
        for end in (0, *(end for end, letter in enumerate(module) if letter == ".")) if module else ():
            holder = component, module[:end]
            loudest[holder] = max(loudest.get(holder, -math.inf), peak)
    return tuple(peak > loudest.get(layer, -math.inf) for layer, peak in zip(layers, peaks, strict=True))


def over_and_tight(layers: Sequence[tuple[str, str]], rooms: Sequence[float]) -> tuple[int, int]:
    """How many layers overflow and how many are tight, without the blocks around them. rooms: in bits."""
    over = _own({layer: room for layer, room in zip(layers, rooms, strict=True) if room < 0})
    beyond = _own({layer: room for layer, room in zip(layers, rooms, strict=True) if room < TIGHT_BITS})
    return len(over), sum(1 for room in beyond.values() if room >= 0)


def _own(rooms: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Those that make their peak themselves."""
    counts = innermost(tuple(rooms), [-room for room in rooms.values()])
    return {layer: room for (layer, room), own in zip(rooms.items(), counts, strict=True) if own}


def highest_peak(layers: Iterable[LayerPeak], findings: Iterable[Finding]) -> float | None:
    """The largest value in a check: of layers' outputs, or of findings (attention scores are in no layer)."""
    found = [finding.peak for finding in findings if finding.peak is not None]
    found += [further.peak for finding in findings for further in finding.further]
    return max([*found, *(layer.peak for layer in layers)], default=None)


def least_room(report: CheckReport) -> float | None:
    """Smallest headroom in bits of all layers and findings of a check, in its precision; None when none has one."""
    rooms = [headroom_bits(finding.peak, finding.dtype) for finding in report.findings if finding.dtype == report.precision]
    return min((room for room in (*rooms, smallest_room(report.layers, report.precision)) if room is not None), default=None)


def held_in(layer: LayerPeak, dtype: DType, plan: Plan) -> DType:
    """The type of a layer's output under a plan that changes a model in `dtype`.

    In a component with layers in float32, outputs beyond the limit of `dtype` are float32 too, if the plan passed the check: they
    come from these layers.
    """
    own = plan.dtypes.get(layer.component, dtype)
    names = plan.upcast_modules(layer.component)
    peak = layer.peak if layer.peak_after is None else layer.peak_after
    if any(not name or layer.module == name or layer.module.startswith(f"{name}.") for name in names):
        return "float32"
    return "float32" if names and plan.verified and peak > FLOAT_LIMITS[own] else own


def judge(findings: Sequence[Finding], plan: Plan, base: Plan | None = None) -> Verdict:
    """The verdict over a check's findings.

    plan: the suggested one; base: what the settings order without any cure (None: nothing). broken: no cure can help (bad numbers
    that are read from the file, or in FP32 too), or none passed. fixable: anything else that must be cured. tight: only layers
    with little room. Findings about numbers that nothing reads (facts "read": false) do not count, nor does damage in memory (the
    check read it again) or clipping in the file (every precision computes with it).
    """
    serious = [finding for finding in findings if is_serious(finding)]
    if any(_incurable(f) for f in serious) or (serious and not plan.verified):
        return "broken"
    if serious or _changes(plan, base):
        return "fixable"
    return "tight" if any(f.code == "tight" for f in findings) else "healthy"


def _changes(plan: Plan, base: Plan | None) -> bool:
    """Whether a plan does more than the settings order."""
    if base is None:
        return not plan.is_plain
    return (plan.dtypes, plan.rescale, plan.upcast, plan.settings) != (base.dtypes, base.rescale, base.upcast, base.settings)


def cut_off(report: CheckReport) -> Finding | None:
    """The first finding about weights at FP16's limit where nothing worse was found; None without one."""
    return clipped(report) if report.verdict in {"healthy", "tight"} else None


def clipped(report: CheckReport) -> Finding | None:
    """The first finding about weights at FP16's limit; None without one."""
    return next((finding for finding in report.findings if finding.code == "weights-clipped"), None)


def kept(old: CheckReport | None, new: CheckReport) -> tuple[CheckReport, bool]:
    """The report of a new check to store, and whether it ends a cure in force. A cure stays in force where the check suggests the
    same plan, and that plan passed. The measured error and the reasons of the plan may differ.
    """
    stays = old is not None and old.applied and new.plan.verified and not _changes(new.plan, old.plan)
    return msgspec.structs.replace(new, applied=stays), old is not None and old.applied and not stays


def tried(report: CheckReport, found: CheckReport) -> CheckReport:
    """The report of a check with the results of a later check of its plan alone: whether it holds, and its prices."""
    plan = msgspec.structs.replace(report.plan, verified=found.plan.verified, error=found.plan.error)
    measured = next(iter(found.cures), None)

    def priced(cure: Cure) -> Cure:
        if measured is None or _changes(cure.plan, report.plan):
            return cure
        known = {name: getattr(measured, name) for name in ("time_ratio", "time_spread", "memory_bytes", "psnr", "refusal")}
        return msgspec.structs.replace(cure, plan=plan, **known)

    return msgspec.structs.replace(report, plan=plan, cures=tuple(priced(cure) for cure in report.cures))


def is_cured(report: CheckReport) -> bool:
    """Whether a verified cure for the findings is in use."""
    return report.applied and report.verdict in {"fixable", "tight"} and report.plan.verified


def cured_room(report: CheckReport) -> float | None:
    """Smallest headroom in bits with the cure that is in use, as it was measured; None when no layer has one."""
    return smallest_room(report.layers, report.precision, after_cure=True, plan=report.plan)


def cured_by(plan: Plan, finding: Finding) -> bool:
    """Whether a plan that passed the check fixes a finding: never bad numbers in the file or in memory; a faulty precision when
    nothing runs in it; a tight layer when its component changes. Anything else would have failed the plan.
    """
    if finding.code in NOT_BY_PLAN:
        return False
    if finding.code == "device-fault":
        return bool(plan.dtypes) and finding.dtype not in plan.dtypes.values()
    name = finding.component
    changed = name in plan.rescale or name in plan.upcast or plan.dtypes.get(name, finding.dtype) != finding.dtype
    return finding.code != "tight" or changed or bool(plan.settings)


def disk_price(cure: Cure) -> int | None:
    """Bytes on the disk of a cure: a rescaling in memory takes none, only its saved copy does."""
    return 0 if cure.kind == "rescale" else cure.disk_bytes


def badge(report: CheckReport | None, model: ModelFacts, device: DeviceFacts, numerics: Numerics) -> Badge:
    """The badge of a model, from its last check (None: there was none) and later changes."""
    if report is None:
        return Badge("unchecked", None, Words("Not checked on this device yet."))
    changed = staleness(report, model, device, numerics)
    if changed is not None:
        return Badge("unchecked", None, changed)
    room = least_room(report)
    if report.verdict == "broken":
        return Badge("broken", room, Words(_WHY_BROKEN[why_broken(report)]))
    if report.applied and report.plan.verified:
        return Badge("cured", cured_room(report), Words("Passed the check with its cure."))
    if report.verdict == "fixable":
        return Badge("overflows", room, Words("It overflows or produces NaN. A cure is ready."))
    if cut_off(report) is not None:
        tight = "Less than 2 bits of headroom, and weights sit at the FP16 limit."
        roomy = "No overflow, but weights sit at the FP16 limit."
        return Badge("tight", room, Words(tight if report.verdict == "tight" else roomy))
    if report.verdict == "tight":
        return Badge("tight", room, Words("No overflow, but less than 2 bits of headroom."))
    return Badge("healthy", room, Words("Every layer has at least 2 bits of headroom."))


def why_broken(report: CheckReport) -> Broken:
    """The reason of a verdict "broken": numbers in the model's file or a LoRA's, bad numbers in float32, or failed cures."""
    serious = [finding for finding in report.findings if not _unread(finding)]
    damaged = [finding for finding in serious if finding.code == "weights-nonfinite"]
    if damaged:
        return "lora" if all("lora" in finding.facts for finding in damaged) else "file"
    if any(_incurable(finding) for finding in serious):
        return "float32"
    return "no-cure" if report.cures else "no-cure-known"


def damaged_lora(report: CheckReport) -> str:
    """Name of the first LoRA with bad numbers in its file; "" without one."""
    damaged = (finding for finding in report.findings if finding.code == "weights-nonfinite" and "lora" in finding.facts)
    return next((str(finding.facts["lora"]) for finding in damaged), "")


_WHY_BROKEN: Final[dict[Broken, str]] = {
    "file": "The file has NaN.",
    "lora": "A LoRA has NaN. Download it again or remove it.",
    "float32": "It produces NaN even in FP32.",
    "no-cure": "No cure passed the check.",
    "no-cure-known": "The check found no cure.",
}


def is_serious(finding: Finding) -> bool:
    """Whether a finding must be cured: not for tight layers, damage in memory, clipped weights or weights that nothing reads."""
    return finding.code not in _HARMLESS and not _unread(finding)


def _unread(finding: Finding) -> bool:
    return finding.code == "weights-nonfinite" and not finding.facts.get("read", True)


def _incurable(finding: Finding) -> bool:
    """Bad in the file, or beyond FP32 too: no type reaches further."""
    return finding.code == "weights-nonfinite" or (finding.code in BEYOND and finding.dtype == "float32")
