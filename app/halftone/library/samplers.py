"""Samplers by the names that users know, and their schedulers in diffusers; no torch.

A sampler is a method, "DPM++ 2M", and may be followed by a schedule of the noise levels, "DPM++ 2M Karras". Names are A1111's;
those of ComfyUI are understood. The classes follow diffusers' documentation ("Schedulers", tables of A1111 names), but for "DPM++
SDE": theirs draws no noise, this one does. With a schedule, a method is Halftone's own (`SolverScheduler`) and gives the same as
A1111 and ComfyUI; without one, it follows the model's own spacing of timesteps in diffusers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import OPTION_PARAMETERS, THRESHOLD
from halftone.contract.request import BY_COMFYUI, BY_DIFFUSERS, KARRAS, SCHEDULES, TIME_UNIFORM, split_sampler
from halftone.contract.wording import Words, either

Options = dict[str, Any]


class Method(NamedTuple):
    """A scheduler class of diffusers, its configuration where that is not the model's, and the schedules that may follow."""

    scheduler: str
    options: Options
    schedules: tuple[str, ...] = ()


_LEVELS: Final = ("use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas")
"""At most one of these may be set; the model's own configuration may have one."""
_SCHEDULES: Final[dict[str, Options]] = {
    KARRAS: {"use_karras_sigmas": True},
    "Exponential": {"use_exponential_sigmas": True},
    "Beta": {"use_beta_sigmas": True},
    "SGM Uniform": {"timestep_spacing": "trailing"},
}
_ALL: Final = tuple(_SCHEDULES)
OWN: Final = "SolverScheduler"
"""The scheduler of Halftone, which steps with its own solvers."""
_FLOW_WAYS: Final = (
    KARRAS, "Exponential", "Beta", "SGM Uniform", "Simple", "Normal", "DDIM Uniform", "KL Optimal",
    "Linear Quadratic", *BY_COMFYUI.values(),
)  # fmt: skip
SOLVED: Final = (
    "Euler", "Euler a", "LMS", "Heun", "Heun++ 2", "DPM2", "DPM2 a", "DPM++ 2S a", "DPM++ 2M", "DPM++ SDE", "DPM++ 2M SDE",
    "DPM++ 2M SDE Heun", "DPM++ 3M SDE", "DDPM", "LCM", "IPNDM", "RES multistep", "RES multistep a", "Gradient estimation",
    "ER SDE", "SEEDS 2", "SEEDS 3", "IPNDM_V", "DEIS", "UniPC", "UniPC BH2", "SA-Solver", "SA-Solver PECE", "Restart",
    "Euler CFG++", "Euler a CFG++", "DPM++ 2S a CFG++", "DPM++ 2M CFG++", "RES multistep CFG++", "RES multistep a CFG++",
    "Gradient estimation CFG++", "DPM fast", "DPM adaptive", "DDIM", "DDIM CFG++", "Exp Heun 2 x0", "Exp Heun 2 x0 SDE",
)  # fmt: skip
"""Methods that Halftone solves itself, with any schedule."""
_NOT_FOR_FLOW: Final = (
    "LMS", "Heun++ 2", "DPM2", "DPM++ 2M SDE Heun", "DDPM", "RES multistep a", "UniPC", "UniPC BH2", "Restart",
    "DPM fast", "DPM adaptive", "DDIM",
)  # fmt: skip
FLOW_SOLVED: Final = tuple(name for name in SOLVED if name not in _NOT_FOR_FLOW and not name.endswith("CFG++"))
"""Those of them that flow models can use, with the numbers of ComfyUI."""
_NOISE_AT_EACH_STEP: Final = (
    "Euler a", "DPM2 a", "DPM++ 2S a", "DPM++ SDE", "DPM++ 2M SDE", "DPM++ 2M SDE Heun", "DPM++ 3M SDE", "RES multistep a",
    "SEEDS 2", "SEEDS 3", "SA-Solver", "SA-Solver PECE", "Euler a CFG++", "DPM++ 2S a CFG++", "RES multistep a CFG++",
    "DPM fast", "DPM adaptive", "Exp Heun 2 x0 SDE",
)  # fmt: skip
_CHURNING: Final = ("Euler", "Heun", "DPM2")
CHURN: Final = ("s_churn", "s_tmin", "s_tmax")
"""Not for flow models, whose noise alone is the largest there is."""
SOLVER_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "eta_ancestral": _NOISE_AT_EACH_STEP,
    "s_noise": (*_NOISE_AT_EACH_STEP, "ER SDE", "Restart", *_CHURNING),
    **dict.fromkeys(CHURN, _CHURNING),
}
"""Options of a request that only some of Halftone's own solvers take -> those methods."""
ZERO_SNR: Final = "zero_snr"
SIGMA_ENDS: Final = ("sigma_min", "sigma_max")
_BETWEEN_ENDS: Final = (
    KARRAS, "Exponential", "Polyexponential", "SGM Uniform", "KL Optimal", "Normal", "Beta", BY_COMFYUI["KL Optimal"],
)  # fmt: skip
SCHEDULE_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(SIGMA_ENDS, _BETWEEN_ENDS),
    "rho": (KARRAS, "Polyexponential"),
    "discard_penultimate": SCHEDULES,
    ZERO_SNR: SCHEDULES,
    **{name: SCHEDULES for name, one in OPTION_PARAMETERS.items() if THRESHOLD in (name, one.of)},
}
"""Those that all of them take -> with these schedules."""
_FLOW_BETWEEN_ENDS: Final = (KARRAS, "Exponential", "KL Optimal", BY_COMFYUI["KL Optimal"])
"""The others go by the timesteps of the training, which the shift moves."""
_NOT_OF_FLOW: Final = (*CHURN, ZERO_SNR, *(name for name, one in OPTION_PARAMETERS.items() if THRESHOLD in (name, one.of)))
OWN_OPTIONS: Final = (*SOLVER_OPTIONS, *SCHEDULE_OPTIONS)
_DPM: Final[Options] = {"solver_type": "midpoint", "solver_order": 2}
METHODS: Final[dict[str, Method]] = {
    "Euler": Method("EulerDiscreteScheduler", {}, _ALL),
    "Euler a": Method("EulerAncestralDiscreteScheduler", {}, ("SGM Uniform",)),
    "Heun": Method("HeunDiscreteScheduler", {}, _ALL),
    "LMS": Method("LMSDiscreteScheduler", {}, _ALL),
    "DPM2": Method("KDPM2DiscreteScheduler", {}, _ALL),
    "DPM2 a": Method("KDPM2AncestralDiscreteScheduler", {}, _ALL),
    "DPM++ 2M": Method("DPMSolverMultistepScheduler", {**_DPM, "algorithm_type": "dpmsolver++"}, _ALL),
    "DPM++ 2M SDE": Method("DPMSolverMultistepScheduler", {**_DPM, "algorithm_type": "sde-dpmsolver++"}, _ALL),
    "DPM++ 3M SDE": Method("DPMSolverMultistepScheduler", {**_DPM, "solver_order": 3, "algorithm_type": "sde-dpmsolver++"}, _ALL),
    "DPM++ SDE": Method(
        "DPMSolverSinglestepScheduler",
        {**_DPM, "algorithm_type": "sde-dpmsolver++", "lower_order_final": True},
        (KARRAS, "Exponential", "Beta"),
    ),
    "UniPC": Method("UniPCMultistepScheduler", {"solver_type": "bh2"}, _ALL),
    "DEIS": Method("DEISMultistepScheduler", {"solver_type": "logrho", "algorithm_type": "deis"}, _ALL),
    "DDIM": Method("DDIMScheduler", {}, ("SGM Uniform",)),
    "DDPM": Method("DDPMScheduler", {}, ("SGM Uniform",)),
    "PNDM": Method("PNDMScheduler", {"skip_prk_steps": True}),
    "LCM": Method("LCMScheduler", {}),
    "TCD": Method("TCDScheduler", {}),
}
_FLOWS: Final[Options] = {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}
FLOW_METHODS: Final[dict[str, Method]] = {
    "Euler": Method("FlowMatchEulerDiscreteScheduler", {}),
    "Heun": Method("FlowMatchHeunDiscreteScheduler", {}),
    "DPM++ 2M": Method("DPMSolverMultistepScheduler", {**_DPM, **_FLOWS, "algorithm_type": "dpmsolver++"}),
    "DPM++ 2M SDE": Method("DPMSolverMultistepScheduler", {**_DPM, **_FLOWS, "algorithm_type": "sde-dpmsolver++"}),
    "UniPC": Method("UniPCMultistepScheduler", {**_FLOWS, "solver_type": "bh2"}),
    "DEIS": Method("DEISMultistepScheduler", {**_FLOWS, "solver_type": "logrho", "algorithm_type": "deis"}),
    "LCM": Method("FlowMatchLCMScheduler", {}),
}
"""Of flow-matching models."""


