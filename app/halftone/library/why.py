"""Why a recognised file cannot make a picture as it is, in one sentence, with what it lacks."""

from typing import Final

from halftone.library import families as of
from halftone.library.families import BY_NAME, KIND_NAMES
from halftone.library.family import BERT, CHATGLM, CLIP_G, CLIP_H, CLIP_L, T5_XXL, Family
from halftone.library.gguf_header import PACKED
from halftone.library.recognise import Recognised

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
_WORDS: Final = {"embedding": "textual inversion"}


def listed_as(found: Recognised) -> str:
    """The family, or the kind of a file that is no model of one."""
    if found.kind in ("checkpoint", "denoiser"):
        return found.family
    return found.family or "Unknown" if found.kind == "shard" else KIND_NAMES[found.kind]


def instead(found: Recognised, wanted: str) -> str:
    """What a file is, that should have been a LoRA, a VAE or a ControlNet, as the end of a sentence."""
    family = listed_as(found)
    if family == "Unknown":
        return f"its tensors have no {wanted}'s names"
    return f"it is a whole {family} model" if found.kind in ("checkpoint", "denoiser") else f"it is a {family}"


def small_files(family: Family) -> tuple[str, ...]:
    """Files of configuration and vocabulary that a diffusers folder of the family has beside its weights."""
    denoiser = "unet" if family.name in UNETS else "transformer"
    files = ["model_index.json", "scheduler/scheduler_config.json", f"{denoiser}/config.json", "vae/config.json"]
    for number, encoder in enumerate(family.encoders, 1):
        end = "" if number == 1 else f"_{number}"
        files.append(f"text_encoder{end}/config.json")
        files += [f"tokenizer{end}/{file}" for file in _VOCABULARIES.get(encoder, ("tokenizer.json",))]
    return tuple(files)


def why_not(found: Recognised) -> str:
    """Why this file alone makes no picture, as the end of a sentence. Of a checkpoint too, as most run only as a folder."""
    if found.split is not None:
        return f"it is file {found.split[0]} of {found.split[1]} of a divided model, which runs only whole, as a folder"
    family = BY_NAME.get(found.family)
    if found.kind in ("checkpoint", "denoiser") and family:
        return _of_model(found, family)
    return _of_addition(found)


def _of_model(found: Recognised, family: Family) -> str:
    small = ", ".join(small_files(family))
    what = f"only the denoiser of {found.base}" if found.kind == "denoiser" else found.base
    if found.quantised and found.quantised not in _READ:
        return f"its weights are quantised ({found.quantised}), which Halftone does not read; it holds {what}"
    if not found.lacks:
        return f"it holds {what}, which runs only as a diffusers folder, with these small files beside its weights: {small}"
    parts = ", ".join(_word(part) for part in found.lacks)
    return f"it holds {what}; a run also needs these parts: {parts}; and these small files: {small}"


def _word(part: str) -> str:
    """A part as it stands in a list; those for pictures are called what they are."""
    return part if part.startswith("VAE") or part.endswith("VAE") or part in _PICTURES else f"text encoder {part}"


def _of_addition(found: Recognised) -> str:
    if found.kind == "unknown":
        return "it is not clear what model it is"
    if found.kind == "parts":
        return f"it holds parts of a model, but no denoiser: {', '.join(_word(part) for part in found.holds)}"
    word = _WORDS.get(found.kind, found.kind)
    article = "an" if word[0] in "aeiouI" else "a"
    if found.kind in ("VAE", "text encoder", "image encoder", "upscaler"):
        named = found.base if "VAE" in found.base else f"{word} ({found.base})"
        return f"it is {article} {named}, not a whole model"
    fits = f" for {found.family}" if found.family else ""
    return f"it is {article} {word}{fits}, not a whole model"
