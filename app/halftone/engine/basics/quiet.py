"""Warnings of the libraries about their own code, which no user of Halftone can do anything about."""

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_KNOWN: Final = (
    (r"__array__ implementation doesn't accept a copy keyword", DeprecationWarning),  # diffusers' schedulers with numpy 2
    (r"__array_wrap__ must accept context", DeprecationWarning),  # the same, those of DPM2
    (r"`callback_steps` is deprecated", FutureWarning),  # diffusers' combined pipelines, which hand it on to those inside
    (r"`torch\.jit\.script` is deprecated", DeprecationWarning),  # diffusers' Kolors, imported with the other pipelines
    (r"`estimate` is deprecated since version", FutureWarning),  # scikit-image, of how insightface turns a face upright
)


_LOADERS: Final = ("diffusers", "transformers", "peft")


@contextmanager
def silent_loaders() -> Generator[None]:
    """What the libraries log while they read a file is left out: the caller says in its own words how that ended."""
    loggers = [logging.getLogger(name) for name in _LOADERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def quiet_libraries() -> Generator[None]:
    """Leave out exactly these warnings while the block runs; every other one is shown."""
    with warnings.catch_warnings():
        for message, kind in _KNOWN:
            warnings.filterwarnings("ignore", message=message, category=kind)
        yield
