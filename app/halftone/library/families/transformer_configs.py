"""How the parts of FLUX and Stable Diffusion 3 are built, read from the shapes of a single file's tensors; no weight is read."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

Shapes = Mapping[str, tuple[int, ...]]
Config = dict[str, Any]

_HEAD: Final = 64
"""Channels of one attention head in Stable Diffusion 3 where no norm of it tells."""


def count_blocks(shapes: Shapes, pattern: str) -> int:
    """One more than the largest index that stands in such names; 0 where there is none."""
    found = [int(match[1]) for name in shapes if (match := re.match(pattern, name))]
    return max(found, default=-1) + 1


def flux(shapes: Shapes) -> Config:
    """Of FluxTransformer2DModel. Raises KeyError."""
    width, channels = shapes["img_in.weight"][:2]
    head = shapes["double_blocks.0.img_attn.norm.query_norm.scale"][0]
    first = head // 8
    return {
        "in_channels": channels,
        "out_channels": shapes["final_layer.linear.weight"][0],
        "num_layers": count_blocks(shapes, r"double_blocks\.(\d+)\."),
        "num_single_layers": count_blocks(shapes, r"single_blocks\.(\d+)\."),
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": shapes["txt_in.weight"][1],
        "pooled_projection_dim": shapes["vector_in.in_layer.weight"][1],
        "guidance_embeds": "guidance_in.in_layer.weight" in shapes,
        "axes_dims_rope": [first, (head - first) // 2, (head - first) // 2],
    }


def flux_scheduler(shapes: Shapes) -> Config:
    """FLUX.1 schnell, which has no layer for the guidance, shifts its steps by no size."""
    return {} if "guidance_in.in_layer.weight" in shapes else {"shift": 1.0, "use_dynamic_shifting": False}


def flux_pipeline(shapes: Shapes) -> str:
    """By what its first layer takes beside the 16 channels of the latents, in patches of 2 × 2."""
    latents = shapes["final_layer.linear.weight"][0]
    extra = shapes["img_in.weight"][1] - latents
    if extra == 0:
        return "FluxPipeline"
    return "FluxControlPipeline" if extra == latents else "FluxFillPipeline"


def sd3(shapes: Shapes) -> Config:
    """Of SD3Transformer2DModel. Raises KeyError."""
    width, channels, patch = shapes["x_embedder.proj.weight"][:3]
    norm = shapes.get("joint_blocks.0.x_block.attn.ln_q.weight")
    head = norm[0] if norm else min(_HEAD, width)
    layers = count_blocks(shapes, r"joint_blocks\.(\d+)\.")
    return {
        "patch_size": patch,
        "in_channels": channels,
        "out_channels": shapes["final_layer.linear.weight"][0] // patch**2,
        "num_layers": layers,
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": shapes["context_embedder.weight"][1],
        "caption_projection_dim": width,
        "pooled_projection_dim": shapes["y_embedder.mlp.0.weight"][1],
        "pos_embed_max_size": math.isqrt(shapes["pos_embed"][1]),
        "dual_attention_layers": [index for index in range(layers) if f"joint_blocks.{index}.x_block.attn2.qkv.weight" in shapes],
        "qk_norm": "rms_norm" if norm else None,
    }


def t5(shapes: Shapes) -> Config:
    """Of T5EncoderModel. Raises KeyError."""
    table = shapes.get("shared.weight") or shapes["encoder.embed_tokens.weight"]
    buckets, heads = shapes["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    return {
        "vocab_size": table[0],
        "d_model": table[1],
        "d_kv": shapes["encoder.block.0.layer.0.SelfAttention.q.weight"][0] // heads,
        "d_ff": shapes["encoder.block.0.layer.1.DenseReluDense.wi_0.weight"][0],
        "num_heads": heads,
        "num_layers": count_blocks(shapes, r"encoder\.block\.(\d+)\."),
        "relative_attention_num_buckets": buckets,
    }
