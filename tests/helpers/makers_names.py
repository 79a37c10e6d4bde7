"""Transformers as the code of their makers names and joins their tensors, from those of diffusers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Tensors = dict[str, torch.Tensor]
Rules = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Way:
    """names: (pattern, theirs), applied in turn. joined: their layer -> ours whose rows follow one another in it, as patterns of
    an end of a name. swapped: of ours, whose halves stand the other way round. more: what diffusers has no use for.
    """

    names: Rules
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    swapped: str = ""
    more: tuple[str, ...] = ()


def theirs(module: Any, way: Way) -> Tensors:
    """The tensors of a network as its makers' files hold them."""
    own = dict(module.state_dict())
    if way.swapped:
        own |= {name: torch.cat(value.chunk(2)[::-1]) for name, value in own.items() if re.match(way.swapped, name)}
    for layer, parts in way.joined.items():
        first = re.compile(rf"\.{parts[0]}\.(\w+)$")
        for name in [name for name in own if first.search(name)]:
            rows = [first.sub(rf".{part}.\1", name) for part in parts]
            if all(row in own for row in rows):
                own[first.sub(rf".{layer}.\1", name)] = torch.cat([own.pop(row) for row in rows])
    found = {_renamed(name, way.names): value for name, value in own.items()}
    assert len(found) == len(own)
    return found | {name: torch.zeros(1) for name in way.more}


def _renamed(name: str, rules: Rules) -> str:
    for pattern, theirs in rules:
        name = re.sub(pattern, theirs, name)
    return name


def _steps(ours: str, theirs: str) -> Rules:
    return ((rf"^{ours}\.linear_1\.", f"{theirs}.mlp.0."), (rf"^{ours}\.linear_2\.", f"{theirs}.mlp.2."))


