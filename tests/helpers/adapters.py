"""Tiny T2I-Adapters that fit the tiny UNets, as the folders and files that people have."""

import re
from pathlib import Path
from typing import Any, Literal

import torch
from diffusers import AutoencoderKL, T2IAdapter, UNet2DConditionModel
from safetensors.torch import save_file
from tests.helpers.tiny import liven, load_tiny, sd15, sdxl

AdapterForm = Literal["folder", "diffusers", "original"]
Shape = Literal["full_adapter", "full_adapter_xl", "light_adapter"]
_LEVELS: Any = {
    "block_out_channels": (8, 16, 16),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "transformer_layers_per_block": (1, 1, 1),
}
"""As SDXL has them."""
_MORE_ATTENTION: Any = {
    "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
}


def make_adapter(model: Path, shape: Shape, *, inputs: int = 3, seed: int = 21) -> Any:
    """Beside the UNet of a tiny model."""
    torch.manual_seed(seed)
    channels = list(load_tiny(model).unet.config.block_out_channels)
    channels = (
        channels[:-1] if shape == "light_adapter" else [*channels, channels[-1]] if shape == "full_adapter_xl" else channels
    )
    blocks, factor = (4 if shape == "light_adapter" else 2), (16 if shape == "full_adapter_xl" else 8)
    made: Any = T2IAdapter(inputs, channels, blocks, factor, shape)
    liven(made)
    return made.eval()


def save_adapter(adapter: Any, place: Path, form: AdapterForm = "folder") -> Path:
    """`place` without an ending; what was written."""
    if form == "folder":
        adapter.save_pretrained(place)
        return place
    tensors = adapter.state_dict()
    if form == "original":
        light = adapter.config.adapter_type == "light_adapter"
        tensors = {_original(name.removeprefix("adapter."), light=light): value for name, value in tensors.items()}
    path = place.with_suffix(".safetensors")
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, path)
    return path


def _original(name: str, *, light: bool) -> str:
    """TencentARC's name."""
    if light:
        return name.replace("resnets", "body")
    if match := re.fullmatch(r"body\.(\d+)\.resnets\.(\d+)\.(.*)", name):
        return f"body.{2 * int(match[1]) + int(match[2])}.{match[3]}"
    match = re.fullmatch(r"body\.(\d+)\.(.*)", name)
    return f"body.{2 * int(match[1])}.{match[2]}" if match else name


def eightfold(folder: Path, family: str, denoiser: Any = None) -> Path:
    """A tiny model whose latents are an eighth of the picture, as adapters expect. denoiser: instead of its UNet."""
    pipe = sdxl() if family == "sdxl" else sd15()
    torch.manual_seed(6)
    ends = {"down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4}
    own: Any = AutoencoderKL.from_config({**pipe.vae.config, **ends, "block_out_channels": (4, 4, 8, 8)})
    levels = _LEVELS if family == "sdxl" else {**_LEVELS, **_MORE_ATTENTION}
    liven(own)
    if denoiser is None:
        denoiser = UNet2DConditionModel.from_config({**pipe.unet.config, **levels})
        liven(denoiser)
    pipe.register_modules(vae=own, unet=denoiser)
    pipe.save_pretrained(folder)
    return folder
