"""Translates what extensions of A1111 and Forge write into pictures to the fields that Forge writes for the same, and back.

Sources: mcmonkeyprojects/sd-dynamic-thresholding, pamparamm/sd-perturbed-attention and ljleb/sd-webui-freeu, whose readers take
these fields from a picture. What has no equal here is left under its own name.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

Fields = dict[str, str]

_ON: Final = "True"
_THRESHOLDING: Final = "Dynamic thresholding enabled"
_FORGE_THRESHOLDING: Final = "dynthres_enabled"
_PERCENTILE: Final = "Threshold percentile"
_SEPARATE: Final = "Separate Feature Channels"
_CONSTANT: Final = "Constant"
_MODES: Final = ("Mimic mode", "CFG mode")
_OF_THRESHOLDING: Final = {
    "Mimic scale": "dynthres_mimic_scale",
    _SEPARATE: "dynthres_separate_feature_channels",
    "Scaling Startpoint": "dynthres_scaling_startpoint",
    "Variability Measure": "dynthres_variability_measure",
    "Interpolate Phi": "dynthres_interpolate_phi",
    _PERCENTILE: "dynthres_threshold_percentile",
    "Mimic mode": "dynthres_mimic_mode",
    "Mimic scale minimum": "dynthres_mimic_scale_min",
    "CFG mode": "dynthres_cfg_mode",
    "CFG scale minimum": "dynthres_cfg_scale_min",
    "Scheduler value": "dynthres_sched_val",
}
_UNSAID: Final = {
    "dynthres_mimic_mode": "Constant",
    "dynthres_cfg_mode": "Constant",
    "dynthres_mimic_scale_min": "0",
    "dynthres_cfg_scale_min": "0",
    "dynthres_sched_val": "1",
}
"""What the extension writes nothing about where the modes are constant."""
_CHANNELS: Final = {"True": "enable", "False": "disable"}
_PAG: Final = "pag_enabled"
_USUAL_PAG: Final = {
    "pag_rescale": 0.0,
    "pag_adaptive_scale": 0.0,
    "pag_block": "middle",
    "pag_block_id": 0.0,
    "pag_block_list": "",
    "pag_hr_override": "False",
    "pag_sigma_start": -1.0,
    "pag_sigma_end": -1.0,
}
"""Values that are no change of what PAG is here."""
_STAGES: Final = "FreeU Stages"
_SCHEDULE: Final = "FreeU Schedule"
_VERSION: Final = "FreeU Version"
_OF_FREEU: Final = ("freeu_b1", "freeu_s1", "freeu_b2", "freeu_s2")
_FACTORS: Final = ("backbone_factor", "skip_factor")
_TWO_STAGES: Final = 2


def from_extensions(fields: Mapping[str, str]) -> Fields:
    """The fields with those of extensions under Forge's names."""
    found = dict(fields)
    if found.get(_THRESHOLDING) == _ON:
        _take_thresholding(found)
    if found.get(_PAG) == _ON and "pag_scale" in found:
        _take_pag(found)
    if _STAGES in found:
        _take_freeu(found)
    return found


def for_extensions(fields: Mapping[str, str | None]) -> dict[str, str | None]:
    """The fields with what A1111's extensions read: thresholding in the place of Forge's, which no program reads, FreeU beside
    Forge's, which Forge reads.
    """
    found = dict(fields)
    if _FORGE_THRESHOLDING in found and all(found.get(name) in (None, usual) for name, usual in _UNSAID.items()):
        found = _thresholding(found)  # other modes follow the steps there, and the noise in Forge and here
    return {**found, **_freeu(found)}


