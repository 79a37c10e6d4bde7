"""The wheel scrolls the page; it changes a field only while that has the focus."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QAbstractSlider, QAbstractSpinBox, QApplication, QComboBox, QScrollBar, QSlider, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage

from halftone.gui import theme
from halftone.gui.create.form.form_fields import NumberBox, SizeBox, combo
from halftone.gui.kit.built_later import BuiltLater
from halftone.gui.kit.wheel import guard_wheel
from halftone.gui.shell.pages import PAGES, PageName


def turn(field: QWidget) -> bool:
    """Turn the wheel over a field; whether the field took it."""
    middle = QPointF(field.rect().center())
    where = QPointF(field.mapToGlobal(field.rect().center()))
    event = QWheelEvent(
        middle,
        where,
        QPoint(),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    event.setAccepted(True)
    QApplication.sendEvent(field, event)
    return event.isAccepted()


def shown_value(field: QWidget) -> object:
    match field:
        case QComboBox():
            return field.currentIndex()
        case QAbstractSpinBox():
            return field.text()
        case QAbstractSlider():
            return field.value()
        case _:
            raise TypeError(field)


@pytest.mark.parametrize("page", PAGES)
def test_no_field_of_a_page_is_changed_by_the_wheel_unseen(qtbot: QtBot, page: PageName) -> None:
    stage = Stage(qtbot)
    stage.controller.go(page)
    stage.wait(lambda: stage.shows(page))
    shown = stage.workspace.page(page)
    for part in shown.findChildren(BuiltLater):
        part.make()
    kinds = (QAbstractSpinBox, QComboBox, QAbstractSlider)
    fields = [field for kind in kinds for field in shown.findChildren(kind) if not isinstance(field, QScrollBar)]
    if page in ("create", "settings", "train"):
        assert fields
    for field in fields:
        before = shown_value(field)
        assert not field.focusPolicy() & Qt.FocusPolicy.WheelFocus & ~Qt.FocusPolicy.StrongFocus, field.accessibleName()
        turn(field)
        assert shown_value(field) == before, field.accessibleName()


def test_the_wheel_changes_a_field_with_the_focus(qtbot: QtBot) -> None:
    theme.set_theme("dark")
    choices = combo("Choice", "")
    choices.addItems(["a", "b", "c"])
    slider = guard_wheel(QSlider(Qt.Orientation.Horizontal))
    number, size = NumberBox((1, 9)), SizeBox("Width")
    number.setValue(5)
    size.setValue(512)
    for field in (choices, slider, number, size):
        qtbot.addWidget(field)
        field.show()
        field.activateWindow()
        before = shown_value(field)
        assert not turn(field)
        assert shown_value(field) == before
        field.setFocus()
        qtbot.waitUntil(field.hasFocus)
        if isinstance(field, QSlider):
            field.setValue(50)
            before = shown_value(field)
        turn(field)
        assert shown_value(field) != before
