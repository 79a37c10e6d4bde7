"""The add-ons of a model (LoRAs, VAE, ControlNets …): the state of their files, and whether they fit."""

import os
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from halftone.contract.facts import ModelFacts
from halftone.contract.request import ALONE, Extras
from halftone.library.add_ons import controlnets
from halftone.library.add_ons.controlnets import CONTROLNET
from halftone.library.add_ons.controlnets import check_fit as check_controls_fit
from halftone.library.add_ons.denoisers import (
    check_transformer_fit,
    denoiser_name,
    denoiser_tensors,
    is_scale,
    read_transformer,
)
from halftone.library.add_ons.image_encoders import ENCODER, encoder_part
from halftone.library.add_ons.inversions import check_inversion_fit
from halftone.library.add_ons.ipadapters import adapter_files, encoder_place, reads_faces
from halftone.library.add_ons.ipadapters import check_files_fit as check_ip_adapters_fit
from halftone.library.add_ons.lora_fit import check_lora_fit
from halftone.library.add_ons.loras import lora_key
from halftone.library.add_ons.vaes import VAE, names_in, vae_file
from halftone.library.add_ons.vaes import check_fit as check_vae_fit
from halftone.library.families.known_families import KIND_NAMES
from halftone.library.files.header import file_stamp, path_version, read_header

_PLAIN_NAME: Final = "diffusion_pytorch_model"
"""Name of the weights in a diffusers folder."""


class ExtraFile(NamedTuple):
    """A weight file of a component that is not the model's own. names: tensor -> parameter of the component."""

    component: str
    path: Path
    names: dict[str, str]


def extras_key(extras: Extras) -> str:
    """Changes with what is used, and when one of the files is rewritten; "" for the model alone."""
    if extras == ALONE:
        return ""
    key = lora_key(extras.loras)
    paths = [("vae", extras.vae), ("transformer", extras.transformer), *(("control", one.path) for one in extras.controls)]
    key += "".join(f"\0{kind}\0{path}\n{path_version(path)}" for kind, path in paths if path is not None)
    key += "".join(f"\0ip-adapter\0{file.path}\n{file.version}" for file in adapter_files(extras.ip_adapters))
    return key + "".join(f"\0embedding\0{path}\n{file_stamp(path)}" for path in sorted(extras.inversions))


def parts_of(extras: Extras) -> Iterator[Extras]:
    """The model alone, with each part of what is used, and with all of it: what holds with less holds with more, too."""
    parts = ("inversions", "ip_adapters", "controls", "vae", "transformer", "loras")
    found = (
        msgspec.structs.replace(ALONE, **{name: getattr(extras, name) for name, used in zip(parts, which, strict=True) if used})
        for which in product((False, True), repeat=len(parts))
    )
    return iter(dict.fromkeys(found))


def extra_files(extras: Extras, model: ModelFacts | None = None) -> tuple[ExtraFile, ...]:
    """The files of whole components; LoRAs are added to others. model: whose denoiser a transformer replaces. Raises
    HalftoneError vae-*, transformer-*, control-* and ip-adapter-*.
    """
    found: list[ExtraFile] = []
    if extras.vae is not None:
        found.append(ExtraFile(VAE, vae_file(extras.vae), names_in(extras.vae)))
    component = denoiser_name(model) if model is not None else None
    if extras.transformer is not None and component is not None:
        names = {tensor.name: own for own, tensor in denoiser_tensors(read_transformer(extras.transformer)) if not is_scale(own)}
        found.append(ExtraFile(component, Path(extras.transformer), names))
    for index, path in enumerate(control.path for control in extras.controls):
        before = f"nets.{index}." if len(extras.controls) > 1 else ""
        for file in controlnets.weight_files(path):
            names = controlnets.parameter_names(read_header(file))
            found.append(ExtraFile(CONTROLNET, file, {name: before + own for name, own in names.items()}))
    for one in extras.ip_adapters:
        for file, header in () if reads_faces(one.path) else encoder_part(encoder_place(one.path)).files:
            found.append(ExtraFile(ENCODER, file, {tensor.name: tensor.name for tensor in header.tensors}))
    return tuple({extra.path: extra for extra in found}.values())  # one that is used twice is looked at once


def transformers_among(models: Sequence[ModelFacts], model: ModelFacts) -> dict[str, str]:
    """Name -> path of every file whose denoiser is of the model's family. models: those that were found."""
    found = (facts for facts in reversed(models) if facts.takes_place and facts.family == model.family)
    return {Path(facts.path).name: facts.path for facts in found if facts.path != model.path}


def parts_among(models: Sequence[ModelFacts], kind: str) -> dict[str, str]:
    """Name -> path of every VAE or ControlNet, be it a file or a diffusers folder. models: those that were found."""
    found: dict[str, str] = {}
    for facts in reversed(models):
        kinds = controlnets.KINDS if kind == "ControlNet" else (kind,)
        if facts.family not in {KIND_NAMES[one] for one in kinds}:
            continue
        path = Path(facts.path)
        if path.name.startswith(_PLAIN_NAME):
            if not os.path.isfile(path.parent / "config.json"):
                continue
            path = path.parent
        found[path.name] = str(path)
    return found


def check_extras_fit(extras: Extras, model: ModelFacts) -> None:
    """Raise HalftoneError vae-*, transformer-*, lora-other-base, inversion-other-base, control-*, ip-adapter-*."""
    check_vae_fit(extras.vae, model)
    check_transformer_fit(extras.transformer, model)
    check_lora_fit(extras.loras, model)
    check_inversion_fit(extras.inversions, model)
    check_controls_fit(extras.controls, model)
    check_ip_adapters_fit(extras.ip_adapters, model)
