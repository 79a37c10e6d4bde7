"""Tests that what a part's configuration says is held against the headers of its weights; nothing is built."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.model_files import safetensors, write_folder
from tests.helpers.wording import translated

from halftone.contract.errors import HalftoneError
from halftone.library.families.part_configs import config_fault, shown
from halftone.library.files.folder import read_part
from halftone.library.models import describe, runnable

CLIP = {
    "model_type": "clip_text_model",
    "num_hidden_layers": 2,
    "hidden_size": 8,
    "vocab_size": 30,
    "max_position_embeddings": 77,
}


def tensors(layers: int = 2) -> dict[str, Any]:
    """A CLIP text encoder's, as far as its configuration tells of them."""
    start = "text_model.embeddings"
    found = {f"{start}.token_embedding.weight": np.zeros((30, 8), np.float16)}
    found[f"{start}.position_embedding.weight"] = np.zeros((77, 8), np.float16)
    return found | {f"text_model.encoder.layers.{layer}.layer_norm1.weight": np.zeros(8, np.float16) for layer in range(layers)}


def folder(root: Path, config: dict[str, Any], layers: int = 2) -> Path:
    write_folder(root)
    (root / "text_encoder" / "config.json").write_text(json.dumps(config))
    (root / "text_encoder" / "model.safetensors").write_bytes(safetensors(tensors(layers)))
    return root


FAULTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, ""),
    ({"num_hidden_layers": None}, ""),
    ({"num_hidden_layers": 10_000_000}, "text_encoder/config.json says num_hidden_layers 10,000,000, its weights have 2"),
    ({"num_hidden_layers": -1}, "text_encoder/config.json says num_hidden_layers -1, which no model has"),
    ({"num_hidden_layers": 1}, "text_encoder/config.json says num_hidden_layers 1, its weights have 2"),
    ({"num_hidden_layers": "two"}, "text_encoder/config.json says num_hidden_layers two, its weights have 2"),
    ({"vocab_size": 10**9}, "text_encoder/config.json says vocab_size 1,000,000,000, its weights have 30"),
    ({"hidden_size": 9}, "text_encoder/config.json says hidden_size 9, its weights have 8"),
    ({"max_position_embeddings": 512}, "text_encoder/config.json says max_position_embeddings 512, its weights have 77"),
    ({"projection_dim": 10**30}, "text_encoder/config.json says projection_dim 10^30, which no model has"),
    (
        {"text_config": {"eos_token_id": 2**40}},
        "text_encoder/config.json says eos_token_id 1,099,511,627,776, which no model has",
    ),
    ({"transformers_weights": "adapter_model.bin"}, "text_encoder/config.json names other weights than those beside it"),
    (
        {"quantization_config": {"quant_method": "bitsandbytes"}},
        "text_encoder is quantised by bitsandbytes, which Halftone cannot read in a folder",
    ),
)


@pytest.mark.parametrize(("changes", "said"), FAULTS, ids=[str(changes)[:40] for changes, _ in FAULTS])
def test_a_configuration_that_the_weights_do_not_bear_out(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    root = folder(tmp_path / "m", CLIP | changes)
    fault = config_fault(read_part(root, "text_encoder"))
    assert str(fault or "") == said
    assert fault is None or translated(fault)
    facts = describe(str(root))
    assert facts.why == fault
    if said:
        with pytest.raises(HalftoneError) as caught:
            runnable(facts)
        assert (caught.value.code, caught.value.facts["detail"]) == ("model-cannot-run", fault)


def test_an_adapter_beside_the_weights_is_not_followed(tmp_path: Path) -> None:
    root = folder(tmp_path / "m", CLIP)
    (root / "text_encoder" / "adapter_config.json").write_text("{}")
    assert str(describe(str(root)).why) == "text_encoder/adapter_config.json names other weights than those beside it"


@pytest.mark.parametrize("length", [0, 1, 2, -1, "77", True, []])
def test_a_tokenizer_without_a_place_for_a_word(tmp_path: Path, length: object) -> None:
    root = folder(tmp_path / "m", CLIP)
    (root / "tokenizer" / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
    facts = describe(str(root))
    assert (
        str(facts.why) == f"tokenizer/tokenizer_config.json says model_max_length {shown(length)}, which has no place for a word"
    )
    assert facts.prompt_tokens == 77


@pytest.mark.parametrize(("length", "tokens"), [(3, 3), (77, 77), (512, 77), (10**9, 77), (10**30, 77), (1e30, 77), (None, 77)])
def test_no_limit_is_that_of_the_text_encoder(tmp_path: Path, length: object, tokens: int) -> None:
    root = folder(tmp_path / "m", CLIP)
    (root / "tokenizer" / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
    facts = describe(str(root))
    assert (facts.why, facts.prompt_tokens) == (None, tokens)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_train_timesteps", 0),
        ("num_train_timesteps", 10**9),
        ("beta_start", "a"),
        ("beta_end", -1),
        ("shift", 0),
        ("rho", []),
    ],
)
def test_a_number_that_no_scheduler_can_have(tmp_path: Path, field: str, value: object) -> None:
    root = folder(tmp_path / "m", CLIP)
    content = {"_class_name": "DDIMScheduler", field: value}
    (root / "scheduler" / "scheduler_config.json").write_text(json.dumps(content))
    said = f"scheduler/scheduler_config.json says {field} {shown(value)}, which no scheduler can have"
    assert str(describe(str(root)).why) == said


# --- which files are read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["text_encoder", "unet", "vae"])
@pytest.mark.parametrize("beside", ["other.safetensors", "model.safetensors.bak", "weights-00001-of-00002.safetensors"])
def test_weights_are_those_that_the_library_reads(tmp_path: Path, part: str, beside: str) -> None:
    root = write_folder(tmp_path / "m")
    own = next((root / part).glob("*.safetensors"))
    own.rename(root / part / beside)
    stem = "pytorch_model" if part == "text_encoder" else "diffusion_pytorch_model"
    (root / part / f"{stem}.bin").write_bytes(b"PK\x03\x04pickle")
    with pytest.raises(HalftoneError) as caught:
        describe(str(root))
    assert (caught.value.code, caught.value.facts["path"]) == ("model-pickle", str(root / part / f"{stem}.bin"))


def test_a_variant_is_read_under_its_name(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    for part, stem in (("unet", "diffusion_pytorch_model"), ("text_encoder", "model")):
        (root / part / f"{stem}.safetensors").rename(root / part / f"{stem}.fp16.safetensors")
        found = read_part(root, part)
        assert (found.variant, found.files[0][0].name) == ("fp16", f"{stem}.fp16.safetensors")
    assert read_part(root, "vae").variant == ""


def test_a_divided_file_that_names_a_pickle(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    own = root / "unet" / "diffusion_pytorch_model.safetensors"
    own.rename(own.with_name("half.bin"))
    index = {"metadata": {}, "weight_map": {"unet.weight": "half.bin"}}
    (root / "unet" / f"{own.name}.index.json").write_text(json.dumps(index))
    with pytest.raises(HalftoneError) as caught:
        describe(str(root))
    assert caught.value.code == "model-pickle"
