"""Latents on disk: kept when a picture could not be finished, and read back to decode them again."""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from halftone.contract.errors import HalftoneError
from halftone.settings.atomic import create_atomically
from halftone.settings.places import data_dir

DECODER_INPUT = "decoder-input"
DENOISING = "denoising"


def keep_latents(latents: torch.Tensor, stage: str, seed: int, model: str) -> Path:
    """Write latents atomically below the data folder. stage: DECODER_INPUT (can be decoded) or DENOISING (the last good step).

    Raises OSError; then no part of them is left.
    """
    folder = data_dir() / "latents"
    folder.mkdir(parents=True, exist_ok=True)
    content = save({"latents": latents.detach().cpu().contiguous()}, {"stage": stage, "seed": str(seed), "model": model})
    number = 0
    while True:
        path = folder / f"{seed}-{number}.safetensors"
        try:
            create_atomically(path, content)
        except FileExistsError:
            number += 1
        else:
            return path


def read_latents(path: Path) -> torch.Tensor:
    """What `keep_latents` wrote for the decoder. Raises image-unreadable, or latents-unfinished for those of a step."""
    try:
        with safe_open(path, "pt") as opened:
            stage = (opened.metadata() or {}).get("stage")
            if stage == DENOISING:
                raise HalftoneError("latents-unfinished", path=str(path))
            if stage != DECODER_INPUT:
                raise HalftoneError("image-unreadable", path=str(path))
            return opened.get_tensor("latents")
    except (OSError, SafetensorError) as error:
        raise HalftoneError("image-unreadable", path=str(path)) from error
