"""VAEs that take the place of a model's own: a diffusers folder, or one safetensors file in CompVis' or diffusers' names. No
weight is read.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import file_name
from halftone.contract.wording import Words
from halftone.library.add_ons.named_files import config_in, reading, weights_in
from halftone.library.add_ons.unusable_files import instead
from halftone.library.families.original_names import vae_names
from halftone.library.families.recognise import recognise
from halftone.library.families.single_configs import vae as shaped
from halftone.library.families.single_files import SINGLES, Config, configs
from halftone.library.families.split_files import model_header
from halftone.library.files.folder import read_json
from halftone.library.files.header import Header, read_header

VAE: Final = "vae"
"""The component that is replaced."""
KL: Final = "AutoencoderKL"
"""The class that is read from single files."""
_STARTS: Final = ("first_stage_model.", "vae.")
_OLD: Final = {".query.": ".to_q.", ".key.": ".to_k.", ".value.": ".to_v.", ".proj_attn.": ".to_out.0."}
"""How diffusers named the attention before 0.18."""
_SCALES: Final = ("scaling_factor", "shift_factor", "latents_mean", "latents_std")
_USUAL: Final[dict[str, dict[str, Any]]] = {KL: {"scaling_factor": 0.18215}}
"""What a class takes where its configuration has no entry."""


def vae_name(path: str) -> str:
    """The last part of its path, as A1111 names VAEs."""
    return file_name(path) or path


def check_vae(path: str | None) -> None:
    """Raise HalftoneError vae-missing, vae-not-a-vae, model-truncated or model-bad-header. Reads headers only."""
    if path is not None:
        _config(path, {})


def vae_config(path: str, model: ModelFacts) -> Config:
    """The configuration of a VAE that fits. Raises as `check_fit`."""
    check_fit(path, model)
    return _config(path, model_config(model) or {})


def check_fit(path: str | None, model: ModelFacts) -> None:
    """Raise HalftoneError vae-other-model for a VAE that does not fit the model's denoiser, and as `check_vae`."""
    if path is None:
        return
    own = model_config(model)
    why = Words("the model has no VAE to replace") if own is None else _difference(_config(path, own), own)
    if why is not None:
        raise HalftoneError("vae-other-model", name=vae_name(path), model=model.name, detail=why)


def model_config(model: ModelFacts) -> Config | None:
    """The configuration of the model's own VAE; None where it has none that can be replaced."""
    if VAE not in model.components:
        return None
    path = Path(model.path)
    if os.path.isdir(path):
        return read_json(path / VAE / "config.json")
    return configs(model.family, model_header(model), model.path).get(VAE) if model.family in SINGLES else None


def vae_file(path: str) -> Path:
    """The file of its weights. Raises as `check_vae`."""
    if not os.path.isdir(path):
        return Path(path)
    files = weights_in(path, "vae-not-a-vae")
    if len(files) != 1:
        raise HalftoneError("vae-not-a-vae", path=path, detail=Words("its weights are split into several files"))
    return files[0][0]


def names_in(path: str) -> dict[str, str]:
    """Tensor of the VAE's file -> its name in diffusers. Raises as `check_vae`."""
    header = read_header(vae_file(path))
    return {tensor.name: _modern(tensor.name) for tensor in header.tensors} if os.path.isdir(path) else parameter_names(header)


def parameter_names(header: Header) -> dict[str, str]:
    """Tensor of a single file -> name of the parameter in diffusers, of all that belong to the VAE."""
    start = next((start for start in _STARTS if any(tensor.name.startswith(start) for tensor in header.tensors)), "")
    given = {tensor.name: tensor.name.removeprefix(start) for tensor in header.tensors if tensor.name.startswith(start)}
    ours = vae_names(given.values())
    found = {name: _modern(ours[own]) for name, own in given.items()}
    return {name: own for name, own in found.items() if re.match(r"(?:en|de)coder\.|(?:post_)?quant_conv\.", own)}


def _config(path: str, own: Mapping[str, Any]) -> Config:
    """own: of the model's VAE, for what a file does not tell. Raises as `check_vae`."""
    with reading(path, "vae-missing", "vae-not-a-vae") as place:
        return _folder_config(place) if os.path.isdir(place) else _file_config(place, own)


def _folder_config(folder: Path) -> Config:
    config = config_in(folder, "vae-not-a-vae", Words("it is a whole model; choose the folder of its VAE inside it"))
    kind = config.get("_class_name")
    if not isinstance(kind, str) or "Autoencoder" not in kind:
        raise HalftoneError("vae-not-a-vae", path=str(folder), detail=Words("its config.json is not that of a VAE"))
    vae_file(str(folder))
    return config


def _file_config(file: Path, own: Mapping[str, Any]) -> Config:
    header = read_header(file)
    found = recognise(header, file.stem)
    if found.kind != "VAE":
        raise HalftoneError("vae-not-a-vae", path=str(file), detail=instead(found, "VAE"))
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    try:
        built = shaped({ours: shapes[name] for name, ours in parameter_names(header).items()})
        if not built["block_out_channels"]:
            raise KeyError("encoder")
        return {**own, "_class_name": KL, **built}
    except (KeyError, IndexError) as error:
        detail = Words("this {0} can be read only as a diffusers folder", (found.base,))
        raise HalftoneError("vae-not-a-vae", path=str(file), detail=detail) from error


def _difference(given: Mapping[str, Any], own: Mapping[str, Any]) -> Words | None:
    """Why a VAE cannot take the place of the model's own, as the end of a sentence; None where it can."""
    kinds = str(given.get("_class_name")), str(own.get("_class_name"))
    if kinds[0] != kinds[1]:
        return Words("its class is {0}, the model's VAE is {1}", (kinds[0], kinds[1]))
    channels = [config.get("latent_channels", 4) for config in (given, own)]
    if channels[0] != channels[1]:
        return Words("it takes {0} channels, and the model gives {1}", (str(channels[0]), str(channels[1])))
    blocks = [config.get("block_out_channels") for config in (given, own)]
    levels = [2 ** (len(cast("list[Any]", found)) - 1) for found in blocks if isinstance(found, list)]
    if len(set(levels)) > 1:
        return Words("it makes {0} pixels wide of one latent, the model's own VAE {1}", (str(levels[0]), str(levels[1])))
    usual = _USUAL.get(kinds[0], {})
    for name in _SCALES:
        one, other = (config.get(name) or usual.get(name) or None for config in (given, own))
        if one != other and name == _SCALES[0]:
            return Words(
                "it divides by {0}, the model's own VAE by {1}, so it belongs to another family", (str(one or 1), str(other or 1))
            )
        if one != other:
            return Words("it shifts or scales in another way than the model's own VAE, so it belongs to another family")
    return None


def _modern(name: str) -> str:
    for old, new in _OLD.items():
        name = name.replace(old, new)
    return name
