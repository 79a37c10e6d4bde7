"""Turns tensors of a transformer or UNet under its makers' names into those of diffusers.

Mostly by diffusers itself. What it cannot turn, or only for some models, follows the scripts beside it: Sana (1.5 and Sprint have
more norms and a guidance layer), PixArt and HunyuanDiT.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import torch
from diffusers.loaders import single_file_model
from torch import nn

Tensors = Mapping[str, torch.Tensor]

_START: Final = "model.diffusion_model."
"""Before the names of a UNet, where diffusers' reader of its own names looks for them."""


class _Own(NamedTuple):
    """names: (pattern, replacement), all applied in turn. joined: layer -> those whose rows follow one another in it. swapped:
    layers whose two halves stand in the other order. first: tables of which only the first row is read.
    """

    names: tuple[tuple[str, str], ...]
    joined: dict[str, tuple[str, ...]]
    swapped: str = ""
    first: str = ""


_LINEAR: Final = (
    (r"^y_embedder\.y_proj\.fc(\d)\.", r"caption_projection.linear_\1."),
    (r"^final_layer\.linear\.", "proj_out."),
    (r"^final_layer\.scale_shift_table$", "scale_shift_table"),
    (r"\.cross_attn\.q_linear\.", ".attn2.to_q."),
    (r"\.cross_attn\.proj\.", ".attn2.to_out.0."),
    (r"\.cross_attn\.([qk])_norm\.", r".attn2.norm_\1."),
    (r"\.attn\.proj\.", ".attn1.to_out.0."),
    (r"\.attn\.([qk])_norm\.", r".attn1.norm_\1."),
    (r"^blocks\.", "transformer_blocks."),
)
_LINEAR_JOINED: Final = {
    "attn.qkv": ("attn1.to_q", "attn1.to_k", "attn1.to_v"),
    "cross_attn.kv_linear": ("attn2.to_k", "attn2.to_v"),
}
_STEPS: Final = r"\.mlp\.0\.", r"\.mlp\.2\."


def _embedder(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"^{theirs}{layer}", f"{ours}.linear_{number}.") for number, layer in enumerate(_STEPS, 1))


_SANA_NAMES: Final = (
    (r"^x_embedder\.", "patch_embed."),
    (r"^t_block\.1\.", "time_embed.linear."),
    (r"^attention_y_norm\.", "caption_norm."),
    (r"\.mlp\.inverted_conv\.conv\.", ".ff.conv_inverted."),
    (r"\.mlp\.depth_conv\.conv\.", ".ff.conv_depth."),
    (r"\.mlp\.point_conv\.conv\.", ".ff.conv_point."),
    *_LINEAR,
)
_SANA: Final = _Own((*_embedder("t_embedder", "time_embed.emb.timestep_embedder"), *_SANA_NAMES), _LINEAR_JOINED)
_SPRINT: Final = _Own(
    (
        *_embedder("t_embedder", "time_embed.timestep_embedder"),
        *_embedder("cfg_embedder", "time_embed.guidance_embedder"),
        *_SANA_NAMES,
    ),
    _LINEAR_JOINED,
)
_PIXART: Final = _Own(
    (
        (r"^x_embedder\.", "pos_embed."),
        *_embedder("t_embedder", "adaln_single.emb.timestep_embedder"),
        *_embedder("csize_embedder", "adaln_single.emb.resolution_embedder"),
        *_embedder("ar_embedder", "adaln_single.emb.aspect_ratio_embedder"),
        (r"^t_block\.1\.", "adaln_single.linear."),
        (r"\.mlp\.fc1\.", ".ff.net.0.proj."),
        (r"\.mlp\.fc2\.", ".ff.net.2."),
        *_LINEAR,
    ),
    _LINEAR_JOINED,
)
_HUNYUAN: Final = _Own(
    (
        (r"^x_embedder\.", "pos_embed."),
        *_embedder("t_embedder", "time_extra_emb.timestep_embedder"),
        (r"^extra_embedder\.0\.", "time_extra_emb.extra_embedder.linear_1."),
        (r"^extra_embedder\.2\.", "time_extra_emb.extra_embedder.linear_2."),
        (r"^(pooler|style_embedder)\.", r"time_extra_emb.\1."),
        (r"^mlp_t5\.0\.", "text_embedder.linear_1."),
        (r"^mlp_t5\.2\.", "text_embedder.linear_2."),
        (r"^final_layer\.linear\.", "proj_out."),
        (r"^final_layer\.adaLN_modulation\.1\.", "norm_out.linear."),
        (r"\.(attn\d)\.([qk])_norm\.", r".\1.norm_\2."),
        (r"\.(attn\d)\.out_proj\.", r".\1.to_out.0."),
        (r"\.attn2\.q_proj\.", ".attn2.to_q."),
        (r"\.default_modulation\.1\.", ".norm1.linear."),
        (r"\.norm1\.(weight|bias)$", r".norm1.norm.\1"),
        (r"\.norm2\.", ".norm_behind."),
        (r"\.norm3\.", ".norm2."),
        (r"\.norm_behind\.", ".norm3."),
        (r"\.mlp\.fc1\.", ".ff.net.0.proj."),
        (r"\.mlp\.fc2\.", ".ff.net.2."),
    ),
    {"attn1.Wqkv": ("attn1.to_q", "attn1.to_k", "attn1.to_v"), "attn2.kv_proj": ("attn2.to_k", "attn2.to_v")},
    swapped="norm_out.linear.",
    first="time_extra_emb.style_embedder.",
)


