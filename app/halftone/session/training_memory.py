"""How much memory the training in the form would need, computed off this thread."""

from dataclasses import replace

from halftone.contract.facts import MemoryFacts, ModelFacts
from halftone.contract.training import TrainConfig
from halftone.contract.vocabulary import DType
from halftone.health.training.training_memory import TrainingForecast, training_forecast
from halftone.session.events import Replaced
from halftone.session.ports import Executor
from halftone.session.store import Store

_DEPENDS = ("model", "size", "shapes", "rank", "batch", "optimizer", "checkpointing", "precision")
"""Fields of TrainConfig that the memory depends on."""


class TrainingMemory:
    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._key: tuple[object, ...] | None = None

    def look(self, config: TrainConfig, model: ModelFacts | None, auto: DType, backend: str, memory: MemoryFacts | None) -> None:
        """auto: the type that the device computes best in."""
        if model is None:
            return
        free = None if memory is None else _rounded(memory.total - memory.others)
        key = (*(getattr(config, name) for name in _DEPENDS), model.fingerprint, auto, backend, free)
        if key == self._key:
            return
        self._key = key
        dtype: DType = auto if config.precision == "auto" else config.precision
        narrow = None if auto == "float32" else auto
        self._executor.run(
            lambda: training_forecast(config, model, dtype, on_cpu=backend == "cpu", free=free, narrow=narrow),
            lambda found: self._known(key, found),
            lambda _error: self._known(key, None),
        )

    def _known(self, key: tuple[object, ...], found: TrainingForecast | None) -> None:
        if key == self._key:
            self._store.take(Replaced(part=replace(self._store.state.preparation, forecast=found)))


def _rounded(free: int) -> int:
    """To ten megabytes, and never below zero: what others use changes all the time."""
    return max(0, round(free / 1e7)) * 10_000_000
