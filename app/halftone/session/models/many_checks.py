"""Queues checks of several models: those whose facts are not known yet are described first, off the window's thread."""

import logging
from collections.abc import Mapping, Sequence

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.library.models import describe
from halftone.session.checks import Checks
from halftone.session.ports import Executor
from halftone.session.store import Store

_log = logging.getLogger(__name__)


class ManyChecks:
    def __init__(self, store: Store, checks: Checks, executor: Executor) -> None:
        self._store = store
        self._checks = checks
        self._executor = executor

    def check(self, models: Sequence[str]) -> None:
        """Queue a check of each, the first one first. Those that are queued already, or cannot be read, are left out."""
        known = self._store.state.models.models
        self._executor.run(lambda: _described(models, known), self._queue)

    def _queue(self, found: Sequence[ModelFacts]) -> None:
        queued = {job.model for job in self._store.state.jobs if job.kind == "Examine"}
        for facts in reversed(found):  # each goes before all that wait
            if facts.id not in queued:
                self._checks.check(facts)


def _described(models: Sequence[str], known: Mapping[str, ModelFacts]) -> tuple[ModelFacts, ...]:
    found: list[ModelFacts] = []
    for model in models:
        try:
            found.append(known.get(model) or describe(model))
        except HalftoneError as error:
            _log.info("left out of the checks: %s", error)
    return tuple(found)
