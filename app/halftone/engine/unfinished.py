"""A picture whose step failed, on disk: all that its loop needs to go on from the last good step, in one safetensors file.

Tensors stand as tensors; what else a sampler remembers (indices, orders, lists with holes) stands beside them as JSON in the
metadata of the file. Nothing in it can run: what is neither a tensor nor a plain value is not kept.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from halftone.contract.errors import HalftoneError
from halftone.engine import snapshot as snapshots
from halftone.engine.snapshot import Snapshot

LOOP: Final = "loop"
"""Under this name the plain values stand in the metadata of the file."""
_OWN: Final = "_internal_dict"
"""A sampler's configuration: the model's, and the request's; made anew from them."""
_ROWS: Final[dict[str, Callable[[Iterable[Any]], Any]]] = {"list": list, "tuple": tuple, "set": set}


class NotKeptError(Exception):
    """Something the loop remembers is neither a tensor nor a plain value."""


@dataclass(frozen=True)
class Loop:
    """A denoising loop after a step. sampler: class of its scheduler; shapes: (step, call) -> what the denoiser gave, blank:
    denoiser -> the same of its last call, both without their numbers.
    """

    snapshot: Snapshot
    sampler: str
    shapes: dict[tuple[int, int], Any]
    blank: dict[str, Any]


def packed_loop(loop: Loop) -> tuple[dict[str, torch.Tensor], str]:
    """(tensors, text) that `read_loop` makes the loop of. Raises NotKeptError."""
    tensors: dict[str, torch.Tensor] = {}
    now = loop.snapshot
    told = {
        "step": now.step,
        "sampler": loop.sampler,
        "result": _packed(now.result, tensors),
        "scheduler": _packed({name: value for name, value in now.scheduler.items() if name != _OWN}, tensors),
        "generator": _packed(now.generator, tensors),
        "guiders": [_packed({name: value for name, value in held.items() if name != _OWN}, tensors) for held in now.guiders],
        "shapes": [[step, call, _packed(value, tensors)] for (step, call), value in loop.shapes.items() if step <= now.step],
        "blank": {name: _packed(value, tensors) for name, value in loop.blank.items()},
    }
    return tensors, msgspec.json.encode(told).decode()


def read_loop(path: Path, scheduler: Any, device: torch.device) -> Loop:
    """scheduler: a fresh one of the same kind, which gives what the file does not hold. Raises latents-unreadable."""
    try:
        with safe_open(path, "pt") as opened:
            told = msgspec.json.decode(cast("Mapping[str, str]", opened.metadata())[LOOP])
            read = partial(_read, tensor=opened.get_tensor, device=device)
            if told["sampler"] != type(scheduler).__name__:
                raise ValueError(f"its sampler is {told['sampler']}")
            snapshot = Snapshot(
                step=int(told["step"]),
                result=read(told["result"]),
                scheduler={**snapshots.scheduler_state(scheduler), **read(told["scheduler"])},
                generator=read(told["generator"]),
                guiders=tuple(read(held) for held in told["guiders"]),
            )
            shapes = {(int(step), int(call)): read(value) for step, call, value in told["shapes"]}
            return Loop(snapshot, told["sampler"], shapes, {name: read(value) for name, value in told["blank"].items()})
    except (OSError, SafetensorError, msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise HalftoneError("latents-unreadable", str(error), path=str(path)) from error


def _packed(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """A value as JSON can hold it; the numbers of tensors go into `tensors`."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}  # exact, and infinity too
    if isinstance(value, torch.Tensor):
        if value.is_meta:
            return {"shape": list(value.shape), "dtype": _name(value.dtype)}
        order = _order(value)
        return {"tensor": _added(value.detach().cpu().permute(order), tensors), "cpu": value.is_cpu, "order": order}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fiub":
        return {"array": _added(torch.from_numpy(np.array(value)), tensors), "scalar": isinstance(value, np.generic)}
    if type(value) is torch.dtype:
        return {"dtype": _name(value)}
    if type(value) in _ROWS.values():
        items = cast("Iterable[Any]", value)
        return {"rows": type(value).__name__, "items": [_packed(item, tensors) for item in items]}
    if type(value) is deque:
        queue = cast("deque[Any]", value)
        return {"deque": [_packed(item, tensors) for item in queue], "most": queue.maxlen}
    if type(value) is dict:
        held = cast("dict[Any, Any]", value)
        return {"dict": [[_packed(key, tensors), _packed(item, tensors)] for key, item in held.items()]}
    raise NotKeptError(type(value).__name__)


def _added(tensor: torch.Tensor, tensors: dict[str, torch.Tensor]) -> str:
    name = f"{LOOP}.{len(tensors)}"
    tensors[name] = tensor.contiguous().clone()  # two names of one memory cannot be written
    return name


def _order(tensor: torch.Tensor) -> list[int]:
    """The dimensions as they lie in memory, the widest stride first: another layout lets a network round otherwise."""
    return sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim))


def _laid_out(tensor: torch.Tensor, order: list[int]) -> torch.Tensor:
    """The dimensions in their places again, in memory as they were."""
    return tensor.permute(sorted(range(len(order)), key=lambda dim: order[dim]))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _read(told: Any, tensor: Callable[[str], torch.Tensor], device: torch.device) -> Any:
    """What `_packed` was given. tensor: by its name; device: where what was not on a CPU goes."""
    match told:
        case {"float": digits}:
            return float.fromhex(digits)
        case {"shape": shape, "dtype": dtype}:
            return torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
        case {"tensor": name, "cpu": on_cpu, **more}:
            found = _laid_out(tensor(name), more["order"]) if "order" in more else tensor(name)
            return found if on_cpu else found.to(device)
        case {"array": name, "scalar": scalar}:
            array = tensor(name).numpy()
            return array[()] if scalar else array
        case {"dtype": dtype}:
            return getattr(torch, dtype)
        case {"dict": pairs}:
            return {_read(key, tensor, device): _read(value, tensor, device) for key, value in pairs}
        case {"deque": items, "most": most}:
            return deque((_read(item, tensor, device) for item in items), most)
        case {"rows": kind, "items": items}:
            return _ROWS[kind](_read(item, tensor, device) for item in items)
        case _:
            return told
