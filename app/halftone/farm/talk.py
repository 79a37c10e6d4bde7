"""What head and node say to each other, as structs that travel as msgpack. Events are the worker's own frames."""

from typing import Protocol

import msgspec

from halftone import __version__
from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import DeviceFacts
from halftone.contract.messages import Examine, Generate
from halftone.farm.copying import Piece
from halftone.farm.prints import ModelPrint

FarmCommand = Generate | Examine


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a node, with a worker process of its own. free: bytes, as they were measured last; None: not known."""

    device: DeviceFacts
    free: int | None = None
    broken: ErrorFacts | None = None
    """Why its worker cannot be started any more."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node. version: of Halftone there."""

    host: str
    version: str
    cards: tuple[Card, ...]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One job for a node. command: with the head's own paths; prints: of all models that it names."""

    key: str
    attempt: int
    command: FarmCommand
    prints: tuple[ModelPrint, ...] = ()

    @property
    def name(self) -> str:
        """The id of the job in the worker: each attempt is a job of its own."""
        return f"{self.key}@{self.attempt}"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker said of an attempt: a frame of `contract.wire`, and with its end the bytes of the file, if there is one."""

    key: str
    attempt: int
    frame: bytes
    data: bytes | None = None


class NodeGoneError(Exception):
    """The node is not there any more. left: its user took it out of the farm; else it ended of itself, or was cut off."""

    def __init__(self, why: str = "it does not answer any more", *, left: bool = False) -> None:
        self.left = left
        super().__init__(why)


class OtherVersionError(Exception):
    """The node has another version of Halftone. facts: what can be read of it."""

    def __init__(self, facts: NodeFacts) -> None:
        self.facts = facts
        super().__init__(f"it has Halftone {facts.version}, the head {__version__}")


class _Version(msgspec.Struct, frozen=True):
    """What the facts of a node of any version have."""

    host: str
    version: str


def read_facts(data: bytes) -> NodeFacts:
    """Decode what a node says of itself. Raises OtherVersionError before anything is read that another version may have changed,
    and msgspec.MsgspecError.
    """
    known = msgspec.msgpack.decode(data, type=_Version)
    if known.version != __version__:
        raise OtherVersionError(NodeFacts(host=known.host, version=known.version, cards=()))
    return msgspec.msgpack.decode(data, type=NodeFacts)


class NodePort(Protocol):
    """A node as the head sees it, wherever it runs. Every call may raise NodeGoneError, and msgspec.MsgspecError for an answer
    that cannot be read.
    """

    async def describe(self) -> NodeFacts:
        """Raises OtherVersionError."""
        ...

    async def weigh(self, card: str, tasks: tuple[Task, ...]) -> tuple[ErrorFacts | None, ...]:
        """Why each of these cannot run on a card now, None where it can."""
        ...

    async def begin(self, card: str, tasks: tuple[Task, ...]) -> None: ...

    async def take(self, seconds: float) -> tuple[Told, ...]:
        """What was said since; waits so long for the first word."""
        ...

    async def cancel(self, names: tuple[str, ...]) -> None: ...

    async def lacks(self, model: ModelPrint) -> bool:
        """Whether none of its folders has this model."""
        ...

    async def receive(self, piece: Piece) -> ErrorFacts | None:
        """Take part of a model; why it cannot be copied, else None."""
        ...

    async def close(self) -> None: ...
