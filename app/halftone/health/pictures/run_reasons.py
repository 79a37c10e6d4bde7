"""Picks the reasons of a job that say how it ran (compiled, offloaded, in tiles, in eight bits), or what a setting did not do."""

from collections.abc import Sequence
from typing import Final

from halftone.contract.wording import Words

_RAN: Final = (
    "Compile",
    "Offload",
    "The VAE decodes in tiles",
    "FP8 storage",
    "Attention backend",
    "Half-precision math attention",
)
_WITHIN: Final = (" layers are stored in FP8", " has no effect on ")
_FIRST_STEP: Final = "Compile: the first step"


def how_it_ran(reasons: Sequence[Words]) -> tuple[Words, ...]:
    """Those that are worth reading beside the picture."""
    return tuple(reason for reason in reasons if _tells(reason.template))


def _tells(template: str) -> bool:
    return template.startswith(_RAN) or any(part in template for part in _WITHIN)


def first_times(before: Sequence[Words], now: Sequence[Words]) -> tuple[Words, ...]:
    """The reasons of now, with the times of the steps that were told before: what comes later is compiled already."""
    told = [reason for reason in before if reason.template.startswith(_FIRST_STEP)]
    return (*(reason for reason in now if not (told and reason.template.startswith(_FIRST_STEP))), *told)
