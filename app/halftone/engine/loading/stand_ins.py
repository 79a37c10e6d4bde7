"""Classes that models or pipelines look for and that the libraries moved, dropped, or tie to a package not used here."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import transformers

from halftone.engine.loading.qwen_processor import QwenProcessor
from halftone.library.files.folder import INDEX, read_json

_PACKAGE: Final = "torchvision"
_ONLY_WORDS: Final = ("PixtralProcessor",)
"""Readers of words and pictures that a pipeline asks for words alone, as their tokenizer reads them."""
_PICTURES_TOO: Final = ("Qwen2VLProcessor", "Qwen2_5_VLProcessor")
"""The parts that it asks for both."""


def put_stand_ins(folder: Path) -> None:
    """Provide the classes that the libraries would not find."""
    named = {value[1] for value in read_json(folder / INDEX).values() if isinstance(value, list) and len(value) == 2}
    if "PaellaVQModel" in named:
        _put_paella()
    if find_spec(_PACKAGE) is not None:
        return
    for kind in named.intersection(_ONLY_WORDS):
        setattr(transformers, kind, transformers.PreTrainedTokenizerFast)
    for kind in named.intersection(_PICTURES_TOO):
        setattr(transformers, kind, QwenProcessor)


def put_guidance(pipe: Any) -> None:
    """diffusers 0.42's inpainting with Chroma asks its denoiser whether it has a layer for the guidance; it has none."""
    if type(pipe).__name__.startswith("Chroma") and "guidance_embeds" not in pipe.transformer.config:
        pipe.transformer.register_to_config(guidance_embeds=False)


def _put_paella() -> None:
    """diffusers 0.42 looks for the VAE of Stable Cascade where it no longer keeps it: under the library, or its old folder."""
    import diffusers
    from diffusers.pipelines.deprecated import wuerstchen

    known: Any = diffusers
    known.PaellaVQModel = wuerstchen.PaellaVQModel
    known.pipelines.wuerstchen = wuerstchen
