"""For tests of the window."""

import gc
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtWidgets import QMainWindow, QWidget
from pytestqt.qtbot import QtBot

_PATIENCE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def garbage_goes_here(request: pytest.FixtureRequest, what_stays_is_not_searched: None) -> Iterator[None]:
    """What a test leaves is collected on this thread: collected on a thread of the pool, a QObject would end there. A test that
    makes none needs no search: thousands look at one sentence each.
    """
    if "qapp" not in request.fixturenames:
        yield
        return
    gc.collect()
    gc.disable()
    yield
    _end_background_work()
    _end_closed_windows()
    _clear_clipboard()
    _reset_language_and_text_size()
    gc.enable()
    gc.collect()


def _reset_language_and_text_size() -> None:
    """A test that chose others leaves none to the next, which may open no window of its own."""
    from halftone.gui import theme
    from halftone.gui.i18n import set_language

    set_language("en")
    theme.set_text_size(100)


def pytest_sessionfinish() -> None:
    """The events after the last test may have started more: it must not outlive the interpreter."""
    if "halftone.gui.background" in sys.modules:
        _end_background_work()


@pytest.fixture
def qtbot(qtbot: QtBot) -> QtBot:
    """Widgets that are shown alone wear the style sheet that their window would have, so that sizes are those of the program."""
    add = qtbot.addWidget

    def add_dressed(widget: QWidget, **options: Any) -> None:
        from halftone.gui import theme

        add(widget, **options)
        if widget.isWindow() and not isinstance(widget, QMainWindow):
            widget.setStyleSheet(theme.current().qss())

    qtbot.addWidget = add_dressed
    return qtbot


def _end_background_work() -> None:
    """What a window writes goes to the folder of its own test, not of the one that runs when the thread comes to it. Answers are
    dropped: they would start more work.
    """
    from halftone.gui import background

    if not background.end(_PATIENCE_SECONDS):
        pytest.fail("left behind: work in the background", pytrace=False)


def _end_closed_windows() -> None:
    """They wait for an event loop, which only the next test runs: it would dress the window of the one before once more."""
    from PySide6.QtCore import QCoreApplication, QEvent

    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def _clear_clipboard() -> None:
    """Without a screen the clipboard lives until the C library ends, after Python: an object of Python's would crash there."""
    from PySide6.QtGui import QGuiApplication

    QGuiApplication.clipboard().clear()
