"""Tiny random pipelines that begin a video with a picture, and Wan 2.2 with its two denoisers."""

from typing import Any

from tests.bench.families.remade import remade
from tests.bench.faults import videos
from tests.bench.faults.parts import D, T, ddim


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


def wan_i2v() -> Any:
    parts = videos.wan().components
    return D.WanImageToVideoPipeline(
        **{**parts, "transformer": remade(parts["transformer"], in_channels=12, image_dim=16)},
        image_encoder=_seeing(32),
        image_processor=T.CLIPImageProcessor(size=32, crop_size=32),
    )


def wan22() -> Any:
    """One denoiser for the noisier steps, another for the rest."""
    parts = videos.wan().components
    return D.WanPipeline(**{**parts, "transformer_2": remade(parts["transformer"])}, boundary_ratio=0.875)


def ltx_i2v() -> Any:
    return D.LTXImageToVideoPipeline(**videos.ltx().components)


def cogvideox_i2v() -> Any:
    parts = videos.cogvideox().components
    turning = {"use_rotary_positional_embeddings": True, "use_learned_positional_embeddings": True}
    transformer = remade(parts["transformer"], num_attention_heads=2, attention_head_dim=16, in_channels=8, **turning)
    scheduler = ddim(prediction_type="v_prediction")
    return D.CogVideoXImageToVideoPipeline(**{**parts, "transformer": transformer, "scheduler": scheduler})
