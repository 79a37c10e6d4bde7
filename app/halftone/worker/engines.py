"""What is loaded by name only once a command needs it: engines, and torch with them."""

import importlib
from collections.abc import Callable
from typing import Any, Final, cast

from halftone.contract.engine import Engine
from halftone.measure.giving_back import importing
from halftone.worker.environment import prepare

ENGINE: Final = "halftone.training.service:TrainingEngine"


def loaded(place: str) -> Any:
    """What stands at `module:name`. The first call sets what libraries read when they are imported."""
    module, _, name = place.partition(":")
    prepare()
    with importing():
        return getattr(importlib.import_module(module), name)


def engine_maker(place: str = ENGINE) -> Callable[[], Engine]:
    """Return what makes the engine, in the thread that computes."""
    return lambda: cast("Engine", loaded(place)())
