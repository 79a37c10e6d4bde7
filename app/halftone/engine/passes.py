"""Pictures made in more than one pass: a chain of generations, each handed what the one before made, told as one job.

A pass is a `Generation` of its own: watched, cured and recovered as any. What stands here is what they are asked, what is handed
on between them, and how their receipts become one.
"""

import inspect
import logging
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from PIL import Image

from halftone.contract.engine import Control, Emit
from halftone.contract.errors import ErrorFacts, HalftoneError, JobCancelled
from halftone.contract.facts import DeviceFacts, GenerateReport, GuardEvent, PictureFacts, SelfTestReport
from halftone.contract.messages import AnyEvent, JobStarted, PhaseChanged, StepDone
from halftone.contract.plan import Plan
from halftone.contract.request import LATENT, Hires, PictureRequest, ResolvedRequest, Start
from halftone.engine.delivery import Delivery
from halftone.engine.generate import Generation
from halftone.engine.handover import Handover, check_takes_latents, from_tensors, larger_latents
from halftone.engine.latents import read_handed
from halftone.engine.load import Loaded
from halftone.engine.memory import free_after
from halftone.engine.pass_delivery import CutShort, Earlier, Made, PassDelivery
from halftone.engine.resolve import of_request, size_multiple, task_pipeline
from halftone.engine.upscale import Upscaler, enlarge, load_upscaler, on_device
from halftone.health.faults import first_line, is_out_of_memory
from halftone.health.kept import Kept, read_kept
from halftone.health.passes import larger, steps_to_ask, strength_of
from halftone.health.precision import granted_precision
from halftone.health.ran import first_times
from halftone.library.upscalers import is_upscale_model

log = logging.getLogger(__name__)

_PASSES: Final = 2
_FIRST: Final = "first"
_SECOND: Final = "second"
_GOOD: Final = ("clean", "recovered", "unwatched")
"""States of a picture that is worth another pass."""
_FINE: Final = 8


@dataclass
class _Stopping:
    """The job's control; knows whether the user asked to keep what there is."""

    inner: Control
    kept: bool = False

    def cancelled(self) -> bool:
        return self.inner.cancelled()

    def keep(self) -> bool:
        self.kept = self.inner.keep()
        return self.kept

    def check(self) -> None:
        self.inner.check()


