"""Tiny pipelines with random weights, of four families, saved as diffusers folders; tokenizers are made on the spot."""

from pathlib import Path
from typing import Any, cast

import torch
from diffusers import (
    AutoencoderDC,
    AutoencoderKL,
    DiffusionPipeline,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    SanaPipeline,
    SanaTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from tests.helpers.device import DEVICE
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    Gemma2Config,
    Gemma2Model,
    GemmaTokenizer,
    T5Config,
    T5EncoderModel,
    T5Tokenizer,
)

WIDTH = 16


def _letters() -> list[str]:
    return [chr(code) for code in range(ord("!"), ord("~") + 1)]


def clip_tokenizer() -> Any:
    """Single letters, with and without the end-of-word mark."""
    letters = _letters()
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={word: index for index, word in enumerate(words)}, merges=[], model_max_length=77)


def t5_tokenizer() -> Any:
    pieces: list[tuple[str, float]] = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    pieces += [(letter, -3.0) for letter in _letters()]
    return T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=77)


def gemma_tokenizer() -> Any:
    words = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *_letters()]
    return GemmaTokenizer(vocab={word: index for index, word in enumerate(words)}, merges=[], model_max_length=300)


def clip_text(projection: int | None = None) -> Any:
    config = CLIPTextConfig(
        vocab_size=256,
        hidden_size=WIDTH,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        projection_dim=projection or WIDTH,
        bos_token_id=188,
        eos_token_id=189,
        pad_token_id=189,
    )
    return CLIPTextModel(config) if projection is None else CLIPTextModelWithProjection(config)


def vae(channels: int = 4, *, shift: float | None = None, **extra: Any) -> AutoencoderKL:
    return AutoencoderKL(
        down_block_types=cast("Any", ("DownEncoderBlock2D", "DownEncoderBlock2D")),
        up_block_types=cast("Any", ("UpDecoderBlock2D", "UpDecoderBlock2D")),
        block_out_channels=cast("Any", (8, 16)),
        layers_per_block=1,
        latent_channels=channels,
        norm_num_groups=4,
        sample_size=32,
        shift_factor=cast("Any", shift),
        force_upcast=True,
        **extra,
    )


def unet(context: int, **extra: Any) -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=context,
        attention_head_dim=cast("Any", 4),
        norm_num_groups=4,
        **extra,
    )


def _euler() -> EulerDiscreteScheduler:
    return EulerDiscreteScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1)


def sd15() -> Any:
    return StableDiffusionPipeline(
        vae=vae(),
        text_encoder=clip_text(),
        tokenizer=clip_tokenizer(),
        unet=unet(WIDTH),
        scheduler=cast("Any", _euler()),
        safety_checker=cast("Any", None),
        feature_extractor=cast("Any", None),
        requires_safety_checker=False,
    )


def sdxl() -> Any:
    added: dict[str, Any] = {
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 4,
        "projection_class_embeddings_input_dim": 6 * 4 + WIDTH,
        "transformer_layers_per_block": (1, 1),
        "use_linear_projection": True,
    }
    return StableDiffusionXLPipeline(
        vae=vae(),
        text_encoder=clip_text(),
        text_encoder_2=clip_text(WIDTH),
        tokenizer=clip_tokenizer(),
        tokenizer_2=clip_tokenizer(),
        unet=unet(2 * WIDTH, **added),
        scheduler=cast("Any", _euler()),
        add_watermarker=False,
    )


def sd3() -> Any:
    return StableDiffusion3Pipeline(
        transformer=SD3Transformer2DModel(
            sample_size=16,
            patch_size=2,
            in_channels=4,
            num_layers=2,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=32,
            caption_projection_dim=16,
            pooled_projection_dim=2 * WIDTH,
            out_channels=4,
            pos_embed_max_size=32,
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=vae(shift=0.06),
        text_encoder=clip_text(WIDTH),
        tokenizer=clip_tokenizer(),
        text_encoder_2=clip_text(WIDTH),
        tokenizer_2=clip_tokenizer(),
        text_encoder_3=T5EncoderModel(T5Config(vocab_size=128, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=2)),
        tokenizer_3=t5_tokenizer(),
    )


def sana() -> Any:
    block: dict[str, Any] = {"layers_per_block": (1, 1)}
    return SanaPipeline(
        tokenizer=gemma_tokenizer(),
        text_encoder=cast(
            "Any",
            Gemma2Model(
                Gemma2Config(
                    vocab_size=128,
                    hidden_size=16,
                    intermediate_size=32,
                    num_hidden_layers=2,
                    num_attention_heads=2,
                    num_key_value_heads=2,
                    head_dim=8,
                )
            ),
        ),
        vae=AutoencoderDC(
            in_channels=3,
            latent_channels=4,
            attention_head_dim=4,
            encoder_block_types=cast("Any", ("ResBlock", "EfficientViTBlock")),
            decoder_block_types=cast("Any", ("ResBlock", "EfficientViTBlock")),
            encoder_block_out_channels=(8, 16),
            decoder_block_out_channels=(8, 16),
            encoder_qkv_multiscales=((), (5,)),
            decoder_qkv_multiscales=((), (5,)),
            encoder_layers_per_block=block["layers_per_block"],
            decoder_layers_per_block=block["layers_per_block"],
            downsample_block_type="conv",
            upsample_block_type="interpolate",
            decoder_norm_types=cast("Any", "rms_norm"),
            decoder_act_fns=cast("Any", "silu"),
            scaling_factor=0.41407,
        ),
        transformer=SanaTransformer2DModel(
            in_channels=4,
            out_channels=4,
            num_layers=2,
            num_attention_heads=2,
            attention_head_dim=8,
            num_cross_attention_heads=2,
            cross_attention_head_dim=8,
            cross_attention_dim=16,
            caption_channels=16,
            sample_size=16,
            patch_size=1,
        ),
        scheduler=cast("Any", FlowMatchEulerDiscreteScheduler()),
    )


FAMILIES = {"sd15": sd15, "sdxl": sdxl, "sd3": sd3, "sana": sana}


def save_tiny(folder: Path, family: str, dtype: torch.dtype = torch.float32) -> Path:
    """A tiny model with weights drawn from seed 0, in the given dtype."""
    torch.manual_seed(0)
    pipe = FAMILIES[family]()
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            liven(part)
            if dtype != torch.float32:
                part.to(dtype)
    pipe.save_pretrained(folder)
    return folder


def liven(module: torch.nn.Module) -> None:
    """Give gates and tables that start at zero some value, so that every part of the network matters."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1 and not bool(parameter.any()):
                parameter.normal_(std=0.2)


def load_tiny(folder: Path) -> Any:
    """The folder as diffusers itself loads it, in float32, on the device that the tests run on."""
    pipe = DiffusionPipeline.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    return pipe.to(DEVICE)
