"""The options of `generate` for pictures that are made in more than one pass."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from halftone.cli.generate.prompt_options import option
from halftone.cli.options.flags import absolute
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import PictureFacts
from halftone.contract.request import LANCZOS, LATENT, Hires, Refiner, model_stem
from halftone.contract.wording import Words
from halftone.library.add_ons.upscalers import known_upscalers
from halftone.settings.store import Settings

_PANEL: Final = "Hires. fix (a second, larger pass)"

_REFINED: Final = "Refiner (SDXL)"

_NO_FOLDERS: Final = Settings()

Scale = Annotated[float | None, option("hires.scale", _PANEL, "SCALE")]
Upscaler = Annotated[
    str | None,
    typer.Option(
        "--hires-upscaler",
        metavar="NAME",
        rich_help_panel=_PANEL,
        help="latent (default), lanczos, or an upscale model: its .safetensors file, or its name in your folders.",
        show_default=False,
    ),
]
RefinerModel = Annotated[
    str | None,
    typer.Option(
        "--refiner",
        metavar="MODEL",
        rich_help_panel=_REFINED,
        help="An SDXL refiner for the last steps: its folder or .safetensors file. Both models stay in memory if they fit.",
        show_default=False,
    ),
]
RefinerAt = Annotated[float | None, option("refiner.at", _REFINED, "SHARE")]
RefinerBySteps = Annotated[
    bool,
    typer.Option(
        "--refiner-by-steps",
        rich_help_panel=_REFINED,
        help="Count --refiner-at in steps, as in ComfyUI. Default: in noise levels, as in A1111.",
    ),
]
Steps = Annotated[int | None, option("hires.steps", _PANEL)]
Strength = Annotated[float | None, option("hires.strength", _PANEL)]


def hires_of(
    scale: float | None, upscaler: str | None, steps: int | None, strength: float | None, saved: Settings = _NO_FOLDERS
) -> Hires | None:
    """The second pass that was asked for. Raises HalftoneError setting-bad-value where its scale is missing."""
    others = {"--hires-upscaler": upscaler, "--hires-steps": steps, "--hires-strength": strength}
    alone = next((name for name, value in others.items() if value is not None), None)
    if scale is None and alone is not None:
        raise HalftoneError(
            "setting-bad-value", name=alone, value=Words("given without --hires"), allowed=Words("--hires SCALE as well")
        )
    if scale is None:
        return None
    return Hires(scale=scale, upscaler=_upscaler(upscaler or LATENT, saved), steps=steps, strength=strength)


def refiner_of(model: str | None, at: float | None, *, by_steps: bool = False, saved: Settings = _NO_FOLDERS) -> Refiner | None:
    """The second model that was asked for: a path, or the name of one in the folders of the settings. Raises HalftoneError
    setting-bad-value where it is missing.
    """
    others = {"--refiner-at": at is not None, "--refiner-by-steps": by_steps}
    alone = next((name for name, given in others.items() if given), None)
    if model is None and alone is not None:
        value = Words("given without --refiner")
        raise HalftoneError("setting-bad-value", name=alone, value=value, allowed=Words("--refiner MODEL as well"))
    if model is None:
        return None
    from halftone.session.models.model_list import named_model

    path = absolute(model)
    if Path(model).name == model and not os.path.exists(path):
        path = named_model(model, saved.model_folders) or path
    return Refiner(path=path, by_steps=by_steps) if at is None else Refiner(path=path, at=at, by_steps=by_steps)


def _upscaler(text: str, saved: Settings) -> str:
    """A way, or a model."""
    return text.lower() if text.lower() in (LATENT, LANCZOS) and not os.path.exists(text) else upscaler_file(text, saved)


def upscaler_file(text: str, saved: Settings) -> str:
    """An upscale model: a file from anywhere, or the name of one in the folders of the settings."""
    path = absolute(text)
    named = Path(text).name == text
    return known_upscalers(saved).get(model_stem(text), path) if named and not os.path.exists(path) else path


def passes_words(picture: PictureFacts) -> str:
    """Describe the passes beside the size; "" for a picture made in one."""
    if len(picture.passes) < 2:
        return ""
    first, last = picture.passes[0], picture.passes[-1]
    if (first.width, first.height) == (last.width, last.height):
        return f" · {first.steps} + {last.steps} steps"
    return f" · upscaled from {first.width} × {first.height}, {first.steps} + {last.steps} steps"
