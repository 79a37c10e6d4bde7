"""Turns samplers, as users know them, into schedulers of diffusers, and back."""

import inspect
import traceback
import weakref
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

import diffusers
from diffusers.guiders import BaseGuidance

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import SAMPLER_OPTIONS, THRESHOLDING
from halftone.contract.request import OptionValue, split_sampler
from halftone.contract.wording import Words
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.health.pictures.passes import Counting, steps_from_picture
from halftone.library.options import SCHEDULE
from halftone.library.sampler_options import takes_none
from halftone.library.samplers import (
    FLOW_SAMPLERS,
    OWN,
    OWN_OPTIONS,
    SAMPLERS,
    sampler_called,
    scheduler_of,
    solver_takes,
    unfit,
)

_COUNTING_CALLS: Final = ("KandinskyImg2ImgPipeline", "KandinskyV22Img2ImgPipeline", "Kandinsky3Img2ImgPipeline")
_ONLY_DYNAMIC: Final = ("DPMSolverMultistepScheduler", "DEISMultistepScheduler")
"""Unless their own shift is dynamic, they refuse the one that a pipeline works out for each size, which others then ignore."""
NO_OPTIONS: Final[Mapping[str, OptionValue]] = MappingProxyType({})
_WITH_THE_END: Final = ("DDPMWuerstchenScheduler",)


def is_flow(scheduler: Any) -> bool:
    config = cast("dict[str, Any]", dict(scheduler.config))
    return type(scheduler).__name__.startswith("FlowMatch") or bool(config.get("use_flow_sigmas"))


def sampler_name(scheduler: Any) -> str:
    """The user's name of a scheduler, or its class name where users have none. The schedule that says more wins."""
    kind, flow = type(scheduler).__name__, is_flow(scheduler)
    config = cast("dict[str, Any]", dict(scheduler.config))
    for name, options in _named(kind, flow=flow):
        if all((config.get(key) or False) == value for key, value in options.items()):
            return name
    return kind.removesuffix("Scheduler")


@cache
def _named(kind: str, *, flow: bool) -> tuple[tuple[str, Mapping[str, OptionValue]], ...]:
    """(name, configuration) of all samplers that are this class of diffusers, those that name a schedule first."""
    names = sorted(FLOW_SAMPLERS if flow else SAMPLERS, key=lambda name: not split_sampler(name)[1])
    found = ((name, *scheduler_of(name, flow=flow)) for name in names)
    return tuple((name, options) for name, own, options in found if own == kind)


def make_scheduler(
    native: Any,
    wanted: str | None,
    options: Mapping[str, OptionValue] = NO_OPTIONS,
    family: str = "",
    part: tuple[int, int] | None = None,
) -> Any:
    """A fresh scheduler: the model's own for None, else the wanted one with the model's noise schedule. options: of a request;
    the sampler's go into its configuration. family: of the model; some schedules were measured for each. part: of the steps that
    the samplers of Halftone make, first and end. Raises setting-bad-value.
    """
    scheduler = _with_settings(_made(native, wanted, family, part), options)
    if is_flow(scheduler) and not hasattr(scheduler, "scale_noise") and hasattr(scheduler, "add_noise"):
        # what flow pipelines call to begin at a picture; these schedulers have the same under the name of the others
        scheduler.scale_noise = _Method(scheduler, lambda own, sample, timestep, noise: own.add_noise(sample, noise, timestep))
    if hasattr(scheduler, "index_for_timestep"):
        scheduler.index_for_timestep = _Method(scheduler, _index_of)
    return scheduler


def _with_settings(scheduler: Any, options: Mapping[str, OptionValue]) -> Any:
    config = cast("dict[str, Any]", dict(scheduler.config))
    own = inspect.signature(type(scheduler)).parameters  # a configuration may hold more, of another sampler
    solver = (config["solver"], config["schedule"]) if isinstance(scheduler, SolverScheduler) else ("", "")
    flow = is_flow(scheduler)
    shifts = flow and not (config.get("use_dynamic_shifting") and type(scheduler).__name__ in _ONLY_DYNAMIC)
    changes: dict[str, Any] = {}
    for name in SAMPLER_OPTIONS.keys() & options.keys():
        one = SAMPLER_OPTIONS[name]
        fits = solver_takes(*solver, name, flow=flow) if name in OWN_OPTIONS else shifts
        setting = next((setting for setting in one.settings if setting in own and fits), None)
        if setting is None:
            raise takes_none(sampler_name(scheduler), name, flow=flow)
        changes |= {setting: options[name], **{key: value for key, value in one.together if key in own}}
    if THRESHOLDING in changes:
        changes[THRESHOLDING] = {name: options[name] for name in options if THRESHOLDING in _settings_of(name)}
    return type(scheduler).from_config(scheduler.config, **changes) if changes else scheduler


