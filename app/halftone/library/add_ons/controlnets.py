"""ControlNets: a diffusers folder, or one safetensors file in diffusers' or the original names; recognised from headers alone."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.limits import CONTROL_RANGE
from halftone.contract.parameters import check_range
from halftone.contract.request import Control
from halftone.contract.wording import Words
from halftone.library.add_ons.control_kinds import UNION, check_kind, kinds_of, union_config
from halftone.library.add_ons.lllite import LLLITE, light_config, light_names, light_parts, unread_light
from halftone.library.add_ons.named_files import config_in, reading, weights_in
from halftone.library.add_ons.t2i_adapters import T2I, adapter_config, adapter_names, adapter_traits, unread_adapter
from halftone.library.add_ons.transformer_controls import SHAPED, in_diffusers_names, transformer_config
from halftone.library.add_ons.unusable_files import instead
from halftone.library.families.known_families import BY_NAME, FLUX, HUNYUAN_DIT, QWEN_IMAGE, SANA, SD1, SD2, SD3, SDXL
from halftone.library.families.original_names import unet_names
from halftone.library.families.recognise import Kind, Recognised, recognise
from halftone.library.families.single_files import SINGLES, Config, configs
from halftone.library.families.split_files import model_header
from halftone.library.files.folder import read_json
from halftone.library.files.header import Header, TensorInfo, read_header

CONTROLNET: Final = "controlnet"
"""The component; several are one, with "nets.0." and so on before the names of their parts."""
UNETS: Final = "ControlNetModel"
"""The class of those for UNets, the only one that is read from single files."""
CLASSES: Final = {
    SD1.name: UNETS,
    SD2.name: UNETS,
    SDXL.name: UNETS,
    SD3.name: "SD3ControlNetModel",
    FLUX.name: "FluxControlNetModel",
    QWEN_IMAGE.name: "QwenImageControlNetModel",
    HUNYUAN_DIT.name: "HunyuanDiT2DControlNetModel",
    SANA.name: "SanaControlNetModel",
}
"""Family -> class of its ControlNets."""
OTHERS: Final = {T2I: (SD1.name, SDXL.name), UNION: (SDXL.name,), LLLITE: (SDXL.name,)}
"""Class of what is used as a ControlNet -> families."""
_MODED: Final = (UNETS, T2I, UNION)
"""Classes of those that may count softly, or for the prompt alone."""
_KIND: Final = "ControlNet"
_T2I_KIND: Final = "T2I-Adapter"
KINDS: Final[tuple[Kind, ...]] = (_KIND, _T2I_KIND)
"""Kinds of files."""
_UNFIT: Final = "control-not-a-controlnet"
_TEXT_WIDTHS: Final = ("joint_attention_dim", "caption_channels", "cross_attention_dim")
_TRAITS: Final = {"text": "text width", "layers": "layer width", "sizes": "size input"}
_START: Final = "control_model."
UP: Final = ".up"
DOWN: Final = ".down"
"""Ends of the two factors of what a Control-LoRA adds to a weight."""
Form = Literal["", "Control-LoRA", "difference"]
"""What a file is that holds only changes of a model's own UNet; "" for one that holds all weights."""
_MARKS: Final[dict[str, Form]] = {"lora_controlnet": "Control-LoRA", "difference": "difference"}
"""Tensors that say so."""
_HINTS: Final = re.compile(r"input_hint_block\.(\d+)\.(.*)")
_ZERO: Final = re.compile(r"zero_convs\.(\d+)\.0\.(.*)")


def check_controls(controls: Iterable[Control]) -> None:
    """Raise HalftoneError for what no model can use, from the headers alone: value-out-of-range, setting-bad-value,
    control-missing, control-not-a-controlnet, model-truncated, model-bad-header.
    """
    for control in controls:
        check_range(Words("The strength of the ControlNet {0}", (control.name,)), control.scale, CONTROL_RANGE)
        if not 0 <= control.start < control.end <= 1:
            name = Words("The step range of the ControlNet {0}", (control.name,))
            value, allowed = f"{control.start:g}–{control.end:g}", Words("a part from 0 to 1, for instance 0 to 0.8")
            raise HalftoneError("setting-bad-value", name=name, value=value, allowed=allowed)
        check_kind(control, config_of(control.path))


