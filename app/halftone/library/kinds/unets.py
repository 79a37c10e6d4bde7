"""Denoisers that are UNets: Stable Diffusion 1 and 2, SDXL and its descendants, Cascade, Kandinsky."""

from typing import Final

from halftone.library.families import known_families as of
from halftone.library.kinds.layouts import DIFFUSERS, ORIGINAL, Base, Layout, diffusers, original

_INPUT: Final = {ORIGINAL: "input_blocks.0.0.weight", DIFFUSERS: "conv_in.weight"}
_CONDITION: Final = {ORIGINAL: "time_embed.cond_proj.weight", DIFFUSERS: "time_embedding.cond_proj.weight"}


def _bases(naming: str, name: str, low: str = "") -> tuple[Base, ...]:
    """The width of the first layer shows the model's purpose; a layer for the guidance, a consistency model."""
    first = _INPUT[naming]
    return (
        Base(f"{name} inpainting", (f"{first}[*,9,...]",), takes=("picture", "mask"), alike=True),
        Base(f"{name} edit (InstructPix2Pix)", (f"{first}[*,8,...]",), takes=("picture",), alike=True),
        Base(low or f"{name} upscaler", (f"{first}[*,7,...]",), takes=("low-resolution picture",)),
        Base(f"{name} depth", (f"{first}[*,5,...]",), prediction="epsilon", takes=("depth map",)),
        Base(f"{name} LCM", (_CONDITION[naming],), steps=4, guidance=8.0),
    )


_SD1: Final = _bases(ORIGINAL, "Stable Diffusion 1.x"), _bases(DIFFUSERS, "Stable Diffusion 1.x")
_SD2: Final = (
    _bases(ORIGINAL, "Stable Diffusion 2.x", "Stable Diffusion x4 upscaler"),
    _bases(DIFFUSERS, "Stable Diffusion 2.x", "Stable Diffusion x4 upscaler"),
)
_PLAYGROUND: Final = Base("Playground v2.5", ("edm_mean",), guidance=3.0, steps=50, prediction="edm")
_COSXL: Final = Base("CosXL", ("edm_vpred.sigma_max",), prediction="edm")
_SMALLER: Final = (
    Base("SSD-1B", ("input_blocks.7.1.transformer_blocks.3.norm1.weight",), without=("middle_block.1.norm.weight",)),
    Base(
        "Segmind Vega",
        ("input_blocks.4.1.norm.weight",),
        without=("input_blocks.7.1.transformer_blocks.3.norm1.weight", "middle_block.1.norm.weight"),
    ),
)
_TEXT: Final = {
    ORIGINAL: "input_blocks.{1.1,4.1}.transformer_blocks.0.attn2.to_k.weight",
    DIFFUSERS: "down_blocks.{0,1}.attentions.0.transformer_blocks.0.attn2.to_k.weight",
}
_CASCADE: Final = "{down_blocks.0.2,down_blocks.2.2,down_blocks.3.2}.attention.to_q.weight"

