"""Tiny random pipelines beyond the four of `tests.helpers.tiny`, each from the libraries' own classes."""

from typing import Any

import diffusers
import transformers
from diffusers import DDIMScheduler, FlowMatchEulerDiscreteScheduler
from tests.helpers import tiny
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

D: Any = diffusers
T: Any = transformers


def _t5(*, multilingual: bool = False) -> Any:
    """Gated, as the text encoders of picture models are."""
    kinds = (T.UMT5Config, T.UMT5EncoderModel) if multilingual else (T.T5Config, T.T5EncoderModel)
    config = kinds[0](vocab_size=128, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu")
    return kinds[1](config)


def _letters(*special: str) -> Any:
    """A byte-level tokenizer of single bytes, with special words."""
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *special]
    raw = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(list(special))
    raw.post_processor = processors.TemplateProcessing(
        single=f"{special[0]} $A", special_tokens=[(special[0], len(words) - len(special))]
    )
    return raw


def _qwen_tokenizer() -> Any:
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    made = T.PreTrainedTokenizerFast(
        tokenizer_object=_letters(*special), pad_token="<|endoftext|>", eos_token="<|im_end|>", unk_token="<|endoftext|>"
    )
    made.chat_template = (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    return made


def _bert_tokenizer() -> Any:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(chr(code) for code in range(ord("a"), ord("z") + 1))]
    words += [f"##{word}" for word in words[5:]]
    return T.BertTokenizer(vocab={word: index for index, word in enumerate(words)}, model_max_length=77)


def _flow(**extra: Any) -> Any:
    return FlowMatchEulerDiscreteScheduler(**extra)


def _ddim(**extra: Any) -> Any:
    return DDIMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False, **extra)


def _deep_vae() -> Any:
    """Eight pixels to a latent cell, for a pipeline that takes that for granted."""
    return D.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(8, 8, 8, 8),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=64,
        force_upcast=True,
    )


def sd2() -> Any:
    """v-prediction, linear projections, a text encoder of another width."""
    return D.StableDiffusionPipeline(
        vae=tiny.vae(),
        text_encoder=tiny.clip_text(),
        tokenizer=tiny.clip_tokenizer(),
        unet=tiny.unet(tiny.WIDTH, use_linear_projection=True, upcast_attention=True),
        scheduler=_ddim(prediction_type="v_prediction", set_alpha_to_one=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def flux() -> Any:
    return D.FluxPipeline(
        transformer=D.FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=2,
            num_single_layers=2,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=32,
            pooled_projection_dim=tiny.WIDTH,
            guidance_embeds=True,
            axes_dims_rope=(4, 4, 8),
        ),
        scheduler=_flow(),
        vae=tiny.vae(shift=0.1),
        text_encoder=tiny.clip_text(),
        tokenizer=tiny.clip_tokenizer(),
        text_encoder_2=_t5(),
        tokenizer_2=tiny.t5_tokenizer(),
    )


def chroma() -> Any:
    return D.ChromaPipeline(
        transformer=D.ChromaTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=2,
            num_single_layers=2,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=32,
            axes_dims_rope=(4, 4, 8),
            approximator_hidden_dim=32,
            approximator_layers=1,
            approximator_num_channels=16,
        ),
        scheduler=_flow(),
        vae=tiny.vae(shift=0.1),
        text_encoder=_t5(),
        tokenizer=tiny.t5_tokenizer(),
    )


def pixart() -> Any:
    return D.PixArtSigmaPipeline(
        transformer=D.PixArtTransformer2DModel(
            sample_size=16,
            num_layers=2,
            patch_size=2,
            attention_head_dim=8,
            num_attention_heads=3,
            caption_channels=32,
            in_channels=4,
            cross_attention_dim=24,
            out_channels=8,
            attention_bias=True,
            activation_fn="gelu-approximate",
            num_embeds_ada_norm=1000,
            norm_type="ada_norm_single",
            norm_elementwise_affine=False,
            norm_eps=1e-6,
            use_additional_conditions=False,
        ),
        scheduler=_ddim(),
        vae=tiny.vae(),
        text_encoder=_t5(),
        tokenizer=tiny.t5_tokenizer(),
    )


