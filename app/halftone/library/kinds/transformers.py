"""Denoisers that are transformers, in the naming of their makers and in that of diffusers."""

from typing import Final

from halftone.library.families import known_families as of
from halftone.library.kinds.layouts import DIFFUSERS, ORIGINAL, Base, Layout

_PICTURE: Final = ("picture",)
_MASKED: Final = ("picture", "mask")

_SD3_ORIGINAL: Final = (
    Base(name="SD 3.5 large", marks=("joint_blocks.37.x_block.attn.qkv.weight",)),
    Base(name="SD 3.5 medium", marks=("joint_blocks.0.x_block.attn2.qkv.weight",)),
    Base(name="SD 3 medium", marks=("x_embedder.proj.weight[1536,...]",), without=("joint_blocks.0.x_block.attn.ln_q.weight",)),
)
_SD3_DIFFUSERS: Final = (
    Base(name="SD 3.5 large", marks=("transformer_blocks.37.attn.to_q.weight",)),
    Base(name="SD 3.5 medium", marks=("transformer_blocks.0.attn2.to_q.weight",)),
    Base(name="SD 3 medium", marks=("pos_embed.proj.weight[1536,...]",), without=("transformer_blocks.0.attn.norm_q.weight",)),
)


def _flux(first: str, guided: str) -> tuple[Base, ...]:
    """first: the layer that takes the latents, 64 numbers a place; guided: of the layer for the guidance."""
    return (
        Base(name="FLUX.1 Fill", marks=(f"{first}[*,384]",), steps=50, guidance=30.0, takes=_MASKED),
        Base(name="FLUX.1 Depth or Canny", marks=(f"{first}[*,128]",), guidance=10.0, takes=("depth map or edges",)),
        Base(name="FLUX.1 dev", marks=(f"{guided}*",)),
        Base(name="FLUX.1 schnell", without=(f"{guided}*",), steps=4, guidance=0.0),
    )


def _flux2(text: str) -> tuple[Base, ...]:
    return (
        Base(name="FLUX.2 dev", marks=(f"{text}[*,15360]",)),
        Base(name="FLUX.2 klein 4B", marks=(f"{text}[*,7680]",), steps=4, guidance=1.0),
        Base(name="FLUX.2 klein 9B", marks=(f"{text}[*,12288]",), steps=4, guidance=1.0),
    )


def _sana(first: str, guided: str, blocks: str, normed: str) -> tuple[Base, ...]:
    return (
        Base(name="Sana Sprint 0.6B", marks=(guided, f"{first}[1152,...]"), steps=2),
        Base(name="Sana Sprint", marks=(guided,), steps=2),
        Base(name="Sana 1.5 4.8B", marks=(f"{blocks}.59.*",)),
        Base(name="Sana 1.5", marks=(normed,)),
        Base(name="Sana 0.6B", marks=(f"{first}[1152,...]",)),
        Base(name="Sana 1.6B", marks=(f"{first}[2240,...]",)),
    )


def _wan(first: str, image: str, vace: str, animate: str) -> tuple[Base, ...]:
    return (
        Base(name="Wan VACE", marks=(vace,), takes=("video or pictures",)),
        Base(name="Wan Animate", marks=(animate,), takes=("picture", "video")),
        Base(name="Wan 2.2 5B", marks=(f"{first}[3072,48,...]",)),
        Base(name="Wan 2.1 image to video", marks=(image,), takes=_PICTURE),
        Base(name="Wan 2.2 image to video", marks=(f"{first}[5120,36,...]",), takes=_PICTURE),
        Base(name="Wan 1.3B", marks=(f"{first}[1536,16,...]",)),
        Base(name="Wan 14B", marks=(f"{first}[5120,16,...]",)),
    )


