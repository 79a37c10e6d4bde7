"""Denoisers that are transformers, in the naming of their makers and in that of diffusers."""

from typing import Final

from halftone.library.families import known_families as of
from halftone.library.kinds.layouts import Base, Layout, diffusers, original

_PICTURE: Final = ("picture",)
_MASKED: Final = ("picture", "mask")

_SD3_ORIGINAL: Final = (
    Base("SD 3.5 large", ("joint_blocks.37.x_block.attn.qkv.weight",)),
    Base("SD 3.5 medium", ("joint_blocks.0.x_block.attn2.qkv.weight",)),
    Base("SD 3 medium", ("x_embedder.proj.weight[1536,...]",), without=("joint_blocks.0.x_block.attn.ln_q.weight",)),
)
_SD3_DIFFUSERS: Final = (
    Base("SD 3.5 large", ("transformer_blocks.37.attn.to_q.weight",)),
    Base("SD 3.5 medium", ("transformer_blocks.0.attn2.to_q.weight",)),
    Base("SD 3 medium", ("pos_embed.proj.weight[1536,...]",), without=("transformer_blocks.0.attn.norm_q.weight",)),
)


def _flux(first: str, guided: str) -> tuple[Base, ...]:
    """first: the layer that takes the latents, 64 numbers a place; guided: of the layer for the guidance."""
    return (
        Base("FLUX.1 Fill", (f"{first}[*,384]",), steps=50, guidance=30.0, takes=_MASKED),
        Base("FLUX.1 Depth or Canny", (f"{first}[*,128]",), guidance=10.0, takes=("depth map or edges",)),
        Base("FLUX.1 dev", (f"{guided}*",)),
        Base("FLUX.1 schnell", without=(f"{guided}*",), steps=4, guidance=0.0),
    )


def _flux2(text: str) -> tuple[Base, ...]:
    return (
        Base("FLUX.2 dev", (f"{text}[*,15360]",)),
        Base("FLUX.2 klein 4B", (f"{text}[*,7680]",), steps=4, guidance=1.0),
        Base("FLUX.2 klein 9B", (f"{text}[*,12288]",), steps=4, guidance=1.0),
    )


def _sana(first: str, guided: str, blocks: str, normed: str) -> tuple[Base, ...]:
    return (
        Base("Sana Sprint 0.6B", (guided, f"{first}[1152,...]"), steps=2),
        Base("Sana Sprint", (guided,), steps=2),
        Base("Sana 1.5 4.8B", (f"{blocks}.59.*",)),
        Base("Sana 1.5", (normed,)),
        Base("Sana 0.6B", (f"{first}[1152,...]",)),
        Base("Sana 1.6B", (f"{first}[2240,...]",)),
    )


def _wan(first: str, image: str, vace: str, animate: str) -> tuple[Base, ...]:
    return (
        Base("Wan VACE", (vace,), takes=("video or pictures",)),
        Base("Wan Animate", (animate,), takes=("picture", "video")),
        Base("Wan 2.2 5B", (f"{first}[*,48,...]",)),
        Base("Wan 2.1 image to video", (image,), takes=_PICTURE),
        Base("Wan 2.2 image to video", (f"{first}[5120,36,...]",), takes=_PICTURE),
        Base("Wan 1.3B", (f"{first}[1536,16,...]",)),
        Base("Wan 14B", (f"{first}[5120,16,...]",)),
    )


_QWEN: Final = (
    Base("Qwen-Image Layered", ("time_text_embed.addition_t_embedding.weight",), takes=_PICTURE),
    Base("Qwen-Image Edit 2511", ("__index_timestep_zero__",), takes=_PICTURE),
)
_CONTROL: Final = ("controlnet_blocks.*", "controlnet_x_embedder.*", "pos_embed_input.*")