def takes_controls(model: ModelFacts) -> bool:
    """Whether there are ControlNets for a model; True where its family is not known."""
    return model.family not in BY_NAME or model.family in CLASSES


def check_fit(controls: Iterable[Control], model: ModelFacts) -> None:
    """Raise HalftoneError control-unsupported, control-other-base for one of another kind, and as `check_controls`."""
    for control in controls:
        wanted = CLASSES.get(model.family)
        own = denoiser_config(model)
        if wanted is None or own is None:
            detail = Words("Halftone has no ControlNet for {0} models", (model.family,))
            raise HalftoneError("control-unsupported", model=model.name, detail=detail)
        config = config_of(control.path)
        kind = str(config["_class_name"])
        if control.mode != "balanced" and kind not in _MODED:
            name, allowed = (
                Words("The control mode of {0}", (control.name,)),
                Words("balanced, as ControlNets of its kind have no other"),
            )
            raise HalftoneError("setting-bad-value", name=name, value=control.mode, allowed=allowed)
        if kind != wanted and model.family not in OTHERS.get(kind, ()):
            raise _other_base(control, model, Words("its class is {0}, and this model needs {1}", (kind, wanted)))
        needed = _traits(own)
        for name, given in _traits(config).items():
            if given != (theirs := needed[name]) and not (name == "text" and given is None):  # some read no words
                values = (Words(_TRAITS[name]), *(Words("none") if one is None else str(one) for one in (given, theirs)))
                raise _other_base(control, model, Words("its {0} is {1}, and the model's is {2}", values))


def denoiser_config(model: ModelFacts) -> Config | None:
    """The configuration of the model's denoiser; None where that is not known."""
    path = Path(model.path)
    if os.path.isdir(path):
        file = next((path / name / "config.json" for name in ("unet", "transformer") if name in model.components), None)
        return None if file is None else read_json(file)
    return configs(model.family, model_header(model), model.path).get("unet") if model.family in SINGLES else None


def takes_modes(path: str) -> bool:
    """Whether it has control modes other than balanced; False for what cannot be read."""
    try:
        return config_of(path)["_class_name"] in _MODED
    except HalftoneError:
        return False


def kinds_in(path: str) -> tuple[str, ...]:
    """The kinds of pictures between which one has to choose; none for a plain ControlNet, or what cannot be read."""
    try:
        return kinds_of(config_of(path))
    except HalftoneError:
        return ()


def folder_config(path: Path) -> Config | None:
    """The configuration in a ControlNet's folder; None for a file."""
    return read_json(path / "config.json") if os.path.isdir(path) else None


def weight_files(path: str) -> tuple[Path, ...]:
    """Its files, a divided one in order. Raises as `check_controls`."""
    return tuple(file for file, _ in weights_in(path, _UNFIT)) if os.path.isdir(path) else (Path(path),)


def file_config(header: Header) -> Config | None:
    """The configuration of what is in one file; None for a ControlNet, which is configured as the UNet beside which it runs."""
    if _holds_lights(header):
        return light_config({tensor.name: tensor.shape for tensor in header.tensors})
    if not _holds_adapter(header):
        return None
    return {"_class_name": T2I, **adapter_config(_shapes(header))}


def form_of(header: Header) -> Form:
    """Whether a file holds only changes of a model's own UNet."""
    marks: list[Form] = [_MARKS[tensor.name] for tensor in header.tensors if tensor.name in _MARKS]
    return marks[0] if marks else ""


def stands_on_model(path: str) -> bool:
    """Whether its weights depend on those of the model beside which it runs."""
    return not os.path.isdir(path) and form_of(read_header(Path(path))) != ""


