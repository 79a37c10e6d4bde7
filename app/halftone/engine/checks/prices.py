"""Candidate plans and their prices: time and closeness to float32, measured; memory and disk, computed from sizes."""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Final

import msgspec
from torch import nn

from halftone.contract.facts import Finding, LayerPeak
from halftone.contract.plan import Cure, Plan, input_of, inputs_in
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import CureKind, Depth, DType, DTypeState
from halftone.contract.wording import Words
from halftone.engine.basics.runs import Runs
from halftone.engine.curing.exactness import Exactness
from halftone.engine.curing.layers import MOST_RUNS, Fewest, fewest_layers
from halftone.engine.curing.recover import planner_layers
from halftone.engine.curing.regions import component_regions
from halftone.engine.finding.capture import Range
from halftone.engine.finding.tally import BEST, Tally
from halftone.engine.finding.timing import Bare, Timing
from halftone.engine.inputs.memory import free_after, is_too_large
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import Masters, apply_plan, apply_state, with_counts, with_settings
from halftone.engine.rescaling.added_inputs import added_inputs, without_added
from halftone.engine.rescaling.flow import Flow, proven
from halftone.engine.rescaling.groups import groups_of, tensor_peaks
from halftone.engine.rescaling.learned import learned_groups
from halftone.engine.rescaling.rescale import INSIDE
from halftone.engine.sampling.hooks import is_finite
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.precision import ComponentState, bytes_in, split_rows, upcast_parameters
from halftone.health.faults import ends_the_job, is_out_of_memory
from halftone.health.forecasts.timing import Ratio
from halftone.health.planning.planner import BY_SCALE, candidate_plans, with_layers
from halftone.health.planning.rescaling import RescaleGroup, choose_shifts, exponents, peaks_after
from halftone.measure.probe import Reading

log = logging.getLogger(__name__)

