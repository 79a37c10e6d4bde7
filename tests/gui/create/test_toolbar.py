"""The row above the canvas: words where they fit, and a menu with words for what has no room."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QMenu, QToolButton
from pytestqt.qtbot import QtBot

from halftone.gui import theme
from halftone.gui.create.picture.picture_toolbar import CanvasToolbar, Manner
from halftone.gui.i18n import set_language

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support propagateSizeHints")


@pytest.fixture(params=["en", "zh_CN"])
def bar(qtbot: QtBot, request: pytest.FixtureRequest) -> Iterator[CanvasToolbar]:
    theme.set_theme("dark")
    set_language(request.param)
    made = CanvasToolbar()
    qtbot.addWidget(made)
    made.set_picture(True)
    made.set_zoom(0.44)
    made.resize(896, 40)
    made.show()
    yield made
    set_language("en")


def worded(one: QToolButton) -> bool:
    return one.toolButtonStyle() == Qt.ToolButtonStyle.ToolButtonTextBesideIcon


def least(bar: CanvasToolbar, manner: Manner) -> int:
    """Pixels that a manner takes, whatever fonts there are."""
    bar._dress(manner)
    return bar._line.sizeHint().width()


def menu_of(bar: CanvasToolbar, qtbot: QtBot) -> QMenu:
    bar.more.click()
    (menu,) = (one for one in bar.findChildren(QMenu) if one.isVisible())
    return menu


def test_all_have_words_where_there_is_room(bar: CanvasToolbar) -> None:
    assert all(worded(one) for one in (bar.fit, bar.vary, bar.upscale, bar.start, bar.inpaint))
    assert not bar.more.isVisible()
    assert bar.delete.isVisible()


def test_narrower_what_makes_pictures_keeps_its_words_and_the_rest_is_in_a_menu(bar: CanvasToolbar, qtbot: QtBot) -> None:
    bar.resize(least(bar, "words") - 1, 40)
    assert all(worded(one) for one in (bar.vary, bar.upscale, bar.start, bar.inpaint))
    assert not bar.delete.isVisible()
    done: list[str] = []
    bar.acted.connect(done.append)
    menu = menu_of(bar, qtbot)
    assert len(menu.actions()) == 3
    menu.actions()[-1].trigger()
    menu.close()
    assert done == ["delete"]


def test_the_longest_words_go_first(bar: CanvasToolbar, qtbot: QtBot) -> None:
    bar.resize(least(bar, "menu") - 1, 40)
    assert [worded(one) for one in (bar.vary, bar.upscale, bar.start, bar.inpaint)] == [True, True, False, True]
    menu = menu_of(bar, qtbot)
    assert len([one for one in menu.actions() if not one.isSeparator()]) == 5
    menu.close()


def test_in_a_narrow_canvas_the_menu_says_what_the_icons_are(bar: CanvasToolbar, qtbot: QtBot) -> None:
    bar.resize(least(bar, "short") - 1, 40)
    shown = [one for one in bar.findChildren(QAbstractButton) if one.isVisible()]
    assert not any(worded(one) for one in shown if isinstance(one, QToolButton))
    assert all(one.accessibleName() or one.text() for one in shown)
    assert max(one.geometry().right() for one in shown) < bar.width(), "none is cut"
    bar.upscale.setEnabled(False)
    menu = menu_of(bar, qtbot)
    assert [one.isEnabled() for one in menu.actions() if not one.isSeparator()] == [
        True,
        True,
        False,
        True,
        True,
        True,
        True,
        True,
    ]
    menu.close()
    bar.resize(896, 40)
    assert worded(bar.vary)
    assert bar.delete.isVisible()


def test_while_a_preview_is_followed_there_is_no_file_to_act_on(bar: CanvasToolbar) -> None:
    for width in (896, least(bar, "menu"), least(bar, "icons")):
        bar.resize(width, 40)
        bar.set_live(running=True, following=True, preview=True)
        assert not any(one.isVisible() for one in (bar.save, bar.copy, bar.delete, bar.more)), width
        assert bar.live.isVisible()
        bar.set_live(running=False, following=False, preview=False)
        assert bar.save.isVisible()
        assert bar.more.isVisible() == (width < 896)
