"""The draft of the next pictures: every change of it is one event, and it follows the model that is chosen."""

from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from halftone.gui.control.model_list import ModelList
from halftone.gui.control.writing import SettingsKeeper
from halftone.session.draft import Draft, extras, restored, with_defaults_of
from halftone.session.events import Drafted
from halftone.session.store import Store


class Drafting(QObject):
    """`changed`: any of it; `extras_changed`: what checks are made with."""

    changed = Signal()
    extras_changed = Signal()

    def __init__(self, holder: Store, keeper: SettingsKeeper, models: ModelList, parent: QObject) -> None:
        super().__init__(parent)
        self._holder = holder
        self._models = models
        self.put(restored(keeper.settings.form, keeper.settings.last_model))
        holder.subscribe(lambda state: state.draft, lambda _draft: self.changed.emit())
        holder.subscribe(lambda state: extras(state.draft), lambda _extras: self.extras_changed.emit())
        models.changed.connect(self._follow)
        models.selected.connect(self._follow)

    def put(self, draft: Draft) -> None:
        self._holder.take(Drafted(draft=draft))

    def edit(self, **changes: Any) -> None:
        """Give fields other values."""
        self.put(msgspec.structs.replace(self._holder.state.draft, **changes))

    def _follow(self) -> None:
        if self._models.current is not None:
            self.put(with_defaults_of(self._holder.state.draft, self._models.current))
