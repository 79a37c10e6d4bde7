"""The embeddings that the folders of the settings hold, and those of them that a prompt names."""

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from halftone.contract.facts import ModelFacts
from halftone.gui.background import Background
from halftone.gui.control.model_list import ModelList
from halftone.gui.control.writing import SettingsKeeper
from halftone.library.families import reads_in_chunks
from halftone.library.inversions import Inversion, inversion_folders, list_inversions


class KnownWords(QObject):
    """`changed`: other files are there."""

    changed = Signal()

    def __init__(self, keeper: SettingsKeeper, models: ModelList, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self._keeper = keeper
        self._background = background
        self._folders: tuple[str, ...] | None = None
        self._known: tuple[Inversion, ...] = ()
        models.changed.connect(self.look)
        keeper.changed.connect(self._look_elsewhere)

    def look(self) -> None:
        """Read the folders in the background."""
        folders = self._folders = inversion_folders(self._keeper.settings)
        self._background.run(lambda: list_inversions(folders), self._found, receiver=self)

    def of(self, model: ModelFacts | None) -> tuple[Inversion, ...]:
        """Those that a model can read."""
        if model is None or not reads_in_chunks(model.family):
            return ()
        return tuple(one for one in self._known if one.base in ("", model.family))

    def _look_elsewhere(self) -> None:
        if inversion_folders(self._keeper.settings) != self._folders:
            self.look()

    def _found(self, known: Iterable[Inversion]) -> None:
        known = tuple(known)
        if known != self._known:
            self._known = known
            self.changed.emit()
