"""Options of a sampler that would do nothing or cannot be, told from the model's files alone."""

import math
from collections.abc import Mapping
from typing import Any, Final, TypeGuard, cast

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import (
    NOISE_OF_COMFYUI,
    NOISE_SEED_DELTA,
    NOISE_SOURCE,
    OPTION_PARAMETERS,
    check_range,
    option_flag,
)
from halftone.contract.request import BY_DIFFUSERS, KARRAS, OptionValue, split_sampler
from halftone.contract.wording import Words
from halftone.library.samplers import (
    FLOW_METHODS,
    FLOW_SAMPLERS,
    METHODS,
    OWN_OPTIONS,
    SIGMA_ENDS,
    SOLVED,
    SOLVER_OPTIONS,
    ZERO_SNR,
    are_flows,
    is_solved,
    sampler_called,
    solver_takes,
    takes_solver_option,
)

Options = Mapping[str, OptionValue]

_DRAWING: Final = frozenset((*SOLVER_OPTIONS["eta_ancestral"], "ER SDE", "Restart", "LCM", "DDPM", "TCD"))
"""Methods that add noise at their steps."""
BROWNIAN: Final = ("DPM++ SDE", "DPM++ 2M SDE", "DPM++ 2M SDE Heun", "DPM++ 3M SDE")
"""Those whose noise is a Brownian motion of the picture's seed."""
_ETA_OF_DDIM: Final = "eta"
_MOST_TIMES: Final = 100_000
"""A configuration with more steps of training is damaged: real ones have 1000, and millions would take seconds and gigabytes."""
_DDIM: Final = "DDIM"
_FINDS_STEPS: Final = "DPM adaptive"


def adds_noise(facts: ModelFacts, sampler: str | None, options: Options) -> bool:
    """Whether a sampler adds noise at its steps; True where that is not known. sampler: None for the model's own."""
    if sampler is None or not facts.samplers:
        return _own_may_draw(facts.own_sampler, options)
    called = sampler_called(sampler)
    if called is None:
        return _own_may_draw(sampler, options)
    method, _ = split_sampler(called)
    if takes_solver_option(called, "s_churn", facts.samplers) and options.get("s_churn"):
        return True
    if takes_solver_option(called, "eta_ancestral", facts.samplers):
        return options.get("eta_ancestral") != 0
    return method in _DRAWING or (method == _DDIM and not _is_own_ddim(called) and bool(options.get(_ETA_OF_DDIM)))


def takes_seed_delta(facts: ModelFacts, sampler: str | None, options: Options) -> bool:
    """Whether another seed for the noise of the steps changes something. SDE samplers take theirs from the picture's seed, as in
    A1111, and so does everything in ComfyUI.
    """
    method, _ = split_sampler(sampler_called(sampler or "") or "")
    of_picture = is_solved(sampler_called(sampler or ""), flow=are_flows(facts.samplers)) and method in BROWNIAN
    return adds_noise(facts, sampler, options) and not of_picture and options.get(NOISE_SOURCE) not in NOISE_OF_COMFYUI


def finds_steps(sampler: str | None) -> str | None:
    """Return the name of a sampler that chooses its steps while it runs, so that their number has no effect; None for others."""
    called = None if sampler is None else sampler_called(sampler)
    return called if called is not None and split_sampler(called)[0] == _FINDS_STEPS else None


def _is_own_ddim(called: str) -> bool:
    """Whether Halftone's own solver makes DDIM: with a schedule that diffusers lacks it has no eta."""
    method, way = split_sampler(called)
    return method == _DDIM and bool(way) and way not in BY_DIFFUSERS.values()


def _own_may_draw(scheduler: str, options: Options) -> bool:
    """The same for a class of diffusers, whose configuration is not known here."""
    methods = [*METHODS.items(), *FLOW_METHODS.items()]
    found = [method for method, one in methods if one.scheduler.removesuffix("Scheduler") == scheduler]
    return not found or not _DRAWING.isdisjoint(found) or (_DDIM in found and bool(options.get(_ETA_OF_DDIM)))


def noise_range(scheduler: Mapping[str, Any]) -> tuple[float, ...]:
    """The smallest and the largest sigma that a model was trained with, of its scheduler's configuration; () where that does not
    say, or has numbers that cannot be. Those of flow models lie between 0 and 1, wherever their shift puts them.
    """
    if str(scheduler.get("_class_name", "")).startswith("FlowMatch") or scheduler.get("use_flow_sigmas"):
        return 0.0, 1.0
    betas = _betas(scheduler)
    if betas is None:
        return ()
    kept = 1 - betas[0], math.prod(1 - beta for beta in betas)
    low, high = (math.sqrt((1 - one) / one) if one else math.inf for one in kept)
    return low, math.inf if scheduler.get("rescale_betas_zero_snr") else high


