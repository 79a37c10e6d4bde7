"""What the folders of the settings hold of files that are used beside a model."""

from collections.abc import Callable

from halftone.contract.facts import ModelFacts
from halftone.library.add_ons.extras import known_parts, known_transformers
from halftone.library.add_ons.loras import known_loras, lora_folders
from halftone.library.add_ons.upscalers import known_upscalers
from halftone.session.ports import Executor
from halftone.session.store import Store

Then = Callable[[dict[str, str]], None]
"""Gets name -> path."""


class KnownFiles:
    """Reads the folders in the background."""

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor

    def loras(self, then: Callable[[dict[str, str], tuple[str, ...]], None]) -> None:
        """`then` gets the folders, too."""
        folders = lora_folders(self._store.state.settings)
        self._executor.run(lambda: known_loras(folders), lambda known: then(known, folders))

    def parts(self, kind: str, then: Then) -> None:
        """kind: as `library.families.KIND_NAMES` has them."""
        folders = self._store.state.settings.model_folders
        self._executor.run(lambda: known_parts(folders, kind), then)

    def transformers(self, model: ModelFacts, then: Then) -> None:
        """Look for transformers and UNets that fit this model."""
        folders = self._store.state.settings.model_folders
        self._executor.run(lambda: known_transformers(folders, model), then)

    def upscalers(self, then: Then) -> None:
        """Look into the folders of upscale models, too."""
        settings = self._store.state.settings
        self._executor.run(lambda: known_upscalers(settings), then)
