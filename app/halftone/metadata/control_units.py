"""ControlNets in the words of A1111's extension: as its web API is sent them, and as it writes them into pictures.

Source: Mikubill/sd-webui-controlnet, internal_controlnet/args.py and scripts/enums.py.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.limits import CONTROL_RANGE
from halftone.contract.parameters import check_range
from halftone.contract.preprocessors import NONE, PREPROCESSORS, RESOLUTIONS
from halftone.contract.request import Control
from halftone.contract.vocabulary import ControlMode, Resize
from halftone.contract.wording import Words, either
from halftone.metadata.parameters import CONTROL_MODES, CONTROL_RESIZES

_RESIZES: Final[Mapping[str | int, Resize]] = {
    **{name: resize for resize, name in CONTROL_RESIZES.items()},
    **dict.fromkeys((0, 3), "stretch"),
    **dict.fromkeys(("Inner Fit (Scale to Fit)", "Scale to Fit (Inner Fit)", 1), "crop"),
    **dict.fromkeys(("Outer Fit (Shrink to Fit)", "Envelope (Outer Fit)", 2), "fill"),
}
_MODES: Final[Mapping[str | int, ControlMode]] = {
    **{name: mode for mode, name in CONTROL_MODES.items()},
    **dict(enumerate(CONTROL_MODES)),
}
_KINDS: Final = {
    "OpenPose": "openpose", "Depth": "depth", "Soft Edge": "scribble", "Hard Edge": "canny", "Normal Map": "normal",
    "Segmentation": "segment", "Tile": "tile", "Inpaint": "repaint",
}  # fmt: skip
"""What a Union calls its kinds there, in the order of their numbers."""
_WITH_A_FOLDER: Final = ("depth", "normal", "openpose")
"""In the extension's names of preprocessors that need a model here, or that are not here and draw more, such as hands."""
_FOLDER_NEEDED: Final = (
    "{0}; depth maps, normal maps and poses need a model's folder, which cannot be named here, so send a finished one with none"
)
_RESOLUTION: Final = 512
"""Where none is given, or one out of range."""
_NAME_LETTERS: Final = 400
"""No name is longer: file systems allow 255 bytes for a file."""
_HASH: Final = re.compile(r"(?<!\s)\s*\[[0-9a-fA-F]+\]$")
_ALIASES: Final = {"guidance": "guidance_end", "lowvram": "low_vram", "input_image": "image", "mask_image": "mask"}
_OF_NO_EFFECT: Final = (
    "is_ui", "low_vram", "save_detected_map", "output_dir", "batch_images", "loopback", "pulid_mode", "inpaint_crop_input_image",
)  # fmt: skip
"""Fields that do not change what a single unit draws, or belong to forms of it that are named by other fields."""
_Name = Annotated[str, msgspec.Meta(max_length=_NAME_LETTERS)]
_NEUTRAL: Final[Mapping[str, tuple[object, ...]]] = {
    "input_mode": ("simple",), "hr_option": ("Both", "both", 0, "HiResFixOption.BOTH"),
}  # fmt: skip


class Unit(msgspec.Struct, kw_only=True):
    """One ControlNet. Numbers that are out of range count as left out, as there."""

    enabled: bool = True
    module: _Name = NONE
    model: _Name = "None"
    weight: float = 1.0
    image: Any = None
    mask: Any = None
    resize_mode: str | int = "Crop and Resize"
    processor_res: float = -1
    threshold_a: float = -1
    threshold_b: float = -1
    guidance_start: float = 0.0
    guidance_end: float = 1.0
    pixel_perfect: bool = False
    control_mode: str | int = "Balanced"
    union_control_type: str | int = "Unknown"
    kind: str = ""
    """The same, as Halftone's own pictures have it."""

    @property
    def net(self) -> str:
        """The name of its file."""
        return without_hash(self.model)


def without_hash(name: str) -> str:
    """The name of a model, without the hash that A1111 writes behind it."""
    return _HASH.sub("", name)


def unit_of(sent: Mapping[str, Any]) -> Unit:
    """A unit as the API is sent it. Raises msgspec.ValidationError."""
    return msgspec.convert(
        {_ALIASES.get(name, name): value for name, value in sent.items() if value is not None}, Unit, strict=False
    )


