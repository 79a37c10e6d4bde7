"""How many numbers a network holds beside its weights at the worst moment of a call, counted from how it is built.

What is alive at once was read from the code of the blocks in diffusers 0.36 and later, and compared with a tally of all tensors
on torch's meta device (tests/bench/bench_memory.py). Fused attention makes no table of scores, so that all of it grows with the
pixels. Where a kind of network is not known, what its kin need is taken.
"""

from collections.abc import Iterable
from math import ceil
from typing import Any, Final, NamedTuple, cast

from msgspec import structs

from halftone.library.families.networks import Network

_RESNET: Final = 3
"""Its input, its norm and the activation of that, which are alive together."""
_TRANSFORMER: Final = 21
"""Widths inside a block of a UNet: the states that wait outside (5), gate and value (8), the gate's activation and the product
(8).
"""
_SIMPLE: Final = 7
"""The same where attention stands alone, as in Kandinsky 2: the states before and after, queries, keys and values."""
_ENLARGING: Final = 9
"""Widths while a UNet's states are made larger: as they were, the copy of four times the size, and its convolution."""
_ENLARGING_UNIT: Final = 17
"""Where a unit does so: as they were, and of four times the size its input, its norm, and that scaled and shifted."""
_OVER_TIME: Final = 2
"""More of them where an attention over the frames follows: what the one over the picture gave, and the state it began with."""
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
_STREAMS: Final[dict[str, tuple[float, ...]]] = {"Flux2Transformer2DModel": (16.0, 22.0)}
"""The same in blocks of two streams and of one, where these are far apart."""
_BEGUN: Final = {"LTXVideoTransformer3DModel": 13.0}
"""More of them where a picture begins the video. Each token is then told a time of its own: six widths for all blocks, six for
the one that runs, and one for the end.
"""
_CASCADE: Final = "StableCascadeUNet"
_PAELLA: Final = "PaellaVQModel"
_PRIOR_CELL: Final = 42.67
"""Pixels along an edge of a cell of the latents that Stable Cascade's first stage makes."""
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
    "Lumina2Transformer2DModel": 256,
    "QwenImageTransformer2DModel": 256,
    "SD3Transformer2DModel": 256,
    "ZImageTransformer2DModel": 128,
}
"""Tokens of the prompt that run beside the picture's."""
_SEEN: Final = 28
"""Pixels along an edge that make one more word of the prompt, where the text encoder sees the picture that is given."""
_READ: Final = {
    "HunyuanDiT2DModel": 256,
    "LTXVideoTransformer3DModel": 128,
    "PixArtTransformer2DModel": 300,
    "SanaTransformer2DModel": 300,
    "WanTransformer3DModel": 512,
}
"""Tokens of the prompt that a text encoder reads where they do not run beside the picture's."""
_CLIP: Final = {"SD3Transformer2DModel": 77}
"""Tokens of the prompt besides, of a second kind of text encoder."""
_REFINED: Final = {"HunyuanImageTransformer2DModel": 1000}
"""Tokens of the prompt that a transformer refines first, with a mask of all their pairs for each head."""
_MASKS: Final = 1.5
"""A byte and a number for each pair: the mask as it is told, and as attention takes it."""
_WAITING: Final = 15
"""Copies of the latents in float32 that a pipeline, its sampler and the watch hold between two calls: of a guided pair."""
_WAITING_ALONE: Final = 9
_KEPT: Final = 3.5
"""Copies in float32 of what the denoiser reads of a prompt: for the next picture, in the pipeline, of the watch, and half of one
as it is read.
"""
_PROMPT_WIDTH: Final = (
    "joint_attention_dim",
    "caption_channels",
    "cap_feat_dim",
    "text_dim",
    "text_embed_dim",
    "encoder_hid_dim",
    "cross_attention_dim",
)
"""Entries of a denoiser's configuration that tell how wide a token of the prompt comes to it."""
_CLIPS: Final[dict[str, tuple[float, ...]]] = {
    "AutoencoderKLWan": (18.0, 50.8, 52.9),
    "AutoencoderKLQwenImage": (18.0, 50.8, 52.9),
    "AutoencoderKLCogVideoX": (40.4, 121.4, 134.3, 178.8),
}
"""Decoders of videos that go through them some frames at a time, by a tally: numbers for a pixel and each channel of the widest
layer at full size, for one, two and more frames of latents; the last is for all that are longer.
"""

