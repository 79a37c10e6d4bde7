"""ControlNets and IP-Adapters that a request asks for, in the words of A1111's extension (`alwayson_scripts.controlnet`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.limits import IP_ADAPTER_RANGE
from halftone.contract.parameters import check_range
from halftone.contract.preprocessors import PREPROCESSORS, RESOLUTIONS
from halftone.contract.request import Control, IpAdapter
from halftone.contract.wording import Words, either
from halftone.library.add_ons.controlnets import check_controls, kinds_in
from halftone.library.add_ons.controlnets import check_fit as check_controls_fit
from halftone.library.add_ons.ipadapters import check_files_fit, check_ip_adapters
from halftone.library.add_ons.preprocessors import check_preprocessors
from halftone.metadata.control_units import Unit, control_of, kind_of, not_followed, picture_in, unit_of
from halftone.serve.dialect import CONTROLNET

_ADAPTER: Final = "ip-adapter"
_NONE: Final = "none"
UNITS: Final = 10
"""As many ControlNets as the extension lets a user have."""
MODULES: Final = tuple(name for name, known in PREPROCESSORS.items() if not known.has_model)
"""Preprocessors that need no model, as that has no name there."""


class Asked(NamedTuple):
    """where: what its fields are called; sent: all of them."""

    where: str
    sent: Mapping[str, Any]
    unit: Unit


class Steered(NamedTuple):
    """left: fields that are not followed."""

    controls: tuple[Control, ...] = ()
    ip_adapters: tuple[IpAdapter, ...] = ()
    left: tuple[str, ...] = ()


def units_in(scripts: Mapping[str, Any]) -> tuple[Asked, ...]:
    """Those that are switched on. Raises msgspec.ValidationError, HalftoneError setting-bad-value for more than `UNITS`."""
    found: list[Asked] = []
    for script, given in scripts.items():
        if script.casefold() != CONTROLNET:
            continue
        for index, sent in enumerate(msgspec.convert(given, dict[str, list[dict[str, Any]]]).get("args", [])):
            unit = unit_of(sent)
            if unit.enabled:
                found.append(Asked(f"alwayson_scripts.{script}.args[{index}].", sent, unit))
    if len(found) > UNITS:
        allowed = Words("at most {0} ControlNets and IP-Adapters", (UNITS,))
        raise HalftoneError("setting-bad-value", name=f"alwayson_scripts.{CONTROLNET}", value=str(len(found)), allowed=allowed)
    return tuple(found)


def steered(
    units: Sequence[Asked],
    nets: Mapping[str, str],
    adapters: Mapping[str, str],
    written: Callable[[str, str], str],
    start: str | None,
) -> Steered:
    """What is asked for, as far as it is here. nets, adapters: name -> path; written: (field, base64) -> a file; start: the start
    picture, which stands for one that is not sent. Raises HalftoneError.
    """
    controls, ip_adapters, left = list[Control](), list[IpAdapter](), list[str]()
    for where, sent, unit in units:
        path = _path(unit, {**nets, **adapters}, where)
        image = written(f"{where}image", found) if (found := picture_in(sent.get("image", sent.get("input_image")))) else start
        if image is None:
            allowed = Words("a picture in base64")
            raise HalftoneError("setting-bad-value", name=f"{where}image", value=Words("none"), allowed=allowed)
        left += [where + name for name in not_followed(sent)]
        if path in adapters.values():
            ip_adapters.append(_adapter(unit, path, image, where))
            left += [where + name for name in _of_controls_alone(unit)]
        else:
            control = control_of(unit, path, image, where)
            controls.append(msgspec.structs.replace(control, kind=kind_of(unit) if kinds_in(path) else ""))
    return Steered(tuple(controls), tuple(ip_adapters), tuple(left))


def check_steered(found: Steered, model: ModelFacts) -> None:
    """Raise HalftoneError for what the model cannot use."""
    check_controls(found.controls)
    check_preprocessors(found.controls)
    check_controls_fit(found.controls, model)
    check_ip_adapters(found.ip_adapters)
    check_files_fit(found.ip_adapters, model)


def module_detail(name: str) -> dict[str, Any]:
    """The numbers of a preprocessor, as the extension lists them."""
    known = PREPROCESSORS[name]
    sliders: list[dict[str, Any]] = [
        {"name": str(one.name), "value": one.usual, "min": one.low, "max": one.high} for one in known.thresholds
    ]
    resolution = {"name": "Resolution", "value": 512, "min": RESOLUTIONS[0], "max": RESOLUTIONS[1]}
    return {"model_free": False, "sliders": [resolution, *sliders] if known.scaled else sliders}


def _path(unit: Unit, known: Mapping[str, str], where: str) -> str:
    wanted = _stem(unit.net)
    for name, path in known.items():
        if _stem(name) == wanted:
            return path
    usable = either(*known) if known else Words("a ControlNet in a model folder; there is none")
    raise HalftoneError("setting-bad-value", name=f"{where}model", value=unit.model, allowed=usable)


def _stem(name: str) -> str:
    last = name.replace("\\", "/").rpartition("/")[2].casefold()
    return last.removesuffix(".safetensors").removesuffix(".pth")


def _adapter(unit: Unit, path: str, image: str, where: str) -> IpAdapter:
    if not unit.module.startswith((_ADAPTER, _NONE)):
        raise HalftoneError(
            "setting-bad-value", name=f"{where}module", value=unit.module, allowed=Words("ip-adapter-auto for an IP-Adapter")
        )
    check_range(f"{where}weight", unit.weight, IP_ADAPTER_RANGE)
    return IpAdapter(path=path, images=(image,), scale=unit.weight)


def _of_controls_alone(unit: Unit) -> Iterator[str]:
    """What an IP-Adapter does not have: a part of the steps, and a control mode."""
    if unit.guidance_start > 0:
        yield "guidance_start"
    if unit.guidance_end < 1:
        yield "guidance_end"
    if unit.control_mode not in ("Balanced", 0):
        yield "control_mode"
