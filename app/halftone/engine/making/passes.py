"""Pictures drawn once more, larger: the request and handover of the second pass, and what stays of the first if it fails."""

import inspect
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import torch
from PIL import Image

from halftone.contract.errors import ErrorFacts, HalftoneError, JobCancelled
from halftone.contract.facts import GuardEvent
from halftone.contract.messages import PhaseChanged
from halftone.contract.parameters import OPTION_PARAMETERS, OUR_OPTIONS
from halftone.contract.request import LATENT, Hires, PictureRequest, ResolvedRequest, Start
from halftone.contract.wording import Words, both
from halftone.engine.inputs.memory import free_after
from halftone.engine.inputs.resolve import size_multiple, task_pipeline
from halftone.engine.inputs.wanted import of_request
from halftone.engine.loading.load import Loaded
from halftone.engine.making.chain import PASSES, Chain, Pass, in_pass, told_to_user
from halftone.engine.making.job import Job
from halftone.engine.making.outcome import Finished
from halftone.engine.making.pass_delivery import CutShort, Earlier
from halftone.engine.making.upscale import Upscaler, enlarge, load_upscaler, on_device
from halftone.engine.sampling.handover import Handover, check_takes_latents, larger_latents
from halftone.engine.sampling.samplers import counting_of, make_scheduler
from halftone.health.faults import first_line
from halftone.health.pictures.passes import larger, part_of_schedule, strength_of
from halftone.health.pictures.unfinished_pictures import Kept
from halftone.health.precision import granted_precision
from halftone.library.add_ons.upscalers import is_upscale_model

log = logging.getLogger(__name__)

_FIRST: Final = "first"
_SECOND: Final = "second"
_FINE: Final = 8


