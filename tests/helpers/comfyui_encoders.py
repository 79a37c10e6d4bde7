"""Tiny text encoders of SD 3 and FLUX.1, as other programs load them: CLIP-L without a projection of its own, CLIP-G padded
with zeros.
"""

from pathlib import Path
from typing import Any

import torch
from diffusers import FluxPipeline
from tests.helpers import tiny
from tests.helpers.device import DEVICE
from transformers import T5Config, T5EncoderModel


def sd3(folder: Path) -> Any:
    """folder: of the tiny SD 3."""
    pipe = tiny.load_tiny(folder)
    with torch.no_grad():  # what diffusers puts there when it reads a single file of SD 3
        torch.nn.init.eye_(pipe.text_encoder.text_projection.weight)
    pipe.tokenizer_2.pad_token = "!"
    return pipe


def flux() -> Any:
    torch.manual_seed(0)
    t5 = T5EncoderModel(T5Config(vocab_size=128, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=2))
    encoders: dict[str, Any] = {"text_encoder": tiny.clip_text().eval(), "text_encoder_2": t5.eval()}
    tokenizers: dict[str, Any] = {"tokenizer": tiny.clip_tokenizer(), "tokenizer_2": tiny.t5_tokenizer()}
    none: dict[str, Any] = dict.fromkeys(("scheduler", "vae", "transformer"))
    return FluxPipeline(**none, **encoders, **tokenizers).to(DEVICE)
