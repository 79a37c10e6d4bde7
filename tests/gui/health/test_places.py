"""Which model a chosen file stands for, and where a repaired copy is proposed."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers import samples

from halftone.gui.health.file_dialogs import copy_place, model_of


@pytest.mark.parametrize(
    ("chosen", "model"),
    [("a/model_index.json", "a"), ("a/b.safetensors", "a/b.safetensors"), ("a/model_index.json.safetensors", None), ("a", "a")],
)
def test_the_list_of_its_parts_stands_for_a_folder(chosen: str, model: str | None) -> None:
    assert model_of(Path(chosen)) == Path(model or chosen)


def test_a_copy_is_proposed_beside_the_model_and_of_its_kind() -> None:
    folder = replace(samples.POCKET, path="/models/fine", format="diffusers")
    assert copy_place(folder) == (Path("/models/fine-rescaled-fp16"), "", "")
    file = replace(samples.POCKET, path="/models/fine.v2.safetensors", format="single-file")
    place, kind, ending = copy_place(file)
    assert (place, ending) == (Path("/models/fine.v2-rescaled-fp16.safetensors"), "safetensors")
    assert "*.safetensors" in kind
