"""Model families: what they are used to (size, steps, guidance, prompt length) and of which parts they are made."""

from typing import Final

from halftone.library.families.family import (
    BERT,
    CHATGLM,
    CLIP_G,
    CLIP_H,
    CLIP_L,
    DC_AE,
    GEMMA2,
    GLM4,
    LLAMA,
    LLAVA,
    MISTRAL,
    MT5,
    PILE_T5,
    QWEN3_4B,
    QWEN3_VL,
    QWEN25_VL,
    T5_XXL,
    UMT5,
    VAE_4,
    VAE_FLUX2,
    VAE_WAN,
    Family,
)

SD1: Final = Family(
    name="Stable Diffusion 1.x",
    size=512,
    steps=28,
    guidance=7.0,
    pipelines=("StableDiffusion", "LatentConsistencyModel"),
    prediction="epsilon",
    vae=VAE_4,
    encoders=(CLIP_L,),
)
SD2: Final = Family(name="Stable Diffusion 2.x", size=768, steps=28, guidance=7.0, prediction="", vae=VAE_4, encoders=(CLIP_H,))
SDXL: Final = Family(
    name="SDXL",
    size=1024,
    steps=28,
    guidance=6.0,
    pipelines=("StableDiffusionXL",),
    prediction="epsilon",
    vae=VAE_4,
    encoders=(CLIP_L, CLIP_G),
)
REFINER: Final = Family(
    name="SDXL refiner", size=1024, steps=28, guidance=6.0, prediction="epsilon", vae=VAE_4, encoders=(CLIP_G,)
)
SD3: Final = Family(
    name="SD 3",
    size=1024,
    steps=28,
    guidance=7.0,
    tokens=256,
    pipelines=("StableDiffusion3",),
    encoders=(CLIP_L, CLIP_G, T5_XXL),
)
FLUX: Final = Family(
    name="FLUX",
    size=1024,
    steps=28,
    guidance=3.5,
    tokens=512,
    pipelines=("Flux",),
    encoders=(CLIP_L, T5_XXL),
)
FLUX2: Final = Family(
    name="FLUX.2", size=1024, steps=50, guidance=4.0, tokens=512, pipelines=("Flux2",), vae=VAE_FLUX2, encoders=(MISTRAL,)
)
CHROMA: Final = Family(name="Chroma", size=1024, steps=35, guidance=5.0, tokens=512, pipelines=("Chroma",), encoders=(T5_XXL,))
SANA: Final = Family(
    name="Sana", size=1024, steps=20, guidance=4.5, tokens=300, pipelines=("Sana",), vae=DC_AE, encoders=(GEMMA2,)
)
PIXART_ALPHA: Final = Family(
    name="PixArt-α",
    size=1024,
    steps=20,
    guidance=4.5,
    tokens=120,
    pipelines=("PixArtAlpha",),
    prediction="epsilon",
    vae=VAE_4,
    encoders=(T5_XXL,),
)
PIXART_SIGMA: Final = Family(
    name="PixArt-Σ",
    size=1024,
    steps=20,
    guidance=4.5,
    tokens=300,
    pipelines=("PixArtSigma",),
    prediction="epsilon",
    vae=VAE_4,
    encoders=(T5_XXL,),
)
KOLORS: Final = Family(
    name="Kolors",
    size=1024,
    steps=50,
    guidance=5.0,
    tokens=256,
    pipelines=("Kolors",),
    prediction="epsilon",
    vae=VAE_4,
    encoders=(CHATGLM,),
)
HUNYUAN_DIT: Final = Family(
    name="HunyuanDiT",
    size=1024,
    steps=50,
    guidance=5.0,
    tokens=256,
    pipelines=("HunyuanDiT",),
    prediction="v_prediction",
    vae=VAE_4,
    encoders=(BERT, MT5),
)
HUNYUAN_IMAGE: Final = Family(
    name="HunyuanImage",
    size=2048,
    steps=50,
    guidance=3.25,
    tokens=1000,
    pipelines=("HunyuanImage",),
    vae="VAE (64 channels)",
    encoders=(QWEN25_VL, "ByT5"),
)
LUMINA2: Final = Family(
    name="Lumina 2", size=1024, steps=30, guidance=4.0, tokens=256, pipelines=("Lumina2",), encoders=(GEMMA2,)
)
LUMINA: Final = Family(
    name="Lumina-Next", size=1024, steps=30, guidance=4.0, tokens=256, pipelines=("Lumina",), vae=VAE_4, encoders=("Gemma 2B",)
)
AURA_FLOW: Final = Family(
    name="AuraFlow", size=1024, steps=50, guidance=3.5, tokens=256, pipelines=("AuraFlow",), vae=VAE_4, encoders=(PILE_T5,)
)
QWEN_IMAGE: Final = Family(
    name="Qwen-Image",
    size=1328,
    steps=50,
    guidance=4.0,
    tokens=512,
    pipelines=("QwenImage",),
    vae=VAE_WAN,
    encoders=(QWEN25_VL,),
)
Z_IMAGE: Final = Family(
    name="Z-Image", size=1024, steps=50, guidance=5.0, tokens=512, pipelines=("ZImage",), encoders=(QWEN3_4B,)
)
COGVIEW4: Final = Family(
    name="CogView4", size=1024, steps=50, guidance=5.0, tokens=1024, pipelines=("CogView4",), encoders=(GLM4,)
)
COGVIEW3: Final = Family(
    name="CogView3+",
    size=1024,
    steps=50,
    guidance=5.0,
    tokens=224,
    pipelines=("CogView3Plus",),
    prediction="v_prediction",
    encoders=(T5_XXL,),
)
CASCADE: Final = Family(
    name="Stable Cascade",
    size=1024,
    steps=20,
    guidance=4.0,
    pipelines=("StableCascade",),
    prediction="epsilon",
    vae="Stage A",
    encoders=(CLIP_G,),
)
KANDINSKY2: Final = Family(
    name="Kandinsky 2",
    size=512,
    steps=50,
    guidance=4.0,
    pipelines=("KandinskyV22", "Kandinsky"),
    prediction="epsilon",
    vae="MoVQ",
    encoders=(CLIP_G,),
)
KANDINSKY3: Final = Family(
    name="Kandinsky 3",
    size=1024,
    steps=25,
    guidance=3.0,
    tokens=128,
    pipelines=("Kandinsky3",),
    prediction="epsilon",
    vae="MoVQ",
    encoders=("FLAN-UL2",),
)
KANDINSKY5: Final = Family(
    name="Kandinsky 5",
    size=1024,
    steps=50,
    guidance=3.5,
    tokens=512,
    pipelines=("Kandinsky5",),
    encoders=(QWEN25_VL, CLIP_L),
)
HIDREAM: Final = Family(
    name="HiDream",
    size=1024,
    steps=50,
    guidance=5.0,
    tokens=128,
    pipelines=("HiDream",),
    encoders=(CLIP_L, CLIP_G, T5_XXL, LLAMA),
)
OMNIGEN: Final = Family(name="OmniGen", size=1024, steps=50, guidance=2.5, pipelines=("OmniGen",), vae=VAE_4)
KREA2: Final = Family(
    name="Krea 2",
    size=1024,
    steps=28,
    guidance=4.5,
    tokens=512,
    pipelines=("Krea2",),
    vae=VAE_WAN,
    encoders=(QWEN3_VL,),
)
ANIMATE_DIFF: Final = Family(
    name="AnimateDiff",
    size=512,
    steps=28,
    guidance=7.0,
    pipelines=("AnimateDiff",),
    prediction="epsilon",
    vae=VAE_4,
    encoders=(CLIP_L,),
    frames=True,
)
SVD: Final = Family(
    name="Stable Video Diffusion",
    size=1024,
    steps=25,
    guidance=3.0,
    pipelines=("StableVideoDiffusion",),
    prediction="v_prediction",
    vae="SVD VAE",
    encoders=("OpenCLIP-H vision",),
    frames=True,
)
WAN: Final = Family(
    name="Wan",
    size=832,
    steps=50,
    guidance=5.0,
    tokens=512,
    pipelines=("Wan",),
    vae=VAE_WAN,
    encoders=(UMT5,),
    frames=True,
)
LTX: Final = Family(
    name="LTX-Video",
    size=704,
    steps=50,
    guidance=3.0,
    tokens=128,
    pipelines=("LTX",),
    vae="LTX VAE",
    encoders=(T5_XXL,),
    frames=True,
)
LTX2: Final = Family(
    name="LTX-2",
    size=768,
    steps=30,
    guidance=3.0,
    tokens=1024,
    pipelines=("LTX2",),
    vae="LTX VAE",
    encoders=("Gemma 3 12B",),
    frames=True,
)
HUNYUAN_VIDEO: Final = Family(
    name="HunyuanVideo",
    size=720,
    steps=50,
    guidance=6.0,
    tokens=256,
    pipelines=("HunyuanVideo",),
    vae="HunyuanVideo VAE",
    encoders=(LLAVA, CLIP_L),
    frames=True,
)
MOCHI: Final = Family(
    name="Mochi",
    size=848,
    steps=64,
    guidance=4.5,
    tokens=256,
    pipelines=("Mochi",),
    vae="Mochi VAE",
    encoders=(T5_XXL,),
    frames=True,
)
COGVIDEO: Final = Family(
    name="CogVideoX",
    size=720,
    steps=50,
    guidance=6.0,
    tokens=226,
    pipelines=("CogVideoX",),
    prediction="v_prediction",
    vae="CogVideoX VAE",
    encoders=(T5_XXL,),
    frames=True,
)
COSMOS: Final = Family(
    name="Cosmos",
    size=1024,
    steps=35,
    guidance=7.0,
    tokens=512,
    pipelines=("Cosmos",),
    vae=VAE_WAN,
    encoders=("T5-11B",),
    frames=True,
)

