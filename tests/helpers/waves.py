"""A tiny UNet of the shape of SD 1.x whose numbers are made by a formula, so that other programs can have the same."""

import math

import torch
from diffusers import UNet2DConditionModel


def wave(shape: tuple[int, ...], start: float, scale: float = 1.0) -> torch.Tensor:
    places = torch.arange(math.prod(shape), dtype=torch.float64)
    return (torch.cos(places**1.3 * 0.7 + start) * scale).float().reshape(shape)


def unet_of_waves() -> UNet2DConditionModel:
    attending = ("CrossAttnDownBlock2D",) * 3, ("CrossAttnUpBlock2D",) * 3
    unet = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64, 128, 128),
        down_block_types=(*attending[0], "DownBlock2D"),
        up_block_types=("UpBlock2D", *attending[1]),
        cross_attention_dim=32,
        attention_head_dim=4,
        norm_num_groups=8,
    )
    for index, (name, parameter) in enumerate(sorted(unet.named_parameters())):
        if parameter.dim() == 1:
            parameter.data = wave(parameter.shape, index, 0.1) + float("norm" in name and name.endswith("weight"))
        else:
            parameter.data = wave(parameter.shape, index, math.sqrt(2 / math.prod(parameter.shape[1:])))
    return unet.requires_grad_(False)
