"""What a person does with the window's lists of painted items."""

from typing import Any

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from halftone.gui.views.card_list import CardList
from halftone.gui.views.list_model import ListModel


def place(view: CardList[Any], key: str) -> QPoint:
    """The middle of an item, scrolled into sight."""
    model = view.model()
    assert isinstance(model, ListModel)
    index = model.index_of(key)
    assert index.isValid()
    view.scrollTo(index)
    return view.visualRect(index).center()


def click(view: CardList[Any], key: str) -> None:
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place(view, key))


def click_cross(view: CardList[Any], key: str) -> None:
    model = view.model()
    assert isinstance(model, ListModel)
    at, index = place(view, key), model.index_of(key)
    cross = view.cross_of(index)
    assert not cross.isEmpty()
    assert view.visualRect(index).contains(at)
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=cross.center())


def right_click(view: CardList[Any], key: str) -> None:
    at = place(view, key)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, view.viewport().mapToGlobal(at))
    QApplication.sendEvent(view.viewport(), event)
