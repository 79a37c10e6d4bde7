"""Latents on disk: kept when a picture could not be finished, and read back to decode them again."""

import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from halftone.contract.errors import HalftoneError
from halftone.settings.places import data_dir

DECODER_INPUT = "decoder-input"
DENOISING = "denoising"


def keep_latents(latents: torch.Tensor, stage: str, seed: int, model: str) -> Path:
    """Write latents atomically below the data folder. stage: DECODER_INPUT (can be decoded) or DENOISING (the last good step)."""
    folder = data_dir() / "latents"
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while (path := folder / f"{seed}-{number}.safetensors").exists():
        number += 1
    part = path.with_suffix(".part")
    content = save({"latents": latents.detach().cpu().contiguous()}, {"stage": stage, "seed": str(seed), "model": model})
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return path


def read_latents(path: Path) -> torch.Tensor:
    """What `keep_latents` wrote for the decoder. Raises image-unreadable."""
    try:
        with safe_open(path, "pt") as opened:
            if (opened.metadata() or {}).get("stage") != DECODER_INPUT:
                raise HalftoneError("image-unreadable", path=str(path))
            return opened.get_tensor("latents")
    except (OSError, SafetensorError) as error:
        raise HalftoneError("image-unreadable", path=str(path)) from error
