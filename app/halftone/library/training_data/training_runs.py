"""Runs that can be resumed: trainings with a saved state that never came to their last step."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.training import TrainConfig
from halftone.library.files.header import read_header
from halftone.settings.folders import is_claimed
from halftone.settings.regular_files import read_json_bytes

_RUN: Final = "run.json"
_STATE: Final = "state.safetensors"
_NOTE: Final = "halftone.training"
"""The trainer's names."""
RUNNING: Final = ".running"
"""A file in the folder of a run that is claimed while it runs."""


@dataclass(frozen=True)
class BrokenRun:
    """step: of the last save; kept: it was stopped, and has its LoRA."""

    folder: str
    config: TrainConfig
    step: int
    kept: bool = False


class _Run(msgspec.Struct, frozen=True):
    config: TrainConfig
    file: str


class _Note(msgspec.Struct, frozen=True):
    step: int


def unfinished(output: str) -> tuple[BrokenRun, ...]:
    """Unfinished runs in a folder of LoRAs, the newest first, without unreadable and running ones."""
    try:
        folders = [path.parent for path in Path(output).expanduser().glob(f"*/{_STATE}")]
    except OSError:
        return ()
    found = [run for run in (_read(folder) for folder in folders) if run is not None]

    def written(run: BrokenRun) -> float:
        with suppress(OSError):
            return (Path(run.folder) / _STATE).stat().st_mtime
        return 0.0

    return tuple(sorted(found, key=written, reverse=True))


def broken_off(output: str) -> tuple[BrokenRun, ...]:
    """Unfinished runs that nobody stopped."""
    return tuple(run for run in unfinished(output) if not run.kept)


def finished(folder: str, steps: int) -> str:
    """The LoRA of a run that made all of so many steps; "" where steps are left, or something of it is missing."""
    lora = Path(f"{folder}.safetensors")
    try:
        note = msgspec.json.decode(read_header(Path(folder) / _STATE).metadata[_NOTE], type=_Note)
    except (OSError, KeyError, msgspec.MsgspecError, HalftoneError):
        return ""
    return str(lora) if note.step == steps and os.path.exists(lora) else ""


def config_in(folder: str) -> TrainConfig:
    """The settings of a run. Raises HalftoneError train-no-run, and train-state-unreadable for a damaged one."""
    path = Path(folder) / _RUN
    try:
        return msgspec.json.decode(read_json_bytes(path), type=_Run).config
    except OSError as error:
        raise HalftoneError("train-no-run", str(error), folder=folder) from error
    except msgspec.MsgspecError as error:
        raise HalftoneError("train-state-unreadable", str(error), path=str(path)) from error


def _read(folder: Path) -> BrokenRun | None:
    try:
        run = msgspec.json.decode(read_json_bytes(folder / _RUN), type=_Run)
        note = msgspec.json.decode(read_header(folder / _STATE).metadata[_NOTE], type=_Note)
    except (OSError, KeyError, msgspec.MsgspecError, HalftoneError):
        return None
    if not 0 < note.step < run.config.steps or is_claimed(folder / RUNNING):
        return None
    return BrokenRun(str(folder), run.config, note.step, kept=os.path.exists(folder.parent / run.file))
