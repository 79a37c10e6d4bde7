"""ControlNets for transformers in one file, in diffusers' names: what their shapes tell of their configuration."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

Shapes = Mapping[str, tuple[int, ...]]

_ORIGINAL: Final = "adaLN_modulation"
"""Part of names in Stability's own files for SD 3.5."""


def in_diffusers_names(names: Iterable[str]) -> bool:
    """Whether a file of a ControlNet for a transformer is in diffusers' names."""
    given = tuple(names)
    blocks = any(name.startswith(("transformer_blocks.", "single_transformer_blocks.")) for name in given)
    return blocks and not any(_ORIGINAL in name for name in given)


def transformer_config(kind: str, shapes: Shapes) -> dict[str, Any]:
    """What differs from the transformer beside which one runs, and its width. kind: its class. Raises KeyError."""
    shared = {"_class_name": kind, "num_layers": _count(shapes, "transformer_blocks")}
    return shared | _READERS[kind](shapes)


def _count(shapes: Shapes, blocks: str) -> int:
    return len({match[1] for name in shapes if (match := re.match(rf"{blocks}\.(\d+)\.", name))})


def _flux(shapes: Shapes) -> dict[str, Any]:
    hints = "input_hint_block.conv_in.weight" in shapes
    return {
        "width": shapes["x_embedder.weight"][0],
        "in_channels": shapes["x_embedder.weight"][1],
        "joint_attention_dim": shapes["context_embedder.weight"][1],
        "pooled_projection_dim": shapes["time_text_embed.text_embedder.linear_1.weight"][1],
        "num_single_layers": _count(shapes, "single_transformer_blocks"),
        "guidance_embeds": any(name.startswith("time_text_embed.guidance_embedder.") for name in shapes),
        "num_mode": shapes["controlnet_mode_embedder.weight"][0] if "controlnet_mode_embedder.weight" in shapes else None,
        "conditioning_embedding_channels": shapes["input_hint_block.conv_out.weight"][0] if hints else None,
    }


def _sd3(shapes: Shapes) -> dict[str, Any]:
    """One of SD 3.5 may read no words, and take the model's places: it has neither table nor layer for them."""
    words, places = "context_embedder.weight" in shapes, "pos_embed.pos_embed" in shapes
    pixels = shapes["pos_embed.proj.weight" if places else "pos_embed_input.proj.weight"]
    channels = pixels[1]
    found: dict[str, Any] = {
        "width": pixels[0],
        "in_channels": channels,
        "extra_conditioning_channels": shapes["pos_embed_input.proj.weight"][1] - channels,
        "joint_attention_dim": shapes["context_embedder.weight"][1] if words else None,
        "pooled_projection_dim": shapes["time_text_embed.text_embedder.linear_1.weight"][1],
        "pos_embed_type": "sincos" if places else None,
        "use_pos_embed": places,
        "dual_attention_layers": _with(shapes, "attn2.to_q.weight"),
        "qk_norm": "rms_norm" if _with(shapes, "attn.norm_q.weight") else None,
    }
    if places:
        found["pos_embed_max_size"] = math.isqrt(shapes["pos_embed.pos_embed"][1])
    return found


def _with(shapes: Shapes, part: str) -> list[int]:
    """Blocks that have this part."""
    found = (re.match(rf"transformer_blocks\.(\d+)\.{re.escape(part)}$", name) for name in shapes)
    return sorted(int(match[1]) for match in found if match)


def _qwen(shapes: Shapes) -> dict[str, Any]:
    width, channels = shapes["img_in.weight"]
    return {
        "width": width,
        "in_channels": channels,
        "extra_condition_channels": shapes["controlnet_x_embedder.weight"][1] - channels,
        "joint_attention_dim": shapes["txt_in.weight"][1],
    }


_READERS: Final = {"FluxControlNetModel": _flux, "SD3ControlNetModel": _sd3, "QwenImageControlNetModel": _qwen}
SHAPED: Final = tuple(_READERS)
"""Classes that are read from one file."""
