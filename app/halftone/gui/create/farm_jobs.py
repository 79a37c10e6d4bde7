"""The window's jobs on the farm: handed in, followed and cancelled through the ledger, off the UI thread."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Final, TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.gui.controller import Controller
from halftone.session.events import Left, Noted
from halftone.session.state import Job, LeftQueue

if TYPE_CHECKING:
    from halftone.farm.window_jobs import Entry, Seen

T = TypeVar("T")
_LOOK_MS: Final = 1000


def _farm() -> "ModuleType":
    """Imported when it is first used: the first paint does not wait for it."""
    from halftone.farm import window_jobs

    return window_jobs


class FarmJobs(QObject):
    """Looks into the ledger while pictures of the window are open there. head: whether a head of this user runs."""

    changed = Signal()

    def __init__(self, controller: Controller, parent: QObject) -> None:
        super().__init__(parent)
        self._controller = controller
        self.entries: tuple[Entry, ...] = ()
        self.head = False
        self._looking = self._again = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_LOOK_MS)
        self._timer.timeout.connect(self.look)
        unsubscribe = controller.session.store.subscribe(lambda state: state.left.jobs, self._drop_filed)
        self.destroyed.connect(unsubscribe)
        self._drop_filed(controller.state.left.jobs)
        self.look()

    # --- what becomes of them ---------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the ledger now, or once more when it is being read."""
        self._again = self._looking
        if self._looking:
            return
        self._looking = True
        titles = {one.key: one.title for one in self.entries}
        self._run(lambda: _farm().look(titles), self._seen, self._unseen)

    def _seen(self, seen: "Seen") -> None:
        self._looking = False
        open_before = {one.key for one in self.entries if one.is_open}
        made = open_before - {one.key for one in seen.entries}
        if (seen.head, seen.entries) != (self.head, self.entries):
            self.head, self.entries = seen
            self.changed.emit()
        if made:
            self._controller.session.history.read_new()
        if self._again:
            self.look()
        elif any(one.is_open for one in self.entries):
            self._timer.start()

    def _unseen(self, error: Exception) -> None:
        """Another program holds the ledger: it is read again a little later."""
        self._looking = False
        if any(one.is_open for one in self.entries):
            self._timer.start()
        else:
            self._not_sent(error)

    # --- what the user wants ----------------------------------------------------------------------------------------

    def send(self, jobs: Sequence[Job]) -> None:
        """Hand in jobs that wait; they leave the queue once the ledger has them."""
        queue = self._controller.session.queue
        leaving = tuple(job for job in jobs if not (job.running or job.held or job.leaving))
        awaited = tuple(job.id for job in leaving if queue.awaited(job.id))
        for job in leaving:
            queue.set_leaving(job.id, True)

        def failed(error: Exception) -> None:
            for job in leaving:
                queue.set_leaving(job.id, False)
            self._not_sent(error)

        if leaving:
            self._run(lambda: _farm().send(leaving, awaited), partial(self._sent, leaving), failed)

    def _sent(self, jobs: Sequence[Job], found: dict[str, ErrorFacts | None] | None) -> None:
        queue, refused = self._controller.session.queue, list[tuple[str, ErrorFacts]]()
        for job in jobs:
            error = None if found is None else found[job.id]
            if found is None or error is not None:
                queue.set_leaving(job.id, False)
                refused += [] if error is None else [(job.title or job.kind, error)]
            elif not queue.left(job.id):  # the user removed it meanwhile
                self._change(partial(_farm().cancel_entry, job.id))
        if found is None:
            self._controller.take(Noted(kind="no-farm"))
        elif refused:
            self._controller.take(Noted(kind="not-farmed", refused=tuple(refused)))
        self.look()

    def remove(self, entry: "Entry") -> None:
        """Cancel a picture, or take one off the list that did not end well."""
        self._change(lambda: _farm().cancel(entry.key) if entry.is_open else _farm().take_off(entry.key))

    def retry(self, entry: "Entry") -> None:
        """Let the farm try a picture again."""
        self._change(lambda: _farm().retry(entry.key))

    def cancel_all(self) -> None:
        """Cancel every picture that is open."""
        keys = tuple(one.key for one in self.entries if one.is_open)
        self._change(lambda: _farm().cancel(*keys))

    def _change(self, change: Callable[[], object]) -> None:
        self._run(change, lambda _done: self.look(), self._not_sent)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _drop_filed(self, left: tuple[Job, ...]) -> None:
        """A window that was killed may have left entries in its queue that the farm has already."""

        def known(names: frozenset[str]) -> None:
            now = self._controller.state.left
            kept = tuple(job for job in now.jobs if job.id not in names)
            if kept != now.jobs:
                self._controller.take(Left(queue=replace(now, jobs=kept) if kept or now.endless else LeftQueue()))

        if left:
            self._run(lambda: _farm().filed([job.id for job in left]), known, self._not_sent)

    def _not_sent(self, error: Exception) -> None:
        if isinstance(error, HalftoneError):
            facts = error.as_facts()
            self._controller.take(Noted(kind="not-farmed", refused=((str(facts.facts.get("name", "")), facts),)))
        else:
            self._controller.take(Noted(kind="not-farmed", facts=(str(error),)))

    def _run(self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        self._controller.background.run(work, ready, failed, receiver=self)
