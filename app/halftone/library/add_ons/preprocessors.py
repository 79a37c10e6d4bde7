"""Preprocessors of control pictures: their numbers, and the folders of the models that they run."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

from halftone.contract.errors import HalftoneError
from halftone.contract.parameters import check_range
from halftone.contract.preprocessors import DEPTH, NONE, PREPROCESSORS, RESOLUTIONS
from halftone.contract.request import Control
from halftone.contract.wording import Words, either
from halftone.library.files.folder import read_json

_FILES: Final = ("config.json", "preprocessor_config.json", "model.safetensors")
_NEAR_IS_WHITE: Final = ("depth_anything", "dpt")
"""Kinds of models whose numbers grow towards the camera. Metric ones, such as ZoeDepth and Depth Pro, give distances."""
_RELATIVE: Final = "relative"


def check_preprocessors(controls: Iterable[Control]) -> None:
    """Raise HalftoneError setting-bad-value, value-out-of-range or preprocessor-model for what cannot be drawn."""
    for control in controls:
        name = control.preprocessor
        if name not in PREPROCESSORS:
            raise HalftoneError("setting-bad-value", name="--control", value=name, allowed=either(*PREPROCESSORS))
        for threshold, value in zip(PREPROCESSORS[name].thresholds, control.thresholds, strict=False):
            check_range(Words("{0} of the preprocessor {1}", (threshold.name, name)), value, (threshold.low, threshold.high))
        _check_numbers(control)
        if name == DEPTH:
            _check_depth(control.preprocessor_model or "")


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
    if control.preprocessor_model is not None and control.preprocessor != DEPTH:
        allowed = Words("no model: the preprocessor {0} needs none", (control.preprocessor,))
        raise HalftoneError("setting-bad-value", name="--control", value=control.preprocessor_model, allowed=allowed)


def _check_depth(folder: str) -> None:
    place = Path(folder)
    if not folder:
        allowed = Words("a folder with a depth model, for instance depth,model=FOLDER:PICTURE")
        raise HalftoneError("setting-bad-value", name="--control", value=DEPTH, allowed=allowed)
    lacking = [name for name in _FILES if not (place / name).is_file()]
    if lacking:
        raise HalftoneError("preprocessor-model", path=place.name, detail=Words("{0} is not there", (lacking[0],)))
    config = cast("dict[str, Any]", read_json(place / _FILES[0]) or {})
    kinds = cast("list[str]", config.get("architectures") or [])
    if not any(str(kind).endswith("ForDepthEstimation") for kind in kinds):
        raise HalftoneError("preprocessor-model", path=place.name, detail=Words("config.json names no depth model"))
    if config.get("model_type") not in _NEAR_IS_WHITE or config.get("depth_estimation_type", _RELATIVE) != _RELATIVE:
        detail = Words("it measures distances, so near would be black, while ControlNets read near as white")
        raise HalftoneError("preprocessor-model", path=place.name, detail=detail)
