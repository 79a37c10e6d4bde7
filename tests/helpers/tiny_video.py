"""Tiny pipelines of videos with random weights: frames that come in parts, and a picture instead of a prompt."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from tests.bench.families.moving import svd
from tests.bench.faults import videos
from tests.bench.faults.parts import D
from tests.helpers.tiny import clip_text, clip_tokenizer, liven, vae


def animatediff() -> Any:
    """Stable Diffusion with a motion adapter; the frames are decoded as a batch of pictures."""
    return D.AnimateDiffPipeline(
        unet=D.UNet2DConditionModel(
            block_out_channels=(8, 16),
            layers_per_block=1,
            sample_size=8,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=16,
            attention_head_dim=4,
            norm_num_groups=2,
        ),
        motion_adapter=D.MotionAdapter(
            block_out_channels=(8, 16), motion_layers_per_block=1, motion_norm_num_groups=2, motion_num_attention_heads=4
        ),
        scheduler=D.DDIMScheduler(clip_sample=False),
        vae=vae(),
        text_encoder=clip_text(),
        tokenizer=clip_tokenizer(),
    )


BUILT: dict[str, Callable[[], Any]] = {
    "svd": svd,
    "animatediff": animatediff,
    "wan": videos.wan,
    "ltx": videos.ltx,
    "cogvideox": videos.cogvideox,
}


def save_video_model(folder: Path, name: str, plant: Callable[[Any], None] = lambda _pipe: None) -> Path:
    """A model with weights drawn from seed 0. plant: puts a fault into it."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the libraries say while a model is made is no matter of these tests
        pipe = BUILT[name]()
        for part in pipe.components.values():
            if isinstance(part, torch.nn.Module):
                liven(part)
        with torch.no_grad():
            plant(pipe)
        pipe.save_pretrained(folder)
    return folder


def start_picture(path: Path) -> Path:
    """A picture with some structure."""
    gradient = Image.linear_gradient("L").resize((32, 32))
    Image.merge("RGB", (gradient, gradient.rotate(90), gradient.rotate(180))).save(path)
    return path
