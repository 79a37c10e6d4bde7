"""Tiny pipelines written as one file, with the names that CompVis and Stability AI give their tensors."""

import json
import re
from pathlib import Path
from typing import Any, cast

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    StableDiffusionPipeline,
    StableDiffusionXLImg2ImgPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from safetensors.torch import save_file
from tests.helpers.tiny import clip_tokenizer
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from halftone.settings.places import resources

_RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "time_emb_proj": "emb_layers.1",
    "conv_shortcut": "skip_connection",
}
_OUTER = {
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "conv_in": "input_blocks.0.0",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
}
_ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}
_OPEN = {"layer_norm1": "ln_1", "layer_norm2": "ln_2", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj", "self_attn": "attn"}


def save_original(pipe: Any, path: Path, *, dtype: torch.dtype = torch.float16, metadata: dict[str, str] | None = None) -> Path:
    """A StableDiffusionPipeline (its text encoder as CLIP or, from 2.x on, OpenCLIP has it) or StableDiffusionXLPipeline, or a
    refiner's.
    """
    tensors = original_names({name: part for name, part in pipe.components.items() if isinstance(part, torch.nn.Module)})
    tensors["alphas_cumprod"] = torch.linspace(1, 0, 1000)
    kept = {name: value.to(dtype).contiguous() if value.is_floating_point() else value for name, value in tensors.items()}
    save_file({name: value.clone() for name, value in kept.items()}, path, metadata)
    return path


def original_names(parts: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors of such a pipeline's parts, by the names that such a file gives them."""
    unet, vae = parts["unet"], parts["vae"]
    tensors = {f"model.diffusion_model.{unet_name(name, unet)}": value for name, value in unet.state_dict().items()}
    tensors |= {f"first_stage_model.{name}": value for name, value in vae_tensors(vae).items()}
    if parts.get("text_encoder") is None:
        tensors |= _open_clip(parts["text_encoder_2"], "conditioner.embedders.0.model.")
    elif "text_encoder_2" in parts:
        tensors |= _clip(parts["text_encoder"], "conditioner.embedders.0.transformer.")
        tensors |= _open_clip(parts["text_encoder_2"], "conditioner.embedders.1.model.")
    elif unet.config.use_linear_projection:
        tensors |= _open_clip(parts["text_encoder"], "cond_stage_model.model.")
    else:
        tensors |= _clip(parts["text_encoder"], "cond_stage_model.transformer.")
    return tensors


def vae_tensors(vae: Any) -> dict[str, torch.Tensor]:
    """Those of a VAE alone, by the names that its own file gives them."""
    return {_vae(name, vae): _as_convolution(name, value) for name, value in vae.state_dict().items()}


def unet_name(name: str, unet: Any) -> str:
    count = unet.config.layers_per_block
    for ours, theirs in _OUTER.items():
        if name.startswith(f"{ours}."):
            return name.replace(ours, theirs)
    kind, level, part, index, rest = re.fullmatch(r"(down|mid|up)_block(?:s\.(\d+))?\.(\w+)\.(\d+)\.(.*)", name).groups()  # type: ignore[union-attr]
    at = int(index)
    if part == "resnets":
        for ours, theirs in _RESNET.items():
            rest = re.sub(rf"^{ours}\.", f"{theirs}.", rest)
    if kind == "mid":
        return f"middle_block.{1 if part == 'attentions' else 2 * at}.{rest}"
    if kind == "down":
        block = int(level) * (count + 1) + 1 + (count if part == "downsamplers" else at)
        place = {"resnets": "0", "attentions": "1", "downsamplers": "0"}[part]
        return f"input_blocks.{block}.{place}.{rest.replace('conv.', 'op.') if part == 'downsamplers' else rest}"
    block = int(level) * (count + 1) + (count if part == "upsamplers" else at)
    attends = unet.config.up_block_types[int(level)] != "UpBlock2D"
    place = {"resnets": "0", "attentions": "1", "upsamplers": "2" if attends else "1"}[part]
    return f"output_blocks.{block}.{place}.{rest}"


def _vae(name: str, vae: Any) -> str:
    last = len(vae.config.block_out_channels) - 1
    name = re.sub(r"encoder\.down_blocks\.(\d+)\.", r"encoder.down.\1.", name)
    name = re.sub(r"decoder\.up_blocks\.(\d+)\.", lambda found: f"decoder.up.{last - int(found[1])}.", name)
    name = re.sub(r"(down|up)\.(\d+)\.resnets\.", r"\1.\2.block.", name)
    name = re.sub(r"(down|up)samplers\.0\.", r"\1sample.", name)
    name = re.sub(r"mid_block\.resnets\.(\d+)", lambda found: f"mid.block_{int(found[1]) + 1}", name)
    if "mid_block.attentions.0." in name:
        head, _, rest = name.partition("mid_block.attentions.0.")
        for ours, theirs in _ATTENTION.items():
            rest = re.sub(rf"^{ours}\.", f"{theirs}.", rest)
        return f"{head}mid.attn_1.{rest}"
    return name.replace("conv_norm_out", "norm_out").replace("conv_shortcut", "nin_shortcut")


def _as_convolution(name: str, value: torch.Tensor) -> torch.Tensor:
    return value[:, :, None, None] if "attentions" in name and value.dim() == 2 else value


def _inner(name: str) -> str:
    return name.removeprefix("text_model.")


def _clip(encoder: Any, prefix: str) -> dict[str, torch.Tensor]:
    return {f"{prefix}text_model.{_inner(name)}": value for name, value in encoder.state_dict().items()}


def _open_clip(encoder: Any, prefix: str) -> dict[str, torch.Tensor]:
    state = {_inner(name): value for name, value in encoder.state_dict().items()}
    found: dict[str, torch.Tensor] = {}
    for name, value in state.items():
        own = name.replace("encoder.layers.", "transformer.resblocks.")
        for ours, theirs in _OPEN.items():
            own = own.replace(ours, theirs)
        if ".q_proj." in own:
            joined = torch.cat([state[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")])
            found[prefix + own.replace("q_proj.", "in_proj_")] = joined
        elif ".k_proj." in own or ".v_proj." in own:
            continue
        elif name == "text_projection.weight":
            found[f"{prefix}text_projection"] = value.T
        elif name.startswith("embeddings."):
            short = name.removeprefix("embeddings.").replace("position_embedding.weight", "positional_embedding")
            found[prefix + short] = value
        else:
            found[prefix + own.replace("final_layer_norm", "ln_final")] = value
    return found


def tiny_original(kind: str, seed: int = 0) -> Any:
    """A pipeline of shapes that a file in this format may have. kind: "sd1", "sd2", "sdxl", "sdxl-refiner", "inpaint",
    "pix2pix" or "sdxl-pix2pix".
    """
    torch.manual_seed(seed)
    refines = kind == "sdxl-refiner"
    width, second = 0 if refines else 64, 1280 if refines else 128  # by which the refiner is told
    is_xl = kind.startswith("sdxl")
    added: dict[str, Any] = {}
    if is_xl:
        added = {
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": (5 if refines else 6) * 8 + second,
            "transformer_layers_per_block": (1, 2),
        }
    unet = UNet2DConditionModel(
        sample_size=16,
        in_channels=9 if kind == "inpaint" else 8 if kind.endswith("pix2pix") else 4,
        block_out_channels=(32, 64),
        layers_per_block=2 if refines else 1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D") if is_xl else ("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D") if is_xl else ("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=width + second if is_xl else width,
        attention_head_dim=8 if kind in ("sd1", "inpaint", "pix2pix") else (1, 1),  # pyright: ignore[reportArgumentType]
        use_linear_projection=kind == "sd2" or is_xl,
        **added,
    )
    vae = AutoencoderKL(
        down_block_types=cast("Any", ("DownEncoderBlock2D", "DownEncoderBlock2D")),
        up_block_types=cast("Any", ("UpDecoderBlock2D", "UpDecoderBlock2D")),
        block_out_channels=cast("Any", (32, 64)),
        layers_per_block=1,
        latent_channels=4,
        sample_size=32,
    )
    parts: dict[str, Any] = {
        "vae": vae,
        "unet": unet,
        "scheduler": DDIMScheduler(steps_offset=1, clip_sample=False),
    }
    if refines:
        parts |= {"tokenizer": None, "text_encoder": None}
        parts |= {"tokenizer_2": clip_tokenizer(), "text_encoder_2": _text(second, projection=second)}
        return StableDiffusionXLImg2ImgPipeline(**parts, requires_aesthetics_score=True, add_watermarker=False)
    parts |= {"tokenizer": clip_tokenizer(), "text_encoder": _text(width)}
    if is_xl:
        parts |= {"tokenizer_2": clip_tokenizer(), "text_encoder_2": _text(second, projection=second)}
        return StableDiffusionXLPipeline(**parts, add_watermarker=False)
    return StableDiffusionPipeline(**parts, safety_checker=None, feature_extractor=None, requires_safety_checker=False)  # type: ignore[arg-type]


def _text(width: int, projection: int | None = None) -> Any:
    config = CLIPTextConfig(
        vocab_size=49408,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=max(1, width // 64),
        projection_dim=projection or width,
        hidden_act="quick_gelu",
        eos_token_id=2,
    )
    return CLIPTextModel(config) if projection is None else CLIPTextModelWithProjection(config)


def published(kind: str) -> dict[str, Any]:
    """The parts of "sd1", "sd2", "sdxl" or "sdxl-refiner" as they were published, without numbers, from their configurations."""
    folder = resources() / "configs" / kind

    def read(name: str) -> dict[str, Any]:
        found = json.loads((folder / name / "config.json").read_text())
        return {key: value for key, value in found.items() if not key.startswith("_")}

    with torch.device("meta"):
        parts: dict[str, Any] = {
            "unet": UNet2DConditionModel(**read("unet")),
            "vae": AutoencoderKL(**read("vae")),
        }
        if kind != "sdxl-refiner":
            parts["text_encoder"] = CLIPTextModel(CLIPTextConfig(**read("text_encoder")))
        if kind.startswith("sdxl"):
            parts["text_encoder_2"] = CLIPTextModelWithProjection(CLIPTextConfig(**read("text_encoder_2")))
    return parts
