"""Files of transformers as people have them: GGUF with quantised weights, 8-bit and plain safetensors."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType
from safetensors.torch import save_file

Tensors = Mapping[str, torch.Tensor]
_SD3 = {
    "time_text_embed.timestep_embedder.linear_1": "t_embedder.mlp.0",
    "time_text_embed.timestep_embedder.linear_2": "t_embedder.mlp.2",
    "time_text_embed.text_embedder.linear_1": "y_embedder.mlp.0",
    "time_text_embed.text_embedder.linear_2": "y_embedder.mlp.2",
}
_LTX = (("proj_in", "patchify_proj"), ("time_embed", "adaln_single"), ("norm_q", "q_norm"), ("norm_k", "k_norm"))


def as_it_is(name: str) -> str:
    return name


def ltx_names(name: str) -> str:
    """As LTX's own code names the tensors."""
    for theirs, own in _LTX:
        name = name.replace(theirs, own)
    return name


def save_gguf(
    tensors: Tensors, path: Path, kind: str = "Q8_0", named: Callable[[str], str] = as_it_is, architecture: str = "flux"
) -> dict[str, torch.Tensor]:
    """What the file's numbers stand for: as city96's tool writes them, matrices packed where their rows divide into blocks, the
    rest in float32.
    """
    quantised = GGMLQuantizationType[kind]
    block = gguf.GGML_QUANT_SIZES[quantised][0]
    writer = gguf.GGUFWriter(path, architecture)
    stand_for: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        value = tensor.detach().float().cpu().numpy()
        if value.ndim == 2 and name.endswith(".weight") and value.shape[1] % block == 0:
            packed = gguf.quants.quantize(value, quantised)
            writer.add_tensor(named(name), packed, raw_dtype=quantised)
            value = gguf.quants.dequantize(packed, quantised).reshape(value.shape)
        else:
            writer.add_tensor(named(name), np.ascontiguousarray(value))
        stand_for[name] = torch.from_numpy(np.array(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return stand_for


def save_float8(tensors: Tensors, path: Path, *, scaled: bool) -> dict[str, torch.Tensor]:
    """Matrices in 8 bits, the rest in bfloat16; scaled: as ComfyUI keeps a factor beside each."""
    written: dict[str, torch.Tensor] = {}
    stand_for: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() != 2 or not name.endswith(".weight"):
            written[name] = tensor.detach().to(torch.bfloat16).contiguous()
            stand_for[name] = written[name].float()
            continue
        factor = tensor.detach().abs().max().float() / 448 if scaled else torch.tensor(1.0)
        written[name] = (tensor.detach().float() / factor).to(torch.float8_e4m3fn)
        stand_for[name] = written[name].float() * factor
        if scaled:
            written[f"{name.removesuffix('.weight')}.scale_weight"] = factor.reshape(1)
    if scaled:
        written["scaled_fp8"] = torch.zeros(2, dtype=torch.float8_e4m3fn)
    save_file(written, path)
    return stand_for


def sd3_original(module: Any) -> dict[str, torch.Tensor]:
    """An SD 3 transformer as Stability's own code names and joins its tensors."""
    theirs = dict(module.state_dict())
    found: dict[str, torch.Tensor] = {
        "pos_embed": theirs.pop("pos_embed.pos_embed"),
        "x_embedder.proj.weight": theirs.pop("pos_embed.proj.weight"),
        "x_embedder.proj.bias": theirs.pop("pos_embed.proj.bias"),
    }
    last = max(int(name.split(".")[1]) for name in theirs if name.startswith("transformer_blocks."))
    sides = {"x_block": ("to_q", "to_k", "to_v"), "context_block": ("add_q_proj", "add_k_proj", "add_v_proj")}
    inside = {
        "x_block": {
            "attn.to_out.0": "attn.proj",
            "ff.net.0.proj": "mlp.fc1",
            "ff.net.2": "mlp.fc2",
            "norm1.linear": "adaLN_modulation.1",
        },
        "context_block": {
            "attn.to_add_out": "attn.proj",
            "ff_context.net.0.proj": "mlp.fc1",
            "ff_context.net.2": "mlp.fc2",
            "norm1_context.linear": "adaLN_modulation.1",
        },
    }
    for index in range(last + 1):
        start = f"transformer_blocks.{index}."
        for side, names in sides.items():
            own = f"joint_blocks.{index}.{side}."
            for end in ("weight", "bias"):
                found[f"{own}attn.qkv.{end}"] = torch.cat([theirs.pop(f"{start}attn.{name}.{end}") for name in names])
            for given, name in inside[side].items():
                for end in ("weight", "bias"):
                    value = theirs.pop(f"{start}{given}.{end}", None)
                    if value is not None:
                        is_last = side == "context_block" and index == last and "adaLN" in name
                        found[f"{own}{name}.{end}"] = torch.cat(value.chunk(2)[::-1]) if is_last else value
    for end in ("weight", "bias"):
        value = theirs.pop(f"norm_out.linear.{end}")
        found[f"final_layer.adaLN_modulation.1.{end}"] = torch.cat(value.chunk(2)[::-1])
        found[f"final_layer.linear.{end}"] = theirs.pop(f"proj_out.{end}")
        for given, own in _SD3.items():
            found[f"{own}.{end}"] = theirs.pop(f"{given}.{end}")
        found[f"context_embedder.{end}"] = theirs.pop(f"context_embedder.{end}")
    norms = {"x_block.attn.ln_q": "norm_q", "x_block.attn.ln_k": "norm_k"}
    norms |= {"context_block.attn.ln_q": "norm_added_q", "context_block.attn.ln_k": "norm_added_k"}
    for index in range(last + 1):
        for own, given in norms.items():
            value = theirs.pop(f"transformer_blocks.{index}.attn.{given}.weight", None)
            if value is not None:
                found[f"joint_blocks.{index}.{own}.weight"] = value
    assert not theirs, sorted(theirs)
    return found


_FLUX = {
    "time_text_embed.timestep_embedder.linear_1": "time_in.in_layer",
    "time_text_embed.timestep_embedder.linear_2": "time_in.out_layer",
    "time_text_embed.text_embedder.linear_1": "vector_in.in_layer",
    "time_text_embed.text_embedder.linear_2": "vector_in.out_layer",
    "time_text_embed.guidance_embedder.linear_1": "guidance_in.in_layer",
    "time_text_embed.guidance_embedder.linear_2": "guidance_in.out_layer",
    "context_embedder": "txt_in",
    "x_embedder": "img_in",
    "proj_out": "final_layer.linear",
}
_DOUBLE = {
    "norm1.linear": "img_mod.lin",
    "norm1_context.linear": "txt_mod.lin",
    "attn.to_out.0": "img_attn.proj",
    "attn.to_add_out": "txt_attn.proj",
    "ff.net.0.proj": "img_mlp.0",
    "ff.net.2": "img_mlp.2",
    "ff_context.net.0.proj": "txt_mlp.0",
    "ff_context.net.2": "txt_mlp.2",
}
_NORMS = {
    "attn.norm_q": "img_attn.norm.query_norm",
    "attn.norm_k": "img_attn.norm.key_norm",
    "attn.norm_added_q": "txt_attn.norm.query_norm",
    "attn.norm_added_k": "txt_attn.norm.key_norm",
}


def flux_original(module: Any) -> dict[str, torch.Tensor]:
    """A FLUX.1 transformer as Black Forest Labs' own code names and joins its tensors."""
    theirs = dict(module.state_dict())
    found: dict[str, torch.Tensor] = {}

    def joined(start: str, names: tuple[str, ...], own: str) -> None:
        for end in ("weight", "bias"):
            found[f"{own}.{end}"] = torch.cat([theirs.pop(f"{start}{name}.{end}") for name in names])

    for end in ("weight", "bias"):
        found[f"final_layer.adaLN_modulation.1.{end}"] = torch.cat(theirs.pop(f"norm_out.linear.{end}").chunk(2)[::-1])
        for given, own in _FLUX.items():
            found[f"{own}.{end}"] = theirs.pop(f"{given}.{end}")
    for index in range(module.config.num_layers):
        start, own = f"transformer_blocks.{index}.", f"double_blocks.{index}."
        joined(start, ("attn.to_q", "attn.to_k", "attn.to_v"), f"{own}img_attn.qkv")
        joined(start, ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"), f"{own}txt_attn.qkv")
        found |= {f"{own}{name}.scale": theirs.pop(f"{start}{given}.weight") for given, name in _NORMS.items()}
        for end in ("weight", "bias"):
            found |= {f"{own}{name}.{end}": theirs.pop(f"{start}{given}.{end}") for given, name in _DOUBLE.items()}
    for index in range(module.config.num_single_layers):
        start, own = f"single_transformer_blocks.{index}.", f"single_blocks.{index}."
        joined(start, ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"), f"{own}linear1")
        joined(start, ("norm.linear",), f"{own}modulation.lin")
        joined(start, ("proj_out",), f"{own}linear2")
        for given, name in (("attn.norm_q", "norm.query_norm"), ("attn.norm_k", "norm.key_norm")):
            found[f"{own}{name}.scale"] = theirs.pop(f"{start}{given}.weight")
    assert not theirs, sorted(theirs)
    return found
