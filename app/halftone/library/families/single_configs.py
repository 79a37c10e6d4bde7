"""Configurations of the parts of a whole model in one file, from the shapes of its tensors. All raise KeyError and IndexError
where a part lacks the tensors that tell its shape.
"""

import math
import re
from typing import Any, Final

from halftone.library.families.original_names import Shapes, flux2_vae_names, text_names

Config = dict[str, Any]

_HEAD: Final = 64
"""Channels of one attention head: in CLIP, in the UNets after the first family, in SD 3 where no norm of it tells."""
_WAN_HEAD: Final = 128
_UNUSED: Final = 23
"""The text encoder of Stable Diffusion 2 has one more layer, which is never used: diffusers reads the result before it."""


def unet(shapes: Shapes, family: Config) -> Config:
    """The configuration of UNet2DConditionModel. family: of the published model."""
    levels: list[list[int]] = [[]]
    for index in range(1, 1 + count_blocks(shapes, r"input_blocks\.(\d+)\.")):
        if f"input_blocks.{index}.0.op.weight" in shapes:
            levels.append([])
        elif f"input_blocks.{index}.0.out_layers.3.weight" in shapes:
            levels[-1].append(index)
    channels = [shapes[f"input_blocks.{level[0]}.0.out_layers.3.weight"][0] for level in levels]
    depths = [count_blocks(shapes, rf"input_blocks\.{level[0]}\.1\.transformer_blocks\.(\d+)\.") for level in levels]
    depths_there = [max(1, depth) for depth in depths]
    if not depths[-1]:  # the middle is as deep as the last level; where that has no depth, its own counts
        depths_there[-1] = max(1, count_blocks(shapes, r"middle_block\.1\.transformer_blocks\.(\d+)\."))
    heads = family["attention_head_dim"]
    config: Config = {
        "in_channels": shapes["input_blocks.0.0.weight"][1],
        "out_channels": shapes["out.2.weight"][0],
        "block_out_channels": channels,
        "layers_per_block": len(levels[0]),
        "cross_attention_dim": _first(shapes, "attn2.to_k.weight")[1],
        "down_block_types": ["CrossAttnDownBlock2D" if depth else "DownBlock2D" for depth in depths],
        "up_block_types": ["CrossAttnUpBlock2D" if depth else "UpBlock2D" for depth in reversed(depths)],
        "transformer_layers_per_block": depths_there,
        "use_linear_projection": len(_first(shapes, ".1.proj_in.weight")) == 2,
        "attention_head_dim": heads if isinstance(heads, int) else [max(1, width // _HEAD) for width in channels],
    }
    if "label_emb.0.0.weight" in shapes:
        config["projection_class_embeddings_input_dim"] = shapes["label_emb.0.0.weight"][1]
    return config


def _first(shapes: Shapes, end: str) -> tuple[int, ...]:
    """Of the tensors whose names end so."""
    for name, shape in shapes.items():
        if name.endswith(end):
            return shape
    raise KeyError(end)


def vae(shapes: Shapes) -> Config:
    """The configuration of AutoencoderKL, by the names in diffusers."""
    levels = count_blocks(shapes, r"encoder\.down_blocks\.(\d+)\.")
    return {
        "block_out_channels": [shapes[f"encoder.down_blocks.{level}.resnets.0.conv1.weight"][0] for level in range(levels)],
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "layers_per_block": count_blocks(shapes, r"encoder\.down_blocks\.0\.resnets\.(\d+)\."),
        "latent_channels": shapes["decoder.conv_in.weight"][1],
        "use_quant_conv": "quant_conv.weight" in shapes,
        "use_post_quant_conv": "post_quant_conv.weight" in shapes,
    }


def clip(shapes: Shapes) -> Config:
    """The configuration of a text encoder of CLIP, in the names of transformers or OpenCLIP."""
    own = {ours: shapes[name] for name, ours in text_names(shapes).items()}
    table = own["embeddings.token_embedding.weight"]
    layers = count_blocks(own, r"encoder\.layers\.(\d+)\.")
    open_clip = "text_projection" in shapes or "token_embedding.weight" in shapes
    projection = own.get("text_projection.weight")
    return {
        "vocab_size": table[0],
        "hidden_size": table[1],
        "num_attention_heads": max(1, table[1] // _HEAD),
        "num_hidden_layers": _UNUSED if open_clip and layers == _UNUSED + 1 else layers,
        "intermediate_size": own["encoder.layers.0.mlp.fc1.weight"][0],
        "max_position_embeddings": own["embeddings.position_embedding.weight"][0],
        **({"projection_dim": projection[1 if open_clip else 0]} if projection else {}),
    }


def count_blocks(shapes: Shapes, pattern: str) -> int:
    """One more than the largest index in such names; 0 where there is none."""
    lines = "\n" + "\n".join(shapes)  # one search over all names: files have thousands
    return max(map(int, re.findall(f"\n{pattern}", lines)), default=-1) + 1


def flux(shapes: Shapes) -> Config:
    """The configuration of FluxTransformer2DModel."""
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
    """The pipeline by the width of the first layer's input beside the 16 channels of the latents, in patches of 2 × 2."""
    latents = shapes["final_layer.linear.weight"][0]
    extra = shapes["img_in.weight"][1] - latents
    if extra == 0:
        return "FluxPipeline"
    return "FluxControlPipeline" if extra == latents else "FluxFillPipeline"


def flux2(shapes: Shapes) -> Config:
    """The configuration of Flux2Transformer2DModel."""
    width, channels = shapes["img_in.weight"]
    head = shapes["double_blocks.0.img_attn.norm.query_norm.scale"][0]
    return {
        "in_channels": channels,
        "num_layers": count_blocks(shapes, r"double_blocks\.(\d+)\."),
        "num_single_layers": count_blocks(shapes, r"single_blocks\.(\d+)\."),
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": shapes["txt_in.weight"][1],
        "timestep_guidance_channels": shapes["time_in.in_layer.weight"][1],
        "mlp_ratio": shapes["double_blocks.0.img_mlp.2.weight"][1] / width,
        "guidance_embeds": "guidance_in.in_layer.weight" in shapes,
        "axes_dims_rope": [head // 4] * 4,
    }


def flux2_vae(shapes: Shapes) -> Config:
    """The configuration of AutoencoderKLFlux2, of whose decoders one is smaller than the encoder."""
    own = {ours: shapes[name] for name, ours in flux2_vae_names(shapes).items()}
    found, levels = vae(own), count_blocks(own, r"decoder\.up_blocks\.(\d+)\.")
    widths = [own[f"decoder.up_blocks.{level}.resnets.0.conv2.weight"][0] for level in reversed(range(levels))]
    return found | {"decoder_block_out_channels": None if widths == found["block_out_channels"] else widths}


def sd3(shapes: Shapes) -> Config:
    """The configuration of SD3Transformer2DModel."""
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


def z_image(shapes: Shapes) -> Config:
    """The configuration of ZImageTransformer2DModel, whose patches are 2 × 2."""
    if any(name.startswith("siglip_") for name in shapes):
        raise ValueError("a model that reads pictures, too")
    width, inward = shapes["x_embedder.weight"]
    head = shapes["layers.0.attention.q_norm.weight"][0]
    side = 3 * head // 8
    return {
        "in_channels": inward // 4,
        "dim": width,
        "n_layers": count_blocks(shapes, r"layers\.(\d+)\."),
        "n_refiner_layers": count_blocks(shapes, r"noise_refiner\.(\d+)\."),
        "n_heads": width // head,
        "n_kv_heads": width // head,
        "cap_feat_dim": shapes["cap_embedder.1.weight"][1],
        "axes_dims": [head - 2 * side, side, side],
    }


def qwen_image(shapes: Shapes) -> Config:
    """The configuration of QwenImageTransformer2DModel, whose patches are 2 × 2."""
    width, channels = shapes["img_in.weight"]
    head = shapes["transformer_blocks.0.attn.norm_q.weight"][0]
    side = 7 * head // 16
    return {
        "in_channels": channels,
        "out_channels": shapes["proj_out.weight"][0] // 4,
        "num_layers": count_blocks(shapes, r"transformer_blocks\.(\d+)\."),
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": shapes["txt_in.weight"][1],
        "axes_dims_rope": [head - 2 * side, side, side],
    }


def wan(shapes: Shapes) -> Config:
    """The configuration of WanTransformer3DModel, whose attention heads have 128 numbers."""
    width, channels, *patch = shapes["patch_embedding.weight"]
    return {
        "patch_size": patch,
        "num_attention_heads": width // _WAN_HEAD,
        "in_channels": channels,
        "out_channels": shapes["head.head.weight"][0] // math.prod(patch),
        "text_dim": shapes["text_embedding.0.weight"][1],
        "freq_dim": shapes["time_embedding.0.weight"][1],
        "ffn_dim": shapes["blocks.0.ffn.0.weight"][0],
        "num_layers": count_blocks(shapes, r"blocks\.(\d+)\."),
        "cross_attn_norm": "blocks.0.norm3.weight" in shapes,
    }


def hunyuan_video(shapes: Shapes) -> Config:
    """The configuration of HunyuanVideoTransformer3DModel, which reads words alone."""
    width, channels, depth, patch = shapes["img_in.proj.weight"][:4]
    head = _either(shapes, "double_blocks.0.img_attn_q_norm.weight", "double_blocks.0.img_attn.norm.query_norm.scale")[0]
    outward = shapes["final_layer.linear.weight"][0] // (depth * patch**2)
    if channels != outward:
        raise ValueError("a model that reads a picture, too")
    side = 7 * head // 16
    return {
        "in_channels": channels,
        "out_channels": outward,
        "num_attention_heads": width // head,
        "attention_head_dim": head,
        "num_layers": count_blocks(shapes, r"double_blocks\.(\d+)\."),
        "num_single_layers": count_blocks(shapes, r"single_blocks\.(\d+)\."),
        "num_refiner_layers": count_blocks(shapes, r"txt_in\.individual_token_refiner\.blocks\.(\d+)\."),
        "mlp_ratio": _either(shapes, "double_blocks.0.img_mlp.fc1.weight", "double_blocks.0.img_mlp.0.weight")[0] / width,
        "patch_size": patch,
        "patch_size_t": depth,
        "guidance_embeds": any(name.startswith("guidance_in.") for name in shapes),
        "text_embed_dim": shapes["txt_in.input_embedder.weight"][1],
        "pooled_projection_dim": shapes["vector_in.in_layer.weight"][1],
        "rope_axes_dim": [head - 2 * side, side, side],
    }


def _either(shapes: Shapes, name: str, other: str) -> tuple[int, ...]:
    """A tensor that has one of two names."""
    return shapes[other] if other in shapes else shapes[name]


def t5(shapes: Shapes) -> Config:
    """The configuration of T5EncoderModel."""
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
