"""How much memory a LoRA training needs: an estimate from headers and configurations, told as one."""

from typing import Final, Literal, NamedTuple

import msgspec

from halftone.contract.facts import ModelFacts
from halftone.contract.training import Optimizer, TrainConfig
from halftone.contract.vocabulary import DType
from halftone.health.forecasts.activations import Size, denoising
from halftone.health.forecasts.memory_forecast import Fit, fit
from halftone.health.training.training_numbers import kept_numbers, lora_numbers
from halftone.library.families.networks import known_networks
from halftone.library.training_data.training_pictures import shapes_for

_BYTES: Final[dict[DType, int]] = {"float16": 2, "bfloat16": 2, "float32": 4}
_CHECKPOINTED: Final = 0.1
"""Of the same with checkpointing: the states between the blocks; what is computed again is one block, and alive at once."""
_MOMENTS: Final[dict[Optimizer, float]] = {"adamw": 8.0, "adamw8bit": 2.0, "prodigy": 16.0}
"""Bytes that the optimizer keeps of each number that is trained."""
_TRAINED: Final = 4 + 4 + 4
"""Of each number that is trained: itself and its gradient in float32, and the guard's copy of it."""
_PROCESS: Final = 600_000_000
"""What Python, torch and its libraries take themselves, on a CPU, where they lie in the same memory."""
_HEAP: Final = 1.5
"""On a CPU, of what a step keeps: copies that products of matrices are packed in, and holes in the heap. Measured at 256 pixels
in FP32: 1.6 of SD 1.5 at its published size, 1.6 and 1.5 of smaller networks like SDXL's and SD 3's.
"""
_SMALLER: Final = (256, 384, 512, 640, 768)
"""Edges that are offered where a larger one does not fit."""
_WORTH: Final = 0.03
"""Of what is needed; less is not worth a word."""


class TrainingRoom(NamedTuple):
    """Bytes. base: the frozen denoiser; lora: what is trained, with gradients, moments and copies; activations: of a step;
    loading: the weights of all networks, which a CPU holds while captions and pictures are read; process: the program itself.
    """

    base: int
    lora: int
    activations: int
    process: int = 0
    loading: int = 0

    @property
    def peak(self) -> int:
        """At once, at the worst moment."""
        return max(self.base + self.lora + self.activations, self.loading) + self.process


Change = Literal["checkpointing", "batch", "size", "precision"]


class Saving(NamedTuple):
    """A setting that needs less. value: of this field of TrainConfig; peak: bytes with it; fit: whether that fits."""

    change: Change
    value: bool | int | str
    peak: int
    fit: Fit


class TrainingForecast(NamedTuple):
    """free: bytes on the device, None where that is not known; saving: what saves most, where it does not fit with room."""

    room: TrainingRoom
    free: int | None
    fit: Fit | None
    saving: Saving | None = None


def training_forecast(
    config: TrainConfig, model: ModelFacts, dtype: DType, *, on_cpu: bool, free: int | None, narrow: DType | None = None
) -> TrainingForecast | None:
    """dtype: that it runs in; narrow: a type of 16 bits that the device computes well in. None where nothing is known."""
    room = training_room(config, model, dtype, on_cpu=on_cpu)
    if room is None or free is None:
        return None if room is None else TrainingForecast(room, None, None)
    fits = fit(room.peak, free)
    saving = None if fits == "fits" else _saving(config, model, dtype, free, room.peak, on_cpu=on_cpu, narrow=narrow)
    return TrainingForecast(room, free, fits, saving)


def _saving(
    config: TrainConfig, model: ModelFacts, dtype: DType, free: int, now: int, *, on_cpu: bool, narrow: DType | None
) -> Saving | None:
    """The one setting after which least is needed."""
    smaller = [size for size in _SMALLER if size < shapes_for(config, model).edge]
    values: dict[Change, bool | int | str | None] = {
        "checkpointing": None if config.checkpointing else True,
        "batch": 1 if config.batch > 1 else None,
        "size": smaller[-1] if smaller else None,
        "precision": narrow if dtype == "float32" else None,
    }
    found: list[Saving] = []
    for change, value in values.items():
        if value is None:
            continue
        other = msgspec.structs.replace(config, **{change: value})
        room = training_room(other, model, narrow if narrow and change == "precision" else dtype, on_cpu=on_cpu)
        if room is not None and room.peak < now * (1 - _WORTH):
            found.append(Saving(change, value, room.peak, fit(room.peak, free)))
    return min(found, key=lambda one: one.peak, default=None)


def training_room(config: TrainConfig, model: ModelFacts, dtype: DType, *, on_cpu: bool) -> TrainingRoom | None:
    """None where the model's headers do not tell."""
    networks = known_networks(model)
    denoiser = next((one for one in networks if one.work == "denoise"), None)
    if denoiser is None:
        return None
    item = _BYTES[dtype]
    lora = round(lora_numbers(denoiser, config.rank) * (_TRAINED + _MOMENTS[config.optimizer]))
    edge = shapes_for(config, model).edge
    decoder = next((one for one in networks if one.work == "decode"), None)
    alive = denoising(denoiser, decoder, Size(edge, edge), guided=False)
    kept = alive + kept_numbers(denoiser, decoder, edge, mixed=dtype != "float32") * (
        _CHECKPOINTED if config.checkpointing else 1
    )
    base, step = denoiser.parameters * item, kept * item * config.batch
    if not on_cpu:
        return TrainingRoom(base, lora, round(step))
    return TrainingRoom(base, lora, round(step * _HEAP), _PROCESS, sum(one.parameters for one in networks) * item)
