"""Tiny models of FLUX.2 and Wan 2.2 as diffusers folders, and the same in the files that ComfyUI keeps their parts in."""

import re
from dataclasses import replace
from functools import partial
from typing import Any, cast

import diffusers
import torch
import transformers
from tests.bench.faults.parts import letters, qwen_tokenizer
from tests.helpers.comfy_split import (
    SPLITS,
    Split,
    Tensors,
    umt5_tensors,
    wan_original,
    wan_vae_tensors,
    with_start,
    written_back,
    z_image,
)
from tests.helpers.originals import vae_tensors
from tests.helpers.tiny import t5_tokenizer

from halftone.library.files.small_files import MISTRAL, QWEN3, UMT5
from halftone.settings.places import resources

_MARKS = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]")
_MORE_MARKS = ("[IMG]", "<pad>", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]")


def _mistral_tokenizer() -> Any:
    """Its special words come first, as in the published one."""
    raw = letters("<s>", *_MORE_MARKS)
    words = [*_MARKS, *(word for word in sorted(raw.get_vocab(), key=raw.get_vocab().__getitem__) if word not in _MARKS)]
    made = letters("<s>", *_MORE_MARKS)
    made.model = type(raw.model)(vocab={word: index for index, word in enumerate(words)}, merges=[])
    made.add_special_tokens([*_MARKS, *_MORE_MARKS])
    made.post_processor = None
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>", padding_side="left"
    )
    tokenizer.chat_template = (
        "<s>{% for one in messages %}{% if one['role'] == 'system' %}[SYSTEM_PROMPT]{{ one['content'][0]['text'] }}"
        "[/SYSTEM_PROMPT]{% else %}[INST]{{ one['content'][0]['text'] }}[/INST]{% endif %}{% endfor %}"
    )
    return tokenizer


def _klein_tokenizer() -> Any:
    tokenizer = qwen_tokenizer()
    end = "{% if add_generation_prompt %}<|im_start|>assistant\n"
    assert end in tokenizer.chat_template
    tokenizer.chat_template = tokenizer.chat_template.replace(end, end + "<think>\n\n</think>\n\n")
    return tokenizer


def _flux2(pipeline: str, encoder: Any, tokenizer: Any, width: int, **options: Any) -> Any:
    vae = diffusers.AutoencoderKLFlux2(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(32, 64),
        layers_per_block=1,
        latent_channels=32,
    )
    cast("torch.Tensor", vae.bn.running_mean).normal_()
    cast("torch.Tensor", vae.bn.running_var).uniform_(0.5, 2.0)
    return getattr(diffusers, pipeline)(
        transformer=diffusers.Flux2Transformer2DModel(
            in_channels=128, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=3 * width, axes_dims_rope=(4, 4, 4, 4), guidance_embeds=not options,
        ),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(
            shift=3.0, use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096
        ),
        vae=vae,
        text_encoder=encoder,
        tokenizer=tokenizer,
        **options,
    )  # fmt: skip


def _dev(layers: int = 31) -> Any:
    config = transformers.MistralConfig(
        vocab_size=300, hidden_size=5120, intermediate_size=16, num_hidden_layers=layers, num_attention_heads=1,
        num_key_value_heads=1, head_dim=128, sliding_window=None, rms_norm_eps=1e-5, max_position_embeddings=131072,
        rope_parameters={"rope_type": "default", "rope_theta": 1e9},
    )  # fmt: skip
    return _flux2("Flux2Pipeline", transformers.MistralModel(config), _mistral_tokenizer(), 5120)


def _klein(width: int, *, distilled: bool = True) -> Any:
    config = transformers.Qwen3Config(
        vocab_size=300, hidden_size=width, intermediate_size=16, num_hidden_layers=28, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )  # fmt: skip
    encoder = transformers.Qwen3Model(config)
    return _flux2("Flux2KleinPipeline", encoder, _klein_tokenizer(), width, is_distilled=distilled)


def _flux2_vae_tensors(vae: Any) -> Tensors:
    sides = {"quant_conv.": "encoder.quant_conv.", "post_quant_conv.": "decoder.post_quant_conv."}
    return {
        next((theirs + name.removeprefix(ours) for ours, theirs in sides.items() if name.startswith(ours)), name): value
        for name, value in vae_tensors(vae).items()
    }


def wan_22_vae_tensors(vae: Any) -> Tensors:
    """A VAE of Wan 2.2 in its makers' names: the opposite of what diffusers' conversion script does."""
    found = Tensors()
    for name, value in vae.state_dict().items():
        level = re.fullmatch(r"(encoder|decoder)\.(down|up)_blocks\.(\d+)\.(resnets\.(\d+)|downsampler|upsampler)\.(.+)", name)
        if level is None:
            found |= wan_vae_tensors(_One(vae, {name: value}))
            continue
        side, way, number, _, at, rest = level.groups()
        last = vae.config.num_res_blocks + (way == "up")
        for ours, theirs in (("norm1", "residual.0"), ("conv1", "residual.2"), ("norm2", "residual.3"), ("conv2", "residual.6")):
            rest = re.sub(rf"^{ours}\.", f"{theirs}.", rest)
        rest = re.sub(r"^conv_shortcut\.", "shortcut.", rest)
        found[f"{side}.{way}samples.{number}.{way}samples.{last if at is None else at}.{rest}"] = value
    return found


