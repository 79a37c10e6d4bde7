"""A scheduler for diffusers' pipelines that steps with the solvers and sigma schedules of Halftone."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast

import torch
from diffusers import EulerDiscreteScheduler
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.schedulers.scheduling_utils import SchedulerMixin
from diffusers.utils import BaseOutput
from diffusers.utils.torch_utils import randn_tensor
from torch import Tensor

from halftone.contract.parameters import (
    NOISE_OF_COMFYUI,
    NOISE_OF_NVIDIA,
    OPTION_PARAMETERS,
    THRESHOLDING,
    option_value,
)
from halftone.contract.request import TIME_UNIFORM
from halftone.engine.sampling.dpm_solvers import ADAPTIVE_TRIES
from halftone.engine.sampling.sigma_schedules import (
    ALIGN_YOUR_STEPS,
    SCHEDULES,
    Array,
    Bounded,
    Diffusion,
    Flow,
    Schedule,
    align_your_steps,
    karras,
    normal,
    polyexponential,
    time_uniform,
    without_penultimate,
)
from halftone.engine.sampling.solver_table import SOLVERS
from halftone.engine.sampling.solvers import Noise, Run
from halftone.engine.sampling.step_noise import brownian, of_card, of_processor
from halftone.engine.sampling.thresholding import Thresholding, thresholded
from halftone.health.pictures.passes import Counting
from halftone.library.families.known_families import KOLORS, REFINER, SDXL
from halftone.library.sampler_options import check_sigma_ends
from halftone.library.samplers import SIGMA_ENDS

_LIKE_SDXL: Final = (SDXL.name, REFINER.name, KOLORS.name)
"""Families that take the steps that were found for SDXL: its own refiner, and one with its UNet."""
_BENT: Final = {"Karras": karras, "Polyexponential": polyexponential}
"""Those that a rho bends."""
_BEFORE_THE_END: Final = 1e-4
"""Flow models begin at noise alone, whose ratio of signal to noise has no logarithm: that much later then, as in ComfyUI."""
_ROUNDED: Final = 1e-6
"""By how much schedules miss noise alone where they round, as the tangent of an arc tangent does."""
_KEPT_BY_COMFYUI: Final = "DPM++ 3M SDE"
"""The sampler that A1111 alone leaves the sigma before the end out for."""
_ENDS_IN_COMFYUI: Final = "LMS"
"""The sampler whose last latents are the predicted picture there, and the end of its integral in A1111."""
_SAME: Final = 1e-5
"""How near to the largest sigma one is the same, in ComfyUI."""
_STOCHASTIC: Final = (0.2, 0.8)
"""Shares of the way from the picture to noise between which SA-Solver adds noise, as in ComfyUI."""
_PURE_NOISE: Final = 4.8973451890853435e-08
"""What remains of the picture at the last timestep of models that were trained down to noise alone, in A1111 and ComfyUI."""


class SolverOutput(BaseOutput):
    """prev_sample: the latents of the next call; pred_original_sample: the picture that the network saw in this one."""

    prev_sample: Tensor
    pred_original_sample: Tensor


class _Call(NamedTuple):
    """A call of the network: which step it belongs to, which of the step's calls it is, and at what sigma."""

    step: int
    stage: int
    sigma: float


def _trained_table(betas: tuple[Any, ...], zero_snr: bool) -> Array:
    """The sigmas of the training. betas: the first arguments of diffusers' schedulers."""
    native = cast("Any", EulerDiscreteScheduler(*betas, rescale_betas_zero_snr=zero_snr))
    kept = native.alphas_cumprod.double().numpy().copy()
    if zero_snr:
        kept[-1] = _PURE_NOISE
    return ((1 - kept) / kept) ** 0.5


