"""Refuses impossible trainings before anything is loaded; and the settings a model learns well with."""

import math
import os
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import check_range
from halftone.contract.training import Optimizer, TrainConfig
from halftone.contract.wording import Words
from halftone.library.models import describe
from halftone.library.training_data.training_pictures import check_folder, shapes_for

_COUNTS: Final = {
    "shapes": (1, 100),
    "repeats": (1, 10_000),
    "rank": (1, 4096),
    "steps": (1, 10_000_000),
    "batch": (1, 4096),
    "accumulate": (1, 10_000),
    "stop_after": (1, 10_000),
    "size": (0, 16_384),
    "warm_up": (0, 10_000_000),
    "save_every": (0, 10_000_000),
    "test_every": (0, 10_000_000),
}
_NAMES: Final = {
    "shapes": "Aspect buckets",
    "repeats": "Repeats",
    "rank": "Rank",
    "steps": "Steps",
    "batch": "Batch",
    "accumulate": "Accumulate",
    "stop_after": "Pause after",
    "size": "Size",
    "warm_up": "Warm up",
    "save_every": "Save every",
    "test_every": "Test every",
    "alpha": "Alpha",
    "learning_rate": "Learning rate",
    "weight_decay": "Weight decay",
    "clip": "Clip",
    "snr_gamma": "Snr gamma",
}
_POSITIVE: Final = ("alpha", "learning_rate")
_NOT_NEGATIVE: Final = ("weight_decay", "clip", "snr_gamma")
_RATES: Final[dict[Optimizer, str]] = {"adamw": "0.0001", "adamw8bit": "0.0001", "prodigy": "1"}
"""The usual learning rate of each optimizer."""


def check_config(config: TrainConfig) -> None:
    """Raise HalftoneError value-out-of-range or setting-bad-value for an impossible training."""
    for name, allowed in _COUNTS.items():
        check_range(Words(_NAMES[name]), getattr(config, name), allowed)
    for name in (*_POSITIVE, *_NOT_NEGATIVE):
        value = getattr(config, name)
        if not 0 <= value < math.inf or (name in _POSITIVE and not value):
            allowed = Words("a number above 0") if name in _POSITIVE else Words("0 or a number above it")
            if name == "learning_rate":
                allowed = Words("a number above 0, such as {0}", (_RATES[config.optimizer],))
            raise HalftoneError("setting-bad-value", name=Words(_NAMES[name]), value=value, allowed=allowed)
    check_range(Words("Caption dropout"), config.caption_dropout, (0, 1))
    if not config.name.strip() or config.name != Path(config.name).name or config.name.startswith("."):
        name = Words("The name of the LoRA")
        raise HalftoneError("setting-bad-value", name=name, value=config.name or '""', allowed=Words("a file's name"))


def check_size(config: TrainConfig, model: ModelFacts) -> None:
    """Raise HalftoneError train-size where pictures would need another size than the one asked for."""
    shapes = shapes_for(config, model)
    below = shapes.edge // shapes.step * shapes.step
    if below != shapes.edge:
        low, high = max(shapes.step, below), below + shapes.step
        raise HalftoneError("train-size", size=shapes.edge, step=shapes.step, low=low, high=max(high, 2 * shapes.step))


def check_before(config: TrainConfig, *, new: bool) -> None:
    """Check settings, model and the folder of pictures; of a new training also its left-out pictures. Raises what `check_config`,
    `describe` and `check_folder` raise, and HalftoneError setting-bad-value.
    """
    check_config(config)
    model = describe(config.model)
    if new:
        check_size(config, model)
    folder = check_folder(config.pictures)
    strange = next((name for name in config.left_out if not os.path.exists(folder / name)), None)
    if new and strange is not None:
        allowed = Words("names of pictures in that folder")
        raise HalftoneError("setting-bad-value", name="left_out", value=strange, allowed=allowed)


Settings = dict[str, int | float]


def settings_of(model: ModelFacts) -> Settings:
    """The model's own training settings; none where its note has none, or a wrong one."""
    given = {name: value for name, value in model.training.items() if name in TrainConfig.__struct_fields__}
    try:
        msgspec.convert({"model": "", "pictures": "", "output": "", **given}, TrainConfig)
    except msgspec.ValidationError:
        return {}
    return given


def settings_for(model: object) -> Settings:
    """The same for a model as a file of settings names it; none where that is no model: the training itself says why."""
    if not isinstance(model, str):
        return {}
    try:
        return settings_of(describe(model))
    except HalftoneError:
        return {}
