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
    "AuraFlowTransformer2DModel": 13.1,
    "ChromaTransformer2DModel": 17.0,
    "CogVideoXTransformer3DModel": 12.1,
    "CogView4Transformer2DModel": 12.7,
    "Flux2Transformer2DModel": 22.0,
    "FluxTransformer2DModel": 17.4,
    "HunyuanDiT2DModel": 17.0,
    "LTXVideoTransformer3DModel": 16.3,
    "PixArtTransformer2DModel": 12.2,
    "QwenImageTransformer2DModel": 14.5,
    "SD3Transformer2DModel": 12.5,
    "SanaTransformer2DModel": 14.4,
    "WanTransformer3DModel": 11.3,
    "ZImageTransformer2DModel": 15.7,
}
"""Widths of a token at the widest place of a transformer in 16 bits, by a tally. What is turned by its place is float32 there."""
_OTHER_WIDTHS: Final = 16.0
_CASCADE: Final = "StableCascadeUNet"
_PACKED: Final = ("Flux", "QwenImage", "Chroma", "Bria")
"""Transformers whose pipelines lay two by two latent pixels into one token."""
_ALONE: Final = ("Flux", "QwenImage", "Chroma", "Wan", "CogView4", "Lumina2")
"""Transformers that are called for the negative prompt by itself, or not at all."""
_TEXT: Final = {
    "AuraFlowTransformer2DModel": 256,
    "ChromaTransformer2DModel": 512,
    "CogVideoXTransformer3DModel": 226,
    "CogView4Transformer2DModel": 224,
    "Flux2Transformer2DModel": 512,
    "FluxTransformer2DModel": 512,
    "QwenImageTransformer2DModel": 256,
    "SD3Transformer2DModel": 256,
    "ZImageTransformer2DModel": 128,
}
"""Tokens of the prompt that run beside the picture's."""
_CLIP: Final = {"SD3Transformer2DModel": 77}
"""Tokens of the prompt besides, of a second kind of text encoder."""
_WAITING: Final = 15
"""Copies of the latents in float32 that a pipeline, its sampler and the watch hold between two calls: of a guided pair."""
_WAITING_ALONE: Final = 9
_CLIPS: Final[dict[str, tuple[float, ...]]] = {
    "AutoencoderKLWan": (18.0, 50.8, 52.9),
    "AutoencoderKLQwenImage": (18.0, 50.8, 52.9),
    "AutoencoderKLCogVideoX": (40.4, 121.4, 134.3, 178.8),
}
"""Decoders of videos that go through them some frames at a time, by a tally: numbers for a pixel and each channel of the widest
layer at full size, for one, two and more frames of latents; the last is for all that are longer.
"""


_DC: Final = 6.5
"""Of AutoencoderDC, for a pixel and channel of the widest layer at full size, by a tally."""
_LATER: Final = {"AutoencoderKLTemporalDecoder": 6.3}
"""Widths inside a unit that does not change the width, where they are more than its input, its two halves and their sum."""
_FULL_SIZE: Final = ("decoder_block_out_channels", "block_out_channels", "up_block_out_channels", "base_dim")
"""Entries that tell the channels of a decoder, from the pixels inwards."""


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
    told = bool(network.number("time_cond_proj_dim")) or network.config.get("guidance_embeds") is True
    alone = told or network.kind.startswith(_ALONE)  # the guidance is an input of the network
    batch = 2 if guided and not alone else 1
    if network.kind.startswith("UNet") and network.numbers("block_out_channels"):
        return ceil(latents * batch * _unet(network))
    words = _TEXT.get(network.kind, 0) if text is None or network.kind not in _TEXT else text
    if network.kind == _CASCADE:
        return ceil(latents * batch * 17.4 * network.number("block_out_channels"))
    tokens = latents // _patch(network) ** 2 + words + _CLIP.get(network.kind, 0)
    return ceil(tokens * batch * _width(network) * _WIDTHS.get(network.kind, _OTHER_WIDTHS))


def controlling(network: Network, decoder: Network | None, size: Size, *, guided: bool) -> int:
    """Numbers that a ControlNet hands on, which wait until the denoiser takes them."""
    latents = ceil(size.pixels / latent_scale(decoder) ** 2) * (2 if guided else 1)
    channels = network.numbers("block_out_channels")
    if not channels:
        return latents // _patch(network) ** 2 * _width(network) * max(1, network.blocks)
    return ceil(latents * sum(width / 4**level for width, level in _skips(network, channels)))


def waiting(decoder: Network | None, size: Size, *, guided: bool) -> int:
    """Numbers that lie beside whatever is called: the latents in all their copies, in float32."""
    scale = latent_scale(decoder)
    channels = 4 if decoder is None else decoder.number("latent_channels", "z_dim", default=4)
    latents = channels * ceil(size.width / scale) * ceil(size.height / scale) * latent_frames(decoder, size.frames)
    return latents * (_WAITING if guided else _WAITING_ALONE)


def decoding(network: Network, size: Size) -> int:
    """Numbers alive in a call of the decoder, its result with them."""
    if (clips := _CLIPS.get(network.kind)) is not None:
        each = clips[min(len(clips), latent_frames(network, size.frames)) - 1] * network.number(*_FULL_SIZE, default=96)
        return ceil(size.pixels * (each + 3 * (size.frames - 1)))
    frames = size.frames
    return ceil(size.pixels * frames * _decoder(network)) + (6 * size.pixels * frames if frames > 1 else 0)


def latent_scale(decoder: Network | None) -> int:
    """Pixels per latent along one edge."""
    if decoder is None:
        return 8
    levels = decoder.numbers("block_out_channels", "decoder_block_out_channels", "up_block_out_channels", "dim_mult")
    if (halved := decoder.config.get("spatio_temporal_scaling")) is not None:
        return decoder.number("patch_size", default=1) * 2 ** sum(map(bool, halved))
    told = decoder.number("spatial_compression_ratio", "scale_factor_spatial")
    return told or (2 ** (len(levels) - 1) if 0 < len(levels) <= 8 else 8)


def latent_frames(decoder: Network | None, frames: int) -> int:
    """Frames of the latents of a video."""
    if decoder is not None and (halved := decoder.config.get("spatio_temporal_scaling")) is not None:
        ratio = decoder.number("patch_size_t", default=1) * 2 ** sum(map(bool, halved))
    else:
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
    """Numbers per pixel, at the widest of its levels: a unit that changes the width, or one that does not behind it."""
    if network.kind == "AutoencoderDC":
        return _DC * network.number(*_FULL_SIZE, default=128)
    channels = network.numbers(*_FULL_SIZE)
    if not channels:
        return 2 * 128.0
    # a norm by the latents' places is the norm times one map of them plus another
    first, later = (5, 6) if network.config.get("norm_type") == "spatial" else (_RESNET, _LATER.get(network.kind, 4))
    above = (*channels[1:], channels[-1])
    levels = (
        max(first * given, given + later * own) / 4**level for level, (own, given) in enumerate(zip(channels, above, strict=True))
    )
    patch = network.number("patch_size", default=1) if "LTX" in network.kind else 1
    return max(levels) / patch**2


def _patch(network: Network) -> int:
    if network.kind.startswith(_PACKED):
        return 2
    sizes = network.numbers("patch_size", "all_patch_size")
    return max(1, sizes[-1] if sizes else network.number("patch_size", default=1))


def _width(network: Network) -> int:
    told = network.number("inner_dim", "hidden_size", "dim")
    return told or network.number("num_attention_heads", default=16) * network.number("attention_head_dim", default=64)
