"""Pictures whose last steps another model makes: the "ensemble of expert denoisers" of diffusers, base and refiner of SDXL.

The base ends at a share of the noise schedule and the refiner continues from its latents. First the base makes its part of all
pictures, then the refiner: where both do not fit, the base is unloaded before.
"""

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from PIL import Image

from halftone.contract.errors import ErrorFacts, HalftoneError, JobCancelled
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import OUR_OPTIONS
from halftone.contract.request import PictureRequest, Refiner, ResolvedRequest, Start
from halftone.contract.wording import Words
from halftone.engine.inputs.memory import free_after
from halftone.engine.inputs.resolve import pipeline_arguments, start_canvas, task_pipeline
from halftone.engine.inputs.wanted import of_request
from halftone.engine.loading.load import Loaded, native_scheduler
from halftone.engine.making.chain import PASSES, Chain, Pass, told_to_user
from halftone.engine.making.division import Division, divided
from halftone.engine.making.job import Job
from halftone.engine.making.outcome import Finished
from halftone.engine.making.pass_delivery import Earlier
from halftone.engine.sampling.handover import Handover
from halftone.engine.sampling.samplers import counting_of, make_scheduler, put_scheduler
from halftone.health.faults import first_line
from halftone.health.pictures.passes import steps_from_picture
from halftone.health.pictures.refiners import END, START, alone
from halftone.health.pictures.unfinished_pictures import Kept

_BASE: Final = "first"
_REFINER: Final = "second"
_STEPS: Final = "num_inference_steps"
_ONLY_BASE: Final = Words("Additions to the base model, such as LoRAs, do not act in the refiner's steps.")


@dataclass(frozen=True)
class _Half:
    """A picture that waits for the refiner. earlier: by the base; kept: what it continues from; made: the base's result, None
    where it is on disk; spent: seconds of the base; left: refiner's steps, None if reported before.
    """

    request: PictureRequest
    earlier: Earlier
    handover: Handover
    kept: Kept | None
    made: Finished | None = None
    spent: float = 0.0
    left: int | None = None


