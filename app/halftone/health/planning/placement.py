"""Which card a waiting job goes to, where several may compute. Pure: no job is moved, and nothing is loaded."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

Job = TypeVar("Job")


class Seat(NamedTuple):
    """A card that may take a job now. card: its id, "" for the device in use; model: id of the model in its memory, "" for none;
    free: bytes that a job may have there, None where that is not known.
    """

    card: str
    model: str = ""
    free: int | None = None


def place(
    jobs: Sequence[Job],
    seats: Sequence[Seat],
    may: Callable[[Job, Seat], bool],
    model_of: Callable[[Job], str],
) -> tuple[Job, Seat] | None:
    """The first job that may go to one of these cards, and the best of them for it: the one that has its model in memory, else
    the smallest that is large enough, so that a larger one stays free for a larger job; the device in use before others that are
    as good. None where no job may start now.
    """
    for job in jobs:
        fitting = [seat for seat in seats if may(job, seat)]
        if fitting:
            return job, min(fitting, key=lambda seat: (seat.model != (model_of(job) or None), _size(seat), seat.card))
    return None


def _size(seat: Seat) -> float:
    return float("inf") if seat.free is None else seat.free
