"""Dynamic thresholding: strong guidance that keeps the contrast of a weaker one, the mimic scale.

Source: https://github.com/mcmonkeyprojects/sd-dynamic-thresholding, as Forge and ComfyUI have it: on the denoised latents, with
schedules over the model's timesteps.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor

_LAST: Final = 999
_QUARTER: Final = 1.5707
_TURN: Final = 6.28318
"""A quarter turn and a whole one, with the digits of the source."""
_FALLING_AND_RISING: Final = 0.5


def _repeating(way: float, value: float) -> float:
    part = way * value % 1.0
    return abs(_FALLING_AND_RISING - part) * 2


WAYS: Final[tuple[Callable[[float, float], float], ...]] = (
    lambda _way, _value: 1.0,
    lambda way, _value: 1 - way,
    lambda way, _value: math.cos(way * _QUARTER),
    lambda way, _value: math.cos(way),
    lambda way, _value: way,
    lambda way, _value: 1 - math.cos(way * _QUARTER),
    lambda way, _value: 1 - math.cos(way),
    lambda way, value: way**value,
    lambda way, value: 1 - way**value,
    _repeating,
    lambda way, value: math.cos(way * _TURN * value) * 0.5 + 0.5,
    lambda way, value: way * value % 1.0,
)
"""What is left of a scale on the way from noise, 0, to the picture, 1; in the order of the option's names."""


class Thresholding(NamedTuple):
    """What is asked for. mimic, guidance: number of the way that each scale takes, and the least it comes to; apart: measure each
    channel alone; from_mean: scale the distance from a channel's mean; by_range: measure the largest number, not the deviation;
    phi: share of the result.
    """

    scale: float
    percentile: float = 1.0
    mimic: tuple[int, float] = (0, 0.0)
    guidance: tuple[int, float] = (0, 0.0)
    value: float = 1.0
    apart: bool = True
    from_mean: bool = True
    by_range: bool = True
    phi: float = 1.0


def thresholded(asked: Thresholding, negative: Tensor, own: Tensor, guidance: float, time: float) -> Tensor:
    """Guide from the negative prompt's picture to the prompt's. negative, own: denoised latents (B, C, H, W); time: timestep."""
    way = (_LAST - time) / (_LAST - 1)

    def at(scale: float, how: tuple[int, float]) -> float:
        return (scale - how[1]) * WAYS[how[0]](way, asked.value) + how[1]

    scales = at(asked.scale, asked.mimic), at(guidance, asked.guidance)
    mimic, target = ((negative + (own - negative) * scale).flatten(2) for scale in scales)
    mean = target.mean(2, keepdim=True)
    centred, shown = target - mean, mimic - mimic.mean(2, keepdim=True)
    wide, wanted = _measure(asked, centred, asked.percentile), _measure(asked, shown, 1.0)
    if not asked.from_mean:
        made = target * (wanted / wide)
    elif asked.by_range:
        most = torch.maximum(wanted, wide)
        made = centred.clamp(-most, most) / most * wanted + mean
    else:
        made = centred / wide * wanted + mean
    return (made * asked.phi + target * (1 - asked.phi)).reshape(own.shape)


def _measure(asked: Thresholding, centred: Tensor, percentile: float) -> Tensor:
    """How far the numbers go. centred: (B, C, places)."""
    if not asked.by_range:
        return centred.std(2, keepdim=True) if asked.apart else centred.std()
    sizes = centred.abs()
    if percentile == 1:
        return sizes.amax(2, keepdim=True) if asked.apart else sizes.amax()
    return torch.quantile(sizes, percentile, dim=2, keepdim=True) if asked.apart else torch.quantile(sizes, percentile)
