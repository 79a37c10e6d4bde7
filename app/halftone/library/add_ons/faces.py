"""What FaceID adapters need for a face's numbers: the Python package insightface and its models. Halftone brings neither."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words

NUMBERS: Final = 512
"""Numbers of a face."""
PACKAGES: Final = ("insightface", "onnxruntime")
MODELS: Final = ("buffalo_l", "antelopev2")
"""Folders of insightface's models, the one first that FaceID was trained with."""
_OWN: Final = Path("~/.insightface/models")
_BESIDE: Final = ("insightface/models", "../insightface/models", "../../insightface/models")
"""Where these folders may be, from the adapter's: as in ComfyUI."""


def check_faces(adapter: str, name: str) -> Path:
    """The folder of the models. name: of the adapter. Raises HalftoneError ip-adapter-no-faces for what is missing."""
    for package in PACKAGES:
        if not _is_installed(package):
            detail = Words("the Python package {0}, which measures them, is not installed", (package,))
            raise HalftoneError("ip-adapter-no-faces", name=name, detail=detail)
    place = face_models(adapter)
    if place is None:
        places = (str(_OWN), str(Path(adapter).parent / _BESIDE[0]))
        detail = Words("the models of insightface that measure them are neither in {0} nor in {1}", places)
        raise HalftoneError("ip-adapter-no-faces", name=name, detail=detail)
    return place


def _is_installed(package: str) -> bool:
    """Whether it can be imported. A folder of that name alone, as ComfyUI has one of models, is none."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None


def face_models(adapter: str) -> Path | None:
    """The folder of insightface's models that counts for an adapter's file; None where there is none."""
    return next(_places(Path(adapter).parent), None)


def _places(home: Path) -> Iterator[Path]:
    for model in MODELS:
        for root in (_OWN.expanduser(), *(home / place for place in _BESIDE)):
            place = root / model
            if os.path.isdir(place) and any(name.lower().endswith(".onnx") for name in os.listdir(place)):
                yield place
