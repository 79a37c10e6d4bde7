"""Models in which a fault of a card matters: tiny ones, sound on a sound card, each with numbers that one fault spoils.

What is planted changes nothing in exact arithmetic, or is part of a model that no other is compared with: the reference is the
same model in FP32 on the sound card.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from diffusers import UNet2DConditionModel
from tests.helpers import tiny
from torch import nn

from halftone.engine.checks.fragile import exponents_up, scale_parameters
from halftone.engine.rescaling.rescale import rescale_groups

Plant = Callable[[Any], None]
_CHANNELS: Final = 64
_ONE: Final = 0
"""The channel of a planted layer norm that is always 1."""


@dataclass(frozen=True)
class Hard:
    """plant: what is done to the pipeline; family: of the tiny models; settings, steps: that the pictures
    are made with.
    """

    plant: Plant
    family: str = "sd15"
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    size: int = 64
    steps: int = 4


def save_hard(name: str, folder: Path) -> Path:
    """The model in which the fault of this name matters."""
    torch.manual_seed(0)
    pipe = tiny.FAMILIES[HARD[name].family]()
    if HARD[name].family == "sd15":
        pipe.register_modules(unet=_unet())
    for part in pipe.components.values():
        if isinstance(part, nn.Module):
            tiny.liven(part)
    with torch.no_grad():
        HARD[name].plant(pipe)
    pipe.save_pretrained(folder)
    return folder


def _unet() -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(_CHANNELS, _CHANNELS),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=tiny.WIDTH,
        attention_head_dim=4,
        norm_num_groups=8,
    )


def _blocks(pipe: Any) -> list[Any]:
    """Transformer blocks of the denoiser at its full resolution."""
    unet = pipe.unet
    return [one.transformer_blocks[0] for one in (unet.down_blocks[0].attentions[0], unet.up_blocks[1].attentions[0])]


def _spatial(pipe: Any) -> list[Any]:
    return [pipe.unet.down_blocks[0].attentions[0], *pipe.unet.up_blocks[1].attentions]


def _constant(norm: nn.LayerNorm, readers: list[nn.Linear]) -> None:
    """Make one channel of a norm 1, and nobody read it."""
    norm.weight[_ONE], norm.bias[_ONE] = 0.0, 1.0
    for reader in readers:
        reader.weight[:, _ONE] = 0.0


def _self_attention(block: Any) -> Any:
    _constant(block.norm1, [block.attn1.to_q, block.attn1.to_k, block.attn1.to_v])
    return block.attn1


def _heads(attention: Any) -> list[int]:
    """The first row of each head."""
    return list(range(0, attention.to_q.weight.shape[0], attention.to_q.weight.shape[0] // attention.heads))


def _large_scores(pipe: Any) -> None:
    """Every product of query and key has 150 000 added to it, which a softmax does not see."""
    for block in _blocks(pipe):
        attention = _self_attention(block)
        for row in _heads(attention):
            for layer in (attention.to_q, attention.to_k):
                layer.weight[row] = 0.0
                layer.weight[row, _ONE] = 150_000.0**0.5


def _large_values(pipe: Any) -> None:
    """A number of each value is 500, so that its sum over the keys passes 65 504; what comes out counts as 0.5."""
    for block in _blocks(pipe):
        attention = _self_attention(block)
        for row in _heads(attention):
            attention.to_v.weight[row] = 0.0
            attention.to_v.weight[row, _ONE] = 500.0
            attention.to_out[0].weight[:, row] *= 1e-2


def _even(pipe: Any) -> None:
    """Every key counts the same, so that the weights of all add up to more than FP16 can count to one by one."""
    _large_values(pipe)
    for block in _blocks(pipe):
        block.attn1.to_q.weight.zero_()
        block.attn1.to_out[0].weight[:, _heads(block.attn1)] *= 6.0


def _large_sums(pipe: Any) -> None:
    """Terms of ±60 000 that end in zero, in a product that has room for the end alone."""
    for block in _blocks(pipe):
        first = block.ff.net[0].proj
        for channel in (0, 8, 16, 24):
            block.norm3.weight[channel], block.norm3.bias[channel] = 0.0, 1.0
            first.weight[:, channel] = 0.0
        first.weight[0] = 0.0
        first.weight[0, (0, 8)], first.weight[0, (16, 24)] = 60_000.0, -60_000.0


def _large_groups(pipe: Any) -> None:
    """The denoiser's numbers are so large that their squares pass 65 504 in each group, long before they do."""
    pipe.unet.conv_in.weight *= 30.0
    pipe.unet.conv_in.bias *= 30.0


