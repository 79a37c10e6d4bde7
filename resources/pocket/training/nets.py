"""Pocket's three networks, the noise schedule, and the finished folder."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DPMSolverMultistepScheduler, StableDiffusionPipeline, UNet2DConditionModel
from torch import Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from draw import SIZE
from tokens import LENGTH

TEXT_WIDTH = 128
LATENT = SIZE // 4
STEPS = 1000


def new_vae() -> AutoencoderKL:
    """Four times smaller each way; no attention, so that every size decodes alike."""
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=(16, 32, 64),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
        sample_size=SIZE,
        mid_block_add_attention=False,
        scaling_factor=1.0,
    )


def new_unet() -> UNet2DConditionModel:
    """One thin level at full size; attention and most weights below it."""
    return UNet2DConditionModel(
        sample_size=LATENT,
        layers_per_block=1,
        block_out_channels=(64, 128, 160),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=16,
        cross_attention_dim=TEXT_WIDTH,
        attention_head_dim=4,
    )


def new_text_encoder(tokenizer: CLIPTokenizer) -> CLIPTextModel:
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=TEXT_WIDTH,
            intermediate_size=4 * TEXT_WIDTH,
            projection_dim=TEXT_WIDTH,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=LENGTH,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def new_scheduler() -> DPMSolverMultistepScheduler:
    """Velocity prediction; enough noise at the end to hide day and night."""
    return DPMSolverMultistepScheduler(
        num_train_timesteps=STEPS,
        beta_schedule="scaled_linear",
        beta_start=0.00085,
        beta_end=0.02,
        prediction_type="v_prediction",
        timestep_spacing="trailing",
    )


class Denoiser(nn.Module):
    """The text encoder and the UNet, trained together."""

    def __init__(self, tokenizer: CLIPTokenizer) -> None:
        super().__init__()
        self.text = new_text_encoder(tokenizer)
        self.unet = new_unet()

    def forward(self, noisy: Tensor, steps: Tensor, tokens: Tensor) -> Tensor:
        states = self.text(tokens).last_hidden_state
        return self.unet(noisy, steps, states, return_dict=False)[0]


def whiten(vae: AutoencoderKL, mean: Tensor, deviation: Tensor) -> None:
    """Fold the latents' own mean and spread into the 1x1 convolutions.

    Pipelines know a single scaling factor; this gives every channel its own.
    """
    into, back = vae.quant_conv, vae.post_quant_conv
    count = len(mean)
    with torch.no_grad():
        into.weight[:count] /= deviation[:, None, None, None]
        into.bias[:count] = (into.bias[:count] - mean) / deviation
        into.bias[count:] -= 2 * deviation.log()
        back.bias += (back.weight[:, :, 0, 0] * mean).sum(1)
        back.weight *= deviation[None, :, None, None]


def new_pipeline(vae: AutoencoderKL, denoiser: Denoiser, tokenizer: CLIPTokenizer) -> StableDiffusionPipeline:
    return StableDiffusionPipeline(
        vae=vae.eval(),
        text_encoder=denoiser.text.eval(),
        tokenizer=tokenizer,
        unet=denoiser.unet.eval(),
        scheduler=new_scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def save_pipeline(pipeline: StableDiffusionPipeline, folder: Path) -> None:
    """The weights in half precision, everything else as diffusers writes it."""
    for part in (pipeline.vae, pipeline.text_encoder, pipeline.unet):
        part.half()
    pipeline.save_pretrained(folder)
    for weights in folder.rglob("*.safetensors"):
        weights.chmod(0o644)
    # An infinite default is written as a word that strict readers of JSON refuse.
    path = folder / "scheduler" / "scheduler_config.json"
    config = json.loads(path.read_text())
    del config["lambda_min_clipped"]
    path.write_text(json.dumps(config, indent=2, allow_nan=False) + "\n")
