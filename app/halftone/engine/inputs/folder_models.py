"""Models of preprocessors, in folders of the user's in transformers' layout. They run on the CPU in float32, so that each device
is given the same drawing.
"""

from typing import Any, Final

import torch
from safetensors import SafetensorError

UNUSABLE: Final = (OSError, ValueError, KeyError, TypeError, RuntimeError, ImportError, SafetensorError)
"""What transformers raises where a folder holds something else than it names."""
LOCAL: Final[dict[str, Any]] = {"local_files_only": True, "trust_remote_code": False}


def loaded(kind: Any, folder: str) -> Any:
    """A model of one of transformers' automatic classes, or of its own class.

    Raises ValueError where the file lacks weights, which transformers would draw at random.
    """
    model, info = kind.from_pretrained(folder, **LOCAL, use_safetensors=True, dtype=torch.float32, output_loading_info=True)
    if lacking := sorted(info["missing_keys"]):
        raise ValueError(f"lacks {', '.join(lacking[:5])}")
    return model.eval()
