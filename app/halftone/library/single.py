"""Whole models in one file, as the tools of Stability AI and CompVis write them: which parts it holds, and how each is built.

The configurations of the families stand in `resources/configs`; what a file's own shapes say goes before them, so that a smaller
or pruned variant is read as what it is. No weight is read.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.library.families import SD1, SD2, SDXL
from halftone.library.folder import read_json
from halftone.library.header import Header
from halftone.library.original_names import text_names, unet_names, vae_names
from halftone.settings.places import resources

Shapes = Mapping[str, tuple[int, ...]]
Config = dict[str, Any]

_UNET: Final = "model.diffusion_model."
_VAE: Final = "first_stage_model."
_HEAD: Final = 64
"""Channels of one attention head, in every text encoder and in the UNets after the first family."""


class Single(msgspec.Struct, frozen=True, kw_only=True):
    """How one family lies in a file. key: its folder in resources/configs; prefixes: component -> what its tensors' names begin
    with there.
    """

    key: str
    prefixes: dict[str, str]


SINGLES: Final[dict[str, Single]] = {
    SD1.name: Single(key="sd1", prefixes={"unet": _UNET, "vae": _VAE, "text_encoder": "cond_stage_model.transformer."}),
    SD2.name: Single(key="sd2", prefixes={"unet": _UNET, "vae": _VAE, "text_encoder": "cond_stage_model.model."}),
    SDXL.name: Single(
        key="sdxl",
        prefixes={
            "unet": _UNET,
            "vae": _VAE,
            "text_encoder": "conditioner.embedders.0.transformer.",
            "text_encoder_2": "conditioner.embedders.1.model.",
        },
    ),
}
"""By the name of the family."""

_NAMES: Final = {"unet": unet_names, "vae": vae_names}
_UNUSED: Final = 23
"""The text encoder of Stable Diffusion 2 has one layer more, which is never used: diffusers reads the result before it."""


class Place(NamedTuple):
    """A tensor of a file, or only these rows of it."""

    tensor: str
    rows: tuple[int, int] | None = None


_PARTS: Final = {
    "unet": "the denoiser (UNet)",
    "vae": "the VAE",
    "text_encoder": "a text encoder",
    "text_encoder_2": "a text encoder",
}


def missing_parts(family: str, header: Header) -> tuple[str, ...]:
    """Parts that a whole model of this family has and the file has not, for a sentence; () also for a family not known here."""
    single = SINGLES.get(family)
    if single is None:
        return ()
    held = {name for name, prefix in single.prefixes.items() if any(tensor.name.startswith(prefix) for tensor in header.tensors)}
    return tuple(dict.fromkeys(_PARTS[name] for name in single.prefixes if name not in held))


def component_of(family: str, tensor: str) -> str | None:
    """The component that a tensor belongs to; None where none reads it (averages kept by training, noise schedules)."""
    prefixes = SINGLES[family].prefixes.items()
    return next((name for name, prefix in prefixes if tensor.startswith(prefix)), None)


def kinds_by_component(family: str, header: Header) -> dict[str, set[str]]:
    """Component -> the types of its tensors, as the file spells them."""
    found: dict[str, set[str]] = {}
    for tensor in header.tensors:
        if (name := component_of(family, tensor.name)) is not None:
            found.setdefault(name, set()).add(tensor.dtype)
    return found


def module_names(family: str, header: Header) -> dict[str, tuple[str, str]]:
    """Tensor of the file -> (component, name of the parameter there), of all that a component reads. Of three projections that
    lie in one tensor, the first.
    """
    found: dict[str, tuple[str, str]] = {}
    for component, prefix in SINGLES[family].prefixes.items():
        own = [tensor.name.removeprefix(prefix) for tensor in header.tensors if tensor.name.startswith(prefix)]
        names = _NAMES.get(component, text_names)(own)
        found |= {prefix + given: (component, name) for given, name in names.items()}
    return found


def places(family: str, header: Header) -> dict[tuple[str, str], Place]:
    """(component, parameter) -> where it lies in the file."""
    rows = {tensor.name: tensor.shape[0] for tensor in header.tensors if tensor.shape}
    found: dict[tuple[str, str], Place] = {}
    for tensor, (component, name) in module_names(family, header).items():
        if ".in_proj_" not in tensor:
            found[component, name] = Place(tensor)
            continue
        third = rows[tensor] // 3
        for index, part in enumerate(("q_proj", "k_proj", "v_proj")):
            found[component, name.replace("q_proj", part)] = Place(tensor, (index * third, (index + 1) * third))
    return found


def of_component(found: Mapping[tuple[str, str], Place], component: str) -> dict[str, Place]:
    """Of one component: parameter -> where it lies."""
    return {name: place for (part, name), place in found.items() if part == component}


def place_of(found: Mapping[tuple[str, str], Place], component: str, parameter: str) -> Place:
    """Where a parameter of a loaded component lies; the libraries wrap some text encoders. Raises KeyError."""
    name = parameter if (component, parameter) in found else parameter.removeprefix("text_model.")
    return found[component, name]


def configs(family: str, header: Header) -> dict[str, Config]:
    """Component -> its configuration, scheduler and tokenizers included; "model_index" -> that of the pipeline.

    Raises HalftoneError model-not-a-model where a part lacks the tensors that tell its shape.
    """
    single = SINGLES[family]
    folder = resources() / "configs" / single.key
    found = {file.parent.name: cast("Config", read_json(file)) for file in sorted(folder.glob("*/*.json"))}
    found["model_index"] = cast("Config", read_json(folder / "model_index.json"))
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    own = {name: _without(prefix, shapes) for name, prefix in single.prefixes.items()}
    try:
        found["unet"] |= _unet(own["unet"], found["unet"])
        found["vae"] |= _vae(own["vae"])
        for name in own.keys() - {"unet", "vae"}:
            found[name] |= _open_clip(own[name]) if any("resblocks" in key for key in own[name]) else _clip(own[name])
    except (KeyError, IndexError) as error:
        raise HalftoneError("model-not-a-model", f"no tensor {error}", path="") from error
    if "addition_time_embed_dim" in found["unet"]:
        pooled = found["text_encoder_2"]["projection_dim"]
        found["unet"]["addition_time_embed_dim"] = (found["unet"]["projection_class_embeddings_input_dim"] - pooled) // 6
    if found["unet"]["in_channels"] > found["vae"]["latent_channels"]:
        found["model_index"]["_class_name"] = str(found["model_index"]["_class_name"]).replace("Pipeline", "InpaintPipeline")
    found["scheduler"] |= _prediction(header)
    return found


def _without(prefix: str, shapes: Shapes) -> dict[str, tuple[int, ...]]:
    return {name.removeprefix(prefix): shape for name, shape in shapes.items() if name.startswith(prefix)}


def _prediction(header: Header) -> Config:
    """What the model predicts, where the file says so: by its metadata (Stability's model specification), or by empty tensors
    that trainers of velocity models add.
    """
    names = {tensor.name for tensor in header.tensors}
    said = header.metadata.get("modelspec.prediction_type", "").lower()
    found: Config = {}
    if "v_pred" in names or said in ("v", "v_prediction"):
        found["prediction_type"] = "v_prediction"
    elif said in ("epsilon", "eps"):
        found["prediction_type"] = "epsilon"
    if "ztsnr" in names:
        found |= {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
    return found


def _unet(shapes: Shapes, family: Config) -> Config:
    levels: list[list[int]] = [[]]
    for index in range(1, 1 + _count(shapes, r"input_blocks\.(\d+)\.")):
        if f"input_blocks.{index}.0.op.weight" in shapes:
            levels.append([])
        elif f"input_blocks.{index}.0.out_layers.3.weight" in shapes:
            levels[-1].append(index)
    channels = [shapes[f"input_blocks.{level[0]}.0.out_layers.3.weight"][0] for level in levels]
    depths = [_count(shapes, rf"input_blocks\.{level[0]}\.1\.transformer_blocks\.(\d+)\.") for level in levels]
    keys = next(shape for name, shape in shapes.items() if name.endswith("attn2.to_k.weight"))
    projections = (shape for name, shape in shapes.items() if name.endswith(".1.proj_in.weight"))
    heads = family["attention_head_dim"]
    config: Config = {
        "in_channels": shapes["input_blocks.0.0.weight"][1],
        "out_channels": shapes["out.2.weight"][0],
        "block_out_channels": channels,
        "layers_per_block": len(levels[0]),
        "cross_attention_dim": keys[1],
        "down_block_types": ["CrossAttnDownBlock2D" if depth else "DownBlock2D" for depth in depths],
        "up_block_types": ["CrossAttnUpBlock2D" if depth else "UpBlock2D" for depth in reversed(depths)],
        "transformer_layers_per_block": [max(1, depth) for depth in depths],
        "use_linear_projection": len(next(projections)) == 2,
        "attention_head_dim": heads if isinstance(heads, int) else [max(1, width // _HEAD) for width in channels],
    }
    if "label_emb.0.0.weight" in shapes:
        config["projection_class_embeddings_input_dim"] = shapes["label_emb.0.0.weight"][1]
    return config


def _vae(shapes: Shapes) -> Config:
    levels = _count(shapes, r"encoder\.down\.(\d+)\.")
    return {
        "block_out_channels": [shapes[f"encoder.down.{level}.block.0.conv1.weight"][0] for level in range(levels)],
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "layers_per_block": _count(shapes, r"encoder\.down\.0\.block\.(\d+)\."),
        "latent_channels": shapes["decoder.conv_in.weight"][1],
    }


def _clip(shapes: Shapes) -> Config:
    table = shapes["text_model.embeddings.token_embedding.weight"]
    return {
        "vocab_size": table[0],
        "hidden_size": table[1],
        "num_attention_heads": max(1, table[1] // _HEAD),
        "num_hidden_layers": _count(shapes, r"text_model\.encoder\.layers\.(\d+)\."),
        "intermediate_size": shapes["text_model.encoder.layers.0.mlp.fc1.weight"][0],
        "max_position_embeddings": shapes["text_model.embeddings.position_embedding.weight"][0],
    }


def _open_clip(shapes: Shapes) -> Config:
    """As OpenCLIP names them."""
    table = shapes["token_embedding.weight"]
    layers = _count(shapes, r"transformer\.resblocks\.(\d+)\.")
    config: Config = {
        "vocab_size": table[0],
        "hidden_size": table[1],
        "num_attention_heads": max(1, table[1] // _HEAD),
        "num_hidden_layers": _UNUSED if layers == _UNUSED + 1 else layers,
        "intermediate_size": shapes["transformer.resblocks.0.mlp.c_fc.weight"][0],
        "max_position_embeddings": shapes["positional_embedding"][0],
    }
    if "text_projection" in shapes:
        config["projection_dim"] = shapes["text_projection"][1]
    return config


def _count(shapes: Shapes, pattern: str) -> int:
    """One more than the largest index that stands in such names; 0 where there is none."""
    found = [int(match[1]) for name in shapes if (match := re.match(pattern, name))]
    return max(found, default=-1) + 1