def _betas(scheduler: Mapping[str, Any]) -> list[float] | None:
    """The share of noise that each step of the training added; None where the configuration does not say."""
    first, last = scheduler.get("beta_start", 0.0001), scheduler.get("beta_end", 0.02)
    times, given = scheduler.get("num_train_timesteps", 1000), scheduler.get("trained_betas")
    if given is not None:
        known = cast("list[object]", given) if isinstance(given, list) and 1 <= len(given) <= _MOST_TIMES else []
        betas = [float(beta) for beta in known if _is_beta(beta)]
        return betas if betas and len(betas) == len(known) else None
    if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times <= _MOST_TIMES:
        return None
    if not (_is_beta(first) and _is_beta(last)):
        return None
    match scheduler.get("beta_schedule", "linear"):
        case "linear":
            return _evenly(first, last, times)
        case "scaled_linear":
            return [root**2 for root in _evenly(first**0.5, last**0.5, times)]
        case _:
            return None


def _evenly(first: float, last: float, count: int) -> list[float]:
    return [first + (last - first) * place / max(1, count - 1) for place in range(count)]


def _is_beta(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


def check_sampler_options(facts: ModelFacts, sampler: str | None, options: Options) -> None:
    """Raise setting-bad-value for an option that the sampler does not take or that would do nothing with it, as
    `check_sigma_ends`. A model whose samplers are not known may take anything.
    """
    if not facts.samplers:
        return
    own = sampler is None or sampler.lower() == facts.own_sampler.lower()
    called = None if sampler is None or own else sampler_called(sampler)
    if not own and called not in facts.samplers:
        return  # that is an error of its own
    shown = called or facts.own_sampler
    for name in OWN_OPTIONS:
        here = name in options and facts.pipeline.startswith(OPTION_PARAMETERS[name].pipelines)
        if here and not takes_solver_option(called, name, facts.samplers):
            raise takes_none(shown, name, flow=set(facts.samplers) <= set(FLOW_SAMPLERS))
    if called is not None and options.get(_ETA_OF_DDIM) and _is_own_ddim(called):
        value = Words("used with the sampler {0}, which takes none", (called,))
        raise HalftoneError("setting-bad-value", name=_ETA_OF_DDIM, value=value, allowed=Words("DDIM without a schedule"))
    check_sigma_ends(options, facts.sigmas)
    if options.get(NOISE_SEED_DELTA) and not adds_noise(facts, called, options):
        flag = option_flag(NOISE_SEED_DELTA)
        value = Words("used with the sampler {0}, which adds no noise", (shown,))
        allowed = Words("a sampler that does, such as {0}, or no {1}", ("Euler a Karras", flag))
        raise HalftoneError("setting-bad-value", name=flag, value=value, allowed=allowed)


def check_sigma_ends(options: Options, trained: tuple[float, ...]) -> None:
    """Raise setting-bad-value for a smallest sigma that is not below the largest, value-out-of-range for one that no flow model
    has. trained: the model's own ends, which count where none is asked for; () where they are not known.
    """
    low, high = (float(value) if isinstance(value := options.get(name), int | float) else 0.0 for name in SIGMA_ENDS)
    own_low, own_high = trained or (0.0, math.inf)
    if own_high == 1:  # a flow model begins at noise alone
        for name, value in zip(SIGMA_ENDS, (low, high), strict=True):
            check_range(OPTION_PARAMETERS[name].label, value, (0, 1))
    most, least = high or (math.inf if options.get(ZERO_SNR) else own_high), low or own_low
    if low and low >= most:
        raise _beyond(SIGMA_ENDS[0], low, Words("less than {0}", (f"{most:.4g}",)))
    if high and high <= least:
        raise _beyond(SIGMA_ENDS[1], high, Words("more than {0}", (f"{least:.4g}",)))


def _beyond(name: str, value: float, allowed: Words) -> HalftoneError:
    return HalftoneError("setting-bad-value", name=OPTION_PARAMETERS[name].label, value=f"{value:g}", allowed=allowed)


def takes_none(sampler: str, name: str, *, flow: bool) -> HalftoneError:
    """The error for an option that the sampler does not have, or only where Halftone's own solver makes it: with a schedule."""
    flag = option_flag(name)
    value = Words("used with the sampler {0}, which takes none", (sampler,))
    allowed = Words("another sampler, or no {0}", (flag,))
    if name in OWN_OPTIONS and sampler in SOLVED and solver_takes(sampler, KARRAS, name, flow=flow):
        allowed = Words("a sampler with a schedule, such as {0}, or no {1}", (f"{sampler} {KARRAS}", flag))
    return HalftoneError("setting-bad-value", name=flag, value=value, allowed=allowed)
