"""LoRAs and their relatives, as their trainers write them: kind, rank, and the family that their layers' widths fit."""

import pytest
from tests.helpers.headers import header

from halftone.library.families.recognise import recognise
from halftone.library.kinds.loras import LoraFacts


def facts(patterns: str, metadata: dict[str, str] | None = None) -> LoraFacts:
    found = recognise(header(patterns, metadata=metadata))
    assert found.kind == "LoRA"
    assert found.lora is not None
    assert found.family == (found.lora.families[0] if found.lora.families else "")
    return found.lora


def kohya(path: str, inward: int, outward: int, rank: int = 16) -> str:
    return f"{path}.lora_down.weight[{rank},{inward}] {path}.lora_up.weight[{outward},{rank}] {path}.alpha[1]"


def peft(path: str, inward: int, outward: int, rank: int = 16) -> str:
    return f"{path}.lora_A.weight[{rank},{inward}] {path}.lora_B.weight[{outward},{rank}]"


ATTENTION = "lora_unet_{}_transformer_blocks_0_attn2_to_k"
SDXL = kohya(ATTENTION.format("input_blocks_4_1"), 2048, 640)
FITS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "sd1": (kohya(ATTENTION.format("down_blocks_0_attentions_0"), 768, 320), ("Stable Diffusion 1.x",), ""),
    "sd2": (kohya(ATTENTION.format("down_blocks_0_attentions_0"), 1024, 320), ("Stable Diffusion 2.x",), ""),
    "sdxl": (SDXL, ("SDXL", "Kolors"), ""),
    "sdxl-diffusers": (
        peft("unet.down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k", 2048, 640),
        ("SDXL", "Kolors"),
        "",
    ),
    "sd1-processor": (
        "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn2.processor.to_k_lora.{down,up}.weight[4,768]",
        ("Stable Diffusion 1.x",),
        "",
    ),
    "sdxl-by-depth": (kohya("lora_unet_input_blocks_7_1_transformer_blocks_9_attn1_to_q", 1280, 1280), ("SDXL",), ""),
    "sdxl-by-second-text-encoder": (kohya("lora_te2_text_model_encoder_layers_0_mlp_fc1", 1280, 5120), ("SDXL",), ""),
    "text-only-sd2": (kohya("lora_te_text_model_encoder_layers_0_mlp_fc1", 1024, 4096), ("Stable Diffusion 2.x",), ""),
    "text-only": (kohya("lora_te_text_model_encoder_layers_0_mlp_fc1", 768, 3072), ("Stable Diffusion 1.x", "SDXL"), ""),
    "first-level": (
        kohya("lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q", 320, 320),
        ("Stable Diffusion 1.x", "Stable Diffusion 2.x"),
        "",
    ),
    "flux-kohya": (kohya("lora_unet_double_blocks_0_img_attn_qkv", 3072, 9216), ("FLUX",), ""),
    "flux-toolkit": (peft("transformer.single_transformer_blocks.0.attn.to_q", 3072, 3072), ("FLUX",), ""),
    "flux-comfy": (peft("diffusion_model.single_blocks.0.linear1", 3072, 21504), ("FLUX",), ""),
    "flux-xlabs": (
        "double_blocks.0.processor.qkv_lora1.down.weight[16,3072] double_blocks.0.processor.qkv_lora1.up.weight[9216,16]",
        ("FLUX",),
        "",
    ),
    "flux-double-only": (peft("transformer.transformer_blocks.0.attn.to_q", 3072, 3072), ("FLUX",), ""),
    "flux2": (peft("transformer.single_transformer_blocks.0.attn.to_qkv_mlp_proj", 6144, 55296), ("FLUX.2",), ""),
    "flux2-comfy": (peft("diffusion_model.single_blocks.0.linear1", 6144, 55296), ("FLUX.2",), "FLUX.2 dev"),
    "flux2-klein": (peft("diffusion_model.single_blocks.0.linear1", 3072, 27648), ("FLUX.2",), "FLUX.2 klein 4B"),
    "chroma": (peft("diffusion_model.distilled_guidance_layer.in_proj", 64, 5120), ("Chroma",), ""),
    "hunyuan-video": (kohya("lora_unet_double_blocks_0_img_mlp_fc1", 3072, 12288), ("HunyuanVideo",), ""),
    "sd3": (peft("transformer.transformer_blocks.0.attn.to_q", 1536, 1536), ("SD 3",), ""),
    "sd3.5-large": (kohya("lora_unet_joint_blocks_0_x_block_attn_qkv", 2432, 7296), ("SD 3",), "SD 3.5 large"),
    "qwen": (peft("transformer_blocks.0.img_mlp.net.2", 12288, 3072), ("Qwen-Image",), ""),
    "qwen-attention-only": (peft("diffusion_model.transformer_blocks.{0-59}.attn.to_q", 3072, 3072), ("Qwen-Image",), ""),
    "auraflow": (peft("transformer.joint_transformer_blocks.0.attn.to_q", 3072, 3072), ("AuraFlow",), ""),
    "sana": (peft("transformer.transformer_blocks.0.attn1.to_q", 2240, 2240), ("Sana",), ""),
    "pixart": (peft("transformer.transformer_blocks.0.attn1.to_q", 1152, 1152), ("PixArt-Σ", "PixArt-α"), ""),
    "cogview4": (peft("transformer.transformer_blocks.0.attn1.to_q", 4096, 4096), ("CogView4",), ""),
    "ltx": (peft("transformer.transformer_blocks.0.attn2.to_q", 2048, 2048), ("LTX-Video",), ""),
    "hunyuan-dit": (peft("transformer.blocks.0.attn1.to_q", 1408, 1408), ("HunyuanDiT",), ""),
    "wan": (peft("diffusion_model.blocks.0.self_attn.q", 5120, 5120), ("Wan",), "Wan 14B"),
    "wan-musubi": (kohya("lora_unet_blocks_0_cross_attn_k", 1536, 1536), ("Wan",), "Wan 1.3B"),
    "z-image": (peft("diffusion_model.layers.0.attention.to_q", 3840, 3840), ("Z-Image",), ""),
    "lumina2": (kohya("lora_unet_layers_0_attention_qkv", 2304, 3840), ("Lumina 2",), ""),
    "hidream": (peft("diffusion_model.double_stream_blocks.0.block.attn1.to_q", 2560, 2560), ("HiDream",), ""),
    "unknown": (peft("something.else", 40, 40), (), ""),
}


