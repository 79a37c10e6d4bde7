"""Layers of transformers in the names of their makers, which LoRAs use, and where these lie in diffusers' networks."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from halftone.library.families.original_names import FLUX_NAMES, SD3_NAMES, Naming, Place

_OUTWARD: Final = ("attn.to_q", "attn.to_k", "attn.to_v")
_ADDED: Final = ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")
_SWAPPED: Final = ".adaLN_modulation."
"""Two halves of it are in the other order in diffusers, where it has just two."""

_Inside = dict[str, str | tuple[str, ...]]
"""Layer in a block -> layer, or the layers whose rows follow one another in it."""

_XLABS_DOUBLE: Final[_Inside] = {
    "processor.qkv_lora1": _OUTWARD,
    "processor.qkv_lora2": _ADDED,
    "processor.proj_lora1": "attn.to_out.0",
    "processor.proj_lora2": "attn.to_add_out",
}
_XLABS_SINGLE: Final[_Inside] = {"processor.qkv": _OUTWARD, "processor.proj": "proj_out"}
_FLUX: Final = msgspec.structs.replace(
    FLUX_NAMES,
    blocks={
        name: (ours, inside | (_XLABS_DOUBLE if name == "double_blocks" else _XLABS_SINGLE))
        for name, (ours, inside) in FLUX_NAMES.blocks.items()
    },
)
"""With the names of XLabs, who count the LoRAs of a block."""

_GUIDANCE: Final = "distilled_guidance_layer.layers"
_IN_GUIDANCE: Final[_Inside] = {"in_layer": "linear_1", "out_layer": "linear_2"}
_CHROMA: Final = Naming(
    width="img_in.weight",
    outer={"txt_in": "context_embedder", "img_in": "x_embedder", "final_layer.linear": "proj_out"},
    blocks=FLUX_NAMES.blocks | {_GUIDANCE: (_GUIDANCE, _IN_GUIDANCE)},
)
_FLUX2_DOUBLE: Final[_Inside] = {
    **{theirs: ours for theirs, ours in FLUX_NAMES.blocks["double_blocks"][1].items() if "_attn." in theirs},
    **{f"img_mlp.{number}": f"ff.linear_{way}" for number, way in ((0, "in"), (2, "out"))},
    **{f"txt_mlp.{number}": f"ff_context.linear_{way}" for number, way in ((0, "in"), (2, "out"))},
}
_FLUX2_SINGLE: Final[_Inside] = {
    **FLUX_NAMES.blocks["single_blocks"][1],
    "linear1": "attn.to_qkv_mlp_proj",
    "linear2": "attn.to_out",
}
FLUX2_NAMES: Final = Naming(
    width="img_in.weight",
    outer={
        "img_in": "x_embedder",
        "txt_in": "context_embedder",
        "time_in.in_layer": "time_guidance_embed.timestep_embedder.linear_1",
        "time_in.out_layer": "time_guidance_embed.timestep_embedder.linear_2",
        "guidance_in.in_layer": "time_guidance_embed.guidance_embedder.linear_1",
        "guidance_in.out_layer": "time_guidance_embed.guidance_embedder.linear_2",
        "double_stream_modulation_img.lin": "double_stream_modulation_img.linear",
        "double_stream_modulation_txt.lin": "double_stream_modulation_txt.linear",
        "single_stream_modulation.lin": "single_stream_modulation.linear",
        "final_layer.linear": "proj_out",
        "final_layer.adaLN_modulation.1": "norm_out.linear",
    },
    blocks={
        "double_blocks": ("transformer_blocks", _FLUX2_DOUBLE),
        "single_blocks": ("single_transformer_blocks", _FLUX2_SINGLE),
    },
)
_Z_BLOCK: Final[_Inside] = {
    "attention.qkv": ("attention.to_q", "attention.to_k", "attention.to_v"),
    "attention.out": "attention.to_out.0",
    "attention.q_norm": "attention.norm_q",
    "attention.k_norm": "attention.norm_k",
}
Z_IMAGE_NAMES: Final = Naming(
    width="x_embedder.weight",
    outer={
        "x_embedder": "all_x_embedder.2-1",
        "final_layer.linear": "all_final_layer.2-1.linear",
        "final_layer.adaLN_modulation.1": "all_final_layer.2-1.adaLN_modulation.1",
    },
    blocks={name: (name, _Z_BLOCK) for name in ("layers", "noise_refiner", "context_refiner")},
    alike=True,
    bare=((r"(x|cap)_pad_token", r"\1_pad_token"),),
)
QWEN_NAMES: Final = Naming(width="img_in.weight", outer={}, blocks={}, alike=True)
"""Its makers published it as diffusers has it."""
_LUMINA_BLOCK: Final[_Inside] = {
    "attention.qkv": _OUTWARD,
    "attention.out": "attn.to_out.0",
    "attention.q_norm": "attn.norm_q",
    "attention.k_norm": "attn.norm_k",
    "attention_norm1": "norm1.norm",
    "attention_norm2": "norm2",
    "feed_forward.w1": "feed_forward.linear_1",
    "feed_forward.w2": "feed_forward.linear_2",
    "feed_forward.w3": "feed_forward.linear_3",
    "adaLN_modulation.1": "norm1.linear",
}
_LUMINA2: Final = Naming(
    width="x_embedder.weight",
    outer={
        "cap_embedder.0": "time_caption_embed.caption_embedder.0",
        "cap_embedder.1": "time_caption_embed.caption_embedder.1",
        "t_embedder.mlp.0": "time_caption_embed.timestep_embedder.linear_1",
        "t_embedder.mlp.2": "time_caption_embed.timestep_embedder.linear_2",
        "final_layer.adaLN_modulation.1": "norm_out.linear_1",
        "final_layer.linear": "norm_out.linear_2",
    },
    blocks={
        "layers": ("layers", _LUMINA_BLOCK),
        "noise_refiner": ("noise_refiner", _LUMINA_BLOCK),
        "context_refiner": ("context_refiner", _LUMINA_BLOCK | {"attention_norm1": "norm1"}),
    },
)
_WAN_PARTS: Final = {
    "q": "to_q",
    "k": "to_k",
    "v": "to_v",
    "o": "to_out.0",
    "k_img": "add_k_proj",
    "v_img": "add_v_proj",
    "norm_q": "norm_q",
    "norm_k": "norm_k",
}
_WAN_BLOCK: Final[_Inside] = {
    **{f"self_attn.{theirs}": f"attn1.{ours}" for theirs, ours in _WAN_PARTS.items()},
    **{f"cross_attn.{theirs}": f"attn2.{ours}" for theirs, ours in _WAN_PARTS.items()},
    "ffn.0": "ffn.net.0.proj",
    "ffn.2": "ffn.net.2",
    "norm3": "norm2",
}
WAN_NAMES: Final = Naming(
    width="patch_embedding.weight",
    outer={
        "time_embedding.0": "condition_embedder.time_embedder.linear_1",
        "time_embedding.2": "condition_embedder.time_embedder.linear_2",
        "time_projection.1": "condition_embedder.time_proj",
        "text_embedding.0": "condition_embedder.text_embedder.linear_1",
        "text_embedding.2": "condition_embedder.text_embedder.linear_2",
        "img_emb.proj.1": "condition_embedder.image_embedder.ff.net.0.proj",
        "img_emb.proj.3": "condition_embedder.image_embedder.ff.net.2",
        "head.head": "proj_out",
    },
    blocks={"blocks": ("blocks", _WAN_BLOCK)},
    alike=True,
    bare=((r"head\.modulation", "scale_shift_table"), (r"(blocks\.\d+)\.modulation", r"\1.scale_shift_table")),
)
_REFINER: Final = "txt_in.individual_token_refiner.blocks"
_HUNYUAN: Final = Naming(
    width="img_in.proj.weight",
    outer={
        "img_in.proj": "x_embedder.proj",
        "txt_in.input_embedder": "context_embedder.proj_in",
        "txt_in.t_embedder.mlp.0": "context_embedder.time_text_embed.timestep_embedder.linear_1",
        "txt_in.t_embedder.mlp.2": "context_embedder.time_text_embed.timestep_embedder.linear_2",
        "txt_in.c_embedder.linear_1": "context_embedder.time_text_embed.text_embedder.linear_1",
        "txt_in.c_embedder.linear_2": "context_embedder.time_text_embed.text_embedder.linear_2",
        "time_in.mlp.0": "time_text_embed.timestep_embedder.linear_1",
        "time_in.mlp.2": "time_text_embed.timestep_embedder.linear_2",
        "vector_in.in_layer": "time_text_embed.text_embedder.linear_1",
        "vector_in.out_layer": "time_text_embed.text_embedder.linear_2",
        "guidance_in.mlp.0": "time_text_embed.guidance_embedder.linear_1",
        "guidance_in.mlp.2": "time_text_embed.guidance_embedder.linear_2",
        "final_layer.linear": "proj_out",
        "final_layer.adaLN_modulation.1": "norm_out.linear",
    },
    blocks={
        "double_blocks": (
            "transformer_blocks",
            {
                "img_mod.linear": "norm1.linear",
                "txt_mod.linear": "norm1_context.linear",
                "img_attn_qkv": _OUTWARD,
                "txt_attn_qkv": _ADDED,
                "img_attn_q_norm": "attn.norm_q",
                "img_attn_k_norm": "attn.norm_k",
                "txt_attn_q_norm": "attn.norm_added_q",
                "txt_attn_k_norm": "attn.norm_added_k",
                "img_attn_proj": "attn.to_out.0",
                "txt_attn_proj": "attn.to_add_out",
                "img_mlp.fc1": "ff.net.0.proj",
                "img_mlp.fc2": "ff.net.2",
                "txt_mlp.fc1": "ff_context.net.0.proj",
                "txt_mlp.fc2": "ff_context.net.2",
            },
        ),
        "single_blocks": (
            "single_transformer_blocks",
            {
                "modulation.linear": "norm.linear",
                "linear1": (*_OUTWARD, "proj_mlp"),
                "linear2": "proj_out",
                "q_norm": "attn.norm_q",
                "k_norm": "attn.norm_k",
            },
        ),
        _REFINER: (
            "context_embedder.token_refiner.refiner_blocks",
            {
                "norm1": "norm1",
                "norm2": "norm2",
                "self_attn_qkv": _OUTWARD,
                "self_attn_proj": "attn.to_out.0",
                "mlp.fc1": "ff.net.0.proj",
                "mlp.fc2": "ff.net.2",
                "adaLN_modulation.1": "norm_out.linear",
            },
        ),
    },
    straight="txt_in.",
)
_COMFYUI: Final = (
    (r"(_in|_embedder)\.(?:mlp\.0|linear_1)$", r"\1.in_layer"),
    (r"(_in|_embedder)\.(?:mlp\.2|linear_2)$", r"\1.out_layer"),
    (r"(_mod|modulation)\.linear$", r"\1.lin"),
    (r"_attn_(qkv|proj)$", r"_attn.\1"),
    (r"mlp\.fc1$", "mlp.0"),
    (r"mlp\.fc2$", "mlp.2"),
    (r"_attn_q_norm$", "_attn.norm.query_norm"),
    (r"_attn_k_norm$", "_attn.norm.key_norm"),
    (r"^q_norm$", "norm.query_norm"),
    (r"^k_norm$", "norm.key_norm"),
)
"""Layers of HunyuanVideo that ComfyUI names otherwise, as its own files of the model do."""


def _comfyui(name: str) -> str:
    for pattern, other in _COMFYUI:
        name = re.sub(pattern, other, name)
    return name


HUNYUAN_NAMES: Final = msgspec.structs.replace(
    _HUNYUAN,
    outer=_HUNYUAN.outer | {_comfyui(name): ours for name, ours in _HUNYUAN.outer.items()},
    blocks={
        name: (place, inside | {_comfyui(layer): ours for layer, ours in inside.items()})
        for name, (place, inside) in _HUNYUAN.blocks.items()
    },
)
NAMINGS: Final[dict[str, Naming]] = {
    "FluxTransformer2DModel": _FLUX,
    "SD3Transformer2DModel": SD3_NAMES,
    "ChromaTransformer2DModel": _CHROMA,
    "Flux2Transformer2DModel": FLUX2_NAMES,
    "ZImageTransformer2DModel": Z_IMAGE_NAMES,
    "Lumina2Transformer2DModel": _LUMINA2,
    "WanTransformer3DModel": WAN_NAMES,
    "HunyuanVideoTransformer3DModel": HUNYUAN_NAMES,
}
"""By the network's class in diffusers."""


