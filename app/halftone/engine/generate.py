"""A generate job: pictures one after another, each watched, cured where it fails, saved with its receipt."""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import torch

from halftone.contract.engine import Control, Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, GenerateReport, GuardEvent, PictureFacts, SelfTestReport
from halftone.contract.messages import FindingMade, JobStarted, PhaseChanged, PlanChanged, StepDone
from halftone.contract.plan import Plan
from halftone.contract.request import PictureRequest, ResolvedRequest
from halftone.contract.words import DType, Phase, ReceiptState
from halftone.engine.calls import Call, run_call
from halftone.engine.capture import effective
from halftone.engine.delivery import Delivery
from halftone.engine.first_plan import first_plan, remember_cure
from halftone.engine.flight import Flight, Hooks, StepFailed, is_finite
from halftone.engine.frames import Pixels, first_frame, frame_count, from_decoder, to_pixels
from halftone.engine.latents import read_latents
from halftone.engine.load import Loaded
from halftone.engine.picture import Picture, PictureStopped, flatness, picture_facts
from halftone.engine.plans import any_component, apply_plan, apply_state, merged
from halftone.engine.preview import Previewer
from halftone.engine.recover import ASSUMED, Cured, Diagnosis, Recovery, damage_finding, only
from halftone.engine.resolve import Inputs, of_request, pipeline_arguments, refused, resolve, task_pipeline
from halftone.engine.samplers import is_unfit, make_scheduler, put_scheduler, too_many_steps, unfit_sampler
from halftone.engine.snapshot import Snapshot
from halftone.engine.tensors import tensors_in
from halftone.engine.torch_settings import torch_settings, without_effect
from halftone.engine.unfinished import plan_fits, read_loop
from halftone.health.explain import explain
from halftone.health.guard import Where, next_action, receipt_state
from halftone.health.kept import check_same_model, read_kept
from halftone.health.precision import granted_precision, states
from halftone.measure.pictures import is_flat
from halftone.measure.sentinel import Health

log = logging.getLogger(__name__)

_BEFORE_DECODING: Final = ("encoded-again", "went-back-one-step")
"""What the guard does before a picture is decoded."""


