"""What the program knows of the gallery, frozen."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from halftone.contract.errors import ErrorFacts
from halftone.contract.parameters import seed_in
from halftone.contract.wording import Words
from halftone.gallery.facts import ALL, FAVOURITE, Query, Row
from halftone.metadata.reading import Parameters
from halftone.session.pictures.history import Made

Count = tuple[str, int]
"""A name and the number of its pictures."""
DESCRIBED: Final = 200
"""The most pictures whose values are compared when several are selected."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The pictures that are listed, as columns, the newest first. days: as `date.toordinal` has them; aspects: width / height;
    whole: no more of them are still to come.
    """

    ids: Sequence[int] = field(default_factory=lambda: array("q"))
    days: Sequence[int] = field(default_factory=lambda: array("l"))
    aspects: Sequence[float] = field(default_factory=lambda: array("f"))
    flags: Sequence[int] = field(default_factory=lambda: array("B"))
    whole: bool = True

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, place: int) -> Row:
        """One of them; its width and height are 0."""
        return Row(self.ids[place], self.days[place], 0, 0, self.flags[place])


class Scan(NamedTuple):
    """Pictures of other programs are being read. done: how many were, None until the folders are known."""

    done: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Detail:
    """One picture as the inspector shows it. made: of Halftone's own; said: what another program's picture says, with why it says
    nothing in `silent`; gone: its file is missing; marks: FAVOURITE and the names of collections.
    """

    id: int
    path: str
    made_at: datetime
    made: Made | None = None
    said: Parameters | None = None
    silent: ErrorFacts | None = None
    size: tuple[int, int] = (0, 0)
    gone: bool = False
    marks: frozenset[str] = frozenset()

    @property
    def favourite(self) -> bool:
        return FAVOURITE in self.marks

    @property
    def frames(self) -> int:
        return 1 if self.made is None else self.made.facts.frames

    @property
    def seed(self) -> int | None:
        """The seed that makes it again, None where it is not known."""
        if self.made is not None:
            return self.made.facts.seed
        return None if self.said is None else seed_in(self.said.fields.get("Seed", ""))


@dataclass(frozen=True, kw_only=True, eq=False)
class GalleryState:
    """rows: those that `query` finds; total: all that are listed; read: whether the list was read; error: why it could not be.

    selected: in the order of the list, with what is known of them in `details` unless they are more than DESCRIBED; models,
    loras, collections: what can be asked for; favourites: how many there are; scan: of the watched folders, None when it is done.
    """

    query: Query = ALL
    rows: Rows = field(default_factory=Rows)
    total: int = 0
    read: bool = False
    error: Words | None = None
    selected: tuple[int, ...] = ()
    details: tuple[Detail, ...] = ()
    models: tuple[Count, ...] = ()
    loras: tuple[Count, ...] = ()
    collections: tuple[Count, ...] = ()
    favourites: int = 0
    scan: Scan | None = None
