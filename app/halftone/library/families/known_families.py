"""Model families: what they are used to (size, steps, guidance, prompt length) and of which parts they are made."""

from typing import Final, Literal

import msgspec

Prediction = Literal["", "epsilon", "v_prediction", "flow", "edm"]
"""What the denoiser predicts: the noise, the velocity, the direction of a flow, the picture as in EDM; "" where it is not known.
"""

CLIP_L: Final = "CLIP-L"
CLIP_H: Final = "OpenCLIP-H"
CLIP_G: Final = "OpenCLIP-G"
T5_XXL: Final = "T5-XXL"
UMT5: Final = "UMT5-XXL"
PILE_T5: Final = "Pile-T5-XL"
MT5: Final = "mT5-XL"
BERT: Final = "BERT"
GEMMA2: Final = "Gemma 2 2B"
QWEN25_VL: Final = "Qwen2.5-VL 7B"
QWEN3_4B: Final = "Qwen3 4B"
QWEN3_8B: Final = "Qwen3 8B"
QWEN3_VL: Final = "Qwen3-VL 4B"
CHATGLM: Final = "ChatGLM3 6B"
GLM4: Final = "GLM-4 9B"
LLAMA: Final = "Llama 3.1 8B"
LLAVA: Final = "LLaVA Llama 3 8B"
MISTRAL: Final = "Mistral Small 3 24B"

VAE_4: Final = "VAE (4 channels)"
VAE_16: Final = "VAE (16 channels)"
VAE_FLUX2: Final = "FLUX.2 VAE"
VAE_WAN: Final = "Wan 2.1 VAE"
VAE_WAN_22: Final = "Wan 2.2 VAE"
DC_AE: Final = "DC-AE"


class Family(msgspec.Struct, frozen=True):
    """size: pixels of the edge it was trained on. tokens: prompt length of its pipeline. pipelines: prefixes of diffusers'
    classes that run it. vae, encoders: parts beside the denoiser. frames: it makes videos.
    """

    name: str
    size: int
    steps: int
    guidance: float
    pipelines: tuple[str, ...]
    encoders: tuple[str, ...] = ()
    tokens: int = 77
    prediction: Prediction = "flow"
    vae: str = VAE_16
    frames: bool = False


