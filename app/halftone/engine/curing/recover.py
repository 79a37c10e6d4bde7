"""What happens after the sentinel spoke: name the origin, size it in float32, take the next cure that verifiably works."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, Finding, GuardEvent, LayerPeak, LoraCause
from halftone.contract.plan import Plan, joined_regions
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import FLOAT_LIMITS, CureKind, DType, DTypeState, FindingCode
from halftone.engine.basics.runs import Runs
from halftone.engine.basics.tensors import relative_error
from halftone.engine.basics.torch_settings import torch_settings
from halftone.engine.curing.exactness import Exactness
from halftone.engine.curing.layers import MOST_RUNS, fewest_layers
from halftone.engine.curing.regions import component_regions
from halftone.engine.finding.capture import effective
from halftone.engine.finding.findings import source_of
from halftone.engine.finding.lora_cause import cause_of
from halftone.engine.inputs.memory import Reference, first_that_fits, free_after, is_shortage
from halftone.engine.loading.compiling import take_compiled
from halftone.engine.loading.load import Loaded, exact_source
from halftone.engine.loading.plans import HALF_DONE, apply_state, merged, permitted, streamed, with_counts, with_settings
from halftone.engine.rescaling.groups import tensor_peaks
from halftone.engine.rescaling.rescale import INSIDE, rescale_groups
from halftone.engine.sampling.hooks import is_finite, is_in_range
from halftone.engine.weights.calls import CLOSE, Call, run_call
from halftone.engine.weights.offload import settle_weights
from halftone.engine.weights.parts import parameter_count, units
from halftone.engine.weights.precision import ComponentState, damaged, state_in, upcast_parameters
from halftone.engine.weights.recipe import Exact, forget
from halftone.health.faults import ends_the_job, first_line
from halftone.health.planning.planner import candidate_plans, with_layers
from halftone.measure.probe import OriginReachedError, Probe, Reading, ScorePeak, saturation

log = logging.getLogger(__name__)

ASSUMED: Final[dict[DType, DTypeState]] = {"float16": "works", "bfloat16": "works", "float32": "works"}
"""Before the device was measured every type is taken to work; verification decides."""


_PATIENCE: Final = 20.0
"""Seconds that a picture waits for the fewest layers to be found."""


@dataclass(frozen=True)
class Measured:
    """One call in one state: its result (None if it was stopped at the origin) and each module's reading."""

    result: Any
    readings: tuple[Reading, ...]
    finite: bool
    scores: tuple[ScorePeak, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """A failing call. replay: repeated as it ran; sound: float32 gives a finite result; layers: peaks in float32."""

    call: Call
    component: str
    module: str
    peak: float | None
    layers: tuple[LayerPeak, ...]
    replay: Measured
    reference: Measured
    masters: Exact
    damaged: tuple[str, ...]
    """Parameters that differ in memory from the file."""
    weights_finite: bool
    """The origin's own weights are finite in the dtype it ran in."""
    score: float | None = None
    """Largest attention score of the origin in float32, where it is an attention."""
    lora: LoraCause | None = None
    wide: DType = "float32"
    """The type of the reference: bfloat16 where float32 does not fit."""

    @property
    def failing(self) -> bool:
        """The replay failed as well."""
        return not self.replay.finite

    @property
    def sound(self) -> bool:
        return self.reference.finite

    @property
    def sound_in_float32(self) -> bool | None:
        """None where that was not measured."""
        return self.sound if self.wide == "float32" else None

    @property
    def passed(self) -> bool:
        """The same call with the same weights is sound now: nothing is left to cure."""
        return not self.failing and self.sound and not self.damaged

    def finding(self, dtype: DType, numerics: Numerics) -> Finding:
        """The planner's first finding. numerics: in force; overflowing sums are named only where some sum is narrow."""
        limit = FLOAT_LIMITS[dtype]
        code: FindingCode = "activation-overflow"
        if not self.weights_finite:
            code = "weights-overflow"
        elif self.score is not None and self.score > limit:
            code = "attention-overflow"
        elif self.peak is not None and self.peak <= limit and (numerics.fp16_accumulation or numerics.fp16_reduction):
            code = "accumulation-overflow"
        return Finding(
            code=code,
            component=self.component,
            module=self.module,
            dtype=dtype,
            peak=self.score if code == "attention-overflow" else self.peak,
            limit=limit,
            step=None if self.call.step is None else self.call.step + 1,
        )


@dataclass(frozen=True)
class Cured:
    """A plan under which the failing call is finite and close, and the call's result under it."""

    kind: CureKind
    plan: Plan
    result: Any


def measure_call(call: Call, module: nn.Module, dtype: DType, *, until_origin: bool = False, scores: bool = False) -> Measured:
    """Run a call under the probe. until_origin: stop at the first bad value; scores: measure attention too."""
    result = None
    with suppress(OriginReachedError), Probe(module, call.component, scores=scores, until_origin=until_origin) as probe:
        result = run_call(call, module, dtype)
    return Measured(result, probe.readings(), not probe.stopped and is_in_range(result), probe.scores() if scores else ())


def layer_peaks(readings: tuple[Reading, ...]) -> tuple[LayerPeak, ...]:
    """Readings as the layers of a report; modules whose peak is not finite are left out (a report holds finite numbers)."""
    return tuple(
        LayerPeak(component=reading.component, module=reading.module, kind=reading.kind, peak=reading.peak)
        for reading in readings
        if reading.peak < float("inf")
    )


def planner_layers(module: nn.Module, readings: tuple[Reading, ...]) -> tuple[LayerPeak, ...]:
    """The same for the planner, which must tell what a module returns from what its own code makes inside.

    Modules that only hold units (lists of blocks, the whole decoder) return what their last unit made; they are left out, because
    no region fits around them.
    """
    inside = tuple(f"{name}." for name, _ in units(module))
    layers: list[LayerPeak] = []
    for reading in readings:
        if not f"{reading.module}.".startswith(inside):
            continue
        layer = LayerPeak(component=reading.component, module=reading.module, kind=reading.kind, peak=reading.output_peak)
        if reading.output_peak < float("inf"):
            layers.append(layer)
        if reading.output_peak < reading.peak < float("inf"):
            layers.append(msgspec.structs.replace(layer, module=f"{reading.module}.{INSIDE}", peak=reading.peak))
    return tuple(layers)


class Recovery:
    """Finds cures for failing calls and applies them. plan: applied now; references: wide types, the cheapest first."""

    def __init__(
        self,
        loaded: Loaded,
        device: DeviceFacts,
        plan: Plan,
        asked: DType,
        states: Mapping[DType, DTypeState],
        numerics: Numerics,
        stored: Plan | None,
        check: Callable[[], None],
        references: Callable[[str], Sequence[Reference]],
    ) -> None:
        self.loaded = loaded
        self._device = device
        self._references = references
        self.plan = plan
        self._asked: DType = asked
        self._states = states
        self._numerics = numerics
        self._stored = stored
        self._check = check
        self._tried: dict[str, list[tuple[ComponentState, dict[str, str | bool]]]] = {}
        self._causes: dict[tuple[str, str], LoraCause | None] = {}
        self._interrupted: dict[str, tuple[ComponentState, Exact]] = {}

    @cached_property
    def exactness(self) -> Exactness:
        """What is proven of the rescalings."""
        found = Exactness(self.loaded, self._device, self._asked, self._check)
        found.references = self._references
        return found

    def is_sound(self, call: Call) -> bool:
        """Whether a call is finite as its component is now."""
        return is_in_range(run_call(call, self.loaded.modules[call.component], self.loaded.states[call.component].dtype))

    def diagnose(self, call: Call) -> Diagnosis:
        """Replay the call as it ran to name the origin, then in float32 to size it. The state is then restored from the file."""
        name = call.component
        module = self.loaded.modules[name]
        state = self.loaded.states[name]
        self.loaded.places.packed = False  # until the next job: a cure is searched for in weights that can be written
        settle_weights(module)
        take_compiled(module)  # until the next job: what is hung onto a layer to look inside is not heeded by compiled code
        self._check()
        failing = measure_call(call, module, state.dtype)
        masters = exact_source(self.loaded, name, anew=True)
        broken = tuple(damaged(module, masters, state))
        forget(module, broken)
        self._check()
        self.will_be(name, state, masters)
        wide, reference = self._reference(call, masters)
        self.put_back()
        source = source_of(failing.readings)
        if source is None and not failing.finite:
            source = saturation(failing.readings)
        where = source.module if source is not None else ""
        peaks = {reading.module: reading.peak for reading in reference.readings}
        peak = peaks.get(where)
        return Diagnosis(
            call=call,
            component=name,
            module=where,
            peak=peak if peak is not None and peak < float("inf") else None,
            layers=layer_peaks(reference.readings),
            replay=failing,
            reference=reference,
            masters=masters,
            damaged=broken,
            weights_finite=source is None or source.weights_finite,
            score=max((score.peak for score in reference.scores if score.module == where), default=None),
            lora=None if failing.finite else self._lora_cause(call, where, masters),
            wide=wide,
        )

    def will_be(self, name: str, state: ComponentState, masters: Exact) -> None:
        """The state that `put_back` gives a component, whatever it is brought into before that."""
        self._interrupted[name] = state, masters

    def put_back(self) -> None:
        """Bring components that were diagnosed into the state that they are to have then. If the memory ended meanwhile, too."""
        for name, (state, masters) in list(self._interrupted.items()):
            apply_state(self.loaded, name, state, masters, force=True)
            del self._interrupted[name]
        for name, state in list(self.loaded.states.items()):
            if state == HALF_DONE and name in self.loaded.modules:
                apply_state(self.loaded, name, state_in(self.plan, name, self._asked))

    def change(self, name: str, state: ComponentState, masters: Exact) -> None:
        """Bring a component into another state; if the memory ends meanwhile, `put_back` gives it the one that it is in now."""
        self.will_be(name, self.loaded.states[name], masters)
        apply_state(self.loaded, name, state, masters)
        del self._interrupted[name]

    def _reference(self, call: Call, masters: Exact) -> tuple[DType, Measured]:
        """The call in a wide type, and which: the first that the memory holds. Raises the last shortage where none does."""

        def measured(way: Reference) -> tuple[DType, Measured]:
            with streamed(self.loaded, call.component, way.dtype, masters):
                return way.dtype, measure_call(call, self.loaded.modules[call.component], way.dtype, scores=True)

        return first_that_fits(self.loaded, self._references(call.component), measured)

    def _lora_cause(self, call: Call, where: str, masters: Exact) -> LoraCause | None:
        """Looked for once for each layer of a picture: it may fail at many steps."""
        key = call.component, where
        if key not in self._causes:
            state = self.loaded.states[call.component]
            self.will_be(call.component, state, masters)
            self._causes[key] = cause_of(self.loaded, call, where, masters, self._check)
            if self.loaded.states[call.component] == state:
                self._interrupted.clear()
            self.put_back()
        return self._causes[key]

    def cure(self, diagnosis: Diagnosis, accept: Callable[[Any], bool] = is_in_range) -> Cured | None:
        """Apply the first candidate, cheapest first, that makes the call finite and close. None: nothing helped."""
        if not diagnosis.sound:
            return None
        self.will_be(diagnosis.component, self.loaded.states[diagnosis.component], diagnosis.masters)
        found = self._first_cure(diagnosis, accept)
        if found is None:
            self.put_back()
        else:
            self._interrupted.clear()
        return found

    def _first_cure(self, diagnosis: Diagnosis, accept: Callable[[Any], bool]) -> Cured | None:
        """The first that holds. Raises the shortage where none does and one of them did not fit."""
        if diagnosis.damaged and (found := self._read_again(diagnosis, accept)) is not None:
            return found
        shortage: Exception | None = None
        for kind, plan in self._candidates(diagnosis):
            self._check()
            for candidate in (*(self._by_layer(diagnosis, plan) if kind == "upcast-region" else ()), plan):
                try:
                    found = self._attempt(diagnosis, kind, candidate, accept)
                except (RuntimeError, MemoryError, HalftoneError) as error:
                    if not is_shortage(error):
                        raise
                    log.info("cure %s of %s does not fit: %s", kind, diagnosis.component, first_line(error))
                    self._tried[diagnosis.component].pop()  # with more of the model offloaded it may
                    free_after(error)
                    shortage = error.with_traceback(None)
                    continue
                if found is not None:
                    return found
        if shortage is not None:
            raise shortage
        return None

    def _by_layer(self, diagnosis: Diagnosis, plan: Plan) -> Iterator[Plan]:
        """A region as the fewest layers that this call needs, with those that an earlier one needed; then all of them whole."""
        name = diagnosis.component
        narrow = ComponentState(dtype=plan.dtypes.get(name, self._asked), rescale=plan.rescale.get(name, {}))
        runs = Runs(MOST_RUNS, self._check, _PATIENCE)
        found = fewest_layers(self.loaded, [diagnosis.call], diagnosis.masters, narrow, runs)
        for layers in () if found is None else found.sets(()):
            upcast = {**plan.upcast, name: joined_regions((*self.plan.upcast.get(name, ()), *layers))}
            states = {component: ComponentState(dtype=self._asked, upcast=own) for component, own in upcast.items()}
            moved = sum(upcast_parameters(self.loaded.modules[component], state) for component, state in states.items())
            yield with_layers(plan, upcast, moved, self.loaded.sizes, self._asked)

    def _read_again(self, diagnosis: Diagnosis, accept: Callable[[Any], bool]) -> Cured | None:
        """Damaged weights were replaced by what the file holds; the plan stays."""
        name = diagnosis.component
        state = self.loaded.states[name]
        result = run_call(diagnosis.call, self.loaded.modules[name], state.dtype)
        return Cured("none", self.plan, result) if is_in_range(result) and accept(result) else None

    def kinds(self, diagnosis: Diagnosis) -> list[CureKind]:
        """What could be tried, cheapest first."""
        return [kind for kind, _ in self._candidates(diagnosis)]

    def _attempt(self, diagnosis: Diagnosis, kind: CureKind, plan: Plan, accept: Callable[[Any], bool]) -> Cured | None:
        name = diagnosis.component
        wanted = state_in(plan, name, self.loaded.states[name].dtype)
        tried = self._tried.setdefault(name, [])
        if (wanted, plan.settings) in tried:
            return None
        tried.append((wanted, plan.settings))
        try:
            exact = self.exactness.settled(diagnosis.call, wanted, diagnosis.masters)
            if exact is None:
                log.info("cure %s of %s is not exact with what is used beside the model", kind, name)
                return None
            if exact != wanted:
                wanted, plan = exact, msgspec.structs.replace(plan, rescale={**plan.rescale, name: exact.rescale})
            apply_state(self.loaded, name, wanted, diagnosis.masters)
            with torch_settings(effective(self._numerics, plan.settings), self.loaded.device):
                result = run_call(diagnosis.call, self.loaded.modules[name], wanted.dtype)
                accepted = is_in_range(result) and accept(result)
        except Exception as failure:
            if ends_the_job(failure):
                raise
            log.info("cure %s of %s cannot be run", kind, name, exc_info=True)
            return None
        error = relative_error(result, diagnosis.reference.result) if is_finite(result) else float("inf")
        log.info("cure %s of %s: error %.4g", kind, name, error)
        if error > CLOSE or not accepted:
            return None
        verified = msgspec.structs.replace(plan, verified=True, error=error)
        self.plan = with_counts(self.loaded, verified, self._asked)
        return Cured(kind, self.plan, result)

    def _candidates(self, diagnosis: Diagnosis) -> list[tuple[CureKind, Plan]]:
        """Plans for this component only; everything else stays as it is applied now."""
        name = diagnosis.component
        module = self.loaded.modules[name]
        found: list[tuple[CureKind, Plan]] = []
        if self._stored is not None and self._stored.verified:
            # what Never rules out for the VAE is still the safety net of a black picture
            numerics = msgspec.structs.replace(self._numerics, vae_float32="when-needed")
            stored = permitted(self.loaded, self._stored, numerics)
            found.append((kind_of(stored, name, self._asked), only(stored, name)))
        order = {reading.module: reading.order for reading in diagnosis.reference.readings}
        layers = planner_layers(module, diagnosis.reference.readings)
        groups = rescale_groups(name, module)  # no search: a picture waits, and a check finds more
        plans = candidate_plans(
            groups,
            layers,
            component_regions(name, module, order),
            {name: parameter_count(module)},
            self._asked,
            self._states,
            findings=(diagnosis.finding(self._asked, effective(self._numerics, self.plan.settings)),),
            numerics=self._numerics,
            tensors={name: tensor_peaks(diagnosis.masters, groups)},
        )
        for kind, plan in plans:
            if kind != "float32-all":
                found.append((kind, only(plan, name)))
        last = Plan(dtypes={name: "float32"}, rescale={name: {}}, upcast={name: ()})
        found.append(("float32-component", last))
        return [(kind, with_settings(self.loaded, merged(self.plan, plan))) for kind, plan in found]

    def event(self, diagnosis: Diagnosis, kind: str, action: str, cured: Cured | None, seconds: float) -> GuardEvent:
        """What happened, for the report and the picture's receipt."""
        state = self.loaded.states[diagnosis.component]
        return GuardEvent(
            step=None if diagnosis.call.step is None else diagnosis.call.step + 1,
            component=diagnosis.component,
            module=diagnosis.module,
            kind=kind,
            action=action,
            cure="read-again" if cured is not None and diagnosis.damaged else "none" if cured is None else cured.kind,
            peak=diagnosis.peak,
            limit=FLOAT_LIMITS[self._asked if cured is not None else state.dtype],
            seconds=seconds,
            plan=None if cured is None else cured.plan,
            layers=diagnosis.layers,
            sound_in_float32=diagnosis.sound_in_float32,
            lora=diagnosis.lora,
        )


def only(plan: Plan, name: str) -> Plan:
    """What a plan says about one component, leaving nothing of that component to an earlier plan."""
    return Plan(
        dtypes={name: plan.dtypes[name]} if name in plan.dtypes else {},
        rescale={name: plan.rescale.get(name, {})},
        deviation=plan.deviation_of(name),
        upcast={name: plan.upcast.get(name, ())},
        settings=plan.settings,
        reasons=plan.reasons,
    )


def kind_of(plan: Plan, name: str, asked: DType) -> CureKind:
    """The name of what a plan does to a component, by its strongest part."""
    dtype = plan.dtypes.get(name, asked)
    if dtype != asked:
        return "bfloat16" if dtype == "bfloat16" else "float32-component"
    if plan.upcast.get(name):
        return "upcast-region"
    return "rescale" if plan.rescale.get(name) else "setting" if plan.settings else "none"


def damage_finding(diagnosis: Diagnosis, dtype: DType) -> Finding:
    """Resident weights that differ from the file."""
    first = diagnosis.damaged[0]
    return Finding(
        code="memory-damage",
        component=diagnosis.component,
        module=first.rpartition(".")[0],
        dtype=dtype,
        peak=None,
        limit=None,
        facts={"tensor": first, "count": len(diagnosis.damaged)},
    )
