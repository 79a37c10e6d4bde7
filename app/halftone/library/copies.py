"""Where a repaired copy of a model may be written. The original is never touched."""

import os
from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.settings.disk import free_bytes, size_text

_SUFFIX: Final = "-rescaled-fp16"


def check_copy(facts: ModelFacts, output: str) -> Path:
    """The path of the copy: a new or empty folder for a folder model, a new .safetensors file for a single file.

    An existing folder given for a single file gets the file `<name>-rescaled-fp16.safetensors` inside. Raises HalftoneError
    output-exists, output-bad-type, output-folder-missing, output-read-only or disk-full.
    """
    path = Path(output).expanduser().absolute()
    single = facts.format == "single-file"
    if single and os.path.isdir(path):
        path = path / f"{facts.name}{_SUFFIX}.safetensors"
    if single and path.suffix.lower() != ".safetensors":
        raise HalftoneError("output-bad-type", path=str(path), allowed=".safetensors")
    folder = path.parent
    if not os.path.isdir(folder):
        raise HalftoneError("output-folder-missing", folder=str(folder))
    if os.path.lexists(path) and not (not single and os.path.isdir(path) and not any(path.iterdir())):
        raise HalftoneError("output-exists", path=str(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise HalftoneError("output-read-only", folder=str(folder))
    if (free := free_bytes(folder)) < facts.size_bytes:
        raise HalftoneError("disk-full", need=size_text(facts.size_bytes), free=size_text(free), folder=str(folder))
    return path