def _louder(pipe: Any) -> None:
    """Feed-forwards and attention count for more."""
    for block in _blocks(pipe):
        block.ff.net[2].weight *= 8.0
        block.attn1.to_out[0].weight *= 8.0


def _tiny_numbers(pipe: Any) -> None:
    """Values of attention lie below the smallest normal number of FP16, and are made large behind it."""
    for attention in (one for block in _blocks(pipe) for one in (block.attn1, block.attn2)):
        attention.to_v.weight *= 2.0**-15
        attention.to_out[0].weight *= 2.0**18


def _offset(size: float) -> Plant:
    """Norms add an offset that the next layer takes off again: of the numbers only what stands behind it counts."""

    def plant(pipe: Any) -> None:
        for part in _spatial(pipe):
            _shift(part.norm, part.proj_in, size)
            _shift(part.transformer_blocks[0].norm3, part.transformer_blocks[0].ff.net[0].proj, size)

    return plant


def _shift(norm: Any, reader: Any, size: float) -> None:
    norm.bias += size
    reader.bias -= reader.weight.flatten(1).sum(1) * size if reader.weight.dim() == 2 else size * reader.weight.sum((1, 2, 3))


def _beyond(pipe: Any) -> None:
    """Numbers of the picture decoder pass 65 504."""
    groups = rescale_groups("vae", pipe.vae)
    scale_parameters(pipe.vae, exponents_up(next(one for one in groups if "decoder" in one.name), 16))


def _nothing(_pipe: Any) -> None:
    """The fault matters as it is."""


_SUMS: Final = Hard(_large_sums)
HARD: Final[dict[str, Hard]] = {
    "FP16 sums in matrix products": _SUMS,
    "FP16 partial sums, unless the setting is off": _SUMS,
    "FP16 sums in fused attention": Hard(_large_values),
    "LayerNorm gives NaN in FP16": Hard(_nothing),
    "convolution gives NaN in FP16": Hard(_nothing),
    "GroupNorm with FP16 statistics": Hard(_large_groups),
    "softmax with FP16 sums": Hard(_even, settings={"attention_backend": "math", "math_attention_reduction": True}, size=128),
    "BF16 emulated and slow": Hard(_nothing),
    "scores in FP16 in flash attention": Hard(_large_scores),
    "flash attention gives NaN in FP16": Hard(_nothing),
    "efficient attention gives NaN with a mask": Hard(_nothing, family="sana"),
    "FP16 subnormal numbers flushed": Hard(_tiny_numbers),
    "FP16 clips at 65 504": Hard(_beyond),
    "BF16 cut off instead of rounded": Hard(_nothing, settings={"upcast_sampling": False}, steps=40),
    "FP16 products above one size": Hard(_louder),
    "TF32 in matrix products, unless the setting is off": Hard(_offset(8192.0)),
    "TF32 in convolutions, unless the setting is off": Hard(_offset(2048.0)),
    "TF32 in matrix products whatever is set": Hard(_offset(8192.0)),
    "noise that follows no seed": Hard(_nothing),
    "a kernel that corrupts memory once": Hard(_nothing),
    "BF16 upsampling": Hard(_nothing),
    "copies that nobody waits for": Hard(_nothing, settings={"offload": "group"}),
}
"""Fault -> where it matters."""
