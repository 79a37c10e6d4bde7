"""What this machine may compute on, found without loading torch: how PyTorch was built, and what the system shows."""

import importlib.util
import platform
import re
import sys
from pathlib import Path
from typing import Final

import psutil

from halftone.contract.facts import DeviceFacts
from halftone.contract.wording import Words, either

_BUILT_FOR: Final = re.compile(r"^(cuda|hip|xpu)\b[^=]*= *'", re.MULTILINE)
"""Lines of torch/version.py that name the version of a toolkit instead of None."""
_SIGNS: Final[dict[str, tuple[str, ...]]] = {
    "cuda": ("proc/driver/nvidia", "dev/nvidiactl", "dev/nvhost-gpu", "dev/kfd", "dev/dxg"),
    "xpu": ("dev/dri", "dev/dxg"),
}
"""What Linux shows of cards that PyTorch calls so."""


def possible_kinds(version_file: Path | None = None) -> tuple[str, ...]:
    """What the installed PyTorch was built for, preferred first, as it spells devices; "cpu" always.

    version_file: torch/version.py, None for that of the installed torch.
    """
    file = version_file or _version_file()
    built = set(_BUILT_FOR.findall(file.read_text(encoding="utf-8"))) if file is not None and file.is_file() else set[str]()
    kinds = [kind for kind, names in (("cuda", {"cuda", "hip"}), ("xpu", {"xpu"})) if names & built]  # AMD's cards are cuda too
    if sys.platform == "darwin" and platform.machine() == "arm64":
        kinds.append("mps")
    return (*kinds, "cpu")


def names_here(version_file: Path | None = None, root: Path = Path("/")) -> Words | str:
    """The devices to choose from, for a sentence: "auto or cpu". root: below which Linux shows its cards."""
    here = [kind for kind in possible_kinds(version_file) if kind not in _SIGNS or _shown(kind, root)]
    return either("auto", *(f"{kind}:0" if kind in _SIGNS else kind for kind in here))


def most_memory(device: DeviceFacts) -> int | None:
    """Bytes that a job on the device can have at the very most: what the system puts in for it counts, too. None: not known."""
    if device.memory_total is None:
        return None
    if device.backend in ("cpu", "mps"):
        return device.memory_total + psutil.swap_memory().total
    stands_in = device.backend == "xpu" or sys.platform == "win32"  # these lend the card what the machine has
    return device.memory_total + (psutil.virtual_memory().total if stands_in else 0)


def _version_file() -> Path | None:
    found = importlib.util.find_spec("torch")
    return Path(found.origin).with_name("version.py") if found is not None and found.origin else None


def _shown(kind: str, root: Path) -> bool:
    return not sys.platform.startswith("linux") or any((root / sign).exists() for sign in _SIGNS[kind])
