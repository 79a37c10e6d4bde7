"""Preprocessors of control pictures: their numbers, and the folders of the models that they run."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import HalftoneError
from halftone.contract.parameters import check_range
from halftone.contract.preprocessors import DEPTH, NONE, NORMAL, POSE, PREPROCESSORS, RESOLUTIONS
from halftone.contract.request import Control
from halftone.contract.wording import Words, either
from halftone.library.files.folder import read_json

_FILES: Final = ("config.json", "preprocessor_config.json", "model.safetensors")
_NEAR_IS_WHITE: Final = ("depth_anything", "dpt")
"""Kinds of models whose numbers grow towards the camera. Metric ones, such as ZoeDepth and Depth Pro, give distances."""
_RELATIVE: Final = "relative"
_OF_MIDAS: Final = "dpt"
"""The kind of models in whose scale A1111's normal_midas measures slopes."""
DETECTOR: Final = "detector"
"""The subfolder of a pose model's folder where a detector of people may lie."""
PERSON: Final = "person"
"""The label of what a detector has to find."""
_POSE: Final[ErrorCode] = "preprocessor-pose-model"
_POSE_MODEL: Final = "VitPoseForPoseEstimation"
_KEYPOINTS: Final = 17
"""COCO's keypoints of a body."""


def check_preprocessors(controls: Iterable[Control]) -> None:
    """Raise HalftoneError setting-bad-value, value-out-of-range or preprocessor-model or preprocessor-pose-model for
    what cannot be drawn.
    """
    for control in controls:
        name = control.preprocessor
        if name not in PREPROCESSORS:
            raise HalftoneError("setting-bad-value", name="--control", value=name, allowed=either(*PREPROCESSORS))
        for threshold, value in zip(PREPROCESSORS[name].thresholds, control.thresholds, strict=False):
            check_range(Words("{0} of the preprocessor {1}", (threshold.name, name)), value, (threshold.low, threshold.high))
        _check_numbers(control)
        if name in (DEPTH, NORMAL):
            _check_depth(name, control.preprocessor_model or "")
        if name == POSE:
            _check_pose(control.preprocessor_model or "")


def _check_numbers(control: Control) -> None:
    """Refuse numbers that the preprocessor does not have, so that none is dropped without a word."""
    known = PREPROCESSORS[control.preprocessor]
    given = (control.threshold_a, control.threshold_b)
    if any(value is not None for value in given[len(known.thresholds) :]):
        allowed = Words("at most {0} numbers for the preprocessor {1}", (len(known.thresholds), control.preprocessor))
        raise HalftoneError("setting-bad-value", name="--control", value=str(given), allowed=allowed)
    if control.resolution is not None:
        check_range(Words("The resolution of the preprocessor {0}", (control.preprocessor,)), control.resolution, RESOLUTIONS)
        if not known.scaled and control.preprocessor != NONE:
            allowed = Words("no resolution: the preprocessor {0} works at the picture's own", (control.preprocessor,))
            raise HalftoneError("setting-bad-value", name="--control", value=f"res={control.resolution}", allowed=allowed)
    if control.preprocessor_model is not None and not known.has_model:
        allowed = Words("no model: the preprocessor {0} needs none", (control.preprocessor,))
        raise HalftoneError("setting-bad-value", name="--control", value=control.preprocessor_model, allowed=allowed)


def _check_depth(name: str, folder: str) -> None:
    place = Path(folder)
    if not folder:
        allowed = Words("a folder with a depth model, for instance {0},model=FOLDER:PICTURE", (name,))
        raise HalftoneError("setting-bad-value", name="--control", value=name, allowed=allowed)
    config = _config(place, "preprocessor-model")
    if not any(kind.endswith("ForDepthEstimation") for kind in _architectures(config)):
        raise HalftoneError("preprocessor-model", path=place.name, detail=Words("config.json names no depth model"))
    if config.get("model_type") not in _NEAR_IS_WHITE or config.get("depth_estimation_type", _RELATIVE) != _RELATIVE:
        detail = Words("it measures distances, so near would be black, while ControlNets read near as white")
        raise HalftoneError("preprocessor-model", path=place.name, detail=detail)
    if name == NORMAL and config["model_type"] != _OF_MIDAS:
        detail = Words("a normal map needs a DPT model of MiDaS, as its slopes are measured in the scale of MiDaS")
        raise HalftoneError("preprocessor-model", path=place.name, detail=detail)


def _check_pose(folder: str) -> None:
    """Check the pose model, and the detector where there is one."""
    place = Path(folder)
    if not folder:
        allowed = Words("a folder with a pose model, for instance pose,model=FOLDER:PICTURE")
        raise HalftoneError("setting-bad-value", name="--control", value=POSE, allowed=allowed)
    config = _config(place, _POSE)
    if _POSE_MODEL not in _architectures(config):
        raise HalftoneError(_POSE, path=place.name, detail=Words("config.json names no ViTPose model"))
    if (count := len(_labels(config))) != _KEYPOINTS:
        detail = Words("it finds {0} keypoints, and Halftone draws the {1} of a body in COCO", (str(count), str(_KEYPOINTS)))
        raise HalftoneError(_POSE, path=place.name, detail=detail)
    if has_detector(folder):
        _check_detector(place / DETECTOR)


def has_detector(folder: str) -> bool:
    """Whether a detector of people lies beside a pose model."""
    return (Path(folder) / DETECTOR).is_dir()


def _check_detector(place: Path) -> None:
    config = _config(place, _POSE)
    shown = f"{place.parent.name}/{place.name}"
    if not any(kind.endswith("ForObjectDetection") for kind in _architectures(config)):
        raise HalftoneError(_POSE, path=shown, detail=Words("config.json names no detector of objects"))
    if PERSON not in (str(label).casefold() for label in _labels(config).values()):
        raise HalftoneError(_POSE, path=shown, detail=Words("none of its labels is person"))


def _config(place: Path, code: ErrorCode) -> dict[str, Any]:
    """Raises HalftoneError with this code where a file is not there."""
    lacking = [name for name in _FILES if not (place / name).is_file()]
    if lacking:
        shown = f"{place.parent.name}/{place.name}" if place.name == DETECTOR else place.name
        raise HalftoneError(code, path=shown, detail=Words("{0} is not there", (lacking[0],)))
    return cast("dict[str, Any]", read_json(place / _FILES[0]) or {})


def _architectures(config: dict[str, Any]) -> list[str]:
    found = config.get("architectures")
    return [str(kind) for kind in cast("list[object]", found)] if isinstance(found, list) else []


def _labels(config: dict[str, Any]) -> dict[str, Any]:
    found = config.get("id2label")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
