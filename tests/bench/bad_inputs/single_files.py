"""Whole models in one file, with tensors that are missing, of another shape, type or name."""

import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import torch
from tests.bench.bad_inputs.case import Case
from tests.bench.bad_inputs.folders import CHANGES, read_tensors, write_tensors
from tests.bench.bad_inputs.models import place, uses
from tests.bench.families.table import Case as Family
from tests.helpers import tiny
from tests.helpers.all_in_one import put_small_files, save_all_in_one
from tests.helpers.originals import save_original, tiny_original

_EACH: Final = 22
_KINDS: Final = ("sd1", "sd2", "sdxl", "flux", "sd3")
_FILE: Final = "model.safetensors"
_STARTS: Final = (
    "model.diffusion_model.",
    "first_stage_model.",
    "vae.",
    "cond_stage_model.",
    "conditioner.",
    "text_encoders.",
    "",
)


@cache
def _sound(kind: str) -> Path:
    path = place() / f"{kind}.safetensors"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind in ("flux", "sd3"):
            save_all_in_one(kind, path)
        else:
            save_original(tiny_original(kind), path, dtype=torch.float32)
    return path


def cases(rng: random.Random) -> Iterator[Case]:
    """Every kind of file, spoilt one way each."""
    for kind in _KINDS:
        family = Family(kind, tiny.sd15, "", size=64)
        for index in range(_EACH):
            name, spoil = _spoilt(kind, rng)
            yield Case("single_files", f"{kind} {index}: {name}", _made(kind, spoil), uses(family, path=_FILE))


def _made(kind: str, spoil: Callable[[Path], object]) -> Callable[[Path], object]:
    source = _sound(kind)

    def make(folder: Path) -> None:
        put_small_files()
        shutil.copyfile(source, folder / _FILE)
        spoil(folder / _FILE)

    return make


def _spoilt(kind: str, rng: random.Random) -> tuple[str, Callable[[Path], object]]:
    drawn, seed = rng.random(), rng.random()
    if drawn < 0.6:
        what, change = rng.choice(CHANGES)

        def spoil(file: Path) -> None:
            header, body = read_tensors(file)
            change(header, random.Random(seed))
            write_tensors(file, header, body)

        return f"{what} ({seed:.3f})", spoil
    if drawn < 0.75:
        start = rng.choice(_STARTS[:-1])
        return f"without {start}", lambda file: _without(file, start)
    if drawn < 0.9:
        other = rng.choice([one for one in _KINDS if one != kind])
        start = rng.choice(_STARTS)
        return f"with {start or 'all'} of {other}", lambda file: _with(file, _sound(other), start)
    kept = rng.random()
    return f"cut off at {kept:.2f}", lambda file: file.write_bytes(file.read_bytes()[: int(kept * file.stat().st_size)])


def _without(file: Path, start: str) -> None:
    header, body = read_tensors(file)
    write_tensors(file, {name: entry for name, entry in header.items() if not name.startswith(start)}, body)


def _with(file: Path, other: Path, start: str) -> None:
    """Tensors of another model in the place of these, or beside them."""
    header, body = read_tensors(file)
    theirs, more = read_tensors(other)
    for name, entry in theirs.items():
        if name != "__metadata__" and name.startswith(start):
            first, last = entry["data_offsets"]
            header[name] = {**entry, "data_offsets": [first + len(body), last + len(body)]}
    write_tensors(file, header, body + more)
