"""The accelerator in software, as a device of torch named "card": built once for each source and version of torch.

`torch.card` offers what `torch.cuda` does as far as Halftone and its libraries use it. Besides there are switches that no real
card has: a limit of memory, allocations that fail, by how much the device is behind the program, and counts of waits.
"""

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import types
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import torch
from tests.helpers.writing.recorder import CARD

NAME: Final = "card"
DEVICES: Final = 2
_SOURCE: Final = Path(__file__).with_name("card.cpp")
_EXTENSION: Final = "halftone_card"
_COMPILER: Final = os.environ.get("CXX", "c++")
_FLAGS: Final = ("-std=c++20", "-O1", "-w", "-fPIC", "-shared", f"-DTORCH_EXTENSION_NAME={_EXTENSION}")


def missing() -> str:
    """Why the card cannot be built here, or an empty string."""
    if sys.platform != "linux":
        return "the card in software is built on Linux only"
    if shutil.which(_COMPILER) is None:
        return "there is no C++ compiler"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "there are no headers of Python"
    return ""


@functools.cache
def install() -> Any:
    """Build the extension, and make torch know the device. Answers the extension with its switches and counts."""
    found = importlib.util.spec_from_file_location(_EXTENSION, _built())
    assert found is not None
    assert found.loader is not None
    extension = importlib.util.module_from_spec(found)
    found.loader.exec_module(extension)
    torch.utils.rename_privateuse1_backend(NAME)
    cast("Any", torch)._register_device_module(NAME, _module(extension))
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    # Between the processor and a private backend torch makes new parameters, which parts tied weights. On CUDA they stay.
    torch.__future__.set_swap_module_params_on_conversion(True)
    return extension


def _built() -> Path:
    """The extension's file: compiled once for each source, version of torch and of Python."""
    parts = (_SOURCE.read_text(encoding="utf-8"), torch.__version__, sys.version, " ".join(_FLAGS))
    mark = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    folder = Path(CARD)
    wanted = folder / f"{_EXTENSION}-{mark}.so"
    if wanted.exists():
        return wanted
    folder.mkdir(parents=True, exist_ok=True)
    made = wanted.with_suffix(f".{os.getpid()}")  # another process may build it too
    subprocess.run([_COMPILER, *_FLAGS, str(_SOURCE), *_torch_flags(), "-o", str(made)], check=True)
    made.replace(wanted)
    return wanted


def _torch_flags() -> list[str]:
    from torch.utils import cpp_extension

    headers = [*cpp_extension.include_paths(), sysconfig.get_path("include")]
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    return [*(f"-isystem{path}" for path in headers), *libraries, "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]


def _index(extension: Any, device: Any) -> int:
    if isinstance(device, int):
        return device
    index = None if device is None else torch.device(device).index
    return extension.current_device() if index is None else index


def _module(extension: Any) -> types.ModuleType:
    """What torch.cuda offers, for this device."""
    module: Any = types.ModuleType(f"torch.{NAME}")

    def index(device: Any = None) -> int:
        return _index(extension, device)

    @contextmanager
    def device(wanted: Any) -> Generator[None]:
        before = extension.current_device()
        extension.set_device(index(wanted))
        try:
            yield
        finally:
            extension.set_device(before)

    @contextmanager
    def stream(wanted: torch.Stream | None) -> Generator[None]:
        if wanted is None:
            yield
            return
        before = torch.accelerator.current_stream(wanted.device)
        torch.accelerator.set_stream(wanted)
        try:
            yield
        finally:
            torch.accelerator.set_stream(before)

    def generator(wanted: Any = None) -> torch.Generator:
        return extension.default_generator(index(wanted))

    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module.device_count = lambda: DEVICES
    module.current_device = extension.current_device
    module.set_device = lambda wanted: extension.set_device(index(wanted))
    module.device = device
    module.stream = stream
    module.Stream = lambda device=None, **_: torch.Stream(device or NAME)
    module.Event = lambda **_: torch.Event(NAME)
    module.current_stream = lambda wanted=None: torch.accelerator.current_stream(torch.device(NAME, index(wanted)))
    module.synchronize = lambda wanted=None: torch.accelerator.synchronize(index(wanted))
    module.empty_cache = lambda: None
    module.memory_allocated = lambda wanted=None: extension.used(index(wanted))
    module.memory_reserved = module.memory_allocated
    module.max_memory_allocated = lambda wanted=None: extension.peak(index(wanted))
    module.reset_peak_memory_stats = lambda wanted=None: torch.accelerator.reset_peak_memory_stats(index(wanted))
    module.mem_get_info = lambda wanted=None: torch.accelerator.get_memory_info(index(wanted))
    module.get_device_name = lambda wanted=None: f"Card in software {index(wanted)}"
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    module.is_bf16_supported = lambda: True
    module.manual_seed = lambda seed: generator().manual_seed(seed)
    module.manual_seed_all = lambda seed: [generator(one).manual_seed(seed) for one in range(DEVICES)]
    module.get_rng_state = lambda wanted=None: generator(wanted).get_state()
    module.set_rng_state = lambda state, wanted=None: generator(wanted).set_state(state)
    module.default_generators = [generator(one) for one in range(DEVICES)]
    return module
