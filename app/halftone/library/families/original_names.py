"""Names of tensors in whole models of one file -> names in diffusers.

CompVis and Stability AI count the blocks of a UNet through all its levels, those of a VAE's decoder from the end; OpenCLIP has
the three projections of attention in one tensor, of which the first is named here. So have FLUX (the next layer, too) and SD 3,
with the two halves of the last modulation the other way round.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

_RESNET: Final = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "emb_layers.1": "time_emb_proj",
    "skip_connection": "conv_shortcut",
}
_OUTER: Final = {
    "time_embed.0": "time_embedding.linear_1",
    "time_embed.2": "time_embedding.linear_2",
    "label_emb.0.0": "add_embedding.linear_1",
    "label_emb.0.2": "add_embedding.linear_2",
    "input_blocks.0.0": "conv_in",
    "out.0": "conv_norm_out",
    "out.2": "conv_out",
}
_ATTENTION: Final = {"norm": "group_norm", "q": "to_q", "k": "to_k", "v": "to_v", "proj_out": "to_out.0"}
_MIDDLE: Final = {"0": "resnets.0", "1": "attentions.0", "2": "resnets.1"}
_PART: Final = re.compile(
    r"(down_blocks|up_blocks|mid_block)(?:\.(\d+))?\.(resnets|attentions|downsamplers|upsamplers)\.(\d+)\.(.*)"
)
_OPEN_CLIP: Final = (
    (r"^transformer\.resblocks\.", "encoder.layers."),
    (r"\.ln_(\d)\.", r".layer_norm\1."),
    (r"\.mlp\.c_fc\.", ".mlp.fc1."),
    (r"\.mlp\.c_proj\.", ".mlp.fc2."),
    (r"\.attn\.in_proj_", ".self_attn.q_proj."),
    (r"\.attn\.", ".self_attn."),
    (r"^ln_final\.", "final_layer_norm."),
    (r"^token_embedding\.", "embeddings.token_embedding."),
    (r"^positional_embedding$", "embeddings.position_embedding.weight"),
    (r"^text_projection$", "text_projection.weight"),
)


def unet_names(names: Iterable[str]) -> dict[str, str]:
    """Name in the file, without the UNet's prefix -> name in diffusers' UNet2DConditionModel."""
    given = tuple(names)
    downs = [int(found[1]) for name in given if (found := re.match(r"input_blocks\.(\d+)\.0\.op\.", name))]
    last = max((int(found[1]) for name in given if (found := re.match(r"input_blocks\.(\d+)\.", name))), default=0)
    in_level = min(downs, default=last + 1)  # residual blocks of a level, and the layer that halves
    return {name: _unet_name(name, in_level) for name in given}


def _unet_name(name: str, in_level: int) -> str:
    for theirs, ours in _OUTER.items():
        if name.startswith(f"{theirs}."):
            return ours + name.removeprefix(theirs)
    kind, _, rest = name.partition(".")
    first, _, rest = rest.partition(".")
    if kind == "middle_block" and first in _MIDDLE:
        return f"mid_block.{_MIDDLE[first]}.{_resnet(rest)}"
    place, _, rest = rest.partition(".")
    if kind not in ("input_blocks", "output_blocks") or not first.isdigit():
        return name
    down = kind == "input_blocks"
    level, at = divmod(int(first) - down, in_level)
    block = f"{'down' if down else 'up'}_blocks.{level}"
    if rest.startswith("op."):
        return f"{block}.downsamplers.0.conv.{rest.removeprefix('op.')}"
    if rest.startswith("conv."):
        return f"{block}.upsamplers.0.{rest}"
    return f"{block}.resnets.{at}.{_resnet(rest)}" if place == "0" else f"{block}.attentions.{at}.{rest}"


def _resnet(rest: str) -> str:
    for theirs, ours in _RESNET.items():
        if rest.startswith(f"{theirs}."):
            return ours + rest.removeprefix(theirs)
    return rest


def vae_names(names: Iterable[str]) -> dict[str, str]:
    """The same for AutoencoderKL."""
    given = tuple(names)
    last = max((int(found[1]) for name in given if (found := re.match(r"decoder\.up\.(\d+)\.", name))), default=0)
    return {name: _vae_name(name, last) for name in given}


@lru_cache(1024)
def _vae_name(name: str, last: int) -> str:
    name = re.sub(r"^encoder\.down\.(\d+)\.", r"encoder.down_blocks.\1.", name)
    name = re.sub(r"^decoder\.up\.(\d+)\.", lambda found: f"decoder.up_blocks.{last - int(found[1])}.", name)
    name = re.sub(r"_blocks\.(\d+)\.block\.", r"_blocks.\1.resnets.", name)
    name = re.sub(r"\.(down|up)sample\.", r".\1samplers.0.", name)
    name = re.sub(r"\.mid\.block_(\d)\.", lambda found: f".mid_block.resnets.{int(found[1]) - 1}.", name)
    if found := re.fullmatch(r"(.*)\.mid\.attn_1\.(norm|q|k|v|proj_out)\.(.*)", name):
        return f"{found[1]}.mid_block.attentions.0.{_ATTENTION[found[2]]}.{found[3]}"
    return name.replace(".norm_out.", ".conv_norm_out.").replace(".nin_shortcut.", ".conv_shortcut.")


def flux2_vae_names(names: Iterable[str]) -> dict[str, str]:
    """The same for AutoencoderKLFlux2, whose two outermost layers its makers count to the encoder and to the decoder."""
    return {name: re.sub(r"^(?:en|de)coder\.(?=(?:post_)?quant_conv\.)", "", ours) for name, ours in vae_names(names).items()}


def text_names(names: Iterable[str]) -> dict[str, str]:
    """The same for a text encoder of CLIP, as transformers or as OpenCLIP has it; without the wrapper "text_model"."""
    return {name: _text_name(name) for name in names}


@lru_cache(2048)
def _text_name(name: str) -> str:
    own = name.removeprefix("text_model.")
    for pattern, ours in _OPEN_CLIP if own == name else ():
        own = re.sub(pattern, ours, own)
    return own


def original_unet_names(names: Iterable[str], per_level: int) -> dict[str, str]:
    """Part of a UNet in the original -> in diffusers. per_level: residual blocks of a level on the way down."""
    given = tuple(names)
    crossing = {found[1] for name in given if (found := re.match(r"(up_blocks\.\d+)\.attentions\.", name))}
    return {theirs: name for name in given if (theirs := _original_unet_name(name, per_level + 1, crossing))}


def _original_unet_name(name: str, in_level: int, crossing: set[str]) -> str:
    """ "" for a part that the original does not have. crossing: levels of the way up that have attentions."""
    for theirs, ours in _OUTER.items():
        if name == ours:
            return theirs
    found = _PART.fullmatch(name)
    if found is None:
        return ""
    block, level, kind, at, rest = found[1], int(found[2] or 0), found[3], int(found[4]), found[5]
    if kind == "resnets":
        rest = next((theirs for theirs, ours in _RESNET.items() if ours == rest), rest)
    place = "1" if kind == "attentions" else "0"
    if block == "mid_block":
        return f"middle_block.{1 if kind == 'attentions' else 2 * at}.{rest}"
    if kind == "downsamplers":
        return f"input_blocks.{(level + 1) * in_level}.0.op"
    if kind == "upsamplers":
        return f"output_blocks.{level * in_level + in_level - 1}.{2 if f'{block}.{level}' in crossing else 1}.conv"
    first = level * in_level + at + (block == "down_blocks")
    return f"{'input' if block == 'down_blocks' else 'output'}_blocks.{first}.{place}.{rest}"


Shapes = Mapping[str, tuple[int, ...]]


class Place(NamedTuple):
    """A tensor of a file, or only these rows of it. swapped: the two halves of these rows are in the other order."""

    tensor: str
    rows: tuple[int, int] | None = None
    swapped: bool = False


class Naming(msgspec.Struct, frozen=True, kw_only=True):
    """width: a tensor whose first edge is the width of the network. outer: layer -> layer; blocks: list of blocks -> (its name in
    diffusers, layer in the block -> layer, or the layers whose rows follow one another in it). alike: other layers have the same
    name in both; bare: (pattern, parameter) of tensors that are no layer's weight or bias. straight: before the names
    of layers whose halves are in the same order in both.
    """

    width: str
    outer: dict[str, str]
    blocks: dict[str, tuple[str, dict[str, str | tuple[str, ...]]]]
    alike: bool = False
    bare: tuple[tuple[str, str], ...] = ()
    straight: str = "-"


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
"""A tensor of Stable Diffusion 3 that is no part of a layer."""
_MODULATION: Final = ".adaLN_modulation."
_KINDS: Final = ("weight", "bias", "scale")
_BLOCK: Final = re.compile(r"([a-z_.]+)\.(\d+)\.(.+)")


def transformer_places(naming: Naming, shapes: Shapes) -> Iterator[tuple[str, Place]]:
    """(parameter, where it is) of all in these tensors. shapes: by the names in the file without their prefix."""
    width = shapes.get(naming.width, (0,))[0]
    for tensor, shape in shapes.items():
        if tensor == _TABLE:
            yield f"{_TABLE}.{_TABLE}", Place(tensor)
            continue
        layer, _, kind = tensor.rpartition(".")
        if kind not in _KINDS:  # factors of 8-bit numbers, and what stands alone
            found = ((pattern, ours) for pattern, ours in naming.bare if re.fullmatch(pattern, tensor))
            yield from ((re.sub(pattern, ours, tensor), Place(tensor)) for pattern, ours in found)
            continue
        names = _layers(naming, layer)
        ends = [width * (number + 1) for number in range(len(names) - 1)] + [shape[0] if shape else 1]
        swapped = _MODULATION in tensor and not tensor.startswith(naming.straight) and bool(shape) and shape[0] == 2 * width
        for name, start, end in zip(names, (0, *ends), ends, strict=False):
            whole = not swapped and (not shape or (start, end) == (0, shape[0]))
            yield f"{name}.{'weight' if kind == 'scale' else kind}", Place(tensor, None if whole else (start, end), swapped)


def _layers(naming: Naming, layer: str) -> tuple[str, ...]:
    """The layers of diffusers in the place of one; () for an unknown one."""
    same = (layer,) if naming.alike else ()
    if (name := naming.outer.get(layer)) is not None:
        return (name,)
    match = _BLOCK.fullmatch(layer)
    if match is None or match[1] not in naming.blocks:
        return same
    ours, inside = naming.blocks[match[1]]
    found = inside.get(match[3], match[3] if naming.alike else ())
    return tuple(f"{ours}.{match[2]}.{name}" for name in ((found,) if isinstance(found, str) else found))
