"""Pictures whose last steps another model makes: the "ensemble of expert denoisers" of diffusers, base and refiner of SDXL.

The base ends at a share of the noise schedule and hands its latents on, the refiner goes on from there. The two are in memory one
after the other: first the base makes its part of every picture of the job, then it leaves and the refiner makes the rest of all.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from PIL import Image

from halftone.contract.engine import Control, Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, ModelFacts, SelfTestReport
from halftone.contract.request import PictureRequest, Refiner, ResolvedRequest, Start
from halftone.engine.inputs.resolve import of_request, pipeline_arguments, start_canvas, task_pipeline
from halftone.engine.loading.load import Loaded
from halftone.engine.making.chain import PASSES, Chain
from halftone.engine.making.outcome import Finished
from halftone.engine.making.pass_delivery import Earlier
from halftone.engine.sampling.handover import Handover
from halftone.engine.sampling.samplers import make_scheduler
from halftone.health.kept import Kept
from halftone.health.refiners import END, START, alone

_BASE: Final = "first"
_REFINER: Final = "second"
_STEPS: Final = "num_inference_steps"
_ONLY_BASE: Final = "What was added to the base model, LoRAs for instance, has no part in the refiner's steps."


@dataclass(frozen=True)
class _Half:
    """A picture that waits for the refiner. earlier: what the base did; kept: what it goes on from."""

    request: PictureRequest
    earlier: Earlier
    handover: Handover
    kept: Kept | None


class Refining(Chain):
    """One generate job whose pictures are begun by one model and finished by another."""

    def __init__(
        self,
        base: Callable[[], Loaded],
        refiner: Callable[[], Loaded],
        facts: ModelFacts,
        device: DeviceFacts,
        tested: SelfTestReport | None,
        request: PictureRequest,
        emit: Emit,
        control: Control,
    ) -> None:
        """base, refiner: bring it into memory, in the place of what is there. facts: of the base."""
        assert request.refiner is not None
        super().__init__(facts, device, tested, request, emit, control)
        self._base, self._refiner = base, refiner
        self._wanted: Refiner = request.refiner
        self._factor = 8
        self._ahead = 0

    def _make(self, *, drawn: bool) -> None:
        halves, sampler = self._begin_all(drawn=drawn)
        if not halves:
            return
        self._control.check()
        refiner = self._refiner()
        refiner = replace(refiner, native_scheduler=_as_base(sampler, refiner.native_scheduler))
        for half in halves:
            self._control.check()
            self._run(refiner, self._second(half, refiner), _REFINER, half.earlier, half.handover, half.kept)
            if self._out_of_room():
                break

    def _begin_all(self, *, drawn: bool) -> tuple[list[_Half], Any]:
        """(what waits for the refiner, the base's own scheduler). Nothing of the base is held afterwards."""
        loaded = self._base()
        self._factor = int(getattr(loaded.pipe, "vae_scale_factor", 8))
        halves: list[_Half] = []
        for index in range(self._request.batch):
            self._control.check()
            request, kept = self._one(index), self._kept()
            number, earlier, handover = self._begun(index, kept)
            if number == PASSES:
                halves.append(_Half(request, earlier, handover, kept))
                continue
            first = self._base_request(request)
            self._ahead = self._steps_left(loaded, first)
            made = self._run(loaded, first, _BASE, earlier, handover, kept, ahead=self._ahead, drawn=drawn)
            if made is not None:
                halves.append(self._half(index, request, earlier, made, kept))
            elif self._out_of_room():
                break
        return halves, loaded.native_scheduler

    def _half(self, index: int, request: PictureRequest, before: Earlier, made: Finished, kept: Kept | None) -> _Half:
        assert made.latents is not None
        facts = made.facts
        blank = Image.new("RGB", (facts.width, facts.height))  # stands where the latents come in
        handover = Handover(index, blank, made.latents.cpu(), model=self._facts)
        request = msgspec.structs.replace(request, resume_latents=None)
        return _Half(request, Earlier(made.resolved, facts.passes, facts.events, before.started, facts.ran), handover, kept)

    def _first(self, index: int) -> Handover:
        return Handover(index, ends_in_latents=lambda: not self._control.kept, factor=self._factor, is_last=False)

    def _completed(self, resolved: ResolvedRequest) -> ResolvedRequest:
        options = {name: value for name, value in resolved.options.items() if name != END}
        said = f"The last {self._ahead} steps are those of the refiner, which came when the base model had left the memory."
        reasons = (*resolved.reasons, said, *((_ONLY_BASE,) if _has_more(self._request) else ()))
        return msgspec.structs.replace(resolved, refiner=self._wanted, options=options, reasons=reasons)

    # --- what the two are asked --------------------------------------------------------------------

    def _base_request(self, request: PictureRequest) -> PictureRequest:
        options = {**request.options, END: float(self._wanted.at)}
        return msgspec.structs.replace(request, refiner=None, batch=1, options=options)

    def _second(self, half: _Half, refiner: Loaded) -> PictureRequest:
        """The same words, steps and guidance, from where the base ended."""
        resolved = half.earlier.resolved
        assert resolved is not None
        assert half.handover.image is not None
        plain = alone(half.request)
        taken = _arguments_of(task_pipeline(refiner, of_request(plain, refiner.facts, half.handover.image)))
        options = {name: value for name, value in half.request.options.items() if name in taken}
        width, height = half.handover.image.size
        return msgspec.structs.replace(
            plain,
            batch=1,
            width=width,
            height=height,
            steps=resolved.steps,
            guidance=resolved.guidance,
            options={**options, START: float(self._wanted.at)},
            start=Start(strength=1.0),  # how much of the schedule is left, the start alone decides
        )

    def _steps_left(self, loaded: Loaded, request: PictureRequest) -> int:
        """How many the refiner makes. Raises setting-bad-value where one of the two would have none, or where the base's pipeline
        cannot end early.
        """
        inputs = of_request(request, loaded.facts)
        pipe = task_pipeline(loaded, inputs)
        if END not in _arguments_of(pipe):
            raise _refused("The refiner", "used with this pipeline", "it without ControlNets and without a start picture")
        arguments = pipeline_arguments(pipe, inputs, start_canvas(pipe, inputs))
        steps = int(arguments.get(_STEPS) or _arguments_of(pipe)[_STEPS].default)
        begun, left = _steps_of(make_scheduler(loaded.native_scheduler, request.sampler), steps, self._wanted.at)
        strength = arguments.get("strength", _default_strength(pipe) if request.image is not None else None)
        if strength is not None:
            begun -= steps - min(steps, int(steps * strength))
        if begun < 1 or left < 1:
            lacking = "the refiner" if left < 1 else "the base model"
            said = f"{self._wanted.at:g} with {steps} steps: none would be left for {lacking}"
            raise _refused("--refiner-at", said, "more steps, or another value")
        return left


def _has_more(request: PictureRequest) -> bool:
    return bool(request.loras or request.controls or request.inversions or request.ip_adapters or request.transformer)


def _arguments_of(pipe: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(pipe.__call__).parameters)


def _default_strength(pipe: Any) -> float | None:
    parameter = _arguments_of(pipe).get("strength")
    return None if parameter is None else float(parameter.default)


def _refused(name: str, value: str, allowed: str) -> HalftoneError:
    return HalftoneError("setting-bad-value", name=name, value=value, allowed=allowed)


def _steps_of(scheduler: Any, steps: int, at: float) -> tuple[int, int]:
    """(steps of the base, of the refiner), divided where diffusers does: at the share of the noise levels of the training."""
    scheduler.set_timesteps(steps)
    levels = scheduler.config.num_train_timesteps
    left = int((scheduler.timesteps < round(levels - at * levels)).sum())
    return len(scheduler.timesteps) - left, left


def _as_base(native: Any, own: Any) -> Any:
    """The schedule of the base, so that the noise goes on where it ended; what the network gives is the refiner's own matter."""
    given = own.config.get("prediction_type")
    return type(native).from_config(native.config, **({} if given is None else {"prediction_type": given}))
