"""Every kind of file by its names and shapes alone, as their makers write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.headers import header, header_of, tensors

from halftone.library.families.known_families import FAMILIES
from halftone.library.families.recognise import LAYOUTS, Recognised, recognise
from halftone.library.kinds.marks import View, read_mark

SD = "model.diffusion_model."
SD1_UNET = f"""{SD}input_blocks.0.0.weight[320,4,3,3] {SD}time_embed.{{0,2}}.weight[1280,1280] {SD}out.2.weight[4,320,3,3]
    {SD}input_blocks.{{1,2}}.1.transformer_blocks.0.attn2.{{to_k,to_v}}.weight[320,768]
    {SD}output_blocks.{{0-11}}.0.in_layers.0.weight"""
VAE = """first_stage_model.decoder.conv_in.weight[512,4,3,3] first_stage_model.decoder.mid.block_1.conv1.weight[512,512,3,3]
    first_stage_model.encoder.conv_in.weight[128,3,3,3] first_stage_model.post_quant_conv.weight[4,4,1,1]"""
CLIP_L = """{0}text_model.embeddings.token_embedding.weight[49408,768]
    {0}text_model.encoder.layers.{{0-11}}.self_attn.q_proj.weight[768,768]"""
OPEN_H = "{0}token_embedding.weight[49408,1024] {0}transformer.resblocks.{{0-22}}.attn.in_proj_weight[3072,1024]"
OPEN_G = "{0}token_embedding.weight[49408,1280] {0}transformer.resblocks.{{0-31}}.attn.in_proj_weight[3840,1280]"
SD1 = f"{SD1_UNET} {VAE} {CLIP_L.format('cond_stage_model.transformer.')}"
SD2 = f"{SD1_UNET.replace('320,768', '320,1024')} {VAE} {OPEN_H.format('cond_stage_model.model.')}"
SDXL_UNET = f"""{SD}input_blocks.0.0.weight[320,4,3,3] {SD}label_emb.0.0.weight[1280,2816] {SD}out.2.weight[4,320,3,3]
    {SD}input_blocks.4.1.norm.weight[640] {SD}input_blocks.4.1.transformer_blocks.{{0,1}}.attn2.to_k.weight[640,2048]
    {SD}input_blocks.7.1.transformer_blocks.{{0-9}}.norm1.weight[1280] {SD}middle_block.1.norm.weight[1280]"""
SDXL_TEXT = CLIP_L.format("conditioner.embedders.0.transformer.") + " " + OPEN_G.format("conditioner.embedders.1.model.")
SDXL = f"{SDXL_UNET} {VAE} {SDXL_TEXT}"
REFINER = f"""{SD}input_blocks.0.0.weight[384,4,3,3] {SD}label_emb.0.0.weight[1536,2560] {SD}out.2.weight[4,384,3,3]
    {SD}input_blocks.4.1.transformer_blocks.{{0-3}}.attn2.to_k.weight[768,1280] {VAE}
    {OPEN_G.format("conditioner.embedders.0.model.")}"""
T5 = "{0}shared.weight[32128,4096] {0}encoder.block.{{0-23}}.layer.0.SelfAttention.q.weight[4096,4096]"
VAE16 = (
    "{0}decoder.conv_in.weight[512,16,3,3] {0}decoder.mid.block_1.conv1.weight[512,512,3,3] {0}encoder.conv_in.weight[128,3,3,3]"
)
SD3 = """{0}joint_blocks.{{0-23}}.x_block.attn.qkv.weight[4608,1536]
    {0}joint_blocks.{{0-22}}.context_block.attn.proj.weight[1536,1536]
    {0}x_embedder.proj.weight[1536,16,2,2] {0}pos_embed[1,36864,1536] {0}context_embedder.weight[1536,4096]"""
SD35_MEDIUM = (
    SD3 + " {0}joint_blocks.{{0-12}}.x_block.attn2.qkv.weight[4608,1536] {0}joint_blocks.{{0-23}}.x_block.attn.ln_q.weight[64]"
)
SD35_LARGE = """joint_blocks.{0-37}.x_block.attn.qkv.weight[7296,2432] x_embedder.proj.weight[2432,16,2,2]
    joint_blocks.{0-37}.x_block.attn.ln_q.weight[64]"""
SCHNELL = """double_blocks.{0-18}.img_attn.qkv.weight[9216,3072] double_blocks.{0-18}.img_attn.norm.key_norm.scale[128]
    single_blocks.{0-37}.linear1.weight[21504,3072] img_in.weight[3072,64] txt_in.weight[3072,4096]
    vector_in.in_layer.weight[3072,768]"""
DEV = SCHNELL + " guidance_in.in_layer.weight[3072,256]"
FLUX2 = """double_blocks.{0-7}.img_attn.qkv.weight[18432,6144] single_blocks.{0-47}.linear1.weight[55296,6144]
    img_in.weight[6144,128]
    double_stream_modulation_{img,txt}.lin.weight[36864,6144] txt_in.weight[6144,15360]
    single_stream_modulation.lin.weight[18432,6144]"""
KLEIN = FLUX2.replace("6144,15360", "3072,7680")
SANA = """blocks.{0-19}.cross_attn.q_linear.weight[2240,2240] blocks.{0-19}.mlp.inverted_conv.conv.weight[11200,2240,1,1]
    x_embedder.proj.weight[2240,32,1,1] t_block.1.weight[13440,2240] y_embedder.y_proj.fc1.weight[2240,2304]
    attention_y_norm.weight[2240]"""
SPRINT = SANA + " blocks.{0-19}.attn.q_norm.weight[2240] cfg_embedder.mlp.0.weight[2240,256]"
PIXART = """blocks.{0-27}.cross_attn.kv_linear.weight[2304,1152] blocks.{0-27}.attn.qkv.weight[3456,1152]
    t_block.1.weight[6912,1152]
    x_embedder.proj.weight[1152,4,2,2] pos_embed[1,4096,1152]"""
HUNYUAN = """blocks.{0-39}.attn1.Wqkv.weight[4224,1408] mlp_t5.0.weight[8192,2048] text_embedding_padding[333,1024]
    pooler.positional_embedding[257,2048]"""
LUMINA = """cap_embedder.0.weight[2304] cap_embedder.1.weight[2304,2304] noise_refiner.{0,1}.attention.k_norm.weight[96]
    layers.{0-25}.attention.qkv.weight[3840,2304] x_embedder.weight[2304,64]"""
Z_IMAGE = """cap_embedder.0.weight[2560] cap_embedder.1.weight[3840,2560] noise_refiner.{0,1}.attention.k_norm.weight[128]
    layers.{0-29}.attention.qkv.weight[11520,3840] layers.{0-29}.adaLN_modulation.0.weight[15360,256] x_pad_token[1,3840]"""
AURA = """double_layers.{0-3}.attn.{w1q,w2q}.weight[3072,3072] single_layers.{0-31}.attn.w1q.weight[3072,3072]
    cond_seq_linear.weight[3072,2048] register_tokens[1,8,3072] positional_encoding[1,4096,3072]"""
QWEN = """transformer_blocks.{0-59}.{img_mod,txt_mod}.1.weight[18432,3072]
    transformer_blocks.{0-59}.txt_mlp.net.2.weight[3072,12288]
    txt_norm.weight[3584] img_in.weight[3072,64] txt_in.weight[3072,3584] proj_out.weight[64,3072]"""
COGVIEW4 = """patch_embed.proj.weight[4096,64] patch_embed.text_proj.weight[4096,4096]
    transformer_blocks.{0-27}.attn1.to_q.weight[4096,4096]
    time_condition_embed.condition_embedder.linear_1.weight[512,1536]"""
CHROMA = SCHNELL.replace("vector_in.in_layer.weight[3072,768]", "distilled_guidance_layer.in_proj.weight[5120,64]")
STAGE_C = """clf.1.weight[64,2048,1,1] clip_txt_mapper.weight[2048,1280] clip_img_mapper.weight[8192,768]
    down_blocks.0.0.channelwise.0.weight[8192,2048]"""
STAGE_B = "clf.1.weight[16,320,1,1] clip_mapper.weight[5120,1280] down_blocks.1.0.channelwise.0.weight[2560,640]"
KANDINSKY5 = """visual_transformer_blocks.{0-31}.cross_attention.key_norm.weight[64]
    pooled_text_embeddings.in_layer.weight[512,768]
    text_embeddings.in_layer.weight[1792,3584]"""
SVD = f"""{SD1_UNET.replace("4,3,3", "8,3,3", 1)} {SD}input_blocks.{{1,2}}.1.time_stack.0.attn1.to_q.weight[320,320]
    {SD}label_emb.0.0.weight[1280,768]"""
WAN = """blocks.{0-39}.self_attn.q.weight[5120,5120] blocks.{0-39}.cross_attn.k.weight[5120,5120] head.modulation[1,2,5120]
    patch_embedding.weight[5120,16,1,2,2] text_embedding.0.weight[5120,4096]"""
LTX = """patchify_proj.weight[2048,128] adaln_single.linear.weight[12288,2048] transformer_blocks.{0-27}.scale_shift_table[6,2048]
    adaln_single.emb.timestep_embedder.linear_1.bias[2048] caption_projection.linear_1.weight[2048,4096]"""
UMT5 = "{0}shared.weight[256384,4096] {0}encoder.block.{{0-23}}.layer.0.SelfAttention.q.weight[4096,4096]"


def within(prefix: str, patterns: str) -> str:
    return " ".join(prefix + pattern for pattern in patterns.split())


MODELS: dict[str, tuple[str, str, str, str, str]] = {
    "sd1": (SD1, "checkpoint", "Stable Diffusion 1.x", "Stable Diffusion 1.x", "epsilon"),
    "sd1-pruned": (SD1_UNET, "denoiser", "Stable Diffusion 1.x", "Stable Diffusion 1.x", "epsilon"),
    "sd1-bare": (SD1_UNET.replace(SD, ""), "denoiser", "Stable Diffusion 1.x", "Stable Diffusion 1.x", "epsilon"),
    "sd1-inpaint": (
        SD1.replace("320,4,3,3", "320,9,3,3"),
        "checkpoint",
        "Stable Diffusion 1.x",
        "Stable Diffusion 1.x inpainting",
        "epsilon",
    ),
    "sd1-pix2pix": (
        SD1.replace("320,4,3,3", "320,8,3,3"),
        "checkpoint",
        "Stable Diffusion 1.x",
        "Stable Diffusion 1.x edit (InstructPix2Pix)",
        "epsilon",
    ),
    "sd1-lcm": (
        f"{SD1} {SD}time_embed.cond_proj.weight[320,256]",
        "checkpoint",
        "Stable Diffusion 1.x",
        "Stable Diffusion 1.x LCM",
        "epsilon",
    ),
    "sd2": (SD2, "checkpoint", "Stable Diffusion 2.x", "Stable Diffusion 2.x", ""),
    "sd2-depth": (
        SD2.replace("320,4,3,3", "320,5,3,3"),
        "checkpoint",
        "Stable Diffusion 2.x",
        "Stable Diffusion 2.x depth",
        "epsilon",
    ),
    "sd2-upscaler": (
        SD2.replace("320,4,3,3", "320,7,3,3"),
        "checkpoint",
        "Stable Diffusion 2.x",
        "Stable Diffusion x4 upscaler",
        "",
    ),
    "sdxl": (SDXL, "checkpoint", "SDXL", "SDXL", "epsilon"),
    "sdxl-v": (f"{SDXL} v_pred ztsnr", "checkpoint", "SDXL", "SDXL", "v_prediction"),
    "sdxl-inpaint": (SDXL.replace("320,4,3,3", "320,9,3,3"), "checkpoint", "SDXL", "SDXL inpainting", "epsilon"),
    "playground": (f"{SDXL} edm_mean edm_std", "checkpoint", "SDXL", "Playground v2.5", "edm"),
    "ssd-1b": (SDXL.replace(f"{SD}middle_block.1.norm.weight[1280]", ""), "checkpoint", "SDXL", "SSD-1B", "epsilon"),
    "refiner": (REFINER, "checkpoint", "SDXL refiner", "SDXL refiner", "epsilon"),
    "kolors": (SDXL_UNET.replace("1280,2816", "1280,5632"), "denoiser", "Kolors", "Kolors", "epsilon"),
    "sd3": (SD3.format(SD), "denoiser", "SD 3", "SD 3 medium", "flow"),
    "sd3.5-medium": (SD35_MEDIUM.format(""), "denoiser", "SD 3", "SD 3.5 medium", "flow"),
    "sd3.5-large": (SD35_LARGE, "denoiser", "SD 3", "SD 3.5 large", "flow"),
    "flux-dev": (DEV, "denoiser", "FLUX", "FLUX.1 dev", "flow"),
    "flux-schnell": (within(SD, SCHNELL), "denoiser", "FLUX", "FLUX.1 schnell", "flow"),
    "flux-fill": (DEV.replace("3072,64]", "3072,384]"), "denoiser", "FLUX", "FLUX.1 Fill", "flow"),
    "flux-depth": (DEV.replace("3072,64]", "3072,128]"), "denoiser", "FLUX", "FLUX.1 Depth or Canny", "flow"),
    "flux2": (FLUX2, "denoiser", "FLUX.2", "FLUX.2 dev", "flow"),
    "flux2-klein": (KLEIN, "denoiser", "FLUX.2", "FLUX.2 klein 4B", "flow"),
    "chroma": (CHROMA, "denoiser", "Chroma", "Chroma", "flow"),
    "sana": (SANA, "denoiser", "Sana", "Sana 1.6B", "flow"),
    "sana-sprint": (SPRINT, "denoiser", "Sana", "Sana Sprint", "flow"),
    "pixart-alpha": (f"{PIXART} y_embedder.y_embedding[120,4096]", "denoiser", "PixArt-α", "PixArt-α", "epsilon"),
    "pixart-alpha-1024": (f"{PIXART} csize_embedder.mlp.0.weight[384,256]", "denoiser", "PixArt-α", "PixArt-α", "epsilon"),
    "pixart-sigma": (f"{PIXART} y_embedder.y_embedding[300,4096]", "denoiser", "PixArt-Σ", "PixArt-Σ", "epsilon"),
    "hunyuan-dit": (HUNYUAN, "denoiser", "HunyuanDiT", "HunyuanDiT", "v_prediction"),
    "lumina2": (within(SD, LUMINA), "denoiser", "Lumina 2", "Lumina 2", "flow"),
    "z-image": (Z_IMAGE, "denoiser", "Z-Image", "Z-Image", "flow"),
    "auraflow": (within(SD, AURA), "denoiser", "AuraFlow", "AuraFlow", "flow"),
    "qwen": (within(SD, QWEN), "denoiser", "Qwen-Image", "Qwen-Image", "flow"),
    "qwen-layered": (
        f"{QWEN} time_text_embed.addition_t_embedding.weight[2,3072]",
        "denoiser",
        "Qwen-Image",
        "Qwen-Image Layered",
        "flow",
    ),
    "cogview4": (COGVIEW4, "denoiser", "CogView4", "CogView4", "flow"),
    "cascade-c": (STAGE_C, "denoiser", "Stable Cascade", "Stable Cascade Stage C", "epsilon"),
    "cascade-c-lite": (
        STAGE_C.replace("2048,1280", "1536,1280"),
        "denoiser",
        "Stable Cascade",
        "Stable Cascade Stage C lite",
        "epsilon",
    ),
    "cascade-b": (within(SD, STAGE_B), "denoiser", "Stable Cascade", "Stable Cascade Stage B", "epsilon"),
    "kandinsky5": (KANDINSKY5, "denoiser", "Kandinsky 5", "Kandinsky 5", "flow"),
    "svd": (SVD, "denoiser", "Stable Video Diffusion", "Stable Video Diffusion", "v_prediction"),
    "wan": (WAN, "denoiser", "Wan", "Wan 14B", "flow"),
    "wan-i2v": (f"{WAN} img_emb.proj.0.bias[1280]", "denoiser", "Wan", "Wan 2.1 image to video", "flow"),
    "wan-5b": (WAN.replace("5120,16,1,2,2", "3072,48,1,2,2"), "denoiser", "Wan", "Wan 2.2 5B", "flow"),
    "ltx": (LTX, "denoiser", "LTX-Video", "LTX-Video", "flow"),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_model_is_told_from_its_names_and_shapes(case: str) -> None:
    patterns, *expected = MODELS[case]
    found = recognise(header(patterns))
    assert [found.kind, found.family, found.base, found.prediction] == expected
    assert found.sure


def test_every_family_of_the_table_has_a_layout() -> None:
    assert {layout.family for layout in LAYOUTS} == {family.name for family in FAMILIES}
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


@pytest.mark.parametrize("case", MODELS)
def test_only_one_familys_layouts_fit_a_model_or_the_first_is_the_narrower(case: str) -> None:
    """The order of the table may only decide between a family and those that it is a special case of."""
    patterns, _, family, *_ = MODELS[case]
    view = View({name.removeprefix(SD): shape for name, shape in tensors(patterns).items()})
    fitting = [layout.family for layout in LAYOUTS if view.all(layout.marks) and not view.any(layout.without)]
    broader = {"Kolors": {"SDXL"}, "SDXL refiner": {"SDXL", "Stable Diffusion 1.x"}, "SDXL": {"Stable Diffusion 1.x"}}
    broader |= {"Stable Diffusion 2.x": {"Stable Diffusion 1.x"}, "Z-Image": {"Lumina 2"}, "PixArt-α": {"PixArt-Σ"}}
    broader |= {"Chroma": {"FLUX"}, "FLUX.2": {"FLUX"}, "Stable Video Diffusion": {"SDXL", "Stable Diffusion 1.x"}}
    broader["Kolors"] |= {"Stable Diffusion 1.x"}
    assert fitting[0] == family
    assert set(fitting) <= {family} | broader.get(family, set())


def test_what_a_model_needs_beside_a_prompt_and_is_used_to() -> None:
    fill = recognise(header(DEV.replace("3072,64]", "3072,384]")))
    assert (fill.takes, fill.steps, fill.guidance, fill.size) == (("picture", "mask"), 50, 30.0, 1024)
    schnell = recognise(header(SCHNELL))
    assert (schnell.takes, schnell.steps, schnell.guidance) == ((), 4, 0.0)


@pytest.mark.parametrize(
    ("patterns", "holds", "lacks"),
    [
        (SD1, ("CLIP-L", "VAE (4 channels)"), ()),
        (SD1_UNET, (), ("VAE (4 channels)", "CLIP-L")),
        (f"{SDXL_UNET} {SDXL_TEXT}", ("CLIP-L", "OpenCLIP-G"), ("VAE (4 channels)",)),
        (f"{SDXL_UNET} {VAE} {SDXL_TEXT.split(' conditioner.embedders.1')[0]}", ("CLIP-L", "VAE (4 channels)"), ("OpenCLIP-G",)),
        (DEV, (), ("VAE (16 channels)", "CLIP-L", "T5-XXL")),
        (
            f"{within(SD, DEV)} {VAE16.format('vae.')} {CLIP_L.format('text_encoders.clip_l.transformer.')} "
            f"{T5.format('text_encoders.t5xxl.transformer.')}",
            ("CLIP-L", "T5-XXL", "VAE (16 channels)"),
            (),
        ),
        (f"{SD3.format(SD)} {VAE16.format('first_stage_model.')}", ("VAE (16 channels)",), ("CLIP-L", "OpenCLIP-G", "T5-XXL")),
        (f"{within(SD, LTX)} vae.per_channel_statistics.mean-of-means[128]", ("LTX VAE",), ("T5-XXL",)),
        (WAN, (), ("Wan 2.1 VAE", "UMT5-XXL")),
    ],
)
def test_what_a_file_holds_and_lacks(patterns: str, holds: tuple[str, ...], lacks: tuple[str, ...]) -> None:
    found = recognise(header(patterns))
    assert (found.holds, found.lacks) == (holds, lacks)
    assert found.kind == ("checkpoint" if holds else "denoiser")


def test_an_encoder_of_unknown_size_stands_for_one_that_is_missing() -> None:
    small = CLIP_L.format("conditioner.embedders.0.transformer.").replace("768", "32")
    found = recognise(header(SDXL_UNET, VAE, small))
    assert found.lacks == ("OpenCLIP-G",)


PARTS: dict[str, tuple[str, str, str]] = {
    "vae-4": (VAE.replace("first_stage_model.", ""), "VAE", "VAE (4 channels)"),
    "vae-16": (VAE16.format(""), "VAE", "VAE (16 channels)"),
    "vae-prefixed": (VAE, "VAE", "VAE (4 channels)"),
    "vae-flux2": (VAE16.format("").replace("512,16", "512,32") + " bn.running_mean[128]", "VAE", "FLUX.2 VAE"),
    "vae-svd": (VAE16.format("") + " decoder.mid.block_1.time_stack.in_layers.0.weight[512]", "VAE", "SVD VAE"),
    "vae-wan": ("decoder.middle.0.residual.0.gamma[384,1,1,1] decoder.conv1.weight[384,16,3,3,3]", "VAE", "Wan 2.1 VAE"),
    "vae-wan22": (
        "decoder.upsamples.0.upsamples.0.residual.0.gamma[1024,1,1,1] decoder.middle.0.residual.0.gamma[1024]",
        "VAE",
        "Wan 2.2 VAE",
    ),
    "vae-dc": (
        "decoder.stages.0.op_list.0.main.conv.conv.bias[128] decoder.project_in.main.conv.weight[1024,32,3,3]",
        "VAE",
        "DC-AE",
    ),
    "stage-a": ("vquantizer.codebook.weight[8192,4] up_blocks.0.0.weight[384,4,1,1] down_blocks.0.0.weight", "VAE", "Stage A"),
    "clip-l": (CLIP_L.format(""), "text encoder", "CLIP-L"),
    "clip-g": (CLIP_L.format("").replace("768", "1280"), "text encoder", "OpenCLIP-G"),
    "open-h": (OPEN_H.format(""), "text encoder", "OpenCLIP-H"),
    "t5": (T5.format(""), "text encoder", "T5-XXL"),
    "umt5": (UMT5.format(""), "text encoder", "UMT5-XXL"),
    "mt5": (T5.format("").replace("32128,4096", "250112,2048"), "text encoder", "mT5-XL"),
    "pile-t5": (T5.format("").replace("32128,4096", "32128,2048"), "text encoder", "Pile-T5-XL"),
    "t5-gguf": ("token_embd.weight[32128,4096] enc.blk.{0-23}.attn_q.weight[4096,4096]", "text encoder", "T5-XXL"),
    "gemma2": (
        "model.embed_tokens.weight[256000,2304] model.layers.{0-25}.pre_feedforward_layernorm.weight[2304]",
        "text encoder",
        "Gemma 2 2B",
    ),
    "qwen2.5-vl": (
        """model.embed_tokens.weight[152064,3584] model.layers.{0-27}.self_attn.q_proj.{weight,bias}[3584,3584]
    visual.blocks.0.norm1.weight""",
        "text encoder",
        "Qwen2.5-VL 7B",
    ),
    "qwen3": (
        "model.embed_tokens.weight[151936,2560] model.layers.{0-35}.self_attn.{q_proj,q_norm}.weight[4096,2560]",
        "text encoder",
        "Qwen3 4B",
    ),
    "mistral": (
        "embed_tokens.weight[131072,5120] layers.{0-39}.self_attn.q_proj.weight[4096,5120]",
        "text encoder",
        "Mistral Small 3 24B",
    ),
    "chatglm": (
        "transformer.encoder.layers.{0-27}.self_attention.query_key_value.weight[4608,4096]",
        "text encoder",
        "ChatGLM3 6B",
    ),
    "bert": (
        "bert.encoder.layer.{0-11}.attention.self.query.weight[1024,1024] bert.embeddings.word_embeddings.weight[47020,1024]",
        "text encoder",
        "BERT",
    ),
    "clip-vision": (
        "vision_model.encoder.layers.{0-31}.self_attn.q_proj.weight[1280,1280]",
        "image encoder",
        "OpenCLIP-H vision",
    ),
    "siglip": ("vision_model.encoder.layers.{0-26}.self_attn.q_proj.weight[1152,1152]", "image encoder", "SigLIP"),
}


@pytest.mark.parametrize("case", PARTS)
def test_a_part_of_a_model_is_told(case: str) -> None:
    patterns, kind, name = PARTS[case]
    found = recognise(header(patterns))
    assert (found.kind, found.base) == (kind, name)


def test_several_parts_without_a_denoiser() -> None:
    found = recognise(header(VAE, CLIP_L.format("cond_stage_model.transformer.")))
    assert (found.kind, found.holds) == ("parts", ("CLIP-L", "VAE (4 channels)"))


NETS = """controlnet_cond_embedding.conv_in.weight[16,3,3,3] controlnet_down_blocks.{0-11}.weight[320,320,1,1]
    conv_in.weight[320,4,3,3]"""
ADDITIONS: dict[str, tuple[str, str, str, str]] = {
    "controlnet-sd1": (
        "control_model.input_hint_block.0.weight control_model.zero_convs.0.0.weight "
        "control_model.input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight[320,768]",
        "ControlNet",
        "Stable Diffusion 1.x",
        "ControlNet",
    ),
    "controlnet-sd2": (
        f"{NETS} down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k.weight[320,1024]",
        "ControlNet",
        "Stable Diffusion 2.x",
        "ControlNet",
    ),
    "controlnet-sdxl": (f"{NETS} add_embedding.linear_1.weight[1280,2816]", "ControlNet", "SDXL", "ControlNet"),
    "controlnet-union": (
        f"{NETS} add_embedding.linear_1.weight[1280,2816] task_embedding[6,320]",
        "ControlNet",
        "SDXL",
        "ControlNet Union",
    ),
    "controlnet-flux": (
        "controlnet_blocks.{0-4}.weight[3072,3072] controlnet_x_embedder.weight[3072,64] context_embedder.weight[3072,4096]",
        "ControlNet",
        "FLUX",
        "ControlNet",
    ),
    "controlnet-xlabs": (
        "double_blocks.{0,1}.img_attn.qkv.weight[9216,3072] input_hint_block.0.weight controlnet_blocks.0.weight",
        "ControlNet",
        "FLUX",
        "ControlNet",
    ),
    "controlnet-sd3": (
        "controlnet_blocks.{0-11}.weight[1536,1536] pos_embed_input.proj.weight[1536,16,2,2]",
        "ControlNet",
        "SD 3",
        "ControlNet",
    ),
    "control-lora": (
        "lora_controlnet label_emb.0.0.up[1280,128] input_blocks.0.0.weight[320,4,3,3]",
        "ControlNet",
        "SDXL",
        "Control-LoRA",
    ),
    "t2i-adapter": (
        "adapter.conv_in.weight[320,768,3,3] adapter.body.0.resnets.0.block1.weight",
        "T2I-Adapter",
        "SDXL",
        "T2I-Adapter",
    ),
    "ip-adapter-sd1": (
        "image_proj.proj.weight[3072,1024] ip_adapter.{1,3,5}.to_k_ip.weight[320,768]",
        "IP-Adapter",
        "Stable Diffusion 1.x",
        "IP-Adapter",
    ),
    "ip-adapter-sdxl": (
        "image_proj.proj.weight[8192,1280] ip_adapter.{1,3,5}.to_k_ip.weight[640,2048]",
        "IP-Adapter",
        "SDXL",
        "IP-Adapter",
    ),
    "redux": ("redux_up.weight[12288,1152] redux_down.weight[4096,12288]", "style model", "FLUX", "FLUX.1 Redux"),
    "motion-sd1": (
        """down_blocks.{0-3}.motion_modules.0.temporal_transformer.norm.bias[320]
    mid_block.motion_modules.0.temporal_transformer.norm.bias""",
        "motion module",
        "Stable Diffusion 1.x",
        "AnimateDiff",
    ),
    "motion-sdxl": (
        "down_blocks.{0-2}.motion_modules.0.temporal_transformer.norm.bias[320]",
        "motion module",
        "SDXL",
        "AnimateDiff",
    ),
    "esrgan-old": (
        "model.0.weight[64,3,3,3] model.1.sub.{0-22}.RDB1.conv1.0.weight model.{3,6,8,10}.weight[64,64,3,3]",
        "upscaler",
        "",
        "ESRGAN",
    ),
    "esrgan-new": (
        "conv_first.weight[64,3,3,3] body.{0-22}.rdb1.conv1.weight {conv_up1,conv_up2}.weight[64,64,3,3]",
        "upscaler",
        "",
        "ESRGAN",
    ),
    "swinir": (
        "conv_first.weight[180,3,3,3] layers.0.residual_group.blocks.0.attn.relative_position_bias_table[225,6]",
        "upscaler",
        "",
        "SwinIR",
    ),
    "compact": ("body.0.weight[64,3,3,3] body.1.weight[64] body.2.weight[64,64,3,3]", "upscaler", "", "Real-ESRGAN compact"),
}


@pytest.mark.parametrize("case", ADDITIONS)
def test_what_is_added_to_a_model_is_told_with_its_base(case: str) -> None:
    patterns, *expected = ADDITIONS[case]
    found = recognise(header(patterns))
    assert [found.kind, found.family, found.base] == expected


@pytest.mark.parametrize(
    ("patterns", "scale"),
    [
        ("conv_first.weight[64,3,3,3] body.0.rdb1.conv1.weight {conv_up1,conv_up2}.weight[64,64,3,3]", 4),
        ("conv_first.weight[64,12,3,3] body.0.rdb1.conv1.weight {conv_up1,conv_up2}.weight[64,64,3,3]", 2),
        ("model.0.weight[64,3,3,3] model.1.sub.0.RDB1.conv1.0.weight model.{3,6,8,10}.weight[64,64,3,3]", 4),
        ("model.0.weight[64,3,3,3] model.1.sub.0.RDB1.conv1.0.weight model.{3,5,7}.weight[64,64,3,3]", 2),
    ],
)
def test_an_upscaler_says_by_how_much(patterns: str, scale: int) -> None:
    assert recognise(header(patterns)).scale == scale


@pytest.mark.parametrize(
    ("patterns", "family"),
    [
        ("emb_params[8,768]", "Stable Diffusion 1.x"),
        ("emb_params[8,1024]", "Stable Diffusion 2.x"),
        ("clip_l[4,768] clip_g[4,1280]", "SDXL"),
        ("<gta5-artwork>[768]", "Stable Diffusion 1.x"),
    ],
)
def test_a_textual_inversion_is_told_with_its_base(patterns: str, family: str) -> None:
    found = recognise(header(patterns))
    assert (found.kind, found.family) == ("embedding", family)


@pytest.mark.parametrize(
    ("patterns", "name", "metadata", "base", "sure"),
    [
        (DEV, "flux1-dev-kontext_fp8", {}, "FLUX.1 Kontext", False),
        (DEV, "x", {"modelspec.title": "FLUX.1 Kontext [dev]"}, "FLUX.1 Kontext", True),
        (SDXL, "sd_xl_turbo_1.0", {}, "SDXL Turbo", False),
        (SDXL, "DreamShaperXL-Lightning", {}, "SDXL Lightning", False),
        (SDXL, "enlightninged", {}, "SDXL", True),
        (SD2, "sd_turbo", {}, "SD Turbo", False),
        (SD35_LARGE, "sd3.5_large_turbo", {}, "SD 3.5 large turbo", False),
        (Z_IMAGE, "z_image_turbo_bf16", {}, "Z-Image Turbo", False),
        (QWEN, "qwen_image_edit_2509", {}, "Qwen-Image Edit", False),
        (DEV.replace("3072,64]", "3072,384]"), "kontext", {}, "FLUX.1 Fill", True),
    ],
)
def test_words_decide_only_between_models_of_the_same_shapes(
    patterns: str, name: str, metadata: dict[str, str], base: str, sure: bool
) -> None:
    found = recognise(header(patterns, metadata=metadata), name)
    assert (found.base, found.sure) == (base, sure)


def test_a_consistency_model_reads_its_guidance_as_a_number_where_it_has_a_layer_for_it() -> None:
    """Its guidance is as strong as usual then; one that was merged with a LoRA wants almost none."""
    layer = recognise(header(f"{SD1} {SD}time_embed.cond_proj.weight[320,256]"))
    merged = recognise(header(SD1), "dreamshaper_8_lcm")
    assert (layer.steps, layer.guidance, merged.steps, merged.guidance) == (4, 8.0, 6, 1.5)


def test_a_turbo_model_wants_few_steps() -> None:
    found = recognise(header(SDXL), "sd_xl_turbo_1.0")
    assert (found.steps, found.guidance, found.size) == (4, 1.0, 512)


@pytest.mark.parametrize(
    ("metadata", "prediction"),
    [
        ({"modelspec.prediction_type": "v"}, "v_prediction"),
        ({"modelspec.prediction_type": "epsilon"}, "epsilon"),
        ({"ss_v_parameterization": "True"}, "v_prediction"),
        ({"modelspec.prediction_type": "other"}, ""),
    ],
)
def test_a_file_may_say_what_it_predicts(metadata: dict[str, str], prediction: str) -> None:
    assert recognise(header(SD2, metadata=metadata)).prediction == prediction


def test_the_stored_type_and_the_scheme_of_quantised_weights() -> None:
    def types(extra: str, dtype: str = "F16") -> tuple[str, str]:
        found = recognise(header_of(tensors(DEV, extra), dtype=dtype))
        assert (found.family, found.base) == ("FLUX", "FLUX.1 dev")
        return found.dtype, found.quantised

    assert types("", "BF16") == ("bfloat16", "")
    assert types("", "F8_E4M3") == ("float8", "")
    assert types("double_blocks.0.img_attn.qkv.scale_weight[1]", "F8_E4M3") == ("float8", "scaled FP8")
    assert types("double_blocks.0.img_attn.qkv.weight.quant_state.bitsandbytes__nf4[90]", "U8") == ("u8", "NF4")
    assert types("", "Q4_K") == ("q4_k", "Q4_K")
    assert types("", "IQ4_XS") == ("iq4_xs", "IQ4_XS")


def test_one_file_of_a_divided_model_is_said_to_be() -> None:
    found = recognise(header(QWEN), "diffusion_pytorch_model-00001-of-00009")
    assert (found.kind, found.family, found.split) == ("shard", "Qwen-Image", (1, 9))
    assert recognise(header("something.else[3,3]"), "model-00002-of-00003").split == (2, 3)


@pytest.mark.parametrize(
    "patterns",
    [
        "something.else[3,3]",
        "a",
        "weight[64,64]",
        "model.layers.0.weight[8,8]",
        "input_blocks.3.0.op.weight[320,320,3,3]",
        "transformer_blocks.0.attn.to_q.weight[3072,3072]",
        "blocks.0.attn.qkv.weight[768,256] head.weight[1000,256]",
        "decoder.weight[8,8] encoder.weight[8,8]",
        "layers.0.weight[10,10] layers.1.weight[10,10]",
        "<word>[100]",
    ],
)
def test_what_is_not_known_is_called_unknown(patterns: str) -> None:
    assert recognise(header(patterns)) == Recognised(kind="unknown", dtype="float16")


def test_an_empty_header_is_unknown() -> None:
    assert recognise(header("")).kind == "unknown"


def test_two_models_in_one_file_are_one_of_them_and_never_an_error() -> None:
    found = recognise(header(within(SD, DEV), SDXL_UNET))
    assert found.kind == "denoiser"
    assert found.family in {"FLUX", "SDXL"}


NAMES = sorted({name for patterns, *_ in (*MODELS.values(), *PARTS.values(), *ADDITIONS.values()) for name in tensors(patterns)})


@given(
    st.dictionaries(
        st.one_of(st.sampled_from(NAMES), st.text(max_size=20)),
        st.lists(st.integers(0, 2**40), max_size=6).map(tuple),
        max_size=12,
    ),
    st.dictionaries(
        st.sampled_from(["modelspec.title", "ss_base_model_version", "modelspec.architecture"]), st.text(), max_size=2
    ),
    st.text(max_size=30),
)
def test_any_header_is_recognised_or_unknown(shapes: dict[str, tuple[int, ...]], metadata: dict[str, str], name: str) -> None:
    found = recognise(header_of(shapes, metadata), name)
    assert found.kind == "unknown" or found.family or found.base or found.kind in {"LoRA", "embedding", "parts", "shard"}


def test_marks_are_read_as_they_are_meant() -> None:
    view = View({"a.weight": (8, 4, 3, 3), "b.0.bias": (8,)})
    assert view.has("a.weight")
    assert view.has("a.weight[8,4,3,3]")
    assert view.has("a.weight[*,4,...]")
    assert view.has("{x,a}.weight[8,...]")
    assert view.has("b.*")
    assert not view.has("a.weight[8,4]")
    assert not view.has("a.weight[*,5,...]")
    assert not view.has("a.weight[8,4,3,3,3]")
    assert not view.has("c.*")
    assert view.below("b.").shapes == {"0.bias": (8,)}
    with pytest.raises(ValueError, match="a\\[x"):
        read_mark("a[x]y")
