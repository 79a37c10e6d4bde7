"""Whether torch.compile finds on this machine what it needs beside torch."""

from typing import Any, cast

import torch

_NO_CPP = "PyTorch finds no C++ compiler, which it needs to compile for a processor."
_NO_TRITON = "PyTorch finds no Triton, which it needs to compile for a GPU."


def missing_compiler(device: torch.device) -> str:
    """A sentence about what is missing, "" if nothing is."""
    if device.type == "cpu":
        return "" if has_cpp_compiler() else _NO_CPP
    from torch.utils import _triton

    return "" if cast("Any", _triton).has_triton() or device.type == "mps" else _NO_TRITON


def has_cpp_compiler() -> bool:
    """As torch looks for it: the environment's CXX, then the usual names; it must run."""
    from torch._inductor import cpp_builder, exc

    try:
        cast("Any", cpp_builder).get_cpp_compiler()
    except (exc.InvalidCxxCompiler, OSError, RuntimeError):
        return False
    return True