_CROSS: Rules = (
    (r"^transformer_blocks\.", "blocks."),
    (r"^caption_projection\.linear_(\d)\.", r"y_embedder.y_proj.fc\1."),
    (r"^proj_out\.", "final_layer.linear."),
    (r"^scale_shift_table", "final_layer.scale_shift_table"),
    (r"\.attn1\.to_out\.0\.", ".attn.proj."),
    (r"\.attn1\.norm_([qk])\.", r".attn.\1_norm."),
    (r"\.attn2\.to_out\.0\.", ".cross_attn.proj."),
    (r"\.attn2\.to_q\.", ".cross_attn.q_linear."),
    (r"\.attn2\.norm_([qk])\.", r".cross_attn.\1_norm."),
)
_CROSS_JOINED = {"attn.qkv": ("attn1.to_q", "attn1.to_k", "attn1.to_v"), "cross_attn.kv_linear": ("attn2.to_k", "attn2.to_v")}
_SANA: Rules = (
    (r"^patch_embed\.", "x_embedder."),
    (r"^time_embed\.linear\.", "t_block.1."),
    (r"^caption_norm\.", "attention_y_norm."),
    (r"\.ff\.conv_inverted\.", ".mlp.inverted_conv.conv."),
    (r"\.ff\.conv_depth\.", ".mlp.depth_conv.conv."),
    (r"\.ff\.conv_point\.", ".mlp.point_conv.conv."),
    *_CROSS,
)
_TABLES = ("y_embedder.y_embedding", "pos_embed")
_PIXART: Rules = (
    (r"^pos_embed\.", "x_embedder."),
    *_steps("adaln_single.emb.timestep_embedder", "t_embedder"),
    *_steps("adaln_single.emb.resolution_embedder", "csize_embedder"),
    *_steps("adaln_single.emb.aspect_ratio_embedder", "ar_embedder"),
    (r"^adaln_single\.linear\.", "t_block.1."),
    (r"\.ff\.net\.0\.proj\.", ".mlp.fc1."),
    (r"\.ff\.net\.2\.", ".mlp.fc2."),
    *_CROSS,
)
SANA = Way((*_steps("time_embed.emb.timestep_embedder", "t_embedder"), *_SANA), _CROSS_JOINED, more=_TABLES)
SPRINT = Way(
    (
        *_steps("time_embed.timestep_embedder", "t_embedder"),
        *_steps("time_embed.guidance_embedder", "cfg_embedder"),
        *_SANA,
    ),
    _CROSS_JOINED,
)
PIXART = Way(_PIXART, _CROSS_JOINED, more=_TABLES)
HUNYUAN_DIT = Way(
    (
        (r"^pos_embed\.", "x_embedder."),
        *_steps("time_extra_emb.timestep_embedder", "t_embedder"),
        (r"^time_extra_emb\.extra_embedder\.linear_1\.", "extra_embedder.0."),
        (r"^time_extra_emb\.extra_embedder\.linear_2\.", "extra_embedder.2."),
        (r"^time_extra_emb\.", ""),
        (r"^text_embedder\.linear_1\.", "mlp_t5.0."),
        (r"^text_embedder\.linear_2\.", "mlp_t5.2."),
        (r"^proj_out\.", "final_layer.linear."),
        (r"^norm_out\.linear\.", "final_layer.adaLN_modulation.1."),
        (r"\.norm_([qk])\.", r".\1_norm."),
        (r"\.to_out\.0\.", ".out_proj."),
        (r"\.attn2\.to_q\.", ".attn2.q_proj."),
        (r"\.norm1\.linear\.", ".default_modulation.1."),
        (r"\.norm1\.norm\.", ".norm1."),
        (r"\.norm2\.", ".third."),
        (r"\.norm3\.", ".norm2."),
        (r"\.third\.", ".norm3."),
        (r"\.ff\.net\.0\.proj\.", ".mlp.fc1."),
        (r"\.ff\.net\.2\.", ".mlp.fc2."),
    ),
    {"attn1.Wqkv": ("attn1.to_q", "attn1.to_k", "attn1.to_v"), "attn2.kv_proj": ("attn2.to_k", "attn2.to_v")},
    swapped=r"norm_out\.linear\.",
)
LUMINA2 = Way(
    (
        (r"^norm_out\.linear_1\.", "final_layer.adaLN_modulation.1."),
        (r"^norm_out\.linear_2\.", "final_layer.linear."),
        (r"^time_caption_embed\.caption_embedder\.", "cap_embedder."),
        *_steps("time_caption_embed.timestep_embedder", "t_embedder"),
        (r"^(context_refiner\.\d+)\.norm1\.", r"\1.attention_norm1."),
        (r"^(context_refiner\.\d+)\.norm2\.", r"\1.attention_norm2."),
        (r"\.norm1\.linear\.", ".adaLN_modulation.1."),
        (r"\.norm1\.norm\.", ".attention_norm1."),
        (r"\.norm2\.", ".attention_norm2."),
        (r"\.attn\.to_out\.0\.", ".attn.out."),
        (r"\.attn\.norm_([qk])\.", r".attn.\1_norm."),
        (r"\.attn\.", ".attention."),
        (r"\.linear_([123])\.weight", r".w\1.weight"),
    ),
    {"attn.qkv": ("attn.to_q", "attn.to_k", "attn.to_v")},
    more=("norm_final.weight",),
)
_MLP = ((r"\.linear_1\.", ".c_fc1."), (r"\.linear_2\.", ".c_fc2."), (r"\.out_projection\.", ".c_proj."))
AURA_FLOW = Way(
    (
        (r"^time_step_proj\.linear_1\.", "t_embedder.mlp.0."),
        (r"^time_step_proj\.linear_2\.", "t_embedder.mlp.2."),
        (r"^context_embedder\.", "cond_seq_linear."),
        (r"^pos_embed\.pos_embed$", "positional_encoding"),
        (r"^pos_embed\.proj\.", "init_x_linear."),
        (r"^proj_out\.", "final_linear."),
        (r"^norm_out\.linear\.", "modF.1."),
        (r"^joint_transformer_blocks\.", "double_layers."),
        (r"^single_transformer_blocks\.", "single_layers."),
        *_MLP,
        (r"\.ff_context\.", ".mlpC."),
        (r"^(double_layers\.\d+)\.ff\.", r"\1.mlpX."),
        (r"^(single_layers\.\d+)\.ff\.", r"\1.mlp."),
        (r"\.norm1_context\.linear\.", ".modC.1."),
        (r"^(double_layers\.\d+)\.norm1\.linear\.", r"\1.modX.1."),
        (r"^(single_layers\.\d+)\.norm1\.linear\.", r"\1.modCX.1."),
        (r"\.attn\.add_([qkv])_proj\.", r".attn.w1\1."),
        (r"\.attn\.to_add_out\.", ".attn.w1o."),
        (r"^(double_layers\.\d+)\.attn\.to_([qkv])\.", r"\1.attn.w2\2."),
        (r"^(double_layers\.\d+)\.attn\.to_out\.0\.", r"\1.attn.w2o."),
        (r"^(single_layers\.\d+)\.attn\.to_([qkv])\.", r"\1.attn.w1\2."),
        (r"^(single_layers\.\d+)\.attn\.to_out\.0\.", r"\1.attn.w1o."),
    ),
    swapped=r"norm_out\.linear\.",
)
_STREAMS: Rules = (
    (r"^context_embedder\.", "txt_in."),
    (r"^x_embedder\.", "img_in."),
    (r"^proj_out\.", "final_layer.linear."),
    (r"^norm_out\.linear\.", "final_layer.adaLN_modulation.1."),
    (r"^transformer_blocks\.", "double_blocks."),
    (r"^single_transformer_blocks\.", "single_blocks."),
    (r"\.attn\.norm_added_q\.weight", ".txt_attn.norm.query_norm.scale"),
    (r"\.attn\.norm_added_k\.weight", ".txt_attn.norm.key_norm.scale"),
    (r"^(single_blocks\.\d+)\.attn\.norm_q\.weight", r"\1.norm.query_norm.scale"),
    (r"^(single_blocks\.\d+)\.attn\.norm_k\.weight", r"\1.norm.key_norm.scale"),
    (r"\.attn\.norm_q\.weight", ".img_attn.norm.query_norm.scale"),
    (r"\.attn\.norm_k\.weight", ".img_attn.norm.key_norm.scale"),
    (r"\.attn\.to_add_out\.", ".txt_attn.proj."),
    (r"\.attn\.to_out\.0\.", ".img_attn.proj."),
)
_STREAMS_JOINED = {
    "linear1": ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"),
    "img_attn.qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "txt_attn.qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
}
CHROMA = Way(
    (
        *_STREAMS,
        (r"\.ff\.net\.(\d)\.(?:proj\.)?", r".img_mlp.\1."),
        (r"\.ff_context\.net\.(\d)\.(?:proj\.)?", r".txt_mlp.\1."),
        (r"^(single_blocks\.\d+)\.proj_out\.", r"\1.linear2."),
        (r"^(distilled_guidance_layer\.layers\.\d+)\.linear_1\.", r"\1.in_layer."),
        (r"^(distilled_guidance_layer\.layers\.\d+)\.linear_2\.", r"\1.out_layer."),
        (r"^(distilled_guidance_layer\.norms\.\d+)\.weight", r"\1.scale"),
    ),
    _STREAMS_JOINED,
)
FLUX2 = Way(
    (
        *_STREAMS,
        (r"^time_guidance_embed\.timestep_embedder\.linear_1\.", "time_in.in_layer."),
        (r"^time_guidance_embed\.timestep_embedder\.linear_2\.", "time_in.out_layer."),
        (r"^time_guidance_embed\.guidance_embedder\.linear_1\.", "guidance_in.in_layer."),
        (r"^time_guidance_embed\.guidance_embedder\.linear_2\.", "guidance_in.out_layer."),
        (r"_modulation(_\w+)?\.linear\.", r"_modulation\1.lin."),
        (r"\.ff\.linear_in\.", ".img_mlp.0."),
        (r"\.ff\.linear_out\.", ".img_mlp.2."),
        (r"\.ff_context\.linear_in\.", ".txt_mlp.0."),
        (r"\.ff_context\.linear_out\.", ".txt_mlp.2."),
        (r"\.attn\.to_qkv_mlp_proj\.", ".linear1."),
        (r"\.attn\.to_out\.", ".linear2."),
    ),
    {name: parts for name, parts in _STREAMS_JOINED.items() if name != "linear1"},
    swapped=r"norm_out\.linear\.",
)
Z_IMAGE = Way(
    (
        (r"^all_final_layer\.2-1\.", "final_layer."),
        (r"^all_x_embedder\.2-1\.", "x_embedder."),
        (r"\.attention\.to_out\.0\.", ".attention.out."),
        (r"\.attention\.norm_([qk])\.", r".attention.\1_norm."),
    ),
    {"attention.qkv": ("attention.to_q", "attention.to_k", "attention.to_v")},
    more=("norm_final.weight",),
)
WAN = Way(
    (
        (r"^condition_embedder\.time_embedder\.linear_1\.", "time_embedding.0."),
        (r"^condition_embedder\.time_embedder\.linear_2\.", "time_embedding.2."),
        (r"^condition_embedder\.text_embedder\.linear_1\.", "text_embedding.0."),
        (r"^condition_embedder\.text_embedder\.linear_2\.", "text_embedding.2."),
        (r"^condition_embedder\.time_proj\.", "time_projection.1."),
        (r"^scale_shift_table", "head.modulation"),
        (r"^proj_out\.", "head.head."),
        (r"\.scale_shift_table", ".modulation"),
        (r"\.ffn\.net\.0\.proj\.", ".ffn.0."),
        (r"\.ffn\.net\.2\.", ".ffn.2."),
        (r"\.attn1\.", ".self_attn."),
        (r"\.attn2\.", ".cross_attn."),
        (r"\.to_([qkv])\.", r".\1."),
        (r"\.to_out\.0\.", ".o."),
        (r"\.norm2\.", ".norm3."),
    )
)
KREA2 = Way(
    (
        (r"^img_in\.", "first."),
        (r"^time_embed\.linear_1\.", "tmlp.0."),
        (r"^time_embed\.linear_2\.", "tmlp.2."),
        (r"^time_mod_proj\.", "tproj.1."),
        (r"^txt_in\.norm\.weight", "txtmlp.0.scale"),
        (r"^txt_in\.linear_1\.", "txtmlp.1."),
        (r"^txt_in\.linear_2\.", "txtmlp.3."),
        (r"^text_fusion\.", "txtfusion."),
        (r"^transformer_blocks\.", "blocks."),
        (r"^final_layer\.linear\.", "last.linear."),
        (r"^final_layer\.norm\.weight", "last.norm.scale"),
        (r"^final_layer\.scale_shift_table", "last.modulation.lin"),
        (r"\.attn\.to_([qkv])\.", r".attn.w\1."),
        (r"\.attn\.to_out\.0\.", ".attn.wo."),
        (r"\.attn\.to_gate\.", ".attn.gate."),
        (r"\.attn\.norm_([qk])\.weight", r".attn.qknorm.\1norm.scale"),
        (r"\.ff\.", ".mlp."),
        (r"\.norm1\.weight", ".prenorm.scale"),
        (r"\.norm2\.weight", ".postnorm.scale"),
        (r"\.scale_shift_table", ".mod.lin"),
    )
)
LTX2 = Way(
    (
        (r"^(audio_)?proj_in\.", r"\1patchify_proj."),
        (r"^(audio_)?time_embed\.", r"\1adaln_single."),
        (r"^av_cross_attn_(video|audio)_scale_shift", r"av_ca_\1_scale_shift_adaln_single"),
        (r"^av_cross_attn_(?:video|audio)_(a2v|v2a)_gate", r"av_ca_\1_gate_adaln_single"),
        (r"\.(video|audio)_a2v_cross_attn_scale_shift_table", r".scale_shift_table_a2v_ca_\1"),
        (r"\.norm_([qk])\.", r".\1_norm."),
    )
)
COSMOS2 = Way(
    (
        (r"^time_embed\.t_embedder\.", "t_embedder.1."),
        (r"^time_embed\.norm\.", "t_embedding_norm."),
        (r"^patch_embed\.proj\.", "x_embedder.proj.1."),
        (r"^norm_out\.linear_(\d)\.", r"final_layer.adaln_modulation.\1."),
        (r"^proj_out\.", "final_layer.linear."),
        (r"^transformer_blocks\.", "blocks."),
        (r"\.norm1\.linear_(\d)\.", r".adaln_modulation_self_attn.\1."),
        (r"\.norm2\.linear_(\d)\.", r".adaln_modulation_cross_attn.\1."),
        (r"\.norm3\.linear_(\d)\.", r".adaln_modulation_mlp.\1."),
        (r"\.attn1\.", ".self_attn."),
        (r"\.attn2\.", ".cross_attn."),
        (r"\.to_([qkv])\.", r".\1_proj."),
        (r"\.to_out\.0\.", ".output_proj."),
        (r"\.norm_([qk])\.", r".\1_norm."),
        (r"\.ff\.net\.0\.proj\.", ".mlp.layer1."),
        (r"\.ff\.net\.2\.", ".mlp.layer2."),
    ),
    more=("accum_iteration", "pos_embedder.seq"),
)
MOCHI = Way(
    (
        (r"^patch_embed\.", "x_embedder."),
        *_steps("time_embed.timestep_embedder", "t_embedder"),
        (r"^time_embed\.pooler\.", "t5_y_embedder."),
        (r"^time_embed\.caption_proj\.", "t5_yproj."),
        (r"^norm_out\.linear\.", "final_layer.mod."),
        (r"^proj_out\.", "final_layer.linear."),
        (r"^transformer_blocks\.", "blocks."),
        (r"\.norm1\.linear\.", ".mod_x."),
        (r"\.norm1_context\.linear(?:_1)?\.", ".mod_y."),
        (r"\.attn1\.norm_added_([qk])\.", r".attn.\1_norm_y."),
        (r"\.attn1\.norm_([qk])\.", r".attn.\1_norm_x."),
        (r"\.attn1\.to_out\.0\.", ".attn.proj_x."),
        (r"\.attn1\.to_add_out\.", ".attn.proj_y."),
        (r"\.ff\.net\.0\.proj\.", ".mlp_x.w1."),
        (r"\.ff\.net\.2\.", ".mlp_x.w2."),
        (r"\.ff_context\.net\.0\.proj\.", ".mlp_y.w1."),
        (r"\.ff_context\.net\.2\.", ".mlp_y.w2."),
    ),
    {
        "attn.qkv_x": ("attn1.to_q", "attn1.to_k", "attn1.to_v"),
        "attn.qkv_y": ("attn1.add_q_proj", "attn1.add_k_proj", "attn1.add_v_proj"),
    },
)
HUNYUAN_VIDEO = Way(
    (
        *_steps("context_embedder.time_text_embed.timestep_embedder", "txt_in.t_embedder"),
        (r"^context_embedder\.time_text_embed\.text_embedder\.", "txt_in.c_embedder."),
        (r"^context_embedder\.token_refiner\.refiner_blocks\.", "txt_in.individual_token_refiner.blocks."),
        (r"^context_embedder\.proj_in\.", "txt_in.input_embedder."),
        (r"^x_embedder\.", "img_in."),
        *_steps("time_text_embed.timestep_embedder", "time_in"),
        *_steps("time_text_embed.guidance_embedder", "guidance_in"),
        (r"^time_text_embed\.text_embedder\.linear_1\.", "vector_in.in_layer."),
        (r"^time_text_embed\.text_embedder\.linear_2\.", "vector_in.out_layer."),
        (r"^norm_out\.linear\.", "final_layer.adaLN_modulation.1."),
        (r"^proj_out\.", "final_layer.linear."),
        (r"^transformer_blocks\.", "double_blocks."),
        (r"^single_transformer_blocks\.", "single_blocks."),
        (r"^(txt_in\..*)\.norm_out\.linear\.", r"\1.adaLN_modulation.1."),
        (r"^(txt_in\..*)\.attn\.to_out\.0\.", r"\1.self_attn_proj."),
        (r"^(txt_in\..*)\.ff\.", r"\1.mlp."),
        (r"\.norm1\.linear\.", ".img_mod.linear."),
        (r"\.norm1_context\.linear\.", ".txt_mod.linear."),
        (r"^(single_blocks\.\d+)\.norm\.linear\.", r"\1.modulation.linear."),
        (r"^(single_blocks\.\d+)\.attn\.norm_([qk])\.", r"\1.\2_norm."),
        (r"^(single_blocks\.\d+)\.proj_out\.", r"\1.linear2."),
        (r"\.attn\.norm_added_([qk])\.", r".txt_attn_\1_norm."),
        (r"\.attn\.norm_([qk])\.", r".img_attn_\1_norm."),
        (r"\.attn\.to_add_out\.", ".txt_attn_proj."),
        (r"\.attn\.to_out\.0\.", ".img_attn_proj."),
        (r"\.ff_context\.", ".txt_mlp."),
        (r"\.ff\.", ".img_mlp."),
        (r"\.net\.0\.proj\.", ".fc1."),
        (r"\.net\.2\.", ".fc2."),
        (r"^(txt_in\..*)\.attn_qkv\.", r"\1.self_attn_qkv."),
        (r"^(double_blocks\..*)\.attn_qkv\.", r"\1.img_attn_qkv."),
    ),
    {
        "linear1": ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"),
        "txt_attn_qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
        "attn_qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    },
)
