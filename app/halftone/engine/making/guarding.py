"""The guard of a generate job: what failed is diagnosed, cured, and computed again; what cannot be cured ends its picture."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import torch

from halftone.contract.engine import Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, GuardEvent
from halftone.contract.messages import FindingMade, PlanChanged
from halftone.contract.plan import Plan
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import tensors_in
from halftone.engine.basics.torch_settings import torch_settings
from halftone.engine.curing.exactness import StillTooLargeError
from halftone.engine.curing.first_plan import remember_cure
from halftone.engine.curing.recover import Cured, Diagnosis, Recovery, damage_finding
from halftone.engine.finding.capture import effective
from halftone.engine.inputs.memory import free_after, is_shortage
from halftone.engine.loading.load import Loaded, file_exponents
from halftone.engine.loading.plans import any_component, apply_state
from halftone.engine.making.picture import Picture, PictureStopped
from halftone.engine.sampling.film import Film, Flatness, Part, flat_frames, flat_in, parts_of, worst
from halftone.engine.sampling.flight import Flight
from halftone.engine.sampling.frames import frame_count, frames_in
from halftone.engine.sampling.hooks import StepFailed, is_finite
from halftone.engine.sampling.rehearsal import unsound
from halftone.engine.sampling.samplers import given_steps
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.precision import ComponentState
from halftone.health.explain import not_exact, not_proven
from halftone.health.faults import first_line
from halftone.health.planning.recovery_policy import Where, next_action

log = logging.getLogger(__name__)


@dataclass
class Guard:
    """Watches the picture in work. plan: in force; switches: undoes cured settings; expected: frames of a picture; steps: of each
    picture; is_last: only the decode is left.
    """

    loaded: Loaded
    device: DeviceFacts
    dtype: DType
    request: PictureRequest
    emit: Emit
    recovery: Recovery
    plan: Plan
    picture: Picture
    switches: ExitStack
    expected: int
    steps: int
    is_last: bool = True
    flight: Flight = field(init=False)

    def before_call(self, call: Call) -> None:
        """Use a rescaling only once it is proven exact with what this call brings: an input that a ControlNet or adapter adds is
        scaled too, or the component runs without rescaling, as it does where the proof does not fit in memory.
        """
        name = call.component
        state = self.loaded.states[name]
        if not state.rescale and not file_exponents(self.loaded, name):
            return
        found, reason = self._settled(call, state)
        after = found or msgspec.structs.replace(state, rescale=self.recovery.exactness.as_original(name))
        apply_state(self.loaded, name, after)  # a proof that was broken off may have left it half done
        if after == state:
            return
        before, plan = self.plan, self.recovery.plan
        rescale = {**plan.rescale, name: after.rescale}
        reasons = plan.reasons if reason is None else (*plan.reasons, reason)
        plan = msgspec.structs.replace(plan, rescale={key: own for key, own in rescale.items() if own}, reasons=reasons)
        self.plan = self.recovery.plan = plan
        if reason is not None:
            self.emit(PlanChanged(before=before, after=plan))

    def _settled(self, call: Call, state: ComponentState) -> tuple[ComponentState | None, Words | None]:
        """Return what `Exactness.settled` does, and why the rescaling is not used where that is None."""
        try:
            found = self.recovery.exactness.settled(call, state)
            return found, None if found is not None else not_exact(call.component)
        except (RuntimeError, MemoryError, HalftoneError) as error:
            if not is_shortage(error):
                raise
            if not isinstance(error, StillTooLargeError):
                log.info("the memory ended in a proof for %s: %s", call.component, first_line(error))
                free_after(error)
            return None, not_proven(call.component)

    def recover_step(self, failure: StepFailed) -> Callable[[], None] | None:
        """Cure the denoiser call that failed; what is to be done before the step is computed again."""
        started = time.perf_counter()
        kind = "flat" if failure.health.flat else "nonfinite"
        diagnosis = self._failing_call(failure)
        self._check_sampler(diagnosis, failure, started)
        self._heed_policy(diagnosis, kind, started, None)
        before, seen = self.loaded.states[diagnosis.component], self._seen_dtype(diagnosis)
        if not diagnosis.failing and diagnosis.sound and failure.health.step not in self.picture.repeated:
            # the same call is sound now: a passing fault of the device, or the scheduler's arithmetic; the step is repeated
            self.picture.repeated.add(failure.health.step)
            cured = Cured("none", self.recovery.plan, None)
        else:
            # a call that was given bad numbers, by a ControlNet before it, cannot be sound
            others = [call for call in failure.calls if call is not diagnosis.call and is_finite((call.args, call.kwargs))]
            cured = self.recovery.cure(diagnosis, lambda _result: all(self.recovery.is_sound(call) for call in others))
        self._note(diagnosis, kind, "went-back-one-step", cured, started)
        if self._seen_dtype(diagnosis) == seen:
            return None
        # the pipeline asks its networks for their type: until the step it is to see what it saw
        after = self.loaded.states[diagnosis.component]
        self.recovery.will_be(diagnosis.component, before, diagnosis.masters)
        return lambda: self.recovery.change(diagnosis.component, after, diagnosis.masters)

    def _check_sampler(self, diagnosis: Diagnosis, failure: StepFailed, started: float) -> None:
        """End the job where the sampler's own arithmetic is not finite, which no cure of the model helps; found by rehearsal."""
        sound = diagnosis.sound and not diagnosis.failing
        if failure.health.finite or (not sound and is_finite((diagnosis.call.args, list(diagnosis.call.kwargs.values())))):
            return
        rehearsal, calls = self.flight.rehearsal(failure.health.step)
        if not rehearsal.fails(calls):
            return
        given = given_steps(rehearsal.scheduler, self.request.options) is not None
        error = unsound(rehearsal, self.steps, given=given, check=self.flight.hooks.check)
        event = self.recovery.event(diagnosis, "nonfinite", "stopped", None, time.perf_counter() - started)
        raise PictureStopped(msgspec.structs.replace(event, why="sampler"), "not-recovered", error=error)

    def on_bad_call(self, call: Call, result: Any) -> Any:
        """An encoder or decoder gave numbers that are not finite: only this call is repeated."""
        started = time.perf_counter()
        failed: torch.Tensor | None = None
        bad: tuple[int, ...] = ()
        if call.method == "decode":
            failed, bad = self._bad_decode(call, _first(result))
        diagnosis = self.recovery.diagnose(call)
        self._heed_policy(diagnosis, "nonfinite", started, failed, bad)
        cured = self._unchanged(diagnosis) if diagnosis.passed else self.recovery.cure(diagnosis)
        self._note(diagnosis, "nonfinite", "decoded-again" if call.method == "decode" else "encoded-again", cured, started, bad)
        assert cured is not None
        return cured.result

    def _bad_decode(self, call: Call, decoded: torch.Tensor) -> tuple[torch.Tensor, tuple[int, ...]]:
        """The worst frame and the numbers of those not finite. Notes the latents first: the frames may not fit in memory."""
        done = sum(earlier.frames for earlier in self.flight.decodes)
        latents = next(tensors_in((call.args, list(call.kwargs.values()))))
        self._note_latents(latents, whole=not done and (latents.dim() != 4 or frame_count(decoded) >= self.expected))
        frames = frames_in(decoded)
        self.picture.failed = worst(frames)
        bad = _numbers(index for index, frame in enumerate(frames, done) if not is_finite(frame))
        return self.picture.failed, bad if self.expected > 1 else ()

    def _note_latents(self, latents: torch.Tensor, *, whole: bool) -> None:
        """What the picture can be finished from: what its decoder was given, where that is all of it and all that is left."""
        if whole and self.is_last:
            self.picture.decoder_input = latents
        else:
            self.picture.good = self.flight.last_good

    def look_again(self, film: Film) -> None:
        """Decode a flat frame, or flat tiles over latents that are not flat, once more in float32 and with the file's weights,
        and keep the better one. One that is flat again, or does not fit in memory, is kept and reported.
        """
        found = any_component(self.loaded, "decode")
        if self.request.numerics.nan_check == "off" or found is None:
            return
        (name, module), started, events = found, time.perf_counter(), len(self.picture.events)
        try:
            parts, before = parts_of(film, self.flight.decodes, name), self.recovery.plan
            for part in parts:
                bad = flat_frames(film, part)
                if bad and self.recovery.plan != before:  # a part before it was cured
                    film.put(part.first, frames_in(_first(run_call(part.decoded.call, module, self.loaded.states[name].dtype))))
                    bad = flat_frames(film, part)
                if bad:
                    self._decode_again(film, part, bad)
            if not parts:
                self._keep_flat(film, range(len(film)), name, time.perf_counter(), compared=False)
        except (RuntimeError, MemoryError, HalftoneError) as error:
            if not is_shortage(error):
                raise
            log.info("a flat picture could not be decoded again: %s", first_line(error))
            free_after(error)
            self.recovery.put_back()
            del self.picture.events[events:]
            self._keep_flat(film, range(len(film)), name, started, compared=False)

    def _decode_again(self, film: Film, part: Part, bad: Mapping[int, Flatness]) -> None:
        """bad: the frames of the part that are flat now. One that is flat in float32 too, as a film may begin, is no fault."""
        started = time.perf_counter()
        diagnosis = self.recovery.diagnose(part.decoded.call)
        unavoidable = flat_in(diagnosis.reference.result, part)
        if not diagnosis.sound or bad.keys() <= unavoidable:
            self._keep_flat(film, bad, part.decoded.call.component, started, compared=True)
            return
        mended = [index for index in bad if index not in unavoidable]

        def good(result: Any) -> bool:
            return flat_in(result, part) <= unavoidable

        kind = bad[mended[0]]
        numbers = _numbers(mended) if len(film) > 1 else ()
        self.picture.failed = torch.from_numpy(film[mended[0]]).permute(2, 0, 1) / 255
        self._note_latents(part.decoded.latents, whole=len(film) == part.decoded.frames)
        self._heed_policy(diagnosis, kind, started, self.picture.failed, numbers)
        passed = diagnosis.passed and good(diagnosis.replay.result)
        cured = self._unchanged(diagnosis) if passed else self.recovery.cure(diagnosis, good)
        self._note(diagnosis, kind, "decoded-again", cured, started, numbers)
        assert cured is not None
        film.put(part.first, frames_in(_first(cured.result)))
        self._keep_flat(film, sorted(unavoidable), part.decoded.call.component, time.perf_counter(), compared=True)

    def _keep_flat(self, film: Film, frames: Iterable[int], component: str, started: float, *, compared: bool) -> None:
        """Keep flat frames: nothing better is known. frames: from 0; compared: float32 gave nothing better."""
        if flat := [index for index in frames if film.is_flat(index)]:
            event = GuardEvent(
                step=None,
                component=component,
                module="",
                kind="flat",
                action="kept",
                cure="none",
                seconds=time.perf_counter() - started,
                sound_in_float32=False if compared else None,
                frames=_numbers(flat) if len(film) > 1 else (),
            )
            self.picture.events.append(event)

    def _seen_dtype(self, diagnosis: Diagnosis) -> torch.dtype:
        return cast("Any", self.loaded.modules[diagnosis.component]).dtype

    def _failing_call(self, failure: StepFailed) -> Diagnosis:
        """The first denoiser call of the step that fails again, else the last."""
        assert failure.calls, "a step without a denoiser call"
        failing = (call for call in failure.calls[:-1] if not self.recovery.is_sound(call))
        return self.recovery.diagnose(next(failing, failure.calls[-1]))

    def _unchanged(self, diagnosis: Diagnosis) -> Cured:
        """A fault that passed: what the call gives now, under the plan as it is."""
        return Cured("none", self.recovery.plan, diagnosis.replay.result)

    def _heed_policy(
        self,
        diagnosis: Diagnosis,
        kind: str,
        started: float,
        failed: torch.Tensor | None,
        frames: tuple[int, ...] = (),
    ) -> None:
        """Stop the picture if the setting, or the diagnosis, says so."""
        where: Where = diagnosis.call.where
        action = next_action(
            self.request.numerics.on_black, where, self.recovery.kinds(diagnosis), bad_in_float32=not diagnosis.sound
        )
        if action.kind == "cure":
            return
        log.info("%s: %s", action.word, action.reason)
        event = self.recovery.event(diagnosis, kind, action.word, None, time.perf_counter() - started)
        event = msgspec.structs.replace(event, why=action.why, frames=frames)
        raise PictureStopped(event, "asking" if action.kind == "ask" else "not-recovered", failed)

    def _note(
        self,
        diagnosis: Diagnosis,
        kind: str,
        action: str,
        cured: Cured | None,
        started: float,
        frames: tuple[int, ...] = (),
    ) -> None:
        seconds = time.perf_counter() - started
        if cured is None:
            event = self.recovery.event(diagnosis, kind, "stopped", None, seconds)
            event = msgspec.structs.replace(event, why="no-cure", frames=frames)
            raise PictureStopped(event, "not-recovered", self.picture.failed)
        event = self.recovery.event(diagnosis, kind, action, cured, seconds)
        self.picture.events.append(msgspec.structs.replace(event, frames=frames))
        if diagnosis.damaged:
            self.emit(FindingMade(finding=damage_finding(diagnosis, self.dtype)))
        if cured.plan == self.plan:
            return
        self.emit(PlanChanged(before=self.plan, after=cured.plan))
        if cured.plan.settings != self.plan.settings:
            numerics = effective(self.request.numerics, cured.plan.settings)
            self.switches.enter_context(torch_settings(numerics, self.loaded.device))
        self.plan = cured.plan
        numerics = self.request.numerics
        if remember_cure(self.loaded, self.device, self.dtype, numerics, cured.plan, diagnosis.component):
            self.picture.events[-1] = msgspec.structs.replace(self.picture.events[-1], remembered=True)


def _first(result: Any) -> torch.Tensor:
    return next(tensors_in(result))


def _numbers(frames: Iterable[int]) -> tuple[int, ...]:
    """Count frames from 1."""
    return tuple(index + 1 for index in frames)
