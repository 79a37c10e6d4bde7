"""How many numbers a LoRA has, and how many a step of its training keeps for the way back, from configurations alone.

Counted on torch's meta device over networks of the published shapes (tests/bench/bench_train_memory.py), with LoRAs on the layers
that `halftone.training.lora.bases` names and fused attention (diffusers 0.42). Under autocast more is kept than in FP32, counted
in numbers: norms are computed in FP32, and what was cast is kept beside what it was cast from.
"""

from typing import Final

from halftone.health.forecasts.activations import Size, denoising, latent_scale
from halftone.library.families.networks import Network

_TRANSFORMER: Final = {False: 27.7, True: 30.7}
"""Of one transformer of a UNet, in its width times its pixels; without and with autocast."""
_RESNET: Final = {False: 13.7, True: 25.5}
"""The same of one residual block."""
_BLOCK: Final = {
    "SD3Transformer2DModel": {False: 1.36, True: 1.70},
    "FluxTransformer2DModel": {False: 0.83, True: 1.40},
    "SanaTransformer2DModel": {False: 2.31, True: 2.85},
}
"""Of one block of a transformer, in what a call has alive at its worst moment (`health.activations`)."""
_OTHER: Final = {False: 1.5, True: 2.0}


def kept_numbers(denoiser: Network, decoder: Network | None, edge: int, *, mixed: bool) -> float:
    """Of one picture of edge x edge pixels, without checkpointing. mixed: under autocast, in numbers of the narrow type."""
    alive = denoising(denoiser, decoder, Size(edge, edge), guided=False)
    widths = denoiser.numbers("block_out_channels")
    if not widths:
        return alive * _layers(denoiser) * _BLOCK.get(denoiser.kind, _OTHER)[mixed]
    latents = (edge / latent_scale(decoder)) ** 2
    attending = sum(width * count / 4**level for width, level, count in _transformers(denoiser))
    passing = sum(width * count / 4**level for width, level, count in _resnets(denoiser))
    return latents * (attending * _TRANSFORMER[mixed] + passing * _RESNET[mixed])


def lora_numbers(denoiser: Network, rank: int) -> int:
    """Each layer of `in` and `out` features has rank * (in + out)."""
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
    depths = _depths(network)
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


def _depths(network: Network) -> tuple[int, ...]:
    """Transformers in one attention block of each level."""
    widths = network.numbers("block_out_channels")
    told = network.numbers("transformer_layers_per_block")
    return told if len(told) == len(widths) else (network.number("transformer_layers_per_block", default=1),) * len(widths)