class SolverScheduler(SchedulerMixin, ConfigMixin):
    """solver: a name of `SOLVERS`; schedule: one of `SCHEDULES`, or "" for Normal; family: of the model; eta_ancestral, s_noise:
    share and strength of the noise that the solver adds; sigma_min, sigma_max, rho: of the schedule, 0 for its own;
    discard_penultimate: leave out the sigma before the end; s_churn, s_tmin, s_tmax: noise before the steps of Euler, Heun and
    DPM2; threshold_options: of dynamic
    thresholding, by their names in a request; part: the steps that it makes, first and end, None for all; the rest as in
    diffusers' schedulers, whose configurations it takes.

    Each call of the network has a timestep of its own, as with diffusers' second-order schedulers.
    """

    order = 1
    NOT_KEPT_EARLIER: Final[Mapping[str, Any]] = {
        "noise_seed": None, "noise_source": 0, "_part": None, "_levels": [0.0], "_ours": (0, 0), "_noised": 0.0,
        "_motion": (0.0, 0.0),
    }  # fmt: skip
    """What a picture lacks that an earlier version stopped: all its noise came from the generator."""

    @register_to_config
    def __init__(
        self,
        num_train_timesteps: int = 1000,
        beta_start: float = 0.0001,
        beta_end: float = 0.02,
        beta_schedule: str = "linear",
        trained_betas: list[float] | None = None,
        prediction_type: str = "epsilon",
        rescale_betas_zero_snr: bool = False,
        shift: float = 1.0,
        flow_shift: float = 1.0,
        use_dynamic_shifting: bool = False,
        use_flow_sigmas: bool = False,
        solver: str = "Euler",
        schedule: str = "",
        family: str = "",
        eta_ancestral: float = 1.0,
        s_noise: float = 1.0,
        sigma_min: float = 0.0,
        sigma_max: float = 0.0,
        rho: float = 0.0,
        discard_penultimate: int = 0,
        s_churn: float = 0.0,
        s_tmin: float = 0.0,
        s_tmax: float = 0.0,
        threshold_options: Mapping[str, float] | None = None,  # noqa: ARG002 - read from the configuration
        part: Sequence[int] | None = None,
    ) -> None:
        self.noise_seed: int | None = None
        """Of the picture; without one, all noise of the steps comes from the generator."""
        self.noise_source = 0
        """A number of the option `NOISE_SOURCE`."""
        self.guidance = 1.0
        """The pipeline's guidance in this step, which dynamic thresholding needs."""
        self._prediction = prediction_type
        self._flow = use_flow_sigmas
        self._shift = shift if flow_shift == 1 else flow_shift
        self._dynamic = use_dynamic_shifting
        self._solver = solver
        self._schedule = schedule
        self._family = family
        self._eta = eta_ancestral
        self._s_noise = s_noise
        self._ends = sigma_min, sigma_max
        self._rho = rho
        self._churn = s_churn, s_tmin, s_tmax or math.inf
        self._part = part
        self._drops = bool(discard_penultimate)
        betas = (num_train_timesteps, beta_start, beta_end, beta_schedule, trained_betas)
        self.trained_table = None if use_flow_sigmas else _trained_table(betas, rescale_betas_zero_snr)
        self.order = len(SOLVERS[solver].calls(self._run(_FALLING, _no_noise)))
        self.levels: list[float] = []
        """What the solver goes through."""
        self._levels: list[float] = []
        """The schedule."""
        self._ours = 0, 0
        """Where the part that one of two models runs begins and ends in it."""
        self._noised = 0.0
        """The sigma of the noise that is added to a start picture, where that is not the first step's."""
        self._whole: list[float] = []
        """The part of it that one of two models runs, else all, with the steps that are left out."""
        self._mu: float | None = None
        self.calls: list[tuple[int, int, float]] = []
        self.memory: dict[str, Any] = {}
        self._motion = 0.0, 0.0
        """The ends of the Brownian motion that SDE samplers draw their noise from."""
        self._first = 0.0
        """The sigma at which the loop began."""
        self.given: Tensor | None = None
        """What the network gave in this step, which CFG++ needs: for both prompts, the negative one first."""
        self._step_index: int | None = None
        self._begin_index: int | None = None
        self.num_inference_steps: int | None = None
        self.set_timesteps(1)

    # --- the schedule -----------------------------------------------------------------------------------------

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: Any = None,
        sigmas: Any = None,
        mu: float | None = None,
    ) -> None:
        """sigmas: what a pipeline for flow models spaces evenly by itself; only their number counts. mu: its shift for the
        picture's size, as a logarithm.
        """
        steps = len(sigmas) if num_inference_steps is None else num_inference_steps
        kept = (self._as_comfyui and self._solver == _KEPT_BY_COMFYUI) or self._schedule == TIME_UNIFORM
        drops = self._drops or (SOLVERS[self._solver].drops_penultimate and not kept)
        levels = self._spacing()(self._bounded(self._trained(mu)), steps + drops)
        self._levels = [float(level) for level in (without_penultimate(levels) if drops else levels)]
        begin, end = self._part if self._part and self._part[1] <= steps else (0, len(levels))
        self._ours = begin, end + 1
        self._whole, self._mu, self._noised = self._levels[slice(*self._ours)], mu, 0.0
        self.num_inference_steps = steps
        self._lay(0, device)

    def begin_after(self, steps: int, asked: int) -> int:
        """Leave out so many steps of the schedule, for a picture that begins at another one: the solver's path is that of what is
        left, as in A1111 and ComfyUI, which give their solvers no more. The calls of the others keep their places. asked: of how
        many steps; some schedules have others, and ComfyUI counts from their end. Returns the place of the first call.
        """
        if self.counting == "timesteps" and steps:
            self._begin_over_timesteps(steps, asked)
        more = len(self._levels) - 1 - asked if self._as_comfyui else 0
        left_out = min(max(0, steps + more), len(self._whole) - 2)
        self._lay(left_out, self.timesteps.device)
        self._begin_index = left_out * self.order
        return self._begin_index

    def _begin_over_timesteps(self, left_out: int, asked: int) -> None:
        """A1111's samplers over timesteps add the noise of the timestep before the first of their steps. UniPC spreads its steps
        anew (`sample_img2img` in sd_samplers_timesteps.py, `unipc` in sd_samplers_timesteps_impl.py).
        """
        trained, left = self._trained(self._mu), asked - left_out
        stride = max(1, len(trained.table) // asked)
        self._noised = self._levels[left_out - 1]
        if self._schedule == TIME_UNIFORM:
            spread = time_uniform(trained, left, (left - 1) * stride + 1)
            self._levels[left_out:] = [float(level) for level in spread]
            self._noised = trained.sigma(min(left * stride + 1, len(trained.table) - 1))
        self._whole = self._levels[slice(*self._ours)]

    def _lay(self, left_out: int, device: Any) -> None:
        solver, trained = SOLVERS[self._solver], self._trained(self._mu)
        self.levels = solver.path(self._whole[left_out:])
        motion = self._whole[left_out:] if self._as_comfyui else self._levels
        self._motion = min(level for level in motion if level), max(motion)
        last = trained.times if isinstance(trained, Flow) else len(trained.table) - 1
        if self._flow and solver.over_snr and self.levels[0] > 1 - _ROUNDED:
            self.levels[0] = trained.sigma((1 - _BEFORE_THE_END) * last)
        self.stochastic = trained.sigma(_STOCHASTIC[0] * last), trained.sigma(_STOCHASTIC[1] * last)
        self.calls = [(0, 0, level) for level in self._whole[:left_out] for _ in range(self.order)]
        run = self._run(self.levels, _no_noise)
        for run.step in range(len(self.levels) - 1):
            self.calls += [(run.step, stage, sigma) for stage, sigma in enumerate(solver.calls(run))]
        scale = self.config["num_train_timesteps"] / trained.times if isinstance(trained, Flow) else 1.0
        times = [trained.time(sigma) * scale for _, _, sigma in self.calls]
        if solver.adaptive:
            self.calls += [(len(times), 0, 0.0)] * (3 * ADAPTIVE_TRIES)
            times += [times[-1] * place / (3 * ADAPTIVE_TRIES + 1) for place in range(3 * ADAPTIVE_TRIES, 0, -1)]
        self.timesteps = torch.tensor(times, dtype=torch.float32, device=device)
        self.sigmas = torch.tensor([*(sigma for _, _, sigma in self.calls), 0.0], dtype=torch.float32)
        self.memory = {}
        self._first = 0.0
        self._step_index = self._begin_index = None

    def _run(self, levels: Sequence[float], noise: Noise) -> Run:
        return Run(levels, noise, self._flow, self._eta, self._s_noise, churn=self._churn)

    def _trained(self, mu: float | None) -> Flow | Diffusion:
        if self.trained_table is not None:
            return Diffusion(self.trained_table)
        if mu is not None and self._dynamic:
            return Flow(math.exp(mu), 10000)
        return Flow(self._shift, self.config["num_train_timesteps"])

    def _bounded(self, trained: Flow | Diffusion) -> Flow | Diffusion | Bounded:
        """Raises setting-bad-value where the smallest sigma is not below the largest."""
        if self._ends == (0, 0):
            return trained
        own = float(trained.table[0]), float(trained.table[-1])
        check_sigma_ends(dict(zip(SIGMA_ENDS, self._ends, strict=True)), own)
        return Bounded(trained, self._ends[0] or own[0], self._ends[1] or own[1])

    def _spacing(self) -> Schedule:
        if self._rho and self._schedule in _BENT:
            return partial(_BENT[self._schedule], rho=self._rho)
        if self._schedule == "Align Your Steps":
            kind = "SDXL" if self._family in _LIKE_SDXL else self._family
            return align_your_steps(ALIGN_YOUR_STEPS.get(kind, ALIGN_YOUR_STEPS["SD 1.5"]))
        return SCHEDULES.get(self._schedule, normal)

    @property
    def counting(self) -> Counting:
        """How many steps it computes from a start picture."""
        return "timesteps" if SOLVERS[self._solver].begins_at_one or self._schedule == TIME_UNIFORM else "A1111"

    @property
    def _as_comfyui(self) -> bool:
        return self.noise_source in NOISE_OF_COMFYUI

    def _of_noise(self, sigma: float) -> float:
        """The scale of the noise at a sigma that a loop begins at. ComfyUI makes it a little stronger at the largest one."""
        largest = float(self._trained(self._mu).table[-1])
        alone = self._as_comfyui and not self._flow and (sigma > largest or math.isclose(sigma, largest, rel_tol=_SAME))
        return math.hypot(sigma, 1) if alone else sigma

    @property
    def init_noise_sigma(self) -> float:
        """What pipelines scale the noise with that they begin at: the largest sigma, as in A1111."""
        if self._flow:
            return 1.0
        return math.hypot(self.levels[0], 1) if self.counting == "timesteps" else self._of_noise(self.levels[0])

    # --- where the loop is ------------------------------------------------------------------------------------

    @property
    def step_index(self) -> int | None:
        return self._step_index

    @property
    def begin_index(self) -> int | None:
        return self._begin_index

    def set_begin_index(self, begin_index: int = 0) -> None:
        self._begin_index = begin_index

    def index_for_timestep(self, timestep: Any, schedule_timesteps: Any = None) -> int:
        times = self.timesteps if schedule_timesteps is None else schedule_timesteps
        found = (times == torch.as_tensor(timestep).to(times)).nonzero()
        return int(found[0])

    def _place(self, timestep: Any) -> int:
        if self._step_index is None:
            self._step_index = self.index_for_timestep(timestep) if self._begin_index is None else self._begin_index
        return self._step_index

    def _call(self, place: int) -> _Call:
        found = _Call(*self.calls[place])
        return found._replace(step=0, sigma=self.memory["sigma"]) if self.is_adaptive and "sigma" in self.memory else found

    # --- a solver that finds out how many calls it makes ------------------------------------------------------

    @property
    def is_adaptive(self) -> bool:
        return SOLVERS[self._solver].adaptive

    @property
    def is_over(self) -> bool:
        """Whether no more calls are needed; the timesteps are as many as there may be at most."""
        return self.is_adaptive and bool(self.memory.get("finished"))

    @property
    def own_time(self) -> float | None:
        """The timestep of the next call, None where it is the pipeline's."""
        if not self.is_adaptive or "sigma" not in self.memory or self.trained_table is None:
            return None
        return Diffusion(self.trained_table).time(self.memory["sigma"])

    def expected_calls(self, made: int) -> int:
        """How many it will be in all, told from how far it came in the logarithm of sigma."""
        low, now = min(level for level in self.levels if level), self.memory.get("sigma", self._first)
        if self.is_over or not 0 < now < self._first:
            return made if self.is_over else made + 3
        return max(made + 1, round(made * math.log(self._first / low) / math.log(self._first / now)))

    # --- a call -----------------------------------------------------------------------------------------------

    def scale_model_input(self, sample: Tensor, timestep: Any = None) -> Tensor:
        if self._flow:
            return sample
        sigma = self._call(self._place(timestep)).sigma
        return sample / math.sqrt(sigma**2 + 1)

    def step(
        self,
        model_output: Tensor,
        timestep: Any,
        sample: Tensor,
        generator: Any = None,
        return_dict: bool = True,
        **_: Any,
    ) -> SolverOutput | tuple[Tensor, Tensor]:
        place = self._place(timestep)
        call = self._call(place)
        latents = sample.to(torch.float32)
        denoised = self._denoised(model_output.to(torch.float32), latents, call.sigma)

        if (asked := self._thresholding()).scale:
            denoised = denoised + self._threshold(asked, model_output, latents, call.sigma)
        run = self._run(self.levels, partial(self._noise, sample, generator))
        run.stochastic, run.memory = self.stochastic, self.memory
        run.step, run.stage = call.step, call.stage
        self._first = self._first or call.sigma
        given, self.given = self.given, None
        if SOLVERS[self._solver].cfg_pp and given is not None and len(given) == 2 * len(model_output):
            negative = given[: len(model_output), : model_output.shape[1]].to(torch.float32)
            run.unguided = self._denoised(negative, latents, call.sigma)
        ends_with_picture = self._as_comfyui and self._solver == _ENDS_IN_COMFYUI and run.next == 0
        result = denoised if ends_with_picture else SOLVERS[self._solver].step(run, latents, denoised)
        at_end = place + 1 == len(self.calls) and self.levels[-1] == self._levels[-1]  # and not where a refiner goes on
        if self._schedule == TIME_UNIFORM and at_end:  # latents with their noise have variance 1 there
            result = result / math.hypot(self.levels[-1], 1)
        result = result.to(model_output.dtype)
        self._step_index = place + 1
        return SolverOutput(prev_sample=result, pred_original_sample=denoised) if return_dict else (result, denoised)

    def _noise(self, sample: Tensor, generator: Any, sigma: float, after: float) -> Tensor:
        """Noise for the latents between two sigmas."""
        seed, source = self.noise_seed, self.noise_source
        if seed is not None and SOLVERS[self._solver].brownian:
            draw = of_card if source in (NOISE_OF_NVIDIA, NOISE_OF_COMFYUI[1]) else of_processor
            made = brownian(seed, sample.shape, *self._motion, draw).noise(sigma, after)
        elif seed is not None and self._as_comfyui:  # on its card a generator begins with the picture's seed again
            draws = self.memory["draws"] = self.memory.get("draws", -1) + 1
            made = of_card(seed, sample.shape, draws)
        else:
            return randn_tensor(sample.shape, generator=generator, device=sample.device, dtype=torch.float32)
        return made.to(sample.device)

    def _thresholding(self) -> Thresholding:
        """What the configuration asks for. It is no attribute: those are kept where a picture stops, as plain numbers."""
        given = cast("Mapping[str, float]", cast("Any", self.config).threshold_options or {})
        scale, percentile, mode, least, cfg_mode, cfg_least, value, together, start, variability, phi = (
            option_value(given, name) for name, one in OPTION_PARAMETERS.items() if THRESHOLDING in one.settings
        )
        modes = (int(mode), least), (int(cfg_mode), cfg_least)
        return Thresholding(scale, percentile, *modes, value, not together, not start, not variability, phi)

    def _threshold(self, asked: Thresholding, output: Tensor, latents: Tensor, sigma: float) -> Tensor:
        """What thresholding changes; whatever was added to the guided output stays. Raises ValueError without guidance."""
        if self.given is None or len(self.given) != 2 * len(output) or self.trained_table is None:
            raise ValueError("dynamic thresholding without a negative prompt")
        parts = self.given[:, : output.shape[1]].to(torch.float32).chunk(2)
        plain = self._denoised(parts[0] + self.guidance * (parts[1] - parts[0]), latents, sigma)
        negative, own = (self._denoised(part, latents, sigma) for part in parts)
        return thresholded(asked, negative, own, self.guidance, Diffusion(self.trained_table).time(sigma)) - plain

    def _denoised(self, output: Tensor, latents: Tensor, sigma: float) -> Tensor:
        if self._flow or self._prediction == "epsilon":
            return latents - sigma * output
        if self._prediction == "v_prediction":
            return latents / (sigma**2 + 1) - output * (sigma / math.sqrt(sigma**2 + 1))
        return output

    # --- beginning at a picture -------------------------------------------------------------------------------

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        sigmas = [self._sigma_at(one) for one in timesteps]
        if self._step_index is None:
            sigmas = [self._noised or self._of_noise(sigma) for sigma in sigmas]
        level = torch.tensor(sigmas, dtype=original_samples.dtype).to(original_samples.device)
        level = level.reshape(-1, *[1] * (original_samples.dim() - 1))
        if self._flow:
            return (1 - level) * original_samples + level * noise
        begun = original_samples + level * noise
        if self._step_index is None and self._noised:  # as if it had the noise of the first step
            return begun * (math.hypot(self.levels[0], 1) / math.hypot(self._noised, 1))
        return begun

    def scale_noise(self, sample: Tensor, timestep: Tensor, noise: Tensor) -> Tensor:
        return self.add_noise(sample, noise, timestep)

    def _sigma_at(self, timestep: Any) -> float:
        if self._step_index is not None:
            place = self._step_index
        else:
            place = self.index_for_timestep(timestep) if self._begin_index is None else self._begin_index
        if place >= len(self.calls):
            return 0.0
        call = self._call(place)
        before_churn = self._step_index is None and call.stage == 0 and not self.is_adaptive
        return self.levels[call.step] if before_churn else call.sigma

    @property
    def first_churn(self) -> float:
        """The noise that the first step of the loop adds before it begins, as a share of its sigma."""
        step = self.calls[self._begin_index or 0][0]
        ratio = self._run(self.levels, _no_noise).churned(step) / self.levels[step]
        return self._s_noise * math.sqrt(ratio**2 - 1)

    def __len__(self) -> int:
        return int(self.config["num_train_timesteps"])


_FALLING: Final = (0.9, 0.7, 0.5, 0.2, 0.0)


def _no_noise(_sigma: float, _after: float) -> Tensor:
    raise AssertionError("noise outside of a step")
