"""Model files for tests, written byte by byte: no torch, no safetensors library."""

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Tensor = NDArray[np.generic]
_NAMES = {"float16": "F16", "float32": "F32", "float64": "F64", "uint8": "U8", "int64": "I64"}


def safetensors(tensors: Mapping[str, Tensor | tuple[str, Tensor]], metadata: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file; a pair gives the bytes another type's name, for types that numpy has not ("BF16", uint16 array)."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    body = b""
    for name, value in tensors.items():
        dtype, array = value if isinstance(value, tuple) else (_NAMES[value.dtype.name], value)
        data = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    return with_header(json.dumps(header).encode(), body)


def with_header(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + body


def ramp(*shape: int) -> NDArray[np.float16]:
    """Harmless half-precision weights, all different."""
    return np.linspace(-1.0, 1.0, math.prod(shape), dtype=np.float16).reshape(shape)


def write_folder(root: Path, pipeline: str = "StableDiffusionPipeline") -> Path:
    """A diffusers folder with everything a description needs and almost no weights."""
    index = {
        "_class_name": pipeline,
        "_diffusers_version": "0.38.0",
        "safety_checker": [None, None],
        "requires_safety_checker": False,
        "scheduler": ["diffusers", "DDIMScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    write_json(root / "model_index.json", index)
    write_json(root / "scheduler" / "scheduler_config.json", {"_class_name": "DDIMScheduler"})
    write_json(root / "tokenizer" / "tokenizer_config.json", {"model_max_length": 77})
    write_json(root / "tokenizer" / "vocab.json", {"a": 0})
    (root / "tokenizer" / "merges.txt").write_text("#version: 0.2\n")
    for name, config in (
        ("text_encoder", {"hidden_size": 8}),
        ("unet", {"sample_size": 32, "cross_attention_dim": 768}),
        ("vae", {"block_out_channels": [8, 16, 32]}),
    ):
        write_json(root / name / "config.json", config)
        stem = "model" if name == "text_encoder" else "diffusion_pytorch_model"
        (root / name / f"{stem}.safetensors").write_bytes(safetensors({f"{name}.weight": ramp(4, 4)}))
    return root


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
