"""Language models that read the prompt: their names in ComfyUI's files -> those of transformers, and their configurations."""

import re
from collections.abc import Iterable
from typing import Any, Final

from halftone.library.families.original_names import Shapes
from halftone.library.families.single_configs import count_blocks

Config = dict[str, Any]

_HEAD: Final = 128
"""Numbers of one attention head in Qwen2, Llama 3 and Mistral, where no norm of it tells."""
_OUTER: Final = "model."
"""Before the names of the network without its table of answers."""


def inner_names(names: Iterable[str]) -> dict[str, str]:
    """Of the network without its table of answers, which no picture needs."""
    return {name: name.removeprefix(_OUTER) for name in names}


def decoder(shapes: Shapes) -> Config:
    """The configuration of Qwen3Model, LlamaModel or MistralModel. One that is cut off behind the last layer that is read has no
    norm there, and none is applied.
    """
    own = {ours: shapes[name] for name, ours in inner_names(shapes).items()}
    table = own["embed_tokens.weight"]
    norm = own.get("layers.0.self_attn.q_norm.weight")
    head = norm[0] if norm else _HEAD
    return {
        **({} if "norm.weight" in own else {"tie_last_hidden_states": False}),
        "vocab_size": table[0],
        "hidden_size": table[1],
        "head_dim": head,
        "intermediate_size": own["layers.0.mlp.gate_proj.weight"][0],
        "num_hidden_layers": count_blocks(own, r"layers\.(\d+)\."),
        "num_attention_heads": own["layers.0.self_attn.q_proj.weight"][0] // head,
        "num_key_value_heads": own["layers.0.self_attn.k_proj.weight"][0] // head,
    }


def vision_names(names: Iterable[str]) -> dict[str, str]:
    """Of Qwen2_5_VLForConditionalGeneration, which reads pictures, too."""
    return {name: _vision_name(name) for name in names}


def _vision_name(name: str) -> str:
    if name.startswith("visual."):
        return f"{_OUTER}{name}"
    inner = name.removeprefix(_OUTER)
    return f"{_OUTER}language_model.{inner}" if name != inner and not inner.startswith(("visual.", "language_model.")) else name


def vision_decoder(shapes: Shapes) -> Config:
    """Its configuration."""
    own = {ours: shapes[name] for name, ours in vision_names(shapes).items()}
    start, sight = f"{_OUTER}language_model.", f"{_OUTER}visual."
    inner = decoder({name.removeprefix(start): shape for name, shape in own.items()})
    del inner["head_dim"]
    patch = own[f"{sight}patch_embed.proj.weight"]
    return {
        "text_config": inner,
        "vision_config": {
            "depth": count_blocks(own, rf"{re.escape(sight)}blocks\.(\d+)\."),
            "hidden_size": patch[0],
            "patch_size": patch[-1],
            "temporal_patch_size": patch[2],
            "intermediate_size": own[f"{sight}blocks.0.mlp.gate_proj.weight"][0],
            "out_hidden_size": own[f"{sight}merger.mlp.2.weight"][0],
        },
    }
