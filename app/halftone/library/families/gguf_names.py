"""Text encoders in GGUF files: the names that llama.cpp gives their tensors -> those of transformers.

Sources: gguf-py/gguf/constants.py and tensor_mapping.py of llama.cpp; how its converter turns the rows of Llama's and Mistral's
queries and keys, `LlamaModel.permute` there.
"""

import re
from collections.abc import Iterable
from typing import Final

from halftone.library.families.known_families import LLAVA, MISTRAL, QWEN3_4B, QWEN3_8B, T5_XXL, UMT5
from halftone.library.files.header import Header

READ: Final = (T5_XXL, UMT5, QWEN3_4B, QWEN3_8B, LLAVA, MISTRAL)
"""Those that are read from such files. Qwen2.5-VL is not: what it sees with lies in a file of its own."""
_T5: Final = {"token_embd.weight": "shared.weight", "enc.output_norm.weight": "encoder.final_layer_norm.weight"}
_T5_LAYERS: Final = {
    **{f"attn_{part}": f"layer.0.SelfAttention.{part}" for part in "qkvo"},
    "attn_norm": "layer.0.layer_norm",
    "attn_rel_b": "layer.0.SelfAttention.relative_attention_bias",
    "ffn_gate": "layer.1.DenseReluDense.wi_0",
    "ffn_up": "layer.1.DenseReluDense.wi_1",
    "ffn_down": "layer.1.DenseReluDense.wo",
    "ffn_norm": "layer.1.layer_norm",
}
_LLM: Final = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
_LLM_LAYERS: Final = {
    **{f"attn_{part}": f"self_attn.{part}_proj" for part in "qkv"},
    **{f"attn_{part}_norm": f"self_attn.{part}_norm" for part in "qk"},
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}
_TURNED: Final = ("llama",)
"""Architectures whose queries and keys have the two halves of each head's rows in turns."""


def encoder_names(names: Iterable[str]) -> dict[str, str]:
    """Tensor of a text encoder's file -> its name in transformers."""
    given = tuple(names)
    t5 = any(name.startswith("enc.blk.") for name in given)
    outer, layers = (_T5, _T5_LAYERS) if t5 else (_LLM, _LLM_LAYERS)
    start = "encoder.block" if t5 else "model.layers"
    found: dict[str, str] = {}
    for name in given:
        match = re.fullmatch(r"(?:enc\.)?blk\.(\d+)\.(\w+)\.(weight|bias)", name)
        inside = layers.get(match[2]) if match else None
        found[name] = f"{start}.{match[1]}.{inside}.{match[3]}" if match and inside else outer.get(name, name)
    return found


def is_turned(header: Header) -> bool:
    """Whether the rows of queries and keys are in another order than in transformers."""
    return header.metadata.get("general.architecture") in _TURNED
