"""Whether torch.compile finds on this machine what it needs beside torch."""

import sys
from typing import Any, cast

import torch

from halftone.contract.wording import Words
from halftone.health.planning.usable_settings import NO_CPP, NO_TRITON, SPACE


def missing_compiler(device: torch.device) -> Words | None:
    """What is missing; None if nothing is."""
    if device.type == "cpu":
        if not has_cpp_compiler():
            return NO_CPP
        return SPACE if in_a_folder_with_a_space(torch.__file__) else None
    from torch.utils import _triton

    return None if cast("Any", _triton).has_triton() or device.type == "mps" else NO_TRITON


def in_a_folder_with_a_space(torch_file: str) -> bool:
    """torch 2.13 hands the linker its own folder without quotes, but on Windows (torch/_inductor/cpp_builder.py)."""
    return sys.platform != "win32" and any(letter.isspace() for letter in torch_file)


def has_cpp_compiler() -> bool:
    """As torch looks for it: the environment's CXX, then the usual names; it must run."""
    from torch._inductor import cpp_builder, exc

    try:
        cast("Any", cpp_builder).get_cpp_compiler()
    except (exc.InvalidCxxCompiler, OSError, RuntimeError):
        return False
    return True
