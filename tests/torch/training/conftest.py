"""The guard tells every finding in the log; here that is what is looked for, and no noise."""

import logging
from collections.abc import Iterator

import pytest

GUARD = logging.getLogger("halftone.training.guard.core")


@pytest.fixture(autouse=True)
def findings_are_no_noise(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("logs") is None:
        GUARD.setLevel(logging.ERROR)
    yield
    GUARD.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def all_made_on_the_device(made_on_the_device: None) -> None:
    """Every training lies on the device that the tests run on."""
