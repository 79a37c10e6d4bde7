"""Models whose parts lie in files of their own, as ComfyUI and Forge keep them: the transformer, the text encoders and the VAE.

The parts are looked for in the folders beside that of the denoiser, in the watched ones, and in its own. Only headers are read.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.library.families.gguf_names import READ as READ_GGUF
from halftone.library.families.gguf_names import encoder_names
from halftone.library.families.known_families import (
    FLUX,
    FLUX2,
    HUNYUAN_VIDEO,
    QWEN_IMAGE,
    REFINER,
    SD1,
    SD2,
    SD3,
    SDXL,
    WAN,
    Z_IMAGE,
    parts_of,
)
from halftone.library.families.recognise import denoiser_in, recognise
from halftone.library.families.single_files import DENOISERS, SECOND, SINGLES, component_of, module_names, tensors_by_component
from halftone.library.files.gguf_header import GGUF, PACKED, read_any
from halftone.library.files.header import Header, TensorInfo, file_version
from halftone.library.kinds.layouts import WAN_22_HIGH, WAN_22_LOW
from halftone.library.kinds.marks import view_of
from halftone.settings.glance import model_folders

_DENOISER_FOLDERS: Final = ("checkpoints", "diffusion_models", "unet", "stable-diffusion")
"""Folders of models in ComfyUI, Forge, SD.Next and SwarmUI, in small letters."""
_PART_FOLDERS: Final = ("vae", "text_encoders", "text_encoder", "text-encoder", "clip")
_ENDINGS: Final = (".safetensors", ".sft", GGUF)
_MOST: Final = 500
"""Files that are looked at in one place."""
_PLAIN: Final = frozenset({"F32", "F16", "BF16"})
_READ: Final = ("", "scaled FP8")
"""How the weights of a part may be quantised."""
_SOUNDS: Final = re.compile(r"vae|^ae\b|clip|t5|text|encoder", re.IGNORECASE)
"""Names of parts that lie in the folder of the denoiser."""
_OWN_VAE: Final = {
    SD1.name: r"840000|560000|ft[-_ ]?(?:mse|ema)|sd[-_]?1|v?1[-_.]5",
    SD2.name: r"840000|560000|ft[-_ ]?(?:mse|ema)|sd[-_]?2|v?2[-_.]1",
    SDXL.name: r"xl",
    REFINER.name: r"xl",
    SD3.name: r"sd[-_]?3|stable[-_ ]?diffusion[-_ ]?3",
    FLUX.name: r"flux|^ae\b",
    FLUX2.name: r"flux[-_. ]?2",
    Z_IMAGE.name: r"flux(?![._-]?2)|^ae\b|z[-_ ]?image",
    QWEN_IMAGE.name: r"qwen",
    HUNYUAN_VIDEO.name: r"hunyuan",
    WAN.name: r"\bwan|wan[-_ ]?2",
}
"""Words in the names of a family's VAEs: those of several families have the same shapes."""


_LOW: Final = {"high": "low", "High": "Low", "HIGH": "LOW"}
_HIGH: Final = re.compile(r"high(?=[-_ ]?noise)", re.IGNORECASE)
"""The word in the name of a denoiser's file, and what the other one has there."""


class _Part(NamedTuple):
    """kind: "VAE" or "text encoder"; name: which one; size: in bytes; unread: how its weights are quantised, where they are not
    read.
    """

    path: Path
    kind: str
    name: str
    size: int
    unread: str = ""


def parts_beside(path: Path, family: str, base: str, header: Header) -> dict[str, str]:
    """Component -> the file beside a model's file that holds it, of those that the model's file lacks. base: which one of the
    family.
    """
    held = tensors_by_component(family, joined(family, header, {}))
    wanted = [name for name in SINGLES[family].prefixes if name not in held]
    there = tuple(part for part in parts_near(path) if not part.unread) if wanted else ()
    found = {name: _chosen(path, family, base, name, there) for name in wanted if name not in DENOISERS}
    parts = {name: str(part.path) for name, part in found.items() if part is not None}
    low = _low_noise(path) if base == WAN_22_HIGH else None
    return parts if low is None else {SECOND: str(low), **parts}


