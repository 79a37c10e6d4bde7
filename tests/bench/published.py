"""Whole models in one file, of the published shapes of Stable Diffusion 1.x and SDXL, with made-up numbers."""

import json
import struct
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from tests.helpers.originals import original_names, published

_POOL: Final = 2**24
"""Numbers that are drawn; a larger tensor repeats them."""


def write_published(folder: Path, kind: str) -> Path:
    """kind: "sd1" or "sdxl"; in float16. The numbers are of the sizes that a network begins with, so that pictures are noise. The
    file is written tensor by tensor: it need not fit into memory.
    """
    pool = np.random.default_rng(0).standard_normal(_POOL, dtype=np.float32)
    tensors = original_names(published(kind))
    header: dict[str, object] = {}
    end = 0
    for name, value in tensors.items():
        size = value.numel() * (2 if value.is_floating_point() else 8)
        kind_of = "F16" if value.is_floating_point() else "I64"
        header[name] = {"dtype": kind_of, "shape": list(value.shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path = folder / f"{kind}.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, value in tensors.items():
            file.write(_made(name, value, pool).tobytes())
    return path


def _made(name: str, value: torch.Tensor, pool: NDArray[np.float32]) -> NDArray[np.generic]:
    count = value.numel()
    if not value.is_floating_point():
        return np.arange(count, dtype=np.int64)
    if value.dim() < 2:
        return np.full(count, float(name.endswith(".weight")), np.float16)
    size = 0.02 if "embed" in name else value[0].numel() ** -0.5
    return np.resize(pool, count).astype(np.float16) * np.float16(size)
