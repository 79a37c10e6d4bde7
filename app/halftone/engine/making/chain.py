"""Jobs whose pictures are made in several passes: what all such chains share.

A pass is a `Generation` of its own: watched, cured and recovered as any. Here their events, control and receipts become one.
"""

import secrets
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.engine import Control, Emit
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import GenerateReport, GuardEvent, ModelFacts, PictureFacts
from halftone.contract.messages import AnyEvent, JobStarted, StepDone
from halftone.contract.parameters import seed_after
from halftone.contract.plan import Plan
from halftone.contract.request import PictureRequest, ResolvedRequest
from halftone.contract.wording import Words
from halftone.engine.inputs.resolve import drawn_seed
from halftone.engine.loading.load import Loaded
from halftone.engine.making.delivery import Delivery
from halftone.engine.making.generate import Generation
from halftone.engine.making.job import Job
from halftone.engine.making.outcome import Finished
from halftone.engine.making.pass_delivery import Earlier, PassDelivery
from halftone.engine.making.prepared import prepare
from halftone.engine.sampling.handover import Handover, from_tensors
from halftone.engine.sampling.latents import read_handed
from halftone.health.faults import first_line, is_out_of_memory
from halftone.health.pictures.run_reasons import first_times
from halftone.health.pictures.unfinished_pictures import Kept, read_kept

PASSES: Final = 2
_GOOD: Final = ("clean", "recovered", "unwatched")
"""States of a picture that is worth another pass."""


@dataclass(frozen=True)
class Pass:
    """One pass of a picture. request: to its model; kind: as in PassFacts; kept: what it continues from; ahead: later work, in
    steps of this pass; drawn: the seed was not asked for; falls_back: as its delivery's; notes: for the receipt.
    """

    request: PictureRequest
    kind: str
    earlier: Earlier
    handover: Handover
    kept: Kept | None
    ahead: float = 0.0
    drawn: bool = False
    falls_back: bool = False
    notes: tuple[Words, ...] = ()


@dataclass
class Stopping:
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


