"""Where the noise of a picture comes from: the numbers of NVIDIA's cards, which A1111 uses by default, and another seed for the
noise of the steps (A1111: RNG and eta noise seed delta, in modules/rng.py).
"""

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from diffusers.models.autoencoders import vae as encoded
from diffusers.utils.torch_utils import randn_tensor

from halftone.contract.errors import HalftoneError
from halftone.contract.parameters import NOISE_OF_NVIDIA, NOISE_SEED_DELTA, NOISE_SOURCE, OPTION_PARAMETERS, option_flag
from halftone.contract.request import OptionValue
from halftone.contract.wording import Words
from halftone.engine.basics.philox import normal
from halftone.engine.basics.wrapping import replaced
from halftone.engine.inputs.variation import DRAWS, drawing_modules
from halftone.engine.sampling.samplers import schedulers

_SEEDS: Final = 2**40
"""The seed that a generator begins with stands below it, and the number of draws so far above: a copied or stored state of the
generator keeps both.
"""

Draw = Callable[..., torch.Tensor]


@contextmanager
def noise_of_cards(pipe: Any, seed: int) -> Generator[None]:
    """What the pipeline and its samplers draw while the block runs is what a card of NVIDIA draws.

    Raises value-out-of-range, setting-bad-value.
    """
    _check_seed(seed, NOISE_SOURCE)
    kinds = {sys.modules[type(one).__module__] for one in schedulers(pipe)}
    with ExitStack() as stack:
        for module in (*_drawing(pipe, NOISE_SOURCE), *(kind for kind in kinds if DRAWS in vars(kind))):
            stack.enter_context(replaced(module, DRAWS, _of_cards))
        yield


@contextmanager
def another_seed_for_steps(pipe: Any, seed: int, delta: int) -> Generator[None]:
    """After the first noise, the generator begins again, with its seed and that much more.

    Raises value-out-of-range, setting-bad-value.
    """
    _check_seed(seed, NOISE_SEED_DELTA)
    begun: list[bool] = []

    def make(original: Draw) -> Draw:
        def draw(shape: Any, generator: Any = None, **where: Any) -> torch.Tensor:
            noise = original(shape, generator=generator, **where)
            if not begun and isinstance(generator, torch.Generator):
                begun.append(True)
                generator.manual_seed(generator.initial_seed() % _SEEDS + delta)
            return noise

        return draw

    with ExitStack() as stack:
        for module in _drawing(pipe, NOISE_SEED_DELTA):
            stack.enter_context(replaced(module, DRAWS, make))
        yield


@contextmanager
def churned_at_first(pipe: Any, options: Mapping[str, OptionValue]) -> Generator[None]:
    """The first noise has the churn of the first step: samplers are only called after the network has seen it."""
    more = _of_cards(randn_tensor) if options.get(NOISE_SOURCE) == NOISE_OF_NVIDIA else randn_tensor

    def churned(noise: torch.Tensor, shape: Any, **named: Any) -> torch.Tensor:
        share = pipe.scheduler.first_churn
        return noise + more(shape, **named) * share if share else noise

    with _first_noise(pipe, churned):
        yield


@contextmanager
def middle_of_the_start() -> Generator[None]:
    """A start picture becomes the mean of what its encoder gives, and is not drawn around it: the seed's first numbers are the
    noise, as in ComfyUI, and as in A1111, which draws the picture's latents from another generator.
    """

    def make(_original: Draw) -> Draw:
        def draw(shape: Any, generator: Any = None, device: Any = None, dtype: Any = None, layout: Any = None) -> torch.Tensor:
            del generator, layout
            return torch.zeros(shape, device=device, dtype=dtype)

        return draw

    with replaced(encoded, DRAWS, make):
        yield


@contextmanager
def begun_below_noise_alone(pipe: Any, sigma: float) -> Generator[None]:
    """The first noise of a flow model whose schedule begins at a smaller sigma is that much weaker, as in ComfyUI: its pipelines
    begin at noise alone.
    """
    with _first_noise(pipe, lambda noise, *_, **__: noise * sigma):
        yield


@contextmanager
def _first_noise(pipe: Any, change: Callable[..., torch.Tensor]) -> Generator[None]:
    """change: takes the first noise of a picture, and how it was drawn."""
    begun: list[bool] = []

    def make(original: Draw) -> Draw:
        def draw(shape: Any, generator: Any = None, **where: Any) -> torch.Tensor:
            noise = original(shape, generator=generator, **where)
            if begun or not isinstance(generator, torch.Generator):
                return noise
            begun.append(True)
            return change(noise, shape, generator=generator, **where)

        return draw

    with ExitStack() as stack:
        for module in drawing_modules(pipe):
            stack.enter_context(replaced(module, DRAWS, make))
        yield


def _check_seed(seed: int, option: str) -> None:
    """Raise value-out-of-range for a seed that would not fit below the number of draws. option: what limits it."""
    if seed >= _SEEDS:
        raise HalftoneError(
            "value-out-of-range", name=Words("Seed with {0}", (option_flag(option),)), value=seed, low=0, high=_SEEDS - 1
        )


def _drawing(pipe: Any, option: str) -> list[Any]:
    """The modules that draw for the pipeline. Raises setting-bad-value for one that draws in another way."""
    if modules := drawing_modules(pipe):
        return list(modules)
    one = OPTION_PARAMETERS[option]
    value = Words("set with this model, whose pipeline draws its noise in another way")
    raise HalftoneError("setting-bad-value", name=one.label, value=value, allowed=Words("no {0}", (one.flags[0],)))


def _of_cards(original: Draw) -> Draw:
    def draw(
        shape: Any, generator: Any = None, device: Any = None, dtype: torch.dtype | None = None, **named: Any
    ) -> torch.Tensor:
        if not isinstance(generator, torch.Generator):
            return original(shape, generator=generator, device=device, dtype=dtype, **named)
        draws, seed = divmod(generator.initial_seed(), _SEEDS)
        size = torch.Size(shape)
        numbers = torch.from_numpy(normal(seed, draws, size.numel())).reshape(size)
        generator.manual_seed(seed + (draws + 1) * _SEEDS)
        return numbers.to(device=device or "cpu", dtype=dtype or torch.float32)

    return draw
