"""VAEs of videos, which Qwen-Image has too: their makers' names -> those of diffusers, and their configurations."""

import math
import re
from collections.abc import Iterable
from typing import Any, Final

from halftone.library.families.original_names import Shapes, vae_names
from halftone.library.families.single_configs import count_blocks

Config = dict[str, Any]

_UPWARD: Final = re.compile(r"decoder\.upsamples\.(\d+)\.(.+)")
_WAN_RESIDUAL: Final = (
    (r"\.residual\.0\.", ".norm1."),
    (r"\.residual\.2\.", ".conv1."),
    (r"\.residual\.3\.", ".norm2."),
    (r"\.residual\.6\.", ".conv2."),
    (r"\.shortcut\.", ".conv_shortcut."),
)
_WAN: Final = (
    (r"^conv1\.", "quant_conv."),
    (r"^conv2\.", "post_quant_conv."),
    (r"^(encoder|decoder)\.conv1\.", r"\1.conv_in."),
    (r"^(encoder|decoder)\.head\.0\.", r"\1.norm_out."),
    (r"^(encoder|decoder)\.head\.2\.", r"\1.conv_out."),
    (r"^(encoder|decoder)\.middle\.0\.", r"\1.mid_block.resnets.0."),
    (r"^(encoder|decoder)\.middle\.1\.", r"\1.mid_block.attentions.0."),
    (r"^(encoder|decoder)\.middle\.2\.", r"\1.mid_block.resnets.1."),
    (r"^encoder\.downsamples\.", "encoder.down_blocks."),
    *_WAN_RESIDUAL,
)


def wan_names(names: Iterable[str]) -> dict[str, str]:
    """Of AutoencoderKLWan (2.1) and AutoencoderKLQwenImage: in the original the blocks of the decoder lie in one row, and a layer
    that enlarges ends a level.
    """
    given = tuple(names)
    ends = sorted({int(found[1]) for name in given if (found := _UPWARD.match(name)) and found[2].startswith("resample.")})
    return {name: _wan_name(name, ends) for name in given}


def _wan_name(name: str, ends: list[int]) -> str:
    if (found := _UPWARD.match(name)) is not None:
        index = int(found[1])
        level = sum(end < index for end in ends)
        first = ends[level - 1] + 1 if level else 0
        place = "upsamplers.0" if index in ends else f"resnets.{index - first}"
        name = f"decoder.up_blocks.{level}.{place}.{found[2]}"
    for pattern, ours in _WAN:
        name = re.sub(pattern, ours, name)
    return name


def wan(shapes: Shapes) -> Config:
    """The configuration of AutoencoderKLWan and AutoencoderKLQwenImage."""
    count = count_blocks(shapes, r"encoder\.downsamples\.(\d+)\.")
    ends = [index for index in range(count) if f"encoder.downsamples.{index}.resample.1.weight" in shapes]
    firsts = [0, *(end + 1 for end in ends)]
    base = shapes["encoder.conv1.weight"][0]
    widths = [shapes[f"encoder.downsamples.{first}.residual.2.weight"][0] for first in firsts]
    return {
        "base_dim": base,
        "z_dim": shapes["conv2.weight"][0],
        "dim_mult": [width // base for width in widths],
        "num_res_blocks": ends[0],
        "temperal_downsample": [f"encoder.downsamples.{end}.time_conv.weight" in shapes for end in ends],
    }


_LEVEL: Final = re.compile(r"(encoder|decoder)\.(?:down|up)samples\.(\d+)\.((?:down|up))samples\.(\d+)\.(.+)")


def wan_22_names(names: Iterable[str]) -> dict[str, str]:
    """Of AutoencoderKLWan in Wan 2.2, whose levels are lists of their own."""
    return {name: _wan_22_name(name) for name in names}


def _wan_22_name(name: str) -> str:
    if (found := _LEVEL.fullmatch(name)) is not None:
        side, level, way, at, rest = found.groups()
        place = f"{way}sampler" if rest.startswith(("resample.", "time_conv.")) else f"resnets.{at}"
        name = f"{side}.{way}_blocks.{level}.{place}.{rest}"
    for pattern, ours in _WAN:
        name = re.sub(pattern, ours, name)
    return name


def wan_22(shapes: Shapes) -> Config:
    """Its configuration. Of a level of the encoder the last layer makes smaller, where there is one."""
    levels = count_blocks(shapes, r"encoder\.downsamples\.(\d+)\.")
    starts = [f"encoder.downsamples.{level}.downsamples" for level in range(levels)]
    base, patched = shapes["encoder.conv1.weight"][:2]
    blocks = count_blocks(shapes, r"encoder\.downsamples\.0\.downsamples\.(\d+)\.residual\.")
    temporal = [f"{start}.{blocks}.time_conv.weight" in shapes for start in starts[:-1]]
    patch = math.isqrt(patched // 3)
    return {
        "base_dim": base,
        "decoder_base_dim": shapes["decoder.head.2.weight"][1],
        "z_dim": shapes["conv2.weight"][0],
        "dim_mult": [shapes[f"{start}.0.residual.2.weight"][0] // base for start in starts],
        "num_res_blocks": blocks,
        "temperal_downsample": temporal,
        "in_channels": patched,
        "out_channels": shapes["decoder.head.2.weight"][0],
        "patch_size": patch,
        "scale_factor_spatial": 2 ** (levels - 1) * patch,
        "scale_factor_temporal": 2 ** sum(temporal),
    }


def any_wan_names(names: Iterable[str]) -> dict[str, str]:
    """Of either VAE of Wan."""
    given = tuple(names)
    return wan_22_names(given) if any(map(_LEVEL.fullmatch, given)) else wan_names(given)


def any_wan(shapes: Shapes) -> Config:
    """The configuration of either VAE of Wan."""
    return wan_22(shapes) if any(map(_LEVEL.fullmatch, shapes)) else wan(shapes)


def hunyuan(shapes: Shapes) -> Config:
    """The configuration of AutoencoderKLHunyuanVideo."""
    own = {ours: shapes[name] for name, ours in vae_names(shapes).items()}
    levels = count_blocks(own, r"encoder\.down_blocks\.(\d+)\.")
    return {
        "block_out_channels": [own[f"encoder.down_blocks.{level}.resnets.0.conv1.conv.weight"][0] for level in range(levels)],
        "down_block_types": ["HunyuanVideoDownBlock3D"] * levels,
        "up_block_types": ["HunyuanVideoUpBlock3D"] * levels,
        "layers_per_block": count_blocks(own, r"encoder\.down_blocks\.0\.resnets\.(\d+)\."),
        "latent_channels": own["decoder.conv_in.conv.weight"][1],
    }