class Chain(ABC):
    """Makes pictures of the model `facts` in passes. Subclasses define the passes in `_make`, `_first` and `_completed`."""

    def __init__(self, facts: ModelFacts, job: Job) -> None:
        self._facts = facts
        self._job = job
        self._request = job.request
        self._out = job.emit
        self._control = Stopping(job.control)
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
        own = self._request.variation_seed
        self._request = msgspec.structs.replace(
            self._request,
            seed=seed,
            variation_seed=secrets.randbelow(2**32) if own is None and self._request.variation_strength else own,
        )
        self._make(drawn=drawn)
        if self._unsaved is not None:
            raise self._unsaved
        return GenerateReport(
            images=tuple(sorted(self._pictures, key=lambda picture: picture.index)),
            plan=self._plan,
            events=tuple(event for picture in self._pictures for event in picture.events),
            seconds=time.perf_counter() - started,
            seconds_per_step=self._seconds_per_step,
        )

    @abstractmethod
    def _make(self, *, drawn: bool) -> None:
        """All pictures of the job. drawn: their seed was not asked for."""

    @abstractmethod
    def _first(self, index: int) -> Handover:
        """How the first pass of a picture begins and ends."""

    @abstractmethod
    def _completed(self, resolved: ResolvedRequest) -> ResolvedRequest:
        """The whole picture's request, of the first pass's."""

    def _one(self, index: int) -> PictureRequest:
        """What is asked of one picture of the batch, with its seeds."""
        asked = self._request
        seed = seed_after(asked.seed or 0, 0 if asked.variation_strength else index)
        varied = seed_after(asked.variation_seed or 0, index) if asked.variation_strength else None
        return msgspec.structs.replace(asked, seed=seed, variation_seed=varied)

    def _kept(self) -> Kept | None:
        """The kept picture that this one continues from."""
        return None if self._request.resume_latents is None else read_kept(Path(self._request.resume_latents))

    def _begun(self, index: int, kept: Kept | None) -> tuple[int, Earlier, Handover]:
        """(first pass to make, what was before it, its handover), or those of the kept pass."""
        if kept is None or kept.in_pass < PASSES:
            return 1, Earlier(), self._first(index)
        handover = from_tensors(read_handed(Path(self._request.resume_latents or "")), index, self._facts)
        if handover is None:
            raise HalftoneError("latents-unreadable", "handed.image", path=self._request.resume_latents or "")
        before = kept.in_pass - 1
        events = tuple(event for event in kept.picture.events if event.in_pass <= before)
        earlier = Earlier(kept.request, kept.picture.passes[:before], events, ran=kept.picture.ran)
        return kept.in_pass, earlier, handover

    # --- one pass ----------------------------------------------------------------------------------

    def _run(self, loaded: Loaded, one: Pass) -> Finished | None:
        """Run a pass; its handover, or None where the picture is finished, in a file or given up."""
        delivery = self._delivery(one)
        try:
            report = self._generate(loaded, one.request, one.handover, delivery, one.notes)
        finally:
            self._left = delivery.left
        if report is not None:
            reasons = first_times(self._plan.reasons, report.plan.reasons)
            self._plan = msgspec.structs.replace(report.plan, reasons=reasons)
            self._seconds_per_step = self._seconds_per_step or report.seconds_per_step
        self._take(delivery)
        return delivery.made

    def _take(self, delivery: Delivery) -> None:
        self._unsaved = self._unsaved or delivery.unsaved
        self._pictures += delivery.pictures

    def _delivery(self, one: Pass) -> PassDelivery:
        def complete(resolved: ResolvedRequest) -> ResolvedRequest:
            said = (drawn_seed("seed", resolved.seed),) if one.drawn else ()
            reasons = (*said, *resolved.reasons)
            return self._completed(msgspec.structs.replace(resolved, batch=self._request.batch, reasons=reasons))

        def goes_on(facts: PictureFacts) -> bool:
            return not one.handover.is_last and not self._control.kept and facts.state in _GOOD

        seeds = {name: getattr(self._one(one.handover.index), name) for name in ("seed", "variation_seed")}
        return PassDelivery(
            msgspec.structs.replace(self._request, **seeds),
            self._facts,
            self._told(len(one.earlier.passes) + 1, one.ahead),
            one.kept,
            kind=one.kind,
            earlier=one.earlier,
            handover=one.handover,
            complete=complete,
            goes_on=goes_on,
            falls_back=one.falls_back,
        )

    def _generate(
        self, loaded: Loaded, request: PictureRequest, handover: Handover, delivery: Delivery, notes: tuple[Words, ...] = ()
    ) -> GenerateReport | None:
        """None where its picture could not be written."""
        job = replace(self._job, request=request, emit=delivery.emit, control=self._control)
        try:
            prepared = prepare(loaded, job, handover)
            prepared = replace(prepared, notes=(*prepared.notes, *notes))
            return Generation(prepared, job, handover=handover, delivery=delivery).run()
        except HalftoneError as error:
            if error is not delivery.unsaved:
                raise
            return None

    def _told(self, number: int, ahead: float) -> Emit:
        """Events of a pass as those of the one job."""

        def emit(event: AnyEvent, blob: bytes = b"") -> None:
            if isinstance(event, JobStarted) and self._told_plan:
                return
            if isinstance(event, JobStarted):
                self._told_plan = True
            if isinstance(event, StepDone):
                event = msgspec.structs.replace(event, in_pass=number, passes=PASSES, ahead=ahead)
            self._out(event, blob)

        return emit

    def _out_of_room(self) -> bool:
        """Whether the last picture did not fit: no other of the job does either."""
        last = self._pictures[-1] if self._pictures else None
        cut = last is not None and last.cut_short is not None and last.cut_short.code == "out-of-memory"
        return cut or (last is not None and any(shortage.then == "stopped" for shortage in last.shortages))


def told_to_user(error: Exception) -> ErrorFacts | None:
    """Facts that a sentence can explain; None for a fault."""
    if isinstance(error, HalftoneError):
        return error.as_facts()
    return ErrorFacts(code="out-of-memory", facts={"detail": first_line(error)}) if is_out_of_memory(error) else None


def in_pass(events: tuple[GuardEvent, ...], number: int) -> tuple[GuardEvent, ...]:
    """Book an event between two passes on the one before."""
    return tuple(msgspec.structs.replace(event, in_pass=number) for event in events)