class Refining(Chain):
    """One generate job whose pictures are begun by one model and finished by another."""

    def __init__(
        self,
        base: Callable[[], Loaded],
        refiner: Callable[[], Loaded],
        facts: ModelFacts,
        job: Job,
        *,
        together: bool,
    ) -> None:
        """base, refiner: bring it into memory, in the place of what is there or, if together, beside it. facts: of the base."""
        assert job.request.refiner is not None
        super().__init__(facts, job)
        self._base, self._refiner, self._together = base, refiner, together
        self._wanted: Refiner = job.request.refiner
        self._factor = 8

    def _make(self, *, drawn: bool) -> None:
        waiting: deque[_Half] = deque()
        try:
            self._begin_all(waiting, drawn=drawn)
            if waiting:
                self._finish_all(waiting)
        except JobCancelled:
            raise
        except Exception as error:
            why = told_to_user(error) or ErrorFacts(code="internal", facts={"detail": first_line(error)})
            free_after(error)
            self._keep_all(waiting, why)
            raise

    def _begin_all(self, waiting: deque[_Half], *, drawn: bool) -> None:
        """What waits for the refiner then. Nothing of the base is held afterwards."""
        begun = [(index, *self._begun(index, self._kept())) for index in range(self._request.batch)]
        loaded = self._base() if any(number < PASSES for _, number, _, _ in begun) else None
        for index, number, earlier, handover in begun:
            request, kept = self._one(index), self._kept()
            if loaded is None or number == PASSES:
                waiting.append(_Half(request, earlier, handover, kept))
                continue
            self._control.check()
            self._factor = int(getattr(loaded.pipe, "vae_scale_factor", 8))
            first = msgspec.structs.replace(request, refiner=None, batch=1)
            division = self._division(loaded, first)
            first, begin = self._divided(first, self._first(index), division, END)
            started = Earlier()
            made = self._run(loaded, Pass(first, _BASE, started, begin, kept, division.left, drawn))
            if made is not None:
                waiting.append(self._half(index, request, started, made, kept, division.left))
            elif self._out_of_room():
                break

    def _half(self, index: int, request: PictureRequest, before: Earlier, made: Finished, kept: Kept | None, left: int) -> _Half:
        assert made.latents is not None
        facts = made.facts
        blank = Image.new("RGB", (facts.width, facts.height))  # stands where the latents come in
        handover = Handover(index, blank, made.latents.cpu(), made.noise, model=self._facts)
        request = msgspec.structs.replace(request, resume_latents=None)
        return _Half(request, before.done(made), handover, kept, made, time.perf_counter() - before.started, left)

    def _finish_all(self, waiting: deque[_Half]) -> None:
        self._control.check()
        refiner = self._refiner()
        native = _as_base(native_scheduler(self._facts), refiner.native_scheduler)
        refiner = replace(refiner, native_scheduler=native)
        while waiting:
            self._control.check()
            half = waiting[0]
            earlier = replace(half.earlier, started=time.perf_counter() - half.spent, resolved=self._with_refiner(half))
            second, handover = self._second(half, refiner)
            self._run(refiner, Pass(second, _REFINER, earlier, handover, half.kept))
            waiting.popleft()
            if self._out_of_room():
                last = self._pictures[-1]
                detail = Words("memory ran out at {0} × {1}", (str(last.width), str(last.height)))
                self._keep_all(waiting, ErrorFacts(code="out-of-memory", facts={"detail": detail}))
                return

    def _keep_all(self, waiting: Iterable[_Half], why: ErrorFacts) -> None:
        """What the base made of pictures whose refiner was not begun, or not to its end, because of that."""
        for half in waiting:
            if half.made is not None:
                delivery = self._delivery(Pass(half.request, _REFINER, half.earlier, half.handover, half.kept))
                delivery.wait(half.made, why)
                self._take(delivery)

    def _first(self, index: int) -> Handover:
        return Handover(index, ends_in_latents=lambda: not self._control.kept, factor=self._factor, is_last=False)

    def _with_refiner(self, half: _Half) -> ResolvedRequest | None:
        """The request of the picture, with the refiner's reasons."""
        resolved = half.earlier.resolved
        if resolved is None or half.left is None:
            return resolved
        together = "The refiner makes the last {0} steps."
        apart = "The refiner makes the last {0} steps; it was loaded after the base model was unloaded."
        said = Words(together if self._together else apart, (half.left,))
        more = (_ONLY_BASE,) if _has_more(half.request) else ()
        return msgspec.structs.replace(resolved, reasons=(*resolved.reasons, said, *more))

    def _completed(self, resolved: ResolvedRequest) -> ResolvedRequest:
        options = {name: value for name, value in resolved.options.items() if name != END}
        return msgspec.structs.replace(resolved, refiner=self._wanted, options=options)

    # --- what the two are asked --------------------------------------------------------------------

    def _second(self, half: _Half, refiner: Loaded) -> tuple[PictureRequest, Handover]:
        """The same words, steps and guidance, from where the base ended."""
        resolved = half.earlier.resolved
        assert resolved is not None
        assert half.handover.image is not None
        plain = alone(half.request)
        taken = _arguments_of(task_pipeline(refiner, of_request(plain, refiner.facts, half.handover.image)))
        options = {name: value for name, value in half.request.options.items() if name in taken or name in OUR_OPTIONS}
        width, height = half.handover.image.size
        second = msgspec.structs.replace(
            plain,
            batch=1,
            width=width,
            height=height,
            steps=resolved.steps,
            guidance=resolved.guidance,
            options=options,
            start=Start(strength=1.0),  # how much of the schedule is left, the start alone decides
        )
        scheduler = make_scheduler(refiner.native_scheduler, plain.sampler, options, refiner.facts.family)
        division = divided(scheduler, resolved.steps, self._wanted)
        return self._divided(second, half.handover, division, START)

    def _divided(
        self, request: PictureRequest, handover: Handover, division: Division, name: str
    ) -> tuple[PictureRequest, Handover]:
        """One of the two with its part of the steps. name: END for the base, START for the refiner."""
        if division.step is not None:
            part = (0, division.step) if name == END else (division.step, division.steps)
            handover = replace(handover, part=part)
        if division.step is None or name == START:  # which says too that the noise is there already
            request = msgspec.structs.replace(request, options={**request.options, name: float(division.at)})
        return request, handover

    def _division(self, loaded: Loaded, request: PictureRequest) -> Division:
        """Raises setting-bad-value where either has no steps, or the base cannot end early."""
        inputs = of_request(request, loaded.facts)
        pipe = task_pipeline(loaded, inputs)
        if END not in _arguments_of(pipe):
            raise _refused(
                Words("The refiner"),
                Words("used with this pipeline"),
                Words("it with ControlNets or with a start picture, not with both"),
            )
        scheduler = make_scheduler(loaded.native_scheduler, request.sampler, inputs.options, loaded.facts.family)
        put_scheduler(pipe, scheduler)
        arguments = pipeline_arguments(pipe, inputs, start_canvas(pipe, inputs))
        steps = int(arguments.get(_STEPS) or _arguments_of(pipe)[_STEPS].default)
        division = divided(scheduler, steps, self._wanted)
        begun, left = division.begun, division.left
        strength = arguments.get("strength", _default_strength(pipe) if request.image is not None else None)
        if strength is not None:
            begun -= (steps - steps_from_picture(steps, strength, counting_of(scheduler))) * int(getattr(scheduler, "order", 1))
        if begun < 1 or left < 1:
            lacking = (
                "{0} with {1} steps: none would be left for the refiner"
                if left < 1
                else "{0} with {1} steps: none would be left for the base model"
            )
            said = Words(lacking, (f"{self._wanted.at:g}", str(steps)))
            raise _refused("--refiner-at", said, Words("more steps, or another value"))
        return division


def _has_more(request: PictureRequest) -> bool:
    return bool(request.loras or request.controls or request.inversions or request.ip_adapters or request.transformer)


def _arguments_of(pipe: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(pipe.__call__).parameters)


def _default_strength(pipe: Any) -> float | None:
    parameter = _arguments_of(pipe).get("strength")
    return None if parameter is None else float(parameter.default)


def _refused(name: Words | str, value: Words, allowed: Words) -> HalftoneError:
    return HalftoneError("setting-bad-value", name=name, value=value, allowed=allowed)


def _as_base(native: Any, own: Any) -> Any:
    """The base's schedule, so that the noise continues where it ended, with the refiner's own prediction type."""
    given = own.config.get("prediction_type")
    return type(native).from_config(native.config, **({} if given is None else {"prediction_type": given}))