def converted(made: nn.Module, tensors: Tensors) -> dict[str, torch.Tensor]:
    """The tensors under diffusers' names. made: the network that they are for."""
    names = {name for name, _ in made.named_parameters()}
    if names <= tensors.keys():
        return dict(tensors)
    found = _turned(made, tensors)
    return found | {name: tensors[name] for name in names - found.keys() if name in tensors}  # called alike by both


def _turned(made: nn.Module, tensors: Tensors) -> dict[str, torch.Tensor]:
    kind = type(made).__name__
    if kind == "SanaTransformer2DModel":
        return _by_table(_SPRINT if "cfg_embedder.mlp.0.weight" in tensors else _SANA, tensors)
    if kind in ("PixArtTransformer2DModel", "HunyuanDiT2DModel"):
        return _by_table(_PIXART if kind.startswith("Pix") else _HUNYUAN, tensors)
    kinds = cast("dict[str, dict[str, Any]]", single_file_model.SINGLE_FILE_LOADABLE_CLASSES)
    name = next((kind.__name__ for kind in type(made).__mro__ if kind.__name__ in kinds), None)
    if name is None:
        return dict(tensors)
    start = _START if name == "UNet2DConditionModel" else ""
    given = {start + key: value for key, value in tensors.items()}
    convert = kinds[name]["checkpoint_mapping_fn"]
    return cast("dict[str, torch.Tensor]", convert(config=dict(cast("Any", made).config), checkpoint=given))


def _by_table(own: _Own, tensors: Tensors) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for theirs, value in tensors.items():
        joined = next((layer for layer in own.joined if f".{layer}." in theirs), "")
        layers = own.joined.get(joined, ("",))
        for layer, part in zip(layers, torch.chunk(value, len(layers)) if joined else (value,), strict=True):
            found[_renamed(own, theirs.replace(joined, layer))] = part
    found |= {name: torch.cat(found[name].chunk(2)[::-1]) for name in found if own.swapped and name.startswith(own.swapped)}
    return found | {name: found[name][:1] for name in found if own.first and name.startswith(own.first)}


def _renamed(own: _Own, name: str) -> str:
    for pattern, ours in own.names:
        name = re.sub(pattern, ours, name)
    return name
