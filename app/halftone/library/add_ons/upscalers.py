"""Upscale models: one safetensors file each, checked from headers alone."""

from collections.abc import Iterable
from typing import Final

from halftone.contract.facts import ModelFacts
from halftone.contract.request import LANCZOS, LATENT, model_stem
from halftone.library.add_ons.named_files import reading, refuse_folder
from halftone.library.families.known_families import KIND_NAMES
from halftone.library.files.header import read_header
from halftone.library.index.known import listed_models
from halftone.library.models import model_files
from halftone.settings.store import Settings

UPSCALER: Final = "upscaler"
"""The kind of such a file. Many architectures are recognised only when they are built."""


def is_upscale_model(upscaler: str) -> bool:
    """Whether a way to enlarge is the file of a model."""
    return upscaler not in (LATENT, LANCZOS)


def check_upscaler(upscaler: str) -> None:
    """Raise HalftoneError upscaler-missing, upscaler-not-one, model-truncated or model-bad-header. Reads its header only."""
    if not is_upscale_model(upscaler):
        return
    with reading(upscaler, "upscaler-missing", "upscaler-not-one") as path:
        refuse_folder(upscaler, "upscaler-not-one")
        read_header(path)


def known_upscalers(settings: Settings) -> dict[str, str]:
    """Name -> path of all files in the upscalers' own folders, and of those recognised in the models' folders."""
    return upscalers_among(listed_models(settings.model_folders), settings)


def upscalers_among(found: Iterable[ModelFacts], settings: Settings) -> dict[str, str]:
    """The same, of models that were found and what is in the upscalers' own folders."""
    recognised = (facts.path for facts in found if facts.family == KIND_NAMES[UPSCALER])
    return {model_stem(path): path for path in sorted((*recognised, *_files(settings.upscaler_folders)))}


def _files(folders: Iterable[str]) -> list[str]:
    return [path for path in model_files(folders) if path.lower().endswith(".safetensors")]
