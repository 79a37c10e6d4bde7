"""Weights leave a pickle file; code in it never runs."""

import argparse
import collections
import datetime
import io
import os
import pathlib
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from tests.helpers.all_in_one import save_all_in_one
from tests.helpers.hostile_pickles import MARK, Hostile, hostile
from tests.helpers.upscalers import make_upscaler
from tests.helpers.vaes import Form, other_vae, save_vae

from halftone.contract.errors import HalftoneError, sentence
from halftone.engine.making.upscale import load_upscaler
from halftone.engine.weights.pickles import rewrite
from halftone.library.add_ons.inversions import read_inversion
from halftone.library.add_ons.upscalers import is_upscale_model
from halftone.library.families.recognise import recognise
from halftone.library.files.header import read_header
from halftone.session.models import conversion
from halftone.worker.confined.walls import WALLS

TENSORS: Mapping[str, torch.Tensor] = {
    "a.weight": torch.arange(12, dtype=torch.float16).reshape(3, 4),
    "b.bias": torch.ones(3, dtype=torch.bfloat16),
}
TYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16,
)  # fmt: skip
LINE = torch.arange(16.0)


def converted(content: object, folder: Path, **saved: Any) -> dict[str, torch.Tensor]:
    """What a file with this content becomes."""
    held = io.BytesIO()
    torch.save(content, held, **saved)
    return read(held.getvalue(), folder)


def read(data: bytes, folder: Path) -> dict[str, torch.Tensor]:
    target = folder / "made.safetensors"
    with target.open("wb") as output:
        rewrite(io.BytesIO(data), len(data), output, lambda _done, _total: None)
    return load_file(target)


def refused(data: bytes, folder: Path) -> HalftoneError:
    with pytest.raises(HalftoneError) as caught:
        read(data, folder)
    return caught.value


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda weights: weights,
        lambda weights: {"state_dict": weights, "epoch": 3, "optimizer": {"state": {0: LINE}}},
        lambda weights: {"params_ema": weights, "params": {"a.weight": LINE}},
        lambda weights: {"model": {"state_dict": weights}, "args": argparse.Namespace(rate=1e-4)},
        collections.OrderedDict,
    ],
)
def test_weights_are_those_that_torch_reads(tmp_path: Path, wrap: Callable[[object], object], old: bool) -> None:
    found = converted(wrap(dict(TENSORS)), tmp_path, _use_new_zipfile_serialization=not old)
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in TENSORS.items())


