"""Samplers that diffusers lacks or computes differently, each a small function over sigmas.

A solver is called once for each call of the network, with the latents that the network saw and the picture that it predicted from
them, and returns the latents of its next call. What it keeps between calls lies in `Run.memory`, so that a loop can be copied,
stored and continued at any call. Numbers that depend on sigmas alone are Python floats: a step never waits for the device.

Latents are in k-diffusion's scale: picture + sigma · noise for diffusion models, (1 − sigma) · picture + sigma · noise for flow
models. Sources: k-diffusion (https://github.com/crowsonkb/k-diffusion) and the papers named at each solver.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

_NEARLY_NOISE: Final = 0.9999
"""The middle of the first step of a flow model, which begins at noise alone (ComfyUI)."""
_MOST_CHURN: Final = math.sqrt(2) - 1
_RESTARTS: Final = 20
_RESTARTS_TWICE: Final = 36
"""Steps from which on Restart goes up again once and twice."""
Noise = Callable[[float, float], Tensor]
"""Noise between two sigmas, of the latents' shape, with variance 1."""


@dataclass
class Run:
    """Where a loop is. sigmas: of the steps, with the end; churn: how much noise Euler, Heun and DPM2 add before their steps, and
    between which sigmas (k-diffusion's s_churn, s_tmin, s_tmax); stochastic: the least and the largest sigma at which SA-Solver
    adds noise; step, stage: which call this is; unguided: for CFG++, the picture that the network predicts for the negative
    prompt, None without guidance; memory: what the solver keeps.
    """

    sigmas: Sequence[float]
    noise: Noise
    flow: bool = False
    eta: float = 1.0
    s_noise: float = 1.0
    stochastic: tuple[float, float] = (0.0, 0.0)
    churn: tuple[float, float, float] = (0.0, 0.0, math.inf)
    step: int = 0
    stage: int = 0
    unguided: Tensor | None = None
    memory: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def sigma(self) -> float:
        return self.sigmas[self.step]

    @property
    def next(self) -> float:
        return self.sigmas[self.step + 1]

    def churned(self, step: int) -> float:
        """The sigma at which a step begins after its churn."""
        amount, low, high = self.churn
        sigma = self.sigmas[step]
        return sigma * (1 + min(amount / (len(self.sigmas) - 1), _MOST_CHURN)) if low <= sigma <= high else sigma

    def half_log_snr(self, sigma: float) -> float:
        """λ, half of the logarithm of the ratio of signal to noise."""
        return math.log((1 - sigma) / sigma) if self.flow else -math.log(sigma)

    def sigma_at(self, half_log_snr: float) -> float:
        return 1 / (1 + math.exp(half_log_snr)) if self.flow else math.exp(-half_log_snr)

    def between(self, sigma: float, after: float, share: float) -> float:
        """The sigma that lies at a share of the way in λ."""
        start = self.half_log_snr(sigma)
        return self.sigma_at(start + share * (self.half_log_snr(after) - start))

    def alpha(self, sigma: float) -> float:
        """The share of the picture in the latents."""
        return 1 - sigma if self.flow else 1.0

    def base(self, denoised: Tensor) -> Tensor:
        """The picture whose noise the latents keep: with CFG++ the unguided one."""
        return denoised if self.unguided is None else self.unguided


Step = Callable[[Run, Tensor, Tensor], Tensor]
Path = Callable[[Sequence[float]], list[float]]
Calls = Callable[[Run], Sequence[float]]


def once(run: Run) -> Sequence[float]:
    """One call in each step, at its own sigma."""
    return (run.sigma,)


class Solver(NamedTuple):
    """step: from the latents of a call to those of the next; calls: sigmas of the calls in the step that `run` is at; path: the
    sigmas that it goes through, where they are not those of the schedule, with steps up that only add noise;
    drops_penultimate: it leaves out the sigma before the end, and is given a step more; over_snr: it needs the logarithm of the
    ratio of signal to noise, which noise alone does not have; cfg_pp: it needs the unguided picture; begins_at_one: what
    the network sees first is noise of variance 1, as with DDIM; adaptive:
    it finds out while it runs how many calls it makes, and at which sigmas; brownian: its noise is that of a Brownian motion.
    """

    step: Step
    calls: Calls = once
    path: Path = list
    drops_penultimate: bool = False
    over_snr: bool = False
    cfg_pp: bool = False
    begins_at_one: bool = False
    adaptive: bool = False
    brownian: bool = False


