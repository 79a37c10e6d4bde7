"""Sigma schedules by the names that A1111, Forge and ComfyUI give them, computed from their published formulas.

A schedule spreads the sigmas of a picture's steps over those that a model was trained with. The same name means different
numbers in diffusers, whose schedulers follow each model's own spacing of timesteps; these functions give the numbers of the other
programs. All are pure: they take the model's sigmas and return those of the steps, from the largest down to the end.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

Array = NDArray[np.float64]

ALIGN_YOUR_STEPS: Final[dict[str, tuple[float, ...]]] = {
    "SD 1.5": (14.615, 6.475, 3.861, 2.697, 1.886, 1.396, 0.963, 0.652, 0.399, 0.152, 0.029),
    "SDXL": (14.615, 6.315, 3.771, 2.181, 1.342, 0.862, 0.555, 0.380, 0.234, 0.113, 0.029),
    "SVD": (700.00, 54.5, 15.886, 7.977, 4.248, 1.789, 0.981, 0.403, 0.173, 0.034, 0.002),
}
"""Ten steps of each kind of model, as its authors publish them (https://research.nvidia.com/labs/toronto-ai/AlignYourSteps)."""


class Trained(Protocol):
    """The noise that a model was trained with. table: its sigmas, one for each timestep, from the smallest."""

    @property
    def table(self) -> Array: ...
    def sigma(self, time: float) -> float: ...
    def time(self, sigma: float) -> float: ...


class Diffusion(NamedTuple):
    """A model that predicts noise or velocity at discrete timesteps (Stable Diffusion 1.x, 2.x, SDXL)."""

    table: Array

    def sigma(self, time: float) -> float:
        """The sigma at a timestep, which may lie between two: the logarithms are interpolated, as k-diffusion does."""
        return float(np.exp(np.interp(time, np.arange(len(self.table)), np.log(self.table))))

    def time(self, sigma: float) -> float:
        return float(np.interp(math.log(sigma), np.log(self.table), np.arange(len(self.table))))


class Flow(NamedTuple):
    """A flow-matching model (SD 3, FLUX.1, Sana): sigmas from 0 to 1, moved up by a shift. times: timesteps of the training."""

    shift: float = 1.0
    times: int = 1000

    @property
    def table(self) -> Array:
        return _shifted(np.arange(1, self.times + 1) / self.times, self.shift)

    def sigma(self, time: float) -> float:
        return float(_shifted(np.asarray(time / self.times), self.shift))

    def time(self, sigma: float) -> float:
        """The timestep that the network is given at a sigma: the shifted one, as ComfyUI's `ModelSamplingDiscreteFlow` has it."""
        return sigma * self.times


class Bounded(NamedTuple):
    """The same model, of whose sigmas a schedule uses those between two others."""

    trained: Diffusion | Flow
    low: float
    high: float

    @property
    def table(self) -> Array:
        return self.trained.table

    def sigma(self, time: float) -> float:
        return self.trained.sigma(time)

    def time(self, sigma: float) -> float:
        return self.trained.time(sigma)


def _shifted(times: Array, shift: float) -> Array:
    return shift * times / (1 + (shift - 1) * times)


def trained_betas(betas: Array) -> Diffusion:
    """The sigmas of a model from the betas of its training."""
    kept = np.cumprod(1 - betas)
    return Diffusion(np.sqrt((1 - kept) / kept))


# --- schedules over the smallest and the largest sigma alone ----------------------------------------------------------


def karras(trained: Trained, steps: int, rho: float = 7.0) -> Array:
    """Karras et al. 2022, equation 5 (https://arxiv.org/abs/2206.00364)."""
    low, high = _ends(trained)
    return _to_zero((high ** (1 / rho) + _ramp(steps) * (low ** (1 / rho) - high ** (1 / rho))) ** rho)


def exponential(trained: Trained, steps: int) -> Array:
    return polyexponential(trained, steps, rho=1.0)


def polyexponential(trained: Trained, steps: int, rho: float = 1.0) -> Array:
    """A polynomial in the logarithm of sigma (k-diffusion, `get_sigmas_polyexponential`)."""
    low, high = (math.log(end) for end in _ends(trained))
    return _to_zero(np.exp((1 - _ramp(steps)) ** rho * (high - low) + low))


def kl_optimal(trained: Trained, steps: int) -> Array:
    """ComfyUI's KL Optimal: the closed form in the appendix of Align Your Steps (https://arxiv.org/abs/2404.14507), and 0."""
    low, high = (math.atan(end) for end in _ends(trained))
    return _to_zero(np.tan(_ramp(steps) * low + (1 - _ramp(steps)) * high))


def kl_optimal_to_the_least(trained: Trained, steps: int) -> Array:
    """The same as A1111 and Forge end it: at the smallest sigma, with that much noise left in the picture."""
    low, high = (math.atan(end) for end in _ends(trained))
    ramp = np.arange(steps + 1) / steps
    return np.tan(ramp * low + (1 - ramp) * high)


def beta_of_sigmas(trained: Trained, steps: int, alpha: float = 0.6, beta: float = 0.6) -> Array:
    """A1111's and Forge's Beta: quantiles of a beta distribution over the sigmas (https://arxiv.org/abs/2407.12173)."""
    low, high = _ends(trained)
    return _to_zero(low + betaincinv(alpha, beta, 1 - _ramp(steps)) * (high - low))


def linear_quadratic(trained: Trained, steps: int, threshold: float = 0.025) -> Array:
    """Half of the steps go down linearly by `threshold`, the others quadratically to 0: the schedule of Mochi 1."""
    _, high = _ends(trained)
    first = steps // 2
    if first == 0:
        return np.array([high, 0.0])
    rest, excess = steps - first, first - threshold * steps
    square = excess / (first * rest**2)
    slope = threshold / first - 2 * excess / rest**2
    later = np.arange(first, steps)
    gone = np.concatenate([np.arange(first) * threshold / first, square * later**2 + slope * later + square * first**2, [1.0]])
    return (1 - gone) * high


# --- schedules over the timesteps -------------------------------------------------------------------------------------


def normal(trained: Trained, steps: int) -> Array:
    """Timesteps at equal distances, from the first to the last: A1111's Uniform and Normal, ComfyUI's normal."""
    first, last = _times(trained)
    if math.isclose(trained.sigma(last), 0, abs_tol=1e-5):
        return _at(trained, np.linspace(first, last, steps + 1))
    return _to_zero(_at(trained, np.linspace(first, last, steps)))


def sgm_uniform(trained: Trained, steps: int) -> Array:
    """Timesteps at equal distances, of which the last is left out (Stability's generative-models)."""
    first, last = _times(trained)
    return _to_zero(_at(trained, np.linspace(first, last, steps + 1)[:-1]))


def simple(trained: Trained, steps: int) -> Array:
    """Every so-many-th sigma of the training, from the last."""
    table = trained.table
    return _to_zero(table[[-1 - int(step * (len(table) / steps)) for step in range(steps)]])


def ddim_uniform(trained: Trained, steps: int) -> Array:
    """Every so-many-th sigma of the training, from the second, as DDIM does; some more where `steps` does not divide them."""
    table = trained.table
    ends = math.isclose(float(table[1]), 0, abs_tol=1e-5)
    sigmas = table[1 :: max(len(table) // (steps + ends), 1)][::-1]
    return sigmas if ends else _to_zero(sigmas)


def beta_of_times(trained: Trained, steps: int, alpha: float = 0.6, beta: float = 0.6) -> Array:
    """ComfyUI's beta: quantiles over the timesteps, of which equal ones count once. It may have fewer steps."""
    table = trained.table
    wanted = betaincinv(alpha, beta, 1 - np.arange(steps) / steps) * (len(table) - 1)
    return _to_zero(table[list(dict.fromkeys(np.rint(wanted).astype(int).tolist()))])


def time_uniform(trained: Trained, steps: int, last: float = math.inf) -> Array:
    """Timesteps at equal distances down to the first, with that much noise left, as UniPC's authors and A1111 space them
    (https://github.com/wl-zhao/UniPC): between two timesteps, the logarithm of the picture's share is interpolated. last: the
    timestep to begin at, else the training's last.
    """
    shares = np.log1p(trained.table**2)
    times = np.linspace(min(last, len(shares) - 1), 0, steps + 1)
    return np.sqrt(np.expm1(np.interp(times, np.arange(len(shares)), shares)))


def turbo(trained: Trained, steps: int) -> Array:
    """Forge's Turbo: whole timesteps at the end of equal parts, as distilled models were trained."""
    ends = np.rint(np.arange(steps, 0, -1) * (1000.0 / steps) - 1).clip(0, 999)
    return _to_zero(_at(trained, ends))


def align_your_steps(table: tuple[float, ...]) -> "Schedule":
    """Align Your Steps (https://arxiv.org/abs/2404.14507) in A1111's way: as many sigmas as steps are interpolated in the
    logarithm from the published ones, and 0 follows.
    """

    def schedule(_trained: Trained, steps: int) -> Array:
        places = np.linspace(0, 1, len(table))
        return _to_zero(np.exp(np.interp(np.linspace(0, 1, steps), places, np.log(table))))

    return schedule


Schedule = Callable[[Trained, int], Array]
SCHEDULES: Final[dict[str, Schedule]] = {
    "Karras": karras,
    "Exponential": exponential,
    "Polyexponential": polyexponential,
    "SGM Uniform": sgm_uniform,
    "KL Optimal": kl_optimal_to_the_least,
    "Simple": simple,
    "Normal": normal,
    "DDIM Uniform": ddim_uniform,
    "Beta": beta_of_sigmas,
    "Linear Quadratic": linear_quadratic,
    "Turbo": turbo,
    "Align Your Steps": align_your_steps(ALIGN_YOUR_STEPS["SD 1.5"]),
    "Beta (ComfyUI)": beta_of_times,
    "KL Optimal (ComfyUI)": kl_optimal,
    "Time Uniform": time_uniform,
}


def without_penultimate(sigmas: Array) -> Array:
    """The schedule of a sampler that is better without the last sigma before the end; it is given a step more at first."""
    return np.delete(sigmas, -2)


def _ends(trained: Trained) -> tuple[float, float]:
    if isinstance(trained, Bounded):
        return trained.low, trained.high
    table = trained.table
    return float(table[0]), float(table[-1])


def _times(trained: Trained) -> tuple[float, float]:
    low, high = _ends(trained)
    return trained.time(high), trained.time(low)


def _ramp(steps: int) -> Array:
    return np.linspace(0, 1, steps)


def _at(trained: Trained, times: Array) -> Array:
    return np.array([trained.sigma(float(time)) for time in times])


def _to_zero(sigmas: Array) -> Array:
    return np.append(sigmas, 0.0)