def hunyuandit() -> Any:
    bert = T.BertConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=37,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=80,
    )
    return D.HunyuanDiTPipeline(
        transformer=D.HunyuanDiT2DModel(
            sample_size=16,
            num_layers=2,
            patch_size=2,
            attention_head_dim=8,
            num_attention_heads=3,
            in_channels=4,
            cross_attention_dim=32,
            cross_attention_dim_t5=32,
            pooled_projection_dim=16,
            hidden_size=24,
            activation_fn="gelu-approximate",
            text_len=77,
            text_len_t5=256,
        ),
        scheduler=_ddim(prediction_type="v_prediction"),
        vae=_deep_vae(),
        text_encoder=T.BertModel(bert),
        tokenizer=_bert_tokenizer(),
        text_encoder_2=_t5(),
        tokenizer_2=tiny.t5_tokenizer(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def _gemma() -> Any:
    config = T.Gemma2Config(
        vocab_size=128,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
    )
    return T.Gemma2Model(config)


def lumina2() -> Any:
    return D.Lumina2Pipeline(
        transformer=D.Lumina2Transformer2DModel(
            sample_size=16,
            patch_size=2,
            in_channels=4,
            hidden_size=32,
            num_layers=2,
            num_refiner_layers=1,
            num_attention_heads=2,
            num_kv_heads=1,
            multiple_of=16,
            axes_dim_rope=(8, 4, 4),
            axes_lens=(300, 64, 64),
            cap_feat_dim=16,
        ),
        scheduler=_flow(),
        vae=tiny.vae(shift=0.1),
        text_encoder=_gemma(),
        tokenizer=tiny.gemma_tokenizer(),
    )


def auraflow() -> Any:
    return D.AuraFlowPipeline(
        transformer=D.AuraFlowTransformer2DModel(
            sample_size=16,
            patch_size=2,
            in_channels=4,
            num_mmdit_layers=1,
            num_single_dit_layers=2,
            attention_head_dim=8,
            num_attention_heads=4,
            caption_projection_dim=32,
            joint_attention_dim=32,
            out_channels=4,
            pos_embed_max_size=256,
        ),
        scheduler=_flow(),
        vae=tiny.vae(),
        text_encoder=_t5(multilingual=True),
        tokenizer=tiny.t5_tokenizer(),
    )


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
        scheduler=_flow(),
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
        tokenizer=_qwen_tokenizer(),
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
        scheduler=_ddim(),
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
        text_encoder=_t5(),
        tokenizer=tiny.t5_tokenizer(),
    )


def cogview4() -> Any:
    config = T.GlmConfig(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        pad_token_id=0,
    )
    tokenizer = T.PreTrainedTokenizerFast(tokenizer_object=_letters("<|endoftext|>"), pad_token="<|endoftext|>")
    return D.CogView4Pipeline(
        transformer=D.CogView4Transformer2DModel(
            patch_size=2,
            in_channels=4,
            num_layers=2,
            attention_head_dim=8,
            num_attention_heads=4,
            out_channels=4,
            text_embed_dim=32,
            time_embed_dim=8,
            condition_dim=4,
            sample_size=16,
        ),
        scheduler=_flow(
            base_shift=0.25, max_shift=0.75, base_image_seq_len=256, use_dynamic_shifting=True, time_shift_type="linear"
        ),
        vae=tiny.vae(),
        text_encoder=T.GlmModel(config),
        tokenizer=tokenizer,
    )


def z_image() -> Any:
    config = T.Qwen3Config(
        vocab_size=300,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
    )
    return D.ZImagePipeline(
        transformer=D.ZImageTransformer2DModel(
            all_patch_size=(2,),
            all_f_patch_size=(1,),
            in_channels=4,
            dim=32,
            n_layers=2,
            n_refiner_layers=1,
            n_heads=2,
            n_kv_heads=2,
            qk_norm=True,
            cap_feat_dim=16,
            axes_dims=[8, 4, 4],
            axes_lens=[512, 64, 64],
        ),
        scheduler=_flow(),
        vae=tiny.vae(shift=0.1),
        text_encoder=T.Qwen3Model(config),
        tokenizer=_qwen_tokenizer(),
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
        text_encoder=_t5(multilingual=True),
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
        scheduler=_flow(),
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
        text_encoder=_t5(),
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
        scheduler=_ddim(),
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
        text_encoder=_t5(),
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
        scheduler=_ddim(),
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