UNETS: Final[tuple[Layout, ...]] = (
    original(of.SVD, "input_blocks.1.1.time_stack.*", bases=(Base("Stable Video Diffusion", takes=("picture",)),)),
    diffusers(
        of.SVD,
        "down_blocks.0.attentions.0.temporal_transformer_blocks.*",
        bases=(Base("Stable Video Diffusion", takes=("picture",)),),
    ),
    diffusers(of.ANIMATE_DIFF, "down_blocks.0.motion_modules.*", "conv_in.weight", "down_blocks.0.resnets.*"),
    original(of.KOLORS, "input_blocks.0.0.weight", "label_emb.0.0.weight[*,5632]"),
    original(of.KOLORS, "input_blocks.0.0.weight", "encoder_hid_proj.weight"),
    diffusers(
        of.KOLORS,
        "conv_in.weight",
        "add_embedding.linear_1.weight",
        "encoder_hid_proj.weight",
        bases=(Base("Kolors inpainting", ("conv_in.weight[*,9,...]",), takes=("picture", "mask")),),
    ),
    original(of.REFINER, "input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight[*,1280]", "label_emb.0.0.weight"),
    diffusers(
        of.REFINER, "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight[*,1280]", "add_embedding.linear_1.weight"
    ),
    original(
        of.SDXL, "label_emb.0.0.weight", "input_blocks.*", bases=(_COSXL, *_bases(ORIGINAL, "SDXL"), _PLAYGROUND, *_SMALLER)
    ),
    diffusers(
        of.SDXL, "conv_in.weight", "add_embedding.linear_1.weight", "down_blocks.0.resnets.*", bases=_bases(DIFFUSERS, "SDXL")
    ),
    original(of.SDXL, "conditioner.embedders.1.*"),
    diffusers(
        of.KANDINSKY2,
        "conv_in.weight",
        "add_embedding.image_norm.weight",
        "encoder_hid_proj.image_embeds.weight",
        bases=(
            Base("Kandinsky 2.2 inpainting", ("conv_in.weight[*,9,...]",), takes=("picture", "mask")),
            Base("Kandinsky 2.2 ControlNet", ("conv_in.weight[*,8,...]",), takes=("depth map",)),
            Base("Kandinsky 2.2"),
        ),
    ),
    diffusers(
        of.KANDINSKY2,
        "conv_in.weight",
        "add_embedding.text_norm.weight",
        "encoder_hid_proj.*",
        bases=(
            Base("Kandinsky 2.1 inpainting", ("conv_in.weight[*,9,...]",), takes=("picture", "mask")),
            Base("Kandinsky 2.1"),
        ),
    ),
    diffusers(of.KANDINSKY2, "prd_embedding", "clip_mean", "proj_to_clip_embeddings.weight", bases=(Base("Kandinsky 2 prior"),)),
    diffusers(of.KANDINSKY3, "encoder_hid_proj.projection_linear.weight", "down_blocks.0.resnets_in.*"),
    original(
        of.CASCADE,
        "clf.1.weight",
        "{clip_txt_mapper,clip_mapper}.weight",
        without=(_CASCADE,),
        bases=(
            Base("Stable Cascade Stage C lite", ("clip_txt_mapper.weight[1536,*]",)),
            Base("Stable Cascade Stage C", ("clip_txt_mapper.weight",)),
            Base("Stable Cascade Stage B lite", ("down_blocks.1.0.channelwise.0.weight[*,576]",)),
            Base("Stable Cascade Stage B", ("clip_mapper.weight",)),
        ),
    ),
    diffusers(
        of.CASCADE,
        "down_blocks.0.0.channelwise.0.weight",
        "clip_txt_pooled_mapper.weight",
        _CASCADE,
        bases=(
            Base("Stable Cascade Stage C lite", ("clip_txt_mapper.weight[1536,*]",)),
            Base("Stable Cascade Stage C", ("clip_txt_mapper.weight",)),
            Base("Stable Cascade Stage B lite", ("down_blocks.1.0.channelwise.0.weight[*,576]",)),
            Base("Stable Cascade Stage B"),
        ),
    ),
    original(of.SD2, _TEXT[ORIGINAL] + "[*,1024]", bases=_SD2[0]),
    diffusers(
        of.SD2,
        "conv_in.weight",
        _TEXT[DIFFUSERS] + "[*,1024]",
        "up_blocks.*",
        without=("add_embedding.*", "down_blocks.0.temp_convs.*"),
        bases=_SD2[1],
    ),
    original(of.SD2, "cond_stage_model.model.*", bases=_SD2[0]),
    original(of.SD2, "conditioner.embedders.0.model.*", "input_blocks.*", without=("label_emb.0.0.weight",), bases=_SD2[0]),
    original(of.SD1, "input_blocks.0.0.weight", "{output_blocks,out}.*", bases=_SD1[0]),
    original(of.SD1, "cond_stage_model.transformer.*", "input_blocks.*", bases=_SD1[0]),
    diffusers(
        of.SD1,
        "conv_in.weight",
        "time_embedding.linear_1.weight",
        _TEXT[DIFFUSERS],
        "up_blocks.*",
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
