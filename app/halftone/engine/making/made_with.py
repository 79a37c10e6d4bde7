"""What computed a picture: the device, and the libraries whose versions decide about its numbers."""

import platform
from functools import lru_cache

import diffusers
import torch
import transformers

from halftone.measure.devices import find_device


@lru_cache(maxsize=8)
def made_with(device: str) -> dict[str, str]:
    """device: as torch spells it. Not to be changed."""
    facts = find_device(device)
    known = {
        "device": facts.name,
        "backend": facts.backend,
        "driver": facts.driver or "",
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
    }
    return {name: str(value) for name, value in known.items() if value}
