"""Upscale models: one safetensors file each, checked from headers alone."""

import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import LANCZOS, LATENT, model_stem
from halftone.library.add_ons.named_files import reading, refuse_folder
from halftone.library.families.known_families import KIND_NAMES
from halftone.library.files.header import file_stamp, read_header
from halftone.library.models import describe, model_files
from halftone.settings.store import Settings

UPSCALER: Final = "upscaler"
"""The kind of such a file. Many architectures are recognised only when they are built."""

_log = logging.getLogger(__name__)


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
    own, others = (_files(folders) for folders in (settings.upscaler_folders, settings.model_folders))
    recognised = (path for path in others if _is_one(path))
    return {model_stem(path): path for path in sorted((*recognised, *own))}


def upscalers_among(found: Iterable[ModelFacts], settings: Settings) -> dict[str, str]:
    """The same, of models that were found and what is in the upscalers' own folders."""
    recognised = (facts.path for facts in found if facts.family == KIND_NAMES[UPSCALER])
    return {model_stem(path): path for path in sorted((*recognised, *_files(settings.upscaler_folders)))}


def _files(folders: Iterable[str]) -> list[str]:
    return [path for path in model_files(folders) if path.lower().endswith(".safetensors")]


def _is_one(path: str) -> bool:
    """Whether a file is recognised as one; what cannot be read now may be later."""
    try:
        return _family(path, file_stamp(path)) == KIND_NAMES[UPSCALER]
    except HalftoneError as error:
        _log.info("left out of the upscale models: %s", error)
        return False


@lru_cache(maxsize=4096)
def _family(path: str, stamp: str) -> str:  # noqa: ARG001 - part of the key
    """stamp: of the file as it is now, so that an unchanged header is not read again."""
    return describe(path).family
