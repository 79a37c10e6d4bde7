"""What the next pictures and checks use beside the model's own parts, and what of it the folders of the settings hold."""

from collections.abc import Callable, Iterable

import msgspec
from PySide6.QtCore import QObject, Signal

from halftone.contract.facts import ModelFacts
from halftone.contract.request import ALONE, Control, Extras, IpAdapter, Lora
from halftone.gui.background import Background
from halftone.gui.control.writing import SettingsKeeper
from halftone.library.add_ons.extras import known_parts, known_transformers
from halftone.library.add_ons.loras import known_loras, lora_folders
from halftone.library.add_ons.upscalers import known_upscalers


class ExtrasChoice(QObject):
    """`changed`: others are chosen."""

    changed = Signal()

    def __init__(self, keeper: SettingsKeeper, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self._keeper = keeper
        self._background = background
        self.chosen: Extras = ALONE

    def choose_loras(self, loras: Iterable[Lora]) -> None:
        self._choose(msgspec.structs.replace(self.chosen, loras=tuple(loras)))

    def choose_vae(self, vae: str | None) -> None:
        """None: the model's own."""
        self._choose(msgspec.structs.replace(self.chosen, vae=vae))

    def choose_transformer(self, transformer: str | None) -> None:
        """None: the model's own."""
        self._choose(msgspec.structs.replace(self.chosen, transformer=transformer))

    def choose_controls(self, controls: Iterable[Control]) -> None:
        self._choose(msgspec.structs.replace(self.chosen, controls=tuple(controls)))

    def choose_ip_adapters(self, adapters: Iterable[IpAdapter]) -> None:
        self._choose(msgspec.structs.replace(self.chosen, ip_adapters=tuple(adapters)))

    def _choose(self, chosen: Extras) -> None:
        if chosen != self.chosen:
            self.chosen = chosen
            self.changed.emit()

    def look_for_loras(self, then: Callable[[dict[str, str], tuple[str, ...]], None]) -> None:
        """Read the folders in the background; `then` gets name -> path, and the folders."""
        folders = lora_folders(self._keeper.settings)
        self._background.run(lambda: known_loras(folders), lambda known: then(known, folders))

    def look_for(self, kind: str, then: Callable[[dict[str, str]], None]) -> None:
        """Read the model folders in the background; `then` gets name -> path. kind: as `library.families.KIND_NAMES` has them."""
        folders = self._keeper.settings.model_folders
        self._background.run(lambda: known_parts(folders, kind), then)

    def look_for_transformers(self, model: ModelFacts, then: Callable[[dict[str, str]], None]) -> None:
        """The same of files of a transformer for this model."""
        folders = self._keeper.settings.model_folders
        self._background.run(lambda: known_transformers(folders, model), then)

    def look_for_upscalers(self, then: Callable[[dict[str, str]], None]) -> None:
        """The same of upscale models, in their own folders too."""
        settings = self._keeper.settings
        self._background.run(lambda: known_upscalers(settings), then)