class Generation:
    """One generate job on a loaded pipeline."""

    def __init__(
        self,
        loaded: Loaded,
        device: DeviceFacts,
        tested: SelfTestReport | None,
        request: PictureRequest,
        emit: Emit,
        control: Control,
    ) -> None:
        self._inputs: Inputs = of_request(request, loaded.facts)
        pipe = task_pipeline(loaded, self._inputs)
        self._arguments = pipeline_arguments(pipe, self._inputs)
        if loaded.native_scheduler is not None:
            put_scheduler(pipe, make_scheduler(loaded.native_scheduler, request.sampler))
        self._loaded = replace(loaded, pipe=pipe)
        self._request = request
        self._device = device
        self._emit = emit
        self._control = control
        dtype, reason = granted_precision(request.numerics.precision, tested, device)
        self._dtype: DType = dtype
        self._states = states(tested) or ASSUMED
        reasons = (reason, *without_effect(request.numerics, loaded.device))
        kept = None if request.resume_latents is None else read_kept(Path(request.resume_latents))
        if kept is not None:
            check_same_model(kept, loaded.facts, request.resume_latents or "")
        self._unfinished = kept if kept is not None and kept.asked is not None else None
        self._kept = kept if self._unfinished is None else None
        if self._kept is None:
            self._resolved: ResolvedRequest = resolve(request, self._loaded, pipe, self._inputs, dtype, reasons)
        else:
            self._resolved = self._kept.request
        self._plan, self._stored = first_plan(self._loaded, device, dtype, request.numerics)
        emit(JobStarted(kind="generate", plan=self._plan))
        self._picture = Picture(self._resolved.seed, 0)
        self._previewer = Previewer(self._loaded, emit)
        self._delivery = Delivery(request, self._loaded.facts, emit, self._unfinished)
        self._more_reasons: tuple[str, ...] = ()
        self._switches = ExitStack()

    def run(self) -> GenerateReport:
        """All pictures. Raises HalftoneError for what stops the whole job, or once all are made if one could not be saved;
        JobCancelled.
        """
        started = time.perf_counter()
        numerics = effective(self._request.numerics, self._plan.settings)
        with self._switches:
            self._switches.enter_context(torch_settings(numerics, self._loaded.device))
            apply_plan(self._loaded, self._plan)
            self._recovery = Recovery(
                self._loaded, self._plan, self._dtype, self._states, self._request.numerics, self._stored, self._control.check
            )
            flight = Flight(
                self._loaded,
                nan_check=numerics.nan_check,
                upcast_sampling=numerics.upcast_sampling,
                hooks=self._hooks(),
                settings=numerics,
            )
            for index in range(self._request.batch):
                self._control.check()
                self._picture = self._begun(index)
                self._one(flight)
        if self._delivery.unsaved is not None:
            raise self._delivery.unsaved
        times = sorted(flight.seconds_per_step)
        return GenerateReport(
            images=tuple(self._delivery.pictures),
            plan=msgspec.structs.replace(self._recovery.plan, reasons=(*self._recovery.plan.reasons, *self._more_reasons)),
            events=tuple(event for picture in self._delivery.pictures for event in picture.events),
            seconds=time.perf_counter() - started,
            seconds_per_step=times[len(times) // 2] if times else None,
        )

    def _hooks(self) -> Hooks:
        def on_step(step: int, steps: int, health: Health | None, seconds: float) -> None:
            self._picture.steps = step
            finite = None if health is None else health.finite
            peak = health.peak if health is not None and health.finite else None
            self._picture.peak = max(self._picture.peak, peak or 0.0)
            self._emit(StepDone(step=step, steps=steps, peak=peak, finite=finite, seconds=seconds))

        return Hooks(
            check=self._control.check,
            keep=self._control.keep,
            on_phase=self._phase,
            on_step=on_step,
            on_latents=self._previewer.show,
            on_bad_call=self._on_bad_call,
        )

    def _phase(self, name: str) -> None:
        """Said once when it begins, not at every call."""
        if name != self._picture.phase:
            self._picture.phase = name
            self._emit(PhaseChanged(phase=cast("Phase", name)))

    # --- one picture -------------------------------------------------------------------------------

    def _begun(self, index: int) -> Picture:
        """A new picture; of kept latents with what befell its steps (what is done from now on is told anew)."""
        picture = Picture(self._resolved.seed + index, index)
        kept = self._kept or self._unfinished
        if kept is not None:
            picture.events += [event for event in kept.picture.events if event.action in _BEFORE_DECODING]
        return picture

    def _one(self, flight: Flight) -> None:
        try:
            decoded = self._fly(flight) if self._kept is None else self._decode_only(flight)
            self._tell_frames(decoded)
            self._finish(first_frame(decoded), flight)
        except PictureStopped as stopped:
            self._give_up(stopped, flight)

    def _tell_frames(self, decoded: Any) -> None:
        """Of several frames only the first is saved, and its receipt says so."""
        count = frame_count(decoded)
        told = f"{count} frames were computed; the first one is saved."
        if count > 1 and told not in self._resolved.reasons:
            self._resolved = msgspec.structs.replace(self._resolved, reasons=(*self._resolved.reasons, told))
            self._more_reasons = (told,)

    def _fly(self, flight: Flight) -> Any:
        """Run the pipeline until it ends, going back one step after each failure that could be cured.

        What came before the failure is repeated as it was; the cure comes in with the first step that is computed again.
        """
        resume, entering = self._begin(flight)
        begun = resume
        while True:
            generator = torch.Generator("cpu").manual_seed(self._picture.seed)
            try:
                result = flight.run({**self._arguments, "output_type": "pt"}, generator, resume, entering)
            except (TypeError, ValueError, AssertionError) as error:
                refused = self._refused(error)
                if refused is error:
                    raise
                raise refused from error
            except StepFailed as failure:
                if not flight.watches_every_step:
                    flight.watch_every_step()
                    resume = None
                    continue
                self._picture.good = None if failure.good is begun else failure.good
                resume, entering = failure.good, self._recover_step(failure)
                continue
            return result[0]

    def _begin(self, flight: Flight) -> tuple[Snapshot | None, Callable[[], None] | None]:
        """Where the steps begin: at the noise, or after the last good step of an unfinished picture. Until then that one is under
        the plan it was made under, so that all its pipeline computes beside the steps is as it was.
        """
        if self._unfinished is None:
            return None, None
        path = Path(self._request.resume_latents or "")
        if not plan_fits(self._unfinished.plan, self._loaded.modules):
            raise HalftoneError("latents-unreadable", "its plan names what the model lacks", path=str(path))
        state = flight.adopt(read_loop(path, self._loaded.pipe.scheduler, self._loaded.device))
        if self._request.numerics.nan_check != "off":
            flight.watch_every_step()  # this step failed before
        apply_plan(self._loaded, self._unfinished.plan)
        return state, lambda: apply_plan(self._loaded, self._recovery.plan)

    def _refused(self, error: Exception) -> Exception:
        """What the pipeline does not take: so many steps, a sampler, an option, an input; any other error stays a fault."""
        too_many = too_many_steps(getattr(self._loaded.pipe, "scheduler", None), self._resolved.steps, error)
        if too_many is not None:
            return too_many
        sampler = self._request.sampler
        if sampler is not None and is_unfit(self._loaded.pipe.scheduler, error):
            return unfit_sampler(self._loaded.native_scheduler, sampler, error)
        return error if isinstance(error, AssertionError) else refused(self._request.options, error)

    def _recover_step(self, failure: StepFailed) -> Callable[[], None] | None:
        """Cure the denoiser call that failed; what is to be done before the step is computed again."""
        started = time.perf_counter()
        kind = "flat" if failure.health.flat else "nonfinite"
        diagnosis = self._failing_call(failure)
        self._heed_policy(diagnosis, kind, started, None)
        before, seen = self._loaded.states[diagnosis.component], self._seen_dtype(diagnosis)
        if not diagnosis.failing and diagnosis.sound and failure.health.step not in self._picture.repeated:
            # the same call is sound now: a passing fault of the device, or the scheduler's arithmetic; the step is repeated
            self._picture.repeated.add(failure.health.step)
            cured = Cured("none", self._recovery.plan, None)
        else:
            others = [call for call in failure.calls if call is not diagnosis.call]
            cured = self._recovery.cure(diagnosis, lambda _result: all(self._recovery.is_sound(call) for call in others))
        self._note(diagnosis, kind, "went-back-one-step", cured, started)
        if self._seen_dtype(diagnosis) == seen:
            return None
        # the pipeline asks its networks for their type: until the step it is to see what it saw
        after = self._loaded.states[diagnosis.component]
        apply_state(self._loaded, diagnosis.component, before, diagnosis.masters)
        return lambda: apply_state(self._loaded, diagnosis.component, after, diagnosis.masters)

    def _seen_dtype(self, diagnosis: Diagnosis) -> torch.dtype:
        return cast("Any", self._loaded.modules[diagnosis.component]).dtype

    def _failing_call(self, failure: StepFailed) -> Diagnosis:
        """Of the denoiser calls of the step the first that fails again, else the last."""
        assert failure.calls, "a step without a denoiser call"
        failing = (call for call in failure.calls[:-1] if not self._recovery.is_sound(call))
        return self._recovery.diagnose(next(failing, failure.calls[-1]))

    def _on_bad_call(self, call: Call, result: Any) -> Any:
        """An encoder or decoder gave numbers that are not finite: only this call is repeated."""
        started = time.perf_counter()
        failed = from_decoder(next(tensors_in(result))) if call.method == "decode" else None
        self._picture.failed = failed if failed is not None else self._picture.failed
        if call.method == "decode":
            self._picture.decoder_input = next(tensors_in((call.args, list(call.kwargs.values()))))
        diagnosis = self._recovery.diagnose(call)
        self._heed_policy(diagnosis, "nonfinite", started, failed)
        cured = self._unchanged(diagnosis) if diagnosis.passed else self._recovery.cure(diagnosis)
        self._note(diagnosis, "nonfinite", "decoded-again" if call.method == "decode" else "encoded-again", cured, started)
        assert cured is not None
        return cured.result

    def _heed_policy(self, diagnosis: Diagnosis, kind: str, started: float, failed: torch.Tensor | None) -> None:
        """Leave the picture here if the setting, or what was found, says so."""
        where: Where = diagnosis.call.where
        action = next_action(
            self._request.numerics.on_black, where, self._recovery.kinds(diagnosis), bad_in_float32=not diagnosis.sound
        )
        if action.kind == "cure":
            return
        log.info("%s: %s", action.word, action.reason)
        event = self._recovery.event(diagnosis, kind, action.word, None, time.perf_counter() - started)
        event = msgspec.structs.replace(event, why=action.why)
        raise PictureStopped(event, "asking" if action.kind == "ask" else "not-recovered", failed)

    def _note(self, diagnosis: Diagnosis, kind: str, action: str, cured: Cured | None, started: float) -> None:
        seconds = time.perf_counter() - started
        if cured is None:
            event = self._recovery.event(diagnosis, kind, "stopped", None, seconds)
            event = msgspec.structs.replace(event, why="no-cure")
            raise PictureStopped(event, "not-recovered", self._picture.failed)
        event = self._recovery.event(diagnosis, kind, action, cured, seconds)
        self._picture.events.append(event)
        if diagnosis.damaged:
            self._emit(FindingMade(finding=explain(damage_finding(diagnosis, self._dtype))))
        if cured.plan == self._plan:
            return
        self._emit(
            PlanChanged(before=self._plan, after=cured.plan, reason=f"{cured.kind}: {diagnosis.component}.{diagnosis.module}")
        )
        if cured.plan.settings != self._plan.settings:
            numerics = effective(self._request.numerics, cured.plan.settings)
            self._switches.enter_context(torch_settings(numerics, self._loaded.device))
        self._plan = cured.plan
        remember_cure(self._loaded, self._device, self._dtype, self._request.numerics, cured.plan, diagnosis.component)

    def _decode_only(self, flight: Flight) -> Any:
        """Decode kept latents; nothing else runs."""
        found = any_component(self._loaded, "decode")
        assert found is not None
        name, module = found
        self._emit(PhaseChanged(phase="decode"))
        flight.decoded_input = read_latents(Path(self._request.resume_latents or "")).to(self._loaded.device)
        call = Call(name, "decode", (flight.decoded_input,), {"return_dict": False})
        result = run_call(call, module, self._loaded.states[name].dtype)
        if not is_finite(result):
            result = self._on_bad_call(call, result)
        return from_decoder(next(tensors_in(result)))[None].clamp(0, 1)

    # --- the end of a picture ----------------------------------------------------------------------

    def _finish(self, picture: torch.Tensor, flight: Flight) -> None:
        pixels = to_pixels(picture)
        pixels = self._look_again(pixels, flight)
        finite = is_finite(picture)
        watched = self._request.numerics.nan_check != "off"
        sound = not watched or (finite and not is_flat(pixels))
        state = receipt_state(watched=watched, recovered=bool(self._picture.events), asking=False, sound=sound)
        facts = self._facts(state, pixels, finite=finite)
        self._delivery.save(self._picture, facts, pixels, flight.decoded_input, self._resolved, self._whole_plan())

    def _look_again(self, pixels: Pixels, flight: Flight) -> Pixels:
        """A flat picture, or flat tiles over latents that are not flat, is decoded once more in float32 and with the weights as
        the file has them; the better one is kept. One that is flat then too is kept as it is, and told.
        """
        latents = flight.decoded_input
        found = any_component(self._loaded, "decode")
        kind = flatness(pixels, latents)
        if self._request.numerics.nan_check == "off" or found is None or kind is None:
            return pixels
        started = time.perf_counter()
        if latents is None:
            return self._keep_flat(pixels, found[0], started, compared=False)
        diagnosis = self._recovery.diagnose(Call(found[0], "decode", (latents,), {"return_dict": False}))

        def whole(result: Any) -> bool:
            return flatness(to_pixels(from_decoder(next(tensors_in(result)))), latents) is None

        if not diagnosis.sound or not whole(diagnosis.reference.result):
            return self._keep_flat(pixels, found[0], started, compared=True)
        self._picture.failed = torch.from_numpy(pixels).permute(2, 0, 1) / 255
        self._picture.decoder_input = latents
        self._heed_policy(diagnosis, kind, started, self._picture.failed)
        passed = diagnosis.passed and whole(diagnosis.replay.result)
        cured = self._unchanged(diagnosis) if passed else self._recovery.cure(diagnosis, whole)
        self._note(diagnosis, kind, "decoded-again", cured, started)
        assert cured is not None
        return to_pixels(from_decoder(next(tensors_in(cured.result))))

    def _unchanged(self, diagnosis: Diagnosis) -> Cured:
        """A fault that passed: what the call gives now, under the plan as it is."""
        return Cured("none", self._recovery.plan, diagnosis.replay.result)

    def _keep_flat(self, pixels: Pixels, component: str, started: float, *, compared: bool) -> Pixels:
        """Nothing better is known. Flat tiles alone may be the picture's own; one colour everywhere is told.

        compared: float32 gave nothing better.
        """
        if is_flat(pixels):
            event = GuardEvent(
                step=None,
                component=component,
                module="",
                kind="flat",
                action="kept",
                cure="none",
                seconds=time.perf_counter() - started,
                sound_in_float32=False if compared else None,
            )
            self._picture.events.append(event)
        return pixels

    def _facts(self, state: ReceiptState, pixels: Pixels | None, *, finite: bool) -> PictureFacts:
        facts = picture_facts(self._picture, self._loaded, self._resolved, state, pixels, finite=finite)
        if self._kept is None:
            return facts
        before, decoder = self._kept.picture, self._decoder()
        dtypes = {**before.dtypes, decoder: facts.dtypes[decoder]}
        return msgspec.structs.replace(facts, dtypes=dtypes, steps=before.steps, room_bits=before.room_bits)

    def _whole_plan(self) -> Plan:
        """Under which the picture was made: of kept latents the steps under one, the decode under the present one."""
        plan = self._recovery.plan
        return plan if self._kept is None else merged(self._kept.plan, only(plan, self._decoder()))

    def _decoder(self) -> str:
        found = any_component(self._loaded, "decode")
        assert found is not None, "latents without a decoder"
        return found[0]

    def _give_up(self, stopped: PictureStopped, flight: Flight) -> None:
        """Leave the picture with what happened to it."""
        self._picture.events.append(stopped.event)
        facts = self._facts(stopped.state, None, finite=False)
        self._delivery.give_up(self._picture, facts, stopped.failed, self._resolved, self._whole_plan(), flight.loop)
        flight.decoded_input = None
