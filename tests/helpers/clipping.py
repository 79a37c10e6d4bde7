"""A device that clips at the limit of float16 where others give infinity."""

from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

LIMIT = 65504.0


class Clipping(TorchDispatchMode):
    """Every result of an operation in float16 is held at the limit; NaN stays what it is."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(result):
            narrow = isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float16 and not tensor.is_meta
            if narrow and bool(tensor.isinf().any()):
                tensor.clamp_(-LIMIT, LIMIT)
        return result
