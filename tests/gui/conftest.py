"""For tests of the window."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def garbage_goes_here() -> Iterator[None]:
    """What a test leaves is collected on this thread: collected on a thread of the pool, a QObject would end there."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()