SD1: Final = Family(
    "Stable Diffusion 1.x",
    512,
    28,
    7.0,
    ("StableDiffusion", "LatentConsistencyModel"),
    (CLIP_L,),
    prediction="epsilon",
    vae=VAE_4,
)
SD2: Final = Family("Stable Diffusion 2.x", 768, 28, 7.0, (), (CLIP_H,), prediction="", vae=VAE_4)
SDXL: Final = Family("SDXL", 1024, 28, 6.0, ("StableDiffusionXL",), (CLIP_L, CLIP_G), prediction="epsilon", vae=VAE_4)
REFINER: Final = Family("SDXL refiner", 1024, 28, 6.0, (), (CLIP_G,), prediction="epsilon", vae=VAE_4)
SD3: Final = Family("SD 3", 1024, 28, 7.0, ("StableDiffusion3",), (CLIP_L, CLIP_G, T5_XXL), tokens=256)
FLUX: Final = Family("FLUX", 1024, 28, 3.5, ("Flux",), (CLIP_L, T5_XXL), tokens=512)
FLUX2: Final = Family("FLUX.2", 1024, 50, 4.0, ("Flux2",), (MISTRAL,), tokens=512, vae=VAE_FLUX2)
CHROMA: Final = Family("Chroma", 1024, 35, 5.0, ("Chroma",), (T5_XXL,), tokens=512)
SANA: Final = Family("Sana", 1024, 20, 4.5, ("Sana",), (GEMMA2,), tokens=300, vae=DC_AE)
PIXART_ALPHA: Final = Family("PixArt-α", 1024, 20, 4.5, ("PixArtAlpha",), (T5_XXL,), tokens=120, prediction="epsilon", vae=VAE_4)
PIXART_SIGMA: Final = Family("PixArt-Σ", 1024, 20, 4.5, ("PixArtSigma",), (T5_XXL,), tokens=300, prediction="epsilon", vae=VAE_4)
KOLORS: Final = Family("Kolors", 1024, 50, 5.0, ("Kolors",), (CHATGLM,), tokens=256, prediction="epsilon", vae=VAE_4)
HUNYUAN_DIT: Final = Family(
    "HunyuanDiT", 1024, 50, 5.0, ("HunyuanDiT",), (BERT, MT5), tokens=256, prediction="v_prediction", vae=VAE_4
)
HUNYUAN_IMAGE: Final = Family(
    "HunyuanImage", 2048, 50, 3.25, ("HunyuanImage",), (QWEN25_VL, "ByT5"), tokens=1000, vae="VAE (64 channels)"
)
LUMINA2: Final = Family("Lumina 2", 1024, 30, 4.0, ("Lumina2",), (GEMMA2,), tokens=256)
LUMINA: Final = Family("Lumina-Next", 1024, 30, 4.0, ("Lumina",), ("Gemma 2B",), tokens=256, vae=VAE_4)
AURA_FLOW: Final = Family("AuraFlow", 1024, 50, 3.5, ("AuraFlow",), (PILE_T5,), tokens=256, vae=VAE_4)
QWEN_IMAGE: Final = Family("Qwen-Image", 1328, 50, 4.0, ("QwenImage",), (QWEN25_VL,), tokens=512, vae=VAE_WAN)
Z_IMAGE: Final = Family("Z-Image", 1024, 50, 5.0, ("ZImage",), (QWEN3_4B,), tokens=512)
COGVIEW4: Final = Family("CogView4", 1024, 50, 5.0, ("CogView4",), (GLM4,), tokens=1024)
COGVIEW3: Final = Family("CogView3+", 1024, 50, 5.0, ("CogView3Plus",), (T5_XXL,), tokens=224, prediction="v_prediction")
CASCADE: Final = Family("Stable Cascade", 1024, 20, 4.0, ("StableCascade",), (CLIP_G,), prediction="epsilon", vae="Stage A")
KANDINSKY2: Final = Family(
    "Kandinsky 2", 512, 50, 4.0, ("KandinskyV22", "Kandinsky"), (CLIP_G,), prediction="epsilon", vae="MoVQ"
)
KANDINSKY3: Final = Family(
    "Kandinsky 3", 1024, 25, 3.0, ("Kandinsky3",), ("FLAN-UL2",), tokens=128, prediction="epsilon", vae="MoVQ"
)
KANDINSKY5: Final = Family("Kandinsky 5", 1024, 50, 3.5, ("Kandinsky5",), (QWEN25_VL, CLIP_L), tokens=512)
HIDREAM: Final = Family("HiDream", 1024, 50, 5.0, ("HiDream",), (CLIP_L, CLIP_G, T5_XXL, LLAMA), tokens=128)
OMNIGEN: Final = Family("OmniGen", 1024, 50, 2.5, ("OmniGen",), vae=VAE_4)
KREA2: Final = Family("Krea 2", 1024, 28, 4.5, ("Krea2",), (QWEN3_VL,), tokens=512, vae=VAE_WAN)
ANIMATE_DIFF: Final = Family(
    "AnimateDiff", 512, 28, 7.0, ("AnimateDiff",), (CLIP_L,), prediction="epsilon", vae=VAE_4, frames=True
)
SVD: Final = Family(
    "Stable Video Diffusion",
    1024,
    25,
    3.0,
    ("StableVideoDiffusion",),
    ("OpenCLIP-H vision",),
    prediction="v_prediction",
    vae="SVD VAE",
    frames=True,
)
WAN: Final = Family("Wan", 832, 50, 5.0, ("Wan",), (UMT5,), tokens=512, vae=VAE_WAN, frames=True)
LTX: Final = Family("LTX-Video", 704, 50, 3.0, ("LTX",), (T5_XXL,), tokens=128, vae="LTX VAE", frames=True)
LTX2: Final = Family("LTX-2", 768, 30, 3.0, ("LTX2",), ("Gemma 3 12B",), tokens=1024, vae="LTX VAE", frames=True)
HUNYUAN_VIDEO: Final = Family(
    "HunyuanVideo", 720, 50, 6.0, ("HunyuanVideo",), (LLAVA, CLIP_L), tokens=256, vae="HunyuanVideo VAE", frames=True
)
MOCHI: Final = Family("Mochi", 848, 64, 4.5, ("Mochi",), (T5_XXL,), tokens=256, vae="Mochi VAE", frames=True)
COGVIDEO: Final = Family(
    "CogVideoX", 720, 50, 6.0, ("CogVideoX",), (T5_XXL,), tokens=226, prediction="v_prediction", vae="CogVideoX VAE", frames=True
)
COSMOS: Final = Family("Cosmos", 1024, 35, 7.0, ("Cosmos",), ("T5-11B",), tokens=512, vae=VAE_WAN, frames=True)

