"""Model families: how they are recognised and what they are used to (size, steps, guidance, prompt length)."""

import re
from typing import Final

import msgspec


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """size: pixels of the edge it was trained on. tokens: prompt length its pipeline uses."""

    name: str
    size: int
    steps: int
    guidance: float
    tokens: int = 77


SD1: Final = Family(name="Stable Diffusion 1.x", size=512, steps=28, guidance=7.0)
SD2: Final = Family(name="Stable Diffusion 2.x", size=768, steps=28, guidance=7.0)
SDXL: Final = Family(name="SDXL", size=1024, steps=28, guidance=6.0)
SD3: Final = Family(name="SD 3", size=1024, steps=28, guidance=7.0, tokens=256)
SANA: Final = Family(name="Sana", size=1024, steps=20, guidance=4.5, tokens=300)
FLUX: Final = Family(name="FLUX", size=1024, steps=28, guidance=3.5, tokens=512)

FAMILIES: Final[tuple[Family, ...]] = (SD1, SD2, SDXL, SD3, SANA, FLUX)
"""Those that have a name of their own; any other is called as diffusers calls its pipeline."""

NOT_WHOLE: Final[tuple[str, ...]] = ("LoRA", "VAE", "ControlNet", "Embedding", "Text encoder", "Unknown")
"""Families of files that are described and listed but cannot make a picture alone."""

_PIPELINES: Final[tuple[tuple[str, Family], ...]] = (
    ("StableDiffusionXL", SDXL),
    ("StableDiffusion3", SD3),
    ("StableDiffusion", SD1),
    ("Sana", SANA),
    ("Flux", FLUX),
)

_PREFIXES: Final = r"(?:model\.diffusion_model\.|diffusion_model\.)?"
_KEYS: Final[tuple[tuple[str, str | Family], ...]] = (
    (r"(?:.*\.)?lora(?:_linear_layer)?[_.](?:up|down|A|B)\..*|lora_(?:unet|te\d?|transformer)_.*", "LoRA"),
    (r".*\.(?:hada_w1_a|lokr_w1)", "LoRA"),
    (r"(?:control_model\.|controlnet_|input_hint_block\.).*", "ControlNet"),
    (r"conditioner\.embedders\.1\..*", SDXL),
    (_PREFIXES + r"label_emb\.0\.0\.weight", SDXL),
    (_PREFIXES + r"joint_blocks\..*", SD3),
    (_PREFIXES + r"double_blocks\..*", FLUX),
    (r"cond_stage_model\.model\..*", SD2),
    (_PREFIXES + r"input_blocks\..*", SD1),
    (r"(?:first_stage_model\.)?decoder\.(?:conv_in|up_blocks|up)\..*", "VAE"),
    (r"(?:emb_params|clip_l|clip_g|string_to_param)", "Embedding"),
    (r"(?:text_model\.encoder|encoder\.block)\..*", "Text encoder"),
)
_COMPILED: Final = tuple((re.compile(pattern), family) for pattern, family in _KEYS)


def of_pipeline(pipeline: str, cross_attention: object) -> Family:
    """Family of a diffusers pipeline class; `cross_attention`: the UNet's width of the text, which tells SD 2.x from 1.x."""
    for start, family in _PIPELINES:
        if pipeline.startswith(start):
            return SD2 if family is SD1 and cross_attention == 1024 else family
    return Family(name=pipeline, size=512, steps=28, guidance=6.0)


def of_tensors(names: tuple[str, ...]) -> Family | str:
    """Family of a single file by the names of its tensors; a string for files that are no whole model."""
    for pattern, family in _COMPILED:
        if any(pattern.fullmatch(name) for name in names):
            return family
    return "Unknown"
