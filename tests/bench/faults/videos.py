"""Tiny random pipelines of pictures with a time axis, and of two stages, each from the libraries' own classes."""

from typing import Any

import diffusers
from tests.bench.faults.parts import D, T, ddim, flow, qwen_tokenizer, t5
from tests.helpers import tiny


def qwen_image() -> Any:
    config = T.Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "vocab_size": 300,
            "rope_scaling": {"mrope_section": [1, 1, 2], "rope_type": "default", "type": "default"},
            "rope_theta": 1e6,
        },
        vision_config={
            "depth": 1,
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_heads": 2,
            "out_hidden_size": 16,
        },
        hidden_size=16,
        vocab_size=300,
    )
    return D.QwenImagePipeline(
        transformer=D.QwenImageTransformer2DModel(
            patch_size=2,
            in_channels=16,
            out_channels=4,
            num_layers=2,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=16,
            axes_dims_rope=(8, 4, 4),
        ),
        scheduler=flow(),
        vae=D.AutoencoderKLQwenImage(
            base_dim=24,
            z_dim=4,
            dim_mult=[1, 2, 4],
            num_res_blocks=1,
            temperal_downsample=[False, True],
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        text_encoder=T.Qwen2_5_VLForConditionalGeneration(config),
        tokenizer=qwen_tokenizer(),
    )


def hunyuan_image() -> Any:
    """Guided by a part of its own, with a momentum over the steps."""
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16}
    rope = {"mrope_section": [1, 1, 2], "rope_type": "default", "type": "default"}
    text = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": 300,
        "rope_scaling": rope,
        "rope_theta": 1e6,
    }
    return D.HunyuanImagePipeline(
        transformer=D.HunyuanImageTransformer2DModel(
            in_channels=4,
            out_channels=4,
            num_attention_heads=2,
            attention_head_dim=8,
            num_layers=1,
            num_single_layers=1,
            num_refiner_layers=1,
            text_embed_dim=16,
            text_embed_2_dim=32,
            rope_axes_dim=(4, 4),
        ),
        scheduler=flow(),
        vae=D.AutoencoderKLHunyuanImage(
            in_channels=3,
            out_channels=3,
            latent_channels=4,
            block_out_channels=(32, 32),
            layers_per_block=1,
            spatial_compression_ratio=2,
            sample_size=32,
            scaling_factor=0.7,
        ),
        text_encoder=T.Qwen2_5_VLForConditionalGeneration(T.Qwen2_5_VLConfig(text_config=text, vision_config=vision)),
        tokenizer=qwen_tokenizer(),
        text_encoder_2=T.T5EncoderModel(T.T5Config(vocab_size=384, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=2)),
        tokenizer_2=T.ByT5Tokenizer(),
        guider=diffusers.guiders.AdaptiveProjectedMixGuidance(adaptive_projected_guidance_start_step=2),
    )


def kandinsky3() -> Any:
    return D.Kandinsky3Pipeline(
        unet=D.Kandinsky3UNet(
            in_channels=4,
            time_embedding_dim=8,
            groups=2,
            attention_head_dim=4,
            layers_per_block=2,
            block_out_channels=(16, 32),
            cross_attention_dim=16,
            encoder_hid_dim=32,
        ),
        scheduler=ddim(),
        movq=D.VQModel(
            block_out_channels=(32, 32),
            down_block_types=("DownEncoderBlock2D", "AttnDownEncoderBlock2D"),
            in_channels=3,
            latent_channels=4,
            layers_per_block=1,
            norm_num_groups=4,
            norm_type="spatial",
            num_vq_embeddings=12,
            out_channels=3,
            up_block_types=("AttnUpDecoderBlock2D", "UpDecoderBlock2D"),
            vq_embed_dim=4,
        ),
        text_encoder=t5(),
        tokenizer=tiny.t5_tokenizer(),
    )