_QWEN: Final = (
    Base(name="Qwen-Image Layered", marks=("time_text_embed.addition_t_embedding.weight",), takes=_PICTURE),
    Base(name="Qwen-Image Edit 2511", marks=("__index_timestep_zero__",), takes=_PICTURE),
)
_CONTROL: Final = ("controlnet_blocks.*", "controlnet_x_embedder.*", "pos_embed_input.*")

TRANSFORMERS: Final[tuple[Layout, ...]] = (
    Layout(family=of.SD3.name, naming=ORIGINAL, marks=("joint_blocks.0.*", "x_embedder.*"), bases=_SD3_ORIGINAL),
    Layout(family=of.SD3.name, naming=ORIGINAL, marks=("joint_blocks.0.*",), bases=_SD3_ORIGINAL),
    Layout(
        family=of.SD3.name,
        naming=DIFFUSERS,
        marks=(
            "pos_embed.pos_embed",
            "time_text_embed.text_embedder.linear_1.weight",
            "transformer_blocks.0.attn.add_k_proj.weight",
        ),
        without=(*_CONTROL, "single_transformer_blocks.*"),
        bases=_SD3_DIFFUSERS,
    ),
    Layout(
        family=of.CHROMA.name,
        naming=ORIGINAL,
        marks=("distilled_guidance_layer.*", "double_blocks.0.*"),
        bases=(Base(name="Chroma Radiance", marks=("nerf_blocks.*",)), Base(name="Chroma")),
    ),
    Layout(family=of.CHROMA.name, naming=DIFFUSERS, marks=("distilled_guidance_layer.*", "transformer_blocks.0.*")),
    Layout(
        family=of.FLUX2.name,
        naming=ORIGINAL,
        marks=("double_stream_modulation_img.lin.weight", "double_blocks.0.*"),
        bases=_flux2("txt_in.weight"),
    ),
    Layout(
        family=of.FLUX2.name,
        naming=DIFFUSERS,
        marks=("double_stream_modulation_img.linear.weight", "transformer_blocks.0.*"),
        bases=_flux2("context_embedder.weight"),
    ),
    Layout(
        family=of.HUNYUAN_IMAGE.name,
        naming=ORIGINAL,
        marks=("txt_in.individual_token_refiner.*", "img_in.proj.weight[*,*,*,*]", "double_blocks.0.*"),
    ),
    Layout(family=of.HUNYUAN_VIDEO.name, naming=ORIGINAL, marks=("txt_in.individual_token_refiner.*", "double_blocks.0.*")),
    Layout(
        family=of.HUNYUAN_IMAGE.name,
        naming=DIFFUSERS,
        marks=("context_embedder.token_refiner.*", "x_embedder.proj.weight[*,*,*,*]"),
    ),
    Layout(family=of.HUNYUAN_VIDEO.name, naming=DIFFUSERS, marks=("context_embedder.token_refiner.*", "x_embedder.proj.weight")),
    Layout(
        family=of.FLUX.name,
        naming=ORIGINAL,
        marks=("double_blocks.0.*",),
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
    Layout(
        family=of.FLUX.name,
        naming=DIFFUSERS,
        marks=("time_text_embed.text_embedder.linear_1.weight", "single_transformer_blocks.0.*", "x_embedder.weight"),
        without=_CONTROL,
        bases=_flux("x_embedder.weight", "time_text_embed.guidance_embedder."),
    ),
    Layout(
        family=of.SANA.name,
        naming=ORIGINAL,
        marks=("blocks.0.cross_attn.q_linear.weight", "blocks.0.mlp.inverted_conv.conv.weight"),
        bases=_sana("x_embedder.proj.weight", "cfg_embedder.mlp.0.weight", "blocks", "blocks.0.attn.q_norm.weight"),
    ),
    Layout(
        family=of.SANA.name,
        naming=DIFFUSERS,
        marks=(
            "transformer_blocks.0.ff.conv_inverted.weight[*,*,*,*]",
            "patch_embed.proj.weight[*,*,*,*]",
            "caption_norm.weight",
        ),
        without=("controlnet_blocks.*", "transformer_blocks.0.ff.conv_temp.weight"),
        bases=_sana(
            "patch_embed.proj.weight",
            "time_embed.guidance_embedder.linear_1.weight",
            "transformer_blocks",
            "transformer_blocks.0.attn1.norm_q.weight",
        ),
    ),
    Layout(
        family=of.PIXART_ALPHA.name,
        naming=ORIGINAL,
        marks=("t_block.1.weight", "blocks.0.cross_attn.kv_linear.weight", "{ar_embedder,csize_embedder}.mlp.0.weight"),
    ),
    Layout(
        family=of.PIXART_ALPHA.name,
        naming=ORIGINAL,
        marks=("t_block.1.weight", "blocks.0.cross_attn.kv_linear.weight", "y_embedder.y_embedding[120,*]"),
    ),
    Layout(family=of.PIXART_SIGMA.name, naming=ORIGINAL, marks=("t_block.1.weight", "blocks.0.cross_attn.kv_linear.weight")),
    Layout(
        family=of.PIXART_ALPHA.name,
        naming=DIFFUSERS,
        marks=("pos_embed.proj.weight", "adaln_single.emb.resolution_embedder.linear_1.weight"),
    ),
    Layout(
        family=of.PIXART_SIGMA.name,
        naming=DIFFUSERS,
        marks=("pos_embed.proj.weight[*,4,...]", "adaln_single.linear.weight", "transformer_blocks.0.attn2.to_k.weight"),
        without=("patchify_proj.weight", "pos_embed.proj.weight[2304,...]"),
    ),
    Layout(family=of.HUNYUAN_DIT.name, naming=ORIGINAL, marks=("mlp_t5.0.weight", "text_embedding_padding")),
    Layout(
        family=of.HUNYUAN_DIT.name,
        naming=DIFFUSERS,
        marks=("text_embedding_padding", "time_extra_emb.pooler.positional_embedding", "blocks.0.attn2.to_q.weight"),
        without=("controlnet_blocks.*",),
    ),
    Layout(
        family=of.Z_IMAGE.name,
        naming=ORIGINAL,
        marks=("layers.0.adaLN_modulation.0.weight", "cap_embedder.*", "noise_refiner.*"),
        without=("all_x_embedder.*",),
    ),
    Layout(family=of.Z_IMAGE.name, naming=DIFFUSERS, marks=("all_x_embedder.*", "layers.0.*")),
    Layout(
        family=of.LUMINA2.name,
        naming=ORIGINAL,
        marks=("cap_embedder.0.weight", "noise_refiner.0.attention.*", "layers.0.attention.*"),
        bases=(Base(name="NewBie", marks=("clip_text_pooled_proj.0.weight",)), Base(name="Lumina 2")),
    ),
    Layout(
        family=of.LUMINA2.name,
        naming=DIFFUSERS,
        marks=("time_caption_embed.caption_embedder.0.weight", "context_refiner.0.attn.*", "norm_out.linear_1.weight"),
        without=("double_stream_layers.*", "ref_image_patch_embedder.*"),
    ),
    Layout(
        family=of.LUMINA.name,
        naming=DIFFUSERS,
        marks=("time_caption_embed.caption_embedder.0.weight", "layers.0.gate", "layers.0.attn2.to_k.weight"),
    ),
    Layout(family=of.AURA_FLOW.name, naming=ORIGINAL, marks=("double_layers.0.attn.w1q.weight", "cond_seq_linear.weight")),
    Layout(family=of.AURA_FLOW.name, naming=DIFFUSERS, marks=("joint_transformer_blocks.0.*", "register_tokens")),
    Layout(
        family=of.QWEN_IMAGE.name,
        naming=DIFFUSERS,
        marks=("txt_norm.weight", "transformer_blocks.0.img_mod.1.weight", "transformer_blocks.0.txt_mlp.*"),
        without=_CONTROL,
        bases=_QWEN,
    ),
    Layout(
        family=of.COGVIEW3.name,
        naming=DIFFUSERS,
        marks=(
            "patch_embed.proj.weight[2560,64]",
            "patch_embed.text_proj.weight",
            "time_condition_embed.condition_embedder.linear_1.weight",
        ),
    ),
    Layout(
        family=of.COGVIEW4.name,
        naming=DIFFUSERS,
        marks=("patch_embed.text_proj.weight", "time_condition_embed.condition_embedder.linear_1.weight"),
    ),
    Layout(
        family=of.KANDINSKY5.name,
        naming=DIFFUSERS,
        marks=("visual_transformer_blocks.0.cross_attention.*", "pooled_text_embeddings.*"),
    ),
    Layout(
        family=of.HIDREAM.name,
        naming=DIFFUSERS,
        marks=("double_stream_blocks.0.block.adaLN_modulation.1.weight", "single_stream_blocks.0.*"),
    ),
    Layout(
        family=of.OMNIGEN.name, naming=DIFFUSERS, marks=("patch_embedding.output_image_proj.weight", "time_token.linear_1.weight")
    ),
    Layout(
        family=of.OMNIGEN.name,
        naming=ORIGINAL,
        marks=("llm.layers.0.*", "input_x_embedder.proj.weight", "time_token.mlp.0.weight"),
    ),
    Layout(family=of.KREA2.name, naming=ORIGINAL, marks=("txtfusion.projector.weight",)),
    Layout(family=of.KREA2.name, naming=DIFFUSERS, marks=("text_fusion.projector.weight", "time_mod_proj.weight")),
    Layout(
        family=of.WAN.name,
        naming=ORIGINAL,
        marks=("head.modulation", "patch_embedding.weight", "blocks.0.cross_attn.*"),
        bases=_wan("patch_embedding.weight", "img_emb.proj.0.bias", "vace_blocks.*", "face_adapter.*"),
    ),
    Layout(
        family=of.WAN.name,
        naming=DIFFUSERS,
        marks=("condition_embedder.text_embedder.linear_1.weight", "patch_embedding.weight", "blocks.0.attn2.*"),
        bases=_wan("patch_embedding.weight", "condition_embedder.image_embedder.*", "vace_blocks.*", "face_adapter.*"),
    ),
    Layout(family=of.LTX2.name, naming=ORIGINAL, marks=("patchify_proj.weight", "audio_adaln_single.linear.weight")),
    Layout(family=of.LTX2.name, naming=DIFFUSERS, marks=("audio_proj_in.weight", "proj_in.weight", "audio_scale_shift_table")),
    Layout(family=of.LTX.name, naming=ORIGINAL, marks=("patchify_proj.weight", "adaln_single.linear.weight")),
    Layout(
        family=of.LTX.name,
        naming=DIFFUSERS,
        marks=(
            "proj_in.weight[*,*]",
            "caption_projection.linear_1.weight",
            "transformer_blocks.0.attn2.norm_k.weight",
            "scale_shift_table",
        ),
        without=("patch_embed.*",),
    ),
    Layout(family=of.MOCHI.name, naming=ORIGINAL, marks=("t5_yproj.weight", "blocks.0.attn.qkv_x.weight")),
    Layout(family=of.MOCHI.name, naming=DIFFUSERS, marks=("pos_frequencies", "time_embed.pooler.to_kv.weight")),
    Layout(
        family=of.COGVIDEO.name,
        naming=DIFFUSERS,
        marks=("patch_embed.text_proj.weight", "time_embedding.linear_1.weight", "transformer_blocks.0.norm1.linear.weight"),
    ),
    Layout(family=of.COSMOS.name, naming=ORIGINAL, marks=("x_embedder.proj.1.weight", "{blocks.block0,blocks.0}.*")),
    Layout(
        family=of.COSMOS.name, naming=DIFFUSERS, marks=("patch_embed.proj.weight[*,*]", "time_embed.t_embedder.linear_1.weight")
    ),
)