def _shapes(header: Header) -> dict[str, tuple[int, ...]]:
    """By the names in diffusers; of two factors, that of the weight to which they are added."""
    ours = parameter_names(header)
    found = {ours[tensor.name]: tensor.shape for tensor in header.tensors if tensor.name in ours}
    stems = [name.removesuffix(UP) for name in found if name.endswith(UP) and name.removesuffix(UP) + DOWN in found]
    return found | {f"{stem}.weight": (*found[stem + UP][:1], *found[stem + DOWN][1:]) for stem in stems}


def control_tensors(header: Header) -> list[TensorInfo]:
    """Tensors with as many numbers as those that are held in memory: a Control-LoRA's weights in the place of their factors."""
    if form_of(header) != "Control-LoRA":
        return list(header.tensors)
    shapes, first = _shapes(header), header.tensors[0]
    whole = {name: shape for name, shape in shapes.items() if not name.endswith((UP, DOWN))}
    return [msgspec.structs.replace(first, name=name, shape=shape) for name, shape in whole.items()]


def _holds_adapter(header: Header) -> bool:
    return any(re.match(r"(adapter\.)?body\.0\.", tensor.name) for tensor in header.tensors)


def _holds_lights(header: Header) -> bool:
    return any(all(light_parts(tensor.name)) for tensor in header.tensors)


def parameter_names(header: Header) -> dict[str, str]:
    """Tensor of the file -> name of the parameter in diffusers."""
    if _holds_lights(header):
        return light_names(tensor.name for tensor in header.tensors)
    if _holds_adapter(header):
        return adapter_names(tensor.name for tensor in header.tensors)
    start = _START if any(tensor.name.startswith(_START) for tensor in header.tensors) else ""
    own = (tensor.name for tensor in header.tensors if tensor.name.startswith(start) and tensor.name not in _MARKS)
    given = {name: name.removeprefix(start) for name in own}
    if not any(own.startswith("input_hint_block.") for own in given.values()) or in_diffusers_names(given.values()):
        return given
    last = max((int(match[1]) for own in given.values() if (match := _HINTS.match(own))), default=0)
    ours = unet_names(given.values())
    return {name: _control_name(ours[own], last) for name, own in given.items()}


def _control_name(name: str, last: int) -> str:
    """last: index of the last convolution of the hint's encoder; every second entry there is an activation."""
    if match := _HINTS.fullmatch(name):
        index = int(match[1])
        place = "conv_in" if index == 0 else "conv_out" if index == last else f"blocks.{index // 2 - 1}"
        return f"controlnet_cond_embedding.{place}.{match[2]}"
    if name.startswith("transformer_layes."):  # of a Union, as ComfyUI's class spells it
        return name.replace(".attn.in_proj.", ".attn.in_proj_")
    if match := _ZERO.fullmatch(name):
        return f"controlnet_down_blocks.{match[1]}.{match[2]}"
    return name.replace("middle_block_out.0.", "controlnet_mid_block.")


def shaped(shapes: Mapping[str, tuple[int, ...]]) -> Config:
    """What the shapes of one for UNets tell of its configuration. shapes: by the names in diffusers. Raises KeyError."""
    levels = sorted({int(match[1]) for name in shapes if (match := re.match(r"down_blocks\.(\d+)\.", name))})
    hint = "controlnet_cond_embedding"
    blocks = sorted({int(match[1]) for name in shapes if (match := re.match(rf"{hint}\.blocks\.(\d+)\.weight", name))})
    texts = [shape[1] for name, shape in sorted(shapes.items()) if name.endswith("attn2.to_k.weight")]
    return {
        "in_channels": shapes["conv_in.weight"][1],
        "block_out_channels": [shapes[f"down_blocks.{level}.resnets.0.conv1.weight"][0] for level in levels],
        "cross_attention_dim": texts[0] if texts else None,
        "addition_embed_type": "text_time" if "add_embedding.linear_1.weight" in shapes else None,
        "conditioning_channels": shapes[f"{hint}.conv_in.weight"][1],
        "conditioning_embedding_out_channels": [
            shapes[f"{hint}.conv_in.weight"][0],
            *(shapes[f"{hint}.blocks.{block}.weight"][0] for block in blocks if block % 2),
        ],
        **union_config(shapes),
    }


