"""The command that reads what another trainer left of a run, and says what went wrong."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from halftone.cli.options import flags
from halftone.cli.terminal.control_characters import say
from halftone.contract.errors import HalftoneError

if TYPE_CHECKING:
    from halftone.library.run_logs.folder import Run

_EVERY: Final = 5.0
"""Seconds between two signs of life."""


def doctor(
    run: Annotated[str, typer.Argument(help="The folder that a trainer wrote into, or one of its logs.")],
    json: flags.Json = False,
) -> None:
    """Read logs and checkpoints of a training and say where it went wrong, and why.

    It reads Halftone's own runs and the output of kohya's scripts, diffusers, accelerate, transformers, Lightning, OneTrainer,
    ai-toolkit and others: plain text, TensorBoard, wandb, MLflow, CSV, JSON, .safetensors. Nothing is changed. Exit code:
    0 sound, 1 trouble was found, 2 nothing could be read.
    """
    read = read_place(run, quiet=json)
    from halftone.health.doctor.judge import diagnose

    found = diagnose(read)
    if found.verdict == "silent":
        raise HalftoneError("run-silent", path=run, files=read.files)
    if json:
        from halftone.cli.doctor.json_object import doctor_object
        from halftone.cli.reports.json_objects import put

        put(doctor_object(run, read, found))
    else:
        from halftone.cli.doctor.page import show_diagnosis

        show_diagnosis(read, found)
    raise typer.Exit(0 if found.verdict == "sound" else 1)


def read_place(place: str, *, quiet: bool) -> "Run":
    """What lies there.

    Raises HalftoneError run-missing, run-empty, run-pickles, run-silent.
    """
    from halftone.library.run_logs.folder import read_run

    path = Path(place)
    if not os.path.exists(path):
        raise HalftoneError("run-missing", path=place)
    try:
        read = read_run(path) if quiet else read_run(path, progress=_life())
    except OSError as error:
        raise HalftoneError("run-missing", path=place) from error
    if not read.files or (os.path.isfile(path) and not path.stat().st_size):
        raise HalftoneError("run-empty", path=place)
    if read.pickles and len(read.pickles) == read.files:
        raise HalftoneError("run-pickles", path=place)
    return read


def _life() -> Callable[[str, float, int], Any]:
    """Says on stderr now and then what is being read."""
    last = time.monotonic()

    def tell(name: str, done: float, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            share = f", {done % 1:.0%}" if done % 1 else ""
            say(f"Reading {name or 'checkpoints'}, {int(done) + 1} of {total}{share}", err=True)

    return tell
