"""Safetensors files with some tensors scaled by powers of two; everything else stays bit for bit, in its order.

Written by hand, not by the library: it would shuffle the metadata, and hold the whole file in memory.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import torch

from halftone.engine.loading.folder_parts import PREFIXES
from halftone.engine.weights.precision import split_rows
from halftone.library.files.copies import MERGED

DTYPES: Final = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}


def scaled(tensor: torch.Tensor, rows: slice, k: int) -> torch.Tensor:
    """tensor (or only some rows of it) times 2**k: in its own dtype where that is exact for every element, else in float32."""
    wide = tensor.to(torch.float32, copy=True)
    part = wide[rows] if wide.dim() else wide
    part.copy_(torch.ldexp(part, torch.tensor(k)))
    narrow = wide.to(tensor.dtype)
    return narrow if torch.equal(narrow.float(), wide) else wide


def rewrite(
    source: Path,
    target: Path,
    exponents: Mapping[str, int],
    note: str,
    merged: Mapping[str, torch.Tensor] | None = None,
    loras: Sequence[str] = (),
) -> dict[str, bool]:
    """Write `source` to `target` (may be the same file) with the named tensors scaled. Returns their names -> whether they differ
    now (a bias of zeros does not).

    exponents: tensor name, or "name[a:b]" for some of its rows -> k; note: goes into the metadata with them, added to what stands
    there. merged: parameter -> value in place of the file's, rounded to its type; loras: what was merged, for the metadata.
    Written beside the target, synced and moved over it, so that a stop never leaves half a file. Raises OSError.
    """
    with source.open("rb") as file:
        header, start = _read(file)
        found = {name: k for name, k in exponents.items() if _own_name(split_rows(name)[0], header) is not None}
        new = {own: (name, tensor) for name, tensor in (merged or {}).items() if (own := _own_name(name, header)) is not None}
        if not found and not new:
            return {}
        changed = {own: _rounded(tensor, DTYPES[header[own]["dtype"]]) for own, (_, tensor) in new.items()}
        changed = _changed(file, header, start, found, changed)
        differs = {own: not torch.equal(tensor, _stored(file, header, start, own)) for own, tensor in changed.items()}
        part = target.with_name(f"{target.name}.part")
        try:
            with part.open("wb") as out:
                _write(file, out, header, start, changed, _note(header, note, found, loras if new else ()))
                out.flush()
                os.fsync(out.fileno())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    scales = {name: differs[_own_name(split_rows(name)[0], header) or ""] for name in found}
    return scales | {name: differs[own] for own, (name, _) in new.items()}


def _own_name(name: str, header: Mapping[str, Any]) -> str | None:
    """What a file calls a parameter, None where it lacks it: some versions of the libraries write prefixes, others do not."""
    names = (prefix + name.removeprefix(other) for other in PREFIXES for prefix in PREFIXES)
    return next((own for own in names if own in header), None)


def _rounded(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Round to the type, unless the result would not be finite."""
    narrow = tensor.to(dtype)
    return narrow if bool(narrow.isfinite().all()) else tensor


def _note(header: Mapping[str, Any], note: str, found: Mapping[str, int], loras: Sequence[str]) -> str:
    """Write the metadata: what was done, which LoRAs were merged, and the total powers of two."""
    try:
        earlier = cast("dict[str, Any]", json.loads(header.get("__metadata__", {}).get("halftone", "{}")))
        before, merged = cast("dict[str, int]", earlier.get("exponents", {})), cast("list[str]", earlier.get("loras", []))
    except (ValueError, AttributeError):
        before, merged = {}, []
    names = dict.fromkeys((*before, *found))
    told: dict[str, Any] = {"change": note if names else MERGED}
    if every := [*merged, *loras]:
        told["loras"] = every
    return json.dumps({**told, "exponents": {name: before.get(name, 0) + found.get(name, 0) for name in names}})


def _read(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """(header, position of the first tensor byte)."""
    length = int.from_bytes(file.read(8), "little")
    return cast("dict[str, Any]", json.loads(file.read(length))), 8 + length


def _changed(
    file: BinaryIO, header: Mapping[str, Any], start: int, found: Mapping[str, int], merged: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    tensors = dict(merged)
    for name, k in found.items():
        base, rows = split_rows(name)
        own = _own_name(base, header) or base
        if own not in tensors:
            tensors[own] = _stored(file, header, start, own)
        tensors[own] = scaled(tensors[own], rows, k)
    return tensors


def _stored(file: BinaryIO, header: Mapping[str, Any], start: int, name: str) -> torch.Tensor:
    entry = header[name]
    first, last = entry["data_offsets"]
    file.seek(start + first)
    return torch.frombuffer(bytearray(file.read(last - first)), dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _write(
    file: BinaryIO, out: BinaryIO, header: Mapping[str, Any], start: int, changed: Mapping[str, torch.Tensor], note: str
) -> None:
    names = sorted((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"][0])
    new: dict[str, Any] = {"__metadata__": {**header.get("__metadata__", {}), "halftone": note}}
    position = 0
    for name in names:
        first, last = header[name]["data_offsets"]
        tensor = changed.get(name)
        size = last - first if tensor is None else tensor.numel() * tensor.element_size()
        dtype = header[name]["dtype"] if tensor is None else _NAMES[tensor.dtype]
        new[name] = {"dtype": dtype, "shape": header[name]["shape"], "data_offsets": [position, position + size]}
        position += size
    head = json.dumps(new, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    out.write(len(head).to_bytes(8, "little") + head)
    for name in names:
        tensor = changed.get(name)
        if tensor is None:
            first, last = header[name]["data_offsets"]
            file.seek(start + first)
            _copy(file, out, last - first)
        else:
            out.write(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def _copy(file: BinaryIO, out: BinaryIO, size: int) -> None:
    while size > 0:
        block = file.read(min(size, 2**24))
        if not block:
            raise OSError("the file became shorter while it was read")
        out.write(block)
        size -= len(block)
