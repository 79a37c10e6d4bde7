"""Depth maps of control pictures, by a model of the user's in transformers' layout (Depth Anything, DPT)."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForDepthEstimation

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.folder_models import LOCAL, UNUSABLE, loaded
from halftone.engine.inputs.preprocessors import Pixels, at_resolution
from halftone.health.faults import is_out_of_memory


def depth_map(picture: Pixels, resolution: int, folder: str) -> Pixels:
    """White is near, black is far.

    Raises HalftoneError preprocessor-model.
    """
    shown = Image.fromarray(at_resolution(picture, resolution))
    try:
        with quiet_libraries(), torch.inference_mode():
            reader = AutoImageProcessor.from_pretrained(folder, **LOCAL)
            model = loaded(AutoModelForDepthEstimation, folder)
            given = reader(images=shown, return_tensors="pt")
            found = reader.post_process_depth_estimation(model(**given), [(shown.height, shown.width)])
    except UNUSABLE as error:
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
