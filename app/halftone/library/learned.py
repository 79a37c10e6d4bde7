"""Remembers what worked per model, add-ons, device and precision: the plan that cured a picture starts the next one. It holds
while the model's files, the device with its driver, PyTorch and the settings are the same.

Groups of layers that scale together belong to an architecture (a class and its configuration), so one model's check helps the
next one's. They are not trusted: each is proven with the weights that it is to scale.
"""

import hashlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, get_args

import msgspec

from halftone.contract.facts import DeviceFacts, ModelFacts
from halftone.contract.plan import Plan
from halftone.contract.request import ALONE, Extras, Numerics
from halftone.contract.vocabulary import DType
from halftone.library.add_ons.extras import extras_key
from halftone.library.records import changed_setting, same_driver
from halftone.settings.atomic import write_atomically
from halftone.settings.places import data_dir
from halftone.settings.regular_files import read_once

log = logging.getLogger(__name__)

_Kept = TypeVar("_Kept")


class Learned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The plan that worked, and its conditions."""

    plan: Plan
    driver: str | None
    numerics: Numerics


def _read(place: Callable[[], Path], kind: type[_Kept], what: str) -> _Kept | None:
    """The stored value; None where there is none, or it cannot be read."""
    try:
        return read_once(place(), _decoded, kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        log.info("%s is left aside: %s", what, error)
        return None


def _decoded(data: bytes, kind: type[_Kept]) -> _Kept:
    return msgspec.json.decode(data, type=kind)


def _keep(place: Callable[[], Path], content: object, what: str) -> bool:
    """Store a value; whether that was possible. A full disk costs only this memory, not the picture."""
    try:
        file = place()
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, msgspec.json.encode(content))
    except OSError as error:
        log.info("%s could not be remembered: %s", what, error)
        return False
    return True


def _file(model: ModelFacts, device: DeviceFacts, dtype: DType, extras: Extras = ALONE) -> Path:
    """The key holds the version of the model's files, the device, PyTorch and the add-ons."""
    key = "\0".join((model.path, model.fingerprint, device.backend, device.name, device.torch_version, dtype))
    folder = data_dir() / "cures"
    folder.mkdir(parents=True, exist_ok=True)
    used = extras_key(extras)
    return folder / f"{_digest(key)}{f'-{_digest(used)}' if used else ''}.json"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:20]


def forget(model: ModelFacts, device: DeviceFacts) -> bool:
    """Forget what worked for this model on this device, in every precision; whether there was any. Raises OSError."""
    found = False
    for dtype in get_args(DType):
        own = _file(model, device, dtype)
        for file in own.parent.glob(f"{own.stem}*.json"):  # with extras, too
            file.unlink(missing_ok=True)
            found = True
    return found


class _Exactness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The exponents of one component that a proof gave, None where its rescaling is not exact."""

    rescale: dict[str, int] | None


def recall_exactness(model: ModelFacts, device: DeviceFacts, dtype: DType, key: str) -> _Exactness | None:
    """The proof of a rescaling under this key; None where there is none, or it cannot be read."""
    return _read(partial(_exactness_file, model, device, dtype, key), _Exactness, "A proof of a rescaling")


def remember_exactness(model: ModelFacts, device: DeviceFacts, dtype: DType, key: str, rescale: dict[str, int] | None) -> None:
    """Store a proof, beside the model's cures, so that `forget` removes it, too."""
    _keep(partial(_exactness_file, model, device, dtype, key), _Exactness(rescale=rescale), "A proof of a rescaling")


def _exactness_file(model: ModelFacts, device: DeviceFacts, dtype: DType, key: str) -> Path:
    """Beside what else was learned of the model, so that `forget` removes it, too."""
    own = _file(model, device, dtype)
    return own.with_name(f"{own.stem}-exact-{_digest(key)}.json")


def recall(model: ModelFacts, device: DeviceFacts, dtype: DType, numerics: Numerics, extras: Extras = ALONE) -> Plan | None:
    """The plan that worked with just these extras; None without one, or with another driver or other settings now."""
    found = _read(partial(_file, model, device, dtype, extras), Learned, "A cure")
    holds = found and same_driver(found.driver, device.driver) and changed_setting(found.numerics, numerics) is None
    return found.plan if found and holds else None


def remember(
    model: ModelFacts, device: DeviceFacts, dtype: DType, plan: Plan, numerics: Numerics, extras: Extras = ALONE
) -> bool:
    """Store the plan; whether that was possible."""
    learned = Learned(plan=plan, driver=device.driver, numerics=numerics)
    return _keep(partial(_file, model, device, dtype, extras), learned, "A cure")


# --- of an architecture ------------------------------------------------------------------------------------


class FoundGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names in the twin of a network, as `RescaleGroup` has them."""

    shrink: tuple[str, ...]
    grow: tuple[str, ...]
    modules: tuple[str, ...]
    epsilons: tuple[str, ...]


FoundGroups = dict[str, FoundGroup | None]
"""Module of the twin that was too large -> the group that scales it; None where there is none."""


def recall_groups(architecture: str) -> FoundGroups:
    """What was found before; nothing where it cannot be read."""
    return _read(partial(_groups_file, architecture), FoundGroups, "What was found of an architecture") or {}


def remember_groups(architecture: str, found: FoundGroups) -> None:
    """Keep it for the next model that is built alike."""
    _keep(partial(_groups_file, architecture), found, "What was found of an architecture")


def _groups_file(architecture: str) -> Path:
    return data_dir() / "architectures" / f"{_digest(architecture)}.json"
