"""Denoisers that are U-shaped networks: Stable Diffusion 1 and 2, SDXL and what is built upon them, Cascade, Kandinsky."""

from typing import Final

from halftone.library.families import known_families as of
from halftone.library.kinds.layouts import DIFFUSERS, ORIGINAL, Base, Layout

_INPUT: Final = {ORIGINAL: "input_blocks.0.0.weight", DIFFUSERS: "conv_in.weight"}
_CONDITION: Final = {ORIGINAL: "time_embed.cond_proj.weight", DIFFUSERS: "time_embedding.cond_proj.weight"}


def _bases(naming: str, name: str, low: str = "") -> tuple[Base, ...]:
    """What the first layer takes beside the latents tells the model's purpose; a layer for the guidance, a consistency model."""
    first = _INPUT[naming]
    return (
        Base(name=f"{name} inpainting", marks=(f"{first}[*,9,...]",), takes=("picture", "mask"), alike=True),
        Base(name=f"{name} edit (InstructPix2Pix)", marks=(f"{first}[*,8,...]",), takes=("picture",)),
        Base(name=low or f"{name} upscaler", marks=(f"{first}[*,7,...]",), takes=("low-resolution picture",)),
        Base(name=f"{name} depth", marks=(f"{first}[*,5,...]",), prediction="epsilon", takes=("depth map",)),
        Base(name=f"{name} LCM", marks=(_CONDITION[naming],), steps=4, guidance=8.0),
    )


_SD1: Final = _bases(ORIGINAL, "Stable Diffusion 1.x"), _bases(DIFFUSERS, "Stable Diffusion 1.x")
_SD2: Final = (
    _bases(ORIGINAL, "Stable Diffusion 2.x", "Stable Diffusion x4 upscaler"),
    _bases(DIFFUSERS, "Stable Diffusion 2.x", "Stable Diffusion x4 upscaler"),
)
_PLAYGROUND: Final = Base(name="Playground v2.5", marks=("edm_mean",), guidance=3.0, steps=50, prediction="edm")
_SMALLER: Final = (
    Base(name="SSD-1B", marks=("input_blocks.7.1.transformer_blocks.3.norm1.weight",), without=("middle_block.1.norm.weight",)),
    Base(
        name="Segmind Vega",
        marks=("input_blocks.4.1.norm.weight",),
        without=("input_blocks.7.1.transformer_blocks.3.norm1.weight", "middle_block.1.norm.weight"),
    ),
)
_TEXT: Final = {
    ORIGINAL: "input_blocks.{1.1,4.1}.transformer_blocks.0.attn2.to_k.weight",
    DIFFUSERS: "down_blocks.{0,1}.attentions.0.transformer_blocks.0.attn2.to_k.weight",
}
_CASCADE: Final = "{down_blocks.0.2,down_blocks.2.2,down_blocks.3.2}.attention.to_q.weight"

