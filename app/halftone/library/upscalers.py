"""Upscale models: one safetensors file each; what can be told of one before anything is loaded."""

from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.request import LANCZOS, LATENT, model_stem
from halftone.library.families import KIND_NAMES
from halftone.library.header import read_header
from halftone.library.models import PICKLES, list_models, model_files
from halftone.settings.store import Settings

UPSCALER: Final = "upscaler"
"""The kind of such a file, as far as it is recognised: of many architectures only what builds them tells."""

_PICKLE = "it is a pickle file, which can run code when it is opened, so Halftone does not open it"


def is_upscale_model(upscaler: str) -> bool:
    """Whether a way to enlarge is the file of a model."""
    return upscaler not in (LATENT, LANCZOS)


def check_upscaler(upscaler: str) -> None:
    """Raise HalftoneError for a file that cannot be an upscale model: upscaler-missing, upscaler-not-one, model-truncated,
    model-bad-header. Reads its header only.
    """
    if not is_upscale_model(upscaler):
        return
    path = Path(upscaler)
    if path.is_dir():
        raise HalftoneError("upscaler-not-one", path=upscaler, detail="it is a folder")
    if path.suffix.lower() in PICKLES and path.exists():
        raise HalftoneError("upscaler-not-one", path=upscaler, detail=_PICKLE)
    try:
        read_header(path)
    except FileNotFoundError as error:
        raise HalftoneError("upscaler-missing", path=upscaler) from error
    except OSError as error:
        raise HalftoneError("upscaler-not-one", path=upscaler, detail=error.strerror or "it cannot be read") from error


def known_upscalers(settings: Settings) -> dict[str, str]:
    """Name -> path of all in the folders of the settings: in their own every file, in those of models what is recognised."""
    own = [path for path in model_files(settings.upscaler_folders) if path.lower().endswith(".safetensors")]
    others = [facts.path for facts in list_models(settings.model_folders) if facts.family == KIND_NAMES[UPSCALER]]
    return {model_stem(path): path for path in sorted((*others, *own))}
