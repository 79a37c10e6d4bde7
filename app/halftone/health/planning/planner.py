"""Cures as plans, cheapest first: rescaling, settings, the smallest float32 region, bfloat16, float32. All is computed from
measured peaks; a plan is offered only after the engine verified it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import msgspec

from halftone.contract.facts import Finding, LayerPeak
from halftone.contract.plan import Plan, handed_on, is_epsilon, rescaled_modules
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DTYPE_NAMES, FLOAT_LIMITS, TIGHT_BITS, CureKind, DType, DTypeState, FindingCode
from halftone.contract.wording import Words, both
from halftone.health.judge import NOT_BY_PLAN
from halftone.health.part_names import plain_component, share_of_change
from halftone.health.planning.rescaling import (
    MARGIN_BITS,
    RescaleGroup,
    TensorPeaks,
    choose_shifts,
    deviations,
    exponents,
    peaks_after,
)

__all__ = ["MARGIN_BITS", "Region", "RescaleGroup", "candidate_plans"]

BY_SCALE: Final[frozenset[FindingCode]] = frozenset({"activation-overflow", "weights-overflow", "tight"})
"""Findings that a rescaling can cure."""
_BY_SETTING: Final[frozenset[FindingCode]] = frozenset({"attention-overflow", "accumulation-overflow", "underflow"})
_VAES: Final = ("vae", "vqvae", "vqgan", "movq")
"""Names in the libraries of the component that decodes latents."""


@dataclass(frozen=True, slots=True)
class Region:
    """A block that can run in float32 between boundary casts.

    modules: dotted prefixes of the block, the last one giving the block's output; parameters: their number; readers: names of
    later regions, other than the next, that read this block's output (skip connections).
    """

    component: str
    name: str
    modules: tuple[str, ...]
    parameters: int
    readers: tuple[str, ...] = ()


def candidate_plans(
    groups: Sequence[RescaleGroup],
    layers: Sequence[LayerPeak],
    regions: Sequence[Region],
    components: Mapping[str, int],
    dtype: DType,
    states: Mapping[DType, DTypeState],
    *,
    findings: Sequence[Finding] = (),
    numerics: Numerics | None = None,
    tensors: TensorPeaks | None = None,
    margin_bits: float = MARGIN_BITS,
) -> list[tuple[CureKind, Plan]]:
    """Plans that may cure the findings, cheapest first (NUMERICS 3); empty when nothing needs a cure or none can help.

    layers: peaks of a range pass in running order; regions: blocks in running order; components: parameters of each running
    component; dtype: the wanted precision; states: verdict of the self-test per dtype (missing ones count as missing); findings:
    beyond the peaks; tensors: peaks of the stored tensors. A kind may appear twice: a float32 region as small as the peaks allow,
    then with its tight neighbours.
    """
    case = _Case(
        tuple(groups), tuple(layers), tuple(regions), dict(components), dtype, dict(states), tuple(findings),
        numerics or Numerics(), tensors or {}, margin_bits,
    )  # fmt: skip
    if not case.sick or not case.curable:
        return []
    plans = _components(case)
    if not case.faulty:
        plans = [*_regions(case), *plans]
        if case.rescale and not case.left:
            plans.insert(0, ("rescale", case.plan(rescale=True, settings=bool(case.settings))))
        elif case.settings and not case.rescale and not case.left:
            plans.insert(0, ("setting", case.plan(settings=True)))
    vaes = [component for component in components if component.startswith(_VAES)]
    if case.numerics.vae_float32 == "never" and case.dtype != "float32":  # rules the whole VAE in float32 out
        plans = [offer for offer in plans if not any(offer[1].dtypes[vae] == "float32" for vae in vaes)]
    return [plan for index, plan in enumerate(plans) if plan[1] not in [earlier for _, earlier in plans[:index]]]


@dataclass(frozen=True)
class _Case:
    """The facts for plans, and their consequences."""

    groups: tuple[RescaleGroup, ...]
    layers: tuple[LayerPeak, ...]
    regions: tuple[Region, ...]
    components: dict[str, int]
    dtype: DType
    states: dict[DType, DTypeState]
    findings: tuple[Finding, ...]
    numerics: Numerics
    tensors: TensorPeaks
    margin_bits: float
    base: dict[str, DType] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", dict.fromkeys(self.components, self.dtype))

    @cached_property
    def over(self) -> set[tuple[str, str]]:
        """Modules that pass the limit or carry a finding."""
        limit = FLOAT_LIMITS[self.dtype]
        by_peak = {(p.component, p.module) for p in self.layers if not p.peak <= limit}
        named = {(f.component, f.module) for f in self.findings if f.code not in NOT_BY_PLAN | {"tight", "device-fault"}}
        return {key for key in by_peak | named if key[0] in self.components}

    @property
    def faulty(self) -> bool:
        """The device computes wrongly in this precision: only another one helps."""
        return any(f.code == "device-fault" for f in self.findings)

    @property
    def curable(self) -> bool:
        """False when numbers are bad in the range pass too, or in the file."""
        read = any(f.code == "weights-nonfinite" and f.facts.get("read", True) for f in self.findings)
        return not read and all(math.isfinite(p.peak) for p in self.layers)

    @cached_property
    def sick(self) -> tuple[str, ...]:
        """Components that need a cure, in running order."""
        found = set(self.components) if self.faulty else {component for component, _ in self.over}
        return tuple(component for component in self.components if component in found)

    @cached_property
    def shifts(self) -> list[int]:
        groups = [g for g in self.groups if g.component in self.sick]
        chosen = iter(choose_shifts(groups, self.layers, self.dtype, self.margin_bits, self.tensors))
        return [next(chosen) if g.component in self.sick else 0 for g in self.groups]

    @cached_property
    def rescale(self) -> dict[str, dict[str, int]]:
        return exponents(self.groups, self.shifts)

    @cached_property
    def deviation(self) -> dict[str, float]:
        """Relative change by the groups that are not exact, by component."""
        return deviations(self.groups, self.shifts)

    @cached_property
    def after(self) -> dict[tuple[str, str], float]:
        """Peaks once rescaled."""
        return peaks_after(self.groups, self.shifts, self.layers)

    @cached_property
    def settings(self) -> dict[str, str | bool]:
        return _safe_settings({f.code for f in self.findings}, self.numerics)

    @cached_property
    def left(self) -> set[tuple[str, str]]:
        """Modules that rescaling and settings leave over the limit."""
        limit = FLOAT_LIMITS[self.dtype]
        scaled = {key for key, peak in self.after.items() if not peak <= limit}
        cured: frozenset[FindingCode] = BY_SCALE | (_BY_SETTING if self.settings else frozenset())
        named = {(f.component, f.module) for f in self.findings if f.code not in cured | NOT_BY_PLAN | {"device-fault"}}
        return {key for key in scaled | named if key in self.over}

    @property
    def total(self) -> int:
        return sum(self.components.values())

    def plan(
        self,
        *,
        dtypes: Mapping[str, DType] | None = None,
        rescale: bool = False,
        settings: bool = False,
        upcast: Mapping[str, tuple[str, ...]] | None = None,
        moved: int = 0,
        reasons: Iterable[Words] = (),
    ) -> Plan:
        why = [*reasons]
        if rescale:
            why += _rescale_reasons(self)
        if settings:
            why += [_SETTING_REASONS[name] for name in self.settings]
        return Plan(
            dtypes={**self.base, **(dtypes or {})},
            rescale=self.rescale if rescale else {},
            deviation=self.deviation if rescale else None,
            upcast=dict(upcast or {}),
            settings=self.settings if settings else {},
            upcast_parameters=moved,
            total_parameters=self.total,
            reasons=tuple(why),
        )


def _regions(case: _Case) -> list[tuple[CureKind, Plan]]:
    """As small as the peaks allow beside a rescaling, then without one, then with tight neighbours."""
    plans: list[tuple[CureKind, Plan]] = []
    tight = FLOAT_LIMITS[case.dtype] * 2.0**-TIGHT_BITS
    before = {(p.component, p.module): p.peak for p in case.layers}
    if case.left and case.rescale:
        plans += _region_plan(case, case.left, rescale=True)
    plans += _region_plan(case, case.over, rescale=False)
    narrow = {key for key, peak in before.items() if peak > tight and key[0] in case.sick}
    plans += _region_plan(case, case.over | narrow, rescale=False)
    return plans


def _region_plan(case: _Case, modules: set[tuple[str, str]], *, rescale: bool) -> list[tuple[CureKind, Plan]]:
    chosen: list[Region] = []
    for component in case.components:
        blocks = [r for r in case.regions if r.component == component]
        wanted = {module for c, module in modules if c == component}
        if any(_block_of(module, blocks) is None and not _holds(module, blocks) for module in wanted):
            return []  # not inside any block: no region can be drawn
        chosen += _spread(blocks, wanted, case)
    if not chosen or case.dtype == "float32":
        return []
    upcast = {c: tuple(m for r in chosen if r.component == c for m in r.modules) for c in case.components}
    upcast = {component: found for component, found in upcast.items() if found}
    moved = sum(r.parameters for r in chosen)
    reasons = [_region_reason([r.name for r in chosen], moved, case.total, case.dtype)]
    settings = bool(case.settings)
    return [("upcast-region", case.plan(rescale=rescale, settings=settings, upcast=upcast, moved=moved, reasons=reasons))]


def with_layers(
    plan: Plan, upcast: Mapping[str, tuple[str, ...]], moved: int, components: Mapping[str, int], dtype: DType
) -> Plan:
    """A plan with single layers in place of its blocks. moved: parameters of these layers."""
    parts = [handed_on(name) for own in upcast.values() for name in own]
    whole = [module for module, k in parts if k is None]
    results = [module for module, k in parts if k == 0]
    scaled = [module for module, k in parts if k]
    reasons = [_region_reason(whole, moved, sum(components.values()), dtype, _LAYERS)] if whole else []
    reasons += [Words(_SCALED, (_listed(scaled, _LAYERS),))] if scaled else []
    reasons += [Words(_RESULTS, (_listed(results, _LAYERS),))] if results else []
    others = [other for other in plan.reasons if other.template not in (*_REGIONS, _SCALED, _RESULTS)]
    return msgspec.structs.replace(plan, upcast=dict(upcast), upcast_parameters=moved, reasons=(*reasons, *others))


def _block_of(module: str, blocks: Sequence[Region]) -> int | None:
    """Index of the block with the longest prefix of `module`."""
    found = [(len(p), i) for i, b in enumerate(blocks) for p in b.modules if module == p or module.startswith(f"{p}.")]
    return max(found)[1] if found else None


def _holds(module: str, blocks: Sequence[Region]) -> bool:
    """Whether it is a container of blocks, which passes their outputs on: they decide."""
    return any(not module or p.startswith(f"{module}.") for block in blocks for p in block.modules)


def _spread(blocks: Sequence[Region], modules: set[str], case: _Case) -> list[Region]:
    """Blocks with `modules`, every block that reads a value over the limit from one of them, and those from a layer with an
    overwhelming offset to the norm that removes it.
    """
    limit = FLOAT_LIMITS[case.dtype]
    peaks = {p.module: p.peak for p in case.layers if blocks and p.component == blocks[0].component}
    chosen = {index for module in modules if (index := _block_of(module, blocks)) is not None}
    chosen |= {index for finding in case.findings for index in _until_it_shows(finding, blocks, modules)}
    waiting = sorted(chosen)
    while waiting:
        block = blocks[index := waiting.pop()]
        if peaks.get(block.modules[-1], 0.0) > limit:  # what leaves would not survive the cast back
            readers = {index + 1} & set(range(len(blocks))) | {i for i, b in enumerate(blocks) if b.name in block.readers}
            waiting += readers - chosen
            chosen |= readers
    return [block for index, block in enumerate(blocks) if index in chosen]


def _until_it_shows(finding: Finding, blocks: Sequence[Region], modules: set[str]) -> range:
    """Indices of the blocks from the layer that adds an offset to the norm that removes it; none for another finding."""
    if "shows" not in finding.facts or finding.module not in modules or not blocks or blocks[0].component != finding.component:
        return range(0)
    first, last = (_block_of(name, blocks) for name in (finding.module, str(finding.facts["shows"])))
    return range(0) if first is None or last is None else range(first, last + 1)


def _components(case: _Case) -> list[tuple[CureKind, Plan]]:
    plans: list[tuple[CureKind, Plan]] = []
    if case.dtype == "float16" and case.states.get("bfloat16", "missing") == "works":
        plans.append(("bfloat16", _moved_plan(case, case.sick, "bfloat16")))
    if case.dtype != "float32":
        if len(case.sick) < len(case.components):
            plans.append(("float32-component", _moved_plan(case, case.sick, "float32")))
        plans.append(("float32-all", _moved_plan(case, tuple(case.components), "float32")))
    return plans


def _moved_plan(case: _Case, components: Sequence[str], dtype: DType) -> Plan:
    moved = sum(case.components[c] for c in components)
    if len(components) == len(case.components):
        reasons = [Words("The whole model runs in {0}.", (DTYPE_NAMES[dtype],))]
    else:
        names = list(dict.fromkeys(map(plain_component, components)))
        template = "{0} runs in {1}." if len(names) == 1 else "{0} run in {1}."
        reasons = [Words(template, (both(*names), DTYPE_NAMES[dtype]))]
    if dtype == "bfloat16":
        reasons.append(Words("BF16 has the range of FP32, with 8 bits of detail instead of 11."))
    return case.plan(dtypes=dict.fromkeys(components, dtype), moved=moved, reasons=reasons)


def _safe_settings(codes: set[FindingCode], numerics: Numerics) -> dict[str, str | bool]:
    """Settings that fix these findings and differ from the current ones, the cheapest kind first; one at a time for attention."""
    chosen: dict[str, str | bool] = {}
    if "attention-overflow" in codes:
        if numerics.math_attention_reduction:
            chosen["math_attention_reduction"] = False
        elif numerics.attention_backend == "math":
            chosen["attention_backend"] = "auto"
        elif numerics.upcast_cross_attention == "when-needed":
            chosen["upcast_cross_attention"] = "always"
    if "accumulation-overflow" in codes:
        chosen |= {name: False for name in ("fp16_accumulation", "fp16_reduction") if getattr(numerics, name)}
    if "underflow" in codes and not numerics.upcast_sampling:
        chosen["upcast_sampling"] = True
    return chosen


def _rescale_reasons(case: _Case) -> list[Words]:
    found: list[Words] = []
    for component, own in case.rescale.items():
        change = Words("exact but for rounding")
        if deviation := case.deviation.get(component):
            change = Words("not exact, the result changed by up to {0}", (share_of_change(deviation),))
        most = str(max((abs(k) for name, k in own.items() if not is_epsilon(name)), default=0))
        values = (len(rescaled_modules(own)), plain_component(component), most, change)
        found.append(Words("{1}: {0} layers rescaled, up to 2^{2}; {3}.", values, one="{1}: 1 layer rescaled, up to 2^{2}; {3}."))
    return found


_SETTING_REASONS: Final = {
    "math_attention_reduction": Words("Attention sums run in FP32 again."),
    "attention_backend": Words("Attention keeps its scores in FP32."),
    "upcast_cross_attention": Words("Attention scores are computed in FP32."),
    "fp16_accumulation": Words("Products accumulate in FP32."),
    "fp16_reduction": Words("Partial sums are kept in FP32."),
    "upcast_sampling": Words("Sampling between model calls runs in FP32."),
}
_REGIONS: Final = (
    "{0} runs in FP32 until values are back in range; {1}\u00a0% of the model stays in {2}.",
    "{0} run in FP32 until values are back in range; {1}\u00a0% of the model stays in {2}.",
)
"""Reasons for one region and for several."""
_SCALED: Final = "Inputs of {0} are scaled by powers of two; results stay in FP32."
_RESULTS: Final = "Results of {0} stay in FP32."
_BLOCKS: Final = "{0} to {1} ({2} blocks)"
_LAYERS: Final = "{0} to {1} ({2} layers)"


def _region_reason(names: Sequence[str], moved: int, total: int, dtype: DType, several: str = _BLOCKS) -> Words:
    kept = math.floor((1 - moved / max(1, total)) * 1000) / 10
    return Words(_REGIONS[len(set(names)) > 1], (_listed(names, several), f"{kept:g}", DTYPE_NAMES[dtype]))


def _listed(names: Sequence[str], several: str) -> Words | str:
    names = list(dict.fromkeys(names))
    return Words(several, (names[0], names[-1], len(names))) if len(names) > 3 else both(*names)
