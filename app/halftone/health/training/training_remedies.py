"""What was foreseen of a training, put right by a setting."""

import math
from decimal import ROUND_DOWN, Decimal
from typing import Any, Final

import msgspec

from halftone.contract.training import Omen, Optimizer, Remedy, TrainConfig
from halftone.health.pictures.schedules import is_falling

_WARM_UP: Final = 20
"""A warm-up takes one of so many steps."""
_USUAL: Final[dict[Optimizer, float]] = {"adamw": 1e-3, "adamw8bit": 1e-3, "prodigy": 1.0}
"""The highest rates that LoRAs are usually trained with; Prodigy finds its own, which the set one multiplies."""


def useful(omen: Omen, config: TrainConfig) -> Omen:
    """Return what was foreseen without the remedies that the training has already."""
    return msgspec.structs.replace(omen, remedies=tuple(one for one in omen.remedies if not _has(one, config)))


def _has(remedy: Remedy, config: TrainConfig) -> bool:
    match remedy:
        case "cosine":
            return is_falling(config.schedule)
        case "warm-up":
            return config.warm_up > 0 and not _changes(remedy, config, math.inf)["warm_up"] > config.warm_up
        case "clip-1":
            return 0 < config.clip <= 1
        case _:
            return False


def remedied(omen: Omen, config: TrainConfig) -> tuple[Remedy, TrainConfig] | None:
    """The first remedy that is a setting, and the settings with it; None where none is."""
    for remedy in omen.remedies:
        changed = msgspec.structs.replace(config, **_changes(remedy, config, math.inf if omen.limit is None else omen.limit))
        if changed != config:
            return remedy, changed
    return None


def _changes(remedy: Remedy, config: TrainConfig, limit: float) -> dict[str, Any]:
    """limit: that what was foreseen is held against."""
    match remedy:
        case "lower-rate" if 0 < (rate := _rounded_down(min(limit, _USUAL[config.optimizer]))) < config.learning_rate:
            return {"learning_rate": rate}
        case "clip-1":
            return {"clip": 1.0}
        case "grad-scaler":
            return {"loss_scale": "auto"}
        case "bfloat16":
            return {"precision": "bfloat16"}
        case "warm-up":
            return {"warm_up": max(config.warm_up, config.steps // _WARM_UP)}
        case "cosine":
            return {"schedule": "cosine"}
        case _:
            return {}


def _rounded_down(rate: float) -> float:
    """Cut a rate to one digit: one that is rounded up could be higher than it was."""
    exact = Decimal(repr(rate))
    return float(exact.quantize(Decimal((0, (1,), exact.adjusted())), ROUND_DOWN))
