"""What the classes of diffusers save is recognised: small ones on disk, those of the published sizes without memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import diffusers
import pytest
import torch
from tests.helpers.headers import header_of
from tests.helpers.originals import save_original, tiny_original

from halftone.library.families.recognise import Recognised, recognise
from halftone.library.files.header import read_header
from halftone.library.models import describe, runnable

pytestmark = pytest.mark.filterwarnings("ignore:.*FluxPosEmbed")  # said while a class is built, no matter of these tests

Config = dict[str, Any]
_BLOCKS: Config = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8, "attention_head_dim": 4}
_UNET: Config = {
    **_BLOCKS,
    "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
}
_XL: Config = {"addition_embed_type": "text_time", "addition_time_embed_dim": 8, "projection_class_embeddings_input_dim": 80}
_WIDE: Config = {**_UNET, **_XL, "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D")}
_VAE: Config = {
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "block_out_channels": (8, 16),
    "norm_num_groups": 4,
    "layers_per_block": 1,
}
_HEADS: Config = {"num_attention_heads": 2, "attention_head_dim": 16}
_ONE: Config = {**_HEADS, "num_layers": 1}
_FLUX: Config = {**_ONE, "num_single_layers": 1, "joint_attention_dim": 32, "axes_dims_rope": (4, 4, 8)}
_NETS: Config = {**_BLOCKS, "down_block_types": ("CrossAttnDownBlock2D",) * 2, "conditioning_embedding_out_channels": (8, 16)}

SMALL: dict[str, tuple[str, Config, str, str]] = {
    "sd1": ("UNet2DConditionModel", {**_UNET, "cross_attention_dim": 768}, "denoiser", "Stable Diffusion 1.x"),
    "sd2": ("UNet2DConditionModel", {**_UNET, "cross_attention_dim": 1024}, "denoiser", "Stable Diffusion 2.x"),
    "sdxl": ("UNet2DConditionModel", {**_WIDE, "cross_attention_dim": 2048}, "denoiser", "SDXL"),
    "refiner": ("UNet2DConditionModel", {**_WIDE, "cross_attention_dim": 1280}, "denoiser", "SDXL refiner"),
    "kolors": (
        "UNet2DConditionModel",
        {**_WIDE, "cross_attention_dim": 32, "encoder_hid_dim": 64, "encoder_hid_dim_type": "text_proj"},
        "denoiser",
        "Kolors",
    ),
    "sd3": ("SD3Transformer2DModel", {**_ONE, "sample_size": 8, "caption_projection_dim": 32}, "denoiser", "SD 3"),
    "flux": ("FluxTransformer2DModel", _FLUX, "denoiser", "FLUX"),
    "flux2": ("Flux2Transformer2DModel", {**_FLUX, "axes_dims_rope": (4, 4, 4, 4)}, "denoiser", "FLUX.2"),
    "chroma": (
        "ChromaTransformer2DModel",
        {**_FLUX, "approximator_hidden_dim": 32, "approximator_layers": 1},
        "denoiser",
        "Chroma",
    ),
    "sana": (
        "SanaTransformer2DModel",
        {
            **_ONE,
            "num_cross_attention_heads": 2,
            "cross_attention_head_dim": 16,
            "cross_attention_dim": 32,
            "caption_channels": 16,
        },
        "denoiser",
        "Sana",
    ),
    "pixart-alpha": ("PixArtTransformer2DModel", {**_ONE, "sample_size": 128, "cross_attention_dim": 32}, "denoiser", "PixArt-α"),
    "pixart-sigma": (
        "PixArtTransformer2DModel",
        {**_ONE, "sample_size": 8, "cross_attention_dim": 32, "use_additional_conditions": False},
        "denoiser",
        "PixArt-Σ",
    ),
    "hunyuan-dit": (
        "HunyuanDiT2DModel",
        {**_ONE, "in_channels": 4, "patch_size": 2, "sample_size": 8, "cross_attention_dim": 32, "cross_attention_dim_t5": 32}
        | {"pooled_projection_dim": 16, "hidden_size": 32, "text_len": 4, "text_len_t5": 4},
        "denoiser",
        "HunyuanDiT",
    ),
    "lumina2": (
        "Lumina2Transformer2DModel",
        {"hidden_size": 32, "num_layers": 1, "num_refiner_layers": 1, "num_attention_heads": 2, "num_kv_heads": 1}
        | {"cap_feat_dim": 16, "axes_dim_rope": (4, 6, 6), "axes_lens": (8, 8, 8), "in_channels": 4},
        "denoiser",
        "Lumina 2",
    ),
    "z-image": (
        "ZImageTransformer2DModel",
        {"dim": 32, "n_layers": 1, "n_refiner_layers": 1, "n_heads": 2, "n_kv_heads": 2, "cap_feat_dim": 16}
        | {"axes_dims": [4, 6, 6], "axes_lens": [8, 8, 8]},
        "denoiser",
        "Z-Image",
    ),
    "auraflow": (
        "AuraFlowTransformer2DModel",
        {"sample_size": 8, "num_mmdit_layers": 1, "num_single_dit_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2}
        | {"joint_attention_dim": 16, "caption_projection_dim": 32, "pos_embed_max_size": 16},
        "denoiser",
        "AuraFlow",
    ),
    "qwen": (
        "QwenImageTransformer2DModel",
        {**_ONE, "joint_attention_dim": 16, "axes_dims_rope": (4, 6, 6)},
        "denoiser",
        "Qwen-Image",
    ),
    "cogview4": ("CogView4Transformer2DModel", {**_ONE, "text_embed_dim": 16, "time_embed_dim": 16}, "denoiser", "CogView4"),
    "cascade": (
        "StableCascadeUNet",
        {
            "block_out_channels": (32, 32),
            "conditioning_dim": 16,
            "num_attention_heads": (2, 2),
            "down_num_layers_per_block": (1, 1),
        }
        | {"up_num_layers_per_block": (1, 1), "down_blocks_repeat_mappers": (1, 1), "up_blocks_repeat_mappers": (1, 1)}
        | {"timestep_ratio_embedding_dim": 8, "clip_text_in_channels": 16, "clip_text_pooled_in_channels": 16, "in_channels": 4}
        | {"out_channels": 4, "clip_image_in_channels": 16},
        "denoiser",
        "Stable Cascade",
    ),
    "svd": (
        "UNetSpatioTemporalConditionModel",
        {"block_out_channels": (32, 64), "layers_per_block": 1, "num_attention_heads": (2, 4), "cross_attention_dim": 32}
        | {"down_block_types": ("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal")}
        | {"up_block_types": ("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal")},
        "denoiser",
        "Stable Video Diffusion",
    ),
    "wan": ("WanTransformer3DModel", {**_ONE, "text_dim": 16, "ffn_dim": 32, "freq_dim": 16}, "denoiser", "Wan"),
    "ltx": (
        "LTXVideoTransformer3DModel",
        {**_ONE, "cross_attention_dim": 32, "caption_channels": 16, "in_channels": 8, "out_channels": 8},
        "denoiser",
        "LTX-Video",
    ),
    "vae-4": ("AutoencoderKL", {**_VAE, "latent_channels": 4}, "VAE", "VAE (4 channels)"),
    "vae-16": ("AutoencoderKL", {**_VAE, "latent_channels": 16, "use_quant_conv": False}, "VAE", "VAE (16 channels)"),
    "controlnet": ("ControlNetModel", {**_NETS, "cross_attention_dim": 768}, "ControlNet", "Stable Diffusion 1.x"),
    "controlnet-sdxl": ("ControlNetModel", {**_NETS, **_XL, "cross_attention_dim": 2048}, "ControlNet", "SDXL"),
    "controlnet-flux": ("FluxControlNetModel", {**_FLUX, "joint_attention_dim": 4096}, "ControlNet", "FLUX"),
}


def built(name: str, config: Config) -> torch.nn.Module:
    return cast("Callable[..., torch.nn.Module]", getattr(diffusers, name))(**config)


@pytest.mark.parametrize("case", SMALL)
def test_what_diffusers_saves_is_recognised(tmp_path: Path, case: str) -> None:
    name, config, kind, expected = SMALL[case]
    cast("Any", built(name, config)).save_pretrained(tmp_path)
    found = recognise(read_header(tmp_path / "diffusion_pytorch_model.safetensors"))
    assert (found.kind, found.family or found.base) == (kind, expected)
    assert found.dtype == "float32"
    if kind == "denoiser":
        assert found.naming == "diffusers"


_SD3_MEDIUM: Config = {"num_layers": 24, "num_attention_heads": 24, "attention_head_dim": 64, "caption_projection_dim": 1536}
PUBLISHED: dict[str, tuple[str, Config, str, str]] = {
    "sd3": ("SD3Transformer2DModel", _SD3_MEDIUM, "SD 3", "SD 3 medium"),
    "sd3.5-medium": (
        "SD3Transformer2DModel",
        {**_SD3_MEDIUM, "dual_attention_layers": tuple(range(13)), "qk_norm": "rms_norm"},
        "SD 3",
        "SD 3.5 medium",
    ),
    "sd3.5-large": (
        "SD3Transformer2DModel",
        {**_SD3_MEDIUM, "num_layers": 38, "num_attention_heads": 38, "caption_projection_dim": 2432, "qk_norm": "rms_norm"},
        "SD 3",
        "SD 3.5 large",
    ),
    "flux-schnell": ("FluxTransformer2DModel", {}, "FLUX", "FLUX.1 schnell"),
    "flux-dev": ("FluxTransformer2DModel", {"guidance_embeds": True}, "FLUX", "FLUX.1 dev"),
    "flux-fill": (
        "FluxTransformer2DModel",
        {"guidance_embeds": True, "in_channels": 384, "out_channels": 64},
        "FLUX",
        "FLUX.1 Fill",
    ),
    "flux2": ("Flux2Transformer2DModel", {}, "FLUX.2", "FLUX.2 dev"),
    "sana": ("SanaTransformer2DModel", {}, "Sana", "Sana 1.6B"),
    "sana-0.6b": (
        "SanaTransformer2DModel",
        {"num_attention_heads": 36, "num_layers": 28, "num_cross_attention_heads": 16, "cross_attention_head_dim": 72}
        | {"cross_attention_dim": 1152},
        "Sana",
        "Sana 0.6B",
    ),
    "sana-sprint": (
        "SanaTransformer2DModel",
        {"guidance_embeds": True, "qk_norm": "rms_norm_across_heads"},
        "Sana",
        "Sana Sprint",
    ),
    "cogview3": ("CogView3PlusTransformer2DModel", {}, "CogView3+", "CogView3+"),
    "qwen": ("QwenImageTransformer2DModel", {}, "Qwen-Image", "Qwen-Image"),
    "wan": ("WanTransformer3DModel", {}, "Wan", "Wan 14B"),
    "wan-i2v": ("WanTransformer3DModel", {"in_channels": 36, "image_dim": 1280}, "Wan", "Wan 2.1 image to video"),
    "wan-vace": ("WanVACETransformer3DModel", {}, "Wan", "Wan VACE"),
    "kandinsky3": ("Kandinsky3UNet", {}, "Kandinsky 3", "Kandinsky 3"),
    "kandinsky5": ("Kandinsky5Transformer3DModel", {}, "Kandinsky 5", "Kandinsky 5"),
    "prior": ("PriorTransformer", {}, "Kandinsky 2", "Kandinsky 2 prior"),
    "hunyuan-video": ("HunyuanVideoTransformer3DModel", {}, "HunyuanVideo", "HunyuanVideo"),
    "hunyuan-image": ("HunyuanImageTransformer2DModel", {}, "HunyuanImage", "HunyuanImage"),
    "mochi": ("MochiTransformer3DModel", {}, "Mochi", "Mochi"),
    "cogvideo": ("CogVideoXTransformer3DModel", {}, "CogVideoX", "CogVideoX"),
    "cosmos": ("CosmosTransformer3DModel", {}, "Cosmos", "Cosmos"),
    "ltx2": ("LTX2VideoTransformer3DModel", {}, "LTX-2", "LTX-2"),
    "krea2": ("Krea2Transformer2DModel", {}, "Krea 2", "Krea 2"),
}
OTHERS = {
    "AutoencoderDC": "DC-AE",
    "AutoencoderKLFlux2": "FLUX.2 VAE",
    "AutoencoderKLWan": "Wan 2.1 VAE",
    "AutoencoderKLQwenImage": "Wan 2.1 VAE",
    "AutoencoderKLTemporalDecoder": "SVD VAE",
    "AutoencoderKLLTXVideo": "LTX VAE",
    "AutoencoderKLHunyuanVideo": "HunyuanVideo VAE",
    "AutoencoderKLCogVideoX": "CogVideoX VAE",
    "AutoencoderKLMochi": "Mochi VAE",
    "AutoencoderTiny": "TAESD",
    "VQModel": "MoVQ",
}
UNKNOWN = (
    "AllegroTransformer3DModel",
    "BriaFiboTransformer2DModel",
    "DiTTransformer2DModel",
    "Flux3Transformer2DModel",
    "I2VGenXLUNet",
    "JoyImageEditTransformer3DModel",
    "LongCatImageTransformer2DModel",
    "OvisImageTransformer2DModel",
    "QwenImage21Transformer2DModel",
    "SanaVideoTransformer3DModel",
    "UNet2DModel",
    "UNet3DConditionModel",
)
"""Whose layers are called nearly as those of a family that is known."""


def without_memory(name: str, config: Config) -> Recognised:
    with torch.device("meta"):
        state = built(name, config).state_dict()
    return recognise(header_of({key: tuple(value.shape) for key, value in state.items()}))


@pytest.mark.parametrize("case", PUBLISHED)
def test_the_published_sizes_tell_the_base(case: str) -> None:
    name, config, family, base = PUBLISHED[case]
    found = without_memory(name, config)
    assert (found.kind, found.family, found.base) == ("denoiser", family, base)


@pytest.mark.parametrize("name", OTHERS)
def test_other_parts_of_the_published_sizes(name: str) -> None:
    found = without_memory(name, {})
    assert (found.kind, found.base) == ("VAE", OTHERS[name])


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_relative_that_is_not_in_the_table_is_not_taken_for_one_that_is(name: str) -> None:
    assert without_memory(name, {}).kind == "unknown"


@pytest.mark.parametrize(
    ("kind", "family", "prediction"),
    [("sd1", "Stable Diffusion 1.x", "epsilon"), ("sd2", "Stable Diffusion 2.x", "v_prediction"), ("sdxl", "SDXL", "epsilon")],
)
def test_a_whole_model_in_one_file_lacks_nothing(tmp_path: Path, kind: str, family: str, prediction: str) -> None:
    path = save_original(tiny_original(kind), tmp_path / "m.safetensors")
    found = recognise(read_header(path))
    assert (found.kind, found.family, found.base, found.naming, found.lacks) == ("checkpoint", family, family, "original", ())
    facts = describe(str(path))
    runnable(facts)
    assert (facts.family, facts.base, facts.prediction, facts.why) == (family, family, prediction, None)


def test_a_turbo_model_in_one_file_starts_with_its_own_steps_guidance_and_size(tmp_path: Path) -> None:
    pipe = tiny_original("sdxl")
    plain = describe(str(save_original(pipe, tmp_path / "sd_xl_base.safetensors")))
    turbo = describe(str(save_original(pipe, tmp_path / "sd_xl_turbo.safetensors")))
    runnable(turbo)
    assert (turbo.base, turbo.default_steps, turbo.default_guidance, turbo.native_width) == ("SDXL Turbo", 4, 1.0, 512)
    assert (plain.base, plain.default_steps, plain.default_guidance) == ("SDXL", 28, 6.0)
    assert plain.native_width != 512