def _settings_of(name: str) -> tuple[str, ...]:
    return SAMPLER_OPTIONS[name].settings if name in SAMPLER_OPTIONS else ()


def without_solver_options(options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Options of a request for a loop with the model's own sampler."""
    return {name: value for name, value in options.items() if name not in OWN_OPTIONS}


class _Method:
    """An extra method of one scheduler; that of a copy belongs to the copy, which some pipelines make for a loop of its own. It
    does not keep its scheduler in memory.
    """

    def __init__(self, scheduler: Any, function: Callable[..., Any]) -> None:
        self._scheduler = weakref.ref(scheduler)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self._scheduler(), *args, **kwargs)

    def __deepcopy__(self, copies: dict[int, Any]) -> "_Method":
        scheduler = self._scheduler()
        return _Method(copies.get(id(scheduler), scheduler), self._function)


def _index_of(scheduler: Any, timestep: Any, *schedule: Any, **named: Any) -> int:
    """The step of a timestep. The schedule's first belongs to the first step, also where rounding makes the second equal:
    diffusers takes the second of equal ones, and then lacks a noise level for the last step.
    """
    times = next((given for given in (*schedule, *named.values()) if given is not None), scheduler.timesteps)
    return 0 if bool(times[0] == timestep) else type(scheduler).index_for_timestep(scheduler, timestep, *schedule, **named)


def _made(native: Any, wanted: str | None, family: str, part: tuple[int, int] | None) -> Any:
    if wanted is None or wanted.lower() in (
        sampler_name(native).lower(),
        type(native).__name__.removesuffix("Scheduler").lower(),
    ):
        return type(native).from_config(native.config)
    flow = is_flow(native)
    names = FLOW_SAMPLERS if flow else SAMPLERS
    called = sampler_called(wanted)
    if called not in names:
        raise unfit(wanted, names)
    kind, options = scheduler_of(called, flow=flow)
    if kind == OWN:
        return SolverScheduler.from_config(native.config, **options, family=family, part=part)
    return getattr(diffusers, kind).from_config(native.config, **options)


def unfit_sampler(native: Any, wanted: str, error: Exception) -> HalftoneError:
    """The sampler that a pipeline turned out not to take."""
    own = sampler_name(native)
    return HalftoneError(
        "setting-bad-value", str(error), name=Words("Sampler"), value=wanted, allowed=Words("the model's own, {0}", (own,))
    )


def named_own(told: Exception, error: Exception, model: ModelFacts, pipe: Any, scheduler: Any) -> Exception:
    """Name the model's own sampler where its pipeline does not accept it; else return `told`.

    told: the error itself, or the library's words that the pipeline refused something.
    """
    unexplained = told is error or (isinstance(told, HalftoneError) and told.code == "pipeline-refused")
    if not unexplained or scheduler is None or not is_unfit(scheduler, error):
        return told
    facts = {"path": model.path, "sampler": sampler_name(pipe.scheduler), "pipeline": type(pipe).__name__}
    return HalftoneError("model-sampler-unfit", str(error), **facts)


def given_steps(scheduler: Any, options: Mapping[str, OptionValue]) -> int | None:
    """Count the steps of a schedule the user gave, or None. Euler reads the last noise level as the end, others add it."""
    given = next((value for name in SCHEDULE if isinstance(value := options.get(name), list)), None)
    ends = "timesteps" not in options and type(scheduler).__name__ == "EulerDiscreteScheduler"
    return None if given is None else max(0, len(given) - ends)


def check_schedule(scheduler: Any, options: Mapping[str, OptionValue]) -> None:
    """Raise setting-bad-value for a schedule of the user's own that the sampler takes none of."""
    known = inspect.signature(type(scheduler).set_timesteps).parameters
    for name in SCHEDULE:
        if options.get(name) is not None and name not in known:
            value = Words("{0} with the sampler {1}, which takes none", (name, sampler_name(scheduler)))
            raise HalftoneError(
                "setting-bad-value", name="--option", value=value, allowed=Words("another sampler, or no {0}", (name,))
            )


def fewest_steps(scheduler: Any) -> int:
    """Count the steps below which a sampler cannot run: PNDM begins with a Runge-Kutta method over several of them."""
    begins = type(scheduler).__name__ == "PNDMScheduler" and not scheduler.config.get("skip_prk_steps")
    return int(scheduler.pndm_order) if begins else 1


