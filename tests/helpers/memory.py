"""A device whose memory ends."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


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
