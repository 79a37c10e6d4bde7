"""How much memory a LoRA training needs: an estimate from headers and configurations, told as one.

What a step keeps for the way back was tallied on torch's meta device with LoRAs on the attention projections and fused attention
(diffusers 0.42): as multiples of what one call of the denoiser has alive at its worst moment (`health.activations`).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from halftone.contract.facts import ModelFacts
from halftone.contract.training import Optimizer, TrainConfig
from halftone.contract.words import DType
from halftone.health.activations import Size, denoising
from halftone.library.networks import Network, known_networks
from halftone.library.training_pictures import shapes_for

_BYTES: Final[dict[DType, int]] = {"float16": 2, "bfloat16": 2, "float32": 4}
_KEPT: Final = {
    "UNet2DConditionModel": 1.2,
    "SD3Transformer2DModel": 1.14,
    "FluxTransformer2DModel": 1.33,
    "SanaTransformer2DModel": 3.1,
}
"""What a block with attention keeps for the way back, in what a call has alive. SD 1.5: 19.0 for 16 blocks, SDXL: 59.2 for 70."""
_KEPT_OTHERS: Final = 1.5
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
    alive = denoising(denoiser, _decoder(networks), Size(edge, edge), guided=False)
    kept = alive * (
        1 + _depth(denoiser) * _KEPT.get(denoiser.kind, _KEPT_OTHERS) * (_CHECKPOINTED if config.checkpointing else 1)
    )
    return TrainingRoom(denoiser.parameters * item, lora, round(kept * item * config.batch), _PROCESS if on_cpu else 0)


def lora_numbers(denoiser: Network, rank: int) -> int:
    """About how many a LoRA on the attention projections has: four layers for each attention, two attentions for each block."""
    widths = denoiser.numbers("block_out_channels")
    if not widths:
        width = denoiser.number("num_attention_heads", default=16) * denoiser.number("attention_head_dim", default=64)
        return _depth(denoiser) * 8 * 2 * rank * width
    told = denoiser.number("cross_attention_dim", default=widths[-1])
    mean = sum(widths) // len(widths)
    return _depth(denoiser) * rank * (12 * mean + 2 * (mean + told) + 2 * mean)


def _decoder(networks: Sequence[Network]) -> Network | None:
    return next((one for one in networks if one.work == "decode"), None)


def _depth(network: Network) -> int:
    """Blocks with attention."""
    widths = network.numbers("block_out_channels")
    if not widths:
        return max(1, network.number("num_layers", default=1) + network.number("num_single_layers"))
    layers = network.number("layers_per_block", default=1)
    depths = network.numbers("transformer_layers_per_block") or (
        network.number("transformer_layers_per_block", default=1),
    ) * len(widths)
    down = zip(network.words("down_block_types"), depths, strict=False)
    up = zip(network.words("up_block_types"), reversed(depths), strict=False)
    around = sum(layers * depth for kind, depth in down if "Attn" in kind)
    return max(1, around + depths[-1] + sum((layers + 1) * depth for kind, depth in up if "Attn" in kind))
