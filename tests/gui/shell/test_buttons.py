"""Buttons with an icon keep its distance, whatever is written on them later; icons are seen in every theme."""

from typing import Literal

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QLineEdit, QPushButton
from pytestqt.qtbot import QtBot
from tests.gui.health import kit

from halftone.gui import theme
from halftone.gui.device.device_page import DevicePage
from halftone.gui.health.health_page import HealthPage
from halftone.gui.kit.stock_widgets import button, show_clear
from halftone.gui.settings.settings_page import SettingsPage


def test_words_never_touch_their_icon(qtbot: QtBot) -> None:
    pages = (DevicePage, HealthPage, SettingsPage)
    for page in [made(kit.desk(report=kit.report(), self_test=kit.measured())[0]) for made in pages]:
        qtbot.addWidget(page)
        if isinstance(page, SettingsPage):
            page.show_section("Numerics")
        dressed = [one for one in page.findChildren(QPushButton) if one.text() and not one.icon().isNull()]
        assert dressed
        for one in dressed:
            behind = one.layoutDirection() == Qt.LayoutDirection.RightToLeft
            assert one.text().endswith(" ") if behind else one.text().startswith(" "), one.text()


def test_an_icon_without_words_has_no_gap_beside_it(qtbot: QtBot) -> None:
    made = button("Add folder…", "", "folder-plus")
    qtbot.addWidget(made)
    made.set_words("")
    assert made.text() == ""
    made.set_words("Add folder…")
    assert made.text() == " Add folder…"


@pytest.mark.parametrize("name", ["dark", "light"])
def test_the_cross_that_clears_a_field_is_seen(qtbot: QtBot, name: Literal["dark", "light"]) -> None:
    theme.set_theme(name)
    field = QLineEdit("Ctrl+1")
    show_clear(field)
    qtbot.addWidget(field)
    field.show()
    (cross,) = field.findChildren(QAbstractButton)
    shown = cross.icon().pixmap(cross.iconSize()).toImage()
    pixels = [shown.pixelColor(x, y) for x in range(shown.width()) for y in range(shown.height())]
    ink = max(pixels, key=lambda pixel: pixel.alpha())
    assert abs(ink.lightness() - theme.current().color("field").lightness()) > 100
    theme.set_theme("dark")
