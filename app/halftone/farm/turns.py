"""Who is next, and how much a card is given at once. Pure."""

from collections.abc import Mapping
from math import ceil
from typing import Final

LEASE_PICTURES: Final = 32
"""Most pictures of a lease, where many wait."""


def next_user(waiting: Mapping[str, int], had: Mapping[str, int]) -> str | None:
    """The user whose turn it is: of those with jobs that wait, the one who was given the fewest pictures; then by name. None
    where nobody waits.

    had: pictures that each user was given since he or she came.
    """
    return min((user for user, count in waiting.items() if count), key=lambda user: (had.get(user, 0), user), default=None)


def start_of(had: Mapping[str, int], waiting: Mapping[str, int]) -> int:
    """The count with which a user begins who had nothing to do: that of the one who waits with the fewest, so that nobody saves
    turns up.
    """
    return min((had.get(user, 0) for user, count in waiting.items() if count), default=0)


def lease_size(waiting: int, cards: int, most: int = LEASE_PICTURES) -> int:
    """Pictures of the next lease: fewer near the end, so that all cards end at about the same time."""
    return max(1, min(most, ceil(waiting / (2 * max(1, cards)))))
