"""What the next pictures and checks use beside the model's own parts, and what of it the folders of the settings hold."""

from collections.abc import Callable, Iterable

import msgspec

from halftone.contract.facts import ModelFacts
from halftone.contract.request import Control, Extras, IpAdapter, Lora
from halftone.library.add_ons.extras import known_parts, known_transformers
from halftone.library.add_ons.loras import known_loras, lora_folders
from halftone.library.add_ons.upscalers import known_upscalers
from halftone.session.events import Replaced
from halftone.session.ports import Executor
from halftone.session.store import Store


class ExtrasChoice:
    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor

    def choose_loras(self, loras: Iterable[Lora]) -> None:
        self._choose(msgspec.structs.replace(self._store.state.extras, loras=tuple(loras)))

    def choose_vae(self, vae: str | None) -> None:
        """None: the model's own."""
        self._choose(msgspec.structs.replace(self._store.state.extras, vae=vae))

    def choose_transformer(self, transformer: str | None) -> None:
        """None: the model's own."""
        self._choose(msgspec.structs.replace(self._store.state.extras, transformer=transformer))

    def choose_controls(self, controls: Iterable[Control]) -> None:
        self._choose(msgspec.structs.replace(self._store.state.extras, controls=tuple(controls)))

    def choose_ip_adapters(self, adapters: Iterable[IpAdapter]) -> None:
        self._choose(msgspec.structs.replace(self._store.state.extras, ip_adapters=tuple(adapters)))

    def _choose(self, extras: Extras) -> None:
        self._store.take(Replaced(part=extras))

    def look_for_loras(self, then: Callable[[dict[str, str], tuple[str, ...]], None]) -> None:
        """Read the folders in the background; `then` gets name -> path, and the folders."""
        folders = lora_folders(self._store.state.settings)
        self._executor.run(lambda: known_loras(folders), lambda known: then(known, folders))

    def look_for(self, kind: str, then: Callable[[dict[str, str]], None]) -> None:
        """Read the model folders in the background; `then` gets name -> path. kind: as `library.families.KIND_NAMES` has them."""
        folders = self._store.state.settings.model_folders
        self._executor.run(lambda: known_parts(folders, kind), then)

    def look_for_transformers(self, model: ModelFacts, then: Callable[[dict[str, str]], None]) -> None:
        """The same of files of a transformer for this model."""
        folders = self._store.state.settings.model_folders
        self._executor.run(lambda: known_transformers(folders, model), then)

    def look_for_upscalers(self, then: Callable[[dict[str, str]], None]) -> None:
        """The same of upscale models, in their own folders too."""
        settings = self._store.state.settings
        self._executor.run(lambda: known_upscalers(settings), then)
