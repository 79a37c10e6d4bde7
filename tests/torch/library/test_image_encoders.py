"""The configuration of a published image encoder is read from the shapes of its one file."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.headers import header_of, write_sparse
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection, SiglipVisionConfig, SiglipVisionModel

from halftone.library.add_ons.image_encoders import encoder_config

CLIP: dict[str, Any] = {"num_attention_heads": 16, "patch_size": 14, "image_size": 224, "hidden_act": "gelu"}
PUBLISHED: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "OpenCLIP-H": (
        CLIPVisionModelWithProjection,
        CLIPVisionConfig,
        {**CLIP, "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "projection_dim": 1024},
    ),
    "OpenCLIP-bigG": (
        CLIPVisionModelWithProjection,
        CLIPVisionConfig,
        {**CLIP, "hidden_size": 1664, "intermediate_size": 8192, "num_hidden_layers": 48, "projection_dim": 1280},
    ),
    "CLIP-L": (
        CLIPVisionModelWithProjection,
        CLIPVisionConfig,
        {**CLIP, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "projection_dim": 768}
        | {"hidden_act": "quick_gelu"},
    ),
    "SigLIP": (
        SiglipVisionModel,
        SiglipVisionConfig,
        {"num_attention_heads": 16, "patch_size": 14, "image_size": 384, "hidden_act": "gelu_pytorch_tanh"}
        | {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27},
    ),
}
"""Class, class of its configuration, and what stands in that."""


@pytest.mark.parametrize("prefixed", [True, False])
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_shapes_tell_how_a_published_encoder_is_built(name: str, prefixed: bool, tmp_path: Path) -> None:
    kind, config, known = PUBLISHED[name]
    with torch.device("meta"):
        state = kind(config(**known)).state_dict()
    names = {key.removeprefix("vision_model."): tuple(value.shape) for key, value in state.items()}
    start = "vision_model." if prefixed else ""
    shapes = {key if key.startswith("visual_") else start + key: shape for key, shape in names.items()}
    file = write_sparse(tmp_path / "encoder.safetensors", header_of(shapes))
    found = config.from_dict(dict(encoder_config(file)))
    assert {key: getattr(found, key) for key in known} == known


def test_another_file_is_no_encoder(tmp_path: Path) -> None:
    file = write_sparse(tmp_path / "other.safetensors", header_of({"decoder.conv_in.weight": (8, 4, 3, 3)}))
    assert encoder_config(file) == {}
    assert encoder_config(tmp_path / "absent.safetensors") == {}


def test_an_encoder_of_another_shape_is_none(tmp_path: Path) -> None:
    file = write_sparse(tmp_path / "flat.safetensors", header_of({"embeddings.patch_embedding.weight": (8, 588)}))
    assert encoder_config(file) == {}
