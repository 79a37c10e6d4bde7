"""Candidate plans and their prices, measured: time, memory, disk, and how close the picture stays to float32."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from halftone.contract.facts import Finding
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Numerics
from halftone.contract.words import CureKind, DType, DTypeState
from halftone.engine.calls import Call, run_call
from halftone.engine.capture import Range
from halftone.engine.flight import is_finite
from halftone.engine.frames import from_decoder
from halftone.engine.load import Loaded
from halftone.engine.parts import parameter_count
from halftone.engine.plans import Masters, apply_plan, with_counts, with_settings
from halftone.engine.recover import CLOSE, planner_layers, tensor_peaks
from halftone.engine.regions import component_regions
from halftone.engine.rescale import rescale_groups
from halftone.engine.tensors import relative_error, tensors_in
from halftone.health.planner import candidate_plans
from halftone.measure.pictures import psnr
from halftone.measure.probe import Probe

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bare:
    """What the target pass measured of a component without a cure: seconds of all calls, their number, errors by call."""

    seconds: float
    errors: tuple[float, ...]


@dataclass
class _Tally:
    """What one plan gave."""

    seconds: dict[str, float]
    errors: list[float]
    psnr: float | None = None
    finite: bool = True


class Pricing:
    """Tries plans on the calls of the range pass. after: peaks per (component, module) under the plan that was verified last."""

    def __init__(
        self,
        loaded: Loaded,
        masters: Masters,
        wide: Range,
        base: Plan,
        asked: DType,
        numerics: Numerics,
        states: Mapping[DType, DTypeState],
        bare: Mapping[str, Bare],
        check: Callable[[], None],
    ) -> None:
        self._loaded = loaded
        self._masters = masters
        self._wide = wide
        self._base = base
        self._asked: DType = asked
        self._numerics = numerics
        self._states = states
        self._bare = bare
        self._check = check
        self._base_bytes = _bytes(loaded)
        self.after: dict[tuple[str, str], float] = {}

    def plain(self) -> Plan:
        """The plan that changes nothing, with what the target pass measured."""
        errors = [error for bare in self._bare.values() for error in bare.errors]
        finite = all(error < float("inf") for error in errors)
        plan = with_counts(self._loaded, self._base, self._asked)
        return msgspec.structs.replace(plan, verified=finite, error=max(errors, default=0.0) if finite else None)

    def candidates(self, findings: Sequence[Finding]) -> list[tuple[CureKind, Plan]]:
        """Plans for what was found, cheapest first."""
        if not any(finding.code != "tight" and finding.facts.get("read", True) for finding in findings):
            return []
        modules = self._loaded.modules
        sick = {finding.component for finding in findings if finding.code != "tight"}
        groups = [group for name, module in modules.items() if name in sick for group in rescale_groups(name, module)]
        orders = {name: {reading.module: reading.order for reading in own} for name, own in self._wide.readings.items()}
        plans = candidate_plans(
            groups,
            [layer for name, own in self._wide.readings.items() if name in sick for layer in planner_layers(modules[name], own)],
            [region for name, module in modules.items() for region in component_regions(name, module, orders[name])],
            {name: parameter_count(module) for name, module in modules.items()},
            self._asked,
            self._states,
            findings=tuple(findings),
            numerics=self._numerics,
            tensors={
                name: tensor_peaks(self._masters[name], rescale_groups(name, modules[name])) for name in sick if name in modules
            },
        )
        return [(kind, self._over_base(plan)) for kind, plan in plans]

    def _over_base(self, plan: Plan) -> Plan:
        """A candidate together with what the settings order outright."""
        dtypes: dict[str, DType] = {
            name: self._base.dtypes[name] if wanted == self._asked else wanted for name, wanted in plan.dtypes.items()
        }
        upcast = {**self._base.upcast, **plan.upcast}
        return with_settings(self._loaded, msgspec.structs.replace(plan, dtypes={**self._base.dtypes, **dtypes}, upcast=upcast))

    def price(self, kind: CureKind, plan: Plan, *, thorough: bool = True) -> Cure:
        """Run a plan. thorough: over every call of the components it changes, which verifies it; else over one call of each."""
        self._to(self._base)
        reference = dict(self._loaded.states)
        self._to(plan)
        changed = [name for name in self._loaded.modules if self._loaded.states[name] != reference[name]]
        tally = _Tally({}, [])
        for name in changed:
            self._try(name, thorough=thorough, tally=tally)
        memory = _bytes(self._loaded) - self._base_bytes
        log.info("cure %s: largest error %.4g", kind, max(tally.errors, default=0.0))
        return self._cure(kind, plan, tally, changed, memory)

    def _to(self, plan: Plan) -> None:
        apply_plan(self._loaded, plan, self._masters)

    def _try(self, name: str, *, thorough: bool, tally: _Tally) -> None:
        calls = self._usable(name)
        if not calls:
            return
        worst = self._worst(name, len(calls))
        started = time.perf_counter()
        self._run(*calls[worst], tally)
        tally.seconds[name] = (time.perf_counter() - started) * len(calls)  # calls of a component take about the same time
        if not thorough or not tally.finite:
            return
        with Probe(self._loaded.modules[name], name, scores=False) as probe:
            for call, reference in calls:
                self._check()
                self._run(call, reference, tally)
        self.after.update({(name, reading.module): reading.peak for reading in probe.readings()})

    def _usable(self, name: str) -> list[tuple[Call, Any]]:
        return [
            (call, result) for call, result in self._wide.of(name) if is_finite(result) and is_finite((call.args, call.kwargs))
        ]

    def _worst(self, name: str, count: int) -> int:
        """The call that failed first in the bare target pass, else the one with the largest error."""
        errors = self._bare[name].errors[:count]
        return max(range(len(errors)), key=lambda index: errors[index], default=0)

    def _run(self, call: Call, reference: Any, tally: _Tally) -> None:
        result = run_call(call, self._loaded.modules[call.component], self._loaded.states[call.component].dtype)
        finite = is_finite(result)
        tally.finite = tally.finite and finite
        tally.errors.append(relative_error(result, reference) if finite else float("inf"))
        if call.method == "decode" and finite:
            found = _picture_psnr(result, reference)
            tally.psnr = found if tally.psnr is None or found is None else min(tally.psnr, found)

    def _cure(self, kind: CureKind, plan: Plan, tally: _Tally, changed: list[str], memory: int) -> Cure:
        error = max(tally.errors, default=0.0)
        refusal = None
        if not tally.finite:
            refusal = "It gives bad numbers as well."
        elif error > CLOSE:
            refusal = f"Its result differs from FP32 by {error * 100:.0f}\u00a0%."
        counted = with_counts(self._loaded, plan, self._asked)
        return Cure(
            kind=kind,
            plan=msgspec.structs.replace(counted, verified=refusal is None, error=error if tally.finite else None),
            time_ratio=self._time_ratio(tally, changed),
            memory_bytes=memory,
            disk_bytes=self._loaded.facts.size_bytes if kind == "rescale" else 0,
            psnr=tally.psnr,
            refusal=refusal,
        )

    def _time_ratio(self, tally: _Tally, changed: list[str]) -> float | None:
        before = sum(bare.seconds for bare in self._bare.values())
        after = sum(
            tally.seconds.get(name, bare.seconds) if name in changed else bare.seconds for name, bare in self._bare.items()
        )
        return after / before if before > 0 else None


def _bytes(loaded: Loaded) -> int:
    return sum(
        parameter.numel() * parameter.element_size() for module in loaded.modules.values() for parameter in module.parameters()
    )


def _picture_psnr(result: Any, reference: Any) -> float | None:
    """Between two decoder results, as pictures in [0, 1]; capped at 120 dB, because a report holds finite numbers."""
    ours, theirs = (from_decoder(next(tensors_in(value))).clamp(0, 1).cpu().numpy() for value in (result, reference))
    return min(float(psnr(ours, theirs)), 120.0)