def _named(methods: Mapping[str, Method], solved: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """Every method with each schedule that it can follow: without one first, then Halftone's own, then those of diffusers."""
    return tuple(
        f"{name} {way}".strip()
        for name in dict.fromkeys((*methods, *solved))
        for way in ("", *(own if name in solved else ()), *(_ways(name, methods[name]) if name in methods else ()))
    )


def _ways(name: str, method: Method) -> tuple[str, ...]:
    """The schedules of diffusers that a method can follow, by their names here."""
    return tuple(BY_DIFFUSERS[way] for way in method.schedules) if name in SOLVED else method.schedules


SAMPLERS: Final = _named(METHODS, SOLVED, SCHEDULES)
FLOW_SAMPLERS: Final = _named(FLOW_METHODS, FLOW_SOLVED, _FLOW_WAYS)
_OF_DIFFUSERS: Final = _named(METHODS, (), ())
_SOLVED_FLOWS: Final = tuple(name for name in FLOW_SAMPLERS if name not in FLOW_METHODS)
"""What the solvers of Halftone do for flow models: they take the shift and the number of steps from any pipeline."""
_ALIKE: Final = (
    "DDIM", "DDPM", "PNDM", "LMSDiscrete", "EulerDiscrete", "HeunDiscrete", "EulerAncestralDiscrete", "DPMSolverMultistep",
    "DPMSolverSinglestep", "KDPM2Discrete", "KDPM2AncestralDiscrete", "DEISMultistep", "UniPCMultistep", "DPMSolverSDE", "LCM",
    "TCD", "SASolver", "DDIMParallel", "DDPMParallel",
)  # fmt: skip
"""Schedulers that can replace each other (`KarrasDiffusionSchedulers` of diffusers and compatible ones)."""
_ZERO_SNR: Final = ("Euler", "Euler a", "DPM++ 2M", "DPM++ 2M SDE", "DPM++ 3M SDE", "UniPC", "DDIM", "DDPM", "LCM", "TCD")
"""Samplers whose classes support models that begin at pure noise (rescale_betas_zero_snr); others ignore that silently."""
_DRAWING: Final = (
    "Euler", "Euler a", "DPM2 a", "DPM++ 2M", "DPM++ 2M SDE", "DPM++ 3M SDE", "DPM++ SDE", "DDIM", "DDPM", "LCM", "TCD",
)  # fmt: skip
"""Samplers whose classes take the generator for noise, which the pipelines of Kandinsky pass to all."""
_GIVEN_NOISE: Final = ("Euler", "UniPC", "LCM")
"""Flow samplers that take the noise levels and the shift of the pipeline, as most pipelines compute them."""
_FLOW: Final[dict[str, tuple[str, ...]]] = {
    "StableDiffusion3": FLOW_SAMPLERS,
    "Sana": FLOW_SAMPLERS,
    "AuraFlow": FLOW_SAMPLERS,
    "CogView4": ("Euler", "LCM"),  # it gives its sampler timesteps beside the noise levels
    "ZImage": ("Euler", "LCM"),  # it gives them as a list, with which UniPC cannot compute
    "Flux": tuple(name for name in FLOW_SAMPLERS if name != "Heun"),
}
"""By the prefix of the pipeline's name; other flow pipelines take `_GIVEN_NOISE`."""
_ENDING: Final = "Scheduler"
_NAMES: Final[dict[str, str]] = {
    "eulerancestral": "eulera",
    "dpm2ancestral": "dpm2a",
    "plms": "pndm",
    "dpmad": "dpmadaptive",
    "dpmpp2sancestral": "dpmpp2sa",
    "resmultistepancestral": "resmultistepa",
    "eulerancestralcfgpp": "euleracfgpp",
    "dpmpp2sancestralcfgpp": "dpmpp2sacfgpp",
    "resmultistepancestralcfgpp": "resmultistepacfgpp",
}
"""Other names of methods, in letters and digits alone."""
_WAYS: Final[dict[str, str]] = {"uniform": "Normal", "ddim": "DDIM Uniform", "ka": KARRAS, "exp": "Exponential"}
"""Other names of A1111 and ComfyUI for schedules."""
_AUTOMATIC: Final[dict[str, str]] = {
    **dict.fromkeys(("DPM2", "DPM2 a", "DPM++ 2S a", "DPM++ 2M", "DPM++ SDE", "Restart"), KARRAS),
    **dict.fromkeys(("DPM++ 2M SDE", "DPM++ 2M SDE Heun", "DPM++ 3M SDE"), "Exponential"),
    "DDIM": "",
    "DDIM CFG++": "DDIM Uniform",
    "UniPC": TIME_UNIFORM,
}
"""What A1111 and Forge compute where the schedule is "Automatic"; Normal with every other method."""
_NEAREST: Final[dict[str, str]] = {"simple": "SGM Uniform", "normal": "", "uniform": "", "ddimuniform": "", "automatic": ""}
"""The same for methods that only diffusers has: the nearest schedule, or the model's default."""
_EARLIER: Final[dict[str, str]] = {"Restart": KARRAS, "DDIM": "", "DDIM CFG++": "DDIM Uniform"}
"""What other programs compute where they do not name a schedule; Normal with every other method."""


# --- names -------------------------------------------------------------------------------------------------


def _letters(name: str) -> str:
    name = name.lower().removeprefix("k_")  # as A1111 marks those of k-diffusion in its aliases
    return re.sub(r"[^a-z0-9]", "", name.replace("++", "pp").replace("_gpu", "")).removesuffix("gpu")


def _spellings() -> Iterator[tuple[str, str]]:
    """Every way to write a sampler -> its name."""
    short = {_letters(name): name for name in (*METHODS, *SOLVED)}
    short |= {other: short[own] for other, own in _NAMES.items()}
    for letters, method in short.items():
        others = _WAYS | {"automatic": _AUTOMATIC.get(method, "Normal")} if method in SOLVED else _NEAREST
        ours = (*SCHEDULES, *BY_DIFFUSERS.values())
        able = ("", *(ours if method in SOLVED else METHODS[method].schedules))
        for ending, way in ({_letters(way): way for way in able} | others).items():
            if way in able:
                yield letters + ending, f"{method} {way}".strip()


_SPELLINGS: Final = dict(_spellings())


def with_schedule(name: str) -> str:
    """A sampler that another program named without a schedule."""
    method, way = split_sampler(name)
    return f"{method} {_EARLIER.get(method, 'Normal')}".strip() if method in SOLVED and not way else name


def with_automatic_schedule(name: str, offered: Sequence[str]) -> str:
    """A sampler that A1111 is asked for without a schedule, with the one that it then takes, where the model offers that."""
    found = sampler_called(f"{name} automatic")
    return found if found is not None and found in offered else sampler_called(name) or name


def begins_without_noise(name: str) -> bool:
    """Whether a sampler that adds noise here adds none by default in the program that writes its name so: so do two
    of ComfyUI.
    """
    return name.startswith(("dpm_fast", "dpm_adaptive"))


def by_comfyui(name: str) -> str:
    """A sampler of ComfyUI, which computes some schedules in its own way and knows no automatic one."""
    method, way = split_sampler(with_schedule(name))
    return f"{method} {BY_COMFYUI.get(way, way)}".strip()


def by_diffusers(name: str) -> str:
    """A sampler of an early picture of Halftone, which left some schedules to diffusers."""
    method, way = split_sampler(name)
    return f"{method} {BY_DIFFUSERS[way]}" if way in BY_DIFFUSERS and f"{method} {BY_DIFFUSERS[way]}" in SAMPLERS else name


def offered(names: Sequence[str]) -> tuple[str, ...]:
    """Those of a model's samplers to choose among: without a schedule of diffusers where there is Halftone's own."""
    old = {f"{method} {BY_DIFFUSERS[way]}" for method, way in map(split_sampler, names) if way in BY_DIFFUSERS}
    return tuple(name for name in names if name not in old)


def sampler_called(name: str) -> str | None:
    """The sampler that A1111 or ComfyUI call so: "dpmpp_2m_karras" -> "DPM++ 2M Karras"; None for what there is not here."""
    return _SPELLINGS.get(_letters(name))


# --- what fits -----------------------------------------------------------------------------------------------


def samplers_of(pipeline: str, scheduler: Mapping[str, object]) -> tuple[str, ...]:
    """Names of the samplers that a pipeline class takes, its own first where users have no name for it; () where the class is
    unknown. scheduler: the configuration of its own.
    """
    own = str(scheduler.get("_class_name", "")).removesuffix(_ENDING)
    if own.startswith("FlowMatch") or scheduler.get("use_flow_sigmas"):
        if pipeline.startswith("Flux") and not scheduler.get("use_dynamic_shifting"):
            # FLUX gives every sampler a shift; those of diffusers only take one with a dynamic shift, not schnell's
            return (*_GIVEN_NOISE, *_SOLVED_FLOWS)
        return next((names for start, names in _FLOW.items() if pipeline.startswith(start)), _GIVEN_NOISE)
    if pipeline.startswith("LatentConsistency"):
        return ("LCM",)
    if not own:
        return ()
    if own not in _ALIKE:
        return (own,)
    if pipeline.startswith("Kandinsky"):
        return tuple(name for name in _OF_DIFFUSERS if split_sampler(name)[0] in _DRAWING and _suits(name, scheduler))
    known = SAMPLERS if scheduler.get("timestep_type") != "continuous" else _OF_DIFFUSERS
    return tuple(name for name in known if _suits(name, scheduler))


def _suits(name: str, scheduler: Mapping[str, object]) -> bool:
    """Whether a sampler can do what the model's own configuration asks for."""
    method = split_sampler(name)[0]
    if scheduler.get("timestep_type") == "continuous":
        return method == "Euler"  # the others would count the steps from 0 to 999
    if scheduler.get("rescale_betas_zero_snr") and method not in _ZERO_SNR and name in _OF_DIFFUSERS:
        return False
    return method != "PNDM" or scheduler.get("prediction_type") != "sample"


def takes_solver_option(sampler: str | None, name: str, names: Sequence[str]) -> bool:
    """Whether a sampler takes one of `OWN_OPTIONS`. sampler: None for the model's own; names: of all samplers of the model, ()
    where they are not known.
    """
    method, way = split_sampler(sampler or "")
    flow = are_flows(tuple(names))
    return is_solved(sampler, flow=flow) and solver_takes(method, way, name, flow=flow)


def is_solved(sampler: str | None, *, flow: bool = False) -> bool:
    """Whether a sampler steps with Halftone's own solvers, and not in diffusers. sampler: None for the model's own."""
    method, way = split_sampler(sampler or "")
    own = way not in BY_DIFFUSERS.values() if way else method not in (FLOW_METHODS if flow else METHODS)
    return own and method in SOLVED


@lru_cache(maxsize=64)
def are_flows(names: tuple[str, ...]) -> bool:
    """Whether a model has samplers, of flow models alone: hundreds of names, asked of each option at each edit."""
    return bool(names) and set(names) <= set(FLOW_SAMPLERS)


def solver_takes(method: str, way: str, name: str, *, flow: bool = False) -> bool:
    """Whether Halftone's own solver takes one of `OWN_OPTIONS` with a schedule. flow: for a flow model."""
    if flow and (name in _NOT_OF_FLOW or (name in SIGMA_ENDS and way not in _FLOW_BETWEEN_ENDS)):
        return False
    if name in SCHEDULE_OPTIONS:
        return method in SOLVED and (way or "Normal") in SCHEDULE_OPTIONS[name]
    return method in SOLVER_OPTIONS[name]


def check_sampler(facts: ModelFacts, wanted: str, *, image: bool = False) -> None:
    """Raise setting-bad-value for a sampler that does not fit a model whose samplers are known. image: whether there is a start
    picture; the pipelines of FLUX then take fewer.
    """
    names = facts.samplers
    if image and facts.family == "FLUX":
        names = tuple(name for name in names if name in (*_GIVEN_NOISE, *_SOLVED_FLOWS))
    if not names or wanted.lower() in {name.lower() for name in (*names, facts.own_sampler)} or sampler_called(wanted) in names:
        return
    raise unfit(wanted, names)


def unfit(wanted: str, names: tuple[str, ...]) -> HalftoneError:
    """The error for an unknown sampler: why it is missing, or what else there is."""
    letters, names = _letters(wanted), offered(names)
    ways = {way for name in names if (way := split_sampler(name)[1])}
    near = get_close_matches(letters, [_letters(name) for name in names], n=3)
    close = [name for name in names if _letters(name) in near]
    methods = list(dict.fromkeys(split_sampler(name)[0] for name in names))
    behind = [way for way in (*SCHEDULES, *BY_DIFFUSERS.values()) if way in ways]
    allowed = either(*(close or methods))
    if behind and not close:
        allowed = Words("{0}, most with {1} appended", (allowed, either(*behind)))
    return HalftoneError("setting-bad-value", name=Words("Sampler"), value=wanted or Words("empty"), allowed=allowed)


# --- what they stand for -------------------------------------------------------------------------------------


def scheduler_of(name: str, *, flow: bool) -> tuple[str, Options]:
    """The class of diffusers, and its configuration where that differs from the model's. Raises KeyError for an unknown one."""
    method, way = split_sampler(name)
    found = (FLOW_METHODS if flow else METHODS).get(method)
    if found is not None and way in ("", *_ways(method, found)):
        levels = dict.fromkeys(_LEVELS, False) if KARRAS in found.schedules else {}
        return found.scheduler, {**found.options, **levels, **_SCHEDULES.get(way.removesuffix(" (diffusers)"), {})}
    if method not in (FLOW_SOLVED if flow else SOLVED):
        raise KeyError(name)
    return OWN, {"solver": method, **({"schedule": way} if way else {}), **({"use_flow_sigmas": True} if flow else {})}
