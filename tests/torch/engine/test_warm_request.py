"""A second request of the same model reads nothing of its files again, and still notices each that was rewritten."""

import os
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_runs import check, generate, pixels

from halftone.contract.messages import ModelChanged
from halftone.engine.service import DiffusersEngine
from halftone.library.records import save_report
from halftone.settings.places import data_dir


def spoil(path: Path, size: int) -> None:
    """Overwrite the first bytes of a file in its place, and set back when it was written: who reads them stumbles."""
    then = path.stat()
    with path.open("r+b") as file:
        file.write(b"\0" * size)
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))


def header_size(path: Path) -> int:
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def spoil_all(folder: Path) -> int:
    """Spoil every JSON file and every header below a folder, but no weight; return how many there were."""
    texts, weights = list(folder.rglob("*.json")), list(folder.rglob("*.safetensors"))
    for path in texts:
        spoil(path, path.stat().st_size)
    for path in weights:
        spoil(path, header_size(path))
    return len(texts) + len(weights)


@pytest.fixture
def model(models: dict[str, Path], tmp_path: Path) -> Path:
    return copytree(models["sd15"], tmp_path / "sd15")


@pytest.mark.parametrize("changes", [{}, {"seed": 6, "prompt": "a blue moon", "sampler": "Euler"}], ids=["the same", "another"])
def test_a_warm_request_reads_no_json_and_no_header(model: Path, changes: dict[str, Any]) -> None:
    engine = DiffusersEngine()
    report, _ = check(engine, model, "float32")
    save_report(report)
    first, _ = generate(engine, model, **changes)
    assert spoil_all(model) >= 9
    assert spoil_all(data_dir()) >= 1
    second, emit = generate(engine, model, **changes)
    assert np.array_equal(pixels(first), pixels(second))
    assert second.plan == first.plan
    assert not emit.of(ModelChanged)


def rewrite(path: Path) -> None:
    """Write the same content into a new file of this name."""
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.replace(path)


FILES: dict[str, Callable[[Path], object]] = {
    "the index of the parts": lambda model: rewrite(model / "model_index.json"),
    "a configuration": lambda model: rewrite(model / "unet" / "config.json"),
    "the sampler's configuration": lambda model: rewrite(model / "scheduler" / "scheduler_config.json"),
    "a tokenizer": lambda model: rewrite(model / "tokenizer" / "tokenizer.json"),
    "weights": lambda model: rewrite(model / "vae" / "diffusion_pytorch_model.safetensors"),
    "a file that is added": lambda model: (model / "unet" / "note.txt").write_text("new"),
    "a file that is gone": lambda model: (model / "unet" / "old.txt").unlink(),
    "the model's own defaults": lambda model: (model / "halftone.json").write_text('{"steps": 2}'),
}


@pytest.mark.parametrize("change", FILES)
def test_a_model_is_loaded_again_once_one_of_its_files_changed(model: Path, change: str) -> None:
    engine = DiffusersEngine()
    (model / "unet" / "old.txt").touch()
    generate(engine, model, steps=1)
    _, same = generate(engine, model, steps=1)
    FILES[change](model)
    _, emit = generate(engine, model, steps=1)
    assert not same.of(ModelChanged)
    assert len(emit.of(ModelChanged)) == 1
