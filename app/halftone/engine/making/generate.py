"""A generate job: pictures one after another, each watched, cured where it fails, saved with its receipt."""

import inspect
import logging
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import GenerateReport, PictureFacts
from halftone.contract.messages import JobStarted, PhaseChanged, StepDone
from halftone.contract.parameters import NOISE_OF_COMFYUI, NOISE_OF_NVIDIA, NOISE_SEED_DELTA, NOISE_SOURCE
from halftone.contract.plan import Plan
from halftone.contract.vocabulary import Phase, ReceiptState
from halftone.contract.wording import Words
from halftone.engine.basics.snapshot import Snapshot
from halftone.engine.basics.tensors import tensors_in
from halftone.engine.basics.torch_settings import torch_settings
from halftone.engine.curing.recover import Recovery, only
from halftone.engine.inputs.memory import free_after, free_bytes, is_too_large, once_more, weight_bytes
from halftone.engine.inputs.noise_source import (
    another_seed_for_steps,
    begun_below_noise_alone,
    churned_at_first,
    middle_of_the_start,
    noise_of_cards,
)
from halftone.engine.inputs.resolve import with_prompts
from halftone.engine.inputs.variation import Variation, varied_noise
from halftone.engine.inputs.wanted import negative_of
from halftone.engine.loading.compiling import Compiling
from halftone.engine.loading.plans import any_component, apply_plan, merged
from halftone.engine.making.delivery import Delivery
from halftone.engine.making.guarding import Guard
from halftone.engine.making.job import Job
from halftone.engine.making.outcome import Finished, Stopped
from halftone.engine.making.picture import OutOfRoom, Picture, PictureStopped, decoded_later, picture_facts, receipt_state
from halftone.engine.making.prepared import Prepared
from halftone.engine.making.refusal import refusal
from halftone.engine.sampling.film import Film, Seen
from halftone.engine.sampling.flight import Flight
from halftone.engine.sampling.frames import OUTPUT, all_frames, frames_in
from halftone.engine.sampling.handover import ALONE, Handover
from halftone.engine.sampling.hooks import Hooks, StepFailed, decoded, is_in_range
from halftone.engine.sampling.latents import read_latents
from halftone.engine.sampling.preview import Previewer
from halftone.engine.sampling.samplers import is_flow, make_scheduler, put_scheduler
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.engine.sampling.step_noise import brownian
from halftone.engine.sampling.unfinished import plan_fits, read_loop
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.offload import told_packing
from halftone.health.faults import first_line, is_out_of_memory
from halftone.health.pictures.run_reasons import how_it_ran
from halftone.library.prompts.drawn_prompts import spoken
from halftone.library.resolution_bins import computed_size
from halftone.measure.giving_back import trim_heap
from halftone.measure.peak import PeakMemory
from halftone.measure.sentinel import Health

log = logging.getLogger(__name__)

_BEFORE_DECODING: Final = ("encoded-again", "went-back-one-step")
"""What the guard does before a picture is decoded."""


