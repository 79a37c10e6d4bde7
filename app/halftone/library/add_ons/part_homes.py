"""The diffusers folder of a model: where it is published, under the names by which diffusers itself loads them."""

from typing import Final

from halftone.contract.facts import ModelFacts
from halftone.library.families import known_families as of

REPOSITORIES: Final = {
    "SD 3 medium": "stabilityai/stable-diffusion-3-medium-diffusers",
    "SD 3.5 medium": "stabilityai/stable-diffusion-3.5-medium",
    "SD 3.5 large": "stabilityai/stable-diffusion-3.5-large",
    "FLUX.1 dev": "black-forest-labs/FLUX.1-dev",
    "FLUX.1 schnell": "black-forest-labs/FLUX.1-schnell",
    "FLUX.1 Fill": "black-forest-labs/FLUX.1-Fill-dev",
    "FLUX.1 Kontext": "black-forest-labs/FLUX.1-Kontext-dev",
    "FLUX.2 dev": "black-forest-labs/FLUX.2-dev",
    "Sana 1.6B": "Efficient-Large-Model/Sana_1600M_1024px_diffusers",
    "Sana Sprint": "Efficient-Large-Model/Sana_Sprint_1.6B_1024px_diffusers",
    "Qwen-Image": "Qwen/Qwen-Image",
    "Qwen-Image Layered": "Qwen/Qwen-Image-Layered",
    "Kandinsky 2.2": "kandinsky-community/kandinsky-2-2-decoder",
    "Wan 14B": "Wan-AI/Wan2.1-T2V-14B-Diffusers",
    "Wan 1.3B": "Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
    "Wan 2.1 image to video": "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers",
    of.SD1.name: "stable-diffusion-v1-5/stable-diffusion-v1-5",
    of.SDXL.name: "stabilityai/stable-diffusion-xl-base-1.0",
    of.REFINER.name: "stabilityai/stable-diffusion-xl-refiner-1.0",
    of.CHROMA.name: "lodestones/Chroma1-HD",
    of.PIXART_ALPHA.name: "PixArt-alpha/PixArt-XL-2-1024-MS",
    of.PIXART_SIGMA.name: "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS",
    of.KOLORS.name: "Kwai-Kolors/Kolors-diffusers",
    of.HUNYUAN_DIT.name: "Tencent-Hunyuan/HunyuanDiT-v1.2-Diffusers",
    of.HUNYUAN_IMAGE.name: "hunyuanvideo-community/HunyuanImage-2.1-Diffusers",
    of.LUMINA2.name: "Alpha-VLLM/Lumina-Image-2.0",
    of.LUMINA.name: "Alpha-VLLM/Lumina-Next-SFT-diffusers",
    of.AURA_FLOW.name: "fal/AuraFlow",
    of.Z_IMAGE.name: "Tongyi-MAI/Z-Image-Turbo",
    of.COGVIEW4.name: "THUDM/CogView4-6B",
    of.COGVIEW3.name: "THUDM/CogView3-Plus-3B",
    of.KANDINSKY3.name: "kandinsky-community/kandinsky-3",
    of.HIDREAM.name: "HiDream-ai/HiDream-I1-Full",
    of.OMNIGEN.name: "Shitao/OmniGen-v1-diffusers",
    of.KREA2.name: "krea/Krea-2-Raw",
    of.SVD.name: "stabilityai/stable-video-diffusion-img2vid-xt",
    of.LTX.name: "Lightricks/LTX-Video",
    of.LTX2.name: "Lightricks/LTX-2",
    of.HUNYUAN_VIDEO.name: "hunyuanvideo-community/HunyuanVideo",
    of.MOCHI.name: "genmo/mochi-1-preview",
}
"""Name of a base -> its repository on huggingface.co. Of bases that differ in nothing but words, the first published."""


def home(facts: ModelFacts) -> str:
    """Which folder's parts a file runs with: the model's name, and where its folder is published if that is known."""
    name = facts.base or facts.family
    found = REPOSITORIES.get(name)
    return f"{name} (huggingface.co/{found})" if found else name
