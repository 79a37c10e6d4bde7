"""Runs the tests on the card in software (`HALFTONE_TEST_DEVICE=card`): it is then the device that Halftone prefers.

Without a compiler every test is skipped, with that reason.
"""

import warnings
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.accelerator import card

_RAN_THERE: Final[set[str]] = set()
"""Tests that ran something on the card."""


if not card.missing():  # before any test asks for the device that Halftone prefers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls the renaming of a backend an experiment
        card.install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark = item.get_closest_marker("processor")
        if reason := card.missing() or (mark and str(mark.args[0])):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def as_new(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test finds the switches of the card as they are at first, and so does what a module makes before its tests."""
    if card.missing():
        yield
        return
    extension = card.install()
    extension.reset()
    before = _launched()
    yield
    if _launched() > before:
        _RAN_THERE.add(request.node.nodeid)
    disorder = sum(extension.disorder(index) for index in range(card.DEVICES))
    extension.reset()
    if disorder:
        pytest.fail(f"{disorder} copies met memory that was something else's before or after them", pytrace=False)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    passed = [report for report in terminalreporter.stats.get("passed", []) if report.when == "call"]
    there = sum(report.nodeid in _RAN_THERE for report in passed)
    terminalreporter.write_line(f"{there} of the {len(passed)} tests that passed ran something on the card")


def _launched() -> int:
    return sum(card.install().launched(index) for index in range(card.DEVICES))