class Generation:
    """One generate job on a loaded pipeline."""

    def __init__(
        self,
        prepared: Prepared,
        job: Job,
        *,
        handover: Handover = ALONE,
        delivery: Delivery | None = None,
    ) -> None:
        """handover: what it begins with and where it ends, as a pass of several; delivery: where the picture then goes."""
        request, emit = job.request, job.emit
        self._prepared = prepared
        self._handover = handover
        self._loaded = prepared.loaded
        self._inputs, self._arguments, self._resolved = prepared.inputs, dict(prepared.arguments), prepared.resolved
        if (scheduler := getattr(self._loaded.pipe, "scheduler", None)) is not None:
            put_scheduler(self._loaded.pipe, make_scheduler(scheduler, None))
        self._request = request
        self._emit = emit
        self._control = job.control
        self._drawn = job.drawn
        decoded = prepared.kept is not None and prepared.kept.asked is None
        self._kept, self._unfinished = (prepared.kept, None) if decoded else (None, prepared.kept)
        self._plan = prepared.plan
        emit(JobStarted(kind="generate", plan=self._plan))
        self._picture = Picture(self._resolved.seed, 0)
        self._previewer = Previewer(self._loaded, emit)
        self._delivery = delivery or Delivery(request, self._loaded.facts, emit, self._unfinished, prepared.given)
        self._more_reasons = how_it_ran(prepared.resolved.reasons)
        self._room = prepared.room.afresh(job.others_leave)
        wanted = request.numerics.compile
        self._compiling = Compiling(self._loaded, wanted=wanted) if wanted or self._loaded.compiler.used else None
        self._switches = ExitStack()

    def run(self) -> GenerateReport:
        """Make all pictures. Raises JobCancelled, and HalftoneError: at once if it stops the job, else after the last picture."""
        started = time.perf_counter()
        numerics = self._prepared.numerics
        with self._switches:
            self._switches.enter_context(torch_settings(numerics, self._loaded.device))
            self._tell(*self._room.settle(free_bytes(self._loaded), lambda: apply_plan(self._loaded, self._plan)))
            self._compile()
            self._tell(*told_packing(self._loaded.modules), *self._prepared.notes)
            self._guard = self._new_guard()
            flight = self._guard.flight = Flight(
                self._loaded,
                nan_check=numerics.nan_check,
                upcast_sampling=numerics.upcast_sampling,
                hooks=self._hooks(),
                settings=(numerics, self._prepared.reads),
                rules=self._prepared.rules,
                options=self._inputs.options,
            )
            try:
                for index in range(self._request.batch):
                    self._control.check()
                    self._picture = self._guard.picture = self._begun(index)
                    self._peak = PeakMemory(self._loaded.device)
                    if not self._one(flight):
                        break
            finally:
                del self._guard.flight  # its hooks hold the guard: a circle would keep all of the job in memory
        if self._delivery.unsaved is not None:
            raise self._delivery.unsaved
        self._more_reasons += self._compiled(flight)
        times, plan = sorted(flight.seconds_per_step), self._guard.recovery.plan
        return GenerateReport(
            images=tuple(self._delivery.pictures),
            plan=msgspec.structs.replace(plan, reasons=(*plan.reasons, *self._more_reasons)),
            events=tuple(event for picture in self._delivery.pictures for event in picture.events),
            seconds=time.perf_counter() - started,
            seconds_per_step=times[len(times) // 2] if times else None,
        )

    def _new_guard(self) -> Guard:
        known = self._prepared
        room, has_bfloat16 = self._room, known.states.get("bfloat16") == "works"
        recovery = Recovery(
            self._loaded, known.device, self._plan, known.dtype, known.states, self._request.numerics, known.stored,
            self._control.check,
            lambda name: room.references(name, bfloat16=has_bfloat16),  # without self: a circle would keep the job in memory
        )  # fmt: skip
        return Guard(
            loaded=self._loaded,
            device=known.device,
            dtype=known.dtype,
            request=self._request,
            emit=self._emit,
            recovery=recovery,
            plan=self._plan,
            picture=self._picture,
            switches=self._switches,
            expected=known.expected,
            steps=self._resolved.steps,
            is_last=self._handover.is_last,
        )

    def _hooks(self) -> Hooks:
        def on_step(step: int, steps: int, health: Health | None, seconds: float) -> None:
            self._picture.steps, self._picture.planned = step, steps
            finite = None if health is None else health.finite
            peak = health.peak if health is not None and health.finite else None
            self._picture.peak = max(self._picture.peak, peak or 0.0)
            number = self._picture.index + 1
            self._emit(StepDone(step=step, steps=steps, peak=peak, finite=finite, seconds=seconds, picture=number))

        def keep() -> bool:
            self._picture.kept_early = self._control.keep()
            return self._picture.kept_early

        return Hooks(
            check=self._control.check,
            keep=keep,
            on_phase=self._phase,
            on_step=on_step,
            on_latents=self._previewer.show,
            before_call=self._guard.before_call,
            on_bad_call=self._guard.on_bad_call,
            instead=self._handover.instead,
        )

    def _phase(self, name: str) -> None:
        """Report a phase once, when it begins."""
        if name != self._picture.phase:
            trim_heap()  # what the phase before left would lie beside what this one needs
            self._picture.phase = name
            self._emit(PhaseChanged(phase=cast("Phase", name)))

    # --- one picture -------------------------------------------------------------------------------

    def _begun(self, index: int) -> Picture:
        """Begin a picture; one of kept latents has the events of its steps."""
        seed, variation_seed = self._resolved.seeds(index)
        picture = Picture(seed, index + self._handover.index, variation_seed, loras=self._drawn)
        if self._kept is None and self._prepared.says_otherwise:
            self._speak(picture)
        kept = self._kept or self._unfinished
        if kept is not None:
            picture.events += [event for event in kept.picture.events if event.action in _BEFORE_DECODING]
            picture.words = kept.picture.prompt, kept.picture.negative
            picture.steps = kept.picture.kept_step or 0  # where they were the last, no other is counted
        return picture

    def _speak(self, picture: Picture) -> None:
        """Styles and draws give each picture its own words."""
        picture.words = prompt, negative = spoken(self._request, picture.seed)
        self._inputs = replace(self._inputs, prompt=prompt, negative=negative_of(negative, empty=self._request.empty_negative))
        self._arguments = with_prompts(self._loaded.pipe, self._arguments, self._inputs)
        self._guard.flight.reading.forget()
        self._resolved = msgspec.structs.replace(self._resolved, prompt=prompt, negative=negative)

    @contextmanager
    def _noise(self) -> Generator[None]:
        """Draw the noise of the picture as it was asked for. Raises setting-bad-value, value-out-of-range."""
        pipe, options, variation = self._loaded.pipe, self._resolved.options, self._variation()
        with ExitStack() as stack:
            source = options.get(NOISE_SOURCE)
            if source == NOISE_OF_NVIDIA:
                stack.enter_context(noise_of_cards(pipe, self._picture.seed))
            if isinstance(scheduler := getattr(pipe, "scheduler", None), SolverScheduler):
                scheduler.noise_seed, scheduler.noise_source = self._picture.seed, source if isinstance(source, int) else 0
                stack.callback(brownian.cache_clear)
                stack.enter_context(middle_of_the_start())
            if variation is not None:
                stack.enter_context(varied_noise(pipe, variation))
            if isinstance(delta := options.get(NOISE_SEED_DELTA), int) and delta:
                stack.enter_context(another_seed_for_steps(pipe, self._picture.seed, delta))
            if options.get("s_churn"):
                stack.enter_context(churned_at_first(pipe, options))
            highest = options.get("sigma_max")
            if isinstance(highest, int | float) and highest and self._resolved.image is None and is_flow(pipe.scheduler):
                stack.enter_context(begun_below_noise_alone(pipe, highest))
            yield

    def _variation(self) -> Variation | None:
        now = self._resolved
        if now.variation_strength == 0 and now.seed_size in (None, (now.width, now.height)):
            return None
        return Variation(self._picture.variation_seed or 0, now.variation_strength, (now.width, now.height), now.seed_size)

    def _one(self, flight: Flight) -> bool:
        """False where the memory does not hold such a picture: no other of the job would fit either."""
        try:
            frames = all_frames(self._fly(flight)) if self._kept is None else self._decode_only(flight)
            self._finish(self._film(frames), flight)
        except PictureStopped as stopped:
            self._picture.events.append(stopped.event)
            self._give_up(stopped.state, stopped.failed, flight)
            if stopped.error is not None:
                raise stopped.error from None
        except OutOfRoom:
            self._give_up("not-recovered", None, flight)
            return False
        except (RuntimeError, MemoryError) as error:  # once the steps were done: the latents are there
            self._free_after(error)
            self._picture.shortages.append(self._room.stopped(self._picture.phase, self._step_in_work()))
            if self._handover.is_last and sum(part.frames for part in flight.decodes) >= self._prepared.expected:
                self._picture.decoder_input = flight.decoded_input
            else:
                self._picture.good = flight.last_sound()
            self._give_up("not-recovered", None, flight)
            return False
        return True

    def _fly(self, flight: Flight) -> Any:
        """Run the pipeline to its end, going back one step after each failure that could be cured.

        Earlier steps repeat as they were; the cure begins with the first step that is computed again.
        """
        resume, entering = self._run_in_room(lambda: self._begin(flight))
        begun, failed = resume, None
        while True:
            try:
                self._guard.recovery.put_back()
                if failed is not None:
                    resume, entering = failed.good, self._guard.recover_step(failed)
                    failed = None
                    self._guard.recovery.put_back()
                result = self._run_pipeline(flight, resume, entering)
            except StepFailed as failure:
                if not flight.every_step:
                    flight.every_step = True
                    resume = None
                    continue
                self._picture.good = None if failure.good is begun else failure.good
                flight.go_back(failure.good)
                failed = failure.with_traceback(None)  # its frames hold what the pipeline had on the device
                continue
            except (RuntimeError, MemoryError, HalftoneError) as error:
                self._make_room(error)
                resume = flight.last_sound()
                continue
            return result[0]

    def _run_pipeline(self, flight: Flight, resume: Snapshot | None, entering: Callable[[], None] | None) -> Any:
        """Return what the pipeline gives. Its refusal is raised in words of its own."""
        try:
            with self._noise():
                return flight.run({**self._arguments, "output_type": OUTPUT}, self._generator(), resume, entering)
        except (TypeError, ValueError, AssertionError, LookupError, ArithmeticError, AttributeError) as error:
            told = refusal(error, self._loaded, self._request, self._resolved.steps)
            if told is error:
                raise
            raise told from error

    def _generator(self) -> torch.Generator:
        """The generator of the picture's noise, or as the pass before left it."""
        made = torch.Generator("cpu").manual_seed(self._picture.seed)
        begins_again = self._resolved.options.get(NOISE_SOURCE) in NOISE_OF_COMFYUI  # each of its samplers has a seed
        if self._handover.noise is not None and not begins_again:
            made.set_state(self._handover.noise)
        return made

    def _make_room(self, error: Exception) -> None:
        """Free memory and let the next cheaper way be used. Raises any other error, and OutOfRoom where no way is left."""
        self._free_after(error)
        if self._room.others_leave():
            return
        self._picture.shortages.append(self._room.make(self._picture.phase, self._step_in_work()))
        self._compile()  # the weights may come part by part now
        if self._picture.shortages[-1].then == "stopped":
            self._picture.good = self._guard.flight.last_sound()
            raise OutOfRoom

    def _free_after(self, error: Exception) -> None:
        """Free what a call that ran out of memory held. Raises any other error."""
        if not (is_out_of_memory(error) or is_too_large(error)):
            raise error
        log.info("the memory ended in %s: %s", self._picture.phase or "the beginning", first_line(error))
        free_after(error)

    def _step_in_work(self) -> int | None:
        """Its number; what was read of the steps so far may be one behind."""
        if self._picture.phase != "denoise":
            return None
        last = self._guard.flight.last_state
        return 1 if last is None else last.step - last.began + 2

    def _begin(self, flight: Flight) -> tuple[Snapshot | None, Callable[[], None] | None]:
        """Begin at the noise, at the handover, or after the last good step of an unfinished picture. The latter first runs under
        the plan it was made under, so that what its pipeline computes beside the steps is the same.
        """
        if self._unfinished is None or not self._unfinished.picture.kept_step:
            return None, None
        path = Path(self._request.resume_latents or "")
        if not plan_fits(self._unfinished.plan, self._loaded.modules):
            raise HalftoneError("latents-unreadable", "its plan names what the model lacks", path=str(path))
        state = flight.adopt(read_loop(path, self._loaded.pipe.scheduler, self._loaded.device))
        if self._request.numerics.nan_check != "off":
            flight.every_step = True  # this step failed before
        apply_plan(self._loaded, self._unfinished.plan)
        return state, lambda: apply_plan(self._loaded, self._guard.recovery.plan)

    def _decode_only(self, flight: Flight) -> list[torch.Tensor]:
        """Decode kept latents; nothing else runs."""
        found = any_component(self._loaded, "decode")
        assert found is not None
        name, module = found
        self._emit(PhaseChanged(phase="decode"))
        latents = read_latents(Path(self._request.resume_latents or "")).to(self._loaded.device)
        own = inspect.signature(module.decode).parameters
        told = {"num_frames": len(latents)} if "num_frames" in own else {}
        call = Call(name, "decode", (latents,), {**told, "return_dict": False})
        self._picture.phase = "decode"

        def decode() -> Any:
            self._guard.recovery.put_back()
            result = run_call(call, module, self._loaded.states[name].dtype)
            return result if is_in_range(result) else self._guard.on_bad_call(call, result)

        result = self._run_in_room(decode)
        flight.decodes[:] = [decoded(call, result)]
        return frames_in(next(tensors_in(result)))

    def _run_in_room(self, run: Callable[[], Any]) -> Any:
        """What it gives, in the first way that fits."""
        while True:
            try:
                return run()
            except (RuntimeError, MemoryError, HalftoneError) as error:
                self._make_room(error)

    # --- the end of a picture ----------------------------------------------------------------------

    def _film(self, frames: list[torch.Tensor]) -> Film:
        """All frames, or the first one where the file that was asked for holds no more; the receipt then says so."""
        film = Film(frames)
        if self._prepared.binned:
            film.fit((self._resolved.height, self._resolved.width))
        if len(film) == 1 or not self._delivery.is_still:
            return film
        self._tell(Words("{0} frames were computed; the first one is saved.", (len(film),)))
        return film.first()

    def _compile(self) -> None:
        if self._compiling is not None:
            self._tell(*self._compiling.put())

    def _compiled(self, flight: Flight) -> tuple[Words, ...]:
        """What came of compiling."""
        return () if self._compiling is None else self._compiling.told(flight.seconds_per_step)

    def _tell(self, *reasons: Words) -> None:
        """What shows only while the job runs stands in the receipt and in the report, once."""
        fresh = tuple(reason for reason in reasons if reason not in self._resolved.reasons)
        self._resolved = msgspec.structs.replace(self._resolved, reasons=(*self._resolved.reasons, *fresh))
        self._more_reasons += fresh

    def _finish(self, film: Film, flight: Flight) -> None:
        if not flight.stood_in:
            self._guard.look_again(film)
        seen = once_more(film.seen)
        watched = self._request.numerics.nan_check != "off"
        sound = not watched or flight.stood_in or not (seen.broken or seen.flat)
        state = receipt_state(watched=watched, recovered=bool(self._picture.events), sound=sound)
        if self._prepared.overlay is not None:
            film = self._prepared.overlay.lay_frames(film)  # only now: what was made is judged as it was made
            seen = replace(seen, width=film.size[1], height=film.size[0])
        facts = self._facts(state, seen)
        noise = None if flight.last_state is None else flight.last_state.generator
        made = Finished(self._picture, facts, self._resolved, self._whole_plan(), film, flight.decoded_input, noise)
        self._delivery.save(made)

    def _facts(self, state: ReceiptState, seen: Seen | None) -> PictureFacts:
        facts = picture_facts(self._picture, self._loaded, self._resolved, state, seen)
        peak = self._peak.read(weight_bytes(self._loaded))
        ran = how_it_ran((*self._more_reasons, *self._compiled(self._guard.flight)))
        way = self._room.way
        facts = msgspec.structs.replace(facts, peak_memory=peak, tiled=way.tiled, offload=way.offload, ran=ran)
        if facts.frames > 1 or (seen is None and self._prepared.expected > 1):
            facts = msgspec.structs.replace(facts, fps=self._prepared.fps)
        if self._kept is not None:
            return decoded_later(facts, self._kept.picture, self._decoder())
        if not self._prepared.binned:
            return facts
        computed = computed_size(self._loaded.facts, (facts.width, facts.height), self._resolved.options)
        return facts if computed == (facts.width, facts.height) else msgspec.structs.replace(facts, computed=computed)

    def _whole_plan(self) -> Plan:
        """The plan of the picture: with kept latents the steps' plan and the decode's present one."""
        plan = self._guard.recovery.plan
        return plan if self._kept is None else merged(self._kept.plan, only(plan, self._decoder()))

    def _decoder(self) -> str:
        found = any_component(self._loaded, "decode")
        assert found is not None, "latents without a decoder"
        return found[0]

    def _give_up(self, state: ReceiptState, failed: torch.Tensor | None, flight: Flight) -> None:
        """End the picture and report what happened."""
        facts = self._facts(state, None)
        left = Stopped(self._picture, facts, self._resolved, self._whole_plan(), failed, flight.loop)
        self._delivery.give_up(left)
        flight.decodes.clear()