def unfit_steps(scheduler: Any, steps: int, error: Exception) -> HalftoneError | None:
    """Explain a sampler's error where the steps are too few, or more than it or the model's training has; else None."""
    if scheduler is None:
        return None
    few = 0 < steps < fewest_steps(scheduler) and is_unfit(scheduler, error)
    if few or (steps == 1 and _lacks_single_step(error)):
        high, low = int(scheduler.config.get("num_train_timesteps", 1000)), max(2, fewest_steps(scheduler))
        return HalftoneError("value-out-of-range", str(error), name=Words("Steps"), value=steps, low=low, high=high)
    config = cast("dict[str, Any]", dict(scheduler.config))
    own = inspect.signature(type(scheduler)).parameters  # a configuration may hold more, of another sampler
    limits = [config.get(name) for name in ("original_inference_steps", "num_train_timesteps") if name in own]
    most = min((limit for limit in limits if isinstance(limit, int)), default=steps)
    if steps <= most or not is_unfit(scheduler, error):
        return None
    return HalftoneError("value-out-of-range", str(error), name=Words("Steps"), value=steps, low=1, high=most)


def _lacks_single_step(error: BaseException) -> bool:
    """Whether a pipeline looked for a result that its sampler does not give: PixArt-α reads the finished picture of a single step
    (diffusers, `PixArtAlphaPipeline`), which only some samplers return.
    """
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, IndexError) and bool(frames) and "scheduler.step(" in (frames[-1].line or "")


def counting_of(scheduler: Any) -> Counting:
    """How many steps of its schedule a picture needs that begins at another one."""
    return scheduler.counting if isinstance(scheduler, SolverScheduler) else "diffusers"


def leave_out_whole_steps(pipe: Any) -> None:
    """Make a pipeline that begins at a picture leave out whole steps, and tell the scheduler how many. Some of diffusers leave
    out that many calls, and a sampler of second order makes two for a step: it would begin inside a step, and divide by 0 in the
    last.
    """
    for one in (pipe, *vars(pipe).values()):
        names = list(inspect.signature(getattr(type(one), "get_timesteps", len)).parameters)[1:]
        if names[:1] == ["num_inference_steps"] and "strength" in names:
            one.get_timesteps = partial(_whole_steps, weakref.proxy(one), type(one), names)


def _whole_steps(pipe: Any, kind: Any, names: list[str], *given: Any, **named: Any) -> tuple[Any, int]:
    """names: of the arguments of `get_timesteps`."""
    asked = dict(zip(names, given, strict=False)) | named
    steps, scheduler = asked["num_inference_steps"], pipe.scheduler
    if isinstance(scheduler, SolverScheduler) and asked.get("denoising_start") is None:  # a refiner goes on in its base's
        left = steps_from_picture(steps, asked["strength"], scheduler.counting)
        begin = scheduler.begin_after(steps - left, steps)
        return scheduler.timesteps[begin:], left
    timesteps, left = kind.get_timesteps(pipe, **asked)
    if asked.get("denoising_start") is not None and scheduler.config.get("part"):  # it has the refiner's steps alone
        scheduler.set_begin_index()
        return scheduler.timesteps, len(scheduler.timesteps)
    counted = kind.__name__ in _COUNTING_CALLS
    return scheduler.timesteps[(steps - left) * scheduler.order :] if counted else timesteps, left


def put_scheduler(pipe: Any, scheduler: Any) -> None:
    """Give a pipeline a scheduler; a combined one passes it to its pipelines that run on the same."""
    before = pipe.scheduler
    for inner in vars(pipe).values():
        if isinstance(inner, diffusers.DiffusionPipeline) and getattr(inner, "scheduler", None) is before:
            cast("Any", inner).scheduler = scheduler
    pipe.scheduler = scheduler


def schedulers(pipe: Any) -> list[Any]:
    """All schedulers of a pipeline: a combined one has one for each loop. Some have no timesteps before their first loop."""
    parts = cast("dict[str, Any]", pipe.components).values()
    return [part for part in parts if callable(getattr(part, "step", None)) and callable(getattr(part, "set_timesteps", None))]


def steps_in(scheduler: Any) -> int:
    """Steps of its schedule: as many as timesteps, but where the last of these is what the last step comes to."""
    return len(scheduler.timesteps) - (type(scheduler).__name__ in _WITH_THE_END)


def guiders(pipe: Any) -> list[Any]:
    """What guides a pipeline, where that is a part of its own: some of them add up what the denoiser gave over the steps."""
    return [part for part in cast("dict[str, Any]", pipe.components).values() if isinstance(part, BaseGuidance)]


def is_unfit(scheduler: Any, error: BaseException) -> bool:
    """Whether an error says that a pipeline and this scheduler do not go together: it names it, or was raised in it."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = bool(frames) and "schedulers" in Path(frames[-1].filename).parts
    return inside or type(scheduler).__name__ in str(error)
