"""Cures that let a step be repeated: a module, a block or a whole network in another type, with casts at its borders.

A module with 16-bit parameters runs with wider copies of them, made for each pass, so that its parameters, their gradients and
the optimizer's state stay as they are. Under autocast the parameters are wide already; there autocast is switched off inside.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, Self, cast

import torch
from torch import nn
from torch.func import functional_call

from halftone.contract.training import TrainCure
from halftone.engine.basics.tensors import as_dtype, map_tensors


class WideRegion:
    """`module` computes in `dtype` until `remove`. Its inputs are cast on the way in, its results to the type they would have
    had; not those of a whole network (`whole`), which a loss function may take as they are.

    Parts of it that are called from elsewhere (gradient checkpointing repeats their pass on the way back) are wide as well. seen:
    called with the results before the cast.
    """

    def __init__(
        self, module: nn.Module, dtype: torch.dtype, *, whole: bool = False, seen: Callable[[Any], object] = lambda _: None
    ) -> None:
        self._module = module
        self.dtype = dtype
        self._whole = whole
        self._seen = seen
        self._running = False
        self._undo: list[Callable[[], None]] = []
        for part in module.modules():
            self._replace(part)

    @property
    def memory(self) -> int:
        """Bytes of the copies of its parameters while it runs."""
        size = torch.empty((), dtype=self.dtype).element_size()
        return sum(p.numel() * size for p in self._module.parameters() if p.is_floating_point() and p.dtype != self.dtype)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """The module computes as before."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def _replace(self, part: nn.Module) -> None:
        own, forward = vars(part).get("forward"), part.forward
        vars(part)["forward"] = partial(self._wide, part, forward)
        undo = partial(vars(part).pop, "forward", None) if own is None else partial(vars(part).__setitem__, "forward", own)
        self._undo.append(undo)

    def _wide(self, part: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A part that the module calls itself runs with what the module runs with."""
        if self._running:
            return forward(*args, **kwargs)
        device = next((p.device.type for p in part.parameters()), "cpu")
        narrow = _type_of((args, list(kwargs.values())))
        result = self._call(part, forward, device, args, kwargs)
        if part is self._module:
            self._seen(result)
            if self._whole:
                return result
        taken = torch.is_autocast_enabled(device) and not self._beside_narrow(device, narrow)
        return result if narrow is None or taken else map_tensors(result, as_dtype(narrow))

    def _beside_narrow(self, device: str, narrow: torch.dtype | None) -> bool:
        """Whether autocast lets a norm behind it meet float32 with parameters that are narrow: on a CPU it casts no norm."""
        return device == "cpu" and any(p.dtype == narrow for p in self._module.parameters())

    def _call(
        self, part: nn.Module, forward: Callable[..., Any], device: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        args, kwargs = map_tensors((args, kwargs), as_dtype(self.dtype))
        before, self._running = self._running, True
        try:
            with torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext():
                return self._with_wide(part, forward, args, kwargs)
        finally:
            self._running = before

    def _with_wide(self, part: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        buffers = dict(part.named_buffers())
        held = {**dict(part.named_parameters()), **buffers}
        wide = {
            f"part.{name}": value.to(self.dtype)
            for name, value in held.items()
            if value.is_floating_point() and value.dtype != self.dtype
        }
        if not wide:
            return forward(*args, **kwargs)
        result = functional_call(_Bare(part, forward), wide, args, kwargs)
        for name, buffer in buffers.items():
            copy = wide.get(f"part.{name}")
            if copy is not None and not torch.equal(copy, buffer.to(copy.dtype)):  # running means: the pass wrote into the copy
                buffer.detach().copy_(copy.detach())
        return result


class _Bare(nn.Module):
    """A module's own computation without its hooks: these run once, around the whole region."""

    def __init__(self, part: nn.Module, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.part = part
        self._forward = forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(*args, **kwargs)


def _type_of(given: Any) -> torch.dtype | None:
    if isinstance(given, torch.Tensor):
        return given.dtype if given.is_floating_point() else None
    if isinstance(given, Mapping):
        given = list(cast("Mapping[Any, Any]", given).values())
    if isinstance(given, (list, tuple)):
        return next((found for item in cast("list[Any]", given) if (found := _type_of(item)) is not None), None)
    return None


def holder_of(name: str) -> str:
    """The block that a module belongs to: the innermost one above it that is one of several alike, else what holds it."""
    parts = name.split(".")
    return next(
        (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1) if parts[end - 1].isdigit()), name.rpartition(".")[0]
    )


Rung = tuple[TrainCure, str, torch.dtype]


def ladder(module: str, narrow: torch.dtype, *, has_bfloat16: bool) -> list[Rung]:
    """(cure, module, type) from the cheapest, at most three; "" is the whole network. None of what computes in float32."""
    if narrow not in (torch.float16, torch.bfloat16):
        return []
    block = holder_of(module)
    rungs: list[Rung] = [("float32-module", module, torch.float32)] if module else []
    if block:
        rungs.append(("float32-block", block, torch.float32))
    elif has_bfloat16 and narrow is torch.float16:
        rungs.append(("bfloat16-all", "", torch.bfloat16))
    return [*rungs, ("float32-all", "", torch.float32)]