FAMILIES: Final[tuple[Family, ...]] = (
    SD1, SD2, SDXL, REFINER, SD3, FLUX, FLUX2, CHROMA, SANA, PIXART_ALPHA, PIXART_SIGMA, KOLORS, HUNYUAN_DIT, HUNYUAN_IMAGE,
    LUMINA2, LUMINA, AURA_FLOW, QWEN_IMAGE, Z_IMAGE, COGVIEW4, COGVIEW3, CASCADE, KANDINSKY2, KANDINSKY3, KANDINSKY5, HIDREAM,
    OMNIGEN, KREA2, ANIMATE_DIFF, SVD, WAN, LTX, LTX2, HUNYUAN_VIDEO, MOCHI, COGVIDEO, COSMOS,
)  # fmt: skip
"""Those that have a name of their own; any other is called as diffusers calls its pipeline."""

KIND_NAMES: Final = {
    "LoRA": "LoRA",
    "VAE": "VAE",
    "ControlNet": "ControlNet",
    "embedding": "Embedding",
    "text encoder": "Text encoder",
    "image encoder": "Image encoder",
    "IP-Adapter": "IP-Adapter",
    "T2I-Adapter": "T2I-Adapter",
    "motion module": "Motion module",
    "style model": "Style model",
    "upscaler": "Upscaler",
    "parts": "Parts of a model",
    "unknown": "Unknown",
}
"""Kind of a file that is no model of a family -> what stands for its family."""

