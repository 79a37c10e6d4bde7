"""Files that are added to a model: ControlNets, adapters for pictures, motion modules, textual inversions; and upscalers. LoRAs
are in `loras`.
"""

from typing import Final

import msgspec

from halftone.library.families import known_families as of

CONTROLNET: Final = "ControlNet"
IP_ADAPTER: Final = "IP-Adapter"
T2I_ADAPTER: Final = "T2I-Adapter"
MOTION: Final = "motion module"
STYLE: Final = "style model"
UPSCALER: Final = "upscaler"


class Addition(msgspec.Struct, frozen=True, kw_only=True):
    """kind: one of the words above; base: the family it fits, "" for all or unknown; name: which one it is."""

    kind: str
    name: str
    marks: tuple[str, ...]
    base: str = ""
    without: tuple[str, ...] = ()


_NETS: Final = ("controlnet_cond_embedding.conv_in.weight", "controlnet_down_blocks.0.weight")
_NET_TEXT: Final = "down_blocks.{0,1}.attentions.0.transformer_blocks.0.attn2.to_k.weight"
_BLOCKS: Final = "controlnet_blocks.*"
_IP: Final = "ip_adapter.1.to_k_ip.weight"


def _add(kind: str, base: str, *marks: str, name: str = "", without: tuple[str, ...] = ()) -> Addition:
    return Addition(kind=kind, name=name or kind, base=base, marks=marks, without=without)


def _original(width: int, family: str) -> tuple[Addition, ...]:
    first = "1" if width != 2048 else "4"
    name = f"input_blocks.{first}.1.transformer_blocks.0.attn2.to_k.weight[*,{width}]"
    return tuple(_add(CONTROLNET, family, f"{start}input_hint_block.0.weight", start + name) for start in ("", "control_model."))


ADDITIONS: Final[tuple[Addition, ...]] = (
    _add(CONTROLNET, of.SDXL.name, "lora_controlnet", "label_emb.0.0.{weight,up,down}", name="Control-LoRA"),
    _add(CONTROLNET, "", "lora_controlnet", name="Control-LoRA"),
    _add(CONTROLNET, of.SDXL.name, "lllite_unet_*", name="ControlNet-LLLite"),
    _add(CONTROLNET, of.FLUX.name, "controlnet_blocks.*", "double_blocks.0.*"),
    _add(CONTROLNET, of.FLUX.name, "input_hint_block.*", "double_blocks.0.*"),
    _add(CONTROLNET, of.SD3.name, _BLOCKS, "{pos_embed_input.proj.weight,pos_embed.pos_embed}"),
    _add(CONTROLNET, of.SD3.name, "controlnet_blocks.*", "joint_blocks.0.*"),
    _add(CONTROLNET, of.QWEN_IMAGE.name, _BLOCKS, "transformer_blocks.0.img_mod.1.weight"),
    _add(CONTROLNET, of.SANA.name, _BLOCKS, "transformer_blocks.0.ff.conv_inverted.weight"),
    _add(CONTROLNET, of.HUNYUAN_DIT.name, _BLOCKS, "text_embedding_padding"),
    _add(CONTROLNET, of.FLUX.name, _BLOCKS, "controlnet_x_embedder.weight", "context_embedder.weight[*,4096]"),
    _add(CONTROLNET, of.Z_IMAGE.name, "{control_layers.0,control_all_x_embedder}.*"),
    _add(CONTROLNET, of.SDXL.name, "task_embedding", *_NETS, name="ControlNet Union"),
    _add(CONTROLNET, of.SDXL.name, "task_embedding", "input_hint_block.*", name="ControlNet Union"),
    *_original(768, of.SD1.name),
    *_original(1024, of.SD2.name),
    *_original(2048, of.SDXL.name),
    _add(CONTROLNET, of.KOLORS.name, *_NETS, "encoder_hid_proj.weight"),
    _add(CONTROLNET, of.SDXL.name, *_NETS, "add_embedding.linear_1.weight"),
    _add(CONTROLNET, of.SD1.name, *_NETS, _NET_TEXT + "[*,768]"),
    _add(CONTROLNET, of.SD2.name, *_NETS, _NET_TEXT + "[*,1024]"),
    _add(CONTROLNET, "", *_NETS),
    _add(CONTROLNET, "", "{control_model.,}input_hint_block.*"),
    _add(CONTROLNET, "", "control_model.*"),
    _add(CONTROLNET, "", "{controlnet_blocks,controlnet_down_blocks}.*"),
    _add(T2I_ADAPTER, of.SDXL.name, "{adapter.,}conv_in.weight[320,768,3,3]", "{adapter.,}body.0.*"),
    _add(T2I_ADAPTER, of.SD1.name, "{adapter.,}conv_in.weight[320,*,3,3]", "{adapter.,}body.0.*"),
    _add(IP_ADAPTER, of.SD1.name, _IP + "[*,768]"),
    _add(IP_ADAPTER, of.SD2.name, _IP + "[*,1024]"),
    _add(IP_ADAPTER, of.SDXL.name, _IP + "[*,2048]"),
    _add(IP_ADAPTER, of.FLUX.name, "{ip_adapter_proj_model,double_blocks}.*", "double_blocks.0.processor.*"),
    _add(IP_ADAPTER, of.SD3.name, "ip_adapter.0.norm_ip.linear.weight", "image_proj.*"),
    _add(IP_ADAPTER, "", "ip_adapter.*", "image_proj.*"),
    _add(IP_ADAPTER, "", "image_proj.latents", "image_proj.*", name="InstantID or FaceID"),
    _add(STYLE, of.FLUX.name, "redux_up.weight", "redux_down.weight", name="FLUX.1 Redux"),
    _add(
        MOTION,
        of.SDXL.name,
        "down_blocks.0.motion_modules.*",
        name="AnimateDiff",
        without=("down_blocks.3.*", "mid_block.*", "conv_in.weight"),
    ),
    _add(MOTION, of.SD1.name, "down_blocks.0.motion_modules.*", name="AnimateDiff", without=("conv_in.weight",)),
    _add(UPSCALER, "", "model.0.weight", "model.1.sub.0.RDB1.conv1.0.weight", name="ESRGAN"),
    _add(UPSCALER, "", "conv_first.weight", "body.0.rdb1.conv1.weight", name="ESRGAN"),
    _add(UPSCALER, "", "conv_first.weight", "RRDB_trunk.0.RDB1.conv1.weight", name="ESRGAN"),
    _add(UPSCALER, "", "conv_first.weight", "layers.0.residual_group.overlap_attn.*", name="HAT"),
    _add(UPSCALER, "", "conv_first.weight", "layers.0.residual_group.blocks.0.attn.relative_position_bias_table", name="SwinIR"),
    _add(UPSCALER, "", "conv_first.weight", "layers.0.residual_group.blocks.0.attn.logit_scale", name="Swin2SR"),
    _add(UPSCALER, "", "conv_first.weight", "layers.0.blocks.0.attn.*", name="DAT"),
    _add(UPSCALER, "", "body.0.weight[*,3,3,3]", "body.1.weight[*]", "body.2.weight[*,*,3,3]", name="Real-ESRGAN compact"),
    _add(UPSCALER, "", "conv_1.sk.weight", "block_1.c1_r.*", name="SPAN"),
)
