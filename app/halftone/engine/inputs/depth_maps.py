"""Depth maps of control pictures, by a model of the user's in transformers' layout (Depth Anything, DPT)."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError
from transformers import AutoImageProcessor, AutoModelForDepthEstimation

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.preprocessors import Pixels, at_resolution
from halftone.health.faults import is_out_of_memory


def depth_map(picture: Pixels, resolution: int, folder: str) -> Pixels:
    """White is near, black is far. It runs on the CPU in float32, so that each device is given the same map.

    Raises HalftoneError preprocessor-model.
    """
    shown = Image.fromarray(at_resolution(picture, resolution))
    try:
        with quiet_libraries(), torch.inference_mode():
            reader = AutoImageProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            model = _model(folder)
            given = reader(images=shown, return_tensors="pt")
            found = reader.post_process_depth_estimation(model(**given), [(shown.height, shown.width)])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise
        detail = Words("it cannot be loaded as a depth model")
        raise HalftoneError("preprocessor-model", str(error), path=Path(folder).name or folder, detail=detail) from error
    depth = found[0]["predicted_depth"].float().numpy()
    low, high = float(depth.min()), float(depth.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise HalftoneError("preprocessor-model", path=Path(folder).name, detail=Words("its depth map holds NaN or infinity"))
    scaled = (depth - depth.min()) / (depth.max() - depth.min()) if high > low else np.zeros_like(depth)
    return np.repeat((scaled * 255).astype(np.uint8)[:, :, None], 3, axis=2)


def _model(folder: str) -> Any:
    """Raises ValueError where the file lacks weights, which transformers would draw at random."""
    model, told = AutoModelForDepthEstimation.from_pretrained(
        folder,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        dtype=torch.float32,
        output_loading_info=True,
    )
    if lacking := sorted(told["missing_keys"]):
        raise ValueError(f"lacks {', '.join(lacking[:5])}")
    return model.eval()