@pytest.mark.parametrize("old", [False, True])
def test_every_type_and_shape_is_kept(tmp_path: Path, old: bool) -> None:
    types = TYPES[:-3] if old else TYPES  # torch writes the newer ones in the old form, and cannot read them
    content = {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in types}
    content |= {"scalar": torch.tensor(3.5), "empty": torch.ones(0, 4), "parameter": torch.nn.Parameter(LINE)}
    found = converted(content, tmp_path, _use_new_zipfile_serialization=not old)
    assert found.keys() == content.keys()
    for name, tensor in content.items():
        kept = found[name]
        assert (kept.dtype, kept.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(kept.reshape(-1).view(torch.uint8), tensor.detach().reshape(-1).view(torch.uint8))


@pytest.mark.parametrize("old", [False, True])
def test_tensors_that_share_memory_are_written_apart(tmp_path: Path, old: bool) -> None:
    whole = LINE.reshape(4, 4)
    views = {
        "tied": whole,
        "also": whole,
        "part": whole[1:3],
        "turned": whole.T,
        "steps": whole[:, ::2],
        "wide": LINE[:1].expand(9),
    }
    found = converted(views, tmp_path, _use_new_zipfile_serialization=not old)
    assert all(torch.equal(found[name], tensor) for name, tensor in views.items())


@pytest.mark.parametrize("holder", [dict, torch.nn.ParameterDict])
def test_an_embedding_of_a1111_gets_the_name_that_readers_know(tmp_path: Path, holder: Callable[[object], object]) -> None:
    words = torch.ones(2, 768)
    content = {"string_to_token": {"*": 265}, "string_to_param": holder({"*": words}), "name": "word", "step": 1}
    assert torch.equal(converted(content, tmp_path)["emb_params"], words)


def left_out(content: object, folder: Path) -> dict[str, int]:
    data = saved(content)
    with (folder / "made.safetensors").open("wb") as output:
        return rewrite(io.BytesIO(data), len(data), output, lambda _done, _total: None)[1]


def test_tensors_beside_the_weights_are_counted_by_their_place(tmp_path: Path) -> None:
    content = {"model": dict(TENSORS), "text_encoder": {"a": LINE, "inner": {"b": LINE}}, "epoch": 3, "mean": [LINE]}
    assert left_out(content, tmp_path) == {"text_encoder": 2, "mean": 1}
    assert left_out({"model": {"state_dict": dict(TENSORS), "ema": {"a": LINE}}}, tmp_path) == {"model.ema": 1}
    assert left_out({"state_dict": dict(TENSORS), "epoch": 3}, tmp_path) == {}
    embedding = {"string_to_token": {"*": torch.tensor(265)}, "string_to_param": {"*": LINE.reshape(1, 16)}}
    assert left_out(embedding, tmp_path) == {}


def test_an_embedding_of_diffusers_keeps_its_word_and_an_adapter_its_parts(tmp_path: Path) -> None:
    assert converted({"<cat>": LINE}, tmp_path).keys() == {"<cat>"}
    adapter = {"image_proj": {"proj.weight": LINE}, "ip_adapter": {"1.to_k_ip.weight": LINE}}
    assert converted(adapter, tmp_path).keys() == {"image_proj.proj.weight", "ip_adapter.1.to_k_ip.weight"}


def test_a_lightning_checkpoint_gives_its_weights_whatever_lies_beside_them(tmp_path: Path) -> None:
    content = {
        "state_dict": dict(TENSORS),
        "hyper_parameters": {"rate": 1e-4, "folder": pathlib.PurePosixPath("/data"), "when": datetime.date(2024, 1, 1)},
        "callbacks": collections.defaultdict(list),
        "global_step": 470000,
    }
    held = io.BytesIO()
    torch.save(content, held)
    raw = named(held.getvalue(), {"datetime": "omegaconf.dictconfig"}, {"date": "DictConfig"})
    assert read(raw, tmp_path).keys() == TENSORS.keys()


def named(data: bytes, *changes: Mapping[str, str]) -> bytes:
    """The file of torch.save with other names in its pickle."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            if member.filename.endswith("/data.pkl"):
                for change in changes:
                    for one, other in change.items():
                        content = content.replace(f"{one}\n".encode(), f"{other}\n".encode())
            new.writestr(member.filename, content)
    return made.getvalue()


def test_a_file_packed_again_with_compression_is_read(tmp_path: Path) -> None:
    held, packed = io.BytesIO(), io.BytesIO()
    torch.save(dict(TENSORS), held)
    with zipfile.ZipFile(held) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    assert read(packed.getvalue(), tmp_path).keys() == TENSORS.keys()


@pytest.mark.parametrize("form", ["torch", "pickle"])
def test_code_is_refused_by_name_and_never_runs(tmp_path: Path, form: str) -> None:
    source, mark = tmp_path / "bad.ckpt", tmp_path / MARK
    hostile(source, mark, "torch" if form == "torch" else "pickle")
    error = refused(source.read_bytes(), tmp_path)
    assert error.code == "pickle-needs-code"
    assert error.facts["name"] in ("io.open", "_io.open", "builtins.open")
    assert not mark.exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_in_a_bare_pickle_is_named_whatever_the_protocol(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / MARK
    error = refused(pickle.dumps({"epoch": 3, "state_dict": Hostile(mark)}, protocol), tmp_path)
    assert error.code == "pickle-needs-code"
    assert str(error.facts["name"]).endswith("open")
    assert not mark.exists()


def bomb() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}, 2))
        archive.writestr("a/data/0", bytes(2**25))
    return held.getvalue()


def saved(content: object, **options: Any) -> bytes:
    held = io.BytesIO()
    torch.save(content, held, **options)
    return held.getvalue()


def shortened() -> bytes:
    """The record of its tensor is shorter than the pickle says."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved({"a": LINE}))) as old, zipfile.ZipFile(made, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            new.writestr(member.filename, content[:8] if member.filename.endswith("/data/0") else content)
    return made.getvalue()


def script() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}, 2))
        archive.writestr("a/constants.pkl", pickle.dumps((), 2))
    return held.getvalue()


