"""Files that kept latents name: a record from elsewhere is no wish of the user's."""

import re
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.vocabulary import POCKET
from halftone.health.pictures.unfinished_pictures import Kept
from halftone.library.add_ons.loras import lora_folders
from halftone.library.add_ons.upscalers import is_upscale_model
from halftone.settings.places import data_dir, latents_dir, pictures_dir
from halftone.settings.store import Settings

_FAR: Final = re.compile(r"[\\/]{2}")
"""Beginning of a path to another machine, or to a device, on Windows."""


def check_named_files(kept: Kept, path: Path, saved: Settings, model: str | None) -> None:
    """Raise latents-strange-file for a file that only a record names, not the user.

    Latents in Halftone's own folder were written here: all their files are read. Latents elsewhere may name only files below the
    folders of the settings, the folder of pictures and the data folder, and the model that the user named or used last. model:
    that was named with the latents.
    """
    if path.resolve().parent == latents_dir().resolve():
        return
    for file in _named(kept, model or (saved.last_model if saved.last_model == kept.request.model else None)):
        if not _is_below(file, tuple(_folders(saved))):
            raise HalftoneError("latents-strange-file", path=str(path), file=file, folder=str(latents_dir()))


def _is_below(file: str, folders: tuple[Path, ...]) -> bool:
    """For a file on a network the names alone decide: Windows would send the user's name and password to that machine."""
    if _FAR.match(file):
        named = PureWindowsPath(file)
        return ".." not in named.parts and any(named.is_relative_to(PureWindowsPath(folder)) for folder in folders)
    place = Path(file).resolve()
    return any(place.is_relative_to(folder.resolve()) for folder in folders)


def _folders(saved: Settings) -> Iterator[Path]:
    others = (*saved.embedding_folders, *saved.wildcard_folders, *saved.upscaler_folders)
    yield from map(Path, (*lora_folders(saved), *others))  # with the models' folders
    yield from (Path(saved.pictures_folder) if saved.pictures_folder else pictures_dir(), data_dir())


def _named(kept: Kept, model: str | None) -> Iterator[str]:
    """Every file that would be read. A picture that only waits for its decode takes its VAE and the pictures under it."""
    if model is None and kept.request.model != POCKET:
        yield kept.request.model
    then, asked = kept.request, kept.asked
    if asked is None:
        refiner = None if then.refiner is None else then.refiner.path
        given = (then.vae, refiner, *((then.image, then.mask) if then.masked else ()))
        yield from (one for one in given if one is not None)
        return
    yield from (one for one in (asked.image, asked.mask, asked.vae, asked.transformer) if one is not None)
    yield from (lora.path for lora in asked.loras)
    yield from asked.inversions
    for control in asked.controls:
        yield from (control.path, control.image)
    for adapter in asked.ip_adapters:
        yield from (adapter.path, *adapter.images)
    if asked.hires is not None and is_upscale_model(asked.hires.upscaler):
        yield asked.hires.upscaler
    if asked.refiner is not None:
        yield asked.refiner.path
    yield from (*asked.wildcards, *(asked.lora_folders or ()))
