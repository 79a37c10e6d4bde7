"""Estimates the memory of a LoRA training from headers and configurations.

A step's stored numbers were counted on torch's meta device over networks of the published shapes
(tests/bench/bench_train_memory.py), with LoRAs on the layers in `halftone.training.lora.bases` and fused attention (diffusers
0.42). Autocast stores more numbers than FP32: norms are computed in FP32, and casts are stored beside their sources.
"""

from typing import Final, Literal, NamedTuple

import msgspec

from halftone.contract.facts import ModelFacts
from halftone.contract.training import Optimizer, TrainConfig
from halftone.contract.vocabulary import DType
from halftone.health.forecasts.activations import Size, denoising, latent_scale
from halftone.health.forecasts.memory_forecast import Fit, fit
from halftone.library.families.networks import Network, known_networks
from halftone.library.training_data.training_pictures import shapes_for

_TRANSFORMER: Final = {False: 27.7, True: 30.7}
"""Of one transformer of a UNet, in its width times its pixels; without and with autocast."""
_RESNET: Final = {False: 13.7, True: 25.5}
"""The same of one residual block."""
_BLOCK: Final = {
    "SD3Transformer2DModel": {False: 1.36, True: 1.70},
    "FluxTransformer2DModel": {False: 0.83, True: 1.40},
    "SanaTransformer2DModel": {False: 2.31, True: 2.85},
}
"""For one block of a transformer, in the live numbers of a call's worst moment (`health.activations`)."""
_OTHER: Final = {False: 1.5, True: 2.0}


def kept_numbers(denoiser: Network, decoder: Network | None, edge: int, *, mixed: bool) -> float:
    """Stored numbers for one picture of edge x edge pixels without checkpointing. mixed: under autocast, of the narrow type."""
    alive = denoising(denoiser, decoder, Size(edge, edge), guided=False)
    widths = denoiser.numbers("block_out_channels")
    if not widths:
        return alive * _layers(denoiser) * _BLOCK.get(denoiser.kind, _OTHER)[mixed]
    latents = (edge / latent_scale(decoder)) ** 2
    attending = sum(width * count / 4**level for width, level, count in _transformers(denoiser))
    passing = sum(width * count / 4**level for width, level, count in _resnets(denoiser))
    return latents * (attending * _TRANSFORMER[mixed] + passing * _RESNET[mixed])


def lora_numbers(denoiser: Network, rank: int) -> int:
    """rank * (in + out) for each layer of `in` and `out` features."""
    widths = denoiser.numbers("block_out_channels")
    if widths:
        told = denoiser.number("cross_attention_dim", default=widths[-1])
        # per transformer: 8 attention layers, two of which read the words, two feed-forward ones of 4 to 8 times the width
        layers = sum(count * (28 * width + 2 * told) for width, _, count in _transformers(denoiser))
        around = sum(4 * width * count for width, _, count in _attentions(denoiser))
        return rank * (layers + around)
    width = denoiser.number("num_attention_heads", default=16) * denoiser.number("attention_head_dim", default=64)
    single = denoiser.number("num_single_layers")
    double = max(1, _layers(denoiser) - single)
    if denoiser.kind.startswith("Sana"):
        return rank * width * double * 16
    return rank * width * (36 * double + 11 * single)


def _layers(network: Network) -> int:
    """Blocks of a transformer."""
    return max(1, network.number("num_layers", default=1) + network.number("num_single_layers"))


Place = tuple[int, int, int]
"""(width, level, how many): each level has a quarter of the pixels of the one above."""


def _transformers(network: Network) -> list[Place]:
    """Transformers in the attention blocks of a UNet, however deep these are."""
    widths = network.numbers("block_out_channels")
    depths = network.numbers("transformer_layers_per_block")
    if len(depths) != len(widths):
        depths = (network.number("transformer_layers_per_block", default=1),) * len(widths)
    return [(width, level, count * depths[level]) for width, level, count in _attentions(network)]


