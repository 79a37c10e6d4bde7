"""One picture while it is made: what is known of it, how it can end early, and the facts of its receipt."""

import time
from dataclasses import dataclass, field

import msgspec
import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import GuardEvent, PictureFacts, Shortage
from halftone.contract.request import Lora, ResolvedRequest
from halftone.contract.vocabulary import CureKind, DType, ReceiptState
from halftone.engine.basics.snapshot import Snapshot
from halftone.engine.loading.load import Loaded
from halftone.engine.sampling.film import Seen
from halftone.engine.weights.parts import role
from halftone.engine.weights.precision import ComponentState
from halftone.health.judge import headroom_bits


class OutOfRoom(Exception):  # noqa: N818 - a turn of events, carried out of the pipeline
    """The memory ended, and no cheaper way is left: neither this picture nor another of its job fits."""


class PictureStopped(Exception):  # noqa: N818 - a turn of events, carried out of the pipeline
    """This picture cannot or shall not be finished. failed: the floats of the failing precision; error: ends the job, as every
    picture would stop alike; without one the batch continues.
    """

    def __init__(
        self,
        event: GuardEvent,
        state: ReceiptState,
        failed: torch.Tensor | None = None,
        error: HalftoneError | None = None,
    ) -> None:
        super().__init__(event.action)
        self.event = event
        self.state: ReceiptState = state
        self.failed = failed
        self.error = error


@dataclass
class Picture:
    """What is known of the picture in work."""

    seed: int
    index: int
    variation_seed: int | None = None
    words: tuple[str, str] = ("", "")
    """The prompts, where they are not as they were written."""
    loras: tuple[Lora, ...] = ()
    """The LoRAs that they named."""
    started: float = field(default_factory=time.perf_counter)
    events: list[GuardEvent] = field(default_factory=list[GuardEvent])
    failed: torch.Tensor | None = None
    peak: float = 0.0
    steps: int = 0
    planned: int = 0
    """Steps that its pipeline computes if nobody stops it."""
    kept_early: bool = False
    decoder_input: torch.Tensor | None = None
    """The input of a failed decode."""
    good: Snapshot | None = None
    """The state before a step that failed."""
    phase: str = ""
    shortages: list[Shortage] = field(default_factory=list[Shortage])
    repeated: set[int] = field(default_factory=set[int])
    """Steps that were done once more without a change."""


def receipt_state(*, watched: bool, recovered: bool, sound: bool) -> ReceiptState:
    """The receipt of a finished picture. watched: the NaN check was on; sound: the written picture is finite and not flat."""
    if not sound:
        return "not-recovered"
    if recovered:
        return "recovered"
    return "clean" if watched else "unwatched"


def picture_facts(
    now: Picture,
    loaded: Loaded,
    resolved: ResolvedRequest,
    state: ReceiptState,
    seen: Seen | None,
) -> PictureFacts:
    """The receipt of a picture that is not written yet. seen: None if it could not be finished."""
    finite = seen is not None and not seen.broken
    several = seen is not None and seen.frames > 1
    dtypes: dict[str, DType] = {name: part.dtype for name, part in loaded.states.items()}
    denoisers: list[DType] = [dtypes[name] for name, module in loaded.modules.items() if role(name, module) == "denoise"]
    return PictureFacts(
        path="",
        seed=now.seed,
        index=now.index,
        width=resolved.width if seen is None else seen.width,
        height=resolved.height if seen is None else seen.height,
        state=state,
        dtypes=dtypes,
        black=seen is None or bool(seen.flat) or not finite,
        finite=finite,
        dark=seen is not None and seen.dark,
        room_bits=headroom_bits(now.peak, denoisers[0] if denoisers else resolved.dtype),
        seconds=time.perf_counter() - now.started,
        steps=now.steps,
        stopped_of=now.planned if now.kept_early and now.steps < now.planned else None,
        events=tuple(now.events),
        variation_seed=now.variation_seed,
        prompt=now.words[0],
        negative=now.words[1],
        loras=now.loras,
        cures={name: kind for name, state in loaded.states.items() if (kind := _cure(state)) is not None},
        frames=1 if seen is None else seen.frames,
        flat_frames=seen.flat if seen is not None and several else (),
        shortages=tuple(now.shortages),
        broken_frames=seen.broken if seen is not None and several else (),
    )


def decoded_later(facts: PictureFacts, before: PictureFacts, decoder: str) -> PictureFacts:
    """The receipt of a picture of kept latents: of its decode now, and of its steps before."""
    dtypes = {**before.dtypes, decoder: facts.dtypes[decoder]}
    cures = {name: cure for name, cure in before.cures.items() if name != decoder}
    cures |= {name: cure for name, cure in facts.cures.items() if name == decoder}
    of_then = {name: getattr(before, name) for name in ("steps", "room_bits", "stopped_of", "passes", "prompt", "negative")}
    return msgspec.structs.replace(facts, dtypes=dtypes, cures=cures, **of_then)


def _cure(state: ComponentState) -> CureKind | None:
    """What a component ran under, beyond its type."""
    return "rescale" if state.rescale else "upcast-region" if state.upcast else None
