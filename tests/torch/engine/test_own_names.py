"""Transformers in the names of their makers: every number comes to where diffusers has it."""

import warnings
from collections.abc import Callable
from typing import Any

import diffusers
import pytest
import torch
from accelerate import init_empty_weights
from tests.bench.families import flows, kin
from tests.bench.families.remade import remade
from tests.bench.faults import architectures as pictures
from tests.bench.faults import videos
from tests.helpers import makers_names as names
from tests.helpers import tiny
from tests.helpers.originals import unet_name
from tests.helpers.transformer_files import flux_original

from halftone.engine.extras.own_names import converted
from halftone.engine.weights.file_tensors import misfit

Way = names.Way | Callable[[Any], dict[str, torch.Tensor]]


def kolors(unet: Any) -> dict[str, torch.Tensor]:
    """The layer that its text goes through is called alike by all."""
    return {
        name if name.startswith("encoder_hid_proj.") else unet_name(name, unet): value
        for name, value in unet.state_dict().items()
    }


TINY: dict[str, tuple[Callable[[], Any], Way]] = {
    "Sana": (lambda: tiny.sana().transformer, names.SANA),
    "Sana 1.5": (lambda: remade(tiny.sana().transformer, qk_norm="rms_norm_across_heads"), names.SANA),
    "Sana Sprint": (lambda: flows.sana_sprint().transformer, names.SPRINT),
    "PixArt-α": (lambda: flows.pixart_alpha().transformer, names.PIXART),
    "PixArt-Σ": (lambda: pictures.pixart().transformer, names.PIXART),
    "HunyuanDiT": (lambda: pictures.hunyuandit().transformer, names.HUNYUAN_DIT),
    "Kolors": (lambda: kin.kolors().unet, kolors),
    "AuraFlow": (lambda: pictures.auraflow().transformer, names.AURA_FLOW),
    "FLUX.2": (lambda: flows.flux2().transformer, names.FLUX2),
    "FLUX.2 klein": (lambda: flows.flux2_klein().transformer, names.FLUX2),
    "Z-Image": (lambda: pictures.z_image().transformer, names.Z_IMAGE),
    "Qwen-Image": (lambda: videos.qwen_image().transformer, names.Way(())),
    "Wan": (lambda: videos.wan().transformer, names.WAN),
}
WIDE = {"num_layers": 1, "num_single_layers": 1, "attention_head_dim": 128, "num_attention_heads": 24}
"""diffusers takes the joined layers of some families apart at the published width."""
PUBLISHED: dict[str, tuple[Callable[[], Any], dict[str, Any], Way]] = {
    "Chroma": (lambda: pictures.chroma().transformer, {**WIDE, "axes_dims_rope": (16, 56, 56)}, names.CHROMA),
    "FLUX.1": (lambda: flows.flux_dev().transformer, {**WIDE, "axes_dims_rope": (16, 56, 56)}, flux_original),
    "Lumina 2": (
        lambda: pictures.lumina2().transformer,
        {"hidden_size": 2304, "num_attention_heads": 24, "num_kv_heads": 8, "axes_dim_rope": (32, 32, 32), "num_layers": 1},
        names.LUMINA2,
    ),
}

HEADS = {"num_attention_heads": 2, "attention_head_dim": 16}
BARE: dict[str, tuple[str, dict[str, Any], names.Way]] = {
    "Krea 2": ("Krea2Transformer2DModel", {"num_attention_heads": 2, "num_layers": 2, "num_key_value_heads": 1}, names.KREA2),
    "LTX-2": ("LTX2VideoTransformer3DModel", {"num_layers": 2}, names.LTX2),
    "Cosmos Predict2": ("CosmosTransformer3DModel", {**HEADS, "num_layers": 2, "extra_pos_embed_type": None}, names.COSMOS2),
    "Mochi": ("MochiTransformer3DModel", HEADS, names.MOCHI),
    "HunyuanVideo": (
        "HunyuanVideoTransformer3DModel",
        {"num_layers": 1, "num_single_layers": 1, "num_refiner_layers": 1},
        names.HUNYUAN_VIDEO,
    ),
}
"""Their names alone: class, configuration, way."""


def as_made(module: Any, way: Way) -> dict[str, torch.Tensor]:
    return names.theirs(module, way) if isinstance(way, names.Way) else way(module)


@pytest.mark.parametrize("case", TINY)
def test_every_number_comes_to_its_place(case: str) -> None:
    build, way = TINY[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the libraries about themselves
        module = build()
    given = as_made(module, way)
    found = converted(module, given)
    assert misfit(module, found) is None
    assert {name for name, value in module.named_parameters() if not torch.equal(found[name], value)} == set()


@pytest.mark.parametrize("case", PUBLISHED)
def test_every_tensor_of_the_published_width_comes_to_its_place(case: str) -> None:
    build, changes, way = PUBLISHED[case]
    with warnings.catch_warnings(), init_empty_weights(include_buffers=False):
        warnings.simplefilter("ignore")  # the libraries about themselves
        module = remade(build(), **changes)
    assert misfit(module, converted(module, as_made(module, way))) is None


@pytest.mark.parametrize("case", BARE)
def test_every_tensor_of_a_network_without_numbers_comes_to_its_place(case: str) -> None:
    kind, changes, way = BARE[case]
    with warnings.catch_warnings(), init_empty_weights(include_buffers=False):
        warnings.simplefilter("ignore")  # the libraries about themselves
        module = getattr(diffusers, kind)(**changes)
    assert misfit(module, converted(module, names.theirs(module, way))) is None


def test_a_style_that_only_older_files_have_is_the_first_row_of_its_table() -> None:
    module = remade(pictures.hunyuandit().transformer, use_style_cond_and_image_meta_size=True)
    given = names.theirs(module, names.HUNYUAN_DIT)
    style = given["style_embedder.weight"]
    found = converted(module, {**given, "style_embedder.weight": torch.cat([style, style + 1])})
    assert torch.equal(found["time_extra_emb.style_embedder.weight"], style)
