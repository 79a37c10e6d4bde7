"""What is true of a model, by plain torch alone: no line of Halftone's own code is used here.

The pipeline runs once in float32 while every call of every network is written down. Each call is then repeated in float16 with
the network as the libraries themselves load it in float16, under bare forward hooks. The origin is the first module, in order
of completion, whose output is not finite though its inputs and weights are.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch
from torch import nn

LIMIT: Final = 65504.0
"""Largest float16."""
WRONG: Final = 0.1
"""Relative error from which a finite result counts as wrong."""
_KEPT: Final = ("timestep", "sigma", "ids", "rotary", "freqs", "guidance")
"""Parts of names of arguments that pipelines hand over in float32 in every precision."""


@dataclass(frozen=True)
class Called:
    """One call of a network as the pipeline made it in float32. step: 0-based, None outside the denoising loop."""

    component: str
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    step: int | None


@dataclass
class Run:
    """picture: (height, width, 3) in [0, 1], float64."""

    picture: torch.Tensor
    calls: list[Called] = field(default_factory=list[Called])


@dataclass(frozen=True)
class Fate:
    """How one component fares in float16. module: the origin, "" when no module shows it, None when the result is sound.

    error: relative, of the worst finite call; finite: of all calls; step: of the first bad call; method: of the first bad call.
    """

    component: str
    module: str | None
    finite: bool
    error: float
    step: int | None = None
    method: str = ""


def networks(pipe: Any) -> dict[str, nn.Module]:
    return {name: part for name, part in pipe.components.items() if isinstance(part, nn.Module)}


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Floating tensors of a nest of tuples, lists and mappings; of a latent distribution its parameters."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.numel():
            yield value
    elif isinstance(value, Mapping):
        for part in cast("Mapping[Any, Any]", value).values():
            yield from tensors(part)
    elif isinstance(value, list | tuple):
        for part in cast("list[Any]", value):
            yield from tensors(part)
    elif isinstance(parameters := getattr(value, "parameters", None), torch.Tensor):
        yield parameters


def copied(value: Any) -> Any:
    """The same nest with every tensor cloned."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, list) or type(value) is tuple:
        return type(value)(copied(part) for part in cast("list[Any]", value))
    if type(value) is dict:
        return {name: copied(part) for name, part in cast("dict[Any, Any]", value).items()}
    if isinstance(value, Mapping):
        return [part.clone() for part in tensors(value)]
    return value


def run_float32(pipe: Any, arguments: dict[str, Any]) -> Run:
    """The pipeline as it is, with every call of its networks."""
    run = Run(torch.zeros(0))
    step = [0]

    def recorder(name: str, method: str, original: Callable[..., Any], *, loop: bool) -> Callable[..., Any]:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            given, named = copied(args), copied(kwargs)  # some pipelines go on writing into what they gave and got
            result = original(*args, **kwargs)
            run.calls.append(Called(name, method, given, named, copied(result), step[0] if loop else None))
            return result

        return recorded

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **kwargs: Any) -> Any:
            step[0] += 1
            return original(*args, **kwargs)

        return stepped

    with ExitStack() as stack, torch.no_grad():
        for name, module in networks(pipe).items():
            if callable(getattr(module, "decode", None)):
                for method in ("encode", "decode"):
                    if callable(original := getattr(module, method, None)):
                        stack.enter_context(_replaced(module, method, recorder(name, method, original, loop=False)))
            else:
                loop = "encoder" not in name
                stack.enter_context(_replaced(module, "forward", recorder(name, "forward", module.forward, loop=loop)))
        if getattr(pipe, "scheduler", None) is not None:
            stack.enter_context(_replaced(pipe.scheduler, "step", counted(pipe.scheduler.step)))
        result = pipe(**arguments, output_type="np")
    run.picture = _picture(result)
    return run


