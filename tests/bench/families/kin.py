"""Tiny random pipelines of Stable Diffusion's kin: what takes more than a prompt, needs few steps, or reads other words."""

import tempfile
from pathlib import Path
from typing import Any

from tests.bench.faults.parts import D, T, ddim
from tests.helpers import tiny

_NONE: dict[str, Any] = {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
_TEXT_TIME: dict[str, Any] = {"addition_embed_type": "text_time", "addition_time_embed_dim": 4, "use_linear_projection": True}


def _words(width: int, projection: int | None = None) -> Any:
    """A CLIP text encoder as wide as a published one, by which the family is told."""
    config = T.CLIPTextConfig(
        vocab_size=256,
        hidden_size=width,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        projection_dim=projection or width,
        bos_token_id=188,
        eos_token_id=189,
        pad_token_id=189,
    )
    return T.CLIPTextModel(config) if projection is None else T.CLIPTextModelWithProjection(config)


def _sd(pipeline: str, *, scheduler: Any = None, width: int = tiny.WIDTH, **unet: Any) -> Any:
    return getattr(D, pipeline)(
        vae=tiny.vae(),
        text_encoder=_words(width),
        tokenizer=tiny.clip_tokenizer(),
        unet=tiny.unet(width, **unet),
        scheduler=scheduler or ddim(),
        **_NONE,
    )


def sd2() -> Any:
    """v-prediction, told from 1.x by the width of its text encoder."""
    v = ddim(prediction_type="v_prediction", set_alpha_to_one=False, steps_offset=1)
    return _sd("StableDiffusionPipeline", scheduler=v, width=1024, use_linear_projection=True)


def sd15_inpaint() -> Any:
    return _sd("StableDiffusionInpaintPipeline", in_channels=9)


def sd2_inpaint() -> Any:
    return _sd("StableDiffusionInpaintPipeline", width=1024, in_channels=9, use_linear_projection=True)


def sd_turbo() -> Any:
    """Of SD 2.1, whose velocity it does not predict."""
    return _sd("StableDiffusionPipeline", scheduler=_ancestral(), width=1024, use_linear_projection=True)


def _ancestral() -> Any:
    return D.EulerAncestralDiscreteScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", timestep_spacing="trailing"
    )


def _lcm() -> Any:
    return D.LCMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", original_inference_steps=50)


def sd15_lcm() -> Any:
    """The guidance goes in through a layer of its own."""
    return _sd("LatentConsistencyModelPipeline", scheduler=_lcm(), time_cond_proj_dim=8)


def _sdxl(pipeline: str, *, scheduler: Any = None, **unet: Any) -> Any:
    added = {**_TEXT_TIME, "projection_class_embeddings_input_dim": 6 * 4 + tiny.WIDTH, **unet}
    return getattr(D, pipeline)(
        vae=tiny.vae(),
        text_encoder=tiny.clip_text(),
        text_encoder_2=tiny.clip_text(tiny.WIDTH),
        tokenizer=tiny.clip_tokenizer(),
        tokenizer_2=tiny.clip_tokenizer(),
        unet=tiny.unet(2 * tiny.WIDTH, transformer_layers_per_block=(1, 1), **added),
        scheduler=scheduler or ddim(),
        add_watermarker=False,
    )


def sdxl_inpaint() -> Any:
    return _sdxl("StableDiffusionXLInpaintPipeline", in_channels=9)


def sdxl_turbo() -> Any:
    return _sdxl("StableDiffusionXLPipeline", scheduler=_ancestral())


def sdxl_lightning() -> Any:
    euler = D.EulerDiscreteScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", timestep_spacing="trailing"
    )
    return _sdxl("StableDiffusionXLPipeline", scheduler=euler)


def sdxl_lcm() -> Any:
    return _sdxl("StableDiffusionXLPipeline", scheduler=_lcm(), time_cond_proj_dim=8)


def refiner() -> Any:
    """One text encoder, an aesthetic score in the place of two sizes, and no text alone."""
    width = 1280
    added = {**_TEXT_TIME, "projection_class_embeddings_input_dim": 5 * 4 + tiny.WIDTH}
    return D.StableDiffusionXLImg2ImgPipeline(
        vae=tiny.vae(),
        text_encoder=None,
        text_encoder_2=_words(width, tiny.WIDTH),
        tokenizer=None,
        tokenizer_2=tiny.clip_tokenizer(),
        unet=D.UNet2DConditionModel(
            sample_size=16,
            block_out_channels=(8, 16),
            layers_per_block=1,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=width,
            attention_head_dim=4,
            norm_num_groups=4,
            transformer_layers_per_block=(1, 1),
            **added,
        ),
        scheduler=ddim(),
        requires_aesthetics_score=True,
        add_watermarker=False,
    )


def kolors() -> Any:
    """SDXL's network with the words of a language model."""
    from diffusers.pipelines.kolors.text_encoder import ChatGLMConfig, ChatGLMModel  # warns when it is imported

    width = 32
    config = ChatGLMConfig(
        num_layers=2,
        padded_vocab_size=300,
        hidden_size=width,
        ffn_hidden_size=32,
        kv_channels=8,
        num_attention_heads=4,
        seq_length=256,
        multi_query_attention=True,
        multi_query_group_num=2,
        add_qkv_bias=True,
        original_rope=True,
    )
    added = {**_TEXT_TIME, "projection_class_embeddings_input_dim": 6 * 4 + width}
    return D.KolorsPipeline(
        vae=tiny.vae(),
        text_encoder=_drawn(ChatGLMModel(config)),
        tokenizer=_sentencepiece(),
        unet=tiny.unet(16, encoder_hid_dim=width, encoder_hid_dim_type="text_proj", transformer_layers_per_block=(1, 1), **added),
        scheduler=ddim(),
    )


def _drawn(encoder: Any) -> Any:
    """Its class leaves its weights as the memory holds them."""
    for name, parameter in encoder.named_parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(std=0.1)
        else:
            parameter.data.fill_(0.0 if name.endswith("bias") else 1.0)
    return encoder


def _sentencepiece() -> Any:
    """A tokenizer of single letters, made by sentencepiece itself."""
    import sentencepiece
    from diffusers.pipelines.kolors.tokenizer import ChatGLMTokenizer

    letters = " ".join(chr(code) for code in range(ord("a"), ord("z") + 1))
    with tempfile.TemporaryDirectory() as folder:
        prefix = str(Path(folder) / "tokenizer")
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter([letters, "a red sun", "green hills"]),
            model_prefix=prefix,
            model_type="char",
            vocab_size=30,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        tokenizer = ChatGLMTokenizer(f"{prefix}.model")
        kept = Path(tempfile.gettempdir()) / "halftone-tiny-chatglm.model"
        kept.write_bytes(Path(f"{prefix}.model").read_bytes())
        tokenizer.vocab_file = str(kept)
        return tokenizer
