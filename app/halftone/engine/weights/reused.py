"""Memory for weights that are made block by block, used again once free.

The system takes as long to give it as filling it takes, and would do so for each block of each call.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.multiprocessing.reductions import StorageWeakRef

_LARGE: Final = 2**22
"""Bytes from which memory is kept; what is smaller comes at once."""
_SPARE: Final = 1.25
"""How many times larger than what is asked for the memory that is given may be."""


@dataclass(frozen=True, eq=False)
class _Kept:
    memory: NDArray[np.uint8]
    used: StorageWeakRef


class Reused:
    """Keeps the memory of one component's tensors for the next ones. It keeps no more than was in use at once."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []

    def empty(self, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
        """A tensor on the processor that is yet to be filled."""
        size = shape.numel() * dtype.itemsize
        if size < _LARGE:
            return torch.empty(shape, dtype=dtype)
        memory = self._fitting(size)
        made: Any = torch.frombuffer(memory, dtype=dtype, count=shape.numel()).view(shape)
        self._kept.append(_Kept(memory, StorageWeakRef(made.untyped_storage())))
        return made

    def _fitting(self, size: int) -> NDArray[np.uint8]:
        """Take the smallest unused memory that is large enough; else free as much as is needed, and allocate."""
        unused = sorted((one for one in self._kept if one.used.expired()), key=lambda one: one.memory.nbytes)
        found = next((one for one in unused if size <= one.memory.nbytes <= _SPARE * size), None)
        room = 0
        while found is None and unused and room < size:
            room += unused[-1].memory.nbytes
            self._kept.remove(unused.pop())
        if found is None:
            return np.empty(size, np.uint8)
        self._kept.remove(found)
        return found.memory
