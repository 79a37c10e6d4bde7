"""What happens beside the events of the worker: the queue changes, a device is chosen, a message comes."""

from dataclasses import dataclass
from typing import Literal

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import CheckReport, DeviceFacts, SelfTestReport
from halftone.contract.training import TrainConfig
from halftone.contract.vocabulary import Precision
from halftone.contract.wording import Words
from halftone.session.models.healths import Healths
from halftone.session.models.watched import Library
from halftone.session.pictures.draft import Draft
from halftone.session.pictures.fix import Fix
from halftone.session.pictures.gallery_state import GalleryState
from halftone.session.pictures.history import PictureHistory
from halftone.session.pictures.memory_estimate import Networks
from halftone.session.state import (
    NOTHING_FOUND,
    Card,
    Embeddings,
    Endless,
    Found,
    Job,
    Lacking,
    LeftQueue,
    Loras,
    NoticeKind,
    Preparation,
    Sheet,
    TrainingRun,
)
from halftone.session.update_state import Updating
from halftone.settings.store import Settings


@dataclass(frozen=True, kw_only=True)
class Queued:
    """A new job for the queue. first: before all that wait (the running one is never displaced)."""

    job: Job
    first: bool = False


@dataclass(frozen=True, kw_only=True)
class Removed:
    job: str


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Put a waiting job before (-1) or behind (+1) its neighbour, or at an absolute place among the waiting."""

    job: str
    by: int = 0
    to: int | None = None


@dataclass(frozen=True, kw_only=True)
class Sent:
    """The job's command went to a worker. card: as the job has it."""

    job: str
    card: str = ""


@dataclass(frozen=True, kw_only=True)
class Stopping:
    job: str
    how: Literal["cancel", "keep"]


@dataclass(frozen=True, kw_only=True)
class Paused:
    on: bool


@dataclass(frozen=True, kw_only=True)
class Continued:
    """An entry of the queue gets another place among the commands: what is left of it, or what the user made of it."""

    job: str
    by: Job


@dataclass(frozen=True, kw_only=True)
class Repeating:
    """This is made again and again from now on; None: no more."""

    endless: Endless | None


@dataclass(frozen=True, kw_only=True)
class Composed:
    """The sheet of a grid is saved, or could not be and is kept; with neither path nor error, the user discarded it."""

    key: str
    path: str = ""
    error: ErrorFacts | None = None


@dataclass(frozen=True, kw_only=True)
class Left:
    """What an earlier window left in its queue; nothing once that is decided. sheets: those that it had yet to put together."""

    queue: LeftQueue
    sheets: tuple[Sheet, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Warming:
    """The worker was asked to load this model, named for the user, before a job needs it."""

    model: str


@dataclass(frozen=True, kw_only=True)
class Making:
    on: bool


@dataclass(frozen=True, kw_only=True)
class Starting:
    """A worker is started again because the user asked for it."""


@dataclass(frozen=True, kw_only=True)
class DeviceChosen:
    device: DeviceFacts | None
    self_test: SelfTestReport | None = None


@dataclass(frozen=True, kw_only=True)
class CardsChosen:
    """The other cards that take jobs from now on."""

    cards: tuple[Card, ...]


@dataclass(frozen=True, kw_only=True)
class CardChanged:
    """Something of another card is known better. One that takes no jobs any more stays out."""

    card: Card


@dataclass(frozen=True, kw_only=True)
class Noted:
    kind: NoticeKind
    facts: tuple[str, ...] = ()
    error: ErrorFacts | None = None
    job: Job | None = None
    why: Words | None = None
    refused: tuple[tuple[str, ErrorFacts], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """The user, a picture or another model changed what the next pictures are to be."""

    draft: Draft


@dataclass(frozen=True, kw_only=True)
class PrecisionChosen:
    """Chosen for the next pictures only. None: as the settings say."""

    precision: Precision | None


@dataclass(frozen=True, kw_only=True)
class RowFolded:
    """A row of the Create page was opened or closed."""

    row: str
    open: bool


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A check to go by: it ended, or its cure was applied or taken back."""

    report: CheckReport


@dataclass(frozen=True, kw_only=True)
class CheckUnclear:
    """A check ended that only its page explains."""


@dataclass(frozen=True, kw_only=True)
class ModelUsed:
    """Another model is in use, or the same one is known better. folders: those of the settings from now on; found: what was
    opened with it; part: the file of a transformer alone that was chosen, for which the model has the other parts.
    """

    model: str
    folders: tuple[str, ...]
    found: Found = NOTHING_FOUND
    part: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelsForgotten:
    """These leave the list. folders, in_use: those of the settings from now on."""

    names: tuple[str, ...]
    folders: tuple[str, ...]
    in_use: str


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """This part of the state, in place of the one before."""

    part: (
        Settings
        | Found
        | Lacking
        | Loras
        | Embeddings
        | TrainingRun
        | Preparation
        | TrainConfig
        | PictureHistory
        | Fix
        | Networks
        | Library
        | Healths
        | GalleryState
        | Updating
    )


QueueEvent = Queued | Removed | Moved | Sent | Stopping | Paused | Continued | Repeating | Composed | Left
ModelEvent = ModelUsed | ModelsForgotten
CheckEvent = Reported | CheckUnclear
NextPictures = Drafted | PrecisionChosen | RowFolded
CardEvent = CardsChosen | CardChanged
Single = Warming | Making | Starting | DeviceChosen | Noted | Replaced
OwnEvent = QueueEvent | ModelEvent | CheckEvent | NextPictures | CardEvent | Single
