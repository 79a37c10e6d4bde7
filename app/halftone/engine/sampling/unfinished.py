"""A picture whose step failed, on disk: all that its loop needs to continue after the last good step, in one safetensors file.

Tensors are stored as tensors; a sampler's other values (indices, orders, lists with holes) as JSON in the file's metadata.
Nothing in it can run: what is neither a tensor nor a plain value is not kept.
"""

import inspect
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import numpy as np
import torch
from diffusers.utils.outputs import BaseOutput
from safetensors import safe_open
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.plan import Plan, handed_on, input_of, is_epsilon
from halftone.engine.basics import snapshot as snapshots
from halftone.engine.basics.snapshot import Snapshot
from halftone.engine.basics.tensors import map_tensors, peak_of, tensors_in
from halftone.engine.weights.epsilons import has_epsilon
from halftone.engine.weights.precision import exact_weights, split_rows
from halftone.health.faults import is_out_of_memory

LOOP: Final = "loop"
"""Key of the plain values in the file's metadata."""
_OWN: Final = "_internal_dict"
"""A sampler's configuration, the model's and the request's, which is made again from them."""
_LARGEST_K: Final = 120
"""Powers of two beyond it have no place in float32."""
_ROWS: Final[dict[str, Callable[[Iterable[Any]], Any]]] = {"list": list, "tuple": tuple, "set": set}


class NotKeptError(Exception):
    """Something the loop remembers is neither a tensor nor a plain value."""


@dataclass(frozen=True)
class Loop:
    """A loop after a step. sampler: class name; shapes: (step, call) -> result, blank: denoiser -> last result, as shapes."""

    snapshot: Snapshot
    sampler: str
    shapes: dict[tuple[int, int], Any]
    blank: dict[str, Any]


def packed_loop(loop: Loop, handed: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], str]:
    """(tensors, text) from which `read_loop` makes the loop. handed: tensors written beside it. Raises NotKeptError."""
    tensors = dict(handed)
    now = loop.snapshot
    pack = partial(_packed, tensors=tensors, on_cpu=all(tensor.is_cpu for tensor in tensors_in(now.result)))
    told = {
        "step": now.step,
        "sampler": loop.sampler,
        "result": pack(now.result),
        "scheduler": pack({name: value for name, value in now.scheduler.items() if name != _OWN}),
        "generator": pack(now.generator),
        "guiders": [pack({name: value for name, value in held.items() if name != _OWN}) for held in now.guiders],
        "shapes": [[step, call, pack(value)] for (step, call), value in loop.shapes.items() if step <= now.step],
        "blank": {name: pack(value) for name, value in loop.blank.items()},
    }
    return tensors, msgspec.json.encode(told).decode()


def read_loop(path: Path, scheduler: Any, device: torch.device) -> Loop:
    """scheduler: a fresh one that gives what the file lacks; device: of the picture. Raises latents-unreadable."""
    try:
        with safe_open(path, "pt") as opened:
            told = msgspec.json.decode(cast("Mapping[str, str]", opened.metadata())[LOOP])
            if told["sampler"] != type(scheduler).__name__:
                raise ValueError(f"its sampler is {told['sampler']}")
            loop = _loop(told, partial(_read, tensor=opened.get_tensor), device, path)
        fresh = snapshots.scheduler_state(scheduler)
        _check_sampler(fresh, loop.snapshot, _of_earlier(scheduler))
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise _unreadable(path, str(error)) from error  # whatever is odd about it, it is no loop that was kept
    snapshot = replace(loop.snapshot, scheduler={**fresh, **_of_earlier(scheduler), **loop.snapshot.scheduler})
    return replace(loop, snapshot=snapshot)


