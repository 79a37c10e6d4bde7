"""The runs of a network that one search may make: counted, so that it ends alike on every machine."""

import time
from collections.abc import Callable


class BudgetSpentError(Exception):
    """A search has made as many runs as it may."""


class Runs:
    """The budget of one search. begins: called before each run, may raise; patience: seconds after which none begins."""

    def __init__(self, most: int, begins: Callable[[], None], patience: float = float("inf")) -> None:
        self._left = most
        self._begins = begins
        self._deadline = time.monotonic() + patience

    @property
    def are_spent(self) -> bool:
        return self._left <= 0 or time.monotonic() > self._deadline

    def begin(self) -> None:
        """Count one more run, which begins now. Raises what `begins` raises."""
        self._begins()
        self._left -= 1

    def spend(self) -> None:
        """The same. Raises BudgetSpentError where none is left."""
        if self.are_spent:
            raise BudgetSpentError
        self.begin()