def wan() -> Any:
    return D.WanPipeline(
        transformer=D.WanTransformer3DModel(
            patch_size=(1, 2, 2),
            num_attention_heads=2,
            attention_head_dim=12,
            in_channels=4,
            out_channels=4,
            text_dim=32,
            freq_dim=32,
            ffn_dim=32,
            num_layers=2,
            cross_attn_norm=True,
            qk_norm="rms_norm_across_heads",
            rope_max_seq_len=64,
        ),
        scheduler=D.UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0),
        vae=D.AutoencoderKLWan(
            base_dim=8,
            z_dim=4,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        text_encoder=t5(multilingual=True),
        tokenizer=tiny.t5_tokenizer(),
    )


def ltx() -> Any:
    return D.LTXPipeline(
        transformer=D.LTXVideoTransformer3DModel(
            in_channels=8,
            out_channels=8,
            patch_size=1,
            patch_size_t=1,
            num_attention_heads=4,
            attention_head_dim=8,
            cross_attention_dim=32,
            num_layers=2,
            caption_channels=32,
        ),
        scheduler=flow(),
        vae=D.AutoencoderKLLTXVideo(
            in_channels=3,
            out_channels=3,
            latent_channels=8,
            block_out_channels=(8, 8, 8, 8),
            decoder_block_out_channels=(8, 8, 8, 8),
            layers_per_block=(1, 1, 1, 1, 1),
            decoder_layers_per_block=(1, 1, 1, 1, 1),
            spatio_temporal_scaling=(True, True, False, False),
            decoder_spatio_temporal_scaling=(True, True, False, False),
            decoder_inject_noise=(False, False, False, False, False),
            upsample_residual=(False, False, False, False),
            upsample_factor=(1, 1, 1, 1),
            timestep_conditioning=False,
            patch_size=1,
            patch_size_t=1,
            encoder_causal=True,
            decoder_causal=False,
        ),
        text_encoder=t5(),
        tokenizer=tiny.t5_tokenizer(),
    )


def cogvideox() -> Any:
    return D.CogVideoXPipeline(
        transformer=D.CogVideoXTransformer3DModel(
            num_attention_heads=4,
            attention_head_dim=8,
            in_channels=4,
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
        ),
        scheduler=ddim(),
        vae=D.AutoencoderKLCogVideoX(
            in_channels=3,
            out_channels=3,
            down_block_types=("CogVideoXDownBlock3D",) * 4,
            up_block_types=("CogVideoXUpBlock3D",) * 4,
            block_out_channels=(8, 8, 8, 8),
            latent_channels=4,
            layers_per_block=1,
            norm_num_groups=2,
            temporal_compression_ratio=4,
        ),
        text_encoder=t5(),
        tokenizer=tiny.t5_tokenizer(),
    )


def kandinsky22() -> Any:
    """The decoder alone would need an image embedding; with its prior it takes a prompt."""
    vision = T.CLIPVisionConfig(
        hidden_size=16,
        image_size=32,
        projection_dim=16,
        intermediate_size=32,
        num_attention_heads=2,
        num_hidden_layers=2,
        patch_size=8,
    )
    return D.KandinskyV22CombinedPipeline(
        unet=D.UNet2DConditionModel(
            in_channels=4,
            out_channels=8,
            addition_embed_type="image",
            down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
            up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"),
            mid_block_type="UNetMidBlock2DSimpleCrossAttn",
            block_out_channels=(16, 32),
            layers_per_block=1,
            encoder_hid_dim=16,
            encoder_hid_dim_type="image_proj",
            cross_attention_dim=16,
            attention_head_dim=4,
            norm_num_groups=4,
            resnet_time_scale_shift="scale_shift",
            class_embed_type=None,
        ),
        scheduler=ddim(),
        movq=kandinsky3().movq,
        prior_prior=D.PriorTransformer(
            num_attention_heads=2,
            attention_head_dim=8,
            embedding_dim=16,
            num_layers=2,
            num_embeddings=77,
            additional_embeddings=4,
        ),
        prior_image_encoder=T.CLIPVisionModelWithProjection(vision),
        prior_text_encoder=tiny.clip_text(16),
        prior_tokenizer=tiny.clip_tokenizer(),
        prior_scheduler=D.UnCLIPScheduler(variance_type="fixed_small_log", prediction_type="sample", num_train_timesteps=1000),
        prior_image_processor=T.CLIPImageProcessor(size=32, crop_size=32),
    )
