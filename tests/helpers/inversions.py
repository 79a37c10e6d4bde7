"""Files of textual inversions that say what a tiny model's own words say, so that a picture with either is the same."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tests.helpers.tiny import load_tiny

_ENCODERS = {"clip_l": ("tokenizer", "text_encoder"), "clip_g": ("tokenizer_2", "text_encoder_2")}


def rows_of(pipe: Any, encoder: str, words: str) -> torch.Tensor:
    """What a text encoder holds for these words."""
    tokenizer, name = (getattr(pipe, part) for part in _ENCODERS[encoder])
    ids = tokenizer(words, add_special_tokens=False)["input_ids"]
    return name.get_input_embeddings().weight[ids].detach().clone()


def same_as(model: Path, file: Path, words: str) -> Path:
    """A file whose vectors are those of the words in the model."""
    pipe = load_tiny(model)
    two = getattr(pipe, "text_encoder_2", None) is not None
    tensors = {encoder: rows_of(pipe, encoder, words) for encoder in _ENCODERS} if two else {}
    return saved(file, tensors or {"emb_params": rows_of(pipe, "clip_l", words)})


def saved(file: Path, tensors: dict[str, torch.Tensor]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, file)
    return file