DAMAGED: Mapping[str, tuple[bytes, str]] = {
    "empty": (b"", "damaged"),
    "torn zip": (b"PK\x03\x04 torn", "damaged"),
    "text": (b"text", "damaged"),
    "half": (saved(dict(TENSORS))[:300], "damaged"),
    "half, old form": (saved(dict(TENSORS), _use_new_zipfile_serialization=False)[:-9], "damaged"),
    "short record": (shortened(), "damaged"),
    "a pickle of plain values": (pickle.dumps({"a": 1}, 2), "damaged"),
    "zip bomb": (bomb(), "unpacks to many times"),
    "tensor bomb": (saved({"a": torch.ones(1).expand(2**12, 2**12)}), "unpacks to many times"),
    "TorchScript": (script(), "TorchScript"),
    "tar": (bytes(257) + b"ustar" + bytes(250), "older than 0.2"),
    "another zip": (saved({"a": LINE}).replace(b"data.pkl", b"data.bin"), "no PyTorch weights"),
    "quantised": (named(saved({"a": LINE}), {"_rebuild_tensor_v2": "_rebuild_qtensor"}), "_rebuild_qtensor"),
    "sparse": (saved({"a": torch.eye(3).to_sparse()}), "_rebuild_sparse_tensor"),
    "protocol 4": (saved({"a": LINE}, pickle_protocol=4), "refuses to read"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_read_is_named_with_its_reason(tmp_path: Path, name: str) -> None:
    data, reason = DAMAGED[name]
    error = refused(data, tmp_path)
    assert error.code == "pickle-unread"
    assert reason in sentence(error.as_facts())


def test_a_file_without_weights_is_refused(tmp_path: Path) -> None:
    assert refused(saved({"epoch": 3}), tmp_path).code == "pickle-no-weights"


# --- what is made of real files -------------------------------------------------------------------------------------------------


def test_a_conversion_says_what_it_left_out(tmp_path: Path) -> None:
    torch.save({"model": dict(TENSORS), "text_encoder": {"a": LINE}}, tmp_path / "old.pt")
    made = conversion.convert(str(tmp_path / "old.pt"))
    assert made.left == {"text_encoder": 1}
    assert str(conversion.left_words(made.left)) == "Not in the new file: 1 tensor in text_encoder."
    assert conversion.left_words({}) is None


def as_pickle(file: Path, wrap: Callable[[object], object], ending: str) -> tuple[dict[str, torch.Tensor], str]:
    """Save the tensors of a safetensors file as another program does, and convert that. Returns the tensors and the new file."""
    tensors = load_file(file)
    file.unlink()
    torch.save(wrap(tensors), file.with_suffix(ending))
    return tensors, conversion.convert(str(file.with_suffix(ending))).path


def assert_equal(found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in wanted.items())


def test_an_upscaler_loads_with_equal_weights(tmp_path: Path) -> None:
    tensors, path = as_pickle(make_upscaler(tmp_path / "x2.safetensors"), lambda weights: {"params_ema": weights}, ".pth")
    assert is_upscale_model(path)
    assert load_upscaler(path, torch.device("cpu")).scale == 2
    assert_equal(load_file(path), tensors)


def test_a_checkpoint_is_recognised_with_equal_weights(tmp_path: Path) -> None:
    save_all_in_one("sd3", tmp_path / "model.safetensors")
    lightning = {"epoch": 3, "hyper_parameters": argparse.Namespace(rate=1e-4)}
    before = recognise(read_header(tmp_path / "model.safetensors"), "model")
    tensors, path = as_pickle(tmp_path / "model.safetensors", lambda weights: lightning | {"state_dict": weights}, ".ckpt")
    assert recognise(read_header(Path(path)), "model") == before
    assert_equal(load_file(path), tensors)


def test_an_embedding_is_one_that_a_prompt_can_name(tmp_path: Path) -> None:
    torch.save({"string_to_token": {"*": 265}, "string_to_param": {"*": torch.ones(2, 768)}}, tmp_path / "mood.pt")
    torch.save({"<cat>": torch.ones(768)}, tmp_path / "learned_embeds.bin")
    for name, vectors in (("mood.pt", 2), ("learned_embeds.bin", 1)):
        assert read_inversion(conversion.convert(str(tmp_path / name)).path).vectors == vectors


@pytest.mark.parametrize("form", ["original", "diffusers"])
def test_a_vae_is_recognised_with_equal_weights(tmp_path: Path, form: Form) -> None:
    file = save_vae(other_vae(), tmp_path / "vae.safetensors", form)
    tensors, path = as_pickle(file, lambda weights: {"state_dict": weights, "loss": 0.1}, ".ckpt")
    assert recognise(read_header(Path(path)), "vae").kind == "VAE"
    assert_equal(load_file(path), tensors)


# --- in a process of its own ----------------------------------------------------------------------------------------------------


def test_the_process_writes_a_new_name_and_the_original_stays(tmp_path: Path) -> None:
    source = tmp_path / "old.ckpt"
    source.write_bytes(saved(dict(TENSORS)))
    before, heard = source.read_bytes(), list[tuple[int, int]]()
    (tmp_path / "old.safetensors").write_bytes(b"mine")
    made = conversion.convert(str(source), heard=lambda done, total: heard.append((done, total)))
    assert Path(made.path) == tmp_path / "old-2.safetensors"
    assert load_file(made.path).keys() == TENSORS.keys()
    assert heard[-1] == (30, 30)
    assert set(made.open) <= set(WALLS)
    assert source.read_bytes() == before
    assert (tmp_path / "old.safetensors").read_bytes() == b"mine"
    assert len(os.listdir(tmp_path)) == 3


@pytest.mark.parametrize("old", [False, True])
def test_the_process_reads_both_forms_and_says_whether_the_result_can_be_used(tmp_path: Path, old: bool) -> None:
    lora: Mapping[str, Sequence[int]] = {"lora_unet_mid.lora_down.weight": (8, 768), "lora_unet_mid.lora_up.weight": (320, 8)}
    content = {name: torch.ones(*shape) for name, shape in lora.items()}
    (tmp_path / "old.pt").write_bytes(saved(content if old else {"weight": LINE}, _use_new_zipfile_serialization=not old))
    (tmp_path / "elsewhere").mkdir()
    made = conversion.convert(str(tmp_path / "old.pt"), tmp_path / "elsewhere")
    assert (made.known, Path(made.path).parent.name) == (old, "elsewhere")


def test_the_process_names_what_a_file_asks_for(tmp_path: Path) -> None:
    source, mark = tmp_path / "bad.ckpt", tmp_path / MARK
    hostile(source, mark)
    with pytest.raises(HalftoneError) as caught:
        conversion.convert(str(source))
    assert sentence(caught.value.as_facts()).startswith(f"{source} asks to run ")
    assert os.listdir(tmp_path) == ["bad.ckpt"]


def test_a_file_that_needs_more_memory_than_it_may_use_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "wide.pt"
    data = saved({"a": torch.ones(1)}, _use_new_zipfile_serialization=False)
    assert data.count(b"K\x01Nt") == 1
    source.write_bytes(data.replace(b"K\x01Nt", b"\x8a\x05" + struct.pack("<q", 2**36)[:5] + b"Nt"))
    with pytest.raises(HalftoneError) as caught:
        conversion.convert(str(source))
    assert "memory" in sentence(caught.value.as_facts())


@pytest.mark.parametrize(
    ("name", "said"),
    [("a.safetensors", "is a safetensors file already."), ("a.png", "is not a pickle file."), ("a", "is a folder.")],
)
def test_a_file_of_another_kind_is_not_called_damaged(tmp_path: Path, name: str, said: str) -> None:
    path = tmp_path / name
    path.mkdir() if name == "a" else path.write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(HalftoneError) as caught:
        conversion.convert(str(path))
    assert sentence(caught.value.as_facts()).endswith(said)


def test_a_web_page_called_a_pickle_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(b"<!DOCTYPE html><html>")
    with pytest.raises(HalftoneError, match="it is a web page, not a model"):
        conversion.convert(str(tmp_path / "a.ckpt"))


@pytest.mark.parametrize("path", ["none.ckpt", "."])
def test_what_is_no_file_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        conversion.convert(str(tmp_path / path))
    assert caught.value.code in ("file-missing", "pickle-not")
    with pytest.raises(HalftoneError, match="does not exist"):
        conversion.convert(str(tmp_path / path), tmp_path / "nowhere")
    assert msgspec.json.encode(caught.value.as_facts())
