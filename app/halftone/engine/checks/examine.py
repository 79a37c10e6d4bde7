"""A check: file scan, range pass, target pass, plan, verification, prices. Finds everything in one go."""

import logging
import math
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import torch

from halftone.contract.engine import Control, Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import CheckReport, ComponentFacts, DeviceFacts, Finding, LayerPeak, SelfTestReport
from halftone.contract.messages import Examine, FindingMade, LayersMeasured, PhaseChanged
from halftone.contract.plan import Cure, Plan
from halftone.contract.vocabulary import FLOAT_LIMITS, CureKind, DType
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import relative_error, tensors_in
from halftone.engine.basics.torch_settings import torch_settings
from halftone.engine.checks.doubts import Doubts
from halftone.engine.checks.prices import Pricing
from halftone.engine.curing.exactness import Exactness
from halftone.engine.curing.recover import ASSUMED, layer_peaks, measure_call
from halftone.engine.finding.capture import Range, drawn_frames, effective, is_refusal, range_pass
from halftone.engine.finding.departure import departure_finding
from halftone.engine.finding.findings import (
    DENSE,
    WITHOUT_PEAKS,
    clipped_findings,
    damage_findings,
    device_findings,
    finite_or_none,
    ordered,
    overflow_finding,
    peak_findings,
    source_of,
    weight_findings,
)
from halftone.engine.finding.lora_cause import with_lora_causes
from halftone.engine.finding.tally import closest, picture_psnr
from halftone.engine.finding.timing import Bare
from halftone.engine.inputs.check_memory import CheckRoom
from halftone.engine.inputs.fitting_arguments import variants, with_changes
from halftone.engine.inputs.memory import Reference, free_after, is_too_large, once_more
from halftone.engine.inputs.prompts import pictures_to_check, prompts_to_read
from halftone.engine.inputs.wanted import Inputs
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import apply_plan, base_plan, exact_now, streaming, with_counts
from halftone.engine.patches.lora import lora_damage
from halftone.engine.rescaling.groups import scanned_peaks
from halftone.engine.sampling.frames import from_decoder, to_pixels
from halftone.engine.sampling.hooks import Hooks, is_finite, is_in_range
from halftone.engine.weights.calls import CLOSE, Call, run_call
from halftone.engine.weights.offload import settle_weights
from halftone.engine.weights.precision import own_inputs
from halftone.health.device_faults import detours
from halftone.health.faults import first_line, is_out_of_memory
from halftone.health.judge import headroom_bits, judge
from halftone.health.precision import granted_to, states
from halftone.library.files.scan import TensorScan, scan_weights
from halftone.measure.pictures import is_flat
from halftone.measure.probe import Probe, Reading, saturation

log = logging.getLogger(__name__)

WRONG: Final[dict[DType, float]] = {"float16": CLOSE, "bfloat16": 0.3, "float32": 1.0}
"""Relative error from which a finite result counts as wrong; bfloat16 keeps 8 bits, so more is normal there."""
NEAR: Final = 0.02
"""Relative error of one call up to which the whole picture is the same; float16 gives about 0.002."""
ALIKE: Final = 30.0
"""dB from which two pictures count as the same."""
_EVERY: Final = 0.25
"""Shortest time in seconds between two reports of measured layers."""
_SHARE: Final = 0.03
"""Largest share of the time that such reports may cost."""


@dataclass
class Target:
    """The target pass of one component. runs: seconds of single runs by method; errors: by id of the call."""

    seconds: float = 0.0
    runs: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    calls: int = 0
    finite: bool = True
    errors: dict[int, float] = field(default_factory=dict[int, float])
    findings: list[Finding] = field(default_factory=list[Finding])
    failing: Call | None = None
    """The first one whose result was not finite."""


