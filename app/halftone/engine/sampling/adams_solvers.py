"""Solvers that weigh what the network gave in earlier steps over uneven distances, and correct what they predicted."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from halftone.engine.sampling.solvers import Run, remembered, slope

_DEIS_POINTS: Final = 10_000
_DEIS_START: Final = 1e-3
_DEIS_SIGMAS: Final = (0.002, 80.0)
"""Ends of the noise that DEIS integrates over, and its smallest time, as its authors chose them."""
_UNIPC_END: Final = 0.001
"""UniPC takes logarithms, and ends at this sigma in place of 0 (ComfyUI)."""
_PREDICTS: Final = 3
_CORRECTS: Final = 4
"""Orders of SA-Solver."""


def _past(run: Run, count: int) -> list[float]:
    """The sigmas of the last so many steps, the present one last."""
    return list(run.sigmas[run.step + 1 - count : run.step + 1])


def ipndm_v(run: Run, x: Tensor, denoised: Tensor, most: int = 4) -> Tensor:
    """Adams-Bashforth with weights of the distances (Zhang and Chen 2022, https://arxiv.org/abs/2204.13902), in the form that
    their authors' code and ComfyUI have: its third order is not that of the textbook.
    """
    slopes = remembered(run, "slopes", slope(x, denoised, run.sigma), most)
    if run.next == 0:
        return denoised
    h = run.next - run.sigma
    back = [later - sooner for sooner, later in pairwise(_past(run, len(slopes)))][::-1]
    weights = _ipndm_weights(h, back)
    for weight, one in zip(weights, reversed(slopes), strict=True):
        x = x + one * (h * weight)
    return x


def _ipndm_weights(h: float, back: Sequence[float]) -> tuple[float, ...]:
    """The weights of the slopes, the newest first. back: the steps before this one, the last first."""
    if not back:
        return (1.0,)
    first = h / (2 * back[0])
    if len(back) == 1:
        return 1 + first, -first
    one, two = back[:2]
    near = one / two
    second = (1 - h * h / (3 * one * (one + two))) / 2
    if len(back) == 2:
        return 1 + first + second, -first - (1 + near) * second, near * second
    three = back[2]
    far = one * (one + two) / (two * (two + three))
    spread = h * (h + one) * (h + one + two) / (one * (one + two) * (one + two + three))
    third = ((1 - h / (3 * (h + one))) / 2 + (1 - h / (2 * (h + one))) * h / (6 * (h + one + two))) * spread
    return (
        1 + first + second + third,
        -first - (1 + near) * second - (1 + near + far) * third,
        near * second + (near + far * (1 + two / three)) * third,
        -far * near * third,
    )


def deis(run: Run, x: Tensor, denoised: Tensor, most: int = 3) -> Tensor:
    """DEIS, tAB of order three (Zhang and Chen 2022, https://arxiv.org/abs/2204.13902)."""
    slopes = remembered(run, "slopes", slope(x, denoised, run.sigma), most)
    if run.next == 0:
        return denoised
    if len(slopes) == 1:
        return x + slopes[0] * (run.next - run.sigma)
    for weight, one in zip(_deis_weights([*_past(run, len(slopes)), run.next]), slopes, strict=True):
        x = x + one * weight
    return x


def _deis_weights(sigmas: Sequence[float]) -> list[float]:
    """Integrals of the Lagrange polynomials over the last interval, weighted as noise grows in the time of DEIS."""
    low, high = (math.log(sigma**2 + 1) for sigma in _DEIS_SIGMAS)
    growth = 2 * (low / _DEIS_START - high) / (_DEIS_START - 1)
    least = high - growth / 2
    *nodes, end = ((math.sqrt(least**2 + 2 * growth * math.log(sigma**2 + 1)) - least) / growth for sigma in sigmas)
    times = np.linspace(nodes[-1], end, _DEIS_POINTS)
    kept = np.exp(-(times**2) * growth / 2 - times * least)
    density = (times * growth + least) / (2 * np.sqrt(kept * (1 - kept)))
    width = (end - nodes[-1]) / _DEIS_POINTS
    return [float((density * _lagrange(nodes, place, times)).sum() * width) for place in range(len(nodes))]


def _lagrange(nodes: Sequence[float], place: int, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """The polynomial that is 1 at one of the nodes and 0 at the others."""
    others = [node for index, node in enumerate(nodes) if index != place]
    return np.prod([(at - other) / (nodes[place] - other) for other in others], axis=0)


# --- predictors with a corrector --------------------------------------------------------------------------------------


def unipc(run: Run, x: Tensor, denoised: Tensor, *, second: bool = False, most: int = 3) -> Tensor:
    """UniPC over the predicted picture (Zhao et al. 2023, https://arxiv.org/abs/2302.04867). second: B2(h) in place of B1(h)."""
    left = len(run.sigmas) - 1 - run.step
    order: int = run.memory.setdefault("most", max(1, min(most, left - 1)))
    before: list[Tensor] = run.memory.get("pictures", [])
    if before:
        x = _unipc_step(run, run.memory["x"], run.memory["order"], run.step, second, denoised)
    pictures = [*before, denoised][-most:]
    made: int = run.memory.get("made", 0) + 1
    using = made if made < order else min(order, left)
    run.memory.update(pictures=pictures, x=x, order=using, made=made)
    return _unipc_step(run, x, using, run.step + 1, second, None)


def _unipc_step(run: Run, x: Tensor, order: int, to: int, second: bool, there: Tensor | None) -> Tensor:
    """From the step before `to` to it. there: the picture that the network saw at the end, to correct with it."""
    levels = [-math.log(sigma or _UNIPC_END) for sigma in run.sigmas[to - order : to + 1]]
    *nodes, end = levels
    newest, *older = reversed(run.memory["pictures"][-order:])
    h = end - nodes[-1]
    base = math.exp(-h) * x - math.expm1(-h) * newest
    ratios = [(node - nodes[-1]) / h for node in reversed(nodes[:-1])]
    bends = [(one - newest) / ratio for one, ratio in zip(older, ratios, strict=True)]
    scale = math.expm1(-h) if second else -h
    if there is not None:
        ratios, bends = [*ratios, 1.0], [*bends, there - newest]
    for weight, one in zip(_unipc_weights(ratios, h, scale), bends, strict=True):
        base = base - one * (scale * weight)
    return base


def _unipc_weights(ratios: Sequence[float], h: float, scale: float) -> Sequence[float]:
    if len(ratios) == 1:
        return (0.5,)
    wanted: list[float] = []
    phi, factorial = math.expm1(-h) / -h - 1, 1
    for power in range(1, len(ratios) + 1):
        wanted.append(phi * factorial / scale)
        factorial *= power + 1
        phi = phi / -h - 1 / factorial
    return [float(weight) for weight in np.linalg.solve(np.vander(ratios, increasing=True).T, wanted)] if ratios else ()


def twice(run: Run) -> Sequence[float]:
    """Two calls at the step's sigma."""
    return run.sigma, run.sigma


def sa_solver(run: Run, x: Tensor, denoised: Tensor, *, evaluates: bool = False) -> Tensor:
    """SA-Solver over the predicted picture (Xue et al. 2023, https://arxiv.org/abs/2309.05019). Noise is added in the middle of
    the way alone. evaluates: the network is called again with what was corrected (PECE).
    """
    if run.stage == 0:
        pictures = remembered(run, "pictures", denoised, _CORRECTS)
        x = _sa_corrected(run, x, pictures, last=evaluates)
        if evaluates:
            return x
    else:
        pictures = run.memory["pictures"] = [*run.memory["pictures"][:-1], denoised]
    if run.next == 0:
        return denoised
    low, high = run.stochastic
    tau = run.eta if low <= run.next <= high else 0.0
    used = _sa_order(run, len(pictures), _PREDICTS, run.step + 1)
    result = _sa_step(run, x, pictures[-used:], tau, run.step, run.step + 1)
    noise: Tensor | None = None
    if tau:
        h = run.half_log_snr(run.next) - run.half_log_snr(run.sigma)
        noise = run.noise(run.sigma, run.next) * (run.next * run.s_noise * math.sqrt(-math.expm1(-2 * tau**2 * h)))
        result = result + noise
    run.memory.update(x=x, tau=tau, noise=noise)
    return result


def _sa_corrected(run: Run, x: Tensor, pictures: Sequence[Tensor], *, last: bool) -> Tensor:
    """The latents of this step once more, from those of the step before, now that the network has seen the predicted ones."""
    if len(pictures) == 1 or (run.next == 0 and not last):
        return x
    used = _sa_order(run, len(pictures), _CORRECTS, run.step)
    x = _sa_step(run, run.memory["x"], pictures[-used:], run.memory["tau"], run.step - 1, run.step)
    return x if run.memory["noise"] is None else x + run.memory["noise"]


def _sa_order(run: Run, there: int, most: int, to: int) -> int:
    """The order of a step to that sigma: lower near the end."""
    return min(most, there, len(run.sigmas) - 1 - to) if run.sigmas[-1] == 0 else min(most, there)


def _sa_step(run: Run, x: Tensor, pictures: Sequence[Tensor], tau: float, start: int, end: int) -> Tensor:
    """An Adams step between two sigmas. pictures: of the steps up to the present one."""
    to = run.half_log_snr(run.sigmas[end])
    h = to - run.half_log_snr(run.sigmas[start])
    nodes = [run.half_log_snr(sigma) - to for sigma in _past(run, len(pictures))]
    growth = 1 + tau**2
    left = math.exp(-growth * h)
    moments = [1 - left]
    for power in range(1, len(nodes)):
        moments.append(-((-h) ** power) * left - power / growth * moments[-1])
    weights = np.linalg.solve(np.vander(nodes, increasing=True).T, moments)
    result = run.sigmas[end] / run.sigmas[start] * math.exp(-(tau**2) * h) * x
    for weight, one in zip(weights, pictures, strict=True):
        result = result + one * (run.alpha(run.sigmas[end]) * float(weight))
    return result


sa_solver_pece: Final = partial(sa_solver, evaluates=True)