@pytest.mark.parametrize("case", FITS)
def test_the_families_that_a_lora_fits_are_told_by_its_layers(case: str) -> None:
    patterns, families, base = FITS[case]
    found = facts(patterns)
    assert (found.kind, found.families, found.base) == ("LoRA", families, base)


LAYER = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn2_to_k"
KINDS: dict[str, tuple[str, str, bool, tuple[int, int]]] = {
    "lora": (kohya(LAYER, 768, 320, 8), "LoRA", False, (8, 8)),
    "two-ranks": (kohya(LAYER, 768, 320, 8) + " " + kohya(LAYER + "_x", 768, 320, 32), "LoRA", False, (8, 32)),
    "locon": (
        f"{kohya(LAYER, 768, 320)} lora_unet_conv_in.lora_down.weight[16,4,3,3] lora_unet_conv_in.lora_up.weight[320,16,1,1]",
        "LoCon",
        False,
        (16, 16),
    ),
    "dora": (f"{kohya(LAYER, 768, 320)} {LAYER}.dora_scale[320,1]", "LoRA", True, (16, 16)),
    "dora-peft": (
        f"{peft('unet.' + LAYER[10:], 768, 320)} unet.{LAYER[10:]}.lora_magnitude_vector[320]",
        "LoRA",
        True,
        (16, 16),
    ),
    "loha": (f"{LAYER}.hada_{{w1,w2}}_a[320,4] {LAYER}.hada_{{w1,w2}}_b[4,768] {LAYER}.alpha[1]", "LoHa", False, (4, 4)),
    "lokr": (f"{LAYER}.lokr_w1[8,16] {LAYER}.lokr_w2_a[40,4] {LAYER}.lokr_w2_b[4,48] {LAYER}.alpha[1]", "LoKr", False, (4, 4)),
    "lokr-whole": (f"{LAYER}.lokr_w1[8,16] {LAYER}.lokr_w2[40,48]", "LoKr", False, (0, 0)),
    "differences": (f"{LAYER}.diff[320,768] {LAYER}.diff_b[320]", "differences", False, (0, 0)),
}


