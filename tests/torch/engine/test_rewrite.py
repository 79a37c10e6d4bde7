"""Files with some tensors scaled: what differs is told, everything else stays bit for bit."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from halftone.engine.checks.rewrite import rewrite


def test_what_is_scaled_is_told_apart_from_what_is_zero(tmp_path: Path) -> None:
    tensors = {"a.weight": torch.tensor([[1.5, -3.0], [0.0, 7.0]]).half(), "a.bias": torch.zeros(2), "b": torch.ones(3)}
    source, target = tmp_path / "m.safetensors", tmp_path / "copy.safetensors"
    save_file(tensors, source, {"format": "pt"})
    found = rewrite(source, target, {"a.weight[1:2]": -2, "a.bias": -2, "elsewhere": 1}, "a test")
    assert found == {"a.weight[1:2]": True, "a.bias": False}
    after = load_file(target)
    assert torch.equal(after["a.weight"], torch.tensor([[1.5, -3.0], [0.0, 1.75]]).half())
    assert torch.equal(after["b"], tensors["b"])
    assert torch.equal(after["a.bias"], tensors["a.bias"])


def test_a_number_that_its_type_cannot_hold_scaled_is_kept_wider(tmp_path: Path) -> None:
    source = tmp_path / "m.safetensors"
    save_file({"a": torch.tensor([2.0**-24, 1.0]).half(), "b": torch.tensor([4.0]).half()}, source)
    rewrite(source, source, {"a": -4, "b": -4}, "a test")
    after = load_file(source)
    assert after["a"].tolist() == [2.0**-28, 2.0**-4]
    assert (after["a"].dtype, after["b"].dtype) == (torch.float32, torch.float16)


def test_a_file_without_any_of_them_is_not_written(tmp_path: Path) -> None:
    source, target = tmp_path / "m.safetensors", tmp_path / "copy.safetensors"
    save_file({"b": torch.ones(3)}, source)
    assert rewrite(source, target, {"a": 1}, "a test") == {}
    assert not target.exists()


def test_a_parameter_is_found_under_the_name_of_another_version_of_the_library(tmp_path: Path) -> None:
    """Text encoders are stored with or without the wrapper "text_model"; a layer inside another is not meant."""
    source, target = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_file(
        {"text_model.layer.weight": torch.ones(2), "inner.norm.weight": torch.ones(2), "last.weight": torch.ones(2)}, source
    )
    found = rewrite(source, target, {"layer.weight": 1, "norm.weight": 1, "text_model.last.weight": 2}, "a test")
    assert found == {"layer.weight": True, "text_model.last.weight": True}
    made = load_file(target)
    assert {name: value[0].item() for name, value in made.items()} == {
        "text_model.layer.weight": 2.0,
        "inner.norm.weight": 1.0,
        "last.weight": 4.0,
    }
