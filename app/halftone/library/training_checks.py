"""What no training can be made with, told before anything is loaded."""

import os
from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.training import TrainConfig
from halftone.library.models import describe
from halftone.library.training_pictures import check_folder, shapes_for

_POSITIVE: Final = ("shapes", "repeats", "rank", "alpha", "steps", "batch", "accumulate", "learning_rate", "stop_after")
_NOT_NEGATIVE: Final = ("size", "warm_up", "weight_decay", "clip", "snr_gamma", "save_every", "test_every")
_FRACTIONS: Final = ("alpha", "learning_rate")
"""Of those above 0 the ones that may lie below 1."""
_MOST: Final = 10**9
_LARGEST: Final = {"rank": 4096, "shapes": 100, "repeats": 10_000, "size": 16_384, "batch": 4096, "accumulate": 10_000}
"""Of settings whose size alone makes a machine stand still."""


def check_config(config: TrainConfig) -> None:
    """Raise HalftoneError value-out-of-range or setting-bad-value for what no training can be made with."""
    for name in (*_POSITIVE, *_NOT_NEGATIVE):
        value, most = getattr(config, name), _LARGEST.get(name, _MOST)
        if not (0 <= value <= most) or (name in _POSITIVE and not value):
            low = 0 if name not in _POSITIVE else 1 if name not in _FRACTIONS else "just above 0"
            raise HalftoneError("value-out-of-range", name=_spoken(name), value=value, low=low, high=most)
    if not 0 <= config.caption_dropout <= 1:
        raise HalftoneError("value-out-of-range", name="Caption dropout", value=config.caption_dropout, low=0, high=1)
    if not config.name.strip() or config.name != Path(config.name).name or config.name.startswith("."):
        raise HalftoneError("setting-bad-value", name="The name of the LoRA", value=config.name or '""', allowed="a file's name")


def check_size(config: TrainConfig, model: ModelFacts) -> None:
    """Raise HalftoneError train-size where pictures would have to be trained at another size than the one asked for."""
    shapes = shapes_for(config, model)
    below = shapes.edge // shapes.step * shapes.step
    if below != shapes.edge:
        low, high = max(shapes.step, below), below + shapes.step
        raise HalftoneError("train-size", size=shapes.edge, step=shapes.step, low=low, high=max(high, 2 * shapes.step))


def check_before(config: TrainConfig, *, new: bool) -> None:
    """Settings, model and the folder of pictures; of a new training also what is left out of it. Raises what `check_config`,
    `describe` and `check_folder` raise, and HalftoneError setting-bad-value.
    """
    check_config(config)
    model = describe(config.model)
    if new:
        check_size(config, model)
    folder = check_folder(config.pictures)
    strange = next((name for name in config.left_out if not os.path.exists(folder / name)), None)
    if new and strange is not None:
        raise HalftoneError("setting-bad-value", name="left_out", value=strange, allowed="names of pictures in that folder")


def _spoken(name: str) -> str:
    return name.replace("_", " ").capitalize()