def _low(found: re.Match[str]) -> str:
    return _LOW.get(found[0], "low")


def _low_noise(high: Path) -> Path | None:
    """The file of the denoiser for low noise: called as that for high noise but for this word, or else beside it."""
    name, folder = (_HIGH.sub(_low, one) for one in (high.name, high.parent.name))
    inside = sorted(os.listdir(high.parent))[: 10 * _MOST]
    beside = [high.parent / own for own in inside if own.lower().endswith(_ENDINGS) and own != high.name]
    for file in (high.parent / name, high.parent.parent / folder / name, *beside):
        try:
            if file.is_file() and recognise(read_any(file), file.stem).base == WAN_22_LOW:
                return file
        except (HalftoneError, OSError):
            continue  # a damaged file is no part; the list of models says what is wrong with it
    return None


def _chosen(model: Path, family: str, base: str, component: str, there: Iterable[_Part]) -> _Part | None:
    """The part that fits: of VAEs the one that is named as the model or its family, of text encoders the most exact one."""
    if component != "vae":
        encoder = _encoder(family, base, component)
        fitting = [part for part in there if (part.kind, part.name) == ("text encoder", encoder)]
        return max(fitting, key=lambda part: (part.size, part.path.name), default=None)
    fitting = [part for part in there if (part.kind, part.name) == ("VAE", parts_of(family, base)[0])]
    ranked = [(rank, part) for part in fitting if (rank := _rank(model, family, part.path)) is not None]
    return min(ranked, key=lambda one: one[0], default=(0, None))[1]  # the nearest of those that are named alike


def _encoder(family: str, base: str, component: str) -> str:
    """Which text encoder a component is."""
    encoders = parts_of(family, base)[1]
    number = int(component.removeprefix("text_encoder").removeprefix("_") or "1")
    return encoders[min(number, len(encoders)) - 1]


def _rank(model: Path, family: str, vae: Path) -> int | None:
    """0: named as the model; 1: as its family; 2: as none; None: as another family."""
    name = vae.stem.lower()
    if name in (f"{model.stem}.vae".lower(), model.stem.lower()):
        return 0
    if re.search(_OWN_VAE[family], name):
        return 1
    return None if any(re.search(words, name) for words in _OWN_VAE.values()) else 2


def parts_near(model: Path) -> Iterator[_Part]:
    """Every VAE and text encoder that lies beside a model's file."""
    for file in _files_beside(model):
        try:
            part = _read_part(file, file_version(file))
        except (HalftoneError, OSError):
            continue  # a damaged file is no part; the list of models says what is wrong with it
        if part is not None:
            yield part


@lru_cache(maxsize=512)
def _read_part(file: Path, version: tuple[int, int, int]) -> _Part | None:
    """version: of `file_version`, so that a rewritten file is read again."""
    header = read_any(file)
    found = recognise(header, file.stem)
    is_gguf = file.suffix.lower() == GGUF
    if found.kind not in ("VAE", "text encoder"):
        return None
    unread = "" if found.quantised in _READ else found.quantised
    if is_gguf:
        strange = sorted({one.dtype for one in header.tensors} - PACKED - _PLAIN)
        unread = next(iter(strange), "") if found.base in READ_GGUF else "GGUF"
        if header.metadata.get("general.architecture") == "qwen3vl":  # its language half has the shapes of Qwen3
            return None
    return _Part(file, found.kind, found.base, version[0], unread)


def unread_beside(model: Path, family: str, base: str) -> tuple[str, str] | None:
    """(name of a file, how its weights are quantised) of a part that is there and cannot be read."""
    vae, encoders = parts_of(family, base)
    fits = (part for part in parts_near(model) if part.unread and part.name in (vae, *encoders))
    return next(((part.path.name, part.unread) for part in fits), None)