FAMILIES: Final[tuple[Family, ...]] = (
    SD1, SD2, SDXL, REFINER, SD3, FLUX, FLUX2, CHROMA, SANA, PIXART_ALPHA, PIXART_SIGMA, KOLORS, HUNYUAN_DIT, HUNYUAN_IMAGE,
    LUMINA2, LUMINA, AURA_FLOW, QWEN_IMAGE, Z_IMAGE, COGVIEW4, COGVIEW3, CASCADE, KANDINSKY2, KANDINSKY3, KANDINSKY5, HIDREAM,
    OMNIGEN, KREA2, ANIMATE_DIFF, SVD, WAN, LTX, LTX2, HUNYUAN_VIDEO, MOCHI, COGVIDEO, COSMOS,
)  # fmt: skip
"""Families with a name of their own; any other has the name of its pipeline in diffusers."""

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
"""Kind of a file that is no model of a family -> the name in the family's place."""


BY_NAME: Final = {family.name: family for family in FAMILIES}

_KLEIN_4B: Final = (VAE_FLUX2, (QWEN3_4B,))
_KLEIN_9B: Final = (VAE_FLUX2, (QWEN3_8B,))
_OWN_PARTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "FLUX.2 klein 4B": _KLEIN_4B,
    "FLUX.2 klein base 4B": _KLEIN_4B,
    "FLUX.2 klein 9B": _KLEIN_9B,
    "FLUX.2 klein base 9B": _KLEIN_9B,
    "Wan 2.2 5B": (VAE_WAN_22, (UMT5,)),
}
"""Models with other parts beside the denoiser than their family has."""


def parts_of(family: str, base: str) -> tuple[str, tuple[str, ...]]:
    """(VAE, text encoders) of a model. base: which one of the family."""
    own = BY_NAME[family]
    return _OWN_PARTS.get(base, (own.vae, own.encoders))


_NOT_MEANT: Final = ("QwenImage21", "SanaVideo", "SanaWM", "Kandinsky6", "Flux3", "Cosmos3")
"""Pipelines whose names begin like a family's, though they run another."""
_CHUNKED: Final = (SD1.name, SD2.name, SDXL.name, REFINER.name, SD3.name)


def reads_in_chunks(family: str) -> bool:
    """Whether its prompts reach the picture through CLIP, word by word: of any length, in chunks, and with weights."""
    return family in _CHUNKED


def weighs_words(family: str, *, as_comfyui: bool) -> bool:
    """Whether weights in its prompts act. ComfyUI weighs what T5 reads, too, which alone reads those of FLUX.1 word by word."""
    return reads_in_chunks(family) or (as_comfyui and family == FLUX.name)


_LITERAL: Final = (QWEN_IMAGE.name, Z_IMAGE.name, FLUX2.name, HUNYUAN_IMAGE.name)


def reads_brackets(family: str) -> bool:
    """Whether ComfyUI gives its text encoder, a language model, the signs of weights as they are written."""
    return family in _LITERAL


_WIDE: Final = frozenset(
    family.name
    for family in (
        FLUX, FLUX2, CHROMA, SANA, HUNYUAN_IMAGE, LUMINA2, QWEN_IMAGE, Z_IMAGE, COGVIEW3, COGVIEW4, CASCADE, HIDREAM, WAN,
        LTX, LTX2, HUNYUAN_VIDEO, MOCHI, COSMOS,
    )
)  # fmt: skip


def runs_wide(family: str) -> bool:
    """Whether its makers or other programs prefer bfloat16 to float16, as its values pass float16's limit. Sources: ComfyUI's
    model classes, InvokeAI's loaders, diffusers' pages on Sana and Stable Cascade.
    """
    return family in _WIDE


def of_pipeline(pipeline: str, cross_attention: object = None) -> Family:
    """Family of a pipeline class. cross_attention: the UNet's width of the text tells SD 2.x from 1.x, and the
    refiner from SDXL.
    """
    found = [(len(start), family) for family in FAMILIES for start in family.pipelines if pipeline.startswith(start)]
    if not found or pipeline.startswith(_NOT_MEANT):
        return Family(pipeline, 512, 28, 6.0, (), prediction="")
    family = max(found, key=lambda pair: pair[0])[1]
    other = {(SD1.name, 1024): SD2, (SDXL.name, 1280): REFINER}
    return other.get((family.name, cross_attention), family) if isinstance(cross_attention, int) else family
