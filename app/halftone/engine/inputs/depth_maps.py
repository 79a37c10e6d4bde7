"""Depth and normal maps of control pictures, by a model of the user's in transformers' layout (Depth Anything, DPT)."""

from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForDepthEstimation

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.folder_models import LOCAL, UNUSABLE, loaded
from halftone.engine.inputs.preprocessors import Pixels, at_resolution
from halftone.health.faults import is_out_of_memory

Depth = NDArray[np.float32]
"""(height, width); it grows towards the camera."""
_TOWARDS: Final = 2 * np.pi
"""The part of a normal that points at the camera, before its length is made 1; slopes are in MiDaS's depth per pixel."""


def depth_map(picture: Pixels, resolution: int, folder: str) -> Pixels:
    """White is near, black is far. Raises HalftoneError preprocessor-model."""
    return np.repeat((_scaled(_depth(picture, resolution, folder)) * 255).astype(np.uint8)[:, :, None], 3, axis=2)


def normal_map(picture: Pixels, resolution: int, folder: str, background: float) -> Pixels:
    """Where surfaces face. background: the nearness, from 0 to 1, below which all counts as facing the camera.

    Raises HalftoneError preprocessor-model.
    """
    return normals_of(_depth(picture, resolution, folder), background)


def normals_of(depth: Depth, background: float) -> Pixels:
    """The slopes of a depth map of MiDaS's scale, as A1111's normal_midas and controlnet_aux draw them: red towards the camera,
    green down, blue right; the background faces the camera.
    """
    near = _scaled(depth) >= background
    slopes = [np.where(near, cv2.Sobel(depth, cv2.CV_32F, *order, ksize=3), np.float32(0)) for order in ((0, 1), (1, 0))]
    normals = np.stack([np.full_like(depth, _TOWARDS), *slopes], axis=2)
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    return (normals * 127.5 + 127.5).clip(0, 255).astype(np.uint8)


def _scaled(depth: Depth) -> Depth:
    """From 0 to 1; one that is flat lies at 0."""
    low, high = depth.min(), depth.max()
    return (depth - low) / (high - low) if high > low else np.zeros_like(depth)


def _depth(picture: Pixels, resolution: int, folder: str) -> Depth:
    shown = Image.fromarray(at_resolution(picture, resolution))
    try:
        with quiet_libraries(), torch.inference_mode():
            reader = AutoImageProcessor.from_pretrained(folder, **LOCAL)
            model = loaded(AutoModelForDepthEstimation, folder)
            given = reader(images=shown, return_tensors="pt")
            found: Any = reader.post_process_depth_estimation(model(**given), [(shown.height, shown.width)])
    except UNUSABLE as error:
        if is_out_of_memory(error):
            raise
        detail = Words("it cannot be loaded as a depth model")
        raise HalftoneError("preprocessor-model", str(error), path=Path(folder).name or folder, detail=detail) from error
    depth: Depth = found[0]["predicted_depth"].float().numpy()
    if not np.isfinite(depth).all():
        raise HalftoneError("preprocessor-model", path=Path(folder).name, detail=Words("its depth map holds NaN or infinity"))
    return depth
