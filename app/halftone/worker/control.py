"""The flags of a running job."""

from collections import deque

from halftone.contract.errors import JobCancelled
from halftone.contract.messages import Decide


class JobControl:
    """The flags of one job, set from any thread, looked at by the engine between steps."""

    def __init__(self) -> None:
        self._cancelled = False
        self._keep = False
        self._held = False
        self._choices: deque[Decide] = deque()

    def cancel(self) -> None:
        self._cancelled = True

    def ask_to_keep(self) -> None:
        self._keep = True

    def cancelled(self) -> bool:
        return self._cancelled

    def keep(self) -> bool:
        return self._keep

    def hold(self, *, on: bool) -> None:
        self._held = on

    def held(self) -> bool:
        return self._held

    def decide(self, choice: Decide) -> None:
        self._choices.append(choice)

    def choice(self) -> Decide | None:
        """The oldest answer that was not taken yet."""
        return self._choices.popleft() if self._choices else None

    def check(self) -> None:
        """Raise JobCancelled if the job was cancelled."""
        if self._cancelled:
            raise JobCancelled
