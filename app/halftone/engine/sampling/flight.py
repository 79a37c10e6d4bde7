"""One picture's way through any diffusers pipeline, with light wrappers on its methods: casts, watching, fast-forward after a
failure.

Wrapped are: the denoisers' forward, the encoders' forward, the VAE's encode and decode, the scheduler's step and the pipeline's
encode_prompt. After a failure at step k the pipeline runs again: its denoiser calls before k return zeros in their former shapes,
its scheduler steps before k return the last good state, and from k on everything is real. So guidance, inpainting masks and
whatever else a pipeline does between the calls stay its own.
"""

import copy
import inspect
import time
from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from types import MethodType
from typing import Any

import torch

from halftone.contract.request import OptionValue
from halftone.contract.vocabulary import NanCheck
from halftone.engine.basics import snapshot as snapshots
from halftone.engine.basics.snapshot import Keeper, Snapshot
from halftone.engine.basics.tensors import as_dtype, first_floating, map_tensors, tensors_in
from halftone.engine.basics.wrapping import replaced
from halftone.engine.extras.control_nets import parted, prompted
from halftone.engine.loading.load import Loaded
from halftone.engine.sampling.composition import controlled, denoised, together
from halftone.engine.sampling.hooks import Decoded, Hooks, StepFailed, decoded, is_in_range
from halftone.engine.sampling.host_schedule import SHARED, HostSchedule, looks_at_times, on_host
from halftone.engine.sampling.host_tables import sent_ahead, tables_sent
from halftone.engine.sampling.misfit import parts_fit
from halftone.engine.sampling.reading import Reading
from halftone.engine.sampling.rehearsal import Rehearsal
from halftone.engine.sampling.samplers import NO_OPTIONS, guiders, schedulers, steps_in
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.engine.sampling.steering import Place, Steering, difference
from halftone.engine.sampling.unfinished import Loop, NotKeptError, check_fits
from halftone.engine.weights.calls import Call, both
from halftone.engine.weights.parts import role
from halftone.engine.weights.precision import invoke
from halftone.health.faults import forget_frames, is_out_of_memory
from halftone.library.add_ons.controlnets import CONTROLNET
from halftone.library.prompts.prompt_syntax import OWN, Rules
from halftone.measure.late import Pacer
from halftone.measure.randomness import undisturbed
from halftone.measure.sentinel import Health, Sentinel

Function = Callable[..., Any]


@dataclass
class _Pass:
    """One run of the pipeline."""

    generator: torch.Generator | None
    resume: Snapshot | None = None
    entering: Callable[[], None] | None = None
    """Called once, before the first step that is really computed."""
    step: int = 0
    began: int = 0
    """The step at which the present loop began."""
    calls: int = 0
    """Denoiser calls since the last step."""
    given: Any = None
    """What the denoiser gave in its last call."""
    added: torch.Tensor | None = None
    """What a further call adds to what the pipeline makes of that."""
    keeping: bool = False
    started: float = field(default_factory=time.perf_counter)

    @property
    def first_real(self) -> int:
        return 0 if self.resume is None else self.resume.step + 1

    def enter(self) -> None:
        entering, self.entering = self.entering, None
        if entering is not None:
            entering()


