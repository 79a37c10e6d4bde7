"""A diffusers folder as one file: its tensors, in the names of the model's makers, and the parameters that each is made from.

The other way round of `original_names`, which proves it: read as such a file, the result must hold every parameter again.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.library.families.original_names import Naming, Shapes, original_unet_names
from halftone.library.families.single_files import SINGLES, places
from halftone.library.files.header import Header, TensorInfo

_KINDS: Final = ("weight", "bias")
_QKV: Final = ("q_proj", "k_proj", "v_proj")
_TEXT: Final = "text_model."
_TABLE: Final = "encoder.embed_tokens.weight"
_POSITIONS: Final = "embeddings.position_ids"
_VAE_ATTENTION: Final = {
    "group_norm": "norm",
    "to_q": "q",
    "to_k": "k",
    "to_v": "v",
    "to_out.0": "proj_out",
    "query": "q",
    "key": "k",
    "value": "v",
    "proj_attn": "proj_out",
}
"""The last four are what earlier versions of diffusers wrote."""
_OPEN_CLIP: Final = (
    (r"^encoder\.layers\.", "transformer.resblocks."),
    (r"\.layer_norm(\d)\.", r".ln_\1."),
    (r"\.mlp\.fc1\.", ".mlp.c_fc."),
    (r"\.mlp\.fc2\.", ".mlp.c_proj."),
    (r"\.self_attn\.", ".attn."),
    (r"^final_layer_norm\.", "ln_final."),
    (r"^embeddings\.token_embedding\.", "token_embedding."),
    (r"^embeddings\.position_embedding\.weight$", "positional_embedding"),
    (r"^text_projection\.weight$", "text_projection"),
)


class Made(msgspec.Struct, frozen=True):
    """A tensor of the file: the rows of these parameters of a component, one after the other. turned: transposed; swapped: its
    two halves change places.
    """

    name: str
    component: str
    parameters: tuple[str, ...]
    shape: tuple[int, ...]
    turned: bool = False
    swapped: bool = False


def one_file(family: str, parts: Mapping[str, Shapes]) -> tuple[Made, ...]:
    """The tensors of the file. parts: component -> parameter, as its own files name it -> shape.

    Raises HalftoneError no-one-file where the family has no such file, or a part cannot be named in it.
    """
    if family not in SINGLES or not SINGLES[family].written:
        raise HalftoneError("no-one-file", family=family, detail=Words("there is no such file of this family"))
    made = tuple(tensor for component, shapes in parts.items() for tensor in _component(family, component, shapes))
    infos = tuple(TensorInfo(one.name, "F32", one.shape, 0, 0) for one in made)
    held = places(family, Header(infos, {}))
    wanted = {(name, own.removeprefix(_TEXT)) for name, shapes in parts.items() for own in shapes if own != _TABLE}
    wanted = {(name, _modern(own)) for name, own in wanted if not own.endswith(_POSITIONS)}
    found = {(name, own.removeprefix(_TEXT)) for name, own in held if own != _TABLE}
    if wanted != found or len({one.name for one in made}) != len(made):
        detail = Words("such a file has no place for the tensor {0}", (".".join(min(wanted ^ found)),))
        raise HalftoneError("no-one-file", family=family, detail=detail)
    return made


def _component(family: str, component: str, shapes: Shapes) -> Iterator[Made]:
    single = SINGLES[family]
    if component not in single.prefixes:
        raise HalftoneError("no-one-file", family=family, detail=Words("such a file has no place for its {0}", (component,)))
    start = single.prefixes[component][0]
    if component == "unet":
        found = _unet(shapes)
    elif component == "vae":
        found = _vae(shapes)
    elif component == "transformer" and single.naming is not None:
        found = _transformer(single.naming, shapes)
    else:
        found = _text(shapes, open_clip=start.endswith("model."))
    for one in found:
        yield msgspec.structs.replace(one, name=start + one.name, component=component)


def _unet(shapes: Shapes) -> Iterator[Made]:
    layers = {name.rpartition(".")[0] for name in shapes}
    first = [name for name in layers if re.fullmatch(r"down_blocks\.0\.resnets\.\d+\.conv1", name)]
    theirs = {ours: name for name, ours in original_unet_names(layers, len(first)).items()}
    for name, shape in shapes.items():
        layer, _, kind = name.rpartition(".")
        yield Made(f"{theirs.get(layer, layer)}.{kind}", "", (name,), shape)


def _vae(shapes: Shapes) -> Iterator[Made]:
    last = max((int(found[1]) for name in shapes if (found := re.match(r"decoder\.up_blocks\.(\d+)\.", name))), default=0)
    for name, shape in shapes.items():
        attends = ".attentions." in name and name.endswith(".weight") and len(shape) == 2
        yield Made(_vae_name(name, last), "", (name,), (*shape, 1, 1) if attends else shape)


def _vae_name(name: str, last: int) -> str:
    name = re.sub(r"^encoder\.down_blocks\.(\d+)\.", r"encoder.down.\1.", name)
    name = re.sub(r"^decoder\.up_blocks\.(\d+)\.", lambda found: f"decoder.up.{last - int(found[1])}.", name)
    name = re.sub(r"\.(\d+)\.resnets\.", r".\1.block.", name)
    name = re.sub(r"\.(down|up)samplers\.0\.", r".\1sample.", name)
    name = re.sub(r"\.mid_block\.resnets\.(\d+)\.", lambda found: f".mid.block_{int(found[1]) + 1}.", name)
    if found := re.fullmatch(r"(.*)\.mid_block\.attentions\.0\.(.+)\.(weight|bias)", name):
        return f"{found[1]}.mid.attn_1.{_VAE_ATTENTION.get(found[2], found[2])}.{found[3]}"
    return name.replace(".conv_norm_out.", ".norm_out.").replace(".conv_shortcut.", ".nin_shortcut.")


def _modern(name: str) -> str:
    """A parameter of a VAE by its name today."""
    found = re.fullmatch(r"(.*\.attentions\.0)\.(query|key|value|proj_attn)\.(weight|bias)", name)
    newer = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
    return name if found is None else f"{found[1]}.{newer[found[2]]}.{found[3]}"


def _text(shapes: Shapes, *, open_clip: bool) -> Iterator[Made]:
    is_t5 = any("SelfAttention" in name for name in shapes)
    for name, shape in shapes.items():
        own = name.removeprefix(_TEXT)
        if own.endswith(_POSITIONS) or name == _TABLE:
            continue
        if not open_clip:
            bare = is_t5 or own.startswith("text_projection")
            yield Made(own if bare else _TEXT + own, "", (name,), shape)
        elif ".q_proj." in own:
            joined = tuple(name.replace("q_proj", part) for part in _QKV)
            layer = _replaced(own).replace(".q_proj.", ".in_proj_")
            yield Made(layer, "", joined, (3 * shape[0], *shape[1:]))
        elif ".k_proj." not in own and ".v_proj." not in own:
            yield Made(_replaced(own), "", (name,), shape, turned=own == "text_projection.weight")


def _replaced(name: str) -> str:
    for pattern, theirs in _OPEN_CLIP:
        name = re.sub(pattern, theirs, name)
    return name


def _transformer(naming: Naming, shapes: Shapes) -> Iterator[Made]:
    layers: list[tuple[str, tuple[str, ...]]] = [(theirs, (ours,)) for theirs, ours in naming.outer.items()]
    for theirs, (ours, inside) in naming.blocks.items():
        count = 1 + max((int(found[1]) for name in shapes if (found := re.match(rf"{ours}\.(\d+)\.", name))), default=-1)
        for number in range(count):
            for layer, own in inside.items():
                names = (own,) if isinstance(own, str) else own
                layers.append((f"{theirs}.{number}.{layer}", tuple(f"{ours}.{number}.{name}" for name in names)))
    width = next((shapes[f"{ours}.weight"][0] for theirs, ours in naming.outer.items() if naming.width.startswith(theirs)), 0)
    if "pos_embed.pos_embed" in shapes:
        yield Made("pos_embed", "", ("pos_embed.pos_embed",), shapes["pos_embed.pos_embed"])
    for theirs, ours in layers:
        for kind in _KINDS:
            names = tuple(name for layer in ours if (name := f"{layer}.{kind}") in shapes)
            if not names:
                continue
            shape = (sum(shapes[name][0] for name in names), *shapes[names[0]][1:])
            ending = "scale" if theirs.endswith(("query_norm", "key_norm")) else kind
            swapped = ".adaLN_modulation." in theirs and shape[0] == 2 * width
            yield Made(f"{theirs}.{ending}", "", names, shape, swapped=swapped)