def _files_beside(model: Path) -> Iterator[Path]:
    """Files that may be parts of the model: those of the folders for parts, and those in its own folder that are called so."""
    for folder in _folders(model):
        count = 0
        for root, _, names in os.walk(folder):
            for name in sorted(names):
                if name.lower().endswith(_ENDINGS) and count < _MOST:
                    count += 1
                    yield Path(root, name)
    with_model = sorted(os.listdir(model.parent)) if model.parent.is_dir() else []
    for name in with_model[: 10 * _MOST]:
        if name.lower().endswith(_ENDINGS) and name != model.name and _SOUNDS.search(name):
            yield model.parent / name


def _folders(model: Path) -> list[Path]:
    """The folders for parts: those beside the folder for denoisers that the model lies in, then those among the watched ones."""
    home = next((folder for folder in model.parents if folder.name.lower() in _DENOISER_FOLDERS), None)
    watched = [Path(folder) for folder in model_folders()]
    found = [inside for folder in ([] if home is None else [home.parent]) for inside in _below(folder)]
    found += [inside for folder in watched for inside in (*_below(folder), *_below(folder / "models"))]
    return list(dict.fromkeys((*found, *(folder for folder in watched if folder.name.lower() in _PART_FOLDERS))))


def _below(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [folder / name for name in names if name.lower() in _PART_FOLDERS]


def model_header(facts: ModelFacts) -> Header:
    """The header of a model in one file, or of one in several as if it were one. Raises as `read_any`."""
    return joined(facts.family, read_any(Path(facts.path)), facts.parts)


def names_in_files(facts: ModelFacts) -> dict[tuple[str, str], tuple[str, str]]:
    """(file, tensor there) -> (component, its first parameter there), of all that a component reads."""
    header = read_any(Path(facts.path))
    tensors = {(facts.path, name): one for name, one in own_tensors(facts.family, header)}
    for component, file in facts.parts.items():
        tensors |= {(file, name): one for name, one in part_tensors(facts.family, component, file)}
    names = module_names(facts.family, Header(tuple(tensors.values()), header.metadata))
    return {place: names[one.name] for place, one in tensors.items() if one.name in names}


def joined(family: str, header: Header, parts: Mapping[str, str]) -> Header:
    """The tensors of a model's file and of its parts under the names that they have in one file. The bytes of a tensor lie in the
    file of its component.
    """
    if family not in SINGLES:
        return header
    tensors = [one for _, one in own_tensors(family, header)]
    tensors += [one for component, file in parts.items() for _, one in part_tensors(family, component, file)]
    return Header(tuple(tensors), header.metadata)


def part_tensors(family: str, component: str, file: str) -> Iterator[tuple[str, TensorInfo]]:
    """(name in the file, tensor under the name that it has in a whole model) of a part's file."""
    start, inside = SINGLES[family].prefixes[component][0], read_any(Path(file)).tensors
    before = next((own for own in SINGLES[family].starts(component) if all(one.name.startswith(own) for one in inside)), "")
    if component in DENOISERS:
        found = denoiser_in(view_of(inside))
        before = found[0] if found else ""
    names = {one.name: one.name.removeprefix(before) for one in inside}
    if component not in DENOISERS and file.lower().endswith(GGUF):
        names = encoder_names(names)
    for one in inside:
        yield one.name, msgspec.structs.replace(one, name=start + names[one.name])


def own_tensors(family: str, header: Header) -> Iterator[tuple[str, TensorInfo]]:
    """The same of the denoiser's file."""
    single, found = SINGLES[family], denoiser_in(view_of(header.tensors))
    denoiser = next(name for name in single.prefixes if name in DENOISERS)
    before, start = found[0] if found else "", single.prefixes[denoiser][0]
    alone = found is not None and not before.startswith(single.starts(denoiser))
    for one in header.tensors:
        moves = alone and one.name.startswith(before) and component_of(family, one.name) is None
        yield one.name, msgspec.structs.replace(one, name=start + one.name.removeprefix(before)) if moves else one
