"""Tiny random pipelines of flow models: SD 3 and 3.5, FLUX and its kin, FLUX.2, Sana Sprint, Qwen-Image Edit; and PixArt-α."""

import json
from pathlib import Path
from typing import Any

from tests.bench.families.remade import remade
from tests.bench.faults import architectures as pictures
from tests.bench.faults import videos
from tests.bench.faults.parts import D, T, deep_vae, flow, letters, qwen_tokenizer, t5
from tests.helpers import tiny

from halftone.engine.loading.qwen_processor import QwenProcessor


def _sd3(layers: int = 2, **changes: Any) -> Any:
    """Sixteen channels, which its inpainting asks for."""
    return D.StableDiffusion3Pipeline(
        transformer=D.SD3Transformer2DModel(
            sample_size=16,
            patch_size=2,
            in_channels=16,
            num_layers=layers,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=32,
            caption_projection_dim=16,
            pooled_projection_dim=2 * tiny.WIDTH,
            out_channels=16,
            pos_embed_max_size=32,
            **changes,
        ),
        scheduler=flow(shift=3.0),
        vae=tiny.vae(16, shift=0.06),
        text_encoder=tiny.clip_text(tiny.WIDTH),
        tokenizer=tiny.clip_tokenizer(),
        text_encoder_2=tiny.clip_text(tiny.WIDTH),
        tokenizer_2=tiny.clip_tokenizer(),
        text_encoder_3=t5(),
        tokenizer_3=tiny.t5_tokenizer(),
    )


def sd3() -> Any:
    return _sd3()


def sd35_medium() -> Any:
    """Normed queries and keys, and a second attention."""
    return _sd3(qk_norm="rms_norm", dual_attention_layers=(0,))


def sd35_large() -> Any:
    """38 blocks, by which it is told."""
    return _sd3(38, qk_norm="rms_norm")


def _wide_vae() -> Any:
    """Sixteen channels and eight pixels to a latent cell, as FLUX has."""
    return remade(deep_vae(), latent_channels=16, shift_factor=0.1)


def _flux(pipeline: str, *, guided: bool, taken: int = 64) -> Any:
    """taken: numbers a place that go in: 64 of the latents, with those of a masked picture and its mask 384."""
    return getattr(D, pipeline)(
        transformer=D.FluxTransformer2DModel(
            patch_size=1,
            in_channels=taken,
            out_channels=64,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=32,
            pooled_projection_dim=tiny.WIDTH,
            guidance_embeds=guided,
            axes_dims_rope=(4, 4, 8),
        ),
        scheduler=flow(),
        vae=_wide_vae(),
        text_encoder=tiny.clip_text(),
        tokenizer=tiny.clip_tokenizer(),
        text_encoder_2=t5(),
        tokenizer_2=tiny.t5_tokenizer(),
    )


def flux_dev() -> Any:
    return _flux("FluxPipeline", guided=True)


def flux_schnell() -> Any:
    return _flux("FluxPipeline", guided=False)


def flux_fill() -> Any:
    return _flux("FluxFillPipeline", guided=True, taken=384)


def flux_kontext() -> Any:
    return _flux("FluxKontextPipeline", guided=True)


def _flux2(pipeline: str, *, encoder: Any, tokenizer: Any, width: int, guided: bool) -> Any:
    return getattr(D, pipeline)(
        transformer=D.Flux2Transformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=3 * width,
            timestep_guidance_channels=256,
            axes_dims_rope=(4, 4, 4, 4),
            guidance_embeds=guided,
        ),
        scheduler=flow(),
        vae=D.AutoencoderKLFlux2(
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            block_out_channels=(8, 16),
            layers_per_block=1,
            latent_channels=4,
            norm_num_groups=4,
            sample_size=32,
        ),
        text_encoder=encoder,
        tokenizer=tokenizer,
    )


def flux2() -> Any:
    """Its prompt is what a language model has in three of its layers, the 30th the last."""
    width = 8
    config = T.Mistral3Config(
        text_config={
            "model_type": "mistral",
            "vocab_size": 300,
            "hidden_size": width,
            "intermediate_size": 16,
            "max_position_embeddings": 512,
            "num_attention_heads": 2,
            "num_hidden_layers": 31,
            "num_key_value_heads": 1,
            "head_dim": 4,
            "sliding_window": None,
        },
        vision_config={
            "model_type": "pixtral",
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 16,
            "image_size": 28,
            "patch_size": 14,
            "num_channels": 3,
        },
        vision_feature_layer=-1,
        image_token_index=257,
    )
    encoder = T.Mistral3ForConditionalGeneration(config)
    return _flux2("Flux2Pipeline", encoder=encoder, tokenizer=_mistral(), width=width, guided=True)


