"""The families once more with broad networks: weights and what is computed count there, not what a tiny model has beside them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from tests.bench.families.remade import remade
from tests.bench.families.table import Case
from tests.bench.faults.parts import deep_vae
from tests.helpers import tiny

from halftone.contract.request import OptionValue

_HEADS: Final = 16
"""As many heads."""
_WIDEST: Final = 128
"""Channels at full size."""
_SCALED: Final[dict[str, tuple[str, ...]]] = {
    "AuraFlowTransformer2DModel": ("num_attention_heads", "caption_projection_dim"),
    "HunyuanDiT2DModel": ("num_attention_heads", "hidden_size"),
    "LTXVideoTransformer3DModel": ("num_attention_heads", "cross_attention_dim"),
    "Lumina2Transformer2DModel": ("num_attention_heads", "num_kv_heads", "hidden_size"),
    "PixArtTransformer2DModel": ("num_attention_heads", "cross_attention_dim"),
    "PriorTransformer": (),
    "SanaTransformer2DModel": ("num_attention_heads", "num_cross_attention_heads", "cross_attention_dim"),
    "SD3Transformer2DModel": ("num_attention_heads", "caption_projection_dim"),
    "WanTransformer3DModel": ("num_attention_heads", "ffn_dim"),
    "ZImageTransformer2DModel": ("n_heads", "n_kv_heads", "dim"),
}
"""Entries of the configuration that belong together, where it is not the heads alone."""
_DC: Final[dict[str, Any]] = {
    f"{way}_{name}": value
    for way in ("encoder", "decoder")
    for name, value in {
        "block_types": ("ResBlock", "ResBlock", "EfficientViTBlock"),
        "block_out_channels": (64, 128, 256),
        "qkv_multiscales": ((), (), (5,)),
        "layers_per_block": (1, 1, 1),
    }.items()
}
_AS_PUBLISHED: Final[dict[str, dict[str, Any]]] = {
    "AutoencoderKLWan": {"base_dim": 96, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2},
    "AutoencoderKLQwenImage": {
        "base_dim": 96,
        "dim_mult": [1, 2, 4, 4],
        "num_res_blocks": 2,
        "temperal_downsample": [False, True, True],
    },
    "AutoencoderKLCogVideoX": {"block_out_channels": (64, 128, 128, 256), "layers_per_block": 3},
    "AutoencoderDC": _DC,
}
"""Where the levels of the published networks differ in width, as the memory of the widest shows."""
_CHANNELS: Final = ("block_out_channels", "decoder_block_out_channels", "encoder_block_out_channels", "base_dim")


_DEEP: Final = ("Lumina 2",)
"""Pipelines that take eight pixels to a latent cell for granted."""
_LEVELS: Final[dict[str, Any]] = {
    "block_out_channels": (32, 32, 32, 32),
    "down_block_types": (*("DownEncoderBlock2D",) * 3, "AttnDownEncoderBlock2D"),
    "up_block_types": ("AttnUpDecoderBlock2D", *("UpDecoderBlock2D",) * 3),
}
"""The same of a decoder of vectors."""
WORDS: Final[dict[str, OptionValue]] = {"complex_human_instruction": []}
"""Options by which as many tokens are read as of a prompt: the tokenizers here make one of each letter of an instruction."""


def edge(case: Case) -> int:
    """Pixels of a broad picture: as many as the tables of places hold; where a megapixel is encoded in tiles, enough for few."""
    return case.size * {"AuraFlow": 2, "CogVideoX image to video": 1, "Qwen-Image Edit": 16}.get(case.name, 4)


def broad(case: Case) -> Callable[[], Any]:
    """Build the pipeline of a case with broad networks."""

    def build() -> Any:
        pipe = case.build()
        if case.name in _DEEP:
            pipe.register_modules(vae=remade(deep_vae(), shift_factor=pipe.vae.config.shift_factor))
        if case.name == "Kandinsky 3":
            pipe.register_modules(movq=remade(pipe.movq, **_LEVELS))
        for name, part in pipe.components.items():
            if isinstance(part, torch.nn.Module) and hasattr(part, "register_to_config") and (own := changes(part)):
                pipe.register_modules(**{name: remade(part, **own)})
        return pipe

    return build


def changes(network: Any) -> dict[str, Any]:
    """Return the changed entries of a network's configuration."""
    config, kind = network.config, type(network).__name__
    names = _SCALED.get(kind, ("num_attention_heads",)) if "Transformer" in kind or "DiT" in kind else _CHANNELS
    own = _AS_PUBLISHED.get(kind, {})
    return own | {
        name: _scaled(config[name], channels=names is _CHANNELS)
        for name in names
        if config.get(name) is not None and name not in own
    }


def _scaled(value: Any, *, channels: bool) -> Any:
    first = value if isinstance(value, int) else value[0]
    times = max(1, _WIDEST // first) if channels else _HEADS
    return value * times if isinstance(value, int) else type(value)(one * times for one in value)


def save_broad(case: Case, target: Path) -> Path:
    """Write the model in float16 where its class keeps no part in float32, with weights drawn from a fixed seed."""
    torch.manual_seed(0)
    pipe = broad(case)()
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            tiny.liven(part)
            if not getattr(part, "_keep_in_fp32_modules", None):
                part.half()
    pipe.save_pretrained(target)
    case.amend(target)
    return target