def unit_in(line: str) -> Unit | None:
    """A unit as it stands in a picture; None where that is not one."""
    pairs = (item.partition(": ") for item in line.split(", "))
    fields = {name.strip().lower().replace(" ", "_"): value for name, _, value in pairs}
    try:
        unit = unit_of(fields)
    except msgspec.ValidationError:
        return None
    return unit if "model" in fields else None


def control_of(unit: Unit, path: str, image: str, where: str = "") -> Control:
    """The same here. where: how to name its fields. Raises HalftoneError value-out-of-range, setting-bad-value."""
    check_range(f"{where}weight", unit.weight, CONTROL_RANGE)
    name = unit.module.partition(" (")[0] if unit.module.endswith(")") else unit.module
    if name not in PREPROCESSORS or PREPROCESSORS[name].has_model:
        usable = either(*(known for known, row in PREPROCESSORS.items() if not row.has_model))
        if name in PREPROCESSORS or any(word in name for word in _WITH_A_FOLDER):
            usable = Words(_FOLDER_NEEDED, (usable,))
        raise HalftoneError("setting-bad-value", name=f"{where}module", value=unit.module, allowed=usable)
    if unit.resize_mode not in _RESIZES:
        usable = either(*CONTROL_RESIZES.values())
        raise HalftoneError("setting-bad-value", name=f"{where}resize_mode", value=str(unit.resize_mode), allowed=usable)
    if unit.control_mode not in _MODES:
        usable = either(*CONTROL_MODES.values())
        raise HalftoneError("setting-bad-value", name=f"{where}control_mode", value=str(unit.control_mode), allowed=usable)
    known = PREPROCESSORS[name]
    given = (unit.threshold_a, unit.threshold_b)
    numbers = [number if one.low <= number <= one.high else None for one, number in zip(known.thresholds, given, strict=False)]
    resolution = int(unit.processor_res) if RESOLUTIONS[0] <= unit.processor_res <= RESOLUTIONS[1] else _RESOLUTION
    return Control(
        path=path,
        image=image,
        scale=unit.weight,
        start=unit.guidance_start,
        end=unit.guidance_end,
        resize=_RESIZES[unit.resize_mode],
        mode=_MODES[unit.control_mode],
        preprocessor=name,
        threshold_a=next(iter(numbers), None),
        threshold_b=next(iter(numbers[1:]), None),
        resolution=None if unit.pixel_perfect or not known.scaled else resolution,
    )


def kind_of(unit: Unit) -> str:
    """The kind of its picture, for a ControlNet Union; "" where none is given, or one that is not here."""
    if unit.kind:
        return unit.kind
    given = unit.union_control_type
    names = list(_KINDS)
    if isinstance(given, int):
        return _KINDS[names[given]] if 0 <= given < len(names) else ""
    return _KINDS.get(given, "")


def not_followed(sent: Mapping[str, Any]) -> Iterator[str]:
    """Fields of a unit that would change the picture, and that are not here."""
    for name, value in sent.items():
        own = _ALIASES.get(name, name)
        if own in Unit.__struct_fields__:
            continue
        if own not in _OF_NO_EFFECT and value not in (None, "", 0, -1, False, [], {}) and value not in _NEUTRAL.get(own, ()):
            yield name
    if sent.get("mask") or sent.get("mask_image") or _mask_in(sent.get("image", sent.get("input_image"))):
        yield "mask"


def _mask_in(image: Any) -> bool:
    if isinstance(image, list) and image and isinstance(image[0], str):
        return len(image) > 1 and bool(image[1])
    one: Any = image[0] if isinstance(image, list) and image else image
    return isinstance(one, dict) and bool(one.get("mask"))


def picture_in(image: Any) -> str:
    """The picture of a unit, in base64: alone, with its mask in a list, or in an object; "" for none."""
    one: Any = image[0] if isinstance(image, list) and image else image
    found: Any = one.get("image") if isinstance(one, dict) else one
    return found if isinstance(found, str) else ""
