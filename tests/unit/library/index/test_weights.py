"""What a look at every weight finds, and that it is kept until the file changes."""

from pathlib import Path

import numpy as np
import pytest
from tests.helpers.model_files import safetensors, write_folder

from halftone.library.index.facts import Weights
from halftone.library.index.scan import scan
from halftone.library.index.store import Index
from halftone.library.index.weights import weights_of

GOOD = np.ones(4, np.float32)


def file(path: Path, *values: float, kind: type = np.float32) -> Path:
    path.write_bytes(safetensors({"a": GOOD, "b": np.array([1, *values], kind)}))
    return path


def test_a_sound_file_says_so(tmp_path: Path) -> None:
    found = weights_of(str(file(tmp_path / "a.safetensors", -3.0)))
    assert found == Weights(tensors=2, peak=3.0)
    assert found.is_sound


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_counted_and_named(tmp_path: Path, value: float) -> None:
    found = weights_of(str(file(tmp_path / "a.safetensors", value)))
    assert (found.nonfinite, found.named, found.is_sound) == (1, ("b",), False)


def test_numbers_at_the_limit_of_float16_are_counted(tmp_path: Path) -> None:
    found = weights_of(str(file(tmp_path / "a.safetensors", 65504.0)))
    assert (found.clipped, found.named, found.is_sound) == (1, ("b",), False)


def test_a_file_that_ends_too_early_says_why(tmp_path: Path) -> None:
    path = file(tmp_path / "a.safetensors", 1.0)
    path.write_bytes(path.read_bytes()[:-4])
    error = weights_of(str(path)).error
    assert error is not None
    assert error.code == "model-truncated"


def test_all_files_of_a_folder_are_looked_at(tmp_path: Path) -> None:
    assert weights_of(str(write_folder(tmp_path / "whole"))).tensors > 1


def test_what_was_found_is_kept_until_the_file_changes(tmp_path: Path) -> None:
    path = file(tmp_path / "a.safetensors", 2.0)
    with Index(tmp_path / "index.sqlite") as index:
        scan(index, [str(tmp_path)])
        index.keep_weights(str(path), lambda: weights_of(str(path)))
        assert index.weights() == {str(path): Weights(tensors=2, peak=2.0)}
        file(path, 2.0, 3.0)
        scan(index, [str(tmp_path)])
        assert index.weights() == {}
