"""Networks beside a UNet that are called as a ControlNet is, so that every pipeline with a ControlNet takes them.

What a T2I-Adapter adds goes into the UNet's blocks, not beside them, and what a ControlNet-LLLite reads into its layers. A
pipeline hands only a ControlNet's residuals on, so these stand after them in one list and are parted again where the UNet is
called.
"""

import inspect
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, cast

import torch
from diffusers import ControlNetModel, ControlNetUnionModel, MultiControlNetModel, T2IAdapter
from diffusers.configuration_utils import register_to_config
from diffusers.models.modeling_utils import ModelMixin
from torch import nn
from torch.nn import functional

from halftone.contract.request import Control
from halftone.contract.vocabulary import ControlMode
from halftone.engine.extras.lllite import LightNet
from halftone.engine.patches.lights import Lights, Shown, lit
from halftone.engine.weights.calls import Within, plainly
from halftone.library.add_ons.control_kinds import mode_of

_BESIDE: Final = "down_block_additional_residuals"
_MIDDLE: Final = "mid_block_additional_residual"
_INSIDE: Final = "down_intrablock_additional_residuals"

_SOFT: Final = 0.825
"""A soft residual counts so much less for each that stands behind it, of the 13 that a UNet of SD 1.x takes."""
_SOFT_FEATURES: Final = (0.25, 0.62, 0.825, 1.0)
"""The same of a T2I-Adapter's features. Both from Mikubill/sd-webui-controlnet, scripts/hook.py."""
_LAST: Final = 12

Residuals = tuple[Sequence[torch.Tensor], torch.Tensor]
"""Of the way down, one by one, and of the middle."""


class Weighed:
    """A network whose residuals count as the mode of its control says. unprompted: rows at the start of a call that are for the
    negative prompt.
    """

    control_mode: ControlMode = "balanced"
    unprompted: int = 0

    def weighed(self, made: Residuals, features: int = 0) -> Residuals:
        """features: tensors that go into the UNet's blocks; its middle gets nothing then."""
        if self.control_mode == "balanced":
            return made
        *down, middle = (*made[0], made[1])
        if features:
            return [self._own(one, scale) for one, scale in zip(down, _SOFT_FEATURES, strict=False)], middle
        *down, middle = (self._own(one, _SOFT ** (_LAST - index)) for index, one in enumerate((*down, middle)))
        return down, middle

    def _own(self, residual: torch.Tensor, scale: float) -> torch.Tensor:
        scaled = residual * scale
        if self.control_mode != "control" or not self.unprompted:
            return scaled
        return torch.cat([torch.zeros_like(scaled[: self.unprompted]), scaled[self.unprompted :]])


class PlainNet(Weighed, ControlNetModel):
    """A ControlNet for a UNet."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - `return_dict` is never True here
        self, *args: Any, **kwargs: Any
    ) -> Residuals:
        kwargs["return_dict"] = False
        return self.weighed(cast("Residuals", super().forward(*args, **kwargs)))


class AdapterNet(Weighed, ControlNetModel):
    """A T2I-Adapter. Its parameters have the names that they have in diffusers' T2IAdapter."""

    @register_to_config
    def __init__(
        self,
        in_channels: int = 3,
        channels: Sequence[int] = (320, 640, 1280, 1280),
        num_res_blocks: int = 2,
        downscale_factor: int = 8,
        adapter_type: str = "full_adapter",
        global_pool_conditions: bool = False,  # noqa: ARG002 - pipelines ask every ControlNet for it
    ) -> None:
        ModelMixin.__init__(self)
        made: Any = T2IAdapter(in_channels, list(channels), num_res_blocks, downscale_factor, adapter_type)
        self.adapter: Any = made.adapter

    @property
    def features(self) -> int:
        """Tensors after the residuals in what it gives."""
        return len(self.adapter.body)

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - it looks at nothing but the picture
        self,
        sample: torch.Tensor,
        timestep: Any,  # noqa: ARG002
        encoder_hidden_states: Any,  # noqa: ARG002
        controlnet_cond: torch.Tensor,
        conditioning_scale: float = 1.0,
        **_others: Any,
    ) -> Residuals:
        """controlnet_cond: (batch, 3, height, width), from 0 to 1."""
        config = cast("Any", self.config)
        shown = controlnet_cond if config.in_channels != 1 else controlnet_cond.mean(dim=1, keepdim=True)
        made = self.adapter(_whole(shown, config.downscale_factor))
        features = [feature * conditioning_scale for feature in made]
        return self.weighed((features, sample.new_zeros(len(sample), 1, 1, 1)), len(features))


class UnionNet(Weighed, ControlNetModel):
    """A ControlNet Union that is given one picture, of one kind. Its parameters have the names of diffusers'
    ControlNetUnionModel. mode: the kind, as a number.
    """

    def __init__(self, **config: Any) -> None:
        self.__dict__.update(ControlNetUnionModel(**config).__dict__)  # its parts and its configuration
        self.mode = 0

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - `return_dict` is never True here
        self,
        sample: torch.Tensor,
        timestep: Any,
        encoder_hidden_states: torch.Tensor,
        controlnet_cond: torch.Tensor,
        conditioning_scale: float = 1.0,
        added_cond_kwargs: Any = None,
        guess_mode: bool = False,
        **_others: Any,
    ) -> Residuals:
        kinds = torch.zeros(len(sample), cast("Any", self.config).num_control_type, device=sample.device)
        kinds[:, self.mode] = 1
        net = cast("Any", self)  # it has all that the other class' forward reads
        made = ControlNetUnionModel.forward(
            net,
            sample,
            timestep,
            encoder_hidden_states,
            [controlnet_cond],
            kinds,
            [self.mode],
            [conditioning_scale],
            added_cond_kwargs=added_cond_kwargs,
            guess_mode=guess_mode,
            return_dict=False,
        )
        return self.weighed(cast("Residuals", made))


