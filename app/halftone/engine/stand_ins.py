"""What a model's folder or a pipeline looks for that the libraries have elsewhere by now, not at all, or only with a package that
Halftone goes without.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from halftone.contract.errors import HalftoneError
from halftone.library.folder import INDEX, read_json

_PACKAGE: Final = "torchvision"
_ONLY_WORDS: Final = ("PixtralProcessor",)
"""Readers of words and pictures that a pipeline asks for words alone, as their tokenizer reads them."""
_PICTURES_TOO: Final = ("Qwen2VLProcessor", "Qwen2_5_VLProcessor", "Qwen3VLProcessor")
"""Those that it asks for both."""


def put_stand_ins(folder: Path) -> None:
    """Give the libraries the classes that they would not find. Raises model-cannot-run for one that nothing stands in for."""
    named = {name: value[1] for name, value in read_json(folder / INDEX).items() if isinstance(value, list) and len(value) == 2}
    if "PaellaVQModel" in named.values():
        _put_paella()
    if find_spec(_PACKAGE) is not None:
        return
    import transformers

    for name, kind in named.items():
        if kind in _PICTURES_TOO:
            detail = f"its {name} ({kind}) needs {_PACKAGE}, which is no part of Halftone"
            raise HalftoneError("model-cannot-run", path=str(folder), detail=detail)
        if kind in _ONLY_WORDS:
            setattr(transformers, kind, transformers.PreTrainedTokenizerFast)


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
