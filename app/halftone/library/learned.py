"""What worked is remembered per model with what is used with it, device and precision: the plan that cured a picture starts the
next one.

It holds while the model's files, the device with its driver, PyTorch and the settings are what they were.
"""

import hashlib
import logging
from pathlib import Path
from typing import Final, get_args

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


class Learned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The plan that worked, and under what it did."""

    plan: Plan
    driver: str | None
    numerics: Numerics


_LEARNED: Final = msgspec.json.Decoder(Learned)


def _file(model: ModelFacts, device: DeviceFacts, dtype: DType, extras: Extras = ALONE) -> Path:
    """Another version of the model's files, another device or another PyTorch is another matter; so is what is used with it."""
    key = "\0".join((model.path, model.fingerprint, device.backend, device.name, device.torch_version, dtype))
    folder = data_dir() / "cures"
    folder.mkdir(parents=True, exist_ok=True)
    used = extras_key(extras)
    return folder / f"{_digest(key)}{f'-{_digest(used)}' if used else ''}.json"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:20]


def forget(model: ModelFacts, device: DeviceFacts) -> bool:
    """Start the next pictures of this model without what worked before, in every precision; whether there was any.

    Raises OSError.
    """
    found = False
    for dtype in get_args(DType):
        own = _file(model, device, dtype)
        for file in own.parent.glob(f"{own.stem}*.json"):  # with extras, too
            file.unlink(missing_ok=True)
            found = True
    return found


class _Exactness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Holds what a proof gave: the exponents of one component, None where its rescaling is not exact."""

    rescale: dict[str, int] | None


def recall_exactness(model: ModelFacts, device: DeviceFacts, dtype: DType, key: str) -> _Exactness | None:
    """Return what was proven of a rescaling under this key; None where nothing was, or it cannot be read."""
    try:
        return msgspec.json.decode(_exactness_file(model, device, dtype, key).read_bytes(), type=_Exactness)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        log.info("A proof of a rescaling is not used: %s", error)
        return None


def remember_exactness(model: ModelFacts, device: DeviceFacts, dtype: DType, key: str, rescale: dict[str, int] | None) -> None:
    """Keep what was proven. A full disk costs only the memory of it."""
    try:
        write_atomically(_exactness_file(model, device, dtype, key), msgspec.json.encode(_Exactness(rescale=rescale)))
    except OSError as error:
        log.info("A proof of a rescaling could not be remembered: %s", error)


def _exactness_file(model: ModelFacts, device: DeviceFacts, dtype: DType, key: str) -> Path:
    """Beside what else was learned of the model, so that `forget` removes it, too."""
    own = _file(model, device, dtype)
    return own.with_name(f"{own.stem}-exact-{_digest(key)}.json")


def recall(model: ModelFacts, device: DeviceFacts, dtype: DType, numerics: Numerics, extras: Extras = ALONE) -> Plan | None:
    """The plan that worked before with just these extras; None if none did, it cannot be read, or the driver or the settings are
    others now.
    """
    try:
        found = read_once(_file(model, device, dtype, extras), _LEARNED.decode)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        log.info("A remembered cure is left aside: %s", error)
        return None
    holds = same_driver(found.driver, device.driver) and changed_setting(found.numerics, numerics) is None
    return found.plan if holds else None


def remember(
    model: ModelFacts, device: DeviceFacts, dtype: DType, plan: Plan, numerics: Numerics, extras: Extras = ALONE
) -> bool:
    """Keep it for the next time. A full disk costs only the memory, not the picture: False then."""
    learned = Learned(plan=plan, driver=device.driver, numerics=numerics)
    try:
        write_atomically(_file(model, device, dtype, extras), msgspec.json.encode(learned))
    except OSError as error:
        log.info("The cure could not be remembered: %s", error)
        return False
    return True


class FoundGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names in the twin of a network, as `RescaleGroup` has them."""

    shrink: tuple[str, ...]
    grow: tuple[str, ...]
    modules: tuple[str, ...]
    epsilons: tuple[str, ...]


FoundGroups = dict[str, FoundGroup | None]
"""Module of the twin that was too large -> the group that scales it; None where there is none."""
_DECODER: Final = msgspec.json.Decoder(FoundGroups)


def recall_groups(architecture: str) -> FoundGroups:
    """What was found before; nothing where it cannot be read."""
    try:
        return read_once(_groups_file(architecture), _DECODER.decode)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        log.info("What was found of an architecture is left aside: %s", error)
        return {}


def remember_groups(architecture: str, found: FoundGroups) -> None:
    """Keep it for the next model that is built alike. A full disk costs only the memory of it."""
    try:
        file = _groups_file(architecture)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, msgspec.json.encode(found))
    except OSError as error:
        log.info("What was found of an architecture could not be remembered: %s", error)


def _groups_file(architecture: str) -> Path:
    return data_dir() / "architectures" / f"{hashlib.sha256(architecture.encode()).hexdigest()[:20]}.json"
