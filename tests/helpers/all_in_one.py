"""Tiny FLUX.1 and Stable Diffusion 3 as ComfyUI writes them: the transformer, the text encoders and the VAE in one file."""

import json
from pathlib import Path
from typing import Any, cast

import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel, SD3Transformer2DModel
from safetensors.torch import save_file
from tests.helpers.hub import PIECES
from tests.helpers.originals import vae_tensors
from tests.helpers.tiny import liven, t5_tokenizer
from tests.helpers.transformer_files import flux_original, sd3_original
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, T5Config, T5EncoderModel

from halftone.library.files.small_files import T5

WIDTH = 32
Tensors = dict[str, torch.Tensor]


def put_small_files() -> None:
    """A tokenizer as large as T5's where Halftone keeps it; the words that it reads are those of the tiny T5."""
    t5_tokenizer().save_pretrained(T5.place.parent)
    content = json.loads(T5.place.read_bytes())
    vocab = content["model"]["vocab"]
    vocab += [[f"\ue000{number}", -9.0] for number in range(PIECES - len(vocab))]
    T5.place.write_text(json.dumps(content))


def save_all_in_one(kind: str, path: Path, *, dtype: torch.dtype = torch.bfloat16, without: str = "-") -> dict[str, Any]:
    """ "flux" or "sd3"; the parts it was written from. without: tensors whose names begin so are left out."""
    parts = parts_of(kind)
    for part in parts.values():
        part.to(dtype)
    tensors = named(kind, parts)
    save_file({name: value.clone().contiguous() for name, value in tensors.items() if not name.startswith(without)}, path)
    return parts


def parts_of(kind: str) -> dict[str, Any]:
    """The networks of "flux" or "sd3"."""
    torch.manual_seed(0)
    parts = _flux() if kind == "flux" else _sd3()
    for part in parts.values():
        liven(part)
    return parts


def named(kind: str, parts: dict[str, Any]) -> Tensors:
    """Their tensors as the file names them."""
    names = flux_original if kind == "flux" else sd3_original
    tensors: Tensors = {f"model.diffusion_model.{name}": value for name, value in names(parts["transformer"]).items()}
    start = "vae." if kind == "flux" else "first_stage_model."
    tensors |= {start + name: value for name, value in vae_tensors(parts["vae"]).items()}
    for name, encoder in parts.items():
        if name.startswith("text_encoder"):
            tensors |= _encoder(encoder)
    return tensors


def _encoder(encoder: Any) -> Tensors:
    if isinstance(encoder, T5EncoderModel):
        kept = {name: value for name, value in encoder.state_dict().items() if name != "encoder.embed_tokens.weight"}
        return {f"text_encoders.t5xxl.transformer.{name}": value for name, value in kept.items()}
    name = "clip_g" if encoder.config.hidden_act == "gelu" else "clip_l"
    found: Tensors = {f"text_encoders.{name}.logit_scale": torch.tensor(4.6)}
    for key, value in encoder.state_dict().items():
        inner = key if key.startswith(("text_model.", "text_projection.")) else f"text_model.{key}"
        found[f"text_encoders.{name}.transformer.{inner}"] = value
    return found


def _vae() -> Any:
    return AutoencoderKL(
        down_block_types=cast("Any", ("DownEncoderBlock2D",) * 2),
        up_block_types=cast("Any", ("UpDecoderBlock2D",) * 2),
        block_out_channels=cast("Any", (32, 32)),
        layers_per_block=1,
        latent_channels=4,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )


def _clip(kind: Any, act: str) -> Any:
    return kind(
        CLIPTextConfig(
            vocab_size=49408,
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=1,
            projection_dim=64,
            hidden_act=act,
            eos_token_id=2,
        )
    )


def _t5() -> Any:
    return T5EncoderModel(
        T5Config(
            vocab_size=256,
            d_model=WIDTH,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=2,
            feed_forward_proj="gated-gelu",
        )
    )


def _flux() -> dict[str, Any]:
    transformer = FluxTransformer2DModel(
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=32,
        num_attention_heads=2,
        joint_attention_dim=WIDTH,
        pooled_projection_dim=64,
        guidance_embeds=True,
        axes_dims_rope=(4, 14, 14),
    )
    return {
        "transformer": transformer,
        "vae": _vae(),
        "text_encoder": _clip(CLIPTextModel, "quick_gelu"),
        "text_encoder_2": _t5(),
    }


def _sd3() -> dict[str, Any]:
    transformer = SD3Transformer2DModel(
        sample_size=128,
        in_channels=4,
        num_layers=2,
        attention_head_dim=32,
        num_attention_heads=2,
        joint_attention_dim=128,
        caption_projection_dim=64,
        pooled_projection_dim=128,
        out_channels=4,
        pos_embed_max_size=96,
        qk_norm="rms_norm",
    )
    t5 = T5EncoderModel(
        T5Config(vocab_size=256, d_model=128, d_kv=8, d_ff=64, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu")
    )
    return {
        "transformer": transformer,
        "vae": _vae(),
        "text_encoder": _clip(CLIPTextModelWithProjection, "quick_gelu"),
        "text_encoder_2": _clip(CLIPTextModelWithProjection, "gelu"),
        "text_encoder_3": t5,
    }
