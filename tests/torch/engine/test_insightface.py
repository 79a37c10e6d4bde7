"""A face's numbers as the Python package insightface measures them, with models of its shapes that are made here."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.face_models import CELL, save_real_models
from tests.helpers.ip_adapters import save_adapter

from halftone.contract.errors import HalftoneError
from halftone.contract.request import IpAdapter
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.faces import face_notes, face_numbers
from halftone.engine.service import DiffusersEngine

pytest.importorskip("insightface", reason="the Python package insightface is not installed")
EDGE = 640


def shown(path: Path, *cells: tuple[int, int, tuple[int, int, int]]) -> Path:
    """A black picture with bright cells. cells: column, row, colour."""
    made: NDArray[np.uint8] = np.zeros((EDGE, EDGE, 3), np.uint8)
    for column, row, colour in cells:
        made[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL] = colour
    Image.fromarray(made).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    save_real_models(tmp_path / "home" / ".insightface" / "models" / "buffalo_l")
    return tmp_path


def test_the_largest_face_is_measured_as_insightface_does(folder: Path, models: dict[str, Path]) -> None:
    path = save_adapter(models["sd15"], folder / "face.safetensors", "face")
    small, large = (4, 5, (255, 200, 210)), (12, 9, (255, 240, 230))
    alone, both = shown(folder / "alone.png", large), shown(folder / "both.png", small, large)
    one = IpAdapter(path=str(path), images=(str(alone), str(both)))
    with quiet_libraries():
        found = face_numbers(one)
        analysis: Any = import_module("insightface.app").FaceAnalysis(
            name=str(folder / "home" / ".insightface" / "models" / "buffalo_l"), providers=["CPUExecutionProvider"]
        )
        analysis.prepare(ctx_id=-1, det_size=(EDGE, EDGE))
        for picture, count, numbers in ((alone, 1, found[0]), (both, 2, found[1])):
            faces = analysis.get(np.asarray(Image.open(picture))[:, :, ::-1].copy())
            assert len(faces) == count
            largest = max(faces, key=lambda face: float(np.prod(face.bbox[2:] - face.bbox[:2])))
            assert torch.allclose(numbers, torch.from_numpy(largest.normed_embedding), atol=1e-6)
    assert found.shape == (2, 512)
    assert torch.allclose(found.norm(dim=1), torch.ones(2))
    assert [str(note) for note in face_notes((one,))] == [f"{both} shows 2 faces. The IP-Adapter face goes by the largest."]


def test_pictures_follow_the_face_and_one_without_is_refused(
    engine: DiffusersEngine, folder: Path, models: dict[str, Path]
) -> None:
    path = save_adapter(models["sd15"], folder / "face.safetensors", "face")
    made = [
        generate(engine, models["sd15"], ip_adapters=(IpAdapter(path=str(path), images=(str(picture),)),))[0]
        for picture in (shown(folder / "one.png", (4, 5, (255, 250, 220))), shown(folder / "two.png", (9, 9, (220, 250, 255))))
    ]
    assert not (pixels(made[0]) == pixels(made[1])).all()
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], ip_adapters=(IpAdapter(path=str(path), images=(str(shown(folder / "none.png")),)),))
    assert caught.value.code == "ip-adapter-no-face"


def test_models_that_insightface_cannot_read_are_named(engine: DiffusersEngine, folder: Path, models: dict[str, Path]) -> None:
    path = save_adapter(models["sd15"], folder / "face.safetensors", "face")
    place = folder / "home" / ".insightface" / "models" / "buffalo_l"
    (place / "w600k_tiny.onnx").unlink()
    with pytest.raises(HalftoneError) as caught:
        generate(
            engine,
            models["sd15"],
            ip_adapters=(IpAdapter(path=str(path), images=(str(shown(folder / "one.png", (4, 5, (255, 250, 220)))),)),),
        )
    assert f"insightface cannot measure them with the models in {place}" in str(caught.value)