NOT_WHOLE: Final = tuple(KIND_NAMES.values())
"""Families of files that are described and listed but cannot make a picture alone."""

BY_NAME: Final = {family.name: family for family in FAMILIES}

_NOT_MEANT: Final = ("QwenImage21", "SanaVideo", "SanaWM", "Kandinsky6", "Flux3", "Cosmos3")
"""Pipelines whose names begin like a family's, though they run another."""


_CHUNKED: Final = (SD1.name, SD2.name, SDXL.name, REFINER.name, SD3.name)


def reads_in_chunks(family: str) -> bool:
    """Whether its prompts reach the picture through CLIP, word by word: of any length, in chunks, and with weights."""
    return family in _CHUNKED


_WIDE: Final = frozenset(
    family.name
    for family in (
        FLUX, FLUX2, CHROMA, SANA, HUNYUAN_IMAGE, LUMINA2, QWEN_IMAGE, Z_IMAGE, COGVIEW3, COGVIEW4, CASCADE, HIDREAM, WAN,
        LTX, LTX2, HUNYUAN_VIDEO, MOCHI, COSMOS,
    )
)  # fmt: skip


def runs_wide(family: str) -> bool:
    """Whether its makers or other programs run it in bfloat16 before float16, as numbers in it pass the limit of float16: the
    orders of preference in ComfyUI's model classes, InvokeAI's loaders, and the pages of diffusers on Sana and Stable Cascade.
    """
    return family in _WIDE


def of_pipeline(pipeline: str, cross_attention: object = None) -> Family:
    """Family of a diffusers pipeline class; `cross_attention`: the UNet's width of the text, which tells SD 2.x from 1.x, and the
    refiner of SDXL from its base.
    """
    found = [(len(start), family) for family in FAMILIES for start in family.pipelines if pipeline.startswith(start)]
    if not found or pipeline.startswith(_NOT_MEANT):
        return Family(name=pipeline, size=512, steps=28, guidance=6.0, prediction="")
    family = max(found, key=lambda pair: pair[0])[1]
    other = {(SD1.name, 1024): SD2, (SDXL.name, 1280): REFINER}
    return other.get((family.name, cross_attention), family) if isinstance(cross_attention, int) else family
