"""Where a pass of a picture goes: to the next pass, or, joined with what came before, to its file."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec
import torch

from halftone.contract.engine import Emit
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import GuardEvent, ModelFacts, PassFacts, PictureFacts, Shortage
from halftone.contract.request import PictureRequest, ResolvedRequest
from halftone.contract.wording import Words
from halftone.engine.making.delivery import Delivery
from halftone.engine.making.outcome import Finished, Outcome, Stopped
from halftone.engine.making.picture import Picture
from halftone.engine.sampling.handover import Handover
from halftone.health.pictures.run_reasons import first_times
from halftone.health.pictures.unfinished_pictures import Kept, given_files


@dataclass(frozen=True)
class Earlier:
    """The passes before this one. resolved: the whole picture's request, None before the first; started: by the performance
    counter, when the first began; ran, peak, shortages: as of a picture.
    """

    resolved: ResolvedRequest | None = None
    passes: tuple[PassFacts, ...] = ()
    events: tuple[GuardEvent, ...] = ()
    started: float = field(default_factory=time.perf_counter)
    ran: tuple[Words, ...] = ()
    peak: int | None = None
    shortages: tuple[Shortage, ...] = ()

    def done(self, made: Outcome) -> "Earlier":
        """Add a pass; facts and request are of all so far."""
        facts = made.facts
        return Earlier(made.resolved, facts.passes, facts.events, self.started, facts.ran, facts.peak_memory, facts.shortages)


class PassDelivery(Delivery):
    """Delivers the pass `number` (from 1) of a picture. request: of the whole picture; complete: makes the whole request from the
    first pass's; goes_on: whether a picture of these facts has another pass; made: the input of that, None after the last.

    falls_back: whether a pass raises out-of-memory, second-pass-black or second-pass-flat, since the earlier picture counts;
    left: what was kept then, where it can be resumed.
    """

    def __init__(
        self,
        request: PictureRequest,
        model: ModelFacts,
        emit: Emit,
        unfinished: Kept | None,
        *,
        kind: str,
        earlier: Earlier,
        handover: Handover,
        complete: Callable[[ResolvedRequest], ResolvedRequest],
        goes_on: Callable[[PictureFacts], bool],
        falls_back: bool = False,
    ) -> None:
        super().__init__(request, model, emit, unfinished, given_files(request))
        self._kind = kind
        self._earlier = earlier
        self._handover = handover
        self._complete = complete
        self._goes_on = goes_on
        self._falls_back = falls_back
        self.made: Finished | None = None
        self.left: PictureFacts | None = None

    @property
    def number(self) -> int:
        return len(self._earlier.passes) + 1

    def save(self, made: Finished) -> None:
        going_on = self._goes_on(made.facts)
        if self._falls_back and made.facts.state == "not-recovered":
            raise HalftoneError("second-pass-flat")
        made = replace(made, facts=self._joined(made.now, made.facts), resolved=self._whole(made.resolved))
        if going_on:
            self.made = made
        else:
            super().save(made)

    def give_up(self, left: Stopped) -> None:
        facts = left.facts
        left = replace(left, facts=self._joined(left.now, facts), resolved=self._whole(left.resolved))
        if self._falls_back and facts.shortages and facts.shortages[-1].then == "stopped":
            self.left = self._left(left)
            raise HalftoneError(
                "out-of-memory", detail=Words("memory ran out at {0} × {1}", (str(facts.width), str(facts.height)))
            )
        if self._falls_back:
            if facts.events[-1].sound_in_float32 is not False:
                self.left = self._left(left)
            raise _black(facts.events[-1], asking=facts.state == "asking")
        super().give_up(left)

    def wait(self, made: Outcome, why: ErrorFacts) -> None:
        """The pass was not begun, because of that: what it was to begin with is kept. made: of the one before."""
        facts = msgspec.structs.replace(made.facts, state="not-recovered", black=True, finite=False, cut_short=why)
        self._hand_over(self._keep_beginning(replace(made, facts=facts)), b"", b"")

    def _left(self, left: Stopped) -> PictureFacts:
        now = left.now
        begun = now.decoder_input is not None or now.good is not None or self._unfinished is not None
        return super()._left(left) if begun or not self.handed() else self._keep_beginning(left)

    def _keep_beginning(self, left: Outcome) -> PictureFacts:
        """Keep what the pass was handed, from which it can start again."""
        return self._keep_unfinished(lambda: None, replace(left, facts=msgspec.structs.replace(left.facts, kept_step=0)))

    def handed(self) -> dict[str, torch.Tensor]:
        return self._handover.tensors()

    def _record(self, of: Outcome) -> Kept:
        return msgspec.structs.replace(super()._record(of), in_pass=self.number)

    def _whole(self, resolved: ResolvedRequest) -> ResolvedRequest:
        """The request of the whole picture, with what there was to say of this pass."""
        if self._earlier.resolved is None:
            return self._complete(resolved)
        reasons = dict.fromkeys((*self._earlier.resolved.reasons, *resolved.reasons))
        return msgspec.structs.replace(self._earlier.resolved, reasons=tuple(reasons))

    def _joined(self, now: Picture, facts: PictureFacts) -> PictureFacts:
        """The receipt of all passes so far. The events of a resumed pass's kept steps are in it already."""
        one = PassFacts(
            kind=self._kind,
            width=facts.width,
            height=facts.height,
            steps=facts.steps,
            seconds=time.perf_counter() - now.started,
            dtypes=facts.dtypes,
            room_bits=facts.room_bits,
            cures=facts.cures,
        )
        now.started = self._earlier.started
        passes = (*self._earlier.passes, one)
        own = [event for event in facts.events if event.in_pass in (0, self.number)]
        events = (*self._earlier.events, *(msgspec.structs.replace(event, in_pass=self.number) for event in own))
        before = sum(each.steps for each in self._earlier.passes)
        rooms = [each.room_bits for each in passes if each.room_bits is not None]
        spoken = facts if self._unfinished is None else self._unfinished.picture
        return msgspec.structs.replace(
            facts,
            prompt=spoken.prompt,
            negative=spoken.negative,
            passes=passes,
            events=events,
            steps=sum(each.steps for each in passes),
            stopped_of=None if facts.stopped_of is None else facts.stopped_of + before,
            seconds=time.perf_counter() - self._earlier.started,
            room_bits=min(rooms, default=None),
            peak_memory=max((one for one in (self._earlier.peak, facts.peak_memory) if one is not None), default=None),
            shortages=(*self._earlier.shortages, *facts.shortages),
            ran=tuple(dict.fromkeys((*self._earlier.ran, *first_times(self._earlier.ran, facts.ran)))),
            state="recovered" if facts.state == "clean" and events else facts.state,
            cures={name: kind for each in passes for name, kind in each.cures.items()},
        )