class _One:
    """A few parameters of a network."""

    def __init__(self, whole: Any, some: Tensors) -> None:
        self.config, self._some = whole.config, some

    def state_dict(self) -> Tensors:
        return self._some


def _umt5() -> Any:
    config = transformers.UMT5Config(
        vocab_size=256, d_model=4096, d_kv=8, d_ff=16, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu"
    )
    return transformers.UMT5EncoderModel(config)


def _wan(vae: Any, channels: int, shift: float, **options: Any) -> Any:
    def transformer() -> Any:
        return diffusers.WanTransformer3DModel(
            in_channels=channels, out_channels=channels, num_attention_heads=1, attention_head_dim=128, text_dim=4096,
            freq_dim=32, ffn_dim=32, num_layers=1,
        )  # fmt: skip

    second = {"transformer_2": transformer()} if "boundary_ratio" in options else {}
    return diffusers.WanPipeline(
        transformer=transformer(),
        scheduler=cast(
            "Any",
            diffusers.UniPCMultistepScheduler(
                beta_start=0.0001, beta_end=0.02, prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift
            ),
        ),
        vae=vae,
        text_encoder=_umt5(),
        tokenizer=t5_tokenizer(),
        **second,
        **options,
    )


def _wan_14b() -> Any:
    vae = diffusers.AutoencoderKLWan(base_dim=8, dim_mult=[1, 2, 2, 2], num_res_blocks=1, temperal_downsample=[False, True, True])
    return _wan(vae, 16, 3.0, boundary_ratio=0.875)


def _wan_5b() -> Any:
    published: Any = diffusers.AutoencoderKLWan.load_config(resources() / "configs" / "wan-5b" / "vae")
    sizes = {"base_dim": 8, "decoder_base_dim": 16, "dim_mult": [1, 2, 2, 2], "num_res_blocks": 1}
    return _wan(diffusers.AutoencoderKLWan.from_config({**published, **sizes}), 48, 5.0, expand_timesteps=True)


_FLUX2_VAE = ("vae/flux2-vae.safetensors", _flux2_vae_tensors)
_DEV = Split(
    _dev,
    "flux2_dev_bf16.safetensors",
    written_back,
    {"text_encoder": ("text_encoders/mistral_3_small_flux2_bf16.safetensors", with_start("model.")), "vae": _FLUX2_VAE},
    (MISTRAL, "tokenizer"),
    table=131072,
    base="FLUX.2 dev",
    family="FLUX.2",
)
_KLEIN = Split(
    partial(_klein, 2560),
    "flux-2-klein-4b.safetensors",
    written_back,
    {"text_encoder": ("text_encoders/qwen_3_4b.safetensors", with_start("model.")), "vae": _FLUX2_VAE},
    (QWEN3, "tokenizer"),
    {"text_encoder": "the text encoder Qwen3 4B", "vae": "the VAE"},
    base="FLUX.2 klein 4B",
    family="FLUX.2",
)
_UMT5 = ("text_encoders/umt5_xxl_fp16.safetensors", umt5_tensors)
_WAN_14B = Split(
    _wan_14b,
    "wan2.2_t2v_high_noise_14B_fp16.safetensors",
    wan_original,
    {
        "transformer_2": ("diffusion_models/wan2.2_t2v_low_noise_14B_fp16.safetensors", wan_original),
        "text_encoder": _UMT5,
        "vae": ("vae/wan_2.1_vae.safetensors", wan_vae_tensors),
    },
    (UMT5, "tokenizer"),
    {"transformer_2": "the denoiser for low noise", "text_encoder": "the text encoder UMT5-XXL", "vae": "the VAE"},
    base="Wan 2.2 14B (high noise)",
    family="Wan",
)
NEWER: dict[str, Split] = {
    "FLUX.2 dev": _DEV,
    "Z-Image Turbo": replace(
        SPLITS["Z-Image"],
        build=partial(z_image, 3.0),
        transformer="z_image_turbo_bf16.safetensors",
        lacking={},
        base="Z-Image Turbo",
        family="Z-Image",
        packed=False,
    ),
    "FLUX.2 klein 4B": _KLEIN,
    "FLUX.2 klein base 4B": replace(
        _KLEIN,
        build=partial(_klein, 2560, distilled=False),
        transformer="flux-2-klein-base-4b.safetensors",
        lacking={},
        base="FLUX.2 klein base 4B",
        packed=False,
    ),
    "FLUX.2 klein 9B": replace(
        _KLEIN,
        build=partial(_klein, 4096),
        transformer="flux-2-klein-9b.safetensors",
        files=_KLEIN.files | {"text_encoder": ("text_encoders/qwen_3_8b.safetensors", with_start("model."))},
        lacking={"text_encoder": "the text encoder Qwen3 8B"},
        packed=False,
        base="FLUX.2 klein 9B",
    ),
    "Wan 2.2 14B": _WAN_14B,
    "Wan 2.2 5B": replace(
        _WAN_14B,
        build=_wan_5b,
        transformer="wan2.2_ti2v_5B_fp16.safetensors",
        files={"text_encoder": _UMT5, "vae": ("vae/wan2.2_vae.safetensors", wan_22_vae_tensors)},
        lacking={"text_encoder": "the text encoder UMT5-XXL", "vae": "the VAE"},
        base="Wan 2.2 5B",
    ),
}
ALL: dict[str, Split] = SPLITS | NEWER
