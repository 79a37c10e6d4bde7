"""A model as other programs load it: a diffusers folder written as one file, and one file as a folder. No number changes."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open

from halftone.contract.engine import Control, Emit
from halftone.contract.facts import ModelFacts
from halftone.contract.messages import PhaseChanged
from halftone.engine.checks.rewrite import DTYPES
from halftone.engine.loading.load import stored_types
from halftone.engine.loading.single_file import load_single
from halftone.library.add_ons.vaes import VAE
from halftone.library.families.original_layout import Made
from halftone.library.files.folder import read_json
from halftone.library.layouts import plan_file

_FLAGS: Final = {
    "v_pred": ("prediction_type", "v_prediction"),
    "ztsnr": ("rescale_betas_zero_snr", True),
}
"""Empty tensors by which other programs know the noise schedule -> setting of the scheduler and its value."""


def write_as_file(facts: ModelFacts, target: Path, emit: Emit, control: Control) -> None:
    """Write a folder as one file. Raises as `plan_file`, OSError."""
    made, held = plan_file(facts)
    kinds = [{held[one.component][name][1].dtype for name in one.parameters} for one in made]
    types = ["F32" if len(kind) > 1 else kind.pop() for kind in kinds]
    with ExitStack() as stack, target.open("wb") as out:
        files: dict[Path, Any] = {}
        out.write(_header(made, types, _flags(Path(facts.path))))
        for number, (one, dtype) in enumerate(zip(made, types, strict=True)):
            control.check()
            rows: list[torch.Tensor] = []
            for name in one.parameters:
                file = held[one.component][name][0]
                if file not in files:
                    files[file] = stack.enter_context(safe_open(file, "pt"))
                rows.append(files[file].get_tensor(name).to(DTYPES[dtype]))
            out.write(_laid(one, rows).reshape(-1).view(torch.uint8).numpy().data)
            emit(PhaseChanged(phase="write", done=number + 1, total=len(made)))


def _laid(one: Made, rows: list[torch.Tensor]) -> torch.Tensor:
    value = rows[0] if len(rows) == 1 else torch.cat(rows)
    if one.swapped:
        value = torch.cat(value.chunk(2)[::-1])
    return (value.T if one.turned else value).contiguous()


def _flags(folder: Path) -> list[str]:
    path = folder / "scheduler" / "scheduler_config.json"
    config = read_json(path) if path.is_file() else {}
    return [name for name, (key, value) in _FLAGS.items() if config.get(key) == value]


def _header(made: tuple[Made, ...], types: list[str], flags: list[str]) -> bytes:
    found: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for one, dtype in zip(made, types, strict=True):
        size = DTYPES[dtype].itemsize * torch.Size(one.shape).numel()
        shape = one.shape[::-1] if one.turned else one.shape
        found[one.name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + size]}
        position += size
    found |= {name: {"dtype": "F32", "shape": [0], "data_offsets": [position, position]} for name in flags}
    head = json.dumps(found, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head


def write_as_folder(facts: ModelFacts, folder: Path, emit: Emit) -> None:
    """Write one file as a diffusers folder. Raises what loading raises, OSError."""
    emit(PhaseChanged(phase="write", done=0, total=1))
    load_single(facts, stored_types(facts)).save_pretrained(folder)
    emit(PhaseChanged(phase="write", done=1, total=1))


def stop_upcasting(folder: Path) -> None:
    """Let diffusers compute the VAE of a folder in the type it is loaded in. Raises OSError."""
    path = folder / VAE / "config.json"
    config = read_json(path)
    if config.get("force_upcast"):
        path.write_text(json.dumps(config | {"force_upcast": False}, indent=2) + "\n", encoding="utf-8")