class Passes(Chain):
    """One generate job in which each picture is made in two passes of its model."""

    def __init__(self, loaded: Loaded, job: Job) -> None:
        """Raises hires-unsupported for a model that makes no second pass, upscaler-* for a file that is no upscale model."""
        assert job.request.hires is not None
        super().__init__(loaded.facts, job)
        self._loaded = loaded
        self._hires: Hires = job.request.hires
        self._pipe = self._second_pipe()
        kept = self._kept()
        ahead = kept is None or kept.in_pass < PASSES
        self._upscaler = self._read_upscaler() if ahead and is_upscale_model(self._hires.upscaler) else None

    def _make(self, *, drawn: bool) -> None:
        for index in range(self._request.batch):
            self._control.check()
            self._picture(index, drawn=drawn)
            if self._out_of_room():
                break

    def _read_upscaler(self) -> Upscaler:
        """Load the upscaler on the CPU until it is needed."""
        return load_upscaler(self._hires.upscaler, torch.device("cpu"))

    def _second_pipe(self) -> Any:
        """The pipeline of the second pass, to ask what it takes."""
        name = self._loaded.facts.name
        anything = Image.new("RGB", (_FINE, _FINE))
        try:
            pipe = task_pipeline(self._loaded, of_request(self._request, self._loaded.facts, anything))
        except HalftoneError as error:
            detail = Words("its pipeline starts from no picture")
            raise HalftoneError("hires-unsupported", str(error), model=name, detail=detail) from error
        if "strength" not in inspect.signature(pipe.__call__).parameters:
            raise HalftoneError("hires-unsupported", model=name, detail=Words("its pipeline does not draw over a picture"))
        if self._hires.upscaler == LATENT:
            check_takes_latents(getattr(pipe, "vae", None), name)
        return pipe

    # --- one picture -------------------------------------------------------------------------------

    def _picture(self, index: int, *, drawn: bool) -> None:
        request, kept = self._one(index), self._kept()
        number, earlier, handover = self._begun(index, kept)
        if number == PASSES:
            self._run(self._loaded, self._second_pass(request, earlier, handover, kept, resuming=True))
            return
        first = msgspec.structs.replace(request, hires=None, batch=1)
        made = self._run(self._loaded, Pass(first, _FIRST, earlier, handover, kept, self._ahead(first), drawn))
        if made is None:
            return
        self._left = None
        try:
            handover, events = self._handed(index, made)
            earlier = earlier.done(made)
            earlier = replace(earlier, events=(*earlier.events, *events))
            self._run(self._loaded, self._second_pass(request, earlier, handover, kept, resuming=False))
        except JobCancelled:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the first picture is there and stays
            log.info("the second pass of seed %s was not made: %s", first.seed, first_line(error))
            why = told_to_user(error)
            free_after(error)
            try:
                self._save_made(index, first, made, why or ErrorFacts(code="internal", facts={"detail": first_line(error)}))
            finally:
                if why is None:
                    raise error

    def _save_made(self, index: int, request: PictureRequest, made: Finished, why: ErrorFacts) -> None:
        """Latents that were never decoded are, now."""

        def delivery(latents: str | None) -> CutShort:
            asked = msgspec.structs.replace(request, resume_latents=latents)
            return CutShort(asked, self._loaded.facts, self._told(1, 0.0), why, self._left)

        if self._hires.upscaler != LATENT:
            saved = delivery(None)
            saved.save(made)
        else:
            file = delivery(None).keep(made)
            if file is None:
                raise HalftoneError(why.code, why.details, **why.facts)
            saved = delivery(file)
            asked = msgspec.structs.replace(request, resume_latents=file)
            self._generate(self._loaded, asked, Handover(index), saved)
        self._unsaved = self._unsaved or saved.unsaved
        self._pictures += saved.pictures

    def _first(self, index: int) -> Handover:
        ends = None if self._hires.upscaler != LATENT else lambda: not self._control.kept
        return Handover(index, ends_in_latents=ends, factor=int(getattr(self._pipe, "vae_scale_factor", 8)), is_last=False)

    def _handed(self, index: int, made: Finished) -> tuple[Handover, tuple[GuardEvent, ...]]:
        """What the second pass draws over, and the events on the way."""
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
        """Enlarge by the upscale model. Raises upscaler-*, out-of-memory."""

        def told(done: int, total: int) -> None:
            self._out(PhaseChanged(phase="upscale", done=done, total=total))

        self._out(PhaseChanged(phase="upscale"))
        assert self._upscaler is not None
        dtype, _ = granted_precision(self._request.numerics.precision, self._job.tested, self._job.device)
        with on_device(self._upscaler, self._loaded.device):
            made = enlarge(image, self._upscaler, dtype, self._control.check, told)
        return made.image, in_pass(made.events, 1)

    def _second_pass(
        self, request: PictureRequest, earlier: Earlier, handover: Handover, kept: Kept | None, *, resuming: bool
    ) -> Pass:
        second = self._second(request, earlier, resuming=resuming)
        notes = _left_out([name for name in request.options if name not in second.options])
        assert earlier.resolved is not None
        first = earlier.resolved.steps
        handover = replace(handover, steps=(first, self._hires.steps or first))
        return Pass(second, _SECOND, earlier, handover, kept, falls_back=not resuming, notes=notes)

    def _second(self, request: PictureRequest, earlier: Earlier, *, resuming: bool) -> PictureRequest:
        """What the second pass is asked."""
        assert earlier.resolved is not None
        assert earlier.resolved.hires is not None
        hires, first = earlier.resolved.hires, earlier.passes[0]
        width, height = self._larger(first.width, first.height)
        taken = inspect.signature(self._pipe.__call__).parameters
        options = {name: value for name, value in request.options.items() if name in taken or name in OUR_OPTIONS}
        counting = counting_of(make_scheduler(self._loaded.native_scheduler, request.sampler))
        steps, strength = part_of_schedule(hires.steps or earlier.resolved.steps, strength_of(hires), counting)
        return msgspec.structs.replace(
            request,
            hires=None,
            image=None,
            batch=1,
            width=width,
            height=height,
            steps=steps,
            options=options,
            start=Start(strength=strength),
            resume_latents=request.resume_latents if resuming else None,
        )

    def _completed(self, resolved: ResolvedRequest) -> ResolvedRequest:
        steps = self._hires.steps or resolved.steps
        hires = msgspec.structs.replace(self._hires, steps=steps, strength=strength_of(self._hires))
        return msgspec.structs.replace(resolved, hires=hires)

    def _ahead(self, request: PictureRequest) -> float:
        """The work of the second pass in steps of the first, as their pixels tell."""
        inputs = of_request(request, self._loaded.facts)
        steps = self._hires.steps or inputs.steps or self._loaded.facts.default_steps
        return steps * self._hires.scale**2


def _left_out(options: Sequence[str]) -> tuple[Words, ...]:
    """Name the options that the second pass's pipeline does not take."""
    if not options:
        return ()
    names = both(*(OPTION_PARAMETERS[name].label if name in OPTION_PARAMETERS else name for name in options))
    return (Words("The second pass runs without {0}, which its pipeline does not support.", (names,), about="run"),)
