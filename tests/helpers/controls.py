"""Tiny ControlNets that fit the tiny models, as the folders and files that people have, and pictures for them."""

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from diffusers import ControlNetModel, SD3ControlNetModel
from PIL import Image
from safetensors.torch import save_file
from tests.helpers.originals import unet_name
from tests.helpers.tiny import liven, load_tiny

Form = Literal["folder", "diffusers", "original", "prefixed"]


def make_net(model: Path, seed: int = 11, hint: tuple[int, ...] = (4, 8)) -> Any:
    """Beside the denoiser of a tiny model; unlike a fresh one it changes the picture. hint: channels of the encoder of the
    picture, which each but the first makes half as large.
    """
    pipe = load_tiny(model)
    torch.manual_seed(seed)
    made: Any
    if hasattr(pipe, "unet"):
        made = ControlNetModel.from_unet(pipe.unet, conditioning_embedding_out_channels=hint)
    else:
        made = SD3ControlNetModel.from_transformer(pipe.transformer, num_layers=1, num_extra_conditioning_channels=0)
    liven(made)
    return made.eval()


def loud_net(net: Any, bits: int) -> Any:
    """Make a net whose residuals are larger by so many bits, as a denoiser with a stream as large needs them."""
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if name.startswith(("controlnet_down_blocks", "controlnet_mid_block")):
                parameter.mul_(2.0**bits)
    return net


def save_net(net: Any, place: Path, form: Form = "folder") -> Path:
    """`place` without an ending; what was written."""
    if form == "folder":
        net.save_pretrained(place)
        return place
    tensors = net.state_dict()
    if form != "diffusers":
        start = "control_model." if form == "prefixed" else ""
        tensors = {start + original_name(name, net): value for name, value in tensors.items()}
    path = place.with_suffix(".safetensors")
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, path)
    return path


def save_changes(net: Any, unet: Any, place: Path, form: Literal["Control-LoRA", "difference"]) -> Path:
    """What tells a ControlNet from a UNet, as Stability's Control-LoRAs (of full rank) and as differences are written."""
    own, tensors = unet.state_dict(), dict[str, torch.Tensor]()
    for name, value in net.state_dict().items():
        theirs = original_name(name, net)
        if name not in own:
            tensors[theirs] = value
        elif form == "difference":
            tensors[theirs] = value - own[name]
        elif not name.endswith(".weight") or value.dim() < 2:
            tensors[theirs] = value
        else:
            stem, change = theirs.removesuffix(".weight"), (value - own[name]).flatten(1)
            left, sizes, right = torch.linalg.svd(change, full_matrices=False)
            up, down = left * sizes, right.reshape(-1, *value.shape[1:])
            tensors |= {f"{stem}.up": up[:, :, None, None] if value.dim() == 4 else up, f"{stem}.down": down}
    if form == "difference":
        tensors = {f"control_model.{name}": value for name, value in tensors.items()}
    tensors["lora_controlnet" if form == "Control-LoRA" else "difference"] = torch.zeros(1)
    path = place.with_suffix(".safetensors")
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, path)
    return path


def original_name(name: str, net: Any) -> str:
    """Of a parameter of a ControlNet for a UNet, in files that are not diffusers'."""
    if match := re.fullmatch(r"controlnet_cond_embedding\.(conv_in|conv_out|blocks\.(\d+))\.(.*)", name):
        blocks = len(net.controlnet_cond_embedding.blocks)
        index = 0 if match[1] == "conv_in" else 2 * blocks + 2 if match[1] == "conv_out" else 2 * int(match[2]) + 2
        return f"input_hint_block.{index}.{match[3]}"
    if match := re.fullmatch(r"controlnet_down_blocks\.(\d+)\.(.*)", name):
        return f"zero_convs.{match[1]}.0.{match[2]}"
    if name.startswith("controlnet_mid_block."):
        return name.replace("controlnet_mid_block.", "middle_block_out.0.")
    return unet_name(name, net)


def picture(path: Path, width: int = 32, height: int = 32) -> Path:
    """A white square on black ground."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[height // 4 : height // 2, width // 4 : 3 * width // 4] = 255
    Image.fromarray(pixels).save(path)
    return path
