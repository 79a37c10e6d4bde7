"""Which devices a refusal may name, from how PyTorch was built and what the system shows."""

import sys
from pathlib import Path

import pytest

from halftone.cli.jobs.hardware import names_here, possible_kinds

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the signs are Linux's")


def version_file(folder: Path, **built: str) -> Path:
    """torch/version.py as the builds write it."""
    lines = ["from typing import Optional", "__all__ = ['__version__', 'cuda', 'hip', 'xpu']", "__version__ = '2.13.0'"]
    lines += [f"{name}: Optional[str] = {built[name]!r}" if name in built else f"{name}: Optional[str] = None" for name in NAMES]
    path = folder / "version.py"
    path.write_text("\n".join(lines))
    return path


NAMES = ("cuda", "hip", "rocm", "xpu")


@ON_LINUX
@pytest.mark.parametrize(
    ("built", "sign", "said"),
    [
        ({}, "proc/driver/nvidia", "auto or cpu"),
        ({"cuda": "13.0"}, "dev", "auto or cpu"),
        ({"cuda": "13.0"}, "proc/driver/nvidia", "auto, cuda:0 or cpu"),
        ({"hip": "7.0", "rocm": "7.0"}, "dev/kfd", "auto, cuda:0 or cpu"),
        ({"xpu": "2025"}, "dev/dri", "auto, xpu:0 or cpu"),
    ],
)
def test_only_what_is_here_is_named(tmp_path: Path, built: dict[str, str], sign: str, said: str) -> None:
    (tmp_path / sign).mkdir(parents=True)
    assert str(names_here(version_file(tmp_path, **built), tmp_path)) == said


@ON_LINUX
def test_what_pytorch_was_built_for_is_possible_wherever_the_card_hides(tmp_path: Path) -> None:
    assert possible_kinds(version_file(tmp_path, cuda="13.0")) == ("cuda", "cpu")
    assert possible_kinds(version_file(tmp_path)) == ("cpu",)
    assert possible_kinds(tmp_path / "missing") == ("cpu",)
