"""Candidate plans and their prices, measured: time, memory, disk, and how close the picture stays to float32."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from halftone.contract.facts import Finding, LayerPeak
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Numerics
from halftone.contract.words import CureKind, DType, DTypeState
from halftone.engine.calls import Call, run_call
from halftone.engine.capture import Range
from halftone.engine.flight import is_finite
from halftone.engine.frames import from_decoder
from halftone.engine.load import Loaded
from halftone.engine.pace import ROUNDS, SHORT, Pace, pace_ratio
from halftone.engine.parts import parameter_count
from halftone.engine.plans import Masters, apply_plan, apply_state, with_counts, with_settings
from halftone.engine.precision import ComponentState
from halftone.engine.recover import CLOSE, planner_layers, tensor_peaks
from halftone.engine.regions import component_regions
from halftone.engine.rescale import INSIDE, rescale_groups
from halftone.engine.tensors import relative_error, tensors_in
from halftone.engine.torch_settings import torch_settings
from halftone.health.planner import candidate_plans
from halftone.health.rescale import RescaleGroup, choose_shifts, peaks_after
from halftone.measure.pictures import psnr

log = logging.getLogger(__name__)

BEST: Final = 120.0
"""dB given for the same picture, because a report holds finite numbers."""
CHEAP: Final = 2.0
"""Seconds that a component may take in all its calls to be compared in all of them even for a cure that is not suggested."""


@dataclass(frozen=True)
class Bare:
    """What the target pass measured of a component without a cure: seconds of all its calls, errors by id of the call."""

    seconds: float
    errors: Mapping[int, float]


@dataclass
class _Tally:
    """What one plan gave."""

    seconds: dict[str, float]
    errors: list[float]
    psnr: float | None = None
    finite: bool = True
    unsound: bool = False
    """A call has no sound reference to compare with."""
    whole: bool = True
    """Every call was compared."""


class Pricing:
    """Tries plans on the calls of the range pass."""

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
        self._sick: tuple[str, ...] = ()

    def plain(self) -> Plan:
        """The plan that changes nothing, with what the target pass measured."""
        errors = [error for bare in self._bare.values() for error in bare.errors.values()]
        finite = all(error < float("inf") for error in errors)
        plan = with_counts(self._loaded, self._base, self._asked)
        return msgspec.structs.replace(plan, verified=finite, error=max(errors, default=0.0) if finite else None)

    def candidates(self, findings: Sequence[Finding]) -> list[tuple[CureKind, Plan]]:
        """Plans for what was found, cheapest first."""
        if not any(finding.code != "tight" and finding.facts.get("read", True) for finding in findings):
            return []
        modules = self._loaded.modules
        self._sick = tuple(name for name in modules if any(f.component == name and f.code != "tight" for f in findings))
        orders = {name: {reading.module: reading.order for reading in own} for name, own in self._wide.readings.items()}
        plans = candidate_plans(
            self._groups(),
            self._layers(),
            [region for name, module in modules.items() for region in component_regions(name, module, orders[name])],
            {name: parameter_count(module) for name, module in modules.items()},
            self._asked,
            self._states,
            findings=tuple(findings),
            numerics=self._numerics,
            tensors=self._tensors(),
        )
        return [(kind, self._over_base(plan)) for kind, plan in plans]

    def _groups(self) -> list[RescaleGroup]:
        modules = self._loaded.modules
        return [group for name in self._sick for group in rescale_groups(name, modules[name])]

    def _layers(self) -> list[LayerPeak]:
        modules = self._loaded.modules
        return [layer for name in self._sick for layer in planner_layers(modules[name], self._wide.readings[name])]

    def _tensors(self) -> dict[str, dict[str, float]]:
        modules = self._loaded.modules
        return {name: tensor_peaks(self._masters[name], rescale_groups(name, modules[name])) for name in self._sick}

    def after(self, plan: Plan) -> dict[tuple[str, str], float]:
        """(component, module) -> peak under the plan, for components that it rescales."""
        if not plan.rescale:
            return {}
        groups, layers = self._groups(), self._layers()
        shifts = choose_shifts(groups, layers, self._asked, tensors=self._tensors())
        found: dict[tuple[str, str], float] = {}
        for (component, module), peak in peaks_after(groups, shifts, layers).items():
            key = (component, module.removesuffix(INSIDE).rstrip("."))
            found[key] = max(found.get(key, 0.0), peak)
        return {key: peak for key, peak in found.items() if key[0] in plan.rescale}

    def _over_base(self, plan: Plan) -> Plan:
        """A candidate together with what the settings order outright."""
        dtypes: dict[str, DType] = {
            name: self._base.dtypes[name] if wanted == self._asked else wanted for name, wanted in plan.dtypes.items()
        }
        upcast = {**self._base.upcast, **plan.upcast}
        return with_settings(self._loaded, msgspec.structs.replace(plan, dtypes={**self._base.dtypes, **dtypes}, upcast=upcast))

    def price(self, kind: CureKind, plan: Plan, *, thorough: bool = True) -> Cure:
        """Run a plan. thorough: over every call of the components it changes, which verifies it; else, where they take long, over
        one call of each kind, which does not.
        """
        self._to(self._base)
        reference = dict(self._loaded.states)
        self._to(plan)
        changed = [name for name in self._loaded.modules if self._loaded.states[name] != reference[name]]
        tally = _Tally({}, [])
        for name in self._reached(plan, changed):
            self._compare(name, thorough=thorough, tally=tally)
        if not changed and not plan.settings:
            self._as_measured(tally)
        memory = _bytes(self._loaded) - self._base_bytes
        for name in tally.seconds if tally.finite and not tally.unsound else ():
            self._time(name, plan, reference[name], tally)
        log.info("cure %s: largest error %.4g", kind, max(tally.errors, default=0.0))
        return self._cure(kind, plan, tally, memory)

    def _reached(self, plan: Plan, changed: list[str]) -> list[str]:
        """Components to run: those whose state a plan changes; with settings, which reach all, also the sick ones (else all)."""
        if not plan.settings:
            return changed
        return [name for name in self._loaded.modules if name in changed or not self._sick or name in self._sick]

    def _to(self, plan: Plan) -> None:
        apply_plan(self._loaded, plan, self._masters)

    def _compare(self, name: str, *, thorough: bool, tally: _Tally) -> None:
        calls = self._wide.of(name)
        if any(not is_finite(result) for _, result in calls):
            tally.unsound = True
            return
        if self._is_range(name):
            self._as_in_range(name, calls, tally)
        else:
            self._try(name, thorough=thorough or self._bare[name].seconds < CHEAP, tally=tally)

    def _is_range(self, name: str) -> bool:
        """The component runs exactly as it did in the range pass."""
        return self._loaded.states[name] == ComponentState(dtype=self._wide.dtype)

    def _as_in_range(self, name: str, calls: Sequence[tuple[Call, Any]], tally: _Tally) -> None:
        """Nothing to compare again: no error, and the time it took there (under the probe: a little more than bare)."""
        if not calls:
            return
        tally.seconds[name] = self._wide.seconds.get(name, 0.0)
        tally.errors.append(0.0)
        if any(call.method == "decode" for call, _ in calls):
            tally.psnr = BEST if tally.psnr is None else tally.psnr

    def _as_measured(self, tally: _Tally) -> None:
        """A plan that changes nothing: what the target pass measured."""
        tally.errors += [error for bare in self._bare.values() for error in bare.errors.values()]
        tally.finite = all(error < float("inf") for error in tally.errors)

    def _try(self, name: str, *, thorough: bool, tally: _Tally) -> None:
        """Run a component's calls: all of them, or the worst of each kind, timed as if all were."""
        groups = self._calls_by_method(name)
        for calls in groups.values():
            chosen = calls if thorough else [calls[self._worst(name, calls)]]
            tally.whole = tally.whole and len(chosen) == len(calls)
            started = time.perf_counter()
            for call, reference in chosen:
                self._check()
                self._run(call, reference, tally)
                if not tally.finite:
                    return
            spent = (time.perf_counter() - started) * len(calls) / len(chosen)
            tally.seconds[name] = tally.seconds.get(name, 0.0) + spent

    def _time(self, name: str, plan: Plan, before: ComponentState, tally: _Tally) -> None:
        """Short calls once more, with the plan, without it and with it again, several times each; replaces what was timed in
        passing, where another program or a first run counted in.
        """
        groups = self._calls_by_method(name)
        bare = self._bare[name].seconds
        if not groups or bare > SHORT * sum(map(len, groups.values())):
            return
        after = self._loaded.states[name]
        first = {method: calls[0][0] for method, calls in groups.items()}
        with_plan = {method: self._runs(call) for method, call in first.items()}
        apply_state(self._loaded, name, before, self._masters[name])
        with torch_settings(self._numerics, self._loaded.device):
            without = {method: self._runs(call) for method, call in first.items()}
        apply_state(self._loaded, name, after, self._masters[name])
        with_plan = {method: runs + self._runs(first[method]) for method, runs in with_plan.items()}
        paces = [Pace(without[method], with_plan[method], len(calls)) for method, calls in groups.items()]
        same_work = (before.dtype, before.upcast) == (after.dtype, after.upcast) and not plan.settings
        ratio = pace_ratio(paces, same_work=same_work)
        if ratio is not None:
            tally.seconds[name] = bare * ratio

    def _runs(self, call: Call) -> tuple[float, ...]:
        """Seconds of single runs of a call, as its component is now."""
        seconds: list[float] = []
        for _ in range(ROUNDS):
            self._check()
            started = time.perf_counter()
            is_finite(run_call(call, self._loaded.modules[call.component], self._loaded.states[call.component].dtype))
            seconds.append(time.perf_counter() - started)
        return tuple(seconds)

    def _calls_by_method(self, name: str) -> dict[str, list[tuple[Call, Any]]]:
        """The calls that were sound in the range pass, by what was called: calls of one kind take about the same time."""
        groups: dict[str, list[tuple[Call, Any]]] = {}
        for call, result in self._wide.of(name):
            if is_finite(result) and is_finite((call.args, call.kwargs)):
                groups.setdefault(call.method, []).append((call, result))
        return groups

    def _worst(self, name: str, calls: list[tuple[Call, Any]]) -> int:
        """The call that failed first in the bare target pass, else the one with the largest error."""
        errors = self._bare[name].errors
        return max(range(len(calls)), key=lambda index: errors.get(id(calls[index][0]), 0.0), default=0)

    def _run(self, call: Call, reference: Any, tally: _Tally) -> None:
        result = run_call(call, self._loaded.modules[call.component], self._loaded.states[call.component].dtype)
        finite = is_finite(result)
        tally.finite = tally.finite and finite
        tally.errors.append(relative_error(result, reference) if finite else float("inf"))
        if call.method == "decode" and finite:
            found = _picture_psnr(result, reference)
            tally.psnr = found if tally.psnr is None or found is None else min(tally.psnr, found)

    def _cure(self, kind: CureKind, plan: Plan, tally: _Tally, memory: int) -> Cure:
        refusal = _refusal(tally)
        counted = with_counts(self._loaded, plan, self._asked)
        error = max(tally.errors, default=0.0) if tally.finite and tally.errors else None
        return Cure(
            kind=kind,
            plan=msgspec.structs.replace(counted, verified=refusal is None and tally.whole, error=error),
            time_ratio=self._time_ratio(tally),
            memory_bytes=memory,
            disk_bytes=self._loaded.facts.size_bytes if kind == "rescale" else 0,
            psnr=tally.psnr,
            refusal=refusal,
        )

    def _time_ratio(self, tally: _Tally) -> float | None:
        """Over all components: those that the plan leaves alone take as long as before."""
        before = sum(bare.seconds for bare in self._bare.values())
        after = sum(tally.seconds.get(name, bare.seconds) for name, bare in self._bare.items())
        return after / before if before > 0 else None


def _refusal(tally: _Tally) -> str | None:
    """Why a plan is not offered; None if it is."""
    if tally.unsound:
        return "FP32 gives bad numbers as well, so there is nothing to compare with."
    if not tally.finite:
        return "It gives bad numbers as well."
    if not tally.errors:
        return "Nothing that it changes was run."
    error = max(tally.errors)
    return f"Its result differs from FP32 by {error * 100:.0f}\u00a0%." if error > CLOSE else None


def _bytes(loaded: Loaded) -> int:
    return sum(
        parameter.numel() * parameter.element_size() for module in loaded.modules.values() for parameter in module.parameters()
    )


def _picture_psnr(result: Any, reference: Any) -> float | None:
    """Between two decoder results, as pictures in [0, 1]."""
    ours, theirs = (from_decoder(next(tensors_in(value))).clamp(0, 1).cpu().numpy() for value in (result, reference))
    return min(float(psnr(ours, theirs)), BEST)
