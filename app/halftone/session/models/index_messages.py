"""What the process of the index says: an object a line on stderr."""

from collections.abc import Iterator
from typing import Final

import msgspec


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """root: its number among the folders; done, of: files that are new or changed."""

    root: int
    done: int
    of: int


class Root(msgspec.Struct, frozen=True):
    """The result of the scan of one folder, with the fields of `Scanned`."""

    files: int
    offline: bool
    closed: tuple[str, ...]


class Scan(msgspec.Struct, frozen=True, tag="scan"):
    """A scan that ended. roots: in the order of the folders."""

    roots: tuple[Root, ...]


class Hashing(msgspec.Struct, frozen=True, tag="hashing"):
    """done: files that were hashed so far."""

    done: int


class Weighing(msgspec.Struct, frozen=True, tag="weighing"):
    """done, of: bytes of a file whose weights are looked at."""

    done: int
    of: int


Message = Progress | Scan | Hashing | Weighing
_message: Final = msgspec.json.Decoder(Message)


def messages(printed: bytes) -> Iterator[Message]:
    """The messages among whole lines; anything else, such as a warning of Python, is left out."""
    for line in printed.splitlines():
        if line.startswith(b"{"):
            try:
                yield _message.decode(line)
            except msgspec.MsgspecError:
                continue
