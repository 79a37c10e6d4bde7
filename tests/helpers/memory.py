"""A device whose memory ends."""

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    lambda: RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    MemoryError,
)
"""Torch on a device, torch on a processor and Python raise these."""


class Full(TorchFunctionMode):
    """Its memory ends at the n-th conversion of a tensor or module, or copy made for one. error: what is raised there."""

    def __init__(self, after: int, error: Exception | None = None) -> None:
        super().__init__()
        self.left = after
        self.error = error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.to, torch.empty_like):
            self.left -= 1
            if self.left < 0:
                raise self.error
        return func(*args, **(kwargs or {}))


class Site(NamedTuple):
    """One function of Halftone on the way to an allocation."""

    module: str
    function: str
    line: int


Chain = tuple[Site, ...]
"""The outermost first."""


class Allocations(TorchDispatchMode):
    """Sees every operation that asks torch for memory. seen: by what of Halftone was running, how many there were.

    fails: whether the memory ends at an allocation: given what of Halftone runs, and how many were made from there before. on:
    the device whose memory it is; that of the host as well where it is None.
    """

    def __init__(self, fails: Callable[[Chain, int], bool] = lambda _chain, _nth: False, on: torch.device | None = None) -> None:
        super().__init__()
        self._fails = fails
        self._on = on
        self.raised = 0
        self.seen: Counter[Chain] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("generator") is not None:  # drawn numbers that were never handed over must not be missing later
            self._ask()
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if any(returned.alias_info is None for returned in func._schema.returns):
            made = [tensor for tensor in tree_leaves(result) if isinstance(tensor, torch.Tensor) and not tensor.is_meta]
            if any(tensor.nbytes and self._on in (None, tensor.device) for tensor in made):
                self._ask()
        return result

    def _ask(self) -> None:
        chain = running()
        nth, self.seen[chain] = self.seen[chain], self.seen[chain] + 1
        if self._fails(chain, nth):
            kind = ERRORS[(len(self.seen) + self.raised) % len(ERRORS)]
            self.raised += 1
            raise kind()


def passes(chain: Chain, *functions: str) -> bool:
    """Whether it goes through these functions, in this order."""
    left = iter(site.function for site in chain)
    return all(function in left for function in functions)


def running() -> Chain:
    """Return what of Halftone runs now."""
    found: list[Site] = []
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("halftone."):
            found.append(Site(name.removeprefix("halftone."), frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))
