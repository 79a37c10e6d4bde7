"""The numbers of a face, which insightface measures where it is installed. It is part of no package of Halftone's, and it
downloads nothing here: it is given a folder that exists.
"""

import contextlib
import io
import logging
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.request import IpAdapter
from halftone.contract.wording import Words
from halftone.library.add_ons.faces import MODELS, NUMBERS, check_faces
from halftone.library.add_ons.ipadapters import reads_faces
from halftone.library.files.header import file_stamp
from halftone.metadata.start_images import read_picture

log = logging.getLogger(__name__)

_SIZES: Final = (640, 320, 160)
"""Edges at which a face is looked for, until one is found: a face that fills its picture is too large for the first."""
_SEED: Final = 1987


class Face(NamedTuple):
    """numbers: of the largest face of a picture, of length 1; faces: how many it shows; models: the folder's name."""

    numbers: tuple[float, ...]
    faces: int
    models: str


def face_numbers(adapter: IpAdapter) -> torch.Tensor:
    """(pictures, 512) in float32, made up where no picture is given. Raises ip-adapter-no-faces, ip-adapter-no-face, image-*."""
    if not adapter.images:
        return torch.from_numpy(_of_length_one(np.random.default_rng(_SEED).standard_normal(NUMBERS)))[None]
    return torch.tensor([face.numbers for face in _faces(adapter)], dtype=torch.float32)


def face_notes(adapters: Iterable[IpAdapter]) -> list[Words]:
    """What is to be said of the faces that were measured."""
    found: list[Words] = []
    for adapter in adapters:
        if not adapter.images or not reads_faces(adapter.path):
            continue
        faces = _faces(adapter)
        template = "{0} shows {1} faces. The IP-Adapter {2} goes by the largest."
        several = [(path, face.faces) for path, face in zip(adapter.images, faces, strict=True) if face.faces > 1]
        found += [Words(template, (path, count, adapter.name), about="run") for path, count in several]
        if any(face.models != MODELS[0] for face in faces):
            words = "The faces are measured with {0}. FaceID adapters are trained with {1}, which was not found."
            found.append(Words(words, (faces[0].models, MODELS[0]), about="run"))
    return found


def let_faces_pass(pipe: Any) -> None:
    """Let a pipeline take a face's numbers where it takes the pictures of an IP-Adapter. The negative prompt sees zeros."""

    def encode_image(image: Any, device: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(image, torch.Tensor) or image.dim() != 2:
            return type(pipe).encode_image(pipe, image, device, *args, **kwargs)
        numbers = image.to(device)
        return numbers, torch.zeros_like(numbers)

    pipe.encode_image = encode_image


def _faces(adapter: IpAdapter) -> list[Face]:
    return [_measured(str(check_faces(adapter.path, adapter.name)), one, file_stamp(one), adapter.name) for one in adapter.images]


@lru_cache(maxsize=64)
def _measured(models: str, path: str, version: str, name: str) -> Face:
    """models: their folder; version: of the picture's file; name: of the adapter, for errors."""
    del version
    picture = np.asarray(read_picture(path))[:, :, ::-1]  # insightface takes OpenCV's order of colours
    faces = _found(_analysis(models, name), np.ascontiguousarray(picture))
    if not faces:
        raise HalftoneError("ip-adapter-no-face", path=path)
    largest = max(faces, key=lambda face: (face.bbox[2] - face.bbox[0]) * (face.bbox[3] - face.bbox[1]))
    numbers = np.asarray(largest.embedding, np.float64).ravel()
    if len(numbers) != NUMBERS or not np.isfinite(numbers).all() or not numbers.any():
        raise _unreadable(name, models)
    return Face(tuple(map(float, _of_length_one(numbers))), len(faces), models.replace("\\", "/").rpartition("/")[2])


def _of_length_one(numbers: Any) -> Any:
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def _found(analysis: Any, picture: Any) -> list[Any]:
    """The faces at the first size that shows any."""
    for size in _SIZES:
        with contextlib.redirect_stdout(io.StringIO()):
            analysis.prepare(ctx_id=-1, det_size=(size, size))
            faces = list(analysis.get(picture))
        if faces:
            return faces
    return []


def _analysis(models: str, name: str) -> Any:
    """insightface's analysis with its detector and its recognition, on the CPU. Raises ip-adapter-no-faces."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            analysis = import_module("insightface.app").FaceAnalysis(
                name=models, allowed_modules=["detection", "recognition"], providers=["CPUExecutionProvider"]
            )
    except ImportError as error:
        detail = Words("the Python package insightface, which measures them, cannot be loaded: {0}", (str(error),))
        raise HalftoneError("ip-adapter-no-faces", str(error), name=name, detail=detail) from error
    except Exception as error:
        log.exception("insightface cannot read %s", models)
        raise _unreadable(name, models, str(error)) from error
    if "recognition" not in analysis.models:
        raise _unreadable(name, models)
    return analysis


def _unreadable(name: str, models: str, details: str = "") -> HalftoneError:
    detail = Words("insightface cannot measure them with the models in {0}", (models,))
    return HalftoneError("ip-adapter-no-faces", details, name=name, detail=detail)
