"""Tiny VAEs that fit the tiny models, as the folders and files that people have."""

from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from tests.helpers.originals import vae_tensors
from tests.helpers.tiny import liven, vae

Form = Literal["folder", "fp16 folder", "original", "prefixed", "diffusers", "old diffusers"]
OLD = {".to_q.": ".query.", ".to_k.": ".key.", ".to_v.": ".value.", ".to_out.0.": ".proj_attn."}


def other_vae(seed: int = 7, channels: int = 4, **extra: Any) -> Any:
    """One with other numbers than those of the tiny models."""
    torch.manual_seed(seed)
    made = vae(channels, **extra)
    liven(made)
    return made.eval()


def save_vae(made: Any, place: Path, form: Form = "original") -> Path:
    """`place` without an ending; what was written."""
    if "folder" in form:
        made.save_pretrained(place, variant="fp16" if form.startswith("fp16") else None)
        return place
    tensors = made.state_dict()
    if form == "old diffusers":
        for new, old in OLD.items():
            tensors = {name.replace(new, old): value for name, value in tensors.items()}
    elif form != "diffusers":
        tensors = vae_tensors(made)
    start = "first_stage_model." if form == "prefixed" else ""
    path = place.with_suffix(".safetensors")
    save_file({start + name: value.clone().contiguous() for name, value in tensors.items()}, path)
    return path
