"""The keyboard in the real window: where Tab leads on every page, what its stops are called, and what Enter and Esc do."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from PySide6.QtCore import QEvent, QPoint, QRect, Qt
from PySide6.QtGui import QAccessible, QKeyEvent, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QButtonGroup, QComboBox, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.create.test_create_page import STARTED
from tests.gui.gallery.test_gallery_page import chosen, click, gallery, made
from tests.gui.health import kit
from tests.gui.models.test_models_page import library, opened, scanned
from tests.gui.stage import Stage
from tests.helpers import scripted

from halftone.gui.create.form.form_parts import FoldedRow
from halftone.gui.kit.actions import ActionName, pressed
from halftone.gui.kit.meters import has_own_ring
from halftone.gui.kit.switches import Switch
from halftone.gui.settings.settings_page import SECTIONS, SettingsPage
from halftone.gui.settings.shortcuts_section import all_shortcuts
from halftone.gui.shell.pages import PageName
from halftone.library import records

_MOST = 300
"""Stops of one page; more means that Tab is caught."""


@pytest.fixture
def stage(qtbot: QtBot) -> Stage:
    return Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="recovered")]})


def place(widget: QWidget, window: QWidget) -> QRect:
    return QRect(widget.mapTo(window, QPoint()), widget.size())


def shown(widget: QWidget) -> str:
    return f"{type(widget).__name__} “{name_of(widget)}”"


def name_of(widget: QWidget) -> str:
    """What a screen reader speaks; for a list of choices Qt gives its choice where it has no name."""
    if widget.accessibleName() or isinstance(widget, QComboBox):
        return widget.accessibleName()
    return QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Name)


def goes_back(before: QRect, after: QRect) -> bool:
    """Whether one reads against the text: up in the same column, or to the left in the same line."""
    above = after.bottom() <= before.top()
    in_line = min(before.bottom(), after.bottom()) - max(before.top(), after.top()) > min(before.height(), after.height()) / 2
    return (above and after.left() <= before.right()) or (in_line and after.right() < before.left())


def regions(stage: Stage) -> list[QWidget]:
    """The parts of the window, in their order; of other pages than Create the page itself reads as the eye does."""
    workspace = stage.workspace
    page = cast("QWidget", workspace.stack.currentWidget())
    if page is not workspace.create_page:
        return [workspace.top, page, workspace.status]
    create = workspace.create_page
    centre = create.centre
    above = [centre.toolbar, centre.canvas, centre.empty, centre.banner]
    below = [centre.next_steps, centre.sheet, centre.receipt, centre.transport]
    return [workspace.top, create.form, *above, *below, create.right, workspace.status]


def press(widget: QWidget, held: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    """Press Tab, and let the window do what it put off."""
    QApplication.processEvents()
    QTest.keyClick(widget, Qt.Key.Key_Tab, held)
    QApplication.processEvents()


def walk(stage: Stage) -> list[QWidget]:
    """Press Tab from the first stop on until it comes back, and look at each stop."""
    window, ring = stage.window, stage.workspace._ring
    window.activateWindow()
    stage.qtbot.waitActive(window)
    stage.workspace.status.version.setFocus()
    press(stage.workspace.status.version)
    parts = regions(stage)
    stops: list[QWidget] = []
    while (now := QApplication.focusWidget()) is not None and now not in stops:
        assert len(stops) < _MOST, f"Tab is caught among {[shown(one) for one in stops[-8:]]}"
        assert name_of(now).strip(), f"{type(now).__name__} at {place(now, window)} has no name"
        if not has_own_ring(now):
            assert ring.isVisible(), shown(now)
            stage.wait(lambda: not ring.visibleRegion().isEmpty())  # until it was laid out
            assert ring.visibleRegion().boundingRect().contains(ring._room()), f"the ring of {shown(now)} is cut"
        stops.append(now)
        press(now)
        after = QApplication.focusWidget()
        if after is not None and after not in stops:
            assert not goes_back(place(now, window), place(after, window)) or _region(now, parts) < _region(after, parts), (
                f"{shown(now)} comes before {shown(after)}"
            )
    assert now is stops[0], f"Tab comes back to {now}"
    ranks = [_region(one, parts) for one in stops]
    assert ranks == sorted(ranks), [
        shown(after) for before, after in pairwise(stops) if _region(before, parts) > _region(after, parts)
    ]
    assert not (left := missed(window, stops)), f"Tab never comes to {[shown(one) for one in left]}"
    press(stops[0], Qt.KeyboardModifier.ShiftModifier)
    assert QApplication.focusWidget() is stops[-1], "Shift+Tab goes the other way"
    return stops


def _region(widget: QWidget, parts: Sequence[QWidget]) -> int:
    return next((at for at, part in enumerate(parts) if part is widget or part.isAncestorOf(widget)), -1)


def _group(button: QAbstractButton) -> QButtonGroup | None:
    return cast("QButtonGroup | None", button.group())


def missed(window: QWidget, stops: Sequence[QWidget]) -> list[QWidget]:
    """What can be used and is not reached. Arrow keys lead to the buttons of a group."""
    groups = [found for one in stops if isinstance(one, QAbstractButton) and (found := _group(one)) is not None]
    return [
        one
        for one in window.findChildren(QWidget)
        if one.isVisible()
        and one.window() is window
        and one.isEnabled()
        and one not in stops
        and one.focusProxy() is None
        and (isinstance(one, QAbstractButton) or one.focusPolicy() & Qt.FocusPolicy.TabFocus)
        and not (isinstance(one, QAbstractButton) and (one.group() in groups or _inside_a_stop(one, stops)))
    ]


def _inside_a_stop(one: QWidget, stops: Sequence[QWidget]) -> bool:
    """The arrows of a number, the cross of a search and what is painted by buttons are used by the keys of what they stand in."""
    return any(stop.isAncestorOf(one) for stop in stops)


def test_tab_walks_create(stage: Stage) -> None:
    walk(stage)
    stage.picture()
    stage.wait(lambda: not stage.page.centre.banner.isHidden())
    stops = walk(stage)
    assert stage.page.centre.banner.first_button() in stops
    stage.page.centre.receipt.setChecked(True)
    for row in stage.page.form.findChildren(FoldedRow):
        row.setChecked(True)
    walk(stage)
    stage.close()


def test_tab_walks_the_gallery(stage: Stage, tmp_path: Path) -> None:
    made(tmp_path)
    page = gallery(stage, 4)
    walk(stage)
    click(page, 0)
    assert chosen(stage, page)
    walk(stage)
    stage.close()


def test_tab_walks_the_models(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    walk(stage)
    page.as_table.click()
    walk(stage)
    stage.close()


def test_tab_walks_health(stage: Stage) -> None:
    stage.controller.go("health")
    walk(stage)
    model = stage.controller.model
    assert model is not None
    device = stage.controller.state.device
    assert device is not None
    precision = stage.controller.precision[0]
    report = kit.report(model, device, precision=precision, numerics=stage.controller.numerics)
    records.save_report(report)
    stage.controller.go("create")
    stage.controller.go("health")
    walk(stage)
    stage.close()


@pytest.mark.parametrize("page", ["train", "device"])
def test_tab_walks_a_page(stage: Stage, page: PageName) -> None:
    stage.controller.go(page)
    for row in stage.workspace.page(page).findChildren(FoldedRow):
        row.setChecked(True)
    walk(stage)
    stage.close()


def test_tab_walks_the_settings(stage: Stage) -> None:
    stage.controller.go("settings")
    page = stage.workspace.page("settings")
    assert isinstance(page, SettingsPage)
    kept = stage.controller.settings
    for name, _ in SECTIONS:
        page.show_section(name)
        assert page.nav[name] in walk(stage), "the chosen section is the stop among its sections"
    assert stage.controller.settings == kept, "Tab changes nothing"
    assert stage.workspace.page("settings") is page
    stage.close()


def test_tab_keeps_the_usual_keys_of_every_action() -> None:
    """The field of a key holds it as Qt writes it; what is written otherwise would count as changed."""
    for name, _, keys in all_shortcuts():
        for key in keys:
            written = QKeySequence(key).toString(QKeySequence.SequenceFormat.PortableText)
            assert written.replace("Return", "Enter") == key, name


NO, SHIFT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
CTRL, ALT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier


@pytest.mark.parametrize(
    ("key", "modifiers", "text", "name"),
    [
        (Qt.Key.Key_BracketLeft, NO, "[", "brush-smaller"),
        (Qt.Key.Key_BracketLeft, Qt.KeyboardModifier.GroupSwitchModifier, "[", "brush-smaller"),
        (Qt.Key.Key_8, CTRL | ALT, "[", "brush-smaller"),
        (Qt.Key.Key_BracketRight, SHIFT, "]", "brush-larger"),
        (Qt.Key.Key_Agrave, SHIFT, "0", "fit"),
        (Qt.Key.Key_BracketLeft, CTRL, "[", None),
        (Qt.Key.Key_BracketLeft, ALT, "[", None),
        (Qt.Key.Key_E, SHIFT, "E", None),
        (Qt.Key.Key_Shift, SHIFT, "", None),
    ],
)
def test_a_sign_is_typed_as_the_layout_has_it(
    key: Qt.Key, modifiers: Qt.KeyboardModifier, text: str, name: ActionName | None
) -> None:
    event = QKeyEvent(QEvent.Type.KeyPress, key, modifiers, text)
    assert pressed(event, "brush-smaller", "brush-larger", "eraser", "fit") == name


def test_enter_presses_the_button_that_has_the_focus(stage: Stage) -> None:
    opener = stage.workspace.top.settings
    opener.setFocus()
    QTest.keyClick(opener, Qt.Key.Key_Return)
    assert stage.shows("settings")
    page = cast("SettingsPage", stage.workspace.page("settings"))
    switch = next(one for one in page.section("General").findChildren(Switch) if one.isEnabled())
    before = switch.isChecked()
    switch.setFocus()
    QTest.keyClick(switch, Qt.Key.Key_Return)
    assert switch.isChecked() == before, "a switch is turned by Space"
    stage.close()


def test_escape_empties_a_search_before_it_means_anything_else(stage: Stage) -> None:
    stage.controller.go("settings")
    page = cast("SettingsPage", stage.workspace.page("settings"))
    page.focus_search()
    QTest.keyClicks(page.search, "theme")
    assert not page.nav["General"].isVisible()
    QTest.keyClick(page.search, Qt.Key.Key_Escape)
    assert page.search.text() == ""
    assert page.nav["General"].isVisible()
    stage.close()
