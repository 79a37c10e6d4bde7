"""Upscale models: one safetensors file each; what can be told of one before anything is loaded."""

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
"""The kind of such a file, as far as it is recognised: of many architectures only what builds them tells."""

_log = logging.getLogger(__name__)


def is_upscale_model(upscaler: str) -> bool:
    """Whether a way to enlarge is the file of a model."""
    return upscaler not in (LATENT, LANCZOS)


def check_upscaler(upscaler: str) -> None:
    """Raise HalftoneError for a file that cannot be an upscale model: upscaler-missing, upscaler-not-one, model-truncated,
    model-bad-header. Reads its header only.
    """
    if not is_upscale_model(upscaler):
        return
    with reading(upscaler, "upscaler-missing", "upscaler-not-one") as path:
        refuse_folder(upscaler, "upscaler-not-one")
        read_header(path)


def known_upscalers(settings: Settings) -> dict[str, str]:
    """Name -> path of all in the folders of the settings: in their own every file, in those of models what is recognised."""
    own, others = (_files(folders) for folders in (settings.upscaler_folders, settings.model_folders))
    recognised = (path for path in others if _is_one(path))
    return {model_stem(path): path for path in sorted((*recognised, *own))}


def upscalers_among(found: Iterable[ModelFacts], settings: Settings) -> dict[str, str]:
    """The same, of what was found in the folders of models and what lies in their own."""
    recognised = (facts.path for facts in found if facts.family == KIND_NAMES[UPSCALER])
    return {model_stem(path): path for path in sorted((*recognised, *_files(settings.upscaler_folders)))}


def _files(folders: Iterable[str]) -> list[str]:
    return [path for path in model_files(folders) if path.lower().endswith(".safetensors")]


def _is_one(path: str) -> bool:
    """Whether a file is recognised as one; what cannot be read is none now, and may be later."""
    try:
        return _family(path, file_stamp(path)) == KIND_NAMES[UPSCALER]
    except HalftoneError as error:
        _log.info("left out of the upscale models: %s", error)
        return False


@lru_cache(maxsize=4096)
def _family(path: str, stamp: str) -> str:  # noqa: ARG001 - part of the key
    """stamp: of the file as it is now; a tenth of a second is not spent again on an unchanged header."""
    return describe(path).family
