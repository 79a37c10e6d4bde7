"""Names of tensors in whole models of one file, and what diffusers calls the same tensors.

CompVis and Stability AI count the blocks of a UNet through all its levels, those of a VAE's decoder from the end; OpenCLIP keeps
the three projections of attention in one tensor, of which the first is named here.
"""

import re
from collections.abc import Iterable
from typing import Final

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
    """Name in the file, without what stands before all of the UNet's -> name in diffusers' UNet2DConditionModel."""
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


def _vae_name(name: str, last: int) -> str:
    name = re.sub(r"^encoder\.down\.(\d+)\.", r"encoder.down_blocks.\1.", name)
    name = re.sub(r"^decoder\.up\.(\d+)\.", lambda found: f"decoder.up_blocks.{last - int(found[1])}.", name)
    name = re.sub(r"_blocks\.(\d+)\.block\.", r"_blocks.\1.resnets.", name)
    name = re.sub(r"\.(down|up)sample\.", r".\1samplers.0.", name)
    name = re.sub(r"\.mid\.block_(\d)\.", lambda found: f".mid_block.resnets.{int(found[1]) - 1}.", name)
    if found := re.fullmatch(r"(.*)\.mid\.attn_1\.(norm|q|k|v|proj_out)\.(.*)", name):
        return f"{found[1]}.mid_block.attentions.0.{_ATTENTION[found[2]]}.{found[3]}"
    return name.replace(".norm_out.", ".conv_norm_out.").replace(".nin_shortcut.", ".conv_shortcut.")


def text_names(names: Iterable[str]) -> dict[str, str]:
    """The same for a text encoder of CLIP, as transformers or as OpenCLIP has it; without the wrapper "text_model"."""
    found: dict[str, str] = {}
    for name in names:
        own = name.removeprefix("text_model.")
        for pattern, ours in _OPEN_CLIP if own == name else ():
            own = re.sub(pattern, ours, own)
        found[name] = own
    return found


def original_unet_names(names: Iterable[str], per_level: int) -> dict[str, str]:
    """The other way round, of parts of a UNet: name in the original -> in diffusers. per_level: residual blocks of a level on
    the way down.
    """
    given = tuple(names)
    crossing = {found[1] for name in given if (found := re.match(r"(up_blocks\.\d+)\.attentions\.", name))}
    return {theirs: name for name in given if (theirs := _original_unet_name(name, per_level + 1, crossing))}


def _original_unet_name(name: str, in_level: int, crossing: set[str]) -> str:
    """ "" for a part that the original has not. crossing: levels of the way up that have attentions."""
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
