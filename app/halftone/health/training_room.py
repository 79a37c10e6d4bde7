"""How much memory a LoRA training needs: an estimate from headers and configurations, told as one."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from halftone.contract.facts import ModelFacts
from halftone.contract.training import Optimizer, TrainConfig
from halftone.contract.words import DType
from halftone.health.activations import Size, denoising
from halftone.health.training_numbers import kept_numbers, lora_numbers
from halftone.library.networks import Network, known_networks
from halftone.library.training_pictures import shapes_for

_BYTES: Final[dict[DType, int]] = {"float16": 2, "bfloat16": 2, "float32": 4}
_CHECKPOINTED: Final = 0.1
"""Of the same with checkpointing: the states between the blocks; what is computed again is one block, and alive at once."""
_MOMENTS: Final[dict[Optimizer, float]] = {"adamw": 8.0, "adamw8bit": 2.0, "prodigy": 16.0}
"""Bytes that the optimizer keeps of each number that is trained."""
_TRAINED: Final = 4 + 4 + 4
"""Of each number that is trained: itself and its gradient in float32, and the guard's copy of it."""
_PROCESS: Final = 600_000_000
"""What Python, torch and its libraries take themselves, on a CPU, where they lie in the same memory."""


class TrainingRoom(NamedTuple):
    """Bytes. base: the frozen denoiser; lora: what is trained, with gradients, moments and copies; activations: of a step."""

    base: int
    lora: int
    activations: int
    process: int = 0

    @property
    def peak(self) -> int:
        """At once, while it is trained."""
        return self.base + self.lora + self.activations + self.process


def training_room(config: TrainConfig, model: ModelFacts, dtype: DType, *, on_cpu: bool) -> TrainingRoom | None:
    """None where the model's headers do not tell."""
    networks = known_networks(model)
    denoiser = next((one for one in networks if one.work == "denoise"), None)
    if denoiser is None:
        return None
    item = _BYTES[dtype]
    lora = round(lora_numbers(denoiser, config.rank) * (_TRAINED + _MOMENTS[config.optimizer]))
    edge = shapes_for(config, model).edge
    decoder = _decoder(networks)
    alive = denoising(denoiser, decoder, Size(edge, edge), guided=False)
    kept = alive + kept_numbers(denoiser, decoder, edge, mixed=dtype != "float32") * (
        _CHECKPOINTED if config.checkpointing else 1
    )
    return TrainingRoom(denoiser.parameters * item, lora, round(kept * item * config.batch), _PROCESS if on_cpu else 0)


def _decoder(networks: Sequence[Network]) -> Network | None:
    return next((one for one in networks if one.work == "decode"), None)
