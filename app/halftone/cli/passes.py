"""The options of `generate` for pictures that are made in more than one pass."""

from pathlib import Path
from typing import Annotated, Final

import typer

from halftone.cli.flags import absolute
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import PictureFacts
from halftone.contract.request import LANCZOS, LATENT, Hires, model_stem
from halftone.library.upscalers import known_upscalers
from halftone.settings.store import Settings

_PANEL: Final = "In two passes (the second one larger, as A1111's Hires. fix)"

_NO_FOLDERS: Final = Settings()

Scale = Annotated[
    float | None,
    typer.Option(
        "--hires",
        metavar="SCALE",
        rich_help_panel=_PANEL,
        help="By how much the second pass is larger: 1.5, 2 …",
        show_default=False,
    ),
]
Upscaler = Annotated[
    str | None,
    typer.Option(
        "--hires-upscaler",
        metavar="NAME",
        rich_help_panel=_PANEL,
        help="latent (left out: this), lanczos, or an upscale model: its .safetensors file, or its name in your folders.",
        show_default=False,
    ),
]
Steps = Annotated[
    int | None,
    typer.Option("--hires-steps", rich_help_panel=_PANEL, help="Left out: as many as the first pass.", show_default=False),
]
Strength = Annotated[
    float | None,
    typer.Option(
        "--hires-strength",
        "--denoising-strength",
        rich_help_panel=_PANEL,
        help="How much is drawn anew, from 0 to 1. Left out: 0.7 with latent, else 0.4.",
        show_default=False,
    ),
]


def hires_of(
    scale: float | None, upscaler: str | None, steps: int | None, strength: float | None, saved: Settings = _NO_FOLDERS
) -> Hires | None:
    """The second pass that was asked for. Raises HalftoneError setting-bad-value where its scale is missing."""
    others = {"--hires-upscaler": upscaler, "--hires-steps": steps, "--hires-strength": strength}
    given = next((name for name, value in others.items() if value is not None), None)
    if scale is None and given is not None:
        raise HalftoneError("setting-bad-value", name=given, value="given without --hires", allowed="--hires SCALE as well")
    if scale is None:
        return None
    return Hires(scale=scale, upscaler=_upscaler(upscaler or LATENT, saved), steps=steps, strength=strength)


def _upscaler(text: str, saved: Settings) -> str:
    """A way, or a model."""
    return text.lower() if text.lower() in (LATENT, LANCZOS) and not Path(text).exists() else upscaler_file(text, saved)


def upscaler_file(text: str, saved: Settings) -> str:
    """An upscale model: a file from anywhere, or the name of one in the folders of the settings."""
    path = absolute(text)
    named = Path(text).name == text
    return known_upscalers(saved).get(model_stem(text), path) if named and not Path(path).exists() else path


def passes_words(picture: PictureFacts) -> str:
    """What is to be said of the passes beside the size; "" for a picture made in one."""
    if len(picture.passes) < 2:
        return ""
    first, last = picture.passes[0], picture.passes[-1]
    return f" · made larger from {first.width} × {first.height}, {first.steps} + {last.steps} steps"