TRANSFORMERS: Final[tuple[Layout, ...]] = (
    original(of.SD3, "joint_blocks.0.*", "x_embedder.*", bases=_SD3_ORIGINAL),
    original(of.SD3, "joint_blocks.0.*", bases=_SD3_ORIGINAL),
    diffusers(
        of.SD3,
        "pos_embed.pos_embed",
        "time_text_embed.text_embedder.linear_1.weight",
        "transformer_blocks.0.attn.add_k_proj.weight",
        without=(*_CONTROL, "single_transformer_blocks.*"),
        bases=_SD3_DIFFUSERS,
    ),
    original(
        of.CHROMA,
        "distilled_guidance_layer.*",
        "double_blocks.0.*",
        bases=(Base("Chroma Radiance", ("nerf_blocks.*",)), Base("Chroma")),
    ),
    diffusers(of.CHROMA, "distilled_guidance_layer.*", "transformer_blocks.0.*"),
    original(of.FLUX2, "double_stream_modulation_img.lin.weight", "double_blocks.0.*", bases=_flux2("txt_in.weight")),
    diffusers(
        of.FLUX2, "double_stream_modulation_img.linear.weight", "transformer_blocks.0.*", bases=_flux2("context_embedder.weight")
    ),
    original(of.HUNYUAN_IMAGE, "txt_in.individual_token_refiner.*", "img_in.proj.weight[*,*,*,*]", "double_blocks.0.*"),
    original(of.HUNYUAN_VIDEO, "txt_in.individual_token_refiner.*", "double_blocks.0.*"),
    diffusers(of.HUNYUAN_IMAGE, "context_embedder.token_refiner.*", "x_embedder.proj.weight[*,*,*,*]"),
    diffusers(of.HUNYUAN_VIDEO, "context_embedder.token_refiner.*", "x_embedder.proj.weight"),
    original(
        of.FLUX,
        "double_blocks.0.*",
        without=(
            "controlnet_blocks.*",
            "input_hint_block.*",
            "latent_in.weight",
            "txt_norm.*",
            "txt_in.weight[*,3584]",
            "condition_embedder.*",
        ),
        bases=_flux("img_in.weight", "guidance_in."),
    ),
    diffusers(
        of.FLUX,
        "time_text_embed.text_embedder.linear_1.weight",
        "single_transformer_blocks.0.*",
        "x_embedder.weight",
        without=_CONTROL,
        bases=_flux("x_embedder.weight", "time_text_embed.guidance_embedder."),
    ),
    original(
        of.SANA,
        "blocks.0.cross_attn.q_linear.weight",
        "blocks.0.mlp.inverted_conv.conv.weight",
        bases=_sana("x_embedder.proj.weight", "cfg_embedder.mlp.0.weight", "blocks", "blocks.0.attn.q_norm.weight"),
    ),
    diffusers(
        of.SANA,
        "transformer_blocks.0.ff.conv_inverted.weight[*,*,*,*]",
        "patch_embed.proj.weight[*,*,*,*]",
        "caption_norm.weight",
        without=("controlnet_blocks.*", "transformer_blocks.0.ff.conv_temp.weight"),
        bases=_sana(
            "patch_embed.proj.weight",
            "time_embed.guidance_embedder.linear_1.weight",
            "transformer_blocks",
            "transformer_blocks.0.attn1.norm_q.weight",
        ),
    ),
    original(
        of.PIXART_ALPHA, "t_block.1.weight", "blocks.0.cross_attn.kv_linear.weight", "{ar_embedder,csize_embedder}.mlp.0.weight"
    ),
    original(of.PIXART_ALPHA, "t_block.1.weight", "blocks.0.cross_attn.kv_linear.weight", "y_embedder.y_embedding[120,*]"),
    original(of.PIXART_SIGMA, "t_block.1.weight", "blocks.0.cross_attn.kv_linear.weight"),
    diffusers(of.PIXART_ALPHA, "pos_embed.proj.weight", "adaln_single.emb.resolution_embedder.linear_1.weight"),
    diffusers(
        of.PIXART_SIGMA,
        "pos_embed.proj.weight[*,4,...]",
        "adaln_single.linear.weight",
        "transformer_blocks.0.attn2.to_k.weight",
        without=("patchify_proj.weight", "pos_embed.proj.weight[2304,...]"),
    ),
    original(of.HUNYUAN_DIT, "mlp_t5.0.weight", "text_embedding_padding"),
    diffusers(
        of.HUNYUAN_DIT,
        "text_embedding_padding",
        "time_extra_emb.pooler.positional_embedding",
        "blocks.0.attn2.to_q.weight",
        without=("controlnet_blocks.*",),
    ),
    original(
        of.Z_IMAGE, "layers.0.adaLN_modulation.0.weight", "cap_embedder.*", "noise_refiner.*", without=("all_x_embedder.*",)
    ),
    diffusers(of.Z_IMAGE, "all_x_embedder.*", "layers.0.*"),
    original(
        of.LUMINA2,
        "cap_embedder.0.weight",
        "noise_refiner.0.attention.*",
        "layers.0.attention.*",
        bases=(Base("NewBie", ("clip_text_pooled_proj.0.weight",)), Base("Lumina 2")),
    ),
    diffusers(
        of.LUMINA2,
        "time_caption_embed.caption_embedder.0.weight",
        "context_refiner.0.attn.*",
        "norm_out.linear_1.weight",
        without=("double_stream_layers.*", "ref_image_patch_embedder.*"),
    ),
    diffusers(of.LUMINA, "time_caption_embed.caption_embedder.0.weight", "layers.0.gate", "layers.0.attn2.to_k.weight"),
    original(of.AURA_FLOW, "double_layers.0.attn.w1q.weight", "cond_seq_linear.weight"),
    diffusers(of.AURA_FLOW, "joint_transformer_blocks.0.*", "register_tokens"),
    diffusers(
        of.QWEN_IMAGE,
        "txt_norm.weight",
        "transformer_blocks.0.img_mod.1.weight",
        "transformer_blocks.0.txt_mlp.*",
        without=_CONTROL,
        bases=_QWEN,
    ),
    diffusers(
        of.COGVIEW3,
        "patch_embed.proj.weight[2560,64]",
        "patch_embed.text_proj.weight",
        "time_condition_embed.condition_embedder.linear_1.weight",
    ),
    diffusers(of.COGVIEW4, "patch_embed.text_proj.weight", "time_condition_embed.condition_embedder.linear_1.weight"),
    diffusers(of.KANDINSKY5, "visual_transformer_blocks.0.cross_attention.*", "pooled_text_embeddings.*"),
    diffusers(of.HIDREAM, "double_stream_blocks.0.block.adaLN_modulation.1.weight", "single_stream_blocks.0.*"),
    diffusers(of.OMNIGEN, "patch_embedding.output_image_proj.weight", "time_token.linear_1.weight"),
    original(of.OMNIGEN, "llm.layers.0.*", "input_x_embedder.proj.weight", "time_token.mlp.0.weight"),
    original(of.KREA2, "txtfusion.projector.weight"),
    diffusers(of.KREA2, "text_fusion.projector.weight", "time_mod_proj.weight"),
    original(
        of.WAN,
        "head.modulation",
        "patch_embedding.weight",
        "blocks.0.cross_attn.*",
        bases=_wan("patch_embedding.weight", "img_emb.proj.0.bias", "vace_blocks.*", "face_adapter.*"),
    ),
    diffusers(
        of.WAN,
        "condition_embedder.text_embedder.linear_1.weight",
        "patch_embedding.weight",
        "blocks.0.attn2.*",
        bases=_wan("patch_embedding.weight", "condition_embedder.image_embedder.*", "vace_blocks.*", "face_adapter.*"),
    ),
    original(of.LTX2, "patchify_proj.weight", "audio_adaln_single.linear.weight"),
    diffusers(of.LTX2, "audio_proj_in.weight", "proj_in.weight", "audio_scale_shift_table"),
    original(of.LTX, "patchify_proj.weight", "adaln_single.linear.weight"),
    diffusers(
        of.LTX,
        "proj_in.weight[*,*]",
        "caption_projection.linear_1.weight",
        "transformer_blocks.0.attn2.norm_k.weight",
        "scale_shift_table",
        without=("patch_embed.*",),
    ),
    original(of.MOCHI, "t5_yproj.weight", "blocks.0.attn.qkv_x.weight"),
    diffusers(of.MOCHI, "pos_frequencies", "time_embed.pooler.to_kv.weight"),
    diffusers(
        of.COGVIDEO, "patch_embed.text_proj.weight", "time_embedding.linear_1.weight", "transformer_blocks.0.norm1.linear.weight"
    ),
    original(of.COSMOS, "x_embedder.proj.1.weight", "{blocks.block0,blocks.0}.*"),
    diffusers(of.COSMOS, "patch_embed.proj.weight[*,*]", "time_embed.t_embedder.linear_1.weight"),
)