def _attentions(network: Network) -> list[Place]:
    widths = network.numbers("block_out_channels")
    each, last = network.number("layers_per_block", default=1), len(widths) - 1
    down = [(level, each) for level, kind in enumerate(network.words("down_block_types")) if "Attn" in kind]
    up = [(last - place, each + 1) for place, kind in enumerate(network.words("up_block_types")) if "Attn" in kind]
    return [(widths[level], level, count) for level, count in (*down, (last, 1), *up)]


def _resnets(network: Network) -> list[Place]:
    widths = network.numbers("block_out_channels")
    each, last = network.number("layers_per_block", default=1), len(widths) - 1
    return [(width, level, 2 * each + 1 + (2 if level == last else 0)) for level, width in enumerate(widths)]


_BYTES: Final[dict[DType, int]] = {"float16": 2, "bfloat16": 2, "float32": 4}
_CHECKPOINTED: Final = 0.1
"""The share with checkpointing: the states between the blocks; only one block at a time is computed again."""
_MOMENTS: Final[dict[Optimizer, float]] = {"adamw": 8.0, "adamw8bit": 2.0, "prodigy": 16.0}
"""Bytes that the optimizer keeps of each number that is trained."""
_TRAINED: Final = 4 + 4 + 4
"""Bytes of each trained number: itself and its gradient in float32, and the guard's copy."""
_PROCESS: Final = 600_000_000
"""Python, torch and its libraries, on a CPU, where they share the memory."""
_HEAP: Final = 1.5
"""On a CPU, of a step's numbers: packed copies for products of matrices, and holes in the heap. Measured at 256 pixels in FP32:
1.6 of SD 1.5 at its published size, 1.6 and 1.5 of smaller networks like SDXL's and SD 3's.
"""
_SMALLER: Final = (256, 384, 512, 640, 768)
"""Edges that are offered where a larger one does not fit."""
_WORTH: Final = 0.03
"""Share of the needed memory; smaller savings are not offered."""


class TrainingRoom(NamedTuple):
    """Bytes. base: the frozen denoiser; lora: what is trained, with gradients, moments and copies; activations: of a step;
    loading: the weights of all networks, which a CPU holds while captions and pictures are read; process: the program.
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
    """A setting that needs less. value: of this field of TrainConfig; peak: bytes with it; fit: of these."""

    change: Change
    value: bool | int | str
    peak: int
    fit: Fit


class TrainingForecast(NamedTuple):
    """free: bytes on the device, None: not known; saving: the best setting, where it does not fit with room."""

    room: TrainingRoom
    free: int | None
    fit: Fit | None
    saving: Saving | None = None


def training_forecast(
    config: TrainConfig, model: ModelFacts, dtype: DType, *, on_cpu: bool, free: int | None, narrow: DType | None = None
) -> TrainingForecast | None:
    """dtype: of the training; narrow: a type of 16 bits that the device computes well in. None where the model is unknown."""
    room = training_room(config, model, dtype, on_cpu=on_cpu)
    if room is None or free is None:
        return None if room is None else TrainingForecast(room, None, None)
    fits = fit(room.peak, free)
    saving = None if fits == "fits" else _saving(config, model, dtype, free, room.peak, on_cpu=on_cpu, narrow=narrow)
    return TrainingForecast(room, free, fits, saving)


def _saving(
    config: TrainConfig, model: ModelFacts, dtype: DType, free: int, now: int, *, on_cpu: bool, narrow: DType | None
) -> Saving | None:
    """The one setting that saves most."""
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
    share = _CHECKPOINTED if config.checkpointing else 1
    kept = alive + share * kept_numbers(denoiser, decoder, edge, mixed=dtype != "float32")
    base, step = denoiser.parameters * item, kept * item * config.batch
    if not on_cpu:
        return TrainingRoom(base, lora, round(step))
    return TrainingRoom(base, lora, round(step * _HEAP), _PROCESS, sum(one.parameters for one in networks) * item)
