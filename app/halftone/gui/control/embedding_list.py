"""The embeddings that the folders of the settings hold, and those of them that the selected model can read."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from halftone.gui.background import Background
from halftone.gui.control.model_list import ModelList
from halftone.gui.control.writing import SettingsKeeper
from halftone.library.add_ons.inversions import Inversion, encoder_widths, inversion_folders, list_inversions, matched
from halftone.session.store import Store


class KnownWords(QObject):
    """`changed`: others can be named."""

    changed = Signal()

    def __init__(self, holder: Store, keeper: SettingsKeeper, models: ModelList, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self._holder = holder
        self._keeper = keeper
        self._models = models
        self._background = background
        self._folders: tuple[str, ...] | None = None
        self._looks = 0
        self._known: tuple[Inversion, ...] = ()
        self._widths: tuple[int, ...] = ()
        holder.subscribe(lambda state: state.draft.inversions, lambda _files: self.look())
        models.changed.connect(self.look)
        models.selected.connect(self._measure)
        keeper.changed.connect(self._look_elsewhere)

    @property
    def fitting(self) -> tuple[Inversion, ...]:
        """Those that the selected model can read; the draft's own files before those of the folders."""
        return tuple(one for one in self._known if self._widths and matched(one, self._widths))

    def look(self) -> None:
        """Read the folders in the background. Files that the draft names count before those, as long as they are there."""
        folders, given = inversion_folders(self._keeper.settings), self._holder.state.draft.inversions
        files = tuple(path for path in given if Path(path).is_absolute())  # a picture's own text has only names
        self._folders = folders
        self._looks += 1
        number = self._looks
        self._background.run(lambda: list_inversions(folders, files), lambda known: self._found(number, known), receiver=self)
        self._measure()

    def _measure(self) -> None:
        """How wide the words of the selected model are."""
        model = self._models.current
        if model is not None:
            self._background.run(lambda: encoder_widths(model), lambda widths: self._measured(model.id, widths), receiver=self)

    def _look_elsewhere(self) -> None:
        if inversion_folders(self._keeper.settings) != self._folders:
            self.look()

    def _found(self, number: int, known: tuple[Inversion, ...]) -> None:
        """number: of the look; an older one may end later."""
        if number == self._looks and known != self._known:
            self._known = known
            self.changed.emit()

    def _measured(self, model: str, widths: tuple[int, ...]) -> None:
        current = self._models.current
        if current is not None and current.id == model and widths != self._widths:
            self._widths = widths
            self.changed.emit()
