"""The models in memory: one, or two that make pictures in turns where there is room for both."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from halftone.contract.engine import Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, ModelFacts
from halftone.contract.messages import ModelChanged, PhaseChanged
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.library.models import describe_again, runnable
from halftone.measure.giving_back import give_back

log = logging.getLogger(__name__)


class Models:
    """The last one is the one in use."""

    def __init__(self) -> None:
        self._there: list[Loaded] = []

    @property
    def last(self) -> Loaded | None:
        return self._there[-1] if self._there else None

    @property
    def all(self) -> tuple[Loaded, ...]:
        return tuple(self._there)

    def describe(self, model: str) -> ModelFacts:
        """Describe a model; one in memory with unchanged files is not read. Raises as `models.describe`."""
        return describe_again(model, (one.facts for one in self._there))

    def unload(self) -> None:
        self._there.clear()
        freed()

    def others_leave(self) -> bool:
        """All but the one in use; whether there were any."""
        there = len(self._there) > 1
        if there:
            del self._there[:-1]
            freed()
        return there

    def leave_but(self, models: Sequence[ModelFacts], device: DeviceFacts) -> None:
        """All but these, as their files are now."""
        found = {self._index(facts, device) for facts in models}
        there = [one for index, one in enumerate(self._there) if index in found]
        if len(there) < len(self._there):
            self._there = there
            freed()

    def holds(self, facts: ModelFacts, device: DeviceFacts) -> bool:
        return self._index(facts, device) is not None

    def ready(self, facts: ModelFacts, device: DeviceFacts, emit: Emit, *, beside: bool = False) -> Loaded:
        """This one, loaded now if another one, another version or another device was there. beside: the others may stay."""
        found = self._index(facts, device)
        if found is None:
            return self._load(facts, device, emit, beside=beside)
        if found != len(self._there) - 1:
            self._there.append(self._there.pop(found))
            emit(ModelChanged(model=facts, device=device.id, seconds=0.0))
        if not beside:
            self.others_leave()
        return self._there[-1]

    def _index(self, facts: ModelFacts, device: DeviceFacts) -> int | None:
        wanted = facts.fingerprint, facts.path, device.id
        known = ((one.facts.fingerprint, one.facts.path, str(one.device)) for one in self._there)
        return next((index for index, one in enumerate(known) if one == wanted), None)

    def _load(self, facts: ModelFacts, device: DeviceFacts, emit: Emit, *, beside: bool) -> Loaded:
        runnable(facts)
        if not beside or any(str(one.device) != device.id for one in self._there):
            self.unload()
        started = time.perf_counter()
        emit(PhaseChanged(phase="load", done=0, total=facts.size_bytes, detail=Path(facts.path).name))
        with quiet_libraries():
            try:
                loaded = load_pipeline(facts, torch.device(device.id))
            except HalftoneError as error:
                if error.code != "model-too-large" or not self._there:
                    raise
                self.unload()
                loaded = load_pipeline(facts, torch.device(device.id))
        self._there.append(loaded)
        emit(PhaseChanged(phase="load", done=facts.size_bytes, total=facts.size_bytes))
        seconds = time.perf_counter() - started
        emit(ModelChanged(model=facts, device=device.id, seconds=seconds))
        log.info("model ready after %.1f s", seconds)
        return loaded


def freed() -> None:
    """Return memory to the system and to the device."""
    give_back()
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()
