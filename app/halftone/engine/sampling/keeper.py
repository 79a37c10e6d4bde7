"""Tensors as they were when they were given: pipelines and schedulers write into what they hold."""

from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from halftone.engine.basics.tensors import map_tensors


class Keeper:
    """Copies nests of tensors. A tensor that is met again unchanged gives the copy that was made before."""

    def __init__(self) -> None:
        self._copies: Any = WeakTensorKeyDictionary()

    def __call__(self, value: Any) -> Any:
        """The same nest of copies."""
        return map_tensors(value, self._copied)

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_inference():
            return tensor.clone()  # no version to tell a write by
        version = tensor._version  # noqa: SLF001 - the documented way to see a write in place
        known = self._copies.get(tensor)
        if known is None or known[0] != version:
            known = (version, tensor.detach().clone())
            self._copies[tensor] = known
        return known[1]