_CANNOT_RUN: Final = Words("The model cannot be run with it.")
_NOT_EXACT: Final = Words("It is not exact with the ControlNet, adapter or LoRA in use.")
_NO_MEMORY: Final = Words("There is not enough memory to run the model with it.")
SEARCH_RUNS: Final[Mapping[Depth, int]] = {"quick": 64, "thorough": 256}
"""Most runs of one call in a search for groups. The two streams of FLUX.1 take 58, whatever its depth."""
_EARLIER: Final = (1, 2, 4, 8)
"""Layers before the fewest that are tried with them."""
CHEAP: Final = 2.0
"""Seconds that a component may take in all its calls to be compared in all of them even for a cure that is not suggested."""


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
        searching: Callable[[], None],
        depth: Depth,
        exactness: Exactness,
        is_last: Callable[[], bool] = lambda: False,
        peaks: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    ) -> None:
        """searching: called before each run of a search, in place of check; is_last: no cheaper way is left, so that a cure that
        does not fit is refused and the others are tried; peaks: of parameters by component, as far as known.
        """
        self._is_last = is_last
        self._loaded = loaded
        self._masters = masters
        self._wide = wide
        self._base = base
        self._asked: DType = asked
        self._numerics = numerics
        self._states = states
        self._bare = bare
        self._check = check
        self._searching = searching
        self._exactness = exactness
        self._adding_calls: dict[str, list[Call]] = {}
        self._timing = Timing(loaded, masters, wide, base, numerics, bare, check)
        self._sick: tuple[str, ...] = ()
        self._depth: Depth = depth
        self._twinned: set[str] = set()
        """Components whose groups were looked for in a twin."""
        self._named: list[tuple[str, str]] = []
        self._sizes: dict[tuple[str, DType, tuple[str, ...]], int] = {}
        self._parameters: dict[str, tuple[tuple[str, nn.Parameter], ...]] = {}
        self._peaks = {name: dict(own) for name, own in peaks.items()}
        self._by_layer: list[tuple[dict[str, tuple[str, ...]], dict[str, dict[str, int]]]] = []

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
        self._named = [(f.component, f.module) for f in findings if f.code in BY_SCALE]
        orders = {name: {reading.module: reading.order for reading in own} for name, own in self._wide.readings.items()}
        plans = candidate_plans(
            self._groups,
            self._layers,
            [region for name, module in modules.items() for region in component_regions(name, module, orders[name])],
            self._loaded.sizes,
            self._asked,
            self._states,
            findings=tuple(findings),
            numerics=self._numerics,
            tensors=self._tensors,
        )
        return [(kind, self._over_base(plan)) for kind, plan in plans]

    @cached_property
    def _groups(self) -> list[RescaleGroup]:
        """Of the sick components, as the next two."""
        return [group for name in self._sick for group in self._groups_of(name)]

    def _groups_of(self, name: str) -> tuple[RescaleGroup, ...]:
        flows: dict[int, Flow] = {}

        def flow_at(site: str) -> Flow | None:
            call = self._call_of(name, site)
            if call is None or (name in self._twinned and self._depth == "quick"):
                return None  # what its twin does not tell takes many runs of the network itself
            if name in self._loaded.streams:
                return None  # an experiment writes over weights that have to be there
            if id(call) not in flows:
                wide = ComponentState(dtype=self._wide.dtype)
                apply_state(self._loaded, name, wide, self._masters[name])
                plain = without_added(call, self._loaded.modules[name])
                run = partial(run_call, plain, self._loaded.modules[name], wide.dtype)
                flows[id(call)] = Flow(self._loaded.modules[name], run, Runs(SEARCH_RUNS[self._depth], self._searching))
            return flows[id(call)]

        layers = [layer for layer in self._layers if layer.component == name]
        named = [module for component, module in self._named if component == name]
        peaks = self._peaks.setdefault(name, {})
        return groups_of(
            name, self._loaded.modules[name], layers, named, self._asked, self._masters[name], flow_at, peaks, self._with_inputs,
            partial(self._learned, name), self._deviation,
        )  # fmt: skip

    def _learned(self, name: str, sites: Sequence[str]) -> list[RescaleGroup]:
        """Groups that the component's twin has for these modules."""
        module = self._loaded.modules[name]
        found: list[RescaleGroup] = []
        for call, own in self._by_call(name, sites):
            plain = without_added(call, module)
            groups = learned_groups(
                name,
                module,
                own,
                lambda twin, plain=plain: run_call(plain, twin, "float32"),
                self._searching,
                self._loaded.device,
            )
            self._twinned |= set() if groups is None else {name}
            found += groups or []
        return found

    def _by_call(self, name: str, sites: Sequence[str]) -> list[tuple[Call, list[str]]]:
        """Modules by the call in which they ran."""
        found: dict[int, tuple[Call, list[str]]] = {}
        for site in sites:
            if (call := self._call_of(name, site)) is not None:
                found.setdefault(id(call), (call, []))[1].append(site)
        return list(found.values())

    def _deviation(self, group: RescaleGroup, k: int) -> float | None:
        """Run with the real weights, through the code that applies plans."""
        name = group.component
        module, masters, wide = self._loaded.modules[name], self._masters[name], ComponentState(dtype=self._wide.dtype)
        call = next(filter(None, (self._call_of(name, site) for site in group.modules)), None)
        if call is None:
            return None
        plain = without_added(call, module)
        reference = {id(own): result for own, result in self._wide.of(name)}[id(call)]
        try:
            if plain is not call:
                apply_state(self._loaded, name, wide, masters)
                reference = run_call(plain, module, wide.dtype)
            self._searching()
            apply_state(self._loaded, name, msgspec.structs.replace(wide, rescale=exponents([group], [k])[name]), masters)
            return proven(run_call(plain, module, wide.dtype), reference)
        finally:
            apply_state(self._loaded, name, wide, masters)

    def _with_inputs(self, group: RescaleGroup, k: int) -> RescaleGroup | None:
        """A group with the inputs that are added to what it scales; None where it is not exact with them."""
        name = group.component
        state: ComponentState | None = ComponentState(dtype=self._wide.dtype, rescale=exponents([group], [k])[name])
        for call in self._adding(name):
            state = None if state is None else self._exactness.settled(call, state, self._masters[name])
        if state is None:
            return None
        apply_state(self._loaded, name, ComponentState(dtype=self._wide.dtype), self._masters[name])  # as the search left it
        return dataclasses.replace(group, shrink=(*group.shrink, *map(input_of, inputs_in(state.rescale))))

    def _adding(self, name: str) -> list[Call]:
        """One call of a component for each set of inputs that something beside the model adds."""
        if name not in self._adding_calls:
            module = self._loaded.modules[name]
            self._adding_calls[name] = list({tuple(added_inputs(call, module)): call for call, _ in self._wide.of(name)}.values())
        return self._adding_calls[name]

    def _exact(self, plan: Plan) -> Plan | None:
        """The plan with its rescalings completed for every call of the range pass; None where one of them is not exact."""
        rescale = dict(plan.rescale)
        for name, own in plan.rescale.items():
            state: ComponentState | None = ComponentState(dtype=plan.dtypes.get(name, self._asked), rescale=own)
            for call in self._adding(name) if self._is_sound(name) else ():
                state = None if state is None else self._exactness.settled(call, state, self._masters[name])
            if state is None:
                return None
            rescale[name] = state.rescale
        return msgspec.structs.replace(plan, rescale=rescale)

    def _call_of(self, name: str, site: str) -> Call | None:
        """The first sound call in which a module ran."""
        module = site.removesuffix(INSIDE).rstrip(".")
        calls = [call for calls in self._timing.calls_by_method(name).values() for call, _ in calls]
        return next((call for call in calls if not module or module in self._wide.ran.get(id(call), ())), None)

    @cached_property
    def _layers(self) -> list[LayerPeak]:
        modules = self._loaded.modules
        return [layer for name in self._sick for layer in planner_layers(modules[name], self._wide.readings[name])]

    @cached_property
    def _tensors(self) -> dict[str, dict[str, float]]:
        own = {name: tuple(group for group in self._groups if group.component == name) for name in self._sick}
        return {name: tensor_peaks(self._masters[name], groups, self._peaks.setdefault(name, {})) for name, groups in own.items()}

    def after(self, plan: Plan) -> dict[tuple[str, str], float]:
        """(component, module) -> peak under a plan that rescales: of every module, those it leaves alone too."""
        if not plan.rescale or not set(plan.rescale) <= set(self._sick):
            return {}  # (of a plan from elsewhere it is not known by how much its groups are shifted)
        groups, layers = self._groups, self._layers
        shifts = choose_shifts(groups, layers, self._asked, tensors=self._tensors)
        found: dict[tuple[str, str], float] = {}
        for (component, module), peak in peaks_after(groups, shifts, layers).items():
            key = (component, module.removesuffix(INSIDE).rstrip("."))
            found[key] = max(found.get(key, 0.0), peak)
        scaled = {key: peak for key, peak in found.items() if key[0] in plan.rescale}
        return {key: peak for own in self._wide.readings.values() for key, peak in _with_holders(own, scaled).items()}

    def by_layer(self, plan: Plan) -> Iterator[Plan]:
        """Narrow a cure from whole blocks to the fewest single layers, found by running; then with layers before them."""
        found = {name: self._fewest(name, plan) for name in plan.upcast}
        sets = {
            name: [blocks] if (own := found[name]) is None else list(own.sets(_EARLIER)) for name, blocks in plan.upcast.items()
        }
        for index in range(max(map(len, sets.values()), default=0)):
            upcast = {name: own[min(index, len(own) - 1)] for name, own in sets.items()}
            if upcast == plan.upcast or (upcast, plan.rescale) in self._by_layer:
                continue
            self._by_layer.append((upcast, plan.rescale))
            states = {name: ComponentState(dtype=self._asked, upcast=own) for name, own in upcast.items()}
            moved = sum(upcast_parameters(self._loaded.modules[name], state) for name, state in states.items())
            yield with_layers(plan, upcast, moved, self._loaded.sizes, self._asked)

    def _fewest(self, name: str, plan: Plan) -> Fewest | None:
        """Layers of one component that have to run in float32 for its failing calls to be finite."""
        calls = self._timing.calls_by_method(name)
        errors = self._bare[name].errors
        failing = [own for own in calls.values() if any(not errors.get(id(call), 0.0) < float("inf") for call, _ in own)]
        narrow = ComponentState(dtype=plan.dtypes[name], rescale=plan.rescale.get(name, {}))
        run = [call for own in failing for call, _ in own]
        return fewest_layers(self._loaded, run, self._masters[name], narrow, Runs(MOST_RUNS, self._searching))

    def _over_base(self, plan: Plan) -> Plan:
        """A candidate together with what the settings order outright."""
        dtypes: dict[str, DType] = {
            name: self._base.dtypes[name] if wanted == self._asked else wanted for name, wanted in plan.dtypes.items()
        }
        upcast = {**self._base.upcast, **plan.upcast}
        return with_settings(self._loaded, msgspec.structs.replace(plan, dtypes={**self._base.dtypes, **dtypes}, upcast=upcast))

    def known(self, kind: CureKind, plan: Plan) -> Cure:
        """The unverified plan with what is known without a run: memory, and a picture that the range pass made already."""
        changed = self._changed(plan)
        tally = Tally(unsound=not all(self._is_sound(name) for name in changed))
        in_range = not plan.settings and all(self._is_range(plan, name) for name in changed)
        for name in changed if in_range else ():
            self._as_in_range(name, tally)
        refusal = tally.refusal() if in_range or tally.unsound else None
        return self._cure(kind, plan, tally, refusal, verified=in_range and refusal is None)

    def price(self, kind: CureKind, plan: Plan, *, thorough: bool = True) -> Cure:
        """Run a plan. thorough: over every call that it changes, which verifies it; else over one of each slow kind."""
        tally = Tally()
        exact = self._exact(plan)
        if exact is None:
            return self._cure(kind, plan, tally, _NOT_EXACT, verified=False)
        plan = exact
        try:
            ratio = self._measured_ratio(plan, tally, thorough=thorough)
        except Exception as error:
            short = is_out_of_memory(error) or is_too_large(error)
            if ends_the_job(error) and not (short and self._is_last()):
                raise
            log.info("cure %s cannot be run", kind, exc_info=True)
            free_after(error)
            return self._cure(kind, plan, Tally(), _NO_MEMORY if short else _CANNOT_RUN, verified=False)
        refusal = tally.refusal()
        log.info("cure %s: largest error %.4g", kind, max(tally.errors, default=0.0))
        return self._cure(kind, plan, tally, refusal, verified=refusal is None and tally.whole, time=ratio)

    def _measured_ratio(self, plan: Plan, tally: Tally, *, thorough: bool) -> Ratio | None:
        """Apply a plan and book what it gives; seconds with it over seconds without it, where it gives something sound."""
        reached = self._reached(plan)
        apply_plan(self._loaded, plan, self._masters)
        for name in reached:
            self._compare(name, plan, thorough=thorough, tally=tally)
        if not reached:
            tally.errors += [error for bare in self._bare.values() for error in bare.errors.values()]
            tally.finite = all(error < float("inf") for error in tally.errors)
        return self._timing.ratio(plan, reached, tally.runs) if tally.finite and not tally.unsound else None

    def _changed(self, plan: Plan) -> list[str]:
        """Components whose state a plan changes."""
        return [name for name in self._loaded.modules if self._timing.state(plan, name) != self._timing.state(self._base, name)]

    def _reached(self, plan: Plan) -> list[str]:
        """Components to run: those that a plan changes; with settings, which reach all, also the sick ones (else all)."""
        changed = self._changed(plan)
        if not plan.settings:
            return changed
        return [name for name in self._loaded.modules if name in changed or not self._sick or name in self._sick]

    def _is_sound(self, name: str) -> bool:
        """The range pass gave a result to compare with in each of the component's calls."""
        return all(is_finite(result) for _, result in self._wide.of(name))

    def _is_range(self, plan: Plan, name: str) -> bool:
        """Whether the plan runs the component exactly as the range pass did."""
        return self._timing.state(plan, name) == ComponentState(dtype=self._wide.dtype)

    def _compare(self, name: str, plan: Plan, *, thorough: bool, tally: Tally) -> None:
        if not self._is_sound(name):
            tally.unsound = True
        elif self._is_range(plan, name):
            self._as_in_range(name, tally)
        else:
            self._try(name, plan, thorough=thorough or self._bare[name].seconds < CHEAP, tally=tally)

    def _as_in_range(self, name: str, tally: Tally) -> None:
        """Book no error: there is nothing to compare again."""
        calls = self._wide.of(name)
        tally.errors += [0.0] * len(calls)
        if any(call.method == "decode" for call, _ in calls):
            tally.psnr = BEST if tally.psnr is None else tally.psnr

    def _try(self, name: str, plan: Plan, *, thorough: bool, tally: Tally) -> None:
        """Run a component's calls that the plan changes: all, or the worst of each kind."""
        changed = self._changed_modules(plan, name)
        for method, calls in self._timing.calls_by_method(name).items():
            chosen = calls if thorough else [calls[self._worst(name, calls)]]
            tally.whole = tally.whole and len(chosen) == len(calls)
            for call, reference in chosen:
                self._check()
                if method != "decode" and self._is_as_before(call, changed):
                    tally.errors.append(self._bare[name].errors[id(call)])
                    tally.runs.setdefault(name, {}).setdefault(method, []).append(self._bare[name].runs[method][-1])
                    continue
                result, seconds = self._timing.timed(call)
                tally.runs.setdefault(name, {}).setdefault(method, []).append(seconds)
                tally.book(call, result, reference)
                if not tally.finite:
                    return

    def _changed_modules(self, plan: Plan, name: str) -> frozenset[str] | None:
        """Modules whose numbers a plan changes, with those that hold them and may use their weights; None: all may be."""
        before, after = self._timing.state(self._base, name), self._timing.state(plan, name)
        if plan.settings or not self._timing.same_work(plan, name):
            return None
        differing = {key for key in {**before.rescale, **after.rescale} if before.rescale.get(key) != after.rescale.get(key)}
        owners = {split_rows(key)[0].rpartition(".")[0] for key in differing}
        return frozenset(owners | {owner.rpartition(".")[0] for owner in owners})

    def _is_as_before(self, call: Call, changed: frozenset[str] | None) -> bool:
        """Whether the plan changes nothing that the call runs, and the target pass ran it: it gives the same again."""
        ran = self._wide.ran.get(id(call))
        if changed is None or ran is None or not ran.isdisjoint(changed):
            return False
        return self._bare[call.component].errors.get(id(call), float("inf")) < float("inf")

    def _worst(self, name: str, calls: list[tuple[Call, Any]]) -> int:
        """The call that failed first in the bare target pass, else the one with the largest error."""
        errors = self._bare[name].errors
        return max(range(len(calls)), key=lambda index: errors.get(id(calls[index][0]), 0.0), default=0)

    def _cure(
        self, kind: CureKind, plan: Plan, tally: Tally, refusal: Words | None, *, verified: bool, time: Ratio | None = None
    ) -> Cure:
        counted = with_counts(self._loaded, plan, self._asked)
        error = max(tally.errors) if tally.finite and tally.errors else None
        return Cure(
            kind=kind,
            plan=msgspec.structs.replace(counted, verified=verified, error=error),
            time_ratio=None if time is None else time.value,
            time_spread=None if time is None else time.spread,
            memory_bytes=sum(
                self._bytes(name, self._timing.state(plan, name)) - self._bytes(name, self._timing.state(self._base, name))
                for name in self._changed(plan)
            ),
            disk_bytes=self._loaded.facts.size_bytes if kind == "rescale" else 0,
            psnr=tally.psnr,
            refusal=refusal,
        )

    def _bytes(self, name: str, state: ComponentState) -> int:
        key = (name, state.dtype, state.upcast)
        if key not in self._sizes:
            module = self._loaded.modules[name]
            if name not in self._parameters:
                self._parameters[name] = tuple(module.named_parameters())
            self._sizes[key] = bytes_in(module, self._parameters[name], state.dtype, state.upcast)
        return self._sizes[key]


def _with_holders(readings: Sequence[Reading], scaled: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Peaks of all modules of a component; a container has that of its last child. readings: in order of completion."""
    found: dict[tuple[str, str], float] = {}
    factors: dict[str, float] = {}
    for reading in readings:
        key = (reading.component, reading.module)
        factor = factors.get(reading.module, 1.0)
        found[key] = scaled.get(key, reading.peak * factor)
        own = found[key] / reading.peak if reading.peak else 1.0
        holder = reading.module
        while holder:
            holder = holder.rpartition(".")[0]
            factors[holder] = own
    return found