_ENCODED: Final[dict[str, float]] = {"AutoencoderKLWan": 10.0, "AutoencoderKLQwenImage": 10.0}
"""Their encoders, for one picture: a unit with what it keeps of the frame before, and that padded by two frames for its
convolution (3): of the widest layer at full size.
"""
_TEXT_UNIT: Final = 4
"""Widths inside a block of a text encoder: its input, the norm of that, and what attention gives, in two layouts."""
_TABLES: Final[dict[str, float]] = {"T5": 6, "MT5": 6, "UMT5": 6, "Gemma": 5}
"""Tables of scores for each head where attention is not fused: of T5 the places' share and the scores, and both the scores and
what the softmax makes of them in float32.
"""
_CLIP_TOKENS: Final = 77
_SCORES: Final = 4.5
"""Attention of three dimensions is never fused: a table of scores and its softmax in float32, and one of what is infinite."""

_DC: Final = 6.5
"""Numbers that AutoencoderDC holds for a pixel and channel of the widest layer at full size, by a tally."""
_LATER: Final = {"AutoencoderKLTemporalDecoder": 6.3}
"""Widths inside a unit that does not change the width, where they are more than its input, its two halves and their sum."""
_FULL_SIZE: Final = ("decoder_block_out_channels", "block_out_channels", "up_block_out_channels", "base_dim")
"""Entries that tell the channels of a decoder, from the pixels inwards."""


class Size(NamedTuple):
    """Width and height of one picture or video in pixels, and the number of its frames."""

    width: int
    height: int
    frames: int = 1

    @property
    def pixels(self) -> int:
        return self.width * self.height


def denoising(
    network: Network,
    decoder: Network | None,
    size: Size,
    *,
    guided: bool,
    text: int | None = None,
    joined: Size | None = None,
    begun: bool = False,
) -> int:
    """Numbers alive in a call of the denoiser. guided: the negative prompt is computed too; text: tokens of the prompt; joined: a
    picture whose tokens run beside those of the one that is made; begun: a picture begins the video.
    """
    scale, frames = latent_scale(decoder), latent_frames(decoder, size.frames)
    latents = ceil(size.width / scale) * ceil(size.height / scale) * frames
    if joined is not None:
        latents += ceil(joined.width / scale) * ceil(joined.height / scale)
    told = bool(network.number("time_cond_proj_dim")) or network.config.get("guidance_embeds") is True
    alone = told or network.kind.startswith(_ALONE)  # the guidance is an input of the network
    batch = 2 if guided and not alone else 1
    if network.kind == "Kandinsky3UNet":
        return ceil(latents * batch * _kandinsky3(network))
    if network.kind.startswith("UNet") and network.numbers("block_out_channels"):
        return ceil(latents * batch * max(way_up(network)))
    if network.kind == _CASCADE:
        return _cascade(network, latents, size, batch)
    words = _TEXT.get(network.kind, 0) if text is None or network.kind not in _TEXT else text
    if joined is not None and network.kind.startswith("QwenImage"):
        words += joined.pixels // _SEEN**2
    tokens = latents // _patch(network) ** 2 + words + _CLIP.get(network.kind, 0)
    refined = _REFINED.get(network.kind, 0) ** 2 * (1 + _MASKS * network.number("num_attention_heads"))
    widths = _WIDTHS.get(network.kind, _OTHER_WIDTHS) + (_BEGUN.get(network.kind, 0) if begun else 0)
    return ceil(max(tokens * batch * _width(network) * widths, refined))


def read_tokens(networks: Iterable[Network], text: int | None) -> int:
    """Tokens that the text encoders are given. text: those that the request tells."""
    kinds = [one.kind for one in networks if one.work == "denoise"]
    return text or max((_TEXT.get(kind) or _READ.get(kind, 0) for kind in kinds), default=0) or _CLIP_TOKENS


