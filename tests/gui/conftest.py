"""For tests of the window."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtWidgets import QMainWindow, QWidget
from pytestqt.qtbot import QtBot

_PATIENCE_MS = 5000


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
    gc.enable()
    gc.collect()


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
    """What a window writes goes to the folder of its own test, not of the one that runs when the thread comes to it."""
    from PySide6.QtCore import QObject, QThreadPool

    from halftone.gui.background import Background

    owner = QObject()
    Background(owner).finish_in_order()
    QThreadPool.globalInstance().waitForDone(_PATIENCE_MS)


def _end_closed_windows() -> None:
    """They wait for an event loop, which only the next test runs: it would dress the window of the one before once more."""
    from PySide6.QtCore import QCoreApplication, QEvent

    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
