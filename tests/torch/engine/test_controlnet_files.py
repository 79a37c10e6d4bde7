"""Original single-file ControlNets give the outputs that they give after diffusers' own conversion."""

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import ControlNetModel
from diffusers.loaders.single_file_utils import convert_controlnet_checkpoint
from safetensors.torch import load_file
from tests.helpers.controls import Form, save_net
from tests.helpers.tiny import liven, load_tiny

from halftone.library.add_ons.controlnets import parameter_names, shaped
from halftone.library.files.header import read_header

CHANNELS = (4, 8, 8, 8)
"""As many as in published files: diffusers' conversion expects the last layer of the hint's encoder at 14."""


def made(model: Path) -> Any:
    torch.manual_seed(11)
    net: Any = ControlNetModel.from_unet(load_tiny(model).unet, conditioning_embedding_out_channels=CHANNELS)
    liven(net)
    return net.eval()


def outputs(net: Any, tensors: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """What a ControlNet of this configuration gives with these tensors, every one of them used."""
    other: Any = ControlNetModel.from_config(net.config)
    other.load_state_dict({name: value.float() for name, value in tensors.items()}, strict=True)
    torch.manual_seed(3)
    text = torch.randn(1, 7, net.config.cross_attention_dim)
    added = {}
    if net.config.addition_embed_type:
        sizes, each = 6, net.config.addition_time_embed_dim
        pooled = torch.randn(1, net.config.projection_class_embeddings_input_dim - sizes * each)
        added = {"added_cond_kwargs": {"text_embeds": pooled, "time_ids": torch.ones(1, sizes)}}
    with torch.no_grad():
        picture = torch.rand(1, 3, 64, 64)
        down, mid = other.eval()(torch.randn(1, 4, 8, 8), 500, text, picture, return_dict=False, **added)
    return [*down, mid]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", ["original", "prefixed"])
@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_the_outputs_are_those_of_the_reference(
    models: dict[str, Path], tmp_path: Path, family: str, form: Form, dtype: torch.dtype
) -> None:
    net = made(models[family]).to(dtype)
    file = save_net(net, tmp_path / "net", form)
    given = load_file(file)
    ours = {name: given[theirs] for theirs, name in parameter_names(read_header(file)).items()}
    assert shaped({name: tuple(value.shape) for name, value in ours.items()})["conditioning_embedding_out_channels"] == [
        *CHANNELS
    ]
    reference = dict(net.state_dict())
    if family == "sd15":  # diffusers' conversion drops the size input of SDXL
        reference = convert_controlnet_checkpoint(given, net.config)
    for mine, theirs in zip(outputs(net, ours), outputs(net, reference), strict=True):
        assert (mine - theirs).abs().max() <= 1e-5 * theirs.abs().max()
