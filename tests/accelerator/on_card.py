"""Runs the tests on the card in software (`HALFTONE_TEST_DEVICE=card`): it is then the device that Halftone prefers.

Without a compiler every test is skipped, with that reason.
"""

import warnings

import pytest
from tests.accelerator import card


def pytest_configure() -> None:
    if card.missing():
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls the renaming of a backend an experiment
        card.install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark = item.get_closest_marker("processor")
        if reason := card.missing() or (mark and str(mark.args[0])):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def as_new() -> None:
    """Each test finds the switches of the card as they are at first."""
    if not card.missing():
        card.install().reset()
