"""Tiny random pipelines that begin a video with a picture, and Wan 2.2 with its two denoisers."""

from typing import Any

from tests.bench.faults import videos
from tests.bench.faults.parts import D, T, ddim, t5
from tests.helpers import tiny


def _seeing(size: int) -> Any:
    config = T.CLIPVisionConfig(
        hidden_size=16,
        image_size=size,
        projection_dim=16,
        intermediate_size=32,
        num_attention_heads=2,
        num_hidden_layers=2,
        patch_size=size // 4,
    )
    return T.CLIPVisionModelWithProjection(config)


def svd() -> Any:
    """A picture in the place of a prompt."""
    return D.StableVideoDiffusionPipeline(
        unet=D.UNetSpatioTemporalConditionModel(
            block_out_channels=(32, 32),
            layers_per_block=1,
            sample_size=16,
            in_channels=8,
            out_channels=4,
            down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
            up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
            cross_attention_dim=16,
            num_attention_heads=2,
            projection_class_embeddings_input_dim=24,
            addition_time_embed_dim=8,
            num_frames=3,
        ),
        image_encoder=_seeing(224),
        scheduler=D.EulerDiscreteScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            prediction_type="v_prediction",
            sigma_max=700.0,
            sigma_min=0.002,
            steps_offset=1,
            timestep_type="continuous",
            use_karras_sigmas=True,
        ),
        vae=D.AutoencoderKLTemporalDecoder(
            block_out_channels=(32, 32),
            down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
            latent_channels=4,
            layers_per_block=1,
            sample_size=32,
        ),
        feature_extractor=T.CLIPImageProcessor(size=224, crop_size=224),
    )


def _wan_transformer(**changes: Any) -> Any:
    config: dict[str, Any] = {
        "patch_size": (1, 2, 2),
        "num_attention_heads": 2,
        "attention_head_dim": 12,
        "in_channels": 4,
        "out_channels": 4,
        "text_dim": 32,
        "freq_dim": 32,
        "ffn_dim": 32,
        "num_layers": 2,
        "cross_attn_norm": True,
        "qk_norm": "rms_norm_across_heads",
        "rope_max_seq_len": 64,
    }
    return D.WanTransformer3DModel(**config | changes)


def wan_i2v() -> Any:
    base = videos.wan()
    return D.WanImageToVideoPipeline(
        transformer=_wan_transformer(in_channels=12, image_dim=16),
        scheduler=base.scheduler,
        vae=base.vae,
        text_encoder=base.text_encoder,
        tokenizer=base.tokenizer,
        image_encoder=_seeing(32),
        image_processor=T.CLIPImageProcessor(size=32, crop_size=32),
    )


def wan22() -> Any:
    """One denoiser for the noisier steps, another for the rest."""
    base = videos.wan()
    return D.WanPipeline(
        transformer=base.transformer,
        transformer_2=_wan_transformer(),
        boundary_ratio=0.875,
        scheduler=base.scheduler,
        vae=base.vae,
        text_encoder=base.text_encoder,
        tokenizer=base.tokenizer,
    )


def ltx_i2v() -> Any:
    return D.LTXImageToVideoPipeline(**videos.ltx().components)


def cogvideox_i2v() -> Any:
    base = videos.cogvideox()
    return D.CogVideoXImageToVideoPipeline(
        transformer=D.CogVideoXTransformer3DModel(
            num_attention_heads=2,
            attention_head_dim=16,
            in_channels=8,
            out_channels=4,
            time_embed_dim=8,
            text_embed_dim=32,
            num_layers=2,
            sample_width=4,
            sample_height=4,
            sample_frames=9,
            patch_size=2,
            temporal_compression_ratio=4,
            max_text_seq_length=16,
            use_rotary_positional_embeddings=True,
            use_learned_positional_embeddings=True,
        ),
        scheduler=ddim(prediction_type="v_prediction"),
        vae=base.vae,
        text_encoder=t5(),
        tokenizer=tiny.t5_tokenizer(),
    )
