"""Settings that a model is known to learn well with: they stand in its note (halftone.json), and count where nobody says else."""

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.training import TrainConfig
from halftone.library.models import describe

Settings = dict[str, int | float]


def settings_of(model: ModelFacts) -> Settings:
    """Those that a training has; empty where the note tells none, or is wrong about one of them."""
    told = {name: value for name, value in model.training.items() if name in TrainConfig.__struct_fields__}
    try:
        msgspec.convert({"model": "", "pictures": "", "output": "", **told}, TrainConfig)
    except msgspec.ValidationError:
        return {}
    return told


def settings_for(model: object) -> Settings:
    """Of a model as a file of settings names it; empty where that is no model: the training itself says why."""
    if not isinstance(model, str):
        return {}
    try:
        return settings_of(describe(model))
    except HalftoneError:
        return {}