def layer_places(naming: Naming, sizes: Mapping[str, int]) -> dict[str, dict[str, Place]]:
    """Layer in the maker's names -> layer of the network -> which rows of the former it is. sizes: rows of the network's."""
    width = sizes.get(naming.outer.get(naming.width.removesuffix(".weight"), ""), 0)
    found: dict[str, dict[str, Place]] = {}
    for theirs, ours in _pairs(naming, sizes):
        if all(name in sizes for name in ours):
            ends = [sum(sizes[name] for name in ours[: number + 1]) for number in range(len(ours))]
            swapped = _SWAPPED in theirs and not theirs.startswith(naming.straight) and ends[-1] == 2 * width
            found[theirs] = {
                name: Place(theirs, None if len(ours) == 1 else (end - sizes[name], end), swapped)
                for name, end in zip(ours, ends, strict=True)
            }
    return found


def _pairs(naming: Naming, sizes: Mapping[str, int]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for theirs, ours in naming.outer.items():
        yield theirs, (ours,)
    for theirs, (ours, inside) in naming.blocks.items():
        numbers = {match[1] for name in sizes if (match := re.match(rf"{re.escape(ours)}\.(\d+)\.", name))}
        for number in sorted(numbers, key=int):
            for layer, names in inside.items():
                some = (names,) if isinstance(names, str) else names
                yield f"{theirs}.{number}.{layer}", tuple(f"{ours}.{number}.{name}" for name in some)
