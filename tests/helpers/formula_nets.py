"""A UNet and a Control-LoRA for it, whose numbers are given by formulas: other programs can be given the same ones."""

import math
from typing import Any

import torch
from diffusers import ControlNetModel, UNet2DConditionModel
from tests.helpers.controls import original_name

TEXT = 16
RANK = 2


def numbers(seed: int, shape: tuple[int, ...], scale: float = 1.0) -> torch.Tensor:
    count = math.prod(shape)
    return (scale * torch.cos(torch.arange(count, dtype=torch.float64) * 1.7 + seed * 0.37)).float().reshape(shape)


def fill(module: torch.nn.Module, seed: int) -> None:
    with torch.no_grad():
        for index, (_, parameter) in enumerate(sorted(module.named_parameters())):
            shape = tuple(parameter.shape)
            if len(shape) == 1:
                parameter.copy_(numbers(seed + index, shape, 0.1) + (0.5 if parameter.mean() > 0.5 else 0.0))
            else:
                parameter.copy_(numbers(seed + index, shape, 1 / math.sqrt(math.prod(shape[1:]))))


def formula_unet() -> Any:
    made: Any = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=TEXT,
        attention_head_dim=4,
    )
    fill(made, 1)
    return made.eval()


def formula_control_lora(unet: Any) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """(tensors of the file, those of the UNet that it needs), both in the original names."""
    net: Any = ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(16, 32, 96, 256))
    fill(net, 500)
    own = unet.state_dict()
    file = {"lora_controlnet": torch.zeros(1)}
    for index, (name, value) in enumerate(sorted(net.state_dict().items())):
        theirs, shape = original_name(name, net), tuple(value.shape)
        if name not in own or value.dim() < 2:
            file[theirs] = value
            continue
        stem = theirs.removesuffix(".weight")
        up = numbers(900 + index, (shape[0], RANK), 0.3)
        file[f"{stem}.up"] = up[:, :, None, None] if len(shape) == 4 else up
        file[f"{stem}.down"] = numbers(1300 + index, (RANK, *shape[1:]), 0.3 / math.sqrt(math.prod(shape[1:])))
    return file, {original_name(name, net): own[name] for name in net.state_dict() if name in own}


def formula_inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(latents, words, control picture from 0 to 1)."""
    return numbers(3, (1, 4, 8, 8)), numbers(4, (1, 7, TEXT)), numbers(5, (1, 3, 64, 64), 0.5) + 0.5


def thinned(tensor: torch.Tensor) -> list[float]:
    """Every 61st number."""
    return tensor.flatten()[::61].tolist()
