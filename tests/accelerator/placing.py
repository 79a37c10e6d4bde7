"""Tensors that a test makes lie on the device, those that the program makes where the program puts them."""

import sys
from pathlib import Path
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

_TORCH: Final = str(Path(torch.__file__).parent)
_TESTS: Final = str(Path(__file__).parents[1])
_OWN: Final = __file__


class Placing(TorchFunctionMode):
    """Makes what the tests make without naming a device on `device`; what a generator of the host draws is the same there."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self._makers: set[Any] = _device_constructors()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in self._makers or kwargs.get("device") is not None or not _is_a_tests():
            return func(*args, **kwargs)
        if kwargs.get("generator") is not None:
            return func(*args, **kwargs).to(self._device)
        return func(*args, **{**kwargs, "device": self._device})


def _is_a_tests() -> bool:
    """Whether a test calls, itself or by torch's own code."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith((_TORCH, _OWN, "<")):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_TESTS)
