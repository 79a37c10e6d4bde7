"""Safetensors headers gone wrong, by chance: bytes, and values inside sound JSON."""

import json
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

import numpy as np
from tests.helpers.model_files import ramp, safetensors, with_header

from halftone.contract.errors import HalftoneError, remedy, sentence

GOOD: Final = safetensors(
    {"a.weight": ramp(2, 3), "b": np.zeros((), np.float32), "empty": np.zeros((0, 3), np.float16)}, {"format": "pt"}
)
_ODD: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 1, 2, 3, 12, 2**31, 2**63, 2**64, 10**400, 1.5, "", "F16", "F99", "\ud800", "a" * 5000, [], [0], [0, 4],
    [4, 0], [2**62, 2**62], [-1, 2], [[[[]]]], {}, {"dtype": "F16"}, {"a": {"b": {}}},
)  # fmt: skip


def bytes_changed(chance: random.Random) -> bytes:
    """One to four random cuts, insertions and changes."""
    content = bytearray(GOOD)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(content) + 1)
        match chance.randrange(5):
            case 0 if place < len(content):
                content[place] = chance.randrange(256)
            case 1:
                del content[place : place + chance.randrange(9)]
            case 2:
                content[place:place] = bytes(chance.choice(b'0123456789[]{},":-.eE\\ \xff') for _ in range(chance.randrange(6)))
            case 3 if chance.random() < 0.3:
                del content[place:]
            case _:
                content[place : place + 1] = b"99999999999999999999"
    return bytes(content)


def values_changed(chance: random.Random) -> bytes:
    """Sound JSON in which one to three values are not what they should be, or stand under another name."""
    length = int.from_bytes(GOOD[:8], "little")
    header: dict[str, Any] = json.loads(GOOD[8 : 8 + length])
    for _ in range(chance.randint(1, 3)):
        name = chance.choice([*header, "new", "__metadata__"])
        entry = header.get(name)
        if isinstance(entry, dict) and entry and chance.random() < 0.8:
            entry[chance.choice([*entry, "extra"])] = deepcopy(chance.choice(_ODD))
        else:
            header[name] = deepcopy(chance.choice(_ODD))
    return with_header(json.dumps(header).encode(), GOOD[8 + length :])


MUTATIONS: Final[tuple[Callable[[random.Random], bytes], ...]] = (bytes_changed, values_changed)


def is_clear(error: HalftoneError) -> bool:
    """One printable sentence of moderate length, and what can be done."""
    said = sentence(error.as_facts())
    return said.isprintable() and said.endswith(".") and len(said) < 400 and bool(remedy(error.as_facts()))
