"""Configurations of a model's parts with values that are missing, of a wrong type, huge, negative or no numbers."""

import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.bench.bad_inputs.case import Case
from tests.bench.bad_inputs.models import FAMILIES, Base, base

_EACH: Final = 26
"""Cases of each family."""
_LEFT_OUT: Final = object()
VALUES: Final[tuple[Any, ...]] = (
    _LEFT_OUT, None, "", "abc", True, False, -1, 0, 1, 2, 3, 5, 7, 1.5, -0.5, 10**6, 10**7, 10**9, 2**31, 2**63, 10**30, 10**400,
    math.nan, math.inf, -math.inf, 1e308, [], [0], [-1, 2], [1, 2, 3], ["abc"], [None], [[1], [2]], {}, {"a": 1}, "a" * 100_000,
    "\ud800", "../../etc/passwd", "8", "__import__('os')",
)  # fmt: skip
"""Values that stand where others belong. Python writes the infinite ones as `Infinity`, as other programs do."""
_NAMED: Final[tuple[tuple[str, str, str, Any], ...]] = tuple(
    (family, part, key, value)
    for family, part, key in (
        ("SD 1.x", "text_encoder", "num_hidden_layers"),
        ("SDXL", "text_encoder_2", "num_hidden_layers"),
        ("SD 3", "text_encoder_3", "num_layers"),
        ("SD 3", "transformer", "num_layers"),
        ("Sana", "text_encoder", "num_hidden_layers"),
        ("FLUX.1 dev", "transformer", "num_single_layers"),
        ("SD 1.x", "vae", "layers_per_block"),
        ("SD 1.x", "unet", "layers_per_block"),
        ("PixArt-α", "transformer", "num_layers"),
    )
    for value in (-1, 0, 10**7, 1, 3)
)
"""Numbers of layers that the weights do not have."""


def cases(rng: random.Random) -> Iterator[Case]:
    """First the numbers of layers, then values drawn for every family."""
    for family, part, key, value in _NAMED:
        own = base(family)
        there = read_config(own.folder / part / "config.json").get(key)
        wanted = "either" if there == value else "refused"
        yield own.case("configurations", f"{part}: {key}: {there} is {value}", _changed(part, key, value), wanted=wanted)
    for family in FAMILIES:
        own = base(family)
        for part, key, value in _drawn(own, rng):
            yield own.case("configurations", f"{part}: {key}: {shown(value)}", _changed(part, key, value))


def _drawn(own: Base, rng: random.Random) -> Iterator[tuple[str, str, Any]]:
    parts = sorted(file.parent.name for file in own.folder.glob("*/config.json"))
    for _ in range(_EACH):
        part = rng.choice(parts)
        keys = [key for key in read_config(own.folder / part / "config.json") if not key.startswith("_") or key == "_class_name"]
        yield part, rng.choice(keys), rng.choice(VALUES)


def read_config(file: Path) -> dict[str, Any]:
    """A JSON object."""
    return json.loads(file.read_text())


def shown(value: Any) -> str:
    """A value in a case's name."""
    text = "left out" if value is _LEFT_OUT else ascii(value) if not isinstance(value, int) or abs(value) < 10**40 else "10**400"
    return text if len(text) < 30 else f"{text[:20]}… ({len(text)} letters)"


def _changed(part: str, key: str, value: Any) -> Callable[[Path], None]:
    return lambda model: with_value(model / part / "config.json", key, value)


def with_value(file: Path, key: str, value: Any) -> None:
    """Write one value into a JSON file, or leave it out."""
    content = read_config(file)
    if value is _LEFT_OUT:
        content.pop(key, None)
    else:
        content[key] = value
    file.write_text(json.dumps(content))
