"""The range pass: the pipeline run as it is, in a dtype with room, every component under the probe, every call kept."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import msgspec
import torch
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DType
from halftone.engine.basics.tensors import tensors_in
from halftone.engine.basics.wrapping import is_ours, raised_in
from halftone.engine.inputs.resolve import pipeline_arguments, refused, start_canvas, task_pipeline
from halftone.engine.inputs.wanted import Inputs
from halftone.engine.loading.load import Loaded
from halftone.engine.sampling.flight import Flight
from halftone.engine.sampling.frames import OUTPUT, all_frames
from halftone.engine.sampling.hooks import Hooks
from halftone.engine.sampling.samplers import make_scheduler, named_own, put_scheduler, unfit_steps, without_solver_options
from halftone.engine.weights.calls import Call
from halftone.engine.weights.precision import invoke
from halftone.health.faults import is_out_of_memory
from halftone.library.prompts.prompt_syntax import rules_of
from halftone.measure.probe import Probe, Reading, ScorePeak

log = logging.getLogger(__name__)

_REFUSALS: Final = ("pipeline-refused", "size-not-multiple", "model-parts-misfit")


@dataclass
class Range:
    """What the range pass gave. calls: in running order, with their results; picture: (channels, height, width) in [0, 1]."""

    dtype: DType
    calls: list[tuple[Call, Any]] = field(default_factory=list[tuple[Call, Any]])
    readings: dict[str, tuple[Reading, ...]] = field(default_factory=dict[str, tuple[Reading, ...]])
    scores: dict[str, tuple[ScorePeak, ...]] = field(default_factory=dict[str, tuple[ScorePeak, ...]])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """By component, the total of its calls under the probe."""
    ran: dict[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    """The modules that ran in a call, by its id."""
    picture: torch.Tensor | None = None
    sizes: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """(width, height, frames) of what was made; each once."""

    def of(self, component: str) -> list[tuple[Call, Any]]:
        return [(call, result) for call, result in self.calls if call.component == component]


class PromptRead(Exception):  # noqa: N818 - a turn of events, carried out of the pipeline
    """The text encoders are done; the rest of the pipeline is not wanted."""


def range_pass(
    loaded: Loaded,
    pictures: list[tuple[Inputs, int]],
    prompts: Sequence[str],
    dtype: DType,
    check: Callable[[], None],
    on_progress: Callable[[Range, dict[str, Probe]], None],
) -> Range:
    """Run the pipeline, which is in `dtype`, for each (inputs, seed) and encode the results; `prompts` are only encoded."""
    found = Range(dtype)
    with ExitStack() as stack:
        probes = {name: stack.enter_context(Probe(module, name)) for name, module in loaded.modules.items()}

        def on_call(call: Call, result: Any, seconds: float) -> None:
            check()
            found.seconds[call.component] = found.seconds.get(call.component, 0.0) + seconds
            found.calls.append((call, result))
            own = {""} if call.method == "forward" else set[str]()  # the network itself is done only after this
            found.ran[id(call)] = probes[call.component].ran() | own
            on_progress(found, probes)

        for inputs, seed in pictures:
            _one(loaded, inputs, seed, Hooks(check=check, on_call=on_call), found)
        for prompt in prompts:
            _read(loaded, replace(pictures[0][0], prompt=prompt), Hooks(check=check, on_call=on_call), found)
    for name, probe in probes.items():
        found.readings[name] = probe.readings()
        found.scores[name] = probe.scores()
    return found


def _one(loaded: Loaded, inputs: Inputs, seed: int, hooks: Hooks, found: Range) -> None:
    frames = drawn_frames(loaded, inputs, seed, hooks)
    found.picture = frames[0] if found.picture is None else found.picture
    size = (frames[0].shape[-1], frames[0].shape[-2], len(frames))
    found.sizes += [] if size in found.sizes else [size]
    _encode(loaded, found, hooks)


def _read(loaded: Loaded, inputs: Inputs, hooks: Hooks, found: Range) -> None:
    """The calls of the text encoders for one more prompt, without those that are known. A pipeline may refuse the prompt."""

    def on_call(call: Call, result: Any, seconds: float) -> None:
        known = (other for other, _ in found.calls if other.component == call.component)
        if call.method == "forward" and hooks.on_call is not None and not any(_same(call, other) for other in known):
            hooks.on_call(call, result, seconds)

    def on_phase(phase: str) -> None:
        if phase in {"denoise", "decode"}:
            raise PromptRead

    try:
        _fly(loaded, inputs, 0, replace(hooks, on_call=on_call, on_phase=on_phase))
    except PromptRead:
        return
    except (TypeError, ValueError) as error:
        log.info("the pipeline takes no prompt of %d letters: %s", len(inputs.prompt), error)


def _same(one: Call, other: Call) -> bool:
    """Whether two calls were given the same numbers."""
    first, second = [list(_given(call)) for call in (one, other)]
    pairs = zip(first, second, strict=False)
    return len(first) == len(second) and all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)


def _given(call: Call) -> Iterator[torch.Tensor]:
    """Every tensor that a call was given, numbers of tokens too."""
    rest: list[object] = [call.args, call.kwargs]
    while rest:
        value = rest.pop()
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, Mapping):
            rest += cast("Mapping[Any, object]", value).values()
        elif isinstance(value, (tuple, list)):
            rest += cast("Sequence[object]", value)


def drawn_frames(loaded: Loaded, inputs: Inputs, seed: int, hooks: Hooks) -> list[torch.Tensor]:
    """The picture or the frames that the pipeline makes as it is now, (channels, height, width) in [0, 1] each."""
    try:
        result = _fly(loaded, inputs, seed, hooks)
    except (TypeError, ValueError, AssertionError, LookupError, ArithmeticError, AttributeError) as error:
        unfit = unfit_steps(loaded.native_scheduler, inputs.steps or 0, error)
        if unfit is not None:
            raise unfit from error
        told = named_own(refused(inputs.options, error), error, loaded.facts, loaded.pipe, loaded.native_scheduler)
        if told is error:
            raise
        raise told from error
    return all_frames(result[0])


def is_refusal(error: Exception) -> bool:
    """Whether a pipeline or one of its parts did not take its arguments: a library raised it, and the memory did not end."""
    if isinstance(error, HalftoneError):
        return error.code in _REFUSALS
    if is_out_of_memory(error) or not isinstance(error, (TypeError, ValueError, IndexError, RuntimeError, AssertionError)):
        return False
    file = raised_in(error)
    return file is not None and not is_ours(file)


def _fly(loaded: Loaded, inputs: Inputs, seed: int, hooks: Hooks) -> Any:
    pipe = task_pipeline(loaded, inputs)
    if loaded.native_scheduler is not None:
        put_scheduler(pipe, make_scheduler(loaded.native_scheduler, None, without_solver_options(inputs.options)))
    flight = Flight(
        replace(loaded, pipe=pipe),
        nan_check="off",
        upcast_sampling=True,
        hooks=hooks,
        rules=rules_of(inputs.options),
        options=inputs.options,
    )
    generator = torch.Generator("cpu").manual_seed(seed)
    return flight.run({**pipeline_arguments(pipe, inputs, start_canvas(pipe, inputs)), "output_type": OUTPUT}, generator)


def _encode(loaded: Loaded, found: Range, hooks: Hooks) -> None:
    """VAE encode of the picture the VAE just decoded: what image-to-image would do with it."""
    decodes = [(call, result) for call, result in found.calls if call.method == "decode"]
    if not decodes or decodes[-1][0].component not in loaded.modules:
        return
    call, result = decodes[-1]
    module = loaded.modules[call.component]
    encode = getattr(module, "encode", None)
    picture = next(tensors_in(result), None)
    if not callable(encode) or picture is None or not isinstance(cast("Any", getattr(module, "encoder", None)), nn.Module):
        return
    arguments = (torch.nan_to_num(picture).clamp(-1, 1),)
    started = time.perf_counter()
    encoded = invoke(module, encode, found.dtype, arguments, {})
    if hooks.on_call is not None:
        hooks.on_call(Call(call.component, "encode", arguments, {}), encoded, time.perf_counter() - started)


def effective(numerics: Numerics, settings: dict[str, str | bool]) -> Numerics:
    """Numerics with the settings of a plan over them."""
    return msgspec.structs.replace(numerics, **cast("dict[str, Any]", settings)) if settings else numerics
