"""ControlNet-LLLite: what reads the control picture is a component beside the UNet, as a ControlNet is. What shows it to layers
of the UNet is in `patches.lights`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from diffusers import ControlNetModel
from diffusers.configuration_utils import register_to_config
from diffusers.models.modeling_utils import ModelMixin
from torch import nn
from torch.nn import functional

from halftone.engine.patches.lights import Shown
from halftone.library.add_ons.lllite import LEVELS


class LightNet(ControlNetModel):
    """What reads the control picture for each layer."""

    @register_to_config
    def __init__(
        self,
        layers: Mapping[str, Sequence[int]],
        global_pool_conditions: bool = False,  # noqa: ARG002 - pipelines ask every ControlNet for it
    ) -> None:
        ModelMixin.__init__(self)
        self.readers = nn.ModuleDict({name: _reader(*sizes) for name, sizes in layers.items()})
        self.depths = {name: sizes[0] for name, sizes in layers.items()}

    @property
    def lights(self) -> int:
        """Tensors that it gives."""
        return len(self.readers) + 1

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - it looks at nothing but the picture
        self,
        sample: torch.Tensor,
        timestep: Any,  # noqa: ARG002
        encoder_hidden_states: Any,  # noqa: ARG002
        controlnet_cond: torch.Tensor,
        conditioning_scale: float = 1.0,
        **_others: Any,
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """controlnet_cond: (batch, 3, height, width), from 0 to 1. It gives what each layer reads, then the strength; nothing of
        either where that is 0.
        """
        picture, nothing = controlnet_cond * 2 - 1, sample.new_zeros(len(sample), 0, 1)
        beside = sample.new_zeros(len(sample), 1, 1, 1)
        if not conditioning_scale:
            return [nothing] * (len(self.readers) + 1), beside
        sizes = sample.shape[-2], sample.shape[-1]
        made = [net(_fitting(picture, sizes, self.depths[name])).flatten(2).transpose(1, 2) for name, net in self.readers.items()]
        return [*made, sample.new_full((len(sample), 1, 1), conditioning_scale)], beside

    def shown(self, given: Sequence[torch.Tensor]) -> Mapping[str, Shown]:
        """By layer; nothing where it does not act. given: what `forward` gave."""
        *seen, strength = given
        return {name: (one, strength) for name, one in zip(self.readers, seen, strict=True)} if strength.numel() else {}


def _reader(depth: int, inner: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, inner, 4, 4), nn.ReLU()]
    if depth == max(LEVELS):
        layers += [nn.Conv2d(inner, inner, 4, 4), nn.ReLU()]
    edge = 4 if depth == 2 else 2
    return nn.Sequential(*layers, nn.Conv2d(inner, width, edge, edge))


def _fitting(picture: torch.Tensor, latents: tuple[int, int], depth: int) -> torch.Tensor:
    """In a size that becomes as many tokens as the UNet has at this depth, which rounds up where an edge does not divide."""
    size = tuple(-(-edge // 2 ** (depth - 1)) * LEVELS[depth] for edge in latents)
    if size == picture.shape[-2:]:
        return picture
    return functional.interpolate(picture, size, mode="nearest-exact")
