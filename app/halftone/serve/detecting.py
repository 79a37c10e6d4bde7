"""What preprocessors draw of pictures that are sent: `/controlnet/detect` of A1111's extension.

Source: Mikubill/sd-webui-controlnet, scripts/api.py.
"""

import base64
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.preprocessors import NONE, PREPROCESSORS
from halftone.contract.request import Control
from halftone.contract.wording import Words
from halftone.metadata.control_units import Unit, control_of
from halftone.metadata.start_images import picture_size
from halftone.serve.answers import Json
from halftone.serve.dialect import decoded
from halftone.serve.sent_pictures import folder_of_requests, written
from halftone.session.pictures.control_preview import drawn_control


class Detect(msgspec.Struct, kw_only=True):
    """Numbers that are out of range count as left out, as there. low_vram: changes nothing here."""

    controlnet_module: str = NONE
    controlnet_input_images: list[str] = msgspec.field(default_factory=list[str])
    controlnet_processor_res: float = -1
    controlnet_threshold_a: float = -1
    controlnet_threshold_b: float = -1
    controlnet_masks: list[Any] = msgspec.field(default_factory=list[Any])
    low_vram: bool = False


def detected(body: bytes) -> Json:
    """The drawings as PNGs in base64. Raises HalftoneError, msgspec.ValidationError."""
    asked = decoded(body, Detect)
    if not asked.controlnet_input_images:
        allowed = Words("a picture in base64")
        raise HalftoneError("setting-bad-value", name="controlnet_input_images", value=Words("none"), allowed=allowed)
    unit = Unit(
        module=asked.controlnet_module,
        resize_mode=0,
        processor_res=asked.controlnet_processor_res,
        threshold_a=asked.controlnet_threshold_a,
        threshold_b=asked.controlnet_threshold_b,
    )
    images: list[str] = []
    with tempfile.TemporaryDirectory(dir=folder_of_requests()) as folder:
        for index, text in enumerate(asked.controlnet_input_images):
            path = written(folder, f"controlnet_input_images[{index}]", text)
            control = control_of(unit, "", str(path), "controlnet_")
            images.append(base64.b64encode(drawn_control(control, _size(path, control))).decode())
    unused = ["Not used: controlnet_masks."] if asked.controlnet_masks else []
    return {"info": "Success", "images": images, "warnings": unused}


def _size(path: Path, control: Control) -> tuple[int, int]:
    """(width, height) of the drawing: its shorter edge is the resolution, where the preprocessor has one."""
    width, height = picture_size(str(path))
    if not PREPROCESSORS[control.preprocessor].scaled or control.resolution is None:
        return width, height
    scale = control.resolution / min(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))
