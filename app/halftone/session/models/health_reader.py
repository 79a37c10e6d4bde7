"""Reads the checks of all models, and judges them again when something changes that a verdict depends on."""

from halftone.contract.facts import CheckReport
from halftone.library.records import all_reports
from halftone.session.events import Replaced
from halftone.session.models.healths import Circumstances, Health, Healths, judged
from halftone.session.ports import Executor
from halftone.session.state import AppState
from halftone.session.store import Store


def _circumstances(state: AppState) -> tuple[object, ...]:
    return state.device, state.numerics, state.self_test, state.reports


class HealthReader:
    """Does nothing until `look` is first called: only lists of models need it."""

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._stored: tuple[CheckReport, ...] | None = None
        self._looks = 0
        store.subscribe(_circumstances, lambda _now: self._judge() if self._looks else None)

    def look(self) -> None:
        """Judge every model, now and whenever something changes."""
        if not self._looks:
            self._judge()

    def _judge(self) -> None:
        """Reports of this session count before those on the disk."""
        state = self._store.state
        self._looks += 1
        if state.device is None:
            return
        look, stored, fresh = self._looks, self._stored, tuple(state.reports.values())
        now = Circumstances(state.device, state.numerics, state.self_test)

        def work() -> tuple[tuple[CheckReport, ...], dict[str, Health]]:
            known = tuple(all_reports()) if stored is None else stored
            return known, judged((*known, *fresh), now)

        self._executor.run(work, lambda found: self._found(look, *found))

    def _found(self, look: int, stored: tuple[CheckReport, ...], healths: dict[str, Health]) -> None:
        """A later look may have begun meanwhile."""
        self._stored = stored
        if look == self._looks:
            self._store.take(Replaced(part=Healths(by_model=healths)))
