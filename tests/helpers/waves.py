"""Tiny networks of the shape of SD 1.x and SD 3 whose numbers are made by a formula, so that other programs can have the same."""

import math

import torch
from diffusers import SD3Transformer2DModel, UNet2DConditionModel
from torch import nn


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
    fill(unet)
    return unet


def transformer_of_waves() -> SD3Transformer2DModel:
    transformer = SD3Transformer2DModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        num_layers=3,
        attention_head_dim=64,
        num_attention_heads=3,
        joint_attention_dim=32,
        caption_projection_dim=192,
        pooled_projection_dim=24,
        pos_embed_max_size=12,
    )
    fill(transformer)
    return transformer


def fill(network: nn.Module) -> None:
    """Give every parameter numbers of a formula."""
    for index, (name, parameter) in enumerate(sorted(network.named_parameters())):
        if parameter.dim() == 1:
            parameter.data = wave(parameter.shape, index, 0.1) + float("norm" in name and name.endswith("weight"))
        else:
            parameter.data = wave(parameter.shape, index, math.sqrt(2 / math.prod(parameter.shape[1:])))
    network.requires_grad_(requires_grad=False)
