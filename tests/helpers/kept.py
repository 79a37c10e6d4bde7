"""A file of kept latents, written without torch."""

from pathlib import Path
from typing import Any

import msgspec
from tests.helpers.model_files import ramp, safetensors
from tests.helpers.samples import picture_facts

from halftone.contract.plan import Plan
from halftone.contract.request import Numerics, ResolvedRequest
from halftone.health.pictures.unfinished_pictures import RECORD, Kept

ASKED = ResolvedRequest(
    prompt="a red sun",
    negative="rain",
    model="pocket",
    device="cpu",
    dtype="float16",
    width=64,
    height=48,
    steps=4,
    guidance=3.0,
    sampler="Euler",
    seed=7,
    batch=1,
    options={},
    numerics=Numerics(),
    reasons=(),
)


def write_kept(path: Path, model: str = "pocket", fingerprint: str = "abc", **changes: Any) -> Path:
    """Latents of a picture of 64 x 48 with seed 7. model: its path, and what `--model` takes."""
    request = msgspec.structs.replace(ASKED, model=model)
    kept = Kept(request=request, picture=picture_facts("", "asking"), plan=Plan(), path=model, fingerprint=fingerprint)
    kept = msgspec.structs.replace(kept, **changes)
    path.write_bytes(safetensors({"latents": ramp(1, 4, 6, 8)}, {RECORD: msgspec.json.encode(kept).decode()}))
    return path