@pytest.mark.parametrize("case", KINDS)
def test_the_kind_is_told_and_the_base_whatever_the_kind(case: str) -> None:
    patterns, kind, dora, rank = KINDS[case]
    found = facts(patterns)
    assert (found.kind, found.dora, found.rank) == (kind, dora, rank)
    assert found.families == ("Stable Diffusion 1.x",)


@pytest.mark.parametrize(
    ("patterns", "kind"),
    [
        ("oft_unet_down_blocks_0.oft_blocks[8,40,40]", "OFT"),
        ("unet.down_blocks.0.attn1.to_q.oft_R.weight[8,40]", "OFT"),
        ("base_model.model.down_blocks.0.attn1.to_q.{boft_R,boft_s}[1,8,40,40]", "BOFT (peft)"),
        ("base_model.model.down_blocks.0.attn1.to_q.ia3_l[320,1]", "IA3"),
        ("base_model.model.down_blocks.0.attn1.to_q.{vera_lambda_b,vera_lambda_d}[320]", "VeRA"),
        (f"{LAYER}.a1.weight[4,768] {LAYER}.a2.weight[320,4] {LAYER}.b1.weight[4,768] {LAYER}.b2.weight[320,4]", "GLoRA"),
        (f"{LAYER}.on_input[1] {LAYER}.weight[768]", "IA3"),
    ],
)
def test_rarer_relatives_are_told(patterns: str, kind: str) -> None:
    assert facts(patterns).kind == kind


def test_the_parts_that_a_lora_changes() -> None:
    text = kohya("lora_te1_text_model_encoder_layers_0_mlp_fc1", 768, 3072)
    assert facts(SDXL).parts == ("denoiser",)
    assert facts(text).parts == ("text encoder",)
    both = facts(f"{SDXL} {text}")
    assert (both.parts, both.layers) == (("denoiser", "text encoder"), 2)


def test_what_a_lora_says_of_itself_counts_only_where_its_shapes_leave_a_choice() -> None:
    text = kohya("lora_te1_text_model_encoder_layers_0_mlp_fc1", 768, 3072)
    assert facts(text, {"ss_base_model_version": "sdxl_base_v1-0"}).families == ("SDXL",)
    assert facts(text, {"modelspec.architecture": "stable-diffusion-v1/lora"}).families == ("Stable Diffusion 1.x",)
    assert facts(text, {"ss_base_model_version": "flux1"}).families == ("Stable Diffusion 1.x", "SDXL")
    sd1 = kohya(LAYER, 768, 320)
    assert facts(sd1, {"ss_base_model_version": "sdxl_base_v1-0"}).families == ("Stable Diffusion 1.x",)
    unclear = peft("something.else", 40, 40)
    assert facts(unclear, {"ss_base_model_version": "qwen_image"}).families == ("Qwen-Image",)


def test_a_model_with_a_few_such_names_is_no_lora() -> None:
    found = recognise(header("double_blocks.{0-18}.img_attn.qkv.weight[9216,3072] x.alpha x.lora_down.weight[4,4]"))
    assert found.kind == "denoiser"


def test_a_lora_of_flux_with_whole_norms_beside_its_layers_is_a_lora() -> None:
    """As the control LoRAs of FLUX.1 are."""
    layers = " ".join(
        peft(f"double_blocks.{{0-18}}.{name}", 3072, 9216)
        for name in ("img_attn.qkv", "txt_attn.qkv", "img_mlp.0", "img_mod.lin")
    )
    found = facts(f"{layers} double_blocks.{{0-18}}.img_attn.norm.{{key,query}}_norm.scale[128]")
    assert found.families == ("FLUX",)
