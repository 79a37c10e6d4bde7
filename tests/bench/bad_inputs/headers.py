"""Headers of safetensors files: bytes and values changed by chance, and headers that are large, deep or odd."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.bench.bad_inputs.case import Case
from tests.helpers.mutations import MUTATIONS

from halftone.library.models import describe

_NUMBER: Final = 400
_FILE: Final = "model.safetensors"


def cases(rng: random.Random) -> Iterator[Case]:
    """Files whose headers changed by chance."""
    for index in range(_NUMBER):
        content = MUTATIONS[index % len(MUTATIONS)](rng)
        yield Case("headers", f"changed by chance {index}", _writing(content), (_described,))


def _writing(content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / _FILE).write_bytes(content)


def _described(folder: Path) -> None:
    describe(str(folder / _FILE))
