"""Warnings of the libraries about their own code, which no user of Halftone can do anything about."""

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_KNOWN: Final = (
    (r"__array__ implementation doesn't accept a copy keyword", DeprecationWarning),  # diffusers' schedulers with numpy 2
    (r"`callback_steps` is deprecated", FutureWarning),  # diffusers' combined pipelines, which hand it on to those inside
    (r"`torch\.jit\.script` is deprecated", DeprecationWarning),  # diffusers' Kolors, imported with the other pipelines
)


@contextmanager
def quiet_libraries() -> Generator[None]:
    """Leave out exactly these warnings while the block runs; every other one is shown."""
    with warnings.catch_warnings():
        for message, kind in _KNOWN:
            warnings.filterwarnings("ignore", message=message, category=kind)
        yield
