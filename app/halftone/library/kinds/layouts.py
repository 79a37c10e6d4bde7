"""Recognises a denoiser by its tensors: a layout for a family and way of naming, with its bases, by tensors or else by words."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from halftone.library.families import known_families as of
from halftone.library.families.known_families import Family, Prediction

ORIGINAL: Final = "original"
"""Names of the makers' code, and of single files."""
DIFFUSERS: Final = "diffusers"


class Base(msgspec.Struct, frozen=True):
    """One model of a family, by further marks. size, steps, guidance, prediction: where they differ from the family's. takes:
    inputs beside a prompt: "picture", "mask", "low-resolution picture", "depth map" … alike: built and run as its family, but for
    other inputs, steps or guidance.
    """

    name: str
    marks: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    size: int | None = None
    steps: int | None = None
    guidance: float | None = None
    prediction: Prediction | None = None
    takes: tuple[str, ...] = ()
    alike: bool = False


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A family's denoiser under one way of naming. marks: all must be there; without: none. bases: the first that fits holds."""

    family: str
    naming: str
    marks: tuple[str, ...]
    without: tuple[str, ...] = ()
    bases: tuple[Base, ...] = ()


def original(family: Family, *marks: str, without: tuple[str, ...] = (), bases: tuple[Base, ...] = ()) -> Layout:
    return Layout(family=family.name, naming=ORIGINAL, marks=marks, without=without, bases=bases)


def diffusers(family: Family, *marks: str, without: tuple[str, ...] = (), bases: tuple[Base, ...] = ()) -> Layout:
    return Layout(family=family.name, naming=DIFFUSERS, marks=marks, without=without, bases=bases)


_TITLES: Final = ("modelspec.title", "modelspec.architecture", "general.name", "general.basename", "general.finetune")
_SIGNS: Final = re.compile(r"[^a-z0-9.]+")

_SDXL: Final = (of.SDXL.name,)
_SD15: Final = (of.SD1.name,)
WAN_22_HIGH: Final = "Wan 2.2 14B (high noise)"
WAN_22_LOW: Final = "Wan 2.2 14B (low noise)"
"""The two denoisers of one model."""
_TITLED: Final[tuple[tuple[tuple[str, ...], str, Base], ...]] = (
    (("FLUX.1 dev",), r"\bkontext\b", Base("FLUX.1 Kontext", guidance=2.5, takes=("picture",))),
    (("FLUX.1 dev",), r"\bkrea\b", Base("FLUX.1 Krea", guidance=4.5)),
    (("FLUX.1 dev",), r"\b(?:hyper|turbo|8 ?step)", Base("FLUX.1 dev in 8 steps", steps=8)),
    (("FLUX.2 klein 4B",), r"\bbase\b", Base("FLUX.2 klein base 4B", steps=50, guidance=4.0)),
    (("FLUX.2 klein 9B",), r"\bbase\b", Base("FLUX.2 klein base 9B", steps=50, guidance=4.0)),
    (("SD 3.5 large",), r"\bturbo\b", Base("SD 3.5 large turbo", steps=4, guidance=0.0)),
    (_SDXL, r"\blightning\b", Base("SDXL Lightning", steps=4, guidance=1.0)),
    (_SDXL, r"\bturbo\b", Base("SDXL Turbo", size=512, steps=4, guidance=1.0)),
    (_SDXL, r"\bhyper\b", Base("SDXL Hyper", steps=8, guidance=1.0)),
    (_SDXL, r"\bdmd2?\b", Base("SDXL DMD2", steps=4, guidance=1.0)),
    (_SDXL, r"\blcm\b", Base("SDXL LCM", steps=6, guidance=1.5)),
    (_SD15, r"\b(?:sd )?turbo\b", Base("SD Turbo", size=512, steps=4, guidance=1.0)),
    (_SD15, r"\blcm\b", Base("Stable Diffusion 1.x LCM", steps=6, guidance=1.5)),
    (_SD15, r"\bhyper\b", Base("Stable Diffusion 1.x Hyper", steps=8, guidance=1.0)),
    ((of.SD2.name,), r"\bturbo\b", Base("SD Turbo", size=512, steps=4, guidance=1.0, prediction="epsilon")),
    ((of.Z_IMAGE.name,), r"\bturbo\b", Base("Z-Image Turbo", steps=9, guidance=0.0)),
    ((of.QWEN_IMAGE.name,), r"\bedit\b", Base("Qwen-Image Edit", takes=("picture",))),
    ((of.QWEN_IMAGE.name,), r"\blightning\b", Base("Qwen-Image Lightning", steps=8, guidance=1.0)),
    (("Wan 14B", of.WAN.name), r"\bhigh ?noise\b", Base(WAN_22_HIGH)),
    (("Wan 14B", of.WAN.name), r"\blow ?noise\b", Base(WAN_22_LOW)),
    (("Lumina 2",), r"\bneta\b", Base("Neta Lumina")),
)
"""(bases of which it may be one, words, the base)."""


def titled_base(base: str, metadata: Mapping[str, str], name: str) -> tuple[Base, bool] | None:
    """(the base in a title, whether the file itself has it; False: only its name, which anyone may change)."""
    title = _plain(" ".join(metadata.get(key, "") for key in _TITLES))
    for bases, words, titled in _TITLED:
        if base not in bases:
            continue
        for text, sure in ((title, True), (_plain(name), False)):
            if re.search(words, text):
                return msgspec.structs.replace(titled, alike=True), sure
    return None


def _plain(text: str) -> str:
    return _SIGNS.sub(" ", text.lower())
