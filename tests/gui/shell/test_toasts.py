"""Toasts cover nothing that is used: on no page, in no state of Create, in no language."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QAbstractButton, QApplication, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import samples, scripted

from halftone.contract.messages import JobStarted, PhaseChanged
from halftone.gui.i18n import set_language
from halftone.gui.kit.message_bars import Act, Message, MessageBar, Toasts
from halftone.gui.shell.pages import PAGES
from halftone.gui.shell.toast_place import free_place

STARTED = (
    scripted.Say(event=JobStarted(kind="generate", plan=samples.PLAIN)),
    scripted.Say(event=PhaseChanged(phase="denoise", total=4)),
)
SHORT = Message("ok", "Copied.")
LONG = Message(
    "danger",
    "Generation stopped.",
    "This size does not fit: memory ran out at 4096 × 4096. Use a smaller size or half precision.",
    actions=(Act("retry", "Try again"), Act("copy", "Copy details")),
)


@pytest.mark.parametrize(
    ("taken", "found"),
    [
        ((), (400, 500)),
        (((0, 480, 1000, 100),), (400, 434)),
        (((350, 480, 400, 100),), (146, 500)),
        (((0, 0, 1000, 560),), None),
    ],
)
def test_a_toast_lies_low_then_near_the_middle(
    taken: tuple[tuple[int, int, int, int], ...], found: tuple[int, int] | None
) -> None:
    assert free_place(1000, (200, 40), 500, [QRect(*one) for one in taken]) == found


def shown(stage: Stage) -> tuple[MessageBar, QWidget]:
    """The toast, and what it lies in."""
    bar, host = stage.workspace.toasts.shown, stage.window.centralWidget()
    assert bar is not None
    assert host is not None
    return bar, host


def covered(stage: Stage) -> list[str]:
    """What lies under the toast and could be clicked."""
    bar, host = shown(stage)
    found: list[str] = []
    for button in host.findChildren(QAbstractButton):
        if button.isVisible() and button.isEnabled() and not bar.isAncestorOf(button):
            area = button.visibleRegion().boundingRect().translated(button.mapTo(host, QPoint()))
            if area.intersects(bar.geometry()):
                found.append(f"{type(button).__name__} {button.text() or button.accessibleName()}")
    return found


def states(stage: Stage) -> Iterator[str]:
    """Every page, and Create with all that it can show."""
    for page in PAGES:
        stage.workspace._go(page)
        yield page
    stage.workspace._go("create")
    stage.picture()
    stage.wait(stage.page.centre.banner.isVisible)
    yield "recovered"
    stage.page.centre.banner.fold.setChecked(True)
    yield "details"
    stage.page.centre.receipt.setChecked(True)
    yield "receipt"
    stage.page.toggle_left()
    yield "without the form"


@pytest.mark.parametrize("language", ["en", "zh_CN"])
@pytest.mark.parametrize("size", [(1024, 640), (1440, 900)])
def test_no_button_lies_under_a_toast(qtbot: QtBot, size: tuple[int, int], language: str) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="recovered")]})
    set_language(language)  # pyright: ignore[reportArgumentType]
    stage.workspace._rebuild()
    stage.page = stage.workspace.create_page
    stage.window.resize(*size)
    toasts = stage.workspace.toasts
    for state in states(stage):
        for message in (SHORT, LONG):
            toasts.show(message, lambda _key: None)
            QApplication.processEvents()
            stage.wait(lambda: covered(stage) == [])
            bar, host = shown(stage)
            assert host.rect().contains(bar.geometry()), state
            bar.closed.emit()
    set_language("en")
    stage.close()


def test_a_toast_makes_way_for_what_comes_up_under_it(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture()]})
    stage.window.resize(1024, 640)
    stage.workspace.toasts.show(replace(LONG, level="info", lasting=True), lambda _key: None)
    stage.picture()
    stage.wait(stage.page.centre.receipt.isVisible)
    stage.wait(lambda: covered(stage) == [])
    stage.close()


def test_where_everything_is_used_a_toast_has_a_row_of_its_own(qtbot: QtBot) -> None:
    host, shelf, button = QWidget(), QWidget(), QPushButton("All of it")
    qtbot.addWidget(host)
    rows = QVBoxLayout(host)
    rows.setContentsMargins(0, 0, 0, 0)
    button.setMinimumHeight(100)
    button.setSizePolicy(button.sizePolicy().Policy.Expanding, button.sizePolicy().Policy.Expanding)
    rows.addWidget(button, 1)
    rows.addWidget(shelf)
    host.resize(600, 400)
    host.show()
    toasts = Toasts(host, shelf)
    toasts.show(SHORT, lambda _key: None)
    bar = toasts.shown
    assert bar is not None
    assert not bar.geometry().intersects(button.geometry())
    assert host.rect().contains(bar.geometry())
    bar.closed.emit()
    assert shelf.height() == 0
