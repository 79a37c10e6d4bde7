"""Single-file ControlNets: which forms are read, and the true reason why each other one is refused."""

from pathlib import Path

import pytest
from tests.helpers.headers import header, write_sparse

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control
from halftone.library.add_ons.controlnets import check_controls, config_of, form_of
from halftone.library.files.header import read_header

TEXT = "attentions.0.transformer_blocks.0.attn2.to_k.weight"
HINT = "controlnet_cond_embedding.{conv_in,blocks.0,blocks.1,conv_out}.weight[16,3,3,3]"
NETS = f"{HINT} controlnet_down_blocks.0.weight[320,320,1,1] conv_in.weight[320,4,3,3]"
DIFFUSERS = f"{NETS} down_blocks.{{0,1}}.resnets.0.conv1.weight[320,320,3,3]"
ORIGINAL = (
    "{p}input_hint_block.{{0,2,4,6,8,10,12,14}}.weight[16,3,3,3] {p}zero_convs.0.0.weight[320,320,1,1] "
    "{p}input_blocks.0.0.weight[320,4,3,3] {p}input_blocks.{{1,4}}.0.in_layers.2.weight[320,320,3,3] "
    "{p}input_blocks.{first}.1.transformer_blocks.0.attn2.to_k.weight[320,{width}]"
)
BARE = ORIGINAL.format(p="", first=1, width=768)
PREFIXED = ORIGINAL.format(p="control_model.", first=1, width=768)

T2I = "conv_in.weight[320,{},3,3] body.{{0,1,2,3,4,5,6,7}}.block1.weight[320,320,3,3]"
T2I_DIFFUSERS = "adapter.conv_in.weight[320,{},3,3] adapter.body.{{0,1,2,3}}.resnets.{{0,1}}.block1.weight[320,320,3,3]"
T2I_LIGHT = (
    "body.{0,1,2,3}.in_conv.weight[80,192,1,1] body.{0,1,2,3}.out_conv.weight[320,80,1,1] "
    "body.{0,1,2,3}.body.{0,1,2,3}.block1.weight[80,80,3,3]"
)
LORA = (
    "input_hint_block.{0,2,4,6,8,10,12,14}.weight[16,3,3,3] zero_convs.0.0.weight[320,320,1,1] "
    "input_blocks.0.0.up[320,4,1,1] input_blocks.0.0.down[4,4,3,3] "
    "input_blocks.{1,4}.0.in_layers.2.up[320,16,1,1] input_blocks.{1,4}.0.in_layers.2.down[16,320,3,3]"
)

LIGHT = "lllite_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q"

