"""A device whose memory ends."""

import sys
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
"""As torch raises it on a device, torch on a processor, and Python."""


class Full(TorchFunctionMode):
    """Its memory ends at the n-th conversion of a tensor or module. error: what is raised there."""

    def __init__(self, after: int, error: Exception | None = None) -> None:
        super().__init__()
        self.left = after
        self.error = error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.to:
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
    """Sees every operation that asks torch for memory. chains: of each, what of Halftone was running, if `tell`.

    fails: whether the memory ends at the n-th allocation (from 0), of so many bytes; asked before anything is written.
    """

    def __init__(self, fails: Callable[[int, int], bool] = lambda _index, _size: False, *, tell: bool = False) -> None:
        super().__init__()
        self._fails = fails
        self._tell = tell
        self.count = 0
        self.raised = 0
        self.chains: list[Chain] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("generator") is not None:  # drawn numbers that were never handed over must not be missing later
            self._ask(8)
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if any(returned.alias_info is None for returned in func._schema.returns):
            size = sum(tensor.nbytes for tensor in tree_leaves(result) if isinstance(tensor, torch.Tensor) and not tensor.is_meta)
            if size:
                self._ask(size)
        return result

    def _ask(self, size: int) -> None:
        index, self.count = self.count, self.count + 1
        if self._tell:
            self.chains.append(_running())
        if self._fails(index, size):
            kind = ERRORS[self.raised % len(ERRORS)] if self.raised else ERRORS[index % len(ERRORS)]
            self.raised += 1
            raise kind()


def _running() -> Chain:
    found: list[Site] = []
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("halftone."):
            found.append(Site(name.removeprefix("halftone."), frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))
