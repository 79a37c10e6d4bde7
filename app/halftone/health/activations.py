"""How many numbers a network holds beside its weights at the worst moment of a call, counted from how it is built.

What is alive at once was read from the code of the blocks in diffusers 0.36 and later, and compared with a tally of all tensors
on torch's meta device (tests/bench/bench_memory.py). Fused attention makes no table of scores, so that all of it grows with the
pixels. Where a kind of network is not known, what its kin need is taken.
"""

from math import ceil
from typing import Final, NamedTuple

from halftone.library.networks import Network

_RESNET: Final = 3
"""Its input, its norm and the activation of that, which are alive together."""
_TRANSFORMER: Final = 21
"""Widths inside a block of a UNet: the states that wait outside (5), gate and value (8), the gate's activation and the product
(8).
"""
_WIDTHS: Final[dict[str, float]] = {
    "SD3Transformer2DModel": 16.7,
    "FluxTransformer2DModel": 17.3,
    "PixArtTransformer2DModel": 12.2,
    "SanaTransformer2DModel": 14.6,
}
"""Widths of a token at the widest place of a transformer, by a tally."""
_OTHER_WIDTHS: Final = 16.0
_PACKED: Final = ("Flux", "QwenImage", "Chroma", "Bria")
"""Transformers whose pipelines lay two by two latent pixels into one token."""
_ALONE: Final = ("Flux", "QwenImage", "Chroma", "Wan", "CogView4", "Lumina2", "ZImage")
"""Transformers that are called for the negative prompt by itself, or not at all."""
_TEXT: Final = {"SD3Transformer2DModel": 333, "FluxTransformer2DModel": 512}
"""Tokens of the prompt that run beside the picture's."""
_PER_CHANNEL: Final = {"AutoencoderDC": 6.5, "AutoencoderKLWan": 18.0, "AutoencoderKLQwenImage": 18.0}
"""Of decoders of other kinds than AutoencoderKL: per pixel and channel of the widest layer at full size, by a tally."""


class Size(NamedTuple):
    """Of one picture or video: in pixels, and the frames of it."""

    width: int
    height: int
    frames: int = 1

    @property
    def pixels(self) -> int:
        return self.width * self.height


def denoising(network: Network, decoder: Network | None, size: Size, *, guided: bool, text: int | None = None) -> int:
    """Numbers alive in a call of the denoiser. guided: the negative prompt is computed too; text: tokens of the prompt."""
    scale, frames = latent_scale(decoder), latent_frames(decoder, size.frames)
    latents = ceil(size.width / scale) * ceil(size.height / scale) * frames
    alone = network.kind.startswith(_ALONE) or bool(network.number("time_cond_proj_dim"))  # this one is told the guidance
    batch = 2 if guided and not alone else 1
    if network.kind.startswith("UNet") and network.numbers("block_out_channels"):
        return ceil(latents * batch * _unet(network))
    tokens = latents // _patch(network) ** 2 + (_TEXT.get(network.kind, 0) if text is None else text)
    return ceil(tokens * batch * _width(network) * _WIDTHS.get(network.kind, _OTHER_WIDTHS))


def controlling(network: Network, decoder: Network | None, size: Size, *, guided: bool) -> int:
    """Numbers that a ControlNet hands on, which wait until the denoiser takes them."""
    latents = ceil(size.pixels / latent_scale(decoder) ** 2) * (2 if guided else 1)
    channels = network.numbers("block_out_channels")
    if not channels:
        return latents // _patch(network) ** 2 * _width(network) * max(1, network.blocks)
    return ceil(latents * sum(width / 4**level for width, level in _skips(network, channels)))


def decoding(network: Network, size: Size) -> int:
    """Numbers alive in a call of the decoder, its result with them."""
    frames = size.frames if latent_frames(network, 9) == 9 else 1  # others give a video frame by frame
    whole = 6 * size.pixels * size.frames if size.frames > 1 else 0
    return ceil(size.pixels * frames * _decoder(network)) + whole


def latent_scale(decoder: Network | None) -> int:
    """Pixels per latent along one edge."""
    if decoder is None:
        return 8
    levels = decoder.numbers("block_out_channels", "decoder_block_out_channels", "up_block_out_channels", "dim_mult")
    told = decoder.number("spatial_compression_ratio", "scale_factor_spatial")
    return told or (2 ** (len(levels) - 1) if 0 < len(levels) <= 8 else 8)


def latent_frames(decoder: Network | None, frames: int) -> int:
    """Frames of the latents of a video."""
    ratio = 1 if decoder is None else decoder.number("temporal_compression_ratio", "scale_factor_temporal", default=1)
    return (frames - 1) // max(1, ratio) + 1


def _unet(network: Network) -> float:
    """Numbers per latent pixel, at the widest place on the way up: what the way down left, the block's input, and a unit."""
    channels = network.numbers("block_out_channels")
    skips, layers = _skips(network, channels), network.number("layers_per_block", default=1) + 1
    attends = network.words("up_block_types")
    last = len(channels) - 1
    worst = 0.0
    for index in range(len(channels)):
        level = last - index
        given, width = channels[min(level + 1, last)], channels[level]
        own, skips = skips[-layers:], skips[:-layers]
        held = sum(skip / 4**at for skip, at in (*skips, *own)) + given / 4**level
        widest = max((given if not place else width) + skip for place, (skip, _) in enumerate(reversed(own)))
        units = [_RESNET * widest / 4**level]
        if index < len(attends) and "Attn" in attends[index]:
            units.append(_TRANSFORMER * width / 4**level)
        if level:
            units.append(width * 9 / 4**level)  # made larger: as it was, the copy of four times the size, and its convolution
        worst = max(worst, held + max(units))
    return worst


def _skips(network: Network, channels: tuple[int, ...]) -> list[tuple[int, int]]:
    """(channels, level) of all that the way down hands to the way up, in its order."""
    found = [(channels[0], 0)]
    for level, width in enumerate(channels):
        found += [(width, level)] * network.number("layers_per_block", default=1)
        if level < len(channels) - 1:
            found.append((width, level + 1))
    return found


def _decoder(network: Network) -> float:
    """Numbers per pixel."""
    if (each := _PER_CHANNEL.get(network.kind)) is not None:
        return each * network.number("decoder_block_out_channels", "base_dim", default=96)
    channels = network.numbers("block_out_channels", "decoder_block_out_channels", "up_block_out_channels")
    if not channels:
        return 2 * 128.0
    above = (*channels[1:], channels[-1])
    return max(_RESNET * width / 4**level for level, width in enumerate(above))


def _patch(network: Network) -> int:
    if network.kind.startswith(_PACKED):
        return 2
    sizes = network.numbers("patch_size", "all_patch_size")
    return max(1, sizes[-1] if sizes else network.number("patch_size", default=1))


def _width(network: Network) -> int:
    told = network.number("inner_dim", "hidden_size", "dim")
    return told or network.number("num_attention_heads", default=16) * network.number("attention_head_dim", default=64)