def _loop(told: dict[str, Any], read: Callable[..., Any], device: torch.device, path: Path) -> Loop:
    result = read(told["result"], device=torch.device("cpu"))
    if next(tensors_in(result), None) is None or not peak_of(result) < math.inf:
        raise ValueError("no latents, or not finite ones")
    generator = read(told["generator"], device=torch.device("cpu"))
    torch.Generator("cpu").set_state(generator)  # raises where this is no state of one
    shapes = {(int(step), int(call)): read(value, device=device) for step, call, value in told["shapes"]}
    if not shapes:
        raise ValueError("no step before it")
    snapshot = Snapshot(
        step=int(told["step"]),
        result=map_tensors(result, lambda tensor: tensor.to(device)),
        scheduler=dict(read(told["scheduler"], device=device)),
        generator=generator,
        guiders=tuple(dict(read(held, device=device)) for held in told["guiders"]),
        source=path,
    )
    return Loop(snapshot, told["sampler"], shapes, {name: read(value, device=device) for name, value in told["blank"].items()})


def _of_earlier(scheduler: Any) -> Mapping[str, Any]:
    """What samplers did not keep in earlier versions, as it was then."""
    return getattr(scheduler, "NOT_KEPT_EARLIER", {})


def _check_sampler(fresh: Mapping[str, Any], snapshot: Snapshot, not_kept: Mapping[str, Any]) -> None:
    """Raise ValueError for what is not the state of such a sampler after one of its steps. fresh: of a new one."""
    held = snapshot.scheduler
    if missing := fresh.keys() - held.keys() - not_kept.keys() - {_OWN}:
        raise ValueError(f"its sampler lacks {sorted(missing)}")
    for name, value in fresh.items():
        if isinstance(value, torch.Tensor) and not isinstance(held[name], torch.Tensor):
            raise ValueError(f"{name} of its sampler is no tensor")
    if not 0 <= snapshot.step < len(held["timesteps"]):
        raise ValueError(f"no step {snapshot.step}")


def check_fits(snapshot: Snapshot, scheduler: Any, given: Any) -> None:
    """Refuse other latents or another number of steps. given: the latents to step. Raises latents-unreadable."""
    if snapshot.source is None:
        return
    latents = next(tensors_in(snapshot.result))
    if len(scheduler.timesteps) != len(snapshot.scheduler["timesteps"]):
        raise _unreadable(snapshot.source, f"{len(scheduler.timesteps)} steps")
    if all(tensor.shape != latents.shape for tensor in tensors_in(given)):
        raise _unreadable(snapshot.source, f"latents of {tuple(latents.shape)}")


def plan_fits(plan: Plan, modules: Mapping[str, nn.Module]) -> bool:
    """Whether a model has all that a plan names. modules: component -> its network."""
    for component in (*plan.upcast, *plan.rescale):
        if component not in modules:
            return False
    for component, names in plan.upcast.items():
        known = dict(modules[component].named_modules())
        for module, k in map(handed_on, names):
            if module not in known or (k is not None and not (_has_weight(known[module]) and k <= _LARGEST_K)):
                return False
    return all(
        _is_scalable(modules[component], name) and abs(k) <= _LARGEST_K * (2 if is_epsilon(name) else 1)
        for component, exponents in plan.rescale.items()
        for name, k in exponents.items()
    )


def _is_scalable(module: nn.Module, name: str) -> bool:
    """A parameter or buffer, some rows of one, the epsilon of a norm, or an argument of forward."""
    known = {*exact_weights(module), *map(input_of, inspect.signature(type(module).forward).parameters)}
    return split_rows(name)[0] in known or has_epsilon(module, name)


def _has_weight(module: nn.Module) -> bool:
    return isinstance(getattr(module, "weight", None), torch.Tensor)


def _unreadable(path: Path, detail: str) -> HalftoneError:
    return HalftoneError("latents-unreadable", detail, path=str(path))


