"""Safetensors files with some tensors scaled by powers of two; everything else stays bit for bit."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from halftone.engine.precision import split_rows


def scaled(tensor: torch.Tensor, rows: int | None, k: int) -> torch.Tensor:
    """tensor (or its first rows) times 2**k: in its own dtype where that is exact for every element, else in float32, where it
    is.
    """
    wide = tensor.float()
    part = wide if rows is None else wide[:rows]
    part = torch.ldexp(part, torch.tensor(k))
    wide = part if rows is None else torch.cat([part, wide[rows:]])
    narrow = wide.to(tensor.dtype)
    return narrow if torch.equal(narrow.float(), wide) else wide


def rewrite(source: Path, target: Path, exponents: Mapping[str, int], note: str) -> set[str]:
    """Write `source` to `target` (which may be the same file) with the named tensors scaled; the names that were found.

    exponents: tensor name, or "name[:rows]" for its first rows -> k. note: stands in the file's metadata with the exponents.
    Written
    beside the target, synced, and moved over it, so that a stop never leaves half a file. Raises OSError.
    """
    with safe_open(source, "pt") as opened:
        names = set(opened.keys())
        found = {name: k for name, k in exponents.items() if split_rows(name)[0] in names}
        if not found:
            return set()
        metadata = {**(opened.metadata() or {}), "halftone": json.dumps({"change": note, "exponents": found})}
        tensors = {name: opened.get_tensor(name) for name in sorted(names)}
    for name, k in found.items():
        base, rows = split_rows(name)
        tensors[base] = scaled(tensors[base], rows, k)
    part = target.with_name(f"{target.name}.part")
    try:
        save_file(tensors, part, metadata)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return set(found)
