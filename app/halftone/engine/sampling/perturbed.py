"""Perturbed-attention guidance: away from what the UNet says when its middle cannot look around (Ahn et al. 2024,
https://arxiv.org/abs/2403.17377).

In the perturbed call each place of the self-attention in the middle block hears itself alone, so that its values pass as they
are. What the call differs by is added to the guided result, as in ComfyUI (comfy_extras/nodes_pag.py), Forge and diffusers' own
pipelines; the attenuation is Forge's.
"""

import math
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple, cast

from torch import Tensor, nn

from halftone.contract.parameters import PAG, option_value
from halftone.contract.request import OptionValue

_PROCESSOR: Final = "processor"


class Perturbed(NamedTuple):
    """scale: of what is added; attenuation: percent of it that each call takes away; span: shares of the steps at which it is
    on.
    """

    scale: float
    attenuation: float
    span: tuple[float, float]

    def strength(self, done: int, steps: int) -> float:
        """The scale at a step, 0 for none. done: steps before it, of so many."""
        last = max(1, steps - 1)
        if not self.span[0] <= min(1.0, done / last) <= self.span[1]:
            return 0.0
        before = done - math.ceil(self.span[0] * last)
        return max(0.0, self.scale * (1 - before * self.attenuation / 100))


def perturbed_of(options: Mapping[str, OptionValue]) -> Perturbed | None:
    """What a request asks for, None for none."""
    scale = option_value(options, PAG)
    span = option_value(options, "pag_start"), option_value(options, "pag_end")
    return Perturbed(scale, option_value(options, "pag_attenuation"), span) if scale else None


def middle_attentions(unet: nn.Module) -> list[Any]:
    """The self-attentions of the middle block."""
    middle: Any = getattr(unet, "mid_block", None)
    held = cast("list[Any]", list(getattr(middle, "attentions", None) or ()))
    return [block.attn1 for one in held if one is not None for block in getattr(one, "transformer_blocks", ())]


@contextmanager
def perturbed(unet: nn.Module) -> Generator[None]:
    """Run the network so for the length of a block."""
    with ExitStack() as changed:
        for attention in middle_attentions(unet):
            changed.callback(setattr, attention, _PROCESSOR, attention.processor)
            attention.processor = _ItselfAlone()
        yield


class _ItselfAlone:
    """Self-attention whose map is the identity."""

    def __call__(self, attention: Any, hidden_states: Tensor, *_: Any, **_named: Any) -> Tensor:
        projected: Tensor = attention.to_out[0](attention.to_v(hidden_states))
        return attention.to_out[1](projected)
