"""Whole models of the shapes of Stable Diffusion 1.x, SDXL and SD 3.5 medium as they were published, with made-up numbers."""

import json
import re
import shutil
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from diffusers import AutoencoderKL, SD3Transformer2DModel
from numpy.typing import NDArray
from tests.helpers import tiny
from tests.helpers.originals import original_names, published
from transformers import CLIPTextConfig, CLIPTextModelWithProjection

from halftone.settings.places import resources

_POOL: Final = 2**24
"""Numbers that are drawn. Each tensor begins at its own place among them and repeats what follows: layers with the same numbers
would amplify one another, which no trained network does.
"""
STREAM: Final = {
    "unet": re.compile(r"conv_in\.weight|.*resnets\.\d+\.conv2\.weight|.*attentions\.\d+\.proj_out\.weight"),
    "transformer": re.compile(
        r"pos_embed\.pos_embed|(pos_embed\.proj|context_embedder|.*\.(to_out\.0|to_add_out|net\.2))\.weight"
    ),
}
"""What writes into the residual streams; biases are zero."""
_MEDIUM: Final[dict[str, Any]] = {
    "sample_size": 128,
    "patch_size": 2,
    "in_channels": 16,
    "out_channels": 16,
    "num_layers": 24,
    "num_attention_heads": 24,
    "attention_head_dim": 64,
    "joint_attention_dim": 4096,
    "caption_projection_dim": 1536,
    "pooled_projection_dim": 2048,
    "pos_embed_max_size": 384,
    "dual_attention_layers": tuple(range(13)),
    "qk_norm": "rms_norm",
}


def write_published(folder: Path, kind: str) -> Path:
    """kind: "sd1" or "sdxl"; one file in float16. The numbers are of the sizes that a network begins with, so that pictures are
    noise. The file is written tensor by tensor: it need not fit into memory.
    """
    path = folder / f"{kind}.safetensors"
    _write(path, original_names(published(kind)))
    return path


def write_folder(folder: Path, kind: str, k: int = 0) -> Path:
    """kind: "sd15", "sdxl", or "sd35", which comes without its third text encoder. The same in diffusers' folders, with tiny
    tokenizers; what writes into the denoiser's residual streams is 2**k times as large.
    """
    pipe = getattr(tiny, {"sd35": "sd3"}.get(kind, kind))()
    if kind == "sd35":
        pipe.register_modules(text_encoder_3=None, tokenizer_3=None)
    pipe.to(torch.float16).save_pretrained(folder)
    for name, network in (_medium() if kind == "sd35" else published({"sd15": "sd1"}.get(kind, kind))).items():
        shutil.rmtree(folder / name)
        if hasattr(network, "save_config"):
            network.save_config(folder / name)
        else:
            network.config.dtype = torch.float16
            network.config.save_pretrained(folder / name)
        file = "model.safetensors" if name.startswith("text_encoder") else "diffusion_pytorch_model.safetensors"
        _write(folder / name / file, network.state_dict(), STREAM.get(name), k)
    return folder


def _medium() -> dict[str, Any]:
    """The parts of SD 3.5 medium without numbers, but for its table of positions."""
    vae: dict[str, Any] = json.loads((resources() / "configs" / "sd3" / "vae" / "config.json").read_text())
    with torch.device("meta"):
        parts: dict[str, Any] = {
            "transformer": SD3Transformer2DModel(**_MEDIUM),
            "vae": AutoencoderKL(**{name: value for name, value in vae.items() if not name.startswith("_")}),
        }
        for name in ("text_encoder", "text_encoder_2"):
            config = CLIPTextConfig(**json.loads((resources() / "configs" / "sd3" / name / "config.json").read_text()))
            parts[name] = CLIPTextModelWithProjection(config)
    return parts


def _write(path: Path, tensors: Mapping[str, torch.Tensor], larger: re.Pattern[str] | None = None, k: int = 0) -> None:
    pool = np.random.default_rng(0).standard_normal(_POOL, dtype=np.float32)
    header: dict[str, object] = {}
    end = 0
    for name, value in tensors.items():
        size = value.numel() * (2 if value.is_floating_point() else 8)
        kind_of = "F16" if value.is_floating_point() else "I64"
        header[name] = {"dtype": kind_of, "shape": list(value.shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, value in tensors.items():
            made = _made(name, value, pool)
            file.write((np.ldexp(made, k, dtype=np.float16) if k and larger and larger.fullmatch(name) else made).tobytes())


def _made(name: str, value: torch.Tensor, pool: NDArray[np.float32]) -> NDArray[np.generic]:
    count = value.numel()
    if not value.is_floating_point():
        return np.arange(count, dtype=np.int64)
    if value.dim() < 2:
        return np.full(count, float(name.endswith(".weight")), np.float16)
    size = 0.02 if "embed" in name else value[0].numel() ** -0.5
    return np.resize(pool[zlib.crc32(name.encode()) % (_POOL // 2) :], count).astype(np.float16) * np.float16(size)