def _take_thresholding(found: Fields) -> None:
    if any(found.get(mode, _CONSTANT) != _CONSTANT for mode in _MODES):
        return
    percent = _number(found.get(_PERCENTILE, "100"))
    if percent is None:
        return
    del found[_THRESHOLDING]
    found.pop(_PERCENTILE, None)
    if _SEPARATE in found:
        found[_SEPARATE] = _CHANNELS.get(found[_SEPARATE], found[_SEPARATE])
    named = {forge: found.pop(name) for name, forge in _OF_THRESHOLDING.items() if name in found}
    found |= {_FORGE_THRESHOLDING: _ON, **named, _OF_THRESHOLDING[_PERCENTILE]: repr(round(percent / 100, 12))}


def _thresholding(found: Mapping[str, str | None]) -> dict[str, str | None]:
    names = {forge: name for name, forge in _OF_THRESHOLDING.items()}
    said = {names.get(name, name): value for name, value in found.items() if name not in (_FORGE_THRESHOLDING, *_UNSAID)}
    percent = _number(said.get(_PERCENTILE) or "1")
    channels = said.get(_SEPARATE) or "enable"
    by_channel = {forge: own for own, forge in _CHANNELS.items()}
    return {
        **said,
        _THRESHOLDING: _ON,
        _PERCENTILE: None if percent is None else f"{round(percent * 100, 10):g}",
        _SEPARATE: by_channel.get(channels, channels),
    }


def _take_pag(found: Fields) -> None:
    """Rescaling, other blocks and other passes stay under their names."""
    del found[_PAG]
    for name, usual in _USUAL_PAG.items():
        if name in found and (found[name] == usual or _number(found[name]) == usual):
            del found[name]
    if "pag_rescale" not in found:
        found.pop("pag_rescale_mode", None)
    found |= {"pagi_enabled": _ON, "pagi_scale": found.pop("pag_scale")}


def _take_freeu(found: Fields) -> None:
    """Read two stages with both factors, at shares of the steps, without a smooth beginning and end."""
    span = [_number(part) for part in found.get(_SCHEDULE, "0.0, 1.0, 0.0").split(", ")]
    version = found.get(_VERSION, "1")
    factors = _factors(found[_STAGES])
    whole = [part for part in found.get(_SCHEDULE, "").split(", ")[:2] if part.isdigit() and part != "0"]  # numbers of steps
    if factors is None or version not in ("1", "2") or whole or len(span) != _TWO_STAGES + 1 or None in span or span[2]:
        return
    for name in (_STAGES, _SCHEDULE, _VERSION):
        found.pop(name, None)
    if "freeu_enabled" not in found:  # Halftone writes both
        found |= {"freeu_enabled": _ON, "FreeU version": f"V{version}", **dict(zip(_OF_FREEU, factors, strict=True))}
        found |= {"freeu_start": str(span[0]), "freeu_end": str(span[1])}


def _factors(text: str) -> list[str] | None:
    """b1, s1, b2 and s2; None for stages that are otherwise than here."""
    try:
        stages: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(stages, list) or not all(isinstance(one, dict) for one in cast("list[Any]", stages)):
        return None
    held = [cast("dict[str, Any]", one) for one in cast("list[Any]", stages)]
    numbers = [value for one in held for value in one.values()]
    if any(one.keys() - set(_FACTORS) for one in held[:_TWO_STAGES]) or any(held[_TWO_STAGES:]):
        return None
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in numbers):
        return None
    held += [{}] * (_TWO_STAGES - len(held))
    return [str(one.get(name, 1.0)) for one in held[:_TWO_STAGES] for name in _FACTORS]


def _freeu(found: Mapping[str, str | None]) -> dict[str, str | None]:
    version = found.get("FreeU version") or ""
    numbers = [_number(found.get(name) or "") for name in _OF_FREEU]
    if version not in ("V1", "V2") or None in numbers:
        return {}
    stages = [dict(zip(_FACTORS, numbers[place : place + 2], strict=True)) for place in (0, 2)]
    span = [_number(found.get(name) or "") for name in ("freeu_start", "freeu_end")]
    return {
        _STAGES: json.dumps(stages),
        _SCHEDULE: ", ".join(str(float(one)) for one in span if one is not None) + ", 0.0",
        _VERSION: version[1:],
    }


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
