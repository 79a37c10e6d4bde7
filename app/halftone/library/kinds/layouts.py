"""How a denoiser is told from its tensors: a layout a family and way of naming, and the bases that differ within a family."""

from typing import Final

import msgspec

from halftone.library.families.family import Prediction

ORIGINAL: Final = "original"
"""Named as in the code of those who trained it, and in single files."""
DIFFUSERS: Final = "diffusers"


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """One model of a family, told by further marks. size, steps, guidance, prediction: where they differ from the family's.

    takes: what it needs beside a prompt: "picture", "mask", "low-resolution picture", "depth map" … alike: built as its family is
    and run in the same way, but for other inputs, steps or guidance.
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
