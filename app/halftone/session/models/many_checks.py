"""Queues checks of several models: those whose facts are not known yet are described first, off the window's thread."""

from collections.abc import Mapping, Sequence

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import model_stem
from halftone.library.models import describe
from halftone.session.checks import Checks
from halftone.session.events import Noted
from halftone.session.ports import Executor
from halftone.session.store import Store


class ManyChecks:
    def __init__(self, store: Store, checks: Checks, executor: Executor) -> None:
        self._store = store
        self._checks = checks
        self._executor = executor

    def check(self, models: Sequence[str]) -> None:
        """Queue a check of each, the first one first, but of those that are queued already; say which cannot be read, and why."""
        known = self._store.state.models.models
        self._executor.run(lambda: _described(models, known), self._queue)

    def _queue(self, found: tuple[Sequence[ModelFacts], tuple[tuple[str, ErrorFacts], ...]]) -> None:
        described, refused = found
        queued = {job.model for job in self._store.state.jobs if job.kind == "Examine"}
        for facts in reversed(described):  # each goes before all that wait
            if facts.id not in queued:
                self._checks.check(facts)
        if refused:
            self._store.take(Noted(kind="not-checked", refused=refused))


def _described(
    models: Sequence[str], known: Mapping[str, ModelFacts]
) -> tuple[Sequence[ModelFacts], tuple[tuple[str, ErrorFacts], ...]]:
    found, refused = list[ModelFacts](), list[tuple[str, ErrorFacts]]()
    for model in models:
        try:
            found.append(known.get(model) or describe(model))
        except HalftoneError as error:
            refused.append((model_stem(model), error.as_facts()))
    return found, tuple(refused)