def config_of(path: str) -> Config:
    """Its class and configuration; of a file, as far as names and shapes tell. Raises as `check_controls`."""
    with reading(path, "control-missing", _UNFIT) as place:
        return _of_folder(place) if os.path.isdir(place) else _of_file(place)


def _of_folder(folder: Path) -> Config:
    config = config_in(folder, _UNFIT, Words("it is a whole model"))
    kind = config.get("_class_name")
    if kind not in (*CLASSES.values(), *OTHERS):
        detail = Words("its config.json is not that of a supported ControlNet")
        raise HalftoneError(_UNFIT, path=str(folder), detail=detail)
    weight_files(str(folder))
    return config


def _of_file(file: Path) -> Config:
    header = read_header(file)
    found = recognise(header, file.stem)
    if found.kind not in KINDS:
        raise HalftoneError(_UNFIT, path=str(file), detail=instead(found, _KIND))
    if (reason := _unread(found, header)) is not None:
        raise HalftoneError(_UNFIT, path=str(file), detail=reason)
    try:
        if (config := file_config(header)) is not None:
            return config
        if (kind := CLASSES.get(found.family)) in SHAPED:
            return transformer_config(kind, _shapes(header))
        config = shaped(_shapes(header))
        return {"_class_name": UNION if "num_control_type" in config else UNETS, **config}
    except KeyError as error:
        detail = Words("it lacks the tensor {0}, or the file is damaged", (str(error.args[0]),))
        raise HalftoneError(_UNFIT, path=str(file), detail=detail) from error
    except IndexError as error:
        detail = Words("one of its tensors has too few dimensions; the file may be damaged")
        raise HalftoneError(_UNFIT, path=str(file), detail=detail) from error


def _unread(found: Recognised, header: Header) -> Words | None:
    """Why Halftone does not run a ControlNet of this form from a file; None for one that it reads."""
    if found.kind == _T2I_KIND:
        return unread_adapter(_shapes(header))
    if _holds_lights(header):
        return unread_light({tensor.name: tensor.shape for tensor in header.tensors})
    names = {tensor.name for tensor in header.tensors}
    if found.family in BY_NAME and found.family not in CLASSES:
        return Words("Halftone has no ControlNet for {0} models", (found.family,))
    kind = CLASSES.get(found.family, UNETS)
    if kind in SHAPED and not in_diffusers_names(names):
        return Words(
            "it is a ControlNet for {0} in its maker's own names, and Halftone reads those of diffusers", (found.family,)
        )
    if kind != UNETS and kind not in SHAPED:
        return Words("Halftone reads ControlNets for {0} only from a diffusers folder", (found.family,))
    return None


def _traits(config: Mapping[str, Any]) -> dict[str, Any]:
    """What must be alike, by its name in `_TRAITS`."""
    if config.get("_class_name") == T2I:
        return adapter_traits(config)
    if config.get("_class_name") == LLLITE:
        return {}  # its layers are compared with the UNet's when they are read
    if "block_out_channels" in config:
        return {
            "text": config.get("cross_attention_dim") or 1280,
            "layers": " + ".join(map(str, config["block_out_channels"])),
            "sizes": "SDXL" if config.get("addition_embed_type") else None,
        }
    return {
        "text": next((config[name] for name in _TEXT_WIDTHS if config.get(name)), None),
        "layers": config.get("width") or config.get("num_attention_heads", 0) * config.get("attention_head_dim", 0),
    }


def _other_base(control: Control, model: ModelFacts, detail: Words) -> HalftoneError:
    return HalftoneError("control-other-base", name=control.name, model=model.name, detail=detail, family=model.family)