UNETS: Final[tuple[Layout, ...]] = (
    Layout(
        family=of.SVD.name,
        naming=ORIGINAL,
        marks=("input_blocks.1.1.time_stack.*",),
        bases=(Base(name="Stable Video Diffusion", takes=("picture",)),),
    ),
    Layout(
        family=of.SVD.name,
        naming=DIFFUSERS,
        marks=("down_blocks.0.attentions.0.temporal_transformer_blocks.*",),
        bases=(Base(name="Stable Video Diffusion", takes=("picture",)),),
    ),
    Layout(
        family=of.ANIMATE_DIFF.name,
        naming=DIFFUSERS,
        marks=("down_blocks.0.motion_modules.*", "conv_in.weight", "down_blocks.0.resnets.*"),
    ),
    Layout(family=of.KOLORS.name, naming=ORIGINAL, marks=("input_blocks.0.0.weight", "label_emb.0.0.weight[*,5632]")),
    Layout(family=of.KOLORS.name, naming=ORIGINAL, marks=("input_blocks.0.0.weight", "encoder_hid_proj.weight")),
    Layout(
        family=of.KOLORS.name,
        naming=DIFFUSERS,
        marks=("conv_in.weight", "add_embedding.linear_1.weight", "encoder_hid_proj.weight"),
        bases=(Base(name="Kolors inpainting", marks=("conv_in.weight[*,9,...]",), takes=("picture", "mask")),),
    ),
    Layout(
        family=of.REFINER.name,
        naming=ORIGINAL,
        marks=("input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight[*,1280]", "label_emb.0.0.weight"),
    ),
    Layout(
        family=of.REFINER.name,
        naming=DIFFUSERS,
        marks=("down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight[*,1280]", "add_embedding.linear_1.weight"),
    ),
    Layout(
        family=of.SDXL.name,
        naming=ORIGINAL,
        marks=("label_emb.0.0.weight", "input_blocks.*"),
        bases=(*_bases(ORIGINAL, "SDXL"), _PLAYGROUND, *_SMALLER),
    ),
    Layout(
        family=of.SDXL.name,
        naming=DIFFUSERS,
        marks=("conv_in.weight", "add_embedding.linear_1.weight", "down_blocks.0.resnets.*"),
        bases=_bases(DIFFUSERS, "SDXL"),
    ),
    Layout(family=of.SDXL.name, naming=ORIGINAL, marks=("conditioner.embedders.1.*",)),
    Layout(
        family=of.KANDINSKY2.name,
        naming=DIFFUSERS,
        marks=("conv_in.weight", "add_embedding.image_norm.weight", "encoder_hid_proj.image_embeds.weight"),
        bases=(
            Base(name="Kandinsky 2.2 inpainting", marks=("conv_in.weight[*,9,...]",), takes=("picture", "mask")),
            Base(name="Kandinsky 2.2 ControlNet", marks=("conv_in.weight[*,8,...]",), takes=("depth map",)),
            Base(name="Kandinsky 2.2"),
        ),
    ),
    Layout(
        family=of.KANDINSKY2.name,
        naming=DIFFUSERS,
        marks=("conv_in.weight", "add_embedding.text_norm.weight", "encoder_hid_proj.*"),
        bases=(
            Base(name="Kandinsky 2.1 inpainting", marks=("conv_in.weight[*,9,...]",), takes=("picture", "mask")),
            Base(name="Kandinsky 2.1"),
        ),
    ),
    Layout(
        family=of.KANDINSKY2.name,
        naming=DIFFUSERS,
        marks=("prd_embedding", "clip_mean", "proj_to_clip_embeddings.weight"),
        bases=(Base(name="Kandinsky 2 prior"),),
    ),
    Layout(
        family=of.KANDINSKY3.name,
        naming=DIFFUSERS,
        marks=("encoder_hid_proj.projection_linear.weight", "down_blocks.0.resnets_in.*"),
    ),
    Layout(
        family=of.CASCADE.name,
        naming=ORIGINAL,
        marks=("clf.1.weight", "{clip_txt_mapper,clip_mapper}.weight"),
        without=(_CASCADE,),
        bases=(
            Base(name="Stable Cascade Stage C lite", marks=("clip_txt_mapper.weight[1536,*]",)),
            Base(name="Stable Cascade Stage C", marks=("clip_txt_mapper.weight",)),
            Base(name="Stable Cascade Stage B lite", marks=("down_blocks.1.0.channelwise.0.weight[*,576]",)),
            Base(name="Stable Cascade Stage B", marks=("clip_mapper.weight",)),
        ),
    ),
    Layout(
        family=of.CASCADE.name,
        naming=DIFFUSERS,
        marks=("down_blocks.0.0.channelwise.0.weight", "clip_txt_pooled_mapper.weight", _CASCADE),
        bases=(
            Base(name="Stable Cascade Stage C lite", marks=("clip_txt_mapper.weight[1536,*]",)),
            Base(name="Stable Cascade Stage C", marks=("clip_txt_mapper.weight",)),
            Base(name="Stable Cascade Stage B lite", marks=("down_blocks.1.0.channelwise.0.weight[*,576]",)),
            Base(name="Stable Cascade Stage B"),
        ),
    ),
    Layout(family=of.SD2.name, naming=ORIGINAL, marks=(_TEXT[ORIGINAL] + "[*,1024]",), bases=_SD2[0]),
    Layout(
        family=of.SD2.name,
        naming=DIFFUSERS,
        marks=("conv_in.weight", _TEXT[DIFFUSERS] + "[*,1024]", "up_blocks.*"),
        without=("add_embedding.*", "down_blocks.0.temp_convs.*"),
        bases=_SD2[1],
    ),
    Layout(family=of.SD2.name, naming=ORIGINAL, marks=("cond_stage_model.model.*",), bases=_SD2[0]),
    Layout(family=of.SD1.name, naming=ORIGINAL, marks=("input_blocks.0.0.weight", "{output_blocks,out}.*"), bases=_SD1[0]),
    Layout(family=of.SD1.name, naming=ORIGINAL, marks=("cond_stage_model.transformer.*", "input_blocks.*"), bases=_SD1[0]),
    Layout(
        family=of.SD1.name,
        naming=DIFFUSERS,
        marks=("conv_in.weight", "time_embedding.linear_1.weight", _TEXT[DIFFUSERS], "up_blocks.*"),
        without=(
            "add_embedding.*",
            "encoder_hid_proj.*",
            "class_embedding.*",
            "down_blocks.0.temp_convs.*",
            "down_blocks.0.resnets.0.conv1.depthwise.weight",
        ),
        bases=_SD1[1],
    ),
)