def reading(network: Network, tokens: int) -> int:
    """Numbers alive in a call of a text encoder: of one that gives the states of all its layers, these with them."""
    config = network.config.get("text_config")
    one = network if not isinstance(config, dict) else structs.replace(network, config=cast("dict[str, Any]", config))
    width, heads = one.number("hidden_size", "d_model"), one.number("num_attention_heads", "num_heads")
    layers = one.number("num_hidden_layers", "num_layers")
    clip = network.kind.startswith("CLIP")
    tokens = _CLIP_TOKENS if clip else tokens
    table = next((many for name, many in _TABLES.items() if network.kind.startswith(name)), 0)
    if network.kind.startswith(("T5", "MT5", "UMT5")):
        kept = 0
    else:
        each = one.number("head_dim", default=width // max(1, heads)) * one.number("num_key_value_heads", default=heads)
        kept = layers * (width + (0 if clip else 2 * each))
    inside = _TEXT_UNIT * width + 3 * one.number("intermediate_size", "d_ff")
    return ceil(tokens * (kept + inside) + table * heads * tokens**2)


def controlling(network: Network, decoder: Network | None, size: Size, *, prompts: int) -> int:
    """Numbers that a ControlNet gives for so many prompts, which wait until the denoiser takes them."""
    latents = ceil(size.pixels / latent_scale(decoder) ** 2) * prompts
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


def keeping(network: Network, tokens: int, *, prompts: int) -> int:
    """Numbers of prompts of so many tokens that lie beside whatever is called, in float32, until the denoiser reads them."""
    read = tokens + _CLIP.get(network.kind, 0)
    return ceil(_KEPT * read * network.number(*_PROMPT_WIDTH) * prompts)


def decoding(network: Network, size: Size) -> int:
    """Numbers alive in a call of the decoder, its result with them."""
    if (clips := _CLIPS.get(network.kind)) is not None:
        each = clips[min(len(clips), latent_frames(network, size.frames)) - 1] * network.number(*_FULL_SIZE, default=96)
        return ceil(size.pixels * (each + 3 * (size.frames - 1)))
    frames = size.frames
    if network.kind == "AutoencoderKLHunyuanImage":
        return _hunyuan_image(network, size)
    if network.kind == "AutoencoderKLLTXVideo" and network.numbers(*_FULL_SIZE):
        return ceil(size.pixels * frames * _ltx(network))
    return ceil(size.pixels * frames * _decoder(network)) + (6 * size.pixels * frames if frames > 1 else 0)


def encoding(network: Network, size: Size) -> int:
    """Numbers alive while the decoder's other half encodes a picture: a unit of its widest level, and the picture."""
    if (each := _ENCODED.get(network.kind)) is not None:
        return ceil(size.pixels * (each * network.number(*_FULL_SIZE, default=96) + 9))
    channels = network.numbers("block_out_channels", "encoder_block_out_channels")
    return ceil(size.pixels * (4 * max((width / 4**level for level, width in enumerate(channels)), default=128) + 9))


def latent_scale(decoder: Network | None) -> int:
    """Pixels per latent along one edge."""
    if decoder is None:
        return 8
    levels = decoder.numbers("block_out_channels", "decoder_block_out_channels", "up_block_out_channels", "dim_mult")
    if (halved := decoder.config.get("spatio_temporal_scaling")) is not None:
        return decoder.number("patch_size", default=1) * 2 ** sum(map(bool, halved))
    if decoder.kind == _PAELLA:
        return decoder.number("up_down_scale_factor", default=2) * 2 ** (decoder.number("levels", default=2) - 1)
    told = decoder.number("spatial_compression_ratio", "scale_factor_spatial")
    return told or (2 ** (len(levels) - 1) if 0 < len(levels) <= 8 else 8)


def latent_frames(decoder: Network | None, frames: int) -> int:
    """Frames of the latents of a video."""
    if decoder is not None and (halved := decoder.config.get("spatio_temporal_scaling")) is not None:
        ratio = decoder.number("patch_size_t", default=1) * 2 ** sum(map(bool, halved))
    else:
        ratio = 1 if decoder is None else decoder.number("temporal_compression_ratio", "scale_factor_temporal", default=1)
    return (frames - 1) // max(1, ratio) + 1


def stage_shares(network: Network) -> tuple[float, ...]:
    """What is alive in each of a denoiser's `stages`, in one unit; () where they do not differ."""
    if network.kind.startswith("UNet"):
        return way_up(network)
    return _STREAMS.get(network.kind, ())


def way_up(network: Network) -> tuple[float, ...]:
    """Numbers per latent pixel at each level of a UNet on the way up: what the way down left, the block's input, and a unit."""
    channels = network.numbers("block_out_channels")
    skips, layers = _skips(network, channels), network.number("layers_per_block", default=1) + 1
    attends = network.words("up_block_types")
    last = len(channels) - 1
    found: list[float] = []
    for index in range(len(channels)):
        level = last - index
        given, width = channels[min(level + 1, last)], channels[level]
        own, skips = skips[-layers:], skips[:-layers]
        held = sum(skip / 4**at for skip, at in (*skips, *own)) + given / 4**level
        widest = max((given if not place else width) + skip for place, (skip, _) in enumerate(reversed(own)))
        units = [_RESNET * widest / 4**level]
        kind = attends[index] if index < len(attends) else ""
        simple = kind.startswith("SimpleCrossAttn")
        if "Attn" in kind:
            more = _OVER_TIME if "SpatioTemporal" in network.kind else 0
            units.append((_SIMPLE if simple else _TRANSFORMER + more) * width / 4**level)
        if level:
            units.append((_ENLARGING_UNIT if simple or kind.startswith("Resnet") else _ENLARGING) * width / 4**level)
        found.append(held + max(units))
    return tuple(found)


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
        return _dc(network)
    if network.kind == _PAELLA:
        return _paella(network)
    channels = network.numbers(*_FULL_SIZE)
    if not channels:
        return 2 * 128.0
    # a norm by the latents' places is the norm times one map of them plus another
    first, later = (5, 6) if network.config.get("norm_type") == "spatial" else (_RESNET, _LATER.get(network.kind, 4))
    above = (*channels[1:], channels[-1])
    levels = (
        max(first * given, given + later * own) / 4**level for level, (own, given) in enumerate(zip(channels, above, strict=True))
    )
    return max(levels)


def _dc(network: Network) -> float:
    """Its widest level. Linear attention is computed in float32, of the states and of each scale that they are seen at: what was
    made of them before (3) and in float32 (6), queries and keys (4), values and their sums with a row more (4), the quotient (2).
    """
    channels, kinds = network.numbers(*_FULL_SIZE), network.words("decoder_block_types")
    scales, row = network.config.get("decoder_qkv_multiscales"), 1 / network.number("attention_head_dim", default=32)
    worst = _DC * (channels[0] if channels else 128)
    for level, width in enumerate(channels):
        if level < len(kinds) and kinds[level].startswith("EfficientViT"):
            seen = 1 + (len(scales[level]) if isinstance(scales, list) else 1)
            worst = max(worst, width * (3 + seen * (19 + 4 * row)) / 4**level)
    return worst


def _ltx(network: Network) -> float:
    """Numbers per pixel: its last level alone is at full size. A unit holds its input, its state, and that and its square in
    float32; what it was made from waits outside, of an eighth of the size.
    """
    return network.numbers(*_FULL_SIZE)[0] * (6 + 1 / 8) / network.number("patch_size", default=1) ** 2


def _paella(network: Network) -> float:
    """Linear layers four times as wide as their input: that, its norm in two layouts, the state and its activation."""
    levels, scale = network.number("levels", default=2), network.number("up_down_scale_factor", default=2)
    return network.number("embed_dim", default=384) / 2 ** (levels - 1) * (3 + 2 * 4) / scale**2


def _hunyuan_image(network: Network, size: Size) -> int:
    """At most two moments: the widest level while it is made larger, and the attention over all latents."""
    channels = network.numbers("block_out_channels")
    above = (*channels[1:], channels[-1])
    levels = (max(3 * own, given / 4 + 3 * own) / 4**at for at, (own, given) in enumerate(zip(channels, above, strict=True)))
    latents = ceil(size.pixels / latent_scale(network) ** 2)
    attention = latents * (_SCORES * latents + 14 * channels[-1])
    return ceil(max(size.pixels * max(levels), attention))


def _kandinsky3(network: Network) -> float:
    """Numbers per latent pixel, at the first unit of a level on the way up, whose input is two levels side by side."""
    channels, flags = network.numbers("block_out_channels"), network.config.get("add_cross_attention")
    attends = list(reversed(cast("list[Any]", flags) if isinstance(flags, list) else [False, True, True, True]))
    last, worst = len(channels) - 1, 0.0
    for level, width in enumerate(channels):
        given = width * (1 if level == last else 2)
        widths = 11.0 if last - level < len(attends) and attends[last - level] else 3.25
        worst = max(worst, (widths * given + sum(channels[:level])) / 4**level)
    return worst


def _cascade(network: Network, latents: int, size: Size, batch: int) -> int:
    """Count the numbers of the second stage, which is not guided: all latents, some of them to a place. The first, which sees
    pictures, makes what the second is told: a cell for 42.67 pixels along an edge.
    """
    first = bool(network.number("clip_image_in_channels"))
    places = batch * size.pixels / _PRIOR_CELL**2 if first else latents / max(1, network.number("patch_size", default=1)) ** 2
    return ceil(places * 17.4 * network.number("block_out_channels"))


def _patch(network: Network) -> int:
    if network.kind.startswith(_PACKED):
        return 2
    sizes = network.numbers("patch_size", "all_patch_size")
    return max(1, sizes[-1] if sizes else network.number("patch_size", default=1))


def _width(network: Network) -> int:
    told = network.number("inner_dim", "hidden_size", "dim")
    return told or network.number("num_attention_heads", default=16) * network.number("attention_head_dim", default=64)
