"""Why a recognised file cannot make a picture as it is, in one sentence, with what it lacks."""

from typing import Final

from halftone.library import families as of
from halftone.library.families import BY_NAME, Family
from halftone.library.recognise import Recognised

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
"""How files are listed that are no model of a family."""

_UNETS: Final = frozenset(
    family.name
    for family in (of.SD1, of.SD2, of.SDXL, of.REFINER, of.KOLORS, of.KANDINSKY2, of.KANDINSKY3, of.SVD, of.ANIMATE_DIFF)
)
_VOCABULARIES: Final = {
    of.CLIP_L: ("vocab.json", "merges.txt"),
    of.CLIP_G: ("vocab.json", "merges.txt"),
    of.CLIP_H: ("vocab.json", "merges.txt"),
    of.BERT: ("vocab.txt",),
    of.T5_XXL: ("spiece.model",),
    of.CHATGLM: ("tokenizer.model",),
}
"""Files of a tokenizer; every other text encoder has a tokenizer.json."""


def listed_as(found: Recognised) -> str:
    """The family, or the kind of a file that is no model of one."""
    if found.kind in ("checkpoint", "denoiser"):
        return found.family
    return found.family or "Unknown" if found.kind == "shard" else KIND_NAMES[found.kind]


def small_files(family: Family) -> tuple[str, ...]:
    """Files of configuration and vocabulary that a diffusers folder of the family has beside its weights."""
    denoiser = "unet" if family.name in _UNETS else "transformer"
    files = ["model_index.json", "scheduler/scheduler_config.json", f"{denoiser}/config.json", "vae/config.json"]
    for number, encoder in enumerate(family.encoders, 1):
        end = "" if number == 1 else f"_{number}"
        files.append(f"text_encoder{end}/config.json")
        files += [f"tokenizer{end}/{file}" for file in _VOCABULARIES.get(encoder, ("tokenizer.json",))]
    return tuple(files)


def why_not(found: Recognised) -> str:
    """Why this file alone makes no picture, for the end of a sentence. Of a checkpoint too, as most run only as a folder."""
    if found.split is not None:
        return f"it is file {found.split[0]} of {found.split[1]} of a divided model; only all of them together run, as a folder"
    if found.kind == "unknown":
        return "it is not clear what model it is"
    family = BY_NAME.get(found.family)
    if found.kind in ("checkpoint", "denoiser") and family:
        return _of_model(found, family)
    return _of_addition(found)


def _of_model(found: Recognised, family: Family) -> str:
    small = ", ".join(small_files(family))
    what = f"the denoiser of {found.base}" if found.kind == "denoiser" else found.base
    if found.quantised:
        what = f"{what}, quantised as {found.quantised}"
    if found.lacks:
        only = "only " if found.kind == "denoiser" else ""
        needed = ", ".join(_word(part) for part in found.lacks)
        return f"it holds {only}{what}; a run also needs {needed} and the small files {small}"
    return f"it holds {what}, which runs only as a diffusers folder; beside its weights it needs the small files {small}"


def _word(part: str) -> str:
    encoder = all(end not in part for end in ("VAE", "DC-AE", "Stage A", "MoVQ"))
    return f"the text encoder {part}" if encoder else f"the {part}"


def _of_addition(found: Recognised) -> str:
    name = KIND_NAMES[found.kind]
    if found.kind in ("VAE", "text encoder", "image encoder", "parts", "upscaler"):
        held = ", ".join(found.holds) or found.base
        return f"it is a {name} ({held}), not a whole model" if held not in ("", name) else f"it is a {name}, not a whole model"
    if found.family:
        return f"it is a {name} for {found.family}, not a whole model"
    return f"it is a {name}, not a whole model"
