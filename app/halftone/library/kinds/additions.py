"""Files that are added to a model: ControlNets, adapters for pictures, motion modules, textual inversions; and upscalers. LoRAs
are in `loras`.
"""

from typing import Final

import msgspec

from halftone.library.families import known_families as of

CONTROLNET: Final = "ControlNet"
IP_ADAPTER: Final = "IP-Adapter"
IMAGE_PROJECTION: Final = "image_proj."
"""Prefix of one half of most IP-Adapters."""
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


_UPSCALERS: Final = (
    ("MMRealSR", "conv_first.weight body.0.rdb1.conv1.weight de_net.conv_first.0.weight"),
    ("ESRGAN", "model.0.weight model.1.sub.0.RDB1.{conv1.0,conv1x1}.weight"),
    ("ESRGAN", "conv_first.weight body.0.rdb1.conv1.weight"),
    ("ESRGAN", "conv_first.weight RRDB_trunk.0.RDB1.conv1.weight"),
    ("ATD", "conv_first.weight layers.0.residual_group.td"),
    ("CRAFT", "conv_first.weight layers.0.residual_group.hf_blocks.0.attn.temperature"),
    ("HAT", "conv_first.weight layers.0.residual_group.overlap_attn.*"),
    ("Swin2SR", "conv_first.weight layers.0.residual_group.blocks.0.attn.logit_scale"),
    (
        "Swin2SR",
        "conv_first.weight patch_embed.proj.weight layers.0.residual_group.blocks.0.attn.relative_position_index",
    ),
    (
        "SwinIR",
        "{conv_first,conv_first.1}.weight "
        "layers.0.residual_group.blocks.0.attn.{relative_position_bias_table,relative_position_index}",
    ),
    ("DRCT", "conv_first.weight layers.0.swin1.attn.relative_position_bias_table"),
    (
        "GRL",
        "{model.,model_g.,}conv_first.weight {model.,model_g.,}norm_start.weight "
        "{model.,model_g.,}layers.0.blocks.0.attn.window_attn.attn_transform.logit_scale",
    ),
    ("RGT", "conv_first.weight before_RG.1.weight layers.0.blocks.0.gamma layers.0.blocks.0.mlp.fc1.weight"),
    ("DAT", "conv_first.weight before_RG.1.weight layers.0.blocks.0.attn.channel_interaction.1.weight"),
    ("FDAT", "{conv_first,conv_first.1}.weight groups.0.blocks.0.inter.cg.1.weight"),
    ("OmniSR", "input.weight residual_layer.0.residual_layer.0.layer.0.fn.0.weight"),
    ("SCUNet", "m_head.0.weight m_tail.0.weight"),
    ("FBCNN", "m_head.weight m_body_encoder.0.res.0.weight qf_pred.0.res.0.weight"),
    ("DRUNet", "m_head.weight m_body.0.res.0.weight m_tail.weight"),
    ("Uformer", "input_proj.proj.0.weight encoderlayer_0.blocks.0.norm1.weight"),
    ("KBNet", "intro.weight encoders.0.0.attgamma ending.weight"),
    ("KBNet", "patch_embed.proj.weight latent.0.ffn.qkv.weight refinement.0.attn.dwconv.0.weight"),
    ("NAFNet", "intro.weight middle_blks.0.beta ending.weight"),
    ("FFTformer", "patch_embed.proj.weight encoder_level1.0.ffn.fft"),
    ("DITN", "sft.weight UFONE.0.ITLs.0.attn.temperature"),
    ("SPAN", "conv_1.sk.weight block_1.c1_r.*"),
    ("RealCUGAN", "unet1.conv1.conv.0.weight unet2.conv1.conv.0.weight"),
    ("SAFMN", "to_feat.weight feats.0.safm.mfr.0.weight"),
    ("SAFMN BCIE", "to_feat.1.weight feats.0.layers.0.safm.mfr.0.weight"),
    ("DCTLSA", "fea_conv.weight B1.body.0.transformer_body.0.blocks.0.attn.qkv.weight"),
    ("MixDehazeNet", "patch_embed.proj.weight layer1.blocks.0.conv3_19.weight"),
    ("IPT", "sub_mean.weight head.0.0.weight body.encoder.layers.0.self_attn.in_proj_weight"),
    ("RCAN", "{head.0,head.1}.weight body.0.body.0.body.3.conv_du.0.weight"),
    ("PLKSR", "feats.0.weight feats.1.refine.weight feats.1.{channe_mixer,channel_mixer}.0.weight"),
    ("RetinexFormer", "body.0.estimator.conv1.weight body.0.denoiser.embedding.weight"),
    ("HVI-CIDNet", "HVE_block0.1.weight ID_block0.1.weight"),
    ("SeemoRe", "conv_1.weight body.0.local_block.block.agg_conv.0.weight"),
    ("MoSR", "gblocks.0.weight gblocks.1.conv.weight"),
    ("MoESR", "in_to_dim.weight blocks.0.blocks.0.conv.dwconv_hw.weight"),
    ("AuraSR", "mid_attn.layers.0.0.to_out.weight mid_block2.block1.proj.weights"),
    ("Swift-SRGAN", "initial.cnn.depthwise.weight final_conv.pointwise.weight"),
    ("GFPGAN", "toRGB.0.weight stylegan_decoder.style_mlp.1.weight"),
    ("Real-ESRGAN compact", "body.0.weight[*,3,3,3] body.1.weight[*] body.2.weight[*,*,3,3]"),
    (
        "DnCNN",
        "model.0.weight[*,*,3,3] model.0.bias model.2.weight[*,*,3,3] model.2.bias model.{4,5}.weight[*,*,3,3] model.{6,8}.bias",
    ),
)
"""Name, and marks, of what spandrel can load: it enlarges, or restores at the same size. The first that fits counts. LaMa fills
holes, and RestoreFormer's names are those of any VAE with a codebook: neither is here.
"""


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
    _add(CONTROLNET, of.FLUX.name, _BLOCKS, "controlnet_x_embedder.weight", "context_embedder.weight"),
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
    _add(T2I_ADAPTER, of.SDXL.name, "{adapter.,}conv_in.weight[*,768,3,3]", "{adapter.,}body.0.*"),
    _add(T2I_ADAPTER, of.SDXL.name, "{adapter.,}conv_in.weight[*,256,3,3]", "{adapter.,}body.0.*"),
    _add(T2I_ADAPTER, of.SD1.name, "{adapter.,}conv_in.weight[*,64,3,3]", "{adapter.,}body.0.*"),
    _add(T2I_ADAPTER, of.SD1.name, "{adapter.,}conv_in.weight[*,192,3,3]", "{adapter.,}body.0.*"),
    _add(T2I_ADAPTER, of.SD1.name, "{adapter.,}body.0.in_conv.weight", "{adapter.,}body.0.out_conv.weight"),
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
    *(_add(UPSCALER, "", *marks.split(), name=name) for name, marks in _UPSCALERS),
)
