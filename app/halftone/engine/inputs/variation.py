"""The noise of one seed turned towards that of another (A1111: variation seed, variation strength, resize seed)."""

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import diffusers
import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.engine.basics.wrapping import replaced

DRAWS: Final = "randn_tensor"
"""What pipelines of diffusers call for their noise; samplers and VAEs have it from elsewhere."""
_ALIKE: Final = 0.9995
"""Mean cosine from which on A1111 takes the straight way between two noises."""


@dataclass(frozen=True)
class Variation:
    """other: the second seed, mixed by `strength` from 0 to 1; size: (width, height) in pixels, and the noise's own or None."""

    other: int
    strength: float
    size: tuple[int, int]
    drawn_at: tuple[int, int] | None = None


@contextmanager
def varied_noise(pipe: Any, variation: Variation) -> Generator[None]:
    """What the pipeline draws itself while the block runs is varied. Raises setting-bad-value for one that draws elsewhere."""
    modules = drawing_modules(pipe)
    if not modules:
        allowed = Words("0: this model's pipeline draws its noise in another way")
        raise HalftoneError("setting-bad-value", name=Words("Variation strength"), value=variation.strength, allowed=allowed)
    other = torch.Generator("cpu").manual_seed(variation.other)
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(replaced(module, DRAWS, lambda original: _drawing(original, variation, other)))
        yield


def drawing_modules(pipe: Any) -> list[ModuleType]:
    """The modules whose functions draw for a pipeline, or for the pipelines inside a combined one; none if it draws otherwise."""
    inner = [part for part in vars(pipe).values() if isinstance(part, diffusers.DiffusionPipeline)]
    kinds = [kind for one in (pipe, *inner) for kind in type(one).__mro__]
    found = dict.fromkeys(sys.modules[kind.__module__] for kind in kinds)
    return [module for module in found if DRAWS in vars(module)]


def _drawing(original: Callable[..., torch.Tensor], variation: Variation, other: torch.Generator) -> Callable[..., torch.Tensor]:
    def draw(shape: Any, generator: Any = None, **where: Any) -> torch.Tensor:
        if not isinstance(generator, torch.Generator):
            return original(shape, generator=generator, **where)
        small, before = _drawn_shape(tuple(shape), variation), generator.get_state()
        low = original(small, generator=generator, **where)
        noise = low if variation.strength == 0 else slerp(variation.strength, low, original(small, generator=other, **where))
        if small == tuple(shape):
            return noise
        generator.set_state(before)
        return laid_in(original(shape, generator=generator, **where), noise)

    return draw


def _drawn_shape(shape: tuple[int, ...], variation: Variation) -> tuple[int, ...]:
    """(…, height, width) of the noise as it is drawn."""
    if variation.drawn_at is None or len(shape) < 4:
        return shape
    (wide, high), (from_wide, from_high) = variation.size, variation.drawn_at
    return (*shape[:-2], max(1, shape[-2] * from_high // high), max(1, shape[-1] * from_wide // wide))


def slerp(share: float, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Spherical interpolation in float32 from low (0) to high (1): along the height as A1111's `slerp`, else as one vector."""
    a, b = low.float(), high.float()
    shape = a.shape
    if a.dim() != 4 or shape[-2] < 2:
        a, b = a.reshape(-1, 1), b.reshape(-1, 1)
    cosine = (a / a.norm(dim=-2, keepdim=True) * (b / b.norm(dim=-2, keepdim=True))).sum(-2, keepdim=True)
    if cosine.mean() > _ALIKE:
        return (a * (1 - share) + b * share).reshape(shape).to(low)
    angle = torch.acos(cosine.clamp(-1, 1))
    turned = (torch.sin((1 - share) * angle) * a + torch.sin(share * angle) * b) / torch.sin(angle)
    return turned.reshape(shape).to(low)


def laid_in(whole: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """(…, height, width): the part in the middle of the whole; where it is larger, its own middle."""
    made = whole.clone()
    into, taken = [], []
    for have, given in zip(whole.shape[-2:], part.shape[-2:], strict=True):
        begin, length = (have - given) // 2, min(have, given)
        into.append(slice(max(begin, 0), max(begin, 0) + length))
        taken.append(slice(max(-begin, 0), max(-begin, 0) + length))
    made[..., into[0], into[1]] = part[..., taken[0], taken[1]]
    return made