READ = {
    "T2I-Adapter SD 1.x": T2I.format(192),
    "T2I-Adapter SD 1.x, grey": T2I.format(64),
    "T2I-Adapter SDXL": T2I.format(768),
    "T2I-Adapter SDXL, grey": T2I.format(256),
    "T2I-Adapter light": T2I_LIGHT,
    "T2I-Adapter diffusers SD 1.x": T2I_DIFFUSERS.format(192),
    "T2I-Adapter diffusers SDXL": T2I_DIFFUSERS.format(768),
    "diffusers SD 1.x": f"{DIFFUSERS} down_blocks.{{0,1}}.{TEXT}[320,768]",
    "diffusers SD 2.x": f"{DIFFUSERS} down_blocks.{{0,1}}.{TEXT}[320,1024]",
    "diffusers SDXL": f"{DIFFUSERS} down_blocks.1.{TEXT}[640,2048] add_embedding.linear_1.weight[1280,2816]",
    "diffusers SDXL small": f"{DIFFUSERS} add_embedding.linear_1.weight[1280,2816]",
    "original SD 1.x": BARE,
    "original SD 1.x, control_model": PREFIXED,
    "original SD 2.x": ORIGINAL.format(p="", first=1, width=1024),
    "original SD 2.x, control_model": ORIGINAL.format(p="control_model.", first=1, width=1024),
    "original SDXL": ORIGINAL.format(p="", first=4, width=2048),
    "original SDXL, control_model": ORIGINAL.format(p="control_model.", first=4, width=2048),
    "difference": f"{PREFIXED} difference",
    "difference, bare": f"{BARE} difference",
    "LLLite": f"{LIGHT}.conditioning1.0.weight[16,3,4,4] {LIGHT}.conditioning1.2.weight[32,16,4,4] {LIGHT}.down.0.weight[64,640]",
    "Union SDXL in ComfyUI's names": f"{ORIGINAL.format(p='', first=4, width=2048)} task_embedding[6,320]",
    "Control-LoRA SD 1.x": f"lora_controlnet {LORA}",
    "Control-LoRA SDXL": f"lora_controlnet label_emb.0.0.{{up,down}}[1280,128] {LORA}",
}
CONVOLUTIONS = "it is a T2I-Adapter with convolutions that diffusers' T2I-Adapter does not have"
NAMES = "it is a ControlNet for {} in its maker's own names, and Halftone reads those of diffusers"
FOLDER = "Halftone reads ControlNets for {} only from a diffusers folder"
DAMAGED = "it lacks the tensor {}, or the file is damaged"
REFUSED = {
    "LLLite with convolutions": (
        "lllite_unet_input_blocks_1_0_in_layers_2.down.0.weight[16,320,1,1]",
        "it is a ControlNet-LLLite that changes the layer input_blocks_1_0_in_layers_2, and Halftone reads",
    ),
    "LLLite without its picture": (f"{LIGHT}.down.0.weight[16,640]", DAMAGED.format(f"{LIGHT}.conditioning1.0.weight")),
    "FLUX XLabs": ("double_blocks.0.img_attn.qkv.weight input_hint_block.0.weight", NAMES.format("FLUX")),
    "SD 3 without its blocks": (
        "controlnet_blocks.0.weight pos_embed_input.proj.weight[1536,16,2,2]",
        NAMES.format("SD 3"),
    ),
    "SD 3.5 by Stability": (
        "controlnet_blocks.0.weight pos_embed_input.proj.weight[1536,16,2,2] transformer_blocks.0.adaLN_modulation.1.bias",
        NAMES.format("SD 3"),
    ),
    "SD 3 original": ("controlnet_blocks.0.weight joint_blocks.0.x_block.attn.qkv.weight", NAMES.format("SD 3")),
    "Qwen-Image without a layer": (
        "controlnet_blocks.0.weight transformer_blocks.0.img_mod.1.weight",
        DAMAGED.format("img_in.weight"),
    ),
    "Sana": ("controlnet_blocks.0.weight transformer_blocks.0.ff.conv_inverted.weight", FOLDER.format("Sana")),
    "Z-Image": ("control_layers.0.after_proj.weight[8,8]", "Halftone has no ControlNet for Z-Image models"),
    "Kolors": (f"{READ['diffusers SDXL']} encoder_hid_proj.weight[2048,4096]", "Halftone has no ControlNet for Kolors models"),
    "without its first layer": (
        READ["diffusers SD 1.x"].replace("conv_in.weight[320", "x.weight[320"),
        DAMAGED.format("conv_in.weight"),
    ),
    "hints without numbers": (
        PREFIXED.replace("input_hint_block.{0,2,4,6,8,10,12,14}.weight", "input_hint_block.weight"),
        DAMAGED.format("controlnet_cond_embedding.conv_in.weight"),
    ),
    "one dimension": (READ["diffusers SD 1.x"].replace("[320,4,3,3]", "[320]"), "one of its tensors has too few dimensions"),
    "T2I-Adapter with large kernels": (f"{T2I.format(64)} body.0.block2.weight[320,320,3,3]", CONVOLUTIONS),
    "T2I-Adapter that shrinks by convolutions": (f"{T2I.format(64)} body.2.down_opt.op.weight[320,320,3,3]", CONVOLUTIONS),
    "T2I-Adapter without a block": (
        "conv_in.weight[320,192,3,3] body.0.block2.weight[320,320,1,1]",
        DAMAGED.format("adapter.body.0.resnets.0.block1.weight"),
    ),
    "IP-Adapter": ("image_proj.proj.weight[8192,1280] ip_adapter.1.to_k_ip.weight[640,2048]", "it is an IP-Adapter"),
    "LoRA": ("lora_unet_x.lora_down.weight[4,9] lora_unet_x.lora_up.weight[9,4]", "it is a LoRA"),
    "nothing known": ("something.else[3,3]", "its tensors have no ControlNet's names"),
}  # fmt: skip


def checked(folder: Path, patterns: str) -> None:
    file = write_sparse(folder / "net.safetensors", header(patterns))
    check_controls([Control(path=str(file), image="")])


def traits(form: str) -> tuple[object, ...]:
    """Class, width of the text that it reads and kind, of an adapter its scaling, as the form's name says it."""
    xl = "SDXL" in form
    if form.startswith("T2I-Adapter"):
        return "T2IAdapter", None, 1 if "grey" in form else 3, 16 if xl else 8, ""
    if form == "LLLite":
        return "ControlNetLLLite", None, None, None, ""
    kind = next((kind for kind in ("difference", "Control-LoRA") if form.startswith(kind)), "")
    silent = kind == "Control-LoRA" or "small" in form
    width = None if silent else 2048 if xl else 1024 if "SD 2.x" in form else 768
    return "ControlNetUnionModel" if form.startswith("Union") else "ControlNetModel", width, 4, None, kind


@pytest.mark.parametrize("form", READ)
def test_these_forms_are_read_as_what_they_are(tmp_path: Path, form: str) -> None:
    checked(tmp_path, READ[form])
    file = tmp_path / "net.safetensors"
    found = config_of(str(file))
    named = (found.get(name) for name in ("_class_name", "cross_attention_dim", "in_channels", "downscale_factor"))
    assert (*named, form_of(read_header(file))) == traits(form)


@pytest.mark.parametrize("form", REFUSED)
def test_these_forms_are_refused_with_the_true_reason(tmp_path: Path, form: str) -> None:
    patterns, reason = REFUSED[form]
    with pytest.raises(HalftoneError) as caught:
        checked(tmp_path, patterns)
    assert caught.value.code == "control-not-a-controlnet"
    assert str(caught.value.facts["detail"]).startswith(reason)
