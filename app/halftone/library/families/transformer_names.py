"""Names of tensors of FLUX and Stable Diffusion 3 in the code of their makers, and what diffusers calls the same tensors.

Their makers keep the projections of attention in one tensor (FLUX the first layer behind it too), and order the two halves of the
last modulation the other way round.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

Shapes = Mapping[str, tuple[int, ...]]


class Piece(NamedTuple):
    """A parameter of diffusers and where it lies: in these rows of that tensor. swapped: its halves stand in the other order."""

    parameter: str
    tensor: str
    rows: tuple[int, int]
    swapped: bool = False


class Naming(msgspec.Struct, frozen=True, kw_only=True):
    """width: a tensor whose first edge is the width of the network. outer: layer -> layer; blocks: list of blocks -> (what
    diffusers calls it, layer in the block -> layer, or the layers whose rows follow one another in it).
    """

    width: str
    outer: dict[str, str]
    blocks: dict[str, tuple[str, dict[str, str | tuple[str, ...]]]]


_OUTWARD: Final = ("attn.to_q", "attn.to_k", "attn.to_v")
_ADDED: Final = ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")
_LAST: Final = {"final_layer.linear": "proj_out", "final_layer.adaLN_modulation.1": "norm_out.linear"}

FLUX_NAMES: Final = Naming(
    width="img_in.weight",
    outer={
        "time_in.in_layer": "time_text_embed.timestep_embedder.linear_1",
        "time_in.out_layer": "time_text_embed.timestep_embedder.linear_2",
        "vector_in.in_layer": "time_text_embed.text_embedder.linear_1",
        "vector_in.out_layer": "time_text_embed.text_embedder.linear_2",
        "guidance_in.in_layer": "time_text_embed.guidance_embedder.linear_1",
        "guidance_in.out_layer": "time_text_embed.guidance_embedder.linear_2",
        "txt_in": "context_embedder",
        "img_in": "x_embedder",
        **_LAST,
    },
    blocks={
        "double_blocks": (
            "transformer_blocks",
            {
                "img_mod.lin": "norm1.linear",
                "txt_mod.lin": "norm1_context.linear",
                "img_attn.qkv": _OUTWARD,
                "txt_attn.qkv": _ADDED,
                "img_attn.norm.query_norm": "attn.norm_q",
                "img_attn.norm.key_norm": "attn.norm_k",
                "txt_attn.norm.query_norm": "attn.norm_added_q",
                "txt_attn.norm.key_norm": "attn.norm_added_k",
                "img_attn.proj": "attn.to_out.0",
                "txt_attn.proj": "attn.to_add_out",
                "img_mlp.0": "ff.net.0.proj",
                "img_mlp.2": "ff.net.2",
                "txt_mlp.0": "ff_context.net.0.proj",
                "txt_mlp.2": "ff_context.net.2",
            },
        ),
        "single_blocks": (
            "single_transformer_blocks",
            {
                "modulation.lin": "norm.linear",
                "linear1": (*_OUTWARD, "proj_mlp"),
                "linear2": "proj_out",
                "norm.query_norm": "attn.norm_q",
                "norm.key_norm": "attn.norm_k",
            },
        ),
    },
)

SD3_NAMES: Final = Naming(
    width="x_embedder.proj.weight",
    outer={
        "x_embedder.proj": "pos_embed.proj",
        "t_embedder.mlp.0": "time_text_embed.timestep_embedder.linear_1",
        "t_embedder.mlp.2": "time_text_embed.timestep_embedder.linear_2",
        "y_embedder.mlp.0": "time_text_embed.text_embedder.linear_1",
        "y_embedder.mlp.2": "time_text_embed.text_embedder.linear_2",
        "context_embedder": "context_embedder",
        **_LAST,
    },
    blocks={
        "joint_blocks": (
            "transformer_blocks",
            {
                "x_block.attn.qkv": _OUTWARD,
                "context_block.attn.qkv": _ADDED,
                "x_block.attn2.qkv": ("attn2.to_q", "attn2.to_k", "attn2.to_v"),
                "x_block.attn.ln_q": "attn.norm_q",
                "x_block.attn.ln_k": "attn.norm_k",
                "x_block.attn2.ln_q": "attn2.norm_q",
                "x_block.attn2.ln_k": "attn2.norm_k",
                "context_block.attn.ln_q": "attn.norm_added_q",
                "context_block.attn.ln_k": "attn.norm_added_k",
                "x_block.attn.proj": "attn.to_out.0",
                "x_block.attn2.proj": "attn2.to_out.0",
                "context_block.attn.proj": "attn.to_add_out",
                "x_block.adaLN_modulation.1": "norm1.linear",
                "context_block.adaLN_modulation.1": "norm1_context.linear",
                "x_block.mlp.fc1": "ff.net.0.proj",
                "x_block.mlp.fc2": "ff.net.2",
                "context_block.mlp.fc1": "ff_context.net.0.proj",
                "context_block.mlp.fc2": "ff_context.net.2",
            },
        )
    },
)
_TABLE: Final = "pos_embed"
"""Of Stable Diffusion 3: a tensor that is no part of a layer."""
_MODULATION: Final = ".adaLN_modulation."
_KINDS: Final = ("weight", "bias", "scale")
_BLOCK: Final = re.compile(r"(\w+)\.(\d+)\.(.+)")


def pieces(naming: Naming, shapes: Shapes) -> Iterator[Piece]:
    """Every parameter that lies in these tensors. shapes: name in the file, without what stands before all of them -> shape."""
    width = shapes.get(naming.width, (0,))[0]
    for tensor, shape in shapes.items():
        if tensor == _TABLE:
            yield Piece(f"{_TABLE}.{_TABLE}", tensor, (0, shape[0]))
            continue
        layer, _, kind = tensor.rpartition(".")
        if kind not in _KINDS:  # factors of 8-bit numbers
            continue
        names = _layers(naming, layer)
        ends = [width * (number + 1) for number in range(len(names) - 1)] + [shape[0] if shape else 1]
        swapped = _MODULATION in tensor and bool(shape) and shape[0] == 2 * width
        for name, start, end in zip(names, (0, *ends), ends, strict=False):
            yield Piece(f"{name}.{'weight' if kind == 'scale' else kind}", tensor, (start, end), swapped)


def _layers(naming: Naming, layer: str) -> tuple[str, ...]:
    """What diffusers has in the place of a layer; () for one that it does not know."""
    if (name := naming.outer.get(layer)) is not None:
        return (name,)
    match = _BLOCK.fullmatch(layer)
    if match is None or match[1] not in naming.blocks:
        return ()
    ours, inside = naming.blocks[match[1]]
    found = inside.get(match[3], ())
    return tuple(f"{ours}.{match[2]}.{name}" for name in ((found,) if isinstance(found, str) else found))