# diffusers reads from it what a configuration may hold
setattr(UnionNet.__init__, "__signature__", inspect.signature(ControlNetUnionModel.__init__))  # noqa: B010


def _whole(picture: torch.Tensor, factor: int) -> torch.Tensor:
    """In a size that can be folded by this factor, as ComfyUI enlarges it."""
    height, width = (-(-size // factor) * factor for size in picture.shape[-2:])
    if (height, width) == picture.shape[-2:]:
        return picture
    return functional.interpolate(picture, (height, width), mode="nearest-exact")


class ControlNets(MultiControlNetModel):
    """Several at once, adapters among them."""

    @property
    def features(self) -> int:
        return max(features_of(net) for net in self.nets)

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - `return_dict` is never True here
        self,
        sample: torch.Tensor,
        timestep: Any,
        encoder_hidden_states: Any,
        controlnet_cond: Sequence[torch.Tensor],
        conditioning_scale: Sequence[float],
        **others: Any,
    ) -> Residuals:
        """controlnet_cond, conditioning_scale: of each of them."""
        beside, inside, middle = list[torch.Tensor](), list[torch.Tensor](), sample.new_zeros(len(sample), 1, 1, 1)
        lights: list[torch.Tensor] = []
        for net, picture, scale in zip(self.nets, controlnet_cond, conditioning_scale, strict=True):
            given = {**others, "return_dict": False}
            down, own_middle = net(sample, timestep, encoder_hidden_states, picture, scale, **given)
            if isinstance(net, LightNet):
                lights += down
                continue
            split = len(down) - features_of(net)
            beside, inside = _summed(beside, down[:split]), _summed(inside, down[split:])
            middle = middle + own_middle if split else middle
        return [*beside, *inside, *lights], middle


def _summed(one: list[torch.Tensor], other: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    if not one or not other:
        return one or list(other)
    return [left + right for left, right in zip(one, other, strict=True)]


def modes_of(net: Any, controls: Sequence[Control]) -> list[int | None]:
    """The number of the kind of each picture; None for a ControlNet that was trained for one kind."""
    nets = getattr(net, "nets", [net])
    return [mode_of(control, one.config) for one, control in zip(nets, controls, strict=True)]


def set_modes(net: Any, controls: Sequence[Control]) -> None:
    """Tell each what its control says: a ControlNet Union of what kind its picture is, every one its mode."""
    for one, mode in zip(getattr(net, "nets", [net]), modes_of(net, controls), strict=True):
        if isinstance(one, UnionNet) and mode is not None:
            one.mode = mode
    for one, control in zip(getattr(net, "nets", [net]), controls, strict=True):
        if isinstance(one, Weighed):
            one.control_mode = control.mode


def prompted(net: nn.Module | None, unprompted: int) -> Within:
    """What a call of ControlNets runs in whose first rows are for the negative prompt. unprompted: how many."""
    several = [one for one in getattr(net, "nets", [net]) if isinstance(one, Weighed) and one.control_mode == "control"]
    if any(cast("Any", one).config.global_pool_conditions for one in several):  # the pipeline calls these for the prompt alone
        return plainly
    return partial(_prompted, unprompted=unprompted) if several and unprompted else plainly


@contextmanager
def _prompted(net: nn.Module, unprompted: int) -> Generator[None]:
    several = [one for one in getattr(net, "nets", [net]) if isinstance(one, Weighed)]
    for one in several:
        one.unprompted = unprompted
    try:
        yield
    finally:
        for one in several:
            one.unprompted = 0


def features_of(net: Any) -> int:
    """How many tensors after the residuals go into the UNet's blocks."""
    return int(getattr(net, "features", 0))


def parted(net: nn.Module | None, given: dict[str, Any]) -> tuple[dict[str, Any], Within]:
    """The arguments of a UNet's call with adapters' features where the UNet takes them, and what its call runs in. net: what gave
    the residuals.
    """
    count, down = features_of(net), given.get(_BESIDE)
    lit_ones = [one for one in getattr(net, "nets", [net]) if isinstance(one, LightNet)]
    if down is None or not (count or lit_ones):
        return given, plainly
    down, lights = _without_lights(list(down), lit_ones)
    split = len(down) - count
    changed = {**given, _BESIDE: down[:split] or None}
    changed = {**changed, _INSIDE: down[split:]} if count else changed
    within: Within = partial(lit, lights=lights) if any(lights) else plainly
    return (changed if split else {**changed, _MIDDLE: None}), within


def _without_lights(down: list[torch.Tensor], nets: Sequence[LightNet]) -> tuple[list[torch.Tensor], Lights]:
    """(the others, of each ControlNet-LLLite what its layers read)."""
    lights: list[Mapping[str, Shown]] = []
    for net in reversed(nets):
        split = len(down) - net.lights
        lights.insert(0, net.shown(down[split:]))
        down = down[:split]
    return down, lights