def name_pixtral(folder: Path) -> None:
    """It is published with a reader of words and pictures, which cannot be made without torchvision."""
    _name(folder, "tokenizer", "PixtralProcessor")
    (folder / "tokenizer" / "processor_config.json").write_text(
        json.dumps({"processor_class": "PixtralProcessor", "patch_size": 14})
    )
    T.PixtralImageProcessorPil(patch_size=14, size={"longest_edge": 56}).save_pretrained(folder / "tokenizer")


def _name(folder: Path, part: str, kind: str) -> None:
    """Write another class of a part into the folder's index."""
    path = folder / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {part: ["transformers", kind]}))


def _mistral() -> Any:
    special = ("<s>", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "</s>", "<pad>")
    words = T.PreTrainedTokenizerFast(
        tokenizer_object=letters(*special), pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<pad>"
    )
    template = (
        "{% for message in messages %}{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}"
        "{% else %}[IMG]{% endif %}{% endfor %}</s>{% endfor %}"
    )
    words.chat_template = template
    return words


def flux2_klein() -> Any:
    width = 8
    config = T.Qwen3Config(
        vocab_size=300,
        hidden_size=width,
        intermediate_size=16,
        num_hidden_layers=28,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=4,
    )
    encoder = T.Qwen3ForCausalLM(config)
    return _flux2("Flux2KleinPipeline", encoder=encoder, tokenizer=qwen_tokenizer(), width=width, guided=False)


def sana_sprint() -> Any:
    parts = tiny.sana().components
    guided = remade(parts["transformer"], qk_norm="rms_norm_across_heads", guidance_embeds=True)
    return D.SanaSprintPipeline(**{**parts, "transformer": guided, "scheduler": D.SCMScheduler()})


def pixart_alpha() -> Any:
    """It is told its size and shape beside the prompt."""
    parts = pictures.pixart().components
    told = remade(parts["transformer"], sample_size=128, use_additional_conditions=True)
    return D.PixArtAlphaPipeline(**{**parts, "transformer": told})


def qwen_edit() -> Any:
    """The picture goes in twice: seen by the language model, and encoded beside the latents."""
    tokenizer = _seeing_tokenizer()
    base = videos.qwen_image()
    encoder = T.Qwen2_5_VLForConditionalGeneration(_seeing(base.text_encoder, tokenizer))
    return D.QwenImageEditPipeline(
        transformer=base.transformer,
        scheduler=flow(),
        vae=D.AutoencoderKLQwenImage(
            base_dim=8,
            z_dim=4,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        text_encoder=encoder,
        tokenizer=tokenizer,
        processor=None,
    )


def name_qwen_vl(folder: Path) -> None:
    """Its reader of words and pictures cannot be made without torchvision; this is what it is saved as."""
    _name(folder, "processor", "Qwen2VLProcessor")
    save_qwen_vl(folder / "processor")


def qwen_vl(folder: Path) -> dict[str, Any]:
    """Its reader, which diffusers cannot load without torchvision."""
    return {"processor": QwenProcessor.from_pretrained(folder / "processor")}


def save_qwen_vl(folder: Path) -> None:
    """Its two halves, as they stand in such a folder."""
    _seeing_tokenizer().save_pretrained(folder)
    T.Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=56 * 56).save_pretrained(folder)


def _seeing_tokenizer() -> Any:
    special = (
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
    )
    return T.PreTrainedTokenizerFast(
        tokenizer_object=letters(*special), pad_token="<|endoftext|>", eos_token="<|im_end|>", unk_token="<|endoftext|>"
    )


def _seeing(encoder: Any, tokenizer: Any) -> Any:
    """The configuration of the language model, with the words that stand for a picture."""
    config = encoder.config
    for name, word in (
        ("vision_start", "vision_start_token_id"),
        ("image_pad", "image_token_id"),
        ("video_pad", "video_token_id"),
    ):
        setattr(config, word, tokenizer.convert_tokens_to_ids(f"<|{name}|>"))
    return config
