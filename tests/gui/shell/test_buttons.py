"""Buttons with an icon keep its distance, whatever is written on them later."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot
from tests.gui.health import kit

from halftone.gui.device.device_page import DevicePage
from halftone.gui.health.health_page import HealthPage
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