def _black(event: GuardEvent, *, asking: bool) -> HalftoneError:
    """What ended a pass whose numbers went bad. asking: the setting says to ask."""
    detail = (
        Words("the setting for black pictures says to stop there")
        if event.why == "setting"
        else Words("no cure that Halftone tried held")
    )
    if asking:
        detail = Words("the setting for black pictures says to ask first")
    if event.why == "sampler":
        detail = Words("the sampler's own arithmetic is not finite there")
    elif event.sound_in_float32 is False:
        detail = Words("FP32 gives NaN or infinity there as well")
    return HalftoneError("second-pass-black", detail=detail, why=event.why)


class CutShort(Delivery):
    """Ends a pass whose next one could not be made. why: the error; left: what was kept of the next one."""

    def __init__(
        self, request: PictureRequest, model: ModelFacts, emit: Emit, why: ErrorFacts, left: PictureFacts | None
    ) -> None:
        super().__init__(request, model, emit, None, given_files(request))
        self._why = why
        self._kept = {} if left is None else {"latents": left.latents, "kept_step": left.kept_step}

    def save(self, made: Finished) -> None:
        super().save(replace(made, facts=msgspec.structs.replace(made.facts, cut_short=self._why, **self._kept)))

    def keep(self, made: Finished) -> str | None:
        """The file of what is left to decode of it."""
        return self._keep(made.latents, made)
