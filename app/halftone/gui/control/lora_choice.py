"""The LoRAs of the next pictures and checks, and those that the folders of the settings hold."""

from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, Signal

from halftone.contract.request import Lora
from halftone.gui.background import Background
from halftone.gui.control.writing import SettingsKeeper
from halftone.library.loras import known_loras, lora_folders


class LoraChoice(QObject):
    """`changed`: others are chosen."""

    changed = Signal()

    def __init__(self, keeper: SettingsKeeper, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self._keeper = keeper
        self._background = background
        self.chosen: tuple[Lora, ...] = ()

    def choose(self, loras: Iterable[Lora]) -> None:
        chosen = tuple(loras)
        if chosen != self.chosen:
            self.chosen = chosen
            self.changed.emit()

    def look(self, then: Callable[[dict[str, str], tuple[str, ...]], None]) -> None:
        """Read the folders in the background; `then` gets name -> path, and the folders."""
        folders = lora_folders(self._keeper.settings)
        self._background.run(lambda: known_loras(folders), lambda known: then(known, folders))