class Examination:
    """One check of a loaded pipeline, which stays in the precision asked for, without cures, as offloaded as before."""

    def __init__(
        self, loaded: Loaded, device: DeviceFacts, tested: SelfTestReport | None, command: Examine, emit: Emit, control: Control
    ) -> None:
        self._loaded = loaded
        self._device = device
        self._command = command
        self._emit = emit
        self._control = control
        self._numerics = command.numerics
        self._tested = tested
        self._ways = detours(tested, command.numerics.attention_backend)
        self._states = states(tested) or ASSUMED
        dtype, self._reason = granted_to(command.numerics, tested, device, loaded.facts, loaded.extras)
        self._dtype: DType = dtype
        self._pictures = pictures_to_check(loaded, command.inputs, command.depth)
        self._prompts = prompts_to_read(loaded)
        self._exactness = Exactness(loaded, device, dtype, control.check)
        self._ran_a_step = False
        self._layers_due, self._attempts = 0.0, 0
        self.wide: Range | None = None
        """The range pass, once it was made."""
        self._room = CheckRoom(loaded, device, command, [inputs for inputs, _ in self._pictures])
        self._wide: DType = "float32" if self._room.fits_wide() or self._states.get("bfloat16") != "works" else "bfloat16"
        for module in loaded.modules.values():
            settle_weights(module)
        self._masters = {name: exact_now(loaded, name) for name in loaded.modules}
        self._doubts = Doubts(loaded, self._masters)

    @property
    def in_blocks(self) -> Set[str]:
        """Components that are too large to be brought whole into other types."""
        return self._room.in_blocks

    def run(self) -> CheckReport:
        """The whole check. Raises HalftoneError, JobCancelled."""
        started = time.perf_counter()
        loaded = self._loaded
        scans = self._scan()
        masters = self._masters
        base = base_plan(loaded, self._dtype, self._numerics)
        self._base_dtypes = base.dtypes
        damage = damage_findings(scans, base.dtypes, loaded.modules) + lora_damage(loaded.adapters, self._dtype)
        if damage:
            return self._damaged(damage, base, started)
        with streaming(loaded, {name: masters[name] for name in self.in_blocks}):
            try:
                with torch_settings(self._numerics, loaded.device):
                    wide = self.wide = self._room.run(lambda: self._range(masters), self._in_bfloat16)
                    targets = self._room.run(lambda: self._targets(wide, base))
                    findings = self._room.run(lambda: self._findings(scans, wide, targets, base))
                pricing, plan, cures = self._room.run(lambda: self._priced(scans, wide, base, targets, findings))
            finally:
                self._put_back(base)
        layers = once_more(lambda: self._layers(wide, pricing, plan))
        return self._report(findings, plan, cures, layers, targets, base, started)

    def _put_back(self, base: Plan) -> None:
        """Leave the model as the next picture needs it. What does not fit into memory now is read again for that picture."""
        try:
            apply_plan(self._loaded, base, self._masters)
        except (RuntimeError, MemoryError, HalftoneError) as error:
            if not (is_out_of_memory(error) or is_too_large(error)):
                raise
            log.info("the model is left half way: %s", first_line(error))
            free_after(error)

    def _damaged(self, damage: list[Finding], base: Plan, started: float) -> CheckReport:
        """End the check: bad values in the file settle it. A pass would add nothing, and no cure can help."""
        modules = self._loaded.modules
        orders = {name: {path: rank for rank, (path, _) in enumerate(own.named_modules())} for name, own in modules.items()}
        findings = self._explained(damage, orders)
        return self._report(findings, with_counts(self._loaded, base, self._dtype), (), (), {}, base, started)

    # --- the passes --------------------------------------------------------------------------------

    def _scan(self) -> tuple[TensorScan, ...]:
        self._emit(PhaseChanged(phase="scan"))
        found = scan_weights(
            self._loaded.facts,
            self._control.cancelled,
            lambda done, total: self._emit(PhaseChanged(phase="scan", done=done, total=total)),
            extras=self._command.inputs.extras,
        )
        names = self._loaded.file_names
        return tuple(
            msgspec.structs.replace(scan, tensor=names.get(scan.component, {}).get(scan.tensor, scan.tensor)) for scan in found
        )

    def _range(self, masters: Mapping[str, Mapping[str, torch.Tensor]]) -> Range:
        """float32 where it fits into the memory that is free, else bfloat16 where the device really has it."""
        dtype = self._wide
        self._emit(PhaseChanged(phase="range", total=self._expected()))
        wide = Plan(dtypes=dict.fromkeys(self._loaded.modules, dtype))
        self._room.settle(dtype, lambda: apply_plan(self._loaded, wide, masters))
        places = self._loaded.places
        self._exactness.references = lambda _: (Reference(dtype, places.mode),)  # what does not fit so is begun again with less
        found = self._taken(dtype)
        if self._doubts.is_the_devices(found):
            found = self._taken(dtype)
        before = {name: own_inputs(module) for name, module in self._loaded.modules.items()}
        for call, _ in found.calls:
            self._exactness.fits_copy(call, masters[call.component])
        changed = any(own_inputs(module) != before[name] for name, module in self._loaded.modules.items())
        # a rescaled copy got what a ControlNet adds in another scale
        return self._range_of(self._pictures, dtype) if changed else found

    def _taken(self, dtype: DType) -> Range:
        """The range pass, with other arguments where the pipeline refuses those that it has by default."""
        try:
            return self._range_of(self._pictures, dtype)
        except Exception as error:
            if self._ran_a_step or not is_refusal(error):
                raise
            return self._with_other_arguments(error, dtype)

    def _range_of(self, pictures: list[tuple[Inputs, int]], dtype: DType) -> Range:
        self._ran_a_step = False
        return range_pass(self._loaded, pictures, self._prompts, dtype, self._control.check, self._progress)

    def _with_other_arguments(self, error: Exception, dtype: DType) -> Range:
        """Repeat the range pass with other arguments. Raises the pipeline's error where it refuses all."""
        for changes in variants(self._loaded.pipe, self._pictures[0][0], self._loaded.facts, self._command.inputs):
            pictures = [(with_changes(inputs, changes), seed) for inputs, seed in self._pictures]
            try:
                found = self._range_of(pictures, dtype)
            except Exception as other:
                if not is_refusal(other):
                    raise
                if self._ran_a_step:
                    break
                continue
            log.info("the pipeline refused its own arguments (%s) and takes %s", error, changes)
            self._pictures = pictures
            return found
        raise error

    def _in_bfloat16(self) -> bool:
        """Run the range pass in bfloat16, half the memory; False where it does already, or the device lacks it."""
        before, has_it = self._wide, self._states.get("bfloat16") == "works"
        self._wide = "bfloat16" if has_it else before
        return before != self._wide

    def _expected(self) -> int:
        steps = sum(inputs.steps or 0 for inputs, _ in self._pictures)
        return steps + 4 * len(self._pictures) + 2 * len(self._prompts)

    def _progress(self, found: Range, probes: Mapping[str, Probe]) -> None:
        self._ran_a_step = self._ran_a_step or found.calls[-1][0].step is not None
        self._emit(PhaseChanged(phase="range", done=len(found.calls), total=max(self._expected(), len(found.calls))))
        now = time.perf_counter()
        if now < self._layers_due:
            return
        layers = tuple(layer for probe in probes.values() if probe.calls for layer in layer_peaks(probe.readings()))
        self._emit(LayersMeasured(layers=layers, done=len(found.calls), total=max(self._expected(), len(found.calls))))
        end = time.perf_counter()
        self._layers_due = end + max(_EVERY, (end - now) / _SHARE)

    def _targets(self, wide: Range, base: Plan) -> dict[str, Target]:
        apply_plan(self._loaded, base, self._masters)
        self._doubts.next_pass()
        return {name: self._target(name, wide) for name in self._loaded.modules}

    def _target(self, name: str, wide: Range) -> Target:
        """Every call of a component once more, bare, in the precision that was asked for; a failing one again under the probe."""
        target = Target()
        failed: set[str] = set()
        for call, reference in wide.of(name):
            self._control.check()
            if not is_finite(reference) or not is_finite((call.args, call.kwargs)):
                continue
            target.calls += 1
            if call.method in failed:
                target.seconds += target.runs[call.method][-1]
                continue  # it overflows already: another noise level would tell nothing new
            self._emit(PhaseChanged(phase="target", detail=name))
            finite = self._judged(target, call, reference, wide)
            if not finite:
                failed.add(call.method)
                target.finite = False
                target.failing = target.failing or call
        return target

    def _judged(self, target: Target, call: Call, reference: Any, wide: Range, *, again: bool = False) -> bool:
        """Whether a call of the target pass is finite; what is wrong with it is noted. again: it was the device's before."""
        module, dtype = self._loaded.modules[call.component], self._loaded.states[call.component].dtype
        started = time.perf_counter()
        result = run_call(call, module, dtype)
        finite = is_in_range(result)
        spent = time.perf_counter() - started
        error = relative_error(result, reference) if finite else float("inf")
        found = self._trouble(call, result, reference, wide, error, again=again) if not target.findings or not finite else []
        if found is None:
            return self._judged(target, call, reference, wide, again=True)
        target.runs.setdefault(call.method, []).append(spent)
        target.seconds += spent
        target.errors[id(call)] = error
        target.findings += found
        return finite

    def _trouble(
        self, call: Call, result: Any, reference: Any, wide: Range, error: float, *, again: bool
    ) -> list[Finding] | None:
        """The findings of one call of the target pass, none if it is finite and close; None: run it again, the trouble was the
        device's. error: against the range pass; again: it runs again already.
        """
        name = call.component
        module, dtype = self._loaded.modules[name], self._loaded.states[name].dtype
        step = None if call.step is None else call.step + 1
        if error < float("inf"):
            flat = call.method == "decode" and _is_flat(result) and not _is_flat(reference)
            wrong = error > WRONG[dtype] or flat
            clipped, hidden = self._unseen(call) if wrong or self._passes_the_limit(name, wide) else (None, None)
            if clipped is not None:
                return [overflow_finding(clipped, name, dtype, step, _peaks(wide, name), wide.scores[name])]
            if not wrong and hidden is None:
                return []
            if not again and (self._is_right_now(call, result, reference, error) or self._doubts.reads_again(name)):
                return None
            if hidden is not None:
                return [overflow_finding(hidden, name, dtype, step, _peaks(wide, name), wide.scores[name])]
            masters = self._masters[name]
            return [departure_finding(self._loaded, call, step, masters, flat=flat, wide=wide.dtype)]
        measured = measure_call(call, module, dtype, until_origin=True)
        source = source_of(measured.readings) or saturation(measured.readings)
        if not again and measured.finite and self._doubts.is_sound_now(call, ""):
            return None
        if not again and source is not None and not source.weights_finite and self._doubts.reads_again(name):
            return None
        return [overflow_finding(source, name, dtype, step, _peaks(wide, name), wide.scores[name])]

    def _is_right_now(self, call: Call, result: Any, reference: Any, error: float) -> bool:
        """Whether a result that is finite but too far from the reference comes out right when it is computed again."""
        allowed = WRONG[self._loaded.states[call.component].dtype]
        return error > allowed and self._doubts.is_right_now(call, result, reference, allowed)

    def _passes_the_limit(self, name: str, wide: Range) -> bool:
        """Whether a layer of the component should have overflowed in its precision, by its peak in the range pass."""
        limit, module = FLOAT_LIMITS[self._loaded.states[name].dtype], self._loaded.modules[name]
        over = (reading.module for reading in wide.readings[name] if limit < reading.output_peak)
        return any(isinstance(module.get_submodule(one), DENSE) for one in over)

    def _unseen(self, call: Call) -> tuple[Reading | None, Reading | None]:
        """Layers whose overflow does not show in a finite result: (one that this device clipped, one that gave NaN).

        A layer clips nothing by itself, so a result exactly at the limit overflowed and would be infinite on other devices: that
        counts however little of it the result shows. A block that clips on purpose (FLUX, Chroma and Qwen-Image in float16) is
        what its authors ran; it counts only where the result is wrong, which `departure_finding` finds.

        NaN always counts. Some kernels of attention give numbers for queries and keys that are none, where others give NaN. An
        infinite value alone does not: a sigmoid or a clamp may make a number of it everywhere.
        """
        module = self._loaded.modules[call.component]
        measured = measure_call(call, module, self._loaded.states[call.component].dtype, scores=True)
        clipped = saturation(measured.readings)
        if clipped is not None and not isinstance(module.get_submodule(clipped.module), DENSE):
            clipped = None
        is_nan = any(math.isnan(one.peak) for one in measured.readings)
        is_nan = is_nan or any(not math.isfinite(one.peak) for one in measured.scores)
        return clipped, source_of(measured.readings) if is_nan else None

    # --- what follows from them --------------------------------------------------------------------

    def _findings(
        self, scans: tuple[TensorScan, ...], wide: Range, targets: Mapping[str, Target], base: Plan
    ) -> tuple[Finding, ...]:
        readings = {name: {reading.module: reading for reading in found} for name, found in wide.readings.items()}
        device = device_findings(self._tested, self._dtype)
        found = [*device, *self._doubts.found, *weight_findings(scans, base.dtypes, readings)]
        found += clipped_findings(scans, base.dtypes, self._loaded.modules)
        named = {finding.component for finding in found if finding.facts.get("read")}
        origins: dict[str, str] = {}
        for name, target in targets.items():
            # where the device computes wrongly, bad values without a peak over the limit are its doing
            own = [one for one in target.findings if not device or one.code not in WITHOUT_PEAKS]
            bad = source_of(wide.readings[name])
            if bad is not None and name not in named and bad.inputs_finite:
                own = [overflow_finding(bad, name, wide.dtype, None, {}, ())]
            origins |= {name: own[0].module} if own else {}
            dtype = base.dtypes[name]
            overflowed = not target.finite or any(one.code == "activation-overflow" for one in own)
            found += peak_findings(name, dtype, wide.readings[name], own, overflowed=overflowed)
        failing = {name: _first(target.failing, wide.of(name)) for name, target in targets.items() if target.failing is not None}
        found = with_lora_causes(self._loaded, found, failing, self._masters, self._control.check)
        running = dict.fromkeys((*(call.component for call, _ in wide.calls), *wide.readings))
        return self._explained(found, {name: {r.module: r.order for r in wide.readings[name]} for name in running}, origins)

    def _explained(
        self, found: Sequence[Finding], orders: Mapping[str, Mapping[str, int]], origins: Mapping[str, str] | None = None
    ) -> tuple[Finding, ...]:
        """Sort findings into running order and add their sentences."""
        explained = tuple(ordered(found, orders, origins))
        for finding in explained:
            self._emit(FindingMade(finding=finding))
        return explained

    def _searching(self) -> None:
        """Called before each run of a search for a cure. How many follow is not known: a check may make several searches."""
        self._control.check()
        self._attempts += 1
        self._emit(PhaseChanged(phase="plan", done=self._attempts))

    def _priced(
        self, scans: tuple[TensorScan, ...], wide: Range, base: Plan, targets: Mapping[str, Target], findings: tuple[Finding, ...]
    ) -> tuple[Pricing, Plan, tuple[Cure, ...]]:
        apply_plan(self._loaded, base, self._masters)
        own_files = (scan for scan in scans if scan.component not in self._loaded.sources)
        bare = {name: Bare(target.seconds, target.runs, target.errors) for name, target in targets.items()}
        pricing = Pricing(
            self._loaded, self._masters, wide, base, self._dtype, self._numerics, self._states, bare, self._control.check,
            self._searching, self._command.depth, self._exactness, lambda: self._room.is_last,
            scanned_peaks(own_files, self._masters),
        )  # fmt: skip
        return pricing, *self._cures(pricing, findings)

    def _cures(self, pricing: Pricing, findings: tuple[Finding, ...]) -> tuple[Plan, tuple[Cure, ...]]:
        """The suggested plan (the plain one if nothing is wrong), and every cure with its prices.

        A quick check runs cures, cheapest first, until one holds; the others get what is known without a run.
        """
        if self._command.plan is not None:
            with torch_settings(effective(self._numerics, self._command.plan.settings), self._loaded.device):
                cure = pricing.price("setting", self._command.plan)
            return cure.plan, (cure,)
        self._emit(PhaseChanged(phase="plan"))
        candidates = pricing.candidates(findings)
        if not candidates:
            return pricing.plain(), ()
        cures: list[Cure] = []
        for index, (kind, plan) in enumerate(candidates):
            self._control.check()
            if any(cure.kind == kind and cure.refusal is None for cure in cures):
                continue
            found = any(cure.suggested for cure in cures)
            if found and self._command.depth == "quick":
                cures.append(pricing.known(kind, plan))
                continue
            self._emit(PhaseChanged(phase="verify", done=index, total=len(candidates), detail=kind))
            with torch_settings(effective(self._numerics, plan.settings), self._loaded.device):
                cure = self._tried(pricing, kind, plan, thorough=not found)
            cures.append(msgspec.structs.replace(cure, suggested=cure.refusal is None and not found))
        suggested = next((cure.plan for cure in cures if cure.suggested), pricing.plain())
        return suggested, tuple(cures)

    def _tried(self, pricing: Pricing, kind: CureKind, plan: Plan, *, thorough: bool) -> Cure:
        """Price a plan. Regions: the fewest single layers with clearly the same picture; where none hold, blocks."""
        if kind == "upcast-region":
            prices = (pricing.price(kind, candidate, thorough=thorough) for candidate in pricing.by_layer(plan))
            if (found := closest(self._seen(cure, always=True) for cure in prices)) is not None:
                return found
        return self._seen(pricing.price(kind, plan, thorough=thorough))

    def _seen(self, cure: Cure, *, always: bool = False) -> Cure:
        """The applied cure after a whole picture: small errors may add up over the steps. always: however small they are."""
        if not cure.plan.verified or (not always and (cure.plan.error or 0.0) <= NEAR):
            return cure
        assert self.wide is not None
        inputs, seed = self._pictures[0]
        picture = drawn_frames(self._loaded, inputs, seed, Hooks(check=self._control.check))[0]
        reference = self.wide.picture
        if reference is None or picture.shape != reference.shape:
            return cure
        found = picture_psnr(picture, reference)
        known = found if cure.psnr is None else min(cure.psnr, found)
        if found >= ALIKE:
            return msgspec.structs.replace(cure, psnr=known)
        plan = msgspec.structs.replace(cure.plan, verified=False)
        return msgspec.structs.replace(
            cure, plan=plan, psnr=known, refusal=Words("Its picture differs from FP32 ({0}).", (f"{found:.0f}\u00a0dB",))
        )

    def _report(
        self,
        findings: tuple[Finding, ...],
        plan: Plan,
        cures: tuple[Cure, ...],
        layers: tuple[LayerPeak, ...],
        targets: Mapping[str, Target],
        base: Plan,
        started: float,
    ) -> CheckReport:
        return CheckReport(
            model=self._loaded.facts,
            device=self._device,
            precision=self._dtype,
            depth=self._command.depth,
            verdict=judge(findings, plan, base),
            findings=findings,
            plan=msgspec.structs.replace(
                plan, reasons=tuple(dict.fromkeys((self._reason, *self._ways, *self._room.reasons, *plan.reasons)))
            ),
            cures=cures,
            components={name: self._component(name, layers, targets.get(name, Target())) for name in self._loaded.modules},
            layers=layers,
            numerics=self._numerics,
            checked_at=datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
            seconds=time.perf_counter() - started,
            **msgspec.structs.asdict(self._command.inputs.extras),
            made_up=self._pictures[0][0].made_up,
            sizes=() if self.wide is None else tuple(self.wide.sizes),
        )

    def _layers(self, wide: Range, pricing: Pricing, plan: Plan) -> tuple[LayerPeak, ...]:
        """Every layer with its peak, and the one under the plan."""
        after = pricing.after(plan)
        layers = tuple(
            msgspec.structs.replace(layer, peak_after=finite_or_none(after.get((layer.component, layer.module))))
            for own in wide.readings.values()
            for layer in layer_peaks(own)
        )
        self._emit(LayersMeasured(layers=layers, done=1, total=1))
        return layers

    def _component(self, name: str, layers: tuple[LayerPeak, ...], target: Target) -> ComponentFacts:
        own = [layer for layer in layers if layer.component == name]
        peak = max((layer.peak for layer in own), default=None)
        return ComponentFacts(
            parameters=self._loaded.sizes[name],
            peak=peak,
            headroom_bits=headroom_bits(peak, self._base_dtypes.get(name, self._dtype)),
            seconds=target.seconds / target.calls if target.calls else None,
            modules=len(own),
        )


def _first(failing: Call, calls: Sequence[tuple[Call, Any]]) -> list[Call]:
    """All calls of a component, the one that failed before the others."""
    return [failing, *(call for call, _ in calls if call is not failing)]


def _peaks(wide: Range, name: str) -> dict[str, float]:
    """Module -> its peak in the range pass."""
    return {reading.module: reading.peak for reading in wide.readings[name]}


def _is_flat(result: Any) -> bool:
    picture = next(tensors_in(result))
    return picture.dim() == 4 and is_flat(to_pixels(from_decoder(picture)))
