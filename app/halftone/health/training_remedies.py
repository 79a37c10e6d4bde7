"""What was foreseen of a training, put right by a setting."""

from typing import Any

import msgspec

from halftone.contract.training import Omen, Remedy, TrainConfig

_WARM_UP = 20
"""A warm-up takes one of so many steps."""


def remedied(omen: Omen, config: TrainConfig) -> tuple[Remedy, TrainConfig] | None:
    """The first remedy that is a setting, and the settings with it; None where none is."""
    for remedy in omen.remedies:
        changed = msgspec.structs.replace(config, **_changes(remedy, omen, config))
        if changed != config:
            return remedy, changed
    return None


def _changes(remedy: Remedy, omen: Omen, config: TrainConfig) -> dict[str, Any]:
    match remedy:
        case "lower-rate" if omen.limit is not None and 0 < omen.limit < config.learning_rate:
            return {"learning_rate": float(f"{omen.limit:.1g}")}
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
