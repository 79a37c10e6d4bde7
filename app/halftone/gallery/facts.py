"""The facts of the gallery's list: a picture, a row, and what is asked for."""

from typing import Final, Literal, NamedTuple

import msgspec

Kind = Literal["picture", "video", "upscaled", "other"]
"""other: made by another program."""
Result = Literal["clean", "recovered", "cured"]

# Bits of `Row.flags`.
RECOVERED: Final = 1
VIDEO: Final = 2
UPSCALED: Final = 4
OWN: Final = 8
CURED: Final = 16

FAVOURITE: Final = ""
"""The mark of favourites; every other is the name of a collection."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What the gallery knows of one picture. made: seconds since 1970. model: its name. stamp: of the file, 0 for our own, which
    is never rewritten. text: all that a search looks through.
    """

    path: str
    made: float
    width: int
    height: int
    model: str = ""
    loras: tuple[str, ...] = ()
    text: str = ""
    recovered: bool = False
    cured: bool = False
    video: bool = False
    upscaled: bool = False
    own: bool = True
    stamp: int = 0
    thumbnail: bytes = b""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which pictures to list; the default is all. words: each must be found, "a phrase" in quotes, -word must not be.

    days: first and last, as `date.toordinal` has them. mark: FAVOURITE or a collection; None for any.
    """

    words: str = ""
    model: str = ""
    lora: str = ""
    kind: Kind | None = None
    result: Result | None = None
    own: bool = False
    days: tuple[int, int] | None = None
    mark: str | None = None


ALL: Final = Query()


class Row(NamedTuple):
    """One picture of the list. day: as `date.toordinal` has it, in local time; width, height: in pixels."""

    id: int
    day: int
    width: int
    height: int
    flags: int

    @property
    def recovered(self) -> bool:
        return bool(self.flags & RECOVERED)

    @property
    def cured(self) -> bool:
        return bool(self.flags & CURED)

    @property
    def video(self) -> bool:
        return bool(self.flags & VIDEO)
