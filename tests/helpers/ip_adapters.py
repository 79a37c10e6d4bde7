"""Tiny IP-Adapters in the layout of the official repository: a safetensors file beside the folder of its image encoder."""

from pathlib import Path
from typing import Any

import torch
from diffusers.models.attention_processor import SD3IPAdapterJointAttnProcessor2_0
from diffusers.models.embeddings import IPAdapterTimeImageProjection
from safetensors.torch import save_file
from tests.helpers.tiny import load_tiny
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection, SiglipVisionConfig, SiglipVisionModel

WIDTH, GIVES = 16, 12
"""Of the image encoder: inside, and of what it gives."""
TOKENS = 4
FACE = 512


def save_encoder(
    folder: Path,
    dtype: torch.dtype = torch.float32,
    *,
    width: int = WIDTH,
    gives: int = GIVES,
    heads: int = 2,
    act: str = "quick_gelu",
) -> Path:
    """In `folder`/image_encoder."""
    torch.manual_seed(3)
    config = CLIPVisionConfig(
        hidden_size=width,
        intermediate_size=32,
        projection_dim=gives,
        num_hidden_layers=3,
        image_size=32,
        patch_size=8,
        num_attention_heads=heads,
        hidden_act=act,
    )
    made: Any = CLIPVisionModelWithProjection(config)
    made.to(dtype).save_pretrained(folder / "image_encoder")
    return folder / "image_encoder"


def save_adapter(model: Path, file: Path, form: str = "plain", seed: int = 1, dtype: torch.dtype = torch.float32) -> Path:
    """For the UNet of a tiny model. form: "plain", "plus", "full face" or "face"."""
    unet = load_tiny(model).unet
    torch.manual_seed(seed)
    text = int(unet.config.cross_attention_dim)
    tensors = {f"image_proj.{name}": value for name, value in _PROJECTIONS[form](text).items()}
    for index, name in enumerate(unet.attn_processors):
        if name.endswith("attn2.processor"):
            outward = unet.get_submodule(name.removesuffix(".processor")).to_v.out_features
            for part in ("to_k_ip", "to_v_ip"):
                tensors[f"ip_adapter.{index}.{part}.weight"] = torch.randn(outward, text) * 0.7
        if form == "face":
            tensors |= _loras(unet, index, name.removesuffix("processor"))
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: value.to(dtype) for name, value in tensors.items()}, file)
    return file


def _loras(unet: Any, index: int, attention: str) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for part in ("to_q", "to_k", "to_v", "to_out"):
        layer = unet.get_submodule(attention + part.replace("to_out", "to_out.0"))
        found[f"ip_adapter.{index}.{part}_lora.down.weight"] = _linear(2, layer.in_features)
        found[f"ip_adapter.{index}.{part}_lora.up.weight"] = torch.randn(layer.out_features, 2) * 0.3
    return found


def save_flux_adapter(transformer: Any, file: Path, seed: int = 1) -> Path:
    """For a tiny transformer of FLUX, under the names of the published ones."""
    torch.manual_seed(seed)
    text, outward = int(transformer.config.joint_attention_dim), int(transformer.inner_dim)
    tensors = {f"ip_adapter_proj_model.{name}": value for name, value in _plain(text).items()}
    for index in range(len(transformer.transformer_blocks)):
        for part in "kv":
            at = f"double_blocks.{index}.processor.ip_adapter_double_stream_{part}_proj"
            tensors |= {f"{at}.weight": torch.randn(outward, text) * 0.7, f"{at}.bias": torch.randn(outward) * 0.1}
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, file)
    return file


def save_sd3_adapter(transformer: Any, file: Path, seed: int = 1) -> Path:
    """For a tiny transformer of SD 3 without a second attention."""
    torch.manual_seed(seed)
    heads = int(transformer.config.attention_head_dim)
    inner = heads * int(transformer.config.num_attention_heads)
    turning = IPAdapterTimeImageProjection(
        embed_dim=WIDTH, output_dim=inner, hidden_dim=64, heads=1, num_queries=TOKENS, timestep_in_dim=32
    )
    tensors = {f"image_proj.{name}": value for name, value in turning.state_dict().items()}
    for index in range(len(transformer.attn_processors)):
        made = SD3IPAdapterJointAttnProcessor2_0(inner, inner, heads, timesteps_emb_dim=64)
        tensors |= {f"ip_adapter.{index}.{name}": value for name, value in made.state_dict().items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, file)
    return file


def save_siglip(folder: Path) -> Path:
    """In `folder`/image_encoder, as adapters of SD 3 need it."""
    torch.manual_seed(3)
    config = SiglipVisionConfig(
        hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, image_size=32, patch_size=8
    )
    SiglipVisionModel(config).save_pretrained(folder / "image_encoder")
    return folder / "image_encoder"


def _linear(outward: int, inward: int) -> torch.Tensor:
    return torch.randn(outward, inward) * inward**-0.5


def _norm(name: str, width: int) -> dict[str, torch.Tensor]:
    return {f"{name}.weight": 1 + 0.1 * torch.randn(width), f"{name}.bias": 0.1 * torch.randn(width)}


def _plain(text: int) -> dict[str, torch.Tensor]:
    return {"proj.weight": _linear(TOKENS * text, GIVES), "proj.bias": 0.1 * torch.randn(TOKENS * text), **_norm("norm", text)}


def _full_face(text: int) -> dict[str, torch.Tensor]:
    layers = {"proj.0.weight": _linear(WIDTH, WIDTH), "proj.0.bias": torch.randn(WIDTH) * 0.1}
    return layers | {"proj.2.weight": _linear(text, WIDTH), "proj.2.bias": torch.randn(text) * 0.1} | _norm("proj.3", text)


def _face(text: int) -> dict[str, torch.Tensor]:
    """As FaceID has it, for the numbers of a face."""
    layers = {"proj.0.weight": _linear(FACE, FACE), "proj.0.bias": torch.randn(FACE) * 0.1}
    last = {"proj.2.weight": _linear(TOKENS * text, FACE), "proj.2.bias": torch.randn(TOKENS * text) * 0.1}
    return layers | last | _norm("norm", text)


def _plus(text: int) -> dict[str, torch.Tensor]:
    """A resampler of four blocks, as the official ones have; inside it is 64 wide, one head."""
    wide = 64
    found = {
        "latents": torch.randn(1, TOKENS, wide) * wide**-0.5,
        "proj_in.weight": _linear(wide, WIDTH),
        "proj_in.bias": torch.randn(wide) * 0.1,
        "proj_out.weight": _linear(text, wide),
        "proj_out.bias": torch.randn(text) * 0.1,
        **_norm("norm_out", text),
    }
    for block in range(4):
        at = f"layers.{block}"
        found |= _norm(f"{at}.0.norm1", wide) | _norm(f"{at}.0.norm2", wide) | _norm(f"{at}.1.0", wide)
        found |= {f"{at}.0.to_q.weight": _linear(wide, wide), f"{at}.0.to_kv.weight": _linear(2 * wide, wide)}
        found |= {f"{at}.0.to_out.weight": _linear(wide, wide)}
        found |= {f"{at}.1.1.weight": _linear(4 * wide, wide), f"{at}.1.3.weight": _linear(wide, 4 * wide)}
    return found


_PROJECTIONS = {"plain": _plain, "plus": _plus, "full face": _full_face, "face": _face}