class Passes:
    """One generate job in which each picture is made in several passes."""

    def __init__(
        self,
        loaded: Loaded,
        device: DeviceFacts,
        tested: SelfTestReport | None,
        request: PictureRequest,
        emit: Emit,
        control: Control,
    ) -> None:
        """Raises hires-unsupported for a model that makes no second pass, upscaler-* for a file that is no upscale model."""
        assert request.hires is not None
        self._loaded = loaded
        self._device = device
        self._tested = tested
        self._request = request
        self._hires: Hires = request.hires
        self._out = emit
        self._control = _Stopping(control)
        self._pipe = self._second_pipe()
        kept = None if request.resume_latents is None else read_kept(Path(request.resume_latents))
        ahead = kept is None or kept.in_pass < _PASSES
        self._upscaler = self._read_upscaler() if ahead and is_upscale_model(self._hires.upscaler) else None
        self._left: PictureFacts | None = None
        self._told_plan = False
        self._seconds_per_step: float | None = None
        self._plan = Plan()
        self._pictures: list[PictureFacts] = []
        self._unsaved: HalftoneError | None = None

    def run(self) -> GenerateReport:
        """All pictures. Raises as `Generation.run`."""
        started = time.perf_counter()
        drawn = self._request.seed is None
        seed = secrets.randbelow(2**32) if self._request.seed is None else self._request.seed
        self._request = msgspec.structs.replace(self._request, variation_seed=self._variation_seed())
        for index in range(self._request.batch):
            self._control.check()
            self._picture(index, seed + (0 if self._request.variation_strength else index), drawn=drawn)
            if self._pictures and _ended_for_memory(self._pictures[-1]):
                break  # no other picture of the job fits either
        if self._unsaved is not None:
            raise self._unsaved
        return GenerateReport(
            images=tuple(self._pictures),
            plan=self._plan,
            events=tuple(event for picture in self._pictures for event in picture.events),
            seconds=time.perf_counter() - started,
            seconds_per_step=self._seconds_per_step,
        )

    def _read_upscaler(self) -> Upscaler:
        """Beside the device until it is needed."""
        return load_upscaler(self._hires.upscaler, torch.device("cpu"))

    def _variation_seed(self) -> int | None:
        """One for both passes and the whole batch, where the noise is turned."""
        own = self._request.variation_seed
        return secrets.randbelow(2**32) if own is None and self._request.variation_strength else own

    def _second_pipe(self) -> Any:
        """The pipeline of the second pass, to ask what it takes."""
        name = self._loaded.facts.name
        anything = Image.new("RGB", (_FINE, _FINE))
        try:
            pipe = task_pipeline(self._loaded, of_request(self._request, self._loaded.facts, anything))
        except HalftoneError as error:
            detail = "its pipeline starts from no picture"
            raise HalftoneError("hires-unsupported", str(error), model=name, detail=detail) from error
        if "strength" not in inspect.signature(pipe.__call__).parameters:
            raise HalftoneError("hires-unsupported", model=name, detail="its pipeline does not draw over a picture")
        if self._hires.upscaler == LATENT:
            check_takes_latents(getattr(pipe, "vae", None), name)
        return pipe

    # --- one picture -------------------------------------------------------------------------------

    def _picture(self, index: int, seed: int, *, drawn: bool) -> None:
        varied = (self._request.variation_seed or 0) + index if self._request.variation_strength else None
        request = msgspec.structs.replace(self._request, seed=seed, variation_seed=varied)
        kept = None if request.resume_latents is None else read_kept(Path(request.resume_latents))
        number, earlier, handover = self._begun(index, kept)
        if number == _PASSES:
            self._run(self._second(request, earlier, resuming=True), _SECOND, earlier, handover, kept)
            return
        first = msgspec.structs.replace(request, hires=None, batch=1)
        made = self._run(first, _FIRST, earlier, handover, kept, drawn=drawn)
        if made is None:
            return
        self._left = None
        try:
            handover, events = self._handed(index, made)
            earlier = Earlier(made.resolved, made.facts.passes, (*made.facts.events, *events), earlier.started, made.facts.ran)
            second = self._second(request, earlier, resuming=False)
            self._run(second, _SECOND, earlier, handover, kept, falls_back=True)
        except JobCancelled:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the first picture is there and stays
            self._save_first(index, first, made, error)

    def _save_first(self, index: int, request: PictureRequest, made: Made, error: Exception) -> None:
        """The picture of the first pass, with what befell the second. Raises the error if nobody foresaw it."""
        log.info("the second pass of seed %s was not made: %s", request.seed, first_line(error))
        why = _told_to_user(error)
        free_after(error)
        try:
            self._save_made(index, request, made, why or ErrorFacts(code="internal", facts={"detail": first_line(error)}))
        finally:
            if why is None:
                raise error

    def _save_made(self, index: int, request: PictureRequest, made: Made, why: ErrorFacts) -> None:
        """Latents that were never decoded are, now."""

        def delivery(latents: str | None) -> CutShort:
            asked = msgspec.structs.replace(request, resume_latents=latents)
            return CutShort(asked, self._loaded.facts, self._told(1, 0.0), why, self._left)

        if self._hires.upscaler != LATENT:
            saved = delivery(None)
            saved.save(made.now, made.facts, made.film, made.latents, made.resolved, made.plan)
        else:
            file = delivery(None).keep(made)
            if file is None:
                raise HalftoneError(why.code, why.details, **why.facts)
            saved = delivery(file)
            self._generate(msgspec.structs.replace(request, resume_latents=file), Handover(index), saved)
        self._unsaved = self._unsaved or saved.unsaved
        self._pictures += saved.pictures

    def _begun(self, index: int, kept: Kept | None) -> tuple[int, Earlier, Handover]:
        """(pass to begin with, what was before it, what it is handed): the first, or the one that was kept."""
        if kept is None or kept.in_pass < _PASSES:
            return 1, Earlier(), self._first(index)
        image, latents = from_tensors(read_handed(Path(self._request.resume_latents or "")))
        if image is None:
            raise HalftoneError("latents-unreadable", "handed.image", path=self._request.resume_latents or "")
        before = kept.in_pass - 1
        events = tuple(event for event in kept.picture.events if event.in_pass <= before)
        return kept.in_pass, Earlier(kept.request, kept.picture.passes[:before], events), Handover(index, image, latents)

    def _first(self, index: int) -> Handover:
        ends = None if self._hires.upscaler != LATENT else lambda: not self._control.kept
        return Handover(index, ends_in_latents=ends, factor=int(getattr(self._pipe, "vae_scale_factor", 8)), is_last=False)

    def _handed(self, index: int, made: Made) -> tuple[Handover, tuple[GuardEvent, ...]]:
        """What the second pass draws over, and what befell it on the way."""
        before = made.facts.width, made.facts.height
        size = self._larger(*before)
        if self._hires.upscaler == LATENT:
            assert made.latents is not None
            return Handover(index, Image.new("RGB", size), larger_latents(made.latents, *before, *size)), ()
        image, events = Image.fromarray(made.film[0]), ()
        if is_upscale_model(self._hires.upscaler):
            image, events = self._enlarged(image)
        return Handover(index, image.resize(size, Image.Resampling.LANCZOS)), events

    def _larger(self, width: int, height: int) -> tuple[int, int]:
        return larger(width, height, self._hires.scale, size_multiple(self._pipe))

    def _enlarged(self, image: Image.Image) -> tuple[Image.Image, tuple[GuardEvent, ...]]:
        """By the upscale model. Raises upscaler-*, out-of-memory."""

        def told(done: int, total: int) -> None:
            self._out(PhaseChanged(phase="upscale", done=done, total=total))

        self._out(PhaseChanged(phase="upscale"))
        assert self._upscaler is not None
        dtype, _ = granted_precision(self._request.numerics.precision, self._tested, self._device)
        with on_device(self._upscaler, self._loaded.device):
            made = enlarge(image, self._upscaler, dtype, self._control.check, told)
        return made.image, tuple(msgspec.structs.replace(event, in_pass=1) for event in made.events)

    def _second(self, request: PictureRequest, earlier: Earlier, *, resuming: bool) -> PictureRequest:
        """What the second pass is asked."""
        assert earlier.resolved is not None
        assert earlier.resolved.hires is not None
        hires, first = earlier.resolved.hires, earlier.passes[0]
        width, height = self._larger(first.width, first.height)
        taken = inspect.signature(self._pipe.__call__).parameters
        options = {name: value for name, value in request.options.items() if name in taken}
        strength = strength_of(hires)
        return msgspec.structs.replace(
            request,
            hires=None,
            image=None,
            batch=1,
            width=width,
            height=height,
            steps=steps_to_ask(hires.steps or earlier.resolved.steps, strength),
            options=options,
            start=Start(strength=strength),
            resume_latents=request.resume_latents if resuming else None,
        )

    # --- one pass ----------------------------------------------------------------------------------

    def _run(
        self,
        request: PictureRequest,
        kind: str,
        earlier: Earlier,
        handover: Handover,
        kept: Kept | None,
        *,
        drawn: bool = False,
        falls_back: bool = False,
    ) -> Made | None:
        """What the pass hands on; None where the picture is at its end, in a file or given up."""

        def complete(resolved: ResolvedRequest) -> ResolvedRequest:
            hires = msgspec.structs.replace(
                self._hires, steps=self._hires.steps or resolved.steps, strength=strength_of(self._hires)
            )
            said = (f"Seed {resolved.seed}: drawn at random.",) if drawn else ()
            return msgspec.structs.replace(resolved, hires=hires, batch=self._request.batch, reasons=(*said, *resolved.reasons))

        def goes_on(facts: PictureFacts) -> bool:
            return not handover.is_last and not self._control.kept and facts.state in _GOOD

        emit = self._told(len(earlier.passes) + 1, self._ahead(request, earlier))
        delivery = PassDelivery(
            msgspec.structs.replace(self._request, seed=request.seed, variation_seed=request.variation_seed),
            self._loaded.facts,
            emit,
            kept,
            kind=kind,
            earlier=earlier,
            handover=handover,
            complete=complete,
            goes_on=goes_on,
            falls_back=falls_back,
        )
        try:
            report = self._generate(request, handover, delivery)
        finally:
            self._left = delivery.left
        if report is not None:
            reasons = first_times(self._plan.reasons, report.plan.reasons)
            self._plan = msgspec.structs.replace(report.plan, reasons=reasons)
            self._seconds_per_step = self._seconds_per_step or report.seconds_per_step
        self._unsaved = self._unsaved or delivery.unsaved
        self._pictures += delivery.pictures
        return delivery.made

    def _generate(self, request: PictureRequest, handover: Handover, delivery: Delivery) -> GenerateReport | None:
        """None where its picture could not be written."""
        emit, control = delivery.emit, self._control
        try:
            generation = Generation(
                self._loaded, self._device, self._tested, request, emit, control, handover=handover, delivery=delivery
            )
            return generation.run()
        except HalftoneError as error:
            if error is not delivery.unsaved:
                raise
            return None

    def _ahead(self, request: PictureRequest, earlier: Earlier) -> float:
        """The work of the second pass in steps of the first, as their pixels tell."""
        if earlier.passes:
            return 0.0
        inputs = of_request(request, self._loaded.facts)
        steps = self._hires.steps or inputs.steps or self._loaded.facts.default_steps
        return steps * self._hires.scale**2

    def _told(self, number: int, ahead: float) -> Emit:
        """Events of a pass as those of the one job."""

        def emit(event: AnyEvent, blob: bytes = b"") -> None:
            if isinstance(event, JobStarted) and self._told_plan:
                return
            if isinstance(event, JobStarted):
                self._told_plan = True
            if isinstance(event, StepDone):
                event = msgspec.structs.replace(event, in_pass=number, passes=_PASSES, ahead=ahead)
            self._out(event, blob)

        return emit


def _told_to_user(error: Exception) -> ErrorFacts | None:
    """What can be said of it in a sentence; None for a fault."""
    if isinstance(error, HalftoneError):
        return error.as_facts()
    return ErrorFacts(code="out-of-memory", facts={"detail": first_line(error)}) if is_out_of_memory(error) else None


def _ended_for_memory(picture: PictureFacts) -> bool:
    cut = picture.cut_short is not None and picture.cut_short.code == "out-of-memory"
    return cut or any(shortage.then == "stopped" for shortage in picture.shortages)
