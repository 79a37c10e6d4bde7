"""Tiny random pipelines beyond the four of `tests.helpers.tiny`, each from the libraries' own classes."""

from typing import Any

from tests.bench.faults.parts import D, T, bert_tokenizer, ddim, deep_vae, flow, gemma, letters, qwen_tokenizer, t5
from tests.helpers import tiny


def sd2() -> Any:
    """v-prediction, linear projections, a text encoder of another width."""
    return D.StableDiffusionPipeline(
        vae=tiny.vae(),
        text_encoder=tiny.clip_text(),
        tokenizer=tiny.clip_tokenizer(),
        unet=tiny.unet(tiny.WIDTH, use_linear_projection=True, upcast_attention=True),
        scheduler=ddim(prediction_type="v_prediction", set_alpha_to_one=False, steps_offset=1),
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
        scheduler=flow(),
        vae=tiny.vae(shift=0.1),
        text_encoder=tiny.clip_text(),
        tokenizer=tiny.clip_tokenizer(),
        text_encoder_2=t5(),
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
        scheduler=flow(),
        vae=tiny.vae(shift=0.1),
        text_encoder=t5(),
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
        scheduler=ddim(),
        vae=tiny.vae(),
        text_encoder=t5(),
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
        scheduler=ddim(prediction_type="v_prediction"),
        vae=deep_vae(),
        text_encoder=T.BertModel(bert),
        tokenizer=bert_tokenizer(),
        text_encoder_2=t5(),
        tokenizer_2=tiny.t5_tokenizer(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


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
        scheduler=flow(),
        vae=tiny.vae(shift=0.1),
        text_encoder=gemma(),
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
        scheduler=flow(),
        vae=tiny.vae(),
        text_encoder=t5(multilingual=True),
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
    tokenizer = T.PreTrainedTokenizerFast(tokenizer_object=letters("<|endoftext|>"), pad_token="<|endoftext|>")
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
        scheduler=flow(
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
        scheduler=flow(),
        vae=tiny.vae(shift=0.1),
        text_encoder=T.Qwen3Model(config),
        tokenizer=qwen_tokenizer(),
    )
