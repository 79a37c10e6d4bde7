"""Poses of the people in control pictures, by a ViTPose model of the user's in transformers' layout."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForObjectDetection, VitPoseForPoseEstimation

from halftone.contract.errors import HalftoneError
from halftone.contract.preprocessors import POSE
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.folder_models import LOCAL, UNUSABLE, loaded
from halftone.engine.inputs.pose_drawing import drawn_poses, openpose_joints
from halftone.engine.inputs.preprocessors import Pixels, at_resolution
from halftone.health.faults import is_out_of_memory
from halftone.library.add_ons.preprocessors import DETECTOR, PERSON, has_detector

Box = tuple[float, float, float, float]
"""(left, top, width, height) in pixels."""
_SURE: Final = 0.3
"""The score from which a detector's box counts, as in transformers' guide to ViTPose."""
_BODY: Final = 0
"""Of ViTPose+, the expert for COCO's bodies."""


def pose_picture(picture: Pixels, resolution: int, folder: str, threshold: float) -> Pixels:
    """Draw the bodies as OpenPose does; hands and faces are not drawn. A detector beside the model finds the people, else the
    whole picture is one.

    Raises HalftoneError preprocessor-pose-model, and preprocessor-failed where there is nothing to draw.
    """
    shown = Image.fromarray(at_resolution(picture, resolution))
    whole: Box = (0.0, 0.0, float(shown.width), float(shown.height))
    boxes = _people(shown, str(Path(folder) / DETECTOR)) if has_detector(folder) else [whole]
    found = [openpose_joints(points, scores, threshold, shown.size) for points, scores in _keypoints(shown, boxes, folder)]
    if not any(joint for joints in found for joint in joints):
        raise _nothing(Words("no joint scores above {0}", (f"{threshold:g}",)))
    return drawn_poses(found, shown.size)


def _people(shown: Image.Image, folder: str) -> list[Box]:
    try:
        with quiet_libraries(), torch.inference_mode():
            reader = AutoImageProcessor.from_pretrained(folder, **LOCAL)
            model = loaded(AutoModelForObjectDetection, folder)
            seen = model(**reader(images=shown, return_tensors="pt"))
            [found] = reader.post_process_object_detection(seen, threshold=_SURE, target_sizes=[(shown.height, shown.width)])
    except UNUSABLE as error:
        if is_out_of_memory(error):
            raise
        raise _unusable(error, folder, Words("it cannot be loaded as a detector of objects")) from error
    names = {int(number): str(name).casefold() for number, name in model.config.id2label.items()}
    corners = [
        box for box, label in zip(found["boxes"].tolist(), found["labels"].tolist(), strict=True) if names.get(label) == PERSON
    ]
    boxes = [
        (left, top, right - left, bottom - top) for left, top, right, bottom in corners if right - left >= 1 and bottom - top >= 1
    ]
    if not boxes:
        raise _nothing(Words("the detector found no person"))
    return boxes


def _keypoints(shown: Image.Image, boxes: list[Box], folder: str) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Points (17, 2) in pixels and scores (17,) of each; one after the other, so that a crowd needs no more memory."""
    try:
        with quiet_libraries(), torch.inference_mode():
            reader = AutoImageProcessor.from_pretrained(folder, **LOCAL)
            model = loaded(VitPoseForPoseEstimation, folder)
            several = model.config.backbone_config.num_experts > 1
            experts = {"dataset_index": torch.tensor([_BODY])} if several else {}
            found: list[dict[str, Any]] = []
            for box in boxes:
                outputs = model(**reader(images=shown, boxes=[[box]], return_tensors="pt"), **experts)
                found += reader.post_process_pose_estimation(outputs, boxes=[[box]])[0]
    except UNUSABLE as error:
        if is_out_of_memory(error):
            raise
        raise _unusable(error, folder, Words("it cannot be loaded as a ViTPose model")) from error
    if any(not one["scores"].isfinite().all() for one in found):
        raise HalftoneError("preprocessor-pose-model", path=Path(folder).name, detail=Words("its scores hold NaN or infinity"))
    return [(np.asarray(one["keypoints"]), np.asarray(one["scores"])) for one in found]


def _unusable(error: Exception, folder: str, detail: Words) -> HalftoneError:
    place = Path(folder)
    shown = f"{place.parent.name}/{place.name}" if place.name == DETECTOR else place.name
    return HalftoneError("preprocessor-pose-model", str(error), path=shown or folder, detail=detail)


def _nothing(detail: Words) -> HalftoneError:
    """A black control picture would steer towards nobody."""
    return HalftoneError("preprocessor-failed", name=POSE, detail=detail)
