"""A stand-in for the Python package insightface, which is no part of Halftone's environment, and folders as its models lie in."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

_PACKAGE = '''
import numpy as np


class Face:
    def __init__(self, box, colour):
        self.bbox = np.array(box, np.float32)
        self.embedding = 20 * np.cos(np.arange(512) * 1.7 + colour / 40.0)


class FaceAnalysis:
    def __init__(self, name, allowed_modules, providers):
        assert sorted(allowed_modules) == ["detection", "recognition"]
        self.models = {"detection": None, "recognition": None}
        print("find model:", name)

    def prepare(self, ctx_id, det_size):
        self.size = det_size

    def get(self, picture):
        """The grey of the left half is one face's; a white right half is another's, a smaller one. A black picture has none."""
        height, width, _ = picture.shape
        colour = float(picture[:, : width // 2].mean())
        small = Face((0, 0, 4, 4), 200.0)
        found = [Face((0, 0, width, height), colour)] if colour else []
        return ([small] if picture[:, width // 2 :].min() == 255 else []) + found
'''


@contextmanager
def stand_in(folder: Path) -> Generator[None]:
    """While open, `insightface` and `onnxruntime` are packages in this folder."""
    (folder / "insightface").mkdir(parents=True)
    (folder / "insightface" / "__init__.py").write_text("")
    (folder / "insightface" / "app.py").write_text(_PACKAGE)
    (folder / "onnxruntime.py").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        try:
            yield
        finally:
            for name in ("insightface", "insightface.app", "onnxruntime"):
                sys.modules.pop(name, None)


def save_models(home: Path, name: str = "buffalo_l") -> Path:
    """A folder where an adapter in `home` finds it."""
    folder = home / "insightface" / "models" / name
    folder.mkdir(parents=True)
    (folder / "det.onnx").write_bytes(b"")
    return folder


def save_face(path: Path, grey: int, right: int | None = None) -> Path:
    """A picture in which the stand-in sees a face of this grey, and another where the right half is white."""
    made: NDArray[np.uint8] = np.full((32, 32, 3), grey, np.uint8)
    made[:, 16:] = grey if right is None else right
    Image.fromarray(made).save(path)
    return path


def numbers_of(grey: int) -> NDArray[np.float32]:
    """What is read of it, of length 1."""
    made = np.cos(np.arange(512) * 1.7 + grey / 40.0)
    return (made / np.linalg.norm(made)).astype(np.float32)
