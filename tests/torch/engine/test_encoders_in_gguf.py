"""Text encoders in GGUF files, as llama.cpp writes them: the numbers of their files, in the order that transformers has."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.comfy_split import SPLITS, save_split
from tests.helpers.comfy_split_newer import NEWER
from tests.helpers.transformer_files import save_gguf
from tests.torch.engine.test_split_families import exact
from transformers import MistralConfig, MistralModel

from halftone.contract.errors import HalftoneError
from halftone.engine.loading.load import load_pipeline
from halftone.engine.weights.file_tensors import filled_component
from halftone.engine.weights.packed import PackedLinear
from halftone.library.families.gguf_names import encoder_names
from halftone.library.families.original_names import Place
from halftone.library.files.gguf_header import read_gguf
from halftone.library.models import describe, runnable

_T5 = {
    "layer.0.SelfAttention.relative_attention_bias": "attn_rel_b", "layer.0.SelfAttention.": "attn_",
    "layer.0.layer_norm": "attn_norm",
    "layer.1.DenseReluDense.wi_0": "ffn_gate", "layer.1.DenseReluDense.wi_1": "ffn_up", "layer.1.DenseReluDense.wo": "ffn_down",
    "layer.1.layer_norm": "ffn_norm",
    "encoder.block.": "enc.blk.", "encoder.final_layer_norm": "enc.output_norm",
    "shared": "token_embd",
}  # fmt: skip
_LLM = {
    "model.layers.": "blk.", "model.embed_tokens": "token_embd", "model.norm": "output_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
}  # fmt: skip
ARCHITECTURES = {"Z-Image": "qwen3", "FLUX.2 klein 4B": "qwen3", "FLUX.2 klein 9B": "qwen3", "Wan": "t5encoder"}
"""Split model -> what llama.cpp calls the architecture of its text encoder."""


def llama_cpp(name: str) -> str:
    for theirs, own in (_T5 if ".SelfAttention." in name or name.startswith(("encoder.", "shared")) else _LLM).items():
        name = name.replace(theirs, own)
    return name


def turned(tensors: dict[str, torch.Tensor], heads: int, keys: int) -> dict[str, torch.Tensor]:
    """What llama.cpp's converter makes of the rows of queries and keys of Llama and Mistral."""
    count = {"q_proj.weight": heads, "k_proj.weight": keys}
    found = dict(tensors)
    for name, value in tensors.items():
        own = next((number for end, number in count.items() if name.endswith(end)), 0)
        if own:
            found[name] = value.reshape(own, 2, value.shape[0] // own // 2, -1).swapaxes(1, 2).reshape(value.shape)
    return found


def in_gguf(name: str, folder: Path, architecture: str, kind: str = "Q8_0") -> tuple[Path, Any, dict[str, torch.Tensor]]:
    """The transformer's file of a split model whose text encoder is in GGUF; and what that file's numbers stand for."""
    split = (SPLITS | NEWER)[name]
    pipe, path = save_split(split, folder)
    file, named = split.files["text_encoder"]
    given = {key: value for key, value in named(pipe.text_encoder).items() if key != "spiece_model"}
    config = pipe.text_encoder.config
    if architecture == "llama":
        given = turned(given, config.num_attention_heads, config.num_key_value_heads)
    (folder / file).unlink()
    numbers = save_gguf(given, (folder / file).with_suffix(".gguf"), kind, llama_cpp, architecture)
    return path, split, numbers


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_encoder_in_gguf_holds_what_its_file_says(name: str, kind: str, tmp_path: Path) -> None:
    path, split, numbers = in_gguf(name, tmp_path, ARCHITECTURES[name], kind)
    facts = describe(str(path))
    runnable(facts)
    module = load_pipeline(facts, torch.device("cpu")).modules["text_encoder"]
    assert any(isinstance(layer, PackedLinear) for layer in module.modules())
    ours = split.files["text_encoder"][1](exact(module))
    worst = max(float((ours[key] - value.reshape(ours[key].shape)).abs().max()) for key, value in numbers.items())
    print(f"{name}, text encoder in GGUF {kind}: equal, worst difference {worst:.1e}")
    assert ours.keys() - {"spiece_model"} == numbers.keys()
    assert worst == 0


def test_the_queries_of_llama_are_turned_back(tmp_path: Path) -> None:
    """The same numbers as in a plain file: of 16 bits, which lose nothing."""
    config = MistralConfig(
        vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16,
    )  # fmt: skip
    model = MistralModel(config)
    given = turned({f"model.{name}": value for name, value in model.state_dict().items()}, 4, 2)
    path = tmp_path / "m.gguf"
    numbers = save_gguf(given, path, "Q8_0", llama_cpp, "llama")
    header = read_gguf(path)
    places = {
        ours.removeprefix("model."): Place(theirs) for theirs, ours in encoder_names(t.name for t in header.tensors).items()
    }
    made = filled_component(MistralModel, config.to_dict(), path, header, places)
    back = turned({f"model.{name}": value for name, value in exact(made).state_dict().items()}, 4, 2)
    assert all(torch.equal(back[name], value) for name, value in numbers.items())
    assert any(not torch.equal(given[name], model.state_dict()[name.removeprefix("model.")]) for name in given)


def test_qwen_2_5_in_gguf_says_why(tmp_path: Path) -> None:
    path, _, _ = in_gguf("Qwen-Image", tmp_path, "qwen2vl")
    with pytest.raises(HalftoneError) as caught:
        runnable(describe(str(path)))
    name = Path(SPLITS["Qwen-Image"].files["text_encoder"][0]).stem
    beside = f"the weights of {name}.gguf, which lies beside it, are quantised (GGUF), and Halftone does not read such a part"
    assert str(caught.value.facts["detail"]) == beside
