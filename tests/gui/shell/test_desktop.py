"""Notes and progress outside the window: when they are due, and what a desktop without them is told."""

import pytest

from halftone.contract.vocabulary import Outcome
from halftone.gui.shell.desktop import has_launcher, note_due, note_problem, taskbar_problem
from halftone.settings.store import Settings


@pytest.mark.parametrize(
    ("outcome", "seconds", "active", "settings", "due"),
    [
        ("done", 40, False, Settings(), True),
        ("failed", 40, False, Settings(), True),
        ("cancelled", 40, False, Settings(), False),
        ("done", 29, False, Settings(), False),
        ("done", 30, False, Settings(), True),
        ("done", 40, True, Settings(), False),
        ("done", 40, False, Settings(notify=False), False),
        ("done", 40, False, Settings(notify_after=60), False),
    ],
)
def test_when_a_note_is_due(outcome: Outcome, seconds: float, active: bool, settings: Settings, due: bool) -> None:
    assert note_due(outcome, seconds, settings, active=active) is due


@pytest.mark.usefixtures("qapp")
def test_without_a_desktop_both_say_so() -> None:
    assert str(note_problem()) == str(taskbar_problem()) == "There is no desktop."


@pytest.mark.usefixtures("qapp")
def test_the_bus_is_asked_for_a_launcher_once() -> None:
    for _ in range(3):
        has_launcher()
    assert has_launcher.cache_info().misses == 1
