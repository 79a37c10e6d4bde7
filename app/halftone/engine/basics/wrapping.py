"""Replaces methods of live objects for the length of a block, and puts back what was there."""

import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

import halftone

_ABSENT = object()
_OURS: Final = Path(halftone.__file__).parent
_STAND_INS: Final = frozenset(("wide_kernels.py", "packed.py", "borders.py"))
"""Files whose functions run in the place of torch's own: what fails there would fail in torch on another processor."""


def raised_in(error: BaseException) -> Path | None:
    """The file in which an error was raised, passing over Halftone's own stand-ins for functions of torch."""
    files = [Path(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((file for file in reversed(files) if not (file.name in _STAND_INS and _OURS in file.parents)), None)


def is_ours(file: Path) -> bool:
    """Whether a file is Halftone's."""
    return _OURS in file.parents


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Generator[None]:
    """owner.name becomes make(the present owner.name), signature and all; afterwards the instance is as before."""
    before = owner.__dict__.get(name, _ABSENT)
    original = getattr(owner, name)
    owner.__dict__[name] = wraps(original)(make(original))
    try:
        yield
    finally:
        if before is _ABSENT:
            owner.__dict__.pop(name, None)
        else:
            owner.__dict__[name] = before