def cfg_pp(step: Step, calls: Calls = once) -> Solver:
    """Make a solver follow CFG++ (Chung et al. 2024, https://arxiv.org/abs/2406.08070): it goes to the guided picture, and keeps
    the noise of the unguided one. That is a step from latents moved by the difference between the two.
    """

    def moved(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
        return step(run, x if run.unguided is None else x + (denoised - run.unguided), denoised)

    return Solver(moved, calls, cfg_pp=True)


def slope(x: Tensor, denoised: Tensor, sigma: float) -> Tensor:
    """The derivative of the latents by sigma (Karras et al. 2022, https://arxiv.org/abs/2206.00364)."""
    return (x - denoised) / sigma


def ancestral(sigma: float, after: float, eta: float) -> tuple[float, float]:
    """How far to step down, and how much noise to add then, to arrive at `after` (k-diffusion, `get_ancestral_step`)."""
    if not eta:
        return after, 0.0
    up = min(after, eta * math.sqrt(after**2 * (sigma**2 - after**2) / sigma**2))
    return math.sqrt(after**2 - up**2), up


def ancestral_of_flow(sigma: float, after: float, eta: float) -> tuple[float, float, float]:
    """The same for flow models: how far down, the scale of the latents then, and the noise to add."""
    down = after * (1 + (after / sigma - 1) * eta)
    if down >= 1:
        return after, 1.0, 0.0
    scale = (1 - after) / (1 - down)
    return down, scale, math.sqrt(max(after**2 - (down * scale) ** 2, 0.0))


def _renoised(run: Run, x: Tensor, up: float, scale: float = 1.0) -> Tensor:
    return x if not up else scale * x + run.noise(run.sigma, run.next) * (run.s_noise * up)


# --- one call a step --------------------------------------------------------------------------------------------------


def euler(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    here = run.churned(run.step)
    return _churned(run, x + slope(x, denoised, here) * (run.next - here))


def _churned(run: Run, x: Tensor) -> Tensor:
    """The latents with the churn of the next step (Karras et al. 2022, algorithm 2): the network sees them so."""
    to = run.churned(run.step + 1)
    return x + run.noise(run.next, to) * (run.s_noise * math.sqrt(to**2 - run.next**2)) if to > run.next else x


def at_churned(run: Run) -> Sequence[float]:
    return (run.churned(run.step),)


def euler_ancestral(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    if run.next == 0:
        return denoised
    if run.flow:
        down, scale, up = ancestral_of_flow(run.sigma, run.next, run.eta)
        return _renoised(run, torch.lerp(denoised, x, down / run.sigma), up, scale)
    down, up = ancestral(run.sigma, run.next, run.eta)
    return _renoised(run, x + slope(x, denoised, run.sigma) * (down - run.sigma), up)


def lcm(run: Run, _x: Tensor, denoised: Tensor) -> Tensor:
    """Each step starts again from the predicted picture (Luo et al. 2023, https://arxiv.org/abs/2310.04378)."""
    return denoised if run.next == 0 else run.alpha(run.next) * denoised + run.noise(run.sigma, run.next) * run.next


def ddpm(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """Ho et al. 2020, algorithm 2 (https://arxiv.org/abs/2006.11239), with the sigmas as its noise levels."""
    now, after = 1 / (run.sigma**2 + 1), 1 / (run.next**2 + 1)
    alpha = now / after
    scaled = x * math.sqrt(now)
    mean = (scaled - (1 - alpha) * slope(x, denoised, run.sigma) / math.sqrt(1 - now)) / math.sqrt(alpha)
    if run.next == 0:
        return mean
    spread = math.sqrt((1 - alpha) * (1 - after) / (1 - now))
    return (mean + run.noise(run.sigma, run.next) * spread) / math.sqrt(after)


def lms(run: Run, x: Tensor, denoised: Tensor, most: int = 4) -> Tensor:
    """Linear multistep (Adams-Bashforth over the sigmas), of order four."""
    slopes = remembered(run, "slopes", slope(x, denoised, run.sigma), most)
    past = run.sigmas[run.step + 1 - len(slopes) : run.step + 1]
    for place, one in enumerate(slopes):
        x = x + one * _lagrange_integral(past, place, run.sigma, run.next)
    return x


def _lagrange_integral(nodes: Sequence[float], place: int, start: float, end: float) -> float:
    """The integral of the Lagrange polynomial that is 1 at one of the nodes and 0 at the others."""
    others = [node for index, node in enumerate(nodes) if index != place]
    polynomial = np.poly1d(np.poly(others)) if others else np.poly1d([1.0])
    integral = (polynomial / polynomial(nodes[place])).integ()
    return float(integral(end) - integral(start))


def ipndm(run: Run, x: Tensor, denoised: Tensor, most: int = 4) -> Tensor:
    """Adams-Bashforth with constant weights (Zhang and Chen 2022, https://arxiv.org/abs/2204.13902)."""
    slopes = remembered(run, "slopes", slope(x, denoised, run.sigma), most)
    if run.next == 0:
        return denoised
    weights = ((1.0,), (-1 / 2, 3 / 2), (5 / 12, -16 / 12, 23 / 12), (-9 / 24, 37 / 24, -59 / 24, 55 / 24))[len(slopes) - 1]
    for weight, one in zip(weights, slopes, strict=True):
        x = x + one * (weight * (run.next - run.sigma))
    return x


def gradient_estimation(run: Run, x: Tensor, denoised: Tensor, gamma: float = 2.0) -> Tensor:
    """Permenter and Yuan 2024 (https://openreview.net/pdf?id=o2ND9v0CeK)."""
    now, before = slope(x, denoised, run.sigma), run.memory.get("slope")
    run.memory["slope"] = now
    if run.next == 0:
        return denoised
    better = now if before is None else now + (gamma - 1) * (now - before)
    return x + better * (run.next - run.sigma)


def res_multistep(run: Run, x: Tensor, denoised: Tensor, *, adds_noise: bool = False) -> Tensor:
    """The refined exponential solver of order two with one call (Zhang et al. 2023, https://arxiv.org/abs/2308.02157)."""
    down, up = ancestral(run.sigma, run.next, run.eta if adds_noise else 0.0)
    old, old_down = run.memory.get("denoised"), run.memory.get("down")
    base = run.base(denoised)
    run.memory.update(denoised=base, down=down)
    if down == 0 or old is None or not old_down:
        return _renoised(run, x + slope(x, denoised, run.sigma) * (down - run.sigma), up)
    h = math.log(run.sigma) - math.log(down)
    apart = (math.log(old_down) - math.log(run.sigmas[run.step - 1])) / h
    first = -math.expm1(-h) / h
    second = (1 - first) / h
    weight = second / apart if apart else 0.0
    return _renoised(run, math.exp(-h) * x + h * ((first - weight) * base + weight * old), up)


def dpmpp_2m(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """DPM-Solver++(2M) (Lu et al. 2022, https://arxiv.org/abs/2211.01095)."""
    old = run.memory.get("denoised")
    run.memory["denoised"] = run.base(denoised)
    if run.next == 0:
        return denoised
    h = math.log(run.sigma / run.next)
    better = denoised
    if old is not None:
        ratio = math.log(run.sigmas[run.step - 1] / run.sigma) / h
        better = (1 + 1 / (2 * ratio)) * denoised - 1 / (2 * ratio) * old
    return run.next / run.sigma * x - math.expm1(-h) * better


def dpmpp_2m_sde(run: Run, x: Tensor, denoised: Tensor, *, heun: bool = False) -> Tensor:
    """DPM-Solver++(2M) SDE. heun: the other way to use the step before."""
    old, old_h = run.memory.get("denoised"), run.memory.get("h")
    if run.next == 0:
        return denoised
    h = run.half_log_snr(run.next) - run.half_log_snr(run.sigma)
    run.memory.update(denoised=denoised, h=h)
    back, alpha = run.eta * h, run.alpha(run.next)
    x = run.next / run.sigma * math.exp(-back) * x - alpha * math.expm1(-h - back) * denoised
    if old is not None and old_h:
        ratio = old_h / h
        weight = alpha * (math.expm1(-h - back) / (h + back) + 1 if heun else -0.5 * math.expm1(-h - back))
        x = x + weight / ratio * (denoised - old)
    return _renoised(run, x, run.next * math.sqrt(-math.expm1(-2 * back)))


def dpmpp_3m_sde(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """DPM-Solver++(3M) SDE, of k-diffusion."""
    olds: list[tuple[Tensor, float]] = run.memory.get("olds", [])
    if run.next == 0:
        return denoised
    h = run.half_log_snr(run.next) - run.half_log_snr(run.sigma)
    whole, alpha = h * (run.eta + 1), run.alpha(run.next)
    x = run.next / run.sigma * math.exp(-h * run.eta) * x - alpha * math.expm1(-whole) * denoised
    second = math.expm1(-whole) / whole + 1
    if len(olds) > 1:
        (one, one_h), (two, two_h) = olds
        r0, r1 = one_h / h, two_h / h
        d0, d1 = (denoised - one) / r0, (one - two) / r1
        first, curve = d0 + (d0 - d1) * (r0 / (r0 + r1)), (d0 - d1) / (r0 + r1)
        x = x + alpha * second * first - alpha * (second / whole - 0.5) * curve
    elif olds:
        one, one_h = olds[0]
        x = x + alpha * second * (denoised - one) / (one_h / h)
    run.memory["olds"] = [(denoised, h), *olds][:2]
    return _renoised(run, x, run.next * math.sqrt(-math.expm1(-2 * h * run.eta)))


def er_sde(run: Run, x: Tensor, denoised: Tensor, stages: int = 3, points: int = 200) -> Tensor:
    """ER-SDE-Solver-3 (Cui et al. 2023, https://arxiv.org/abs/2309.06169)."""
    olds: list[tuple[Tensor, Tensor | None]] = run.memory.get("olds", [])
    if run.next == 0:
        return denoised
    here, after = (math.exp(-run.half_log_snr(sigma)) for sigma in (run.sigma, run.next))
    alpha, before = run.next / after, run.sigma / here
    ratio = _er_scale(after) / _er_scale(here)
    result = alpha / before * ratio * x + alpha * (1 - ratio) * denoised
    bend: Tensor | None = None
    if olds and stages > 1:
        past = math.exp(-run.half_log_snr(run.sigmas[run.step - 1]))
        width = (here - after) / points
        places = after + np.arange(points) * width
        scaled = _er_scale(places)
        area = float((1 / scaled).sum() * width)
        bend = (denoised - olds[0][0]) / (here - past)
        result = result + alpha * (after - here + area * _er_scale(after)) * bend
        old_bend = olds[0][1]
        if old_bend is not None and stages > 2:
            further = math.exp(-run.half_log_snr(run.sigmas[run.step - 2]))
            moment = float(((places - here) / scaled).sum() * width)
            curve = (bend - old_bend) / ((here - further) / 2)
            result = result + alpha * ((after - here) ** 2 / 2 + moment * _er_scale(after)) * curve
    run.memory["olds"] = [(denoised, bend)]
    return _renoised(run, result, alpha * math.sqrt(max(after**2 - (here * ratio) ** 2, 0.0)))


def _er_scale(level: Any) -> Any:
    """The noise that the authors found best, as a function of the noise level."""
    return level * (np.exp(level**0.3) + 10.0)


# --- several calls a step ---------------------------------------------------------------------------------------------


def churned_and_end(run: Run) -> Sequence[float]:
    here = run.churned(run.step)
    return (here, run.next) if run.next else (here,)


def begin_and_end(run: Run) -> Sequence[float]:
    return (run.sigma, run.next) if run.next else (run.sigma,)


def heun(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """Karras et al. 2022, algorithm 2."""
    sigma = run.churned(run.step)
    if run.stage == 0:
        here = slope(x, denoised, sigma)
        run.memory.update(x=x, slope=here)
        return x + here * (run.next - sigma)
    mean = (run.memory["slope"] + slope(x, denoised, run.next)) / 2
    return _churned(run, run.memory["x"] + mean * (run.next - sigma))


def downwards(run: Run) -> Sequence[float]:
    return () if run.next > run.sigma else begin_and_end(run)


def with_restarts(sigmas: Sequence[float]) -> list[float]:
    """A1111's way: from 20 steps on, some of them go again from about 2 down to about 0.1."""
    steps = len(sigmas) - 1
    if steps < _RESTARTS:
        return list(sigmas)
    again, times = (steps // 4, 2) if steps >= _RESTARTS_TWICE else (9, 1)
    whole = [*_karras(sigmas[0], sigmas[-2], steps - again * times), 0.0]
    low, high = (min(range(len(whole)), key=lambda place: abs(whole[place] - sigma)) for sigma in (0.1, 2.0))
    if high >= low:
        return whole
    return [*whole[: low + 1], *_karras(whole[high], whole[low], again + 1) * times, *whole[low + 1 :]]


def _karras(high: float, low: float, count: int) -> list[float]:
    ends = high ** (1 / 7), low ** (1 / 7)
    return [float(one) for one in np.linspace(*ends, count) ** 7]


def restart(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """Heun, with noise added where it goes up again (Xu et al. 2023, https://arxiv.org/abs/2306.14878)."""
    result = heun(run, x, denoised)
    ends = run.stage + 1 == len(downwards(run))
    more = run.step + 2 < len(run.sigmas)  # some schedules end with noise left, and their last step has none after it
    up = run.sigmas[run.step + 2] if ends and more else 0.0
    return result + run.noise(run.next, up) * (run.s_noise * math.sqrt(up**2 - run.next**2)) if up > run.next else result


def up_to_three(run: Run) -> Sequence[float]:
    """The sigmas of the step and of the two after it, without the end, which need not be 0."""
    return tuple(run.sigmas[run.step : min(run.step + 3, len(run.sigmas) - 1)])


def heunpp2(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """Heun++ (Li et al. 2024, https://arxiv.org/abs/2311.14768): slopes ahead, weighted by their sigmas."""
    sigmas = up_to_three(run)
    here = slope(x, denoised, sigmas[run.stage])
    slopes = [*(run.memory["slopes"] if run.stage else []), here]
    run.memory.update(slopes=slopes, **({} if run.stage else {"x": x}))
    if run.stage + 1 < len(sigmas):
        return x + here * (sigmas[run.stage + 1] - sigmas[run.stage])
    weights = [sigma / (len(sigmas) * run.sigmas[0]) for sigma in sigmas[1:]]
    mean = sum((weight * one for weight, one in zip(weights, slopes[1:], strict=True)), (1 - sum(weights)) * slopes[0])
    return run.memory["x"] + mean * (run.next - run.sigma)


def dpm2_calls(run: Run) -> Sequence[float]:
    here = run.churned(run.step)
    return (here, math.sqrt(here * run.next)) if run.next else (here,)


def dpm2(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """The midpoint method in the logarithm of sigma (DPM-Solver-2, https://arxiv.org/abs/2206.00927)."""
    if run.next == 0:
        return euler(run, x, denoised)
    here = run.churned(run.step)
    between = math.sqrt(here * run.next)
    if run.stage == 0:
        run.memory["x"] = x
        return x + slope(x, denoised, here) * (between - here)
    return _churned(run, run.memory["x"] + slope(x, denoised, between) * (run.next - here))


def _down(run: Run) -> float:
    return (ancestral_of_flow if run.flow else ancestral)(run.sigma, run.next, run.eta)[0]


def ancestral_midpoint(run: Run) -> Sequence[float]:
    """The step's sigma, and the middle to where it steps down, in the logarithm."""
    down = _down(run)
    return (run.sigma, math.sqrt(run.sigma * down)) if down else (run.sigma,)


def ancestral_middle_of_snr(run: Run) -> Sequence[float]:
    """The step's sigma, and the middle to where it steps down, of the ratios of signal to noise."""
    down = _down(run)
    if not down:
        return (run.sigma,)
    return run.sigma, run.between(run.sigma, down, 0.5) if run.alpha(run.sigma) else _NEARLY_NOISE


def dpm2_ancestral(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    down = _down(run)
    if down == 0:
        return euler(run, x, denoised)
    between = math.sqrt(run.sigma * down)
    if run.stage == 0:
        run.memory["x"] = x
        return x + slope(x, denoised, run.sigma) * (between - run.sigma)
    x = run.memory["x"] + slope(x, denoised, between) * (down - run.sigma)
    return _after_step_down(run, x)


def _after_step_down(run: Run, x: Tensor) -> Tensor:
    if run.flow:
        _, scale, up = ancestral_of_flow(run.sigma, run.next, run.eta)
        return _renoised(run, x, up, scale)
    return _renoised(run, x, ancestral(run.sigma, run.next, run.eta)[1])


def dpmpp_2s_ancestral(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """DPM-Solver++(2S), ancestral (https://arxiv.org/abs/2211.01095)."""
    down = _down(run)
    if down == 0:
        return euler(run, x, denoised)
    if run.stage == 0:
        run.memory["x"] = x
        ratio = ancestral_middle_of_snr(run)[1] / run.sigma
        return ratio * x + (1 - ratio) * denoised
    return _after_step_down(run, down / run.sigma * run.memory["x"] + (1 - down / run.sigma) * denoised)


def dpmpp_2s_ancestral_cfg_pp(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """The same for CFG++, as ComfyUI computes it: the second call's unguided picture replaces the first's."""
    if run.unguided is not None and run.stage == 0:
        run.memory["unguided"] = run.unguided
    elif run.unguided is not None:
        run.memory["x"] = run.memory["x"] + (run.memory["unguided"] - run.unguided)
    return dpmpp_2s_ancestral(run, x, denoised)


def middle_of_snr(run: Run) -> Sequence[float]:
    """The step's sigma, and that in the middle of the ratios of signal to noise."""
    return (run.sigma, run.between(run.sigma, run.next, 0.5)) if run.next else (run.sigma,)


def thirds_of_snr(run: Run) -> Sequence[float]:
    if not run.next:
        return (run.sigma,)
    return run.sigma, *(run.between(run.sigma, run.next, share) for share in (1 / 3, 2 / 3))


def dpmpp_sde(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """DPM-Solver++ (stochastic), with two calls, of k-diffusion."""
    if run.next == 0:
        return euler(run, x, denoised)
    if run.stage == 0:
        run.memory["x"] = x
        return _part_of_sde(run, x, denoised, middle_of_snr(run)[1])
    return _part_of_sde(run, run.memory["x"], denoised, run.next)


def _part_of_sde(run: Run, x: Tensor, denoised: Tensor, to: float) -> Tensor:
    """An ancestral step over the ratio of noise to signal, which is sigma itself for diffusion models."""
    alpha, here = run.alpha(to), run.sigma / run.alpha(run.sigma)
    down, up = ancestral(here, to / alpha, run.eta)
    kept = down / here
    x = alpha / run.alpha(run.sigma) * kept * x + alpha * (1 - kept) * denoised
    return x + run.noise(run.sigma, to) * (alpha * run.s_noise * up)


def seeds(run: Run, x: Tensor, denoised: Tensor, calls: Calls = middle_of_snr) -> Tensor:
    """SEEDS of two or three stages (Gonzalez et al. 2023, https://arxiv.org/abs/2305.14267)."""
    if run.next == 0:
        return denoised
    places = [*calls(run), run.next]
    if run.stage == 0:
        run.memory.update(x=x, denoised=denoised, noises=[run.noise(*pair) for pair in pairwise(places)])
    h = run.half_log_snr(run.next) - run.half_log_snr(run.sigma)
    count, stage, first = len(places) - 1, run.stage, run.memory["denoised"]
    share, to = (stage + 1) / count, places[stage + 1]
    alpha, grown = run.alpha(to), math.expm1(-share * h * (run.eta + 1))
    result = to / run.sigma * math.exp(-share * h * run.eta) * run.memory["x"] - alpha * grown * first
    if stage and count == 2:
        result = result - alpha * grown * (denoised - first)
    elif stage:
        inner = stage / count
        result = result + share / inner * alpha * (grown / (share * h * (run.eta + 1)) + 1) * (denoised - first)
    if run.eta:
        for place, one in enumerate(run.memory["noises"][: stage + 1]):
            later = math.exp(-(stage - place) / count * h * run.eta)
            result = result + one * (to * run.s_noise * later * math.sqrt(-math.expm1(-2 / count * h * run.eta)))
    return result


def remembered(run: Run, name: str, value: Tensor, most: int) -> list[Tensor]:
    """The last so many values under a name, the newest last."""
    kept: list[Tensor] = [*run.memory.get(name, []), value][-most:]
    run.memory[name] = kept
    return kept
