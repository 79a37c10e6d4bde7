"""Weights leave a pickle file; code in it never runs."""

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.helpers.hostile_pickles import MARK, Hostile, hostile

from halftone.contract.errors import HalftoneError
from halftone.engine.weights.pickles import convert
from halftone.session.models import conversion

TENSORS: Mapping[str, torch.Tensor] = {
    "a.weight": torch.arange(12, dtype=torch.float16).reshape(3, 4),
    "b.bias": torch.ones(3, dtype=torch.bfloat16),
}


@pytest.mark.parametrize("wrapped", ["", "state_dict", "params_ema"])
@pytest.mark.parametrize("old", [False, True])
def test_weights_are_the_same_and_the_original_stays(tmp_path: Path, wrapped: str, old: bool) -> None:
    source, target = tmp_path / "old.ckpt", tmp_path / "old.safetensors"
    content = {wrapped: dict(TENSORS), "epoch": 3} if wrapped else dict(TENSORS)
    torch.save(content, source, _use_new_zipfile_serialization=not old)
    before = source.read_bytes()
    assert convert(source, target) == 2
    found = load_file(target)
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in TENSORS.items())
    assert source.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.ckpt", "old.safetensors"]


def test_tensors_that_share_memory_are_written_apart(tmp_path: Path) -> None:
    whole = torch.arange(16.0).reshape(4, 4)
    torch.save({"tied": whole, "also": whole, "part": whole[1:3], "turned": whole.T}, tmp_path / "a.pt")
    convert(tmp_path / "a.pt", tmp_path / "a.safetensors")
    found = load_file(tmp_path / "a.safetensors")
    assert torch.equal(found["also"], whole)
    assert torch.equal(found["part"], whole[1:3])
    assert torch.equal(found["turned"], whole.T)


def test_an_embedding_of_a1111_gets_the_name_that_readers_know(tmp_path: Path) -> None:
    words = torch.ones(2, 768)
    torch.save({"string_to_token": {"*": 265}, "string_to_param": {"*": words}, "name": "word"}, tmp_path / "word.pt")
    convert(tmp_path / "word.pt", tmp_path / "word.safetensors")
    assert torch.equal(load_file(tmp_path / "word.safetensors")["emb_params"], words)


@pytest.mark.parametrize("form", ["torch", "pickle"])
def test_code_is_refused_by_name_and_never_runs(tmp_path: Path, form: str) -> None:
    source, mark = tmp_path / "bad.ckpt", tmp_path / MARK
    hostile(source, mark, "torch" if form == "torch" else "pickle")
    with pytest.raises(HalftoneError) as caught:
        convert(source, tmp_path / "bad.safetensors")
    assert caught.value.code == "pickle-needs-code"
    assert caught.value.as_facts().facts["name"] in ("io.open", "_io.open", "builtins.open")
    assert not mark.exists()
    assert not (tmp_path / "bad.safetensors").exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_in_a_bare_pickle_is_named_whatever_the_protocol(tmp_path: Path, protocol: int) -> None:
    source, mark = tmp_path / "bad.ckpt", tmp_path / MARK
    source.write_bytes(pickle.dumps({"epoch": 3, "state_dict": Hostile(mark)}, protocol))
    with pytest.raises(HalftoneError) as caught:
        convert(source, tmp_path / "bad.safetensors")
    assert caught.value.code == "pickle-needs-code"
    assert str(caught.value.as_facts().facts["name"]).endswith("open")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "code"), [(b"", "model-load-failed"), (b"PK\x03\x04 torn", "model-load-failed"), (b"text", "model-load-failed")]
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, code: str) -> None:
    (tmp_path / "bad.pt").write_bytes(content)
    with pytest.raises(HalftoneError) as caught:
        convert(tmp_path / "bad.pt", tmp_path / "bad.safetensors")
    assert caught.value.code == code


def test_a_file_without_weights_and_a_target_that_exists_are_refused(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "a.pt")
    with pytest.raises(HalftoneError) as caught:
        convert(tmp_path / "a.pt", tmp_path / "a.safetensors")
    assert caught.value.code == "pickle-no-weights"
    (tmp_path / "b.safetensors").write_bytes(b"mine")
    with pytest.raises(HalftoneError) as caught:
        convert(tmp_path / "a.pt", tmp_path / "b.safetensors")
    assert caught.value.code == "output-exists"
    assert (tmp_path / "b.safetensors").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("tensors", "known"), [({"lora_unet_mid.lora_down.weight": (8, 768)}, True), ({"weight": (3, 4)}, False)]
)
def test_the_command_says_whether_the_result_can_be_used(
    tmp_path: Path, tensors: Mapping[str, Sequence[int]], known: bool
) -> None:
    content = {name: torch.ones(*shape) for name, shape in tensors.items()}
    if known:
        content["lora_unet_mid.lora_up.weight"] = torch.ones(320, 8)
    torch.save(content, tmp_path / "old.ckpt")
    assert conversion.convert(str(tmp_path / "old.ckpt")).known is known
