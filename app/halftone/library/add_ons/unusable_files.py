"""Why a recognised file cannot make a picture alone, in one sentence, with what it lacks and where that is published."""

import re
from typing import Final

from halftone.contract.facts import ModelFacts
from halftone.contract.wording import Words
from halftone.library.families import known_families as of
from halftone.library.families.known_families import BERT, BY_NAME, CHATGLM, CLIP_G, CLIP_H, CLIP_L, KIND_NAMES, T5_XXL, Family
from halftone.library.families.recognise import Recognised
from halftone.library.files.gguf_header import PACKED

UNETS: Final = frozenset(
    family.name
    for family in (of.SD1, of.SD2, of.SDXL, of.REFINER, of.KOLORS, of.KANDINSKY2, of.KANDINSKY3, of.SVD, of.ANIMATE_DIFF)
)
_VOCABULARIES: Final = {
    CLIP_L: ("vocab.json", "merges.txt"),
    CLIP_G: ("vocab.json", "merges.txt"),
    CLIP_H: ("vocab.json", "merges.txt"),
    BERT: ("vocab.txt",),
    T5_XXL: ("spiece.model",),
    CHATGLM: ("tokenizer.model",),
}
"""Files of a tokenizer; every other text encoder has a tokenizer.json."""

SCALED: Final = "scaled FP8"
_READ: Final = {*PACKED, SCALED}
"""Kinds of quantised weights that a transformer's file may have."""
_PICTURES: Final = ("DC-AE", "Stage A", "MoVQ", "TAESD", "OpenCLIP-H vision")
_NAMES: Final = {
    "embedding": "textual inversion",
    "text encoder": "text encoder",
    "image encoder": "image encoder",
    "motion module": "motion module",
    "style model": "style model",
    "upscaler": "upscaler",
}
"""Kinds of files with English names."""
_OF_A_BASE: Final = {
    "VAE": "VAE ({0})",
    "text encoder": "text encoder ({0})",
    "image encoder": "image encoder ({0})",
    "upscaler": "upscaler ({0})",
}
_CHANNELS: Final = re.compile(r"VAE \((\d+) channels\)")
_QUANTISED: Final = {
    "denoiser": "its weights are quantised ({0}), which Halftone does not read; it holds only the denoiser of {1}",
    "checkpoint": "its weights are quantised ({0}), which Halftone does not read; it holds {1}",
}
_WITHOUT_FILES: Final = {
    "denoiser": "it holds only the denoiser of {0}, which runs only as a diffusers folder, with these small files beside its "
    "weights: {1}",
    "checkpoint": "it holds {0}, which runs only as a diffusers folder, with these small files beside its weights: {1}",
}
_WITHOUT_PARTS: Final = {
    "denoiser": "it holds only the denoiser of {0}; a run also needs these parts: {1}; and these small files: {2}",
    "checkpoint": "it holds {0}; a run also needs these parts: {1}; and these small files: {2}",
}


def listed_as(found: Recognised) -> str:
    """The family, or the kind of a file that is no model of one."""
    if found.kind in ("checkpoint", "denoiser"):
        return found.family
    return found.family or "Unknown" if found.kind == "shard" else KIND_NAMES[found.kind]


def instead(found: Recognised, wanted: Words | str) -> Words:
    """What a file is, that should have been a LoRA, a VAE or a ControlNet, as the end of a sentence."""
    if found.kind in ("checkpoint", "denoiser"):
        return Words("it is a whole {0} model", (found.family,))
    if (family := listed_as(found)) == KIND_NAMES["unknown"]:
        return Words("its tensors have no {0}'s names", (wanted,))
    if found.kind == "shard":
        return Words("it is part of a {0} model", (family,))
    if found.kind == "parts":
        return Words("it holds only parts of a model")
    kind, an = _named(found.kind)
    return Words("it is an {0}" if an else "it is a {0}", (kind,))


def _named(kind: str) -> tuple[Words | str, bool]:
    """(a kind of file as it is called, whether that takes "an")."""
    name = _NAMES.get(kind, kind)
    return Words(name) if kind in _NAMES else name, name[0] in "aeiouI"


def small_files(family: Family) -> tuple[str, ...]:
    """Files of configuration and vocabulary in a diffusers folder of the family."""
    denoiser = "unet" if family.name in UNETS else "transformer"
    files = ["model_index.json", "scheduler/scheduler_config.json", f"{denoiser}/config.json", "vae/config.json"]
    for number, encoder in enumerate(family.encoders, 1):
        end = "" if number == 1 else f"_{number}"
        files.append(f"text_encoder{end}/config.json")
        files += [f"tokenizer{end}/{file}" for file in _VOCABULARIES.get(encoder, ("tokenizer.json",))]
    return tuple(files)


def why_not(found: Recognised) -> Words:
    """Why this file alone makes no picture, as the end of a sentence. Most checkpoints, too, run only as a folder."""
    if found.split is not None:
        number, count = map(str, found.split)
        return Words("it is file {0} of {1} of a split model, which runs only as a folder", (number, count))
    family = BY_NAME.get(found.family)
    if found.kind in ("checkpoint", "denoiser") and family:
        return _of_model(found, family)
    return _of_addition(found)


def _of_model(found: Recognised, family: Family) -> Words:
    small = small_files(family)
    if found.quantised and found.quantised not in _READ:
        return Words(_QUANTISED[found.kind], (found.quantised, found.base))
    if not found.lacks:
        return Words(_WITHOUT_FILES[found.kind], (found.base, small))
    return Words(_WITHOUT_PARTS[found.kind], (found.base, tuple(map(_word, found.lacks)), small))


def _word(part: str) -> Words | str:
    """A part as it stands in a list; those for pictures are called what they are."""
    if (match := _CHANNELS.fullmatch(part)) is not None:
        return Words("VAE ({0} channels)", (match[1],))
    return part if part.startswith("VAE") or part.endswith("VAE") or part in _PICTURES else Words("text encoder {0}", (part,))


def _of_addition(found: Recognised) -> Words:
    if found.kind == "unknown" and found.quantised:
        return Words("its weights are quantised ({0}), which Halftone does not read", (found.quantised,))
    if found.kind == "unknown":
        return Words("it is not clear what model it is")
    if found.kind == "parts":
        return Words("it holds parts of a model, but no denoiser: {0}", (tuple(map(_word, found.holds)),))
    kind, an = _named(found.kind)
    if found.kind in _OF_A_BASE:
        kind = _word(found.base) if "VAE" in found.base else Words(_OF_A_BASE[found.kind], (found.base,))
    if found.kind in _OF_A_BASE or not found.family:
        return Words("it is an {0}, not a whole model" if an else "it is a {0}, not a whole model", (kind,))
    fits = "it is an {0} for {1}, not a whole model" if an else "it is a {0} for {1}, not a whole model"
    return Words(fits, (kind, found.family))


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
    """The model whose folder a file needs, and where it is published if that is known."""
    name = facts.base or facts.family
    found = REPOSITORIES.get(name)
    return f"{name} (huggingface.co/{found})" if found else name