def run_beside(pipe: Any, arguments: dict[str, Any], halves: Mapping[str, nn.Module]) -> torch.Tensor:
    """The picture when the networks in `halves` compute in float16 and the others in float32."""

    def narrowed(name: str, method: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = repeat(Called(name, method, args, kwargs, None, None), halves[name])
            if isinstance(result, Mapping):
                for key, value in cast("Any", result).items():
                    cast("Any", result)[key] = _widened(value)
                return result
            return _widened(result)

        return call

    with ExitStack() as stack, torch.no_grad():
        for name, module in networks(pipe).items():
            method = "decode" if callable(getattr(module, "decode", None)) else "forward"
            if name in halves:
                stack.enter_context(_replaced(module, method, narrowed(name, method)))
        return _picture(pipe(**arguments, output_type="np"))


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype == torch.float16 else value
    if isinstance(value, tuple | list):
        return type(value)(_widened(part) for part in cast("list[Any]", value))
    return value


def with_encode(run: Run, pipe: Any) -> Run:
    """The run, and the encoding of its picture, as image-to-image would do it."""
    decodes = [call for call in run.calls if call.method == "decode"]
    if not decodes:
        return run
    call = decodes[-1]
    module = networks(pipe)[call.component]
    if not isinstance(cast("Any", getattr(module, "encoder", None)), nn.Module):
        return run
    with torch.no_grad():
        sample = next(tensors(call.result)).clamp(-1, 1)
        result = cast("Any", module).encode(sample)
    run.calls.append(Called(call.component, "encode", (sample,), {}, result, None))
    return run


@contextmanager
def _replaced(owner: Any, name: str, new: Any) -> Generator[None]:
    had = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


def _picture(result: Any) -> torch.Tensor:
    """First picture, or first frame, of what a pipeline gave: (height, width, 3) in [0, 1]."""
    found = next(value for name in ("images", "frames") if (value := getattr(result, name, None)) is not None)
    found = torch.from_numpy(np.asarray(found[0] if isinstance(found, list) else found))  # "pt" is not rescaled by every pipeline
    while found.dim() > 3:
        found = found[0]
    return found.double().clamp(0, 1)


def psnr(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """dB between two pictures in [0, 1]; -inf if one is not finite."""
    error = float((ours.double() - theirs.double()).square().mean())
    if math.isnan(error):
        return -math.inf
    return math.inf if error == 0 else -10 * math.log10(error)


# --- float16 ---------------------------------------------------------------------------------------


def in_float16(module: nn.Module, folder: Path) -> nn.Module:
    """The same component as the library itself loads it in float16."""
    loaded = cast("Any", type(module)).from_pretrained(folder, dtype=torch.float16, local_files_only=True)
    loaded.eval().requires_grad_(False)
    if getattr(getattr(loaded, "config", None), "force_upcast", None):
        loaded.register_to_config(force_upcast=False)
    return cast("nn.Module", loaded)


def repeat(call: Called, module: nn.Module) -> Any:
    """The call in float16; with its noise level in float16 too where the network itself asks for that."""
    try:
        return _repeat(call, module, _KEPT, 2)
    except RuntimeError as error:
        if "dtype" not in str(error):
            raise
        return _repeat(call, module, (), 0)


def _repeat(call: Called, module: nn.Module, kept: tuple[str, ...], least: int) -> Any:
    method = type(module).__call__ if call.method == "forward" else getattr(type(module), call.method)
    with torch.no_grad():
        return method(
            module, *(_halved(arg, kept, least) for arg in call.args), **cast("dict[str, Any]", _halved(call.kwargs, kept, least))
        )


def _halved(value: Any, kept: tuple[str, ...], least: int) -> Any:
    """Every float32 tensor of a nest in float16, save those under a name in `kept` and those of fewer than `least` dimensions."""
    if isinstance(value, torch.Tensor):
        return value.half() if value.dtype == torch.float32 and value.dim() >= least else value
    if isinstance(value, tuple | list):
        return type(value)(_halved(part, kept, least) for part in cast("list[Any]", value))
    if type(value) is dict:
        named = cast("dict[Any, Any]", value)
        return {n: part if any(word in str(n) for word in kept) else _halved(part, kept, least) for n, part in named.items()}
    return value


def fate(component: str, module: nn.Module, calls: list[Called]) -> Fate:
    """How a component, in float16, fares in all its calls; the first bad one is looked into."""
    worst = 0.0
    for call in calls:
        if call.component != component or not all(finite(t) for t in tensors(call.result)):
            continue
        bad: list[str] = []
        with watched(module, bad):
            result = repeat(call, module)
        if not all(finite(tensor) for tensor in tensors(result)):
            return Fate(component, bad[0] if bad else "", finite=False, error=math.inf, step=call.step, method=call.method)
        error = relative(result, call.result)
        if error > WRONG:
            name = bad[0] if bad else ""
            return Fate(component, name, finite=True, error=error, step=call.step, method=call.method)
        worst = max(worst, error)
    return Fate(component, None, finite=True, error=worst)


def finite(tensor: torch.Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def relative(result: Any, reference: Any) -> float:
    """Root mean square of the difference over that of the reference."""
    pairs = list(zip(tensors(result), tensors(reference), strict=False))
    difference = sum(float((a.double() - b.double()).square().sum()) for a, b in pairs)
    scale = sum(float(b.double().square().sum()) for _, b in pairs)
    return math.sqrt(difference / scale) if scale > 0 else math.sqrt(difference)


@contextmanager
def watched(module: nn.Module, bad: list[str]) -> Generator[None]:
    """Fills `bad` with the modules, in order of completion, whose output went bad on its own account."""

    def watcher(name: str) -> Any:
        def watch(child: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            leaving = next(tensors(output), None)
            if leaving is None or finite(leaving) or not all(finite(tensor) for tensor in _entering(args, kwargs)):
                return
            if not all(finite(parameter) for _, child_ in _inner(child) for parameter in child_):
                return
            bad.append(name)

        return watch

    handles = [child.register_forward_hook(watcher(name), with_kwargs=True) for name, child in module.named_modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _inner(module: nn.Module) -> Iterator[tuple[str, tuple[torch.Tensor, ...]]]:
    """The module's own parameters; those of its children were seen when they completed. A bad own weight is an origin too where
    the file's number was sound and float16 cannot hold it, so only NaN counts as a bad weight."""
    own = tuple(torch.where(p.isinf(), 0.0, p) for p in module.parameters(recurse=False))
    yield "", own


def _entering(args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    yield from tensors(args)
    yield from tensors({name: value for name, value in kwargs.items() if "mask" not in name and "bias" not in name})


# --- measures of the sound model -------------------------------------------------------------------


def peaks(pipe: Any, arguments: dict[str, Any]) -> tuple[Run, dict[tuple[str, str], float]]:
    """A float32 run with encode, and (component, module) -> largest output."""
    found: dict[tuple[str, str], float] = {}

    def keeper(key: tuple[str, str]) -> Any:
        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            tensor = next(tensors(output), None)
            if tensor is not None:
                found[key] = max(found.get(key, 0.0), float(tensor.abs().max()))

        return keep

    handles = [
        child.register_forward_hook(keeper((name, path)))
        for name, module in networks(pipe).items()
        for path, child in module.named_modules()
    ]
    try:
        run = with_encode(run_float32(pipe, arguments), pipe)
    finally:
        for handle in handles:
            handle.remove()
    return run, found


def departures(component: str, narrow: nn.Module, wide: nn.Module, call: Called) -> list[str]:
    """Modules whose output in float16 is more than WRONG away from float32, in order of completion."""
    samples = [_outputs(narrow, lambda: repeat(call, narrow)), _outputs(wide, lambda: _again(call, wide))]
    ours, theirs = samples
    return [name for name, value in ours.items() if name in theirs and relative(value, theirs[name]) > WRONG]


def _again(call: Called, module: nn.Module) -> Any:
    method = type(module).__call__ if call.method == "forward" else getattr(type(module), call.method)
    with torch.no_grad():
        return method(module, *call.args, **call.kwargs)


def _outputs(module: nn.Module, act: Callable[[], Any]) -> dict[str, torch.Tensor]:
    kept: dict[str, torch.Tensor] = {}

    def keeper(name: str) -> Any:
        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            tensor = next(tensors(output), None)
            if tensor is not None:
                kept.setdefault(name, tensor.float().clone())

        return keep

    handles = [child.register_forward_hook(keeper(name)) for name, child in module.named_modules()]
    try:
        act()
    finally:
        for handle in handles:
            handle.remove()
    return kept
