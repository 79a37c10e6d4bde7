"""Where a repaired copy of a model may be written. The original is never touched."""

import os
from pathlib import Path

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.settings.disk import free_bytes, no_folder, size_text


def check_copy(facts: ModelFacts, output: str) -> Path:
    """The path of the copy: a new or empty folder.

    Raises HalftoneError output-exists, output-folder-missing, output-not-folder, output-read-only, output-failed or disk-full.
    """
    path = Path(output).expanduser().absolute()
    folder = path.parent
    if not os.path.isdir(folder):
        raise no_folder(folder)
    if os.path.lexists(path) and not (os.path.isdir(path) and not any(path.iterdir())):
        raise HalftoneError("output-exists", path=str(path))
    if path.resolve().is_relative_to(Path(facts.path).resolve()):
        raise HalftoneError("output-failed", path=str(path), detail="it lies inside the model's own folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise HalftoneError("output-read-only", folder=str(folder))
    if (free := free_bytes(folder)) < facts.size_bytes:
        raise HalftoneError("disk-full", need=size_text(facts.size_bytes), free=size_text(free), folder=str(folder))
    return path
