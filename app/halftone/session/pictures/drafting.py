"""Changes of the draft: each is one event, and the draft follows the model that is chosen."""

from typing import Any

import msgspec

from halftone.contract.facts import ModelFacts
from halftone.session.events import Drafted
from halftone.session.pictures.draft import Draft, restored, with_defaults_of
from halftone.session.store import Store


class Drafting:
    """Begins with the draft of the last close."""

    def __init__(self, store: Store) -> None:
        self._store = store
        settings = store.state.settings
        self.put(restored(settings.form, settings.last_model))
        store.subscribe(lambda state: state.model, self._follow)

    def put(self, draft: Draft) -> None:
        self._store.take(Drafted(draft=draft))

    def edit(self, **changes: Any) -> None:
        """Give fields other values."""
        self.put(msgspec.structs.replace(self._store.state.draft, **changes))

    def _follow(self, model: ModelFacts | None) -> None:
        if model is not None:
            self.put(with_defaults_of(self._store.state.draft, model))
