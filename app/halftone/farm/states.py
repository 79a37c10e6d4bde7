"""The life of one job of the farm, as pure transitions. An event that belongs to an older attempt changes nothing."""

from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from halftone.contract.errors import ErrorFacts

State = Literal["waiting", "leased", "placing", "done", "failed", "aside", "cancelled"]
"""waiting: for a card; leased: given to one; placing: its result is at the head, and its file is about to appear; done: the file
is there; failed: with an error that another attempt would meet again; aside: it ended two workers, or nodes failed it thrice."""

MOST_DEATHS: Final = 2
"""Workers that a job may end before it is set aside."""
MOST_LOSSES: Final = 3
"""Attempts that may fail for a reason of the node, such as a full disk, before the job is set aside."""
OPEN: Final[tuple[State, ...]] = ("waiting", "leased", "placing")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the ledger. kind: jobs of one kind need the same models and the same memory; attempt: counts from 1, 0 before the
    first; deaths: workers that ended while they ran it; losses: attempts that failed for a reason of the node; place, digest: the
    file as it is about to appear, and its SHA-256.
    """

    key: str
    user: str = ""
    kind: str = ""
    output: str = ""
    state: State = "waiting"
    attempt: int = 0
    deaths: int = 0
    losses: int = 0
    lease: str | None = None
    owner: str | None = None
    place: str | None = None
    digest: str | None = None
    error: ErrorFacts | None = None


class Leased(msgspec.Struct, frozen=True):
    """Given to a card with others of its kind. owner: the node."""

    lease: str
    owner: str


class Lost(msgspec.Struct, frozen=True):
    """The attempt will give no result. died: a worker ended while it ran the job; by_node: it failed for a reason of the node;
    error: what is known of that.
    """

    attempt: int
    died: bool = False
    by_node: bool = False
    error: ErrorFacts | None = None


class Arrived(msgspec.Struct, frozen=True):
    """Its bytes are at the head, which is about to write them as `place`."""

    attempt: int
    place: str
    digest: str


class Placed(msgspec.Struct, frozen=True):
    """The file is on the disk."""


class NotPlaced(msgspec.Struct, frozen=True):
    """The head ended before the file appeared: the bytes are gone."""


class Failed(msgspec.Struct, frozen=True):
    """It ended with an error, at the node or when its file was to be written."""

    attempt: int
    error: ErrorFacts


class Cancelled(msgspec.Struct, frozen=True):
    """Nobody wants it any more."""


class Again(msgspec.Struct, frozen=True):
    """The user wants another try of what did not end well."""


class Gone(msgspec.Struct, frozen=True):
    """The user wants a finished file again that is gone, or is another one."""


Happening = Leased | Lost | Arrived | Placed | NotPlaced | Failed | Cancelled | Again | Gone


def after(job: Job, happening: Happening) -> Job | None:
    """The job after what happened; None where it does not concern the job as it is."""
    match happening:
        case Leased():
            if job.state != "waiting":
                return None
            return replace(job, state="leased", attempt=job.attempt + 1, lease=happening.lease, owner=happening.owner)
        case Lost():
            return _after_loss(job, happening) if _is_running(job, happening.attempt) else None
        case Arrived():
            if not _is_running(job, happening.attempt):
                return None
            return replace(_free(job), state="placing", place=happening.place, digest=happening.digest)
        case Placed():
            return replace(job, state="done") if job.state == "placing" else None
        case NotPlaced():
            return replace(job, state="waiting", place=None, digest=None) if job.state == "placing" else None
        case Failed():
            if job.state not in ("leased", "placing") or job.attempt != happening.attempt:
                return None
            return replace(_free(job), state="failed", place=None, digest=None, error=happening.error)
        case Cancelled():
            return replace(_free(job), state="cancelled") if job.state in ("waiting", "leased") else None
        case Again() | Gone():
            return _anew(job, happening)


def _anew(job: Job, wanted: Again | Gone) -> Job | None:
    ended = ("done",) if isinstance(wanted, Gone) else ("failed", "aside", "cancelled")
    anew = replace(job, state="waiting", deaths=0, losses=0, place=None, digest=None, error=None)
    return anew if job.state in ended else None


def _is_running(job: Job, attempt: int) -> bool:
    return job.state == "leased" and job.attempt == attempt


def _after_loss(job: Job, loss: Lost) -> Job:
    deaths, losses = job.deaths + loss.died, job.losses + loss.by_node
    aside = deaths >= MOST_DEATHS or losses >= MOST_LOSSES
    state: State = "aside" if aside else "waiting"
    return replace(_free(job), state=state, deaths=deaths, losses=losses, error=loss.error if aside else None)


def _free(job: Job) -> Job:
    return replace(job, lease=None, owner=None)
