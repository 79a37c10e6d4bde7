"""What a library could do without: files that are there twice, and files in a folder for another kind."""

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Final

from halftone.library.index.entries import Entry, Shelf
from halftone.library.index.facts import Hashes

_NEAR: Final = 3
"""Folders above a file whose names tell what it should be; those further up are the user's."""
_NAMES: Final[dict[Shelf, tuple[str, ...]]] = {
    "Checkpoints": ("stablediffusion", "checkpoints", "checkpoint", "ckpt", "diffusionmodels", "unet", "unets"),
    "LoRA": ("lora", "loras", "lycoris"),
    "VAE": ("vae", "vaes"),
    "ControlNet": ("controlnet", "controlnets", "t2iadapter", "t2iadapters", "ipadapter", "ipadapters"),
    "Embeddings": ("embedding", "embeddings", "textualinversion", "textualinversions"),
    "Upscalers": ("upscaler", "upscalers", "upscalemodels", "esrgan", "realesrgan", "swinir", "dat"),
    "Text encoders": ("textencoder", "textencoders", "clip", "clipvision"),
    "Other": ("hypernetwork", "hypernetworks", "codeformer", "gfpgan", "deepbooru"),
}
"""Names of folders in A1111, Forge, ComfyUI, StabilityMatrix, Fooocus, InvokeAI and SwarmUI, in small letters alone."""
_FOLDERS: Final[dict[str, Shelf]] = {name: shelf for shelf, names in _NAMES.items() for name in names}
_BESIDE_MODEL: Final = ".vae"
"""A1111 takes the VAE "model.vae.safetensors" from beside "model.safetensors"."""


def wrong_folder(entry: Entry) -> Shelf | None:
    """The kind that a file's folder is for, where the file is of another that has folders of its own."""
    if entry.whole or entry.shelf == "Other" or (entry.shelf == "VAE" and entry.name.lower().endswith(_BESIDE_MODEL)):
        return None
    meant = folder_shelf(entry.path)
    return None if meant in (entry.shelf, "Other") else meant


def folder_shelf(path: str) -> Shelf | None:
    """The kind that the name of a file's folder, or of one shortly above, stands for; None where no name tells one."""
    near = list(PurePath(path).parent.parts[::-1])[:_NEAR]
    names = ("".join(filter(str.isalnum, name.lower())) for name in near)
    return next((_FOLDERS[name] for name in names if name in _FOLDERS), None)


def duplicates(entries: Iterable[Entry], hashes: Mapping[str, Hashes]) -> tuple[tuple[Entry, ...], ...]:
    """Groups of files with the same contents, those first that waste most. A file that is not hashed yet counts as the same as
    one with its name, size and time.
    """
    found = [entry for entry in entries if entry.fingerprint and not entry.whole]
    known = {_print(entry): hashes[entry.path].sha256 for entry in found if entry.path in hashes}
    groups: dict[object, list[Entry]] = {}
    for entry in found:
        own = hashes.get(entry.path)
        key = own.sha256 if own is not None else known.get(_print(entry), _print(entry))
        groups.setdefault(key, []).append(entry)
    several = (tuple(group) for group in groups.values() if len(group) > 1)
    return tuple(sorted(several, key=lambda group: -sum(entry.size for entry in group[1:])))


def _print(entry: Entry) -> tuple[int, str]:
    return entry.size, entry.fingerprint