def _packed(value: Any, tensors: dict[str, torch.Tensor], on_cpu: bool) -> Any:
    """A value for JSON, its tensors put into `tensors`. on_cpu: latents were on a CPU, so a tensor's place says nothing."""
    pack = partial(_packed, tensors=tensors, on_cpu=on_cpu)
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}  # exact, and infinity too
    if isinstance(value, torch.Tensor):
        if value.is_meta:
            return {"shape": list(value.shape), "dtype": _name(value.dtype)}
        order = _order(value)
        return {
            "tensor": _added(value.detach().cpu().permute(order), tensors),
            "cpu": value.is_cpu and not on_cpu,
            "order": order,
        }
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fiub":
        return {"array": _added(torch.from_numpy(np.array(value)), tensors), "scalar": isinstance(value, np.generic)}
    if type(value) is torch.dtype:
        return {"dtype": _name(value)}
    kind = tuple if isinstance(value, torch.Size) else type(value)
    if kind in _ROWS.values():
        items = cast("Iterable[Any]", value)
        return {"rows": kind.__name__, "items": [pack(item) for item in items]}
    if type(value) is deque:
        queue = cast("deque[Any]", value)
        return {"deque": [pack(item) for item in queue], "most": queue.maxlen}
    if isinstance(value, BaseOutput):
        return {"output": type(value).__name__, "fields": {name: pack(item) for name, item in value.items()}}
    if type(value) is dict:
        held = cast("dict[Any, Any]", value)
        return {"dict": [[pack(key), pack(item)] for key, item in held.items()]}
    raise NotKeptError(type(value).__name__)


def _added(tensor: torch.Tensor, tensors: dict[str, torch.Tensor]) -> str:
    """The name under which it is written. It is copied only where it must be: the memory may have ended."""
    dense = tensor.contiguous()
    beside = {name: other for name, other in tensors.items() if _storage(other) == _storage(dense)}
    known = next((name for name, other in beside.items() if other.is_set_to(dense)), None)
    if known is not None:
        return known
    name = f"{LOOP}.{len(tensors)}"
    tensors[name] = dense.clone() if beside else dense  # two names of one memory cannot be written
    return name


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _order(tensor: torch.Tensor) -> list[int]:
    """The dimensions as they lie in memory, the widest stride first: another layout lets a network round otherwise."""
    return sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim))


def _laid_out(tensor: torch.Tensor, order: list[int]) -> torch.Tensor:
    """The dimensions in their places again, in memory as they were."""
    return tensor.permute(sorted(range(len(order)), key=lambda dim: order[dim]))


def _output(name: str) -> Callable[..., Any]:
    """The class of diffusers for what a sampler gives; those of one name hold the same."""
    return next(kind for kind in BaseOutput.__subclasses__() if kind.__name__ == name)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name} is no dtype")
    return found


def _read(told: Any, tensor: Callable[[str], torch.Tensor], device: torch.device) -> Any:
    """What `_packed` was given. tensor: by its name; device: where what was not on a CPU beside others goes."""
    match told:
        case {"float": digits}:
            return float.fromhex(digits)
        case {"shape": shape, "dtype": dtype}:
            return torch.empty(shape, dtype=_dtype(dtype), device="meta")
        case {"tensor": name, "cpu": on_cpu, **more}:
            found = _laid_out(tensor(name), more["order"]) if "order" in more else tensor(name)
            return found if on_cpu else found.to(device)
        case {"array": name, "scalar": scalar}:
            array = tensor(name).numpy()
            return array[()] if scalar else array
        case {"dtype": dtype}:
            return _dtype(dtype)
        case {"dict": pairs}:
            return {_read(key, tensor, device): _read(value, tensor, device) for key, value in pairs}
        case {"deque": items, "most": most}:
            return deque((_read(item, tensor, device) for item in items), most)
        case {"output": kind, "fields": items}:
            return _output(kind)(**{name: _read(item, tensor, device) for name, item in items.items()})
        case {"rows": kind, "items": items}:
            return _ROWS[kind](_read(item, tensor, device) for item in items)
        case _:
            return told