class _Step:
    """A scheduler's step in flight. A deep copy of the scheduler, as for a video's sound, steps by itself."""

    __slots__ = ("__dict__", "_on_copy", "_original", "_scheduler", "_step")

    def __init__(self, scheduler: Any, original: Function, step: Function, on_copy: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._original = original
        self._step = step
        self._on_copy = on_copy

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._step(*args, **kwargs)

    def __deepcopy__(self, copies: dict[int, Any]) -> Function:
        self._on_copy()
        if inspect.ismethod(self._original):
            return MethodType(self._original.__func__, copies.get(id(self._scheduler), self._scheduler))
        return copy.deepcopy(self._original, copies)


class Flight:
    """Runs a loaded pipeline; keeps the encoded prompt over several runs (a batch, or a return after a failure). settings: of the
    session, as far as they change numbers; with them the prompt is kept for the next flight too. rules: how prompts are
    read; options: of the request, some of which steer the network.
    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        nan_check: NanCheck,
        upcast_sampling: bool,
        hooks: Hooks,
        settings: Hashable | None = None,
        rules: Rules = OWN,
        options: Mapping[str, OptionValue] = NO_OPTIONS,
    ) -> None:
        self.loaded = loaded
        self._steering = Steering(loaded.pipe, options)
        self.hooks = hooks
        self.decodes: list[Decoded] = []
        """What the decoder was given, in its order: a long video comes in parts."""
        self.stood_in = False
        """Something else took the place of a decode: there are latents, and no picture of them."""
        self.every_step = nan_check == "every-step"
        """Whether to look at every step; set to locate a failure."""
        self._watching = nan_check != "off"
        self._upcast = upcast_sampling
        self.reading = Reading(loaded, upcast=upcast_sampling, settings=settings, rules=rules)
        self._encoded: list[tuple[Call, Any]] = []
        """Calls of encoders and what they gave: an input picture is encoded once, whatever comes after."""
        self._shapes: dict[tuple[int, int], Any] = {}
        """(step, call of that step) -> what the denoiser gave, without its numbers."""
        self._blank: dict[str, Any] = {}
        self._good: list[Snapshot] = []
        self._copied = False
        """Whether the pipeline steps a copy of its scheduler too, whose state is lost: it can only start again."""
        self._sound = -1
        """The last step whose numbers were looked at and are sound."""
        self._calls: dict[int, list[Call]] = {}
        self.seconds_per_step: list[float] = []
        """Wall time of every step that was computed."""
        self._last = time.perf_counter()
        self._keep = Keeper()
        self._schedulers: list[Any] = []
        self._guiders: list[Any] = []
        self._running: Any = None
        """The scheduler that stepped last."""
        self._host_schedule = None if loaded.device.type in SHARED else HostSchedule()
        self._times_on_host = self._host_schedule is not None and looks_at_times(loaded.pipe)
        self._ends: dict[int, Any] = {}
        self._rehearsals: dict[int, Rehearsal] = {}
        """The step at which a loop began -> its steps so far."""
        self._places: dict[int, tuple[int, int]] = {}
        """Step -> its number in its loop and the steps of that loop: what is read of it may come when the next loop runs."""
        self._pass = _Pass(None)
        self._sentinel = Sentinel(loaded.device)
        self._pacer = Pacer(loaded.device)

    @property
    def decoded_input(self) -> torch.Tensor | None:
        """The latents that were decoded, None if there are none; those of a video that came in parts are joined again."""
        known = [part.latents for part in self.decodes]
        known = [latents for latents in known if latents.shape[1:] == known[-1].shape[1:]]
        return None if not known else known[0] if len(known) == 1 else torch.cat(known)

    @property
    def last_good(self) -> Snapshot:
        """The state after the last step."""
        return self._good[-1]

    @property
    def last_state(self) -> Snapshot | None:
        """The same; None before the first step is done."""
        return self._good[-1] if self._good else None

    def go_back(self, good: Snapshot | None) -> None:
        """The states after this one are no good."""
        self._good = [] if good is None else [good]

    def last_sound(self) -> Snapshot | None:
        """The last finite state, or None: a step may have ended before it was looked at.

        A state that was looked at is not read again: memory may have ended, and a look takes some.
        """
        if self._copied:
            return None
        return next((state for state in reversed(self._good) if state.step <= self._sound or _is_sound(state)), None)

    def rehearsal(self, step: int) -> tuple[Rehearsal, int]:
        """Return the loop in which this step was made, and how many calls it had made of its scheduler after it."""
        began = max(number for number in self._rehearsals if number <= step)
        return self._rehearsals[began], step - began + 1

    def loop(self, good: Snapshot) -> Loop:
        """All that another flight needs to continue. Raises NotKeptError where several loops take turns."""
        if len(self._schedulers) != 1 or self._copied:
            raise NotKeptError("several schedulers")
        return Loop(good, type(self._schedulers[0]).__name__, dict(self._shapes), dict(self._blank))

    def adopt(self, loop: Loop) -> Snapshot:
        """The state to resume from, of a loop that another flight left."""
        self._shapes, self._blank = dict(loop.shapes), dict(loop.blank)
        return loop.snapshot

    def run(
        self,
        inputs: dict[str, Any],
        generator: torch.Generator | None,
        resume: Snapshot | None = None,
        entering: Callable[[], None] | None = None,
    ) -> Any:
        """Call the pipeline. resume: continue after that state; entering: called before the first real one. Raises StepFailed."""
        pipe = self.loaded.pipe
        self._schedulers = schedulers(pipe)
        self._guiders = guiders(pipe)
        self._pass = _Pass(generator, resume, entering)
        self._good = [] if resume is None else [resume]
        self._sound = -1 if resume is None else resume.step
        if resume is None:
            self._ends.clear()
            self._shapes.clear()
        self._calls.clear()
        self._rehearsals.clear()
        self._places.clear()
        self.decodes.clear()
        self.stood_in = False
        self._sentinel.forget()
        self._last = time.perf_counter()
        accepts = inspect.signature(pipe.__call__).parameters
        given = {**inputs, "generator": generator} if "generator" in accepts and generator is not None else inputs
        device = self.loaded.device
        ahead = nullcontext() if device.type in SHARED else tables_sent(self.loaded.modules.values(), device)
        with parts_fit(self.loaded), ahead, ExitStack() as wrapped, self._seeded(generator):
            for change in self._wrappers():
                wrapped.enter_context(replaced(*change))
            result = pipe(**self.reading.begin(given))
            self._heed(self._sentinel.settle())  # nothing may have been decoded since the last step
            return result

    @contextmanager
    def _seeded(self, generator: torch.Generator | None) -> Generator[None]:
        """Some pipelines with a ControlNet encode its picture with numbers from torch's own generator (diffusers 0.42, SD 3)."""
        if not self.loaded.controls or generator is None:
            yield
            return
        with undisturbed(self.loaded.device, seed=generator.initial_seed()):
            yield

    def _wrappers(self) -> list[tuple[Any, str, Callable[[Function], Function]]]:
        pipe = self.loaded.pipe
        changes: list[tuple[Any, str, Callable[[Function], Function]]] = []
        for name, module in self.loaded.modules.items():
            kind = role(name, module)
            if kind == "denoise":
                changes.append((module, "forward", self._denoiser(name)))
                changes.append((module, "forward", self._composing(name, module)))
            elif kind == "encode":
                changes.append((module, "forward", self._guarded(name, "forward", "encode")))
            elif kind == "decode":
                changes.append((module, "decode", self._guarded(name, "decode", "decode")))
                if callable(getattr(module, "encode", None)):
                    changes.append((module, "encode", self._guarded(name, "encode", "encode")))
        changes += [(scheduler, "step", self._stepper(scheduler)) for scheduler in self._schedulers]
        if self._times_on_host:
            changes += [(scheduler, "set_timesteps", partial(on_host, scheduler)) for scheduler in self._schedulers]
        if callable(getattr(pipe, "encode_prompt", None)):
            changes.append((pipe, "encode_prompt", self.reading.remembered))
        return changes

    # --- encoders and decoders ---------------------------------------------------------------------

    def _guarded(self, name: str, method: str, phase: str) -> Callable[[Function], Function]:
        back = torch.float32 if method == "decode" else None

        def make(original: Function) -> Function:
            def guarded(*args: Any, **kwargs: Any) -> Any:
                if method == "decode":
                    self._heed(self._sentinel.settle())
                self.hooks.check()
                call = Call(name, method, *self._keep((args, kwargs)))
                if self.hooks.instead is not None and (other := self.hooks.instead(call)) is not None:
                    if call.method == "decode":
                        self.decodes.append(decoded(call, other))
                        self.stood_in = True
                    return other
                self.hooks.on_phase(phase)
                known = next((result for earlier, result in self._encoded if earlier.is_like(call)), None)
                if known is not None:
                    return known
                if self.hooks.before_call is not None:
                    self.hooks.before_call(call)
                started = time.perf_counter()
                with _shortage_told():
                    result = invoke(self.loaded.modules[name], original, self.loaded.states[name].dtype, args, kwargs, back)
                if self._watching and self.hooks.on_bad_call is not None and not is_in_range(result):
                    result = self.hooks.on_bad_call(call, result)
                if phase == "encode":
                    self._encoded.append((call, result))
                elif method == "decode":
                    self.decodes.append(decoded(call, result))
                seconds = time.perf_counter() - started
                if self.hooks.on_call is not None:
                    self.hooks.on_call(call, self._keep(result), seconds)
                return result

            return guarded

        return make

    # --- the loop ----------------------------------------------------------------------------------

    def _denoiser(self, name: str) -> Callable[[Function], Function]:
        def make(original: Function) -> Function:
            def forward(*args: Any, **kwargs: Any) -> Any:
                if self._times_on_host:
                    args, kwargs = map_tensors((args, kwargs), partial(sent_ahead, device=self.loaded.device))
                kwargs, lit = parted(self.loaded.controlnet, kwargs)
                args, kwargs = self._at_own_time(args, kwargs)
                now = self._pass
                place, now.calls = (now.step, now.calls), now.calls + 1
                if now.keeping or now.step < now.first_real:
                    return self._nothing(name, place, args, kwargs)
                if now.step == now.first_real:
                    now.enter()
                    self.hooks.on_phase("denoise")
                within = both(lit, self._steering.within(name, self._place))
                if name == CONTROLNET:
                    within = prompted(self.loaded.controlnet, self._unprompted(args))
                call = Call(name, "forward", *self._keep((args, kwargs)), step=now.step - now.began, within=within)
                result = self._computed(call, original, args, kwargs)
                self._blank[name] = self._shapes[place] = map_tensors(result, _shape)
                now.given, now.added = result, self._beside(call, original, result)
                return result

            return forward

        return make

    def _composing(self, name: str, module: Any) -> Callable[[Function], Function]:
        """Call the watched denoiser for each prompt that is composed with AND."""

        def make(original: Function) -> Function:
            def forward(*args: Any, **kwargs: Any) -> Any:
                now = self.reading.composition
                if now is None:
                    return original(*args, **kwargs)
                if name.startswith("controlnet"):
                    return controlled(now, original, module, args, kwargs)
                added: list[torch.Tensor | None] = []

                def asked(*args: Any, **kwargs: Any) -> Any:
                    result = original(*args, **kwargs)
                    added.append(self._pass.added)
                    return result

                self._pass.given = result = denoised(now, asked, args, kwargs)
                self._pass.added = together(now, added)
                return result

            return forward

        return make

    def _computed(self, call: Call, original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a denoiser gives, and all who want to know of it."""
        self._calls.setdefault(self._pass.step, []).append(call)
        if self.hooks.before_call is not None:
            self.hooks.before_call(call)
        started = time.perf_counter()
        module, dtype = self.loaded.modules[call.component], self.loaded.states[call.component].dtype
        with call.within(module):
            result = invoke(module, original, dtype, args, kwargs)
        if self.every_step and (made := next(tensors_in(result), None)) is not None:
            self._sentinel.see(made)
        seconds = time.perf_counter() - started
        if self.hooks.on_call is not None:
            self.hooks.on_call(call, self._keep(result), seconds)
        return result

    def _beside(self, call: Call, original: Function, result: Any) -> torch.Tensor | None:
        """What a further call of the same denoiser adds to this step."""
        wanted = self._steering.beside(call, self._place)
        if wanted is None:
            return None
        args, kwargs = self._steering.own_part(call, result, self.reading.composition)
        further = replace(call, args=args, kwargs=kwargs, within=wanted.within)
        return difference(result, self._computed(further, original, args, kwargs), wanted.strength)

    def _unprompted(self, args: tuple[Any, ...]) -> int:
        """Rows at the start of a call that are for the negative prompt."""
        count, now = len(args[0]) if args else 0, self.reading.composition
        guided = getattr(self.loaded.pipe, "do_classifier_free_guidance", False) and (now is None or now.is_pair(count))
        return count // 2 if guided else 0

    def _place(self) -> Place:
        done = self._pass.step - self._pass.began
        return Place(done, self._steps(done))

    def _at_own_time(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The denoiser's arguments with the timestep of a solver that finds its own; pipelines only know those set before."""
        own = next((one.own_time for one in self._schedulers if isinstance(one, SolverScheduler)), None)
        if own is None:
            return args, kwargs
        if isinstance(kwargs.get("timestep"), torch.Tensor):
            return args, {**kwargs, "timestep": torch.full_like(kwargs["timestep"], own)}
        return (args[0], torch.full_like(args[1], own), *args[2:]), kwargs

    def _nothing(self, name: str, place: tuple[int, int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return zeros in the shape that this call gave before; for a call never made, in the shape of this denoiser's other
        calls, or of the last denoiser's, for the batch asked for now.
        """
        sample = next(tensors_in((args, list(kwargs.values()))))
        known = self._shapes.get(place)
        if known is not None:
            return map_tensors(known, lambda shape: torch.zeros_like(shape, device=sample.device))
        return map_tensors(
            self._blank[name] if name in self._blank else next(reversed(self._shapes.values())),
            lambda shape: torch.zeros((sample.shape[0], *shape.shape[1:]), dtype=shape.dtype, device=sample.device),
        )

    def _stepper(self, scheduler: Any) -> Callable[[Function], Function]:
        """Wrap the step. A combined pipeline has several loops: counted through for going back, from 0 in reports."""

        def make(original: Function) -> Function:
            def step(*args: Any, **kwargs: Any) -> Any:
                now, self._running = self._pass, scheduler
                if now.resume is not None and now.step == 0:
                    check_fits(now.resume, scheduler, (args, list(kwargs.values())))
                if now.step == now.began:
                    state = snapshots.scheduler_state(scheduler)
                    self._rehearsals[now.began] = Rehearsal(scheduler, state, self._steps())
                self._rehearsals[now.began].times.append(args[1] if len(args) > 1 else kwargs.get("timestep"))
                if isinstance(scheduler, SolverScheduler):  # pipelines of flow models give none
                    kwargs.setdefault("generator", now.generator)
                    scheduler.given = next(tensors_in(now.given), None)
                    scheduler.guidance = getattr(self.loaded.pipe, "guidance_scale", 1.0)
                index, now.step, now.calls = now.step, now.step + 1, 0
                now.given = None
                added, now.added = now.added, None
                args = _with_added(args, added)
                result = self._stepped(scheduler, index, lambda: self._on_host(scheduler, original, args, kwargs))
                if len(self._schedulers) > 1 and now.step - now.began >= steps_in(scheduler):
                    now.began = now.step
                return result

            return _Step(scheduler, original, step, self._note_copy)

        return make

    def _note_copy(self) -> None:
        self._copied = True

    def _stepped(self, scheduler: Any, index: int, compute: Callable[[], Any]) -> Any:
        now = self._pass
        if now.resume is not None and index < now.first_real:
            if index == now.resume.step:
                snapshots.restore(now.resume, scheduler, now.generator, self._guiders)
                now.enter()
                self._last = time.perf_counter()
            # a loop that was over by then gives what it ended with
            return map_tensors(now.resume.result if index >= now.resume.began else self._ends[id(scheduler)], torch.clone)
        if now.keeping:
            return map_tensors(self._good[-1].result, torch.clone)
        result = compute()
        self._after_step(scheduler, index, result)
        self._ends[id(scheduler)] = self._good[-1].result
        return result

    def _on_host(self, scheduler: Any, original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._host_schedule is None:
            return self._real_step(original, args, kwargs)
        with self._host_schedule.held(scheduler, args, kwargs) as (here, named):
            return self._real_step(original, here, named)

    def _real_step(self, original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The scheduler's arithmetic, in float32 where the pipeline hands over less (upcast sampling)."""
        if not self._upcast:
            return original(*args, **kwargs)
        outside = first_floating(args[2:], kwargs) or first_floating(args, kwargs)
        wide = as_dtype(torch.float32)
        result = original(*map_tensors(args, wide), **map_tensors(kwargs, wide))
        return result if outside in (None, torch.float32) else map_tensors(result, as_dtype(outside))

    def _after_step(self, scheduler: Any, index: int, result: Any) -> None:
        latents = next(tensors_in(result))
        now = self._pass
        over = isinstance(scheduler, SolverScheduler) and scheduler.is_over
        number, steps = self._places[index] = index - now.began + 1, self._steps(index - now.began + 1)
        self._good.append(snapshots.take(index, result, scheduler, now.generator, now.began, self._guiders))
        del self._good[:-3]
        if self.every_step:
            self._heed(self._sentinel.note(index, latents))
        elif number >= steps:
            if self._watching:
                self._heed(self._sentinel.note(index, latents))
                self._heed(self._sentinel.settle())
            else:
                self._told(index, None)
        else:
            self._told(index, None)
        seconds = self.seconds_per_step[-1] if self.seconds_per_step else 0.0
        self.hooks.on_latents(index - now.began, latents, seconds)
        for old in [step for step in self._calls if step < index - 1]:
            del self._calls[old]
        self.hooks.check()
        if over or (scheduler is self.loaded.pipe.scheduler and self.hooks.keep()):
            now.keeping = True

    def _heed(self, health: Health | None) -> None:
        """Pass on what the sentinel read; leave the loop when it is bad."""
        if health is None:
            return
        self._told(health.step, health)
        if health.finite and not health.flat:
            self._sound = health.step
            return
        good = next((state for state in reversed(self._good) if state.step < health.step), None)
        good = good if self.every_step and not self._copied else None
        raise StepFailed(health, tuple(self._calls.get(health.step, ())), good)

    def _told(self, index: int, health: Health | None) -> None:
        if health is None:
            self._pacer.step()  # nobody has read what the device did, so no time would be the device's
        now = time.perf_counter()
        self.seconds_per_step.append(now - self._last)
        self._last = now
        self.hooks.on_step(*self._places.pop(index), health, self.seconds_per_step[-1])

    def _steps(self, made: int = 0) -> int:
        """Steps of the loop. made: those so far."""
        pipe = self.loaded.pipe
        if isinstance(self._running, SolverScheduler) and self._running.is_adaptive:
            return self._running.expected_calls(made)
        declared = getattr(pipe, "_num_timesteps", None)
        return int(declared) if declared else steps_in(self._running)


def _with_added(args: tuple[Any, ...], added: torch.Tensor | None) -> tuple[Any, ...]:
    """A step's arguments, the guided output first, with what a further call adds to that."""
    return args if added is None else (args[0] + added.to(args[0]), *args[1:])


@contextmanager
def _shortage_told() -> Generator[None]:
    """Turn the end of memory into an error that pipelines do not catch: Sana's would continue without a picture."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise RuntimeError(str(error)) from error


def _is_sound(state: Snapshot) -> bool:
    """Whether its numbers are finite; False where there is no memory to look at them."""
    try:
        return is_in_range(state.result)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        forget_frames(error)
        return False


def _shape(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, device="meta")
