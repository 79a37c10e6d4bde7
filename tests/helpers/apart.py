"""A CPU that stands for a device with memory of its own: weights there are copies; with those at home nothing may be computed."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from halftone.contract.vocabulary import Offload
from halftone.engine.loading.load import Loaded
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.offload import own_tensors, put_offload

_MOVES = {"aten::_to_copy", "aten::detach", "aten::alias", "aten::empty_like", "aten::as_strided", "aten::copy_"}
"""What onloads reads weights at home, and gives them other names."""


def apart(engine: DiffusersEngine) -> Loaded:
    """From now on offload acts for the model in memory."""
    assert engine.loaded is not None
    engine.loaded.places.apart = True
    return engine.loaded


def _weights(loaded: Loaded) -> dict[int, torch.Tensor]:
    """Every weight and buffer of a model as it lies now, by where its numbers are."""
    modules = (part for module in loaded.modules.values() for part in module.modules())
    found = (tensor.data for module in modules for tensor in own_tensors(module))
    return {tensor.untyped_storage().data_ptr(): tensor for tensor in found if tensor.numel()}


class Watch(TorchDispatchMode):
    """Which operations read weights at home (`astray`), and how many bytes of weights were onloaded at once (`most`)."""

    def __init__(self, loaded: Loaded, mode: Offload) -> None:
        super().__init__()
        put_offload(loaded.places, mode)
        self._home = _weights(loaded)
        self._loaded = loaded
        self.size = sum(tensor.nbytes for tensor in self._home.values())
        self.astray: set[str] = set()
        self.most = 0
        self._moved = True
        """Whether weights were onloaded since they were counted; nothing else makes them more."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition(".")[0]
        given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        reads = any(value.untyped_storage().data_ptr() in self._home for value in given if value.numel())
        if name in _MOVES:
            self._moved |= reads
        elif reads:
            self.astray.add(name)
        elif self._moved and any(word in name for word in ("convolution", "addmm", "aten::mm", "linear")):
            there = (tensor.nbytes for place, tensor in _weights(self._loaded).items() if place not in self._home)
            self.most = max(self.most, sum(there))
            self._moved = False
        return func(*args, **(kwargs or {}))
