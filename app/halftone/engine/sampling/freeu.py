"""FreeU: the UNet's way up hears more of its own stream and less of the coarse part of what skips to it (Si et al. 2023,
https://arxiv.org/abs/2309.11497).

Programs differ in where and how. V1 and V2 are ComfyUI's (comfy_extras/nodes_freelunch.py): the first factors are for streams
of four times the model's channels, the second for twice; V2, which Forge has too, follows the mean of the stream. Diffusers has
V1 in the first and the second block of the way up (diffusers, `apply_freeu`).
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, cast

import torch
from torch import Tensor, nn

from halftone.contract.errors import HalftoneError
from halftone.contract.parameters import FREEU, OPTION_PARAMETERS, option_value
from halftone.contract.request import OptionValue
from halftone.contract.wording import Words

V2: Final = "V2"
DIFFUSERS: Final = "Diffusers"
_STAGES: Final = {4: 0, 2: 1}
"""Channels of the stream, in those of the model, -> which of the factors."""


class FreeU(NamedTuple):
    """version: a name of the option; stream, skip: factors of the two stages; span: shares of the steps at which it is on."""

    version: str
    stream: tuple[float, float]
    skip: tuple[float, float]
    span: tuple[float, float]


def freeu_of(options: Mapping[str, OptionValue]) -> FreeU | None:
    """What a request asks for, None for none."""
    version = OPTION_PARAMETERS[FREEU].text(option_value(options, FREEU))
    if version is None or not options.get(FREEU):
        return None
    numbers = {name: option_value(options, f"freeu_{name}") for name in ("b1", "b2", "s1", "s2", "start", "end")}
    stream, skip = ((numbers[f"{name}1"], numbers[f"{name}2"]) for name in "bs")
    return FreeU(version, stream, skip, (numbers["start"], numbers["end"]))


@contextmanager
def put_freeu(unet: nn.Module, asked: FreeU) -> Generator[None]:
    """Run the network with FreeU for the length of a block."""
    with ExitStack() as hooks:
        for layer, channels, stage in meeting_places(unet, asked.version):
            change = partial(_changed, channels, asked.stream[stage], asked.skip[stage], asked.version == V2)
            hooks.enter_context(layer.register_forward_pre_hook(change))
        yield


def check_freeu(unet: nn.Module, asked: FreeU) -> None:
    """Raise setting-bad-value for a network that has no place for it."""
    if next(meeting_places(unet, asked.version), None) is None:
        value = Words("{0} with this model, whose blocks have other widths", (asked.version,))
        raise HalftoneError("setting-bad-value", name=Words("FreeU"), value=value, allowed=Words("no {0}", ("--freeu",)))


def meeting_places(unet: nn.Module, version: str) -> Iterator[tuple[nn.Module, int, int]]:
    """(Layer that reads the stream and what skips to it, channels of the stream, stage) where FreeU acts."""
    held = cast("Any", unet)
    before = held.down_blocks[-1].resnets[-1].out_channels
    for place, block in enumerate(held.up_blocks):
        for layer in block.resnets:
            width = before / held.config["block_out_channels"][0]
            stage = place if version == DIFFUSERS else _STAGES.get(width)
            if stage in (0, 1):
                yield layer, before, stage
            before = layer.out_channels


def _changed(
    channels: int, factor: float, share: float, by_mean: bool, _layer: nn.Module, given: tuple[Any, ...]
) -> tuple[Any, ...]:
    stream, skip = given[0].split((channels, given[0].shape[1] - channels), dim=1)
    return torch.cat((_louder(stream, factor, by_mean), _coarse_scaled(skip, share)), dim=1), *given[1:]


def _louder(stream: Tensor, factor: float, by_mean: bool) -> Tensor:
    """The first half of the channels times the factor, or where the mean of the channels is large. stream: (B, C, H, W)."""
    half = stream.shape[1] // 2
    gain: float | Tensor = factor
    if by_mean:
        mean = stream.mean(1, keepdim=True)
        low, high = (found(mean, dim=(1, 2, 3), keepdim=True) for found in (torch.amin, torch.amax))
        gain = (factor - 1) * ((mean - low) / (high - low)) + 1
    return torch.cat((stream[:, :half] * gain, stream[:, half:]), dim=1)


def _coarse_scaled(skip: Tensor, share: float) -> Tensor:
    """The four lowest frequencies times the share. skip: (B, C, H, W)."""
    waves: Callable[..., Tensor] = torch.fft.fftn
    found = torch.fft.fftshift(waves(skip.float(), dim=(-2, -1)), dim=(-2, -1))
    row, column = found.shape[-2] // 2, found.shape[-1] // 2
    mask = torch.ones(found.shape[-2:], device=skip.device)
    mask[row - 1 : row + 1, column - 1 : column + 1] = share
    back = torch.fft.ifftn(torch.fft.ifftshift(found * mask, dim=(-2, -1)), dim=(-2, -1))
    return back.real.to(skip.dtype)
