"""What was found of an architecture, on disk: which of its layers can be scaled together.

It is a property of a class and its configuration, not of a model's weights, so one model's check helps the next one's. Nothing in
it is trusted: each group is proven with the weights that it is to scale, and one that is damaged is looked for again.
"""

import hashlib
import logging
from pathlib import Path
from typing import Final

import msgspec

from halftone.settings.atomic import write_atomically
from halftone.settings.places import data_dir
from halftone.settings.regular_files import read_once

log = logging.getLogger(__name__)


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
        return read_once(_file(architecture), _DECODER.decode)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        log.info("What was found of an architecture is left aside: %s", error)
        return {}


def remember_groups(architecture: str, found: FoundGroups) -> None:
    """Keep it for the next model that is built alike. A full disk costs only the memory of it."""
    try:
        file = _file(architecture)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, msgspec.json.encode(found))
    except OSError as error:
        log.info("What was found of an architecture could not be remembered: %s", error)


def _file(architecture: str) -> Path:
    return data_dir() / "architectures" / f"{hashlib.sha256(architecture.encode()).hexdigest()[:20]}.json"
