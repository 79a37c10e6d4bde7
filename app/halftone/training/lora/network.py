"""A denoiser with a LoRA in it: put there by peft, begun from a seed, written in the names that other programs read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from torch import nn

from halftone.measure.randomness import undisturbed
from halftone.training.guard.finite import bad_among, norms, read
from halftone.training.lora.bases import Base

ADAPTER: Final = "default"
_DOWN: Final = f".lora_A.{ADAPTER}.weight"
_UP: Final = f".lora_B.{ADAPTER}.weight"


@dataclass(frozen=True)
class LoraNetwork:
    """network: the denoiser, whose own weights are frozen; trained: name of each matrix -> itself, in float32."""

    network: nn.Module
    trained: Mapping[str, nn.Parameter]
    rank: int
    alpha: float

    @property
    def size(self) -> int:
        """Numbers that are trained."""
        return sum(parameter.numel() for parameter in self.trained.values())


def put_lora(network: nn.Module, base: Base, *, rank: int, alpha: float, seed: int) -> LoraNetwork:
    """Give the layers a float32 LoRA, the first matrix drawn from the seed, the second one zero: it changes nothing yet."""
    from peft import LoraConfig, inject_adapter_in_model

    network.requires_grad_(False)
    config = LoraConfig(r=rank, lora_alpha=cast("int", alpha), target_modules=list(base.targets), init_lora_weights=True)
    with undisturbed(*{parameter.device for parameter in network.parameters()}):
        inject_adapter_in_model(config, network, ADAPTER)
    trained = {name: parameter for name, parameter in network.named_parameters() if name.endswith((_DOWN, _UP))}
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in trained.items():
        first = torch.zeros(parameter.shape)
        if name.endswith(_DOWN):
            nn.init.kaiming_uniform_(first, a=math.sqrt(5), generator=generator)
        parameter.data = first.to(parameter.device)
        parameter.requires_grad_(True)
    return LoraNetwork(network.eval(), trained, rank, alpha)


def weights_of(lora: LoraNetwork) -> dict[str, torch.Tensor]:
    """Copies on the CPU, by the names of the parameters."""
    return {name: parameter.detach().to("cpu", copy=True) for name, parameter in lora.trained.items()}


@torch.no_grad()
def put_weights(lora: LoraNetwork, weights: Mapping[str, torch.Tensor]) -> None:
    """Raises KeyError where they are those of another network, ValueError where of another shape."""
    for name, parameter in lora.trained.items():
        if weights[name].shape != parameter.shape:
            raise ValueError(name)
        parameter.copy_(weights[name])


def is_finite(weights: Mapping[str, torch.Tensor]) -> bool:
    """Whether every number of a LoRA is one; waits once for its device."""
    return all(map(math.isfinite, read(norms(list(weights.values()))))) or not bad_among(weights)


def changes_nothing(lora: LoraNetwork) -> bool:
    """Whether every second matrix is still zero, as it was before the first step; waits once for its device."""
    second = [parameter for name, parameter in lora.trained.items() if name.endswith(_UP)]
    return not any(read(norms(second)))


def kohya_names(weights: Mapping[str, torch.Tensor], alpha: float) -> dict[str, torch.Tensor]:
    """Name the tensors as sd-scripts does (networks/lora.py): A1111, ComfyUI and diffusers read these for UNets."""
    found: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        layer, side = _split(name)
        stem = f"lora_unet_{layer.replace('.', '_')}"
        found[f"{stem}.lora_{side}.weight"] = tensor.contiguous()
        found[f"{stem}.alpha"] = torch.tensor(float(alpha))
    return found


def diffusers_names(weights: Mapping[str, torch.Tensor], scale: float) -> dict[str, torch.Tensor]:
    """The LoRA of a transformer by diffusers' names, which A1111's successors, ComfyUI and diffusers read. scale: alpha / rank,
    which this form has no place for; it is multiplied into the second matrix.
    """
    found: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        layer, side = _split(name)
        down = side == "down"
        found[f"transformer.{layer}.lora_{'A' if down else 'B'}.weight"] = (tensor if down else tensor * scale).contiguous()
    return found


def _split(name: str) -> tuple[str, str]:
    """ "x.to_q.lora_A.default.weight" -> ("x.to_q", "down")."""
    down = name.endswith(_DOWN)
    return name.removesuffix(_DOWN if down else _UP), "down" if down else "up"


def checkpoint(network: nn.Module) -> None:
    """Have the blocks recompute their activations in the backward pass, where the network can."""
    enable = getattr(network, "enable_gradient_checkpointing", None)
    if callable(enable):
        cast("Any", enable)()
