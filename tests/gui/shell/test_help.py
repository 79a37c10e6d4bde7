"""The help window over the real window: chapters, search, links, languages, themes, and the way to it from every page."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import pytest
from PySide6.QtCore import QObject, Qt, QUrl, Slot
from PySide6.QtGui import QColor, QDesktopServices, QImage, QKeySequence, QTextDocument
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolButton, QWidget
from pytestqt.qtbot import QtBot
from tests.gui import words
from tests.gui.stage import Stage
from tests.helpers.wording import chinese as texts

from halftone.gui import theme
from halftone.gui.i18n import set_language
from halftone.gui.kit.actions import ACTIONS, ActionName
from halftone.gui.settings.settings_page import SECTIONS
from halftone.gui.shell.guide_view import fragments
from halftone.gui.shell.help_window import PLACES, SHORTCUTS, HelpWindow, shortcuts
from halftone.gui.shell.pages import PAGES
from halftone.settings import guide

BOLD: Final = re.compile(r"\*\*([^*\n]+)\*\*")


def opened(stage: Stage) -> HelpWindow:
    stage.workspace.show_guide()
    found = stage.window.findChild(HelpWindow)
    assert found is not None
    return found


def colours(help_: HelpWindow) -> set[str]:
    """Of the letters of the chapter."""
    found: set[str] = set()
    block = help_.view.document().begin()
    while block.isValid():
        letters = [one for _start, _length, one in fragments(block) if not one.isImageFormat()]
        found |= {one.foreground().color().name() for one in letters}
        block = block.next()
    return found


class Browser(QObject):
    """Takes the addresses that would go to the browser."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def stands_in(self, scheme: str) -> None:
        """From now on, until `QDesktopServices.unsetUrlHandler`."""
        QDesktopServices.setUrlHandler(scheme, self, "take")  # pyright: ignore[reportArgumentType] - the stubs want bytes

    @Slot(QUrl)
    def take(self, url: QUrl) -> None:
        self.opened.append(url.toString())


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", guide.TOPICS)
def test_bold_words_are_words_of_the_window(topic: str) -> None:
    english = {*words.sentences(), *(name for name, _icon in SECTIONS)}
    chinese = set(texts().values())
    folder = guide.guide_folder()
    bold = {language: BOLD.findall((folder / language / f"{topic}.md").read_text("utf-8")) for language in ("en", "zh_CN")}
    assert not [one for one in bold["en"] if one not in english]
    assert not [one for one in bold["zh_CN"] if one not in chinese and one not in english]


def test_every_page_has_a_chapter() -> None:
    assert {page.chapter for page in PAGES.values()} <= set(guide.TOPICS)


# --- the way to it --------------------------------------------------------------------------------------------------


def test_f1_and_the_question_mark_of_each_page_open_its_chapter(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    for name in PAGES:
        stage.controller.go(name)
        page = stage.workspace.page(name)
        (mark,) = (one for one in page.findChildren(QToolButton) if one.accessibleName() == "Guide to this page (F1)")
        assert mark.isVisible()
        assert mark.toolTip() == mark.accessibleName()
        assert mark.focusPolicy() & Qt.FocusPolicy.TabFocus
        for way in ("mark", "F1", "top bar"):
            help_.show_topic(SHORTCUTS)
            help_.close()
            if way == "mark":
                mark.setFocus(Qt.FocusReason.ShortcutFocusReason)
                QTest.keyClick(mark, Qt.Key.Key_Space)
            elif way == "F1":
                stage.window.activateWindow()
                QTest.keyClick(stage.window, Qt.Key.Key_F1)
            else:
                stage.workspace.top.help.click()
            assert help_.isVisible(), (name, way)
            assert help_.topic == PAGES[name].chapter
            assert help_.entries[help_.topic].isChecked()
            assert help_.view.toPlainText().startswith(guide.chapter(help_.topic).title)
    stage.close()


def test_every_chapter_is_listed_and_its_pictures_are_shown(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    assert list(help_.entries) == [*guide.TOPICS, SHORTCUTS, PLACES]
    for topic in help_.entries:
        help_.entries[topic].click()
        assert help_.topic == topic
    for chapter in guide.chapters():
        help_.entries[chapter.topic].click()
        for address in guide.pictures(chapter.markdown):
            picture = help_.view.loadResource(QTextDocument.ResourceType.ImageResource.value, QUrl(address))
            assert picture
            wide = QImage(str(Path(chapter.folder) / address)).width()
            html = help_.view.toHtml()
            width = re.search(rf'<img src="{re.escape(address)}"[^>]*width="(\d+)"', html)
            assert width is not None
            assert int(width[1]) <= min(wide, help_.view.viewport().width())
    stage.close()


def test_up_and_down_walk_through_the_chapters(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    first, second, *_rest = help_.entries.values()
    first.setFocus()
    QTest.keyClick(first, Qt.Key.Key_Down)
    assert help_.topic == guide.TOPICS[1]
    QTest.keyClick(second, Qt.Key.Key_Up)
    assert help_.topic == guide.TOPICS[0]
    QTest.keyClick(first, Qt.Key.Key_Up)
    assert help_.topic == guide.TOPICS[0]
    stage.close()


def test_up_and_down_walk_through_the_sections_that_were_found(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    type_in(help_, "mask blur")
    entries = list(help_.entries.values())
    assert any(" " in key for key in help_.entries)
    stage.wait(entries[-1].isVisible)
    entries[0].setFocus()
    for key, walk in ((Qt.Key.Key_Down, entries), (Qt.Key.Key_Up, entries[::-1])):
        for one, following in pairwise(walk):
            QTest.keyClick(one, key)
            assert following.isChecked()
            assert following.hasFocus()
    stage.close()


def test_every_key_is_declared_once_and_listed(qtbot: QtBot) -> None:
    keys = [key for action in ACTIONS.values() for key in action.keys] + [page.key for page in PAGES.values()]
    assert len(keys) == len(set(keys))
    assert all(not QKeySequence(key).isEmpty() for key in keys)
    listed = [key for keys, _what in shortcuts() for key in keys.replace(" (hold)", "").split(", ")]
    assert set(listed) == {*keys, "←", "→"} - {"Left", "Right"}


def test_the_keys_of_the_window_do_what_the_list_says(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    for name, page in PAGES.items():
        QTest.keySequence(stage.window, QKeySequence(page.key))
        assert stage.shows(name)
    QTest.keySequence(stage.window, QKeySequence(ACTIONS["prompt"].keys[0]))
    assert stage.shows("create")
    panels: dict[ActionName, QWidget] = {"left-panel": stage.page.form, "right-panel": stage.page.right}
    for name, panel in panels.items():
        QTest.keySequence(stage.window, QKeySequence(ACTIONS[name].keys[0]))
        assert panel.isHidden()
    stage.close()


def test_shortcuts_and_folders_are_chapters(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    folder = tmp_path / "a|b [c](d) `e` *f* & <g>"
    folder.mkdir()
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, pictures_folder=str(folder)))
    help_ = opened(stage)
    help_.show_topic(SHORTCUTS)
    text = help_.view.toPlainText()
    assert all(keys in text and what in text for keys, what in shortcuts())
    help_.show_topic(PLACES)
    assert str(folder) in help_.view.toPlainText()
    browser = Browser()
    browser.stands_in("file")
    addresses = re.findall(r'href="(file:[^"]+)"', help_.view.toHtml())
    help_.view.anchorClicked.emit(QUrl(addresses[0].replace("&amp;", "&")))
    QDesktopServices.unsetUrlHandler("file")
    assert QUrl(browser.opened[0]).toLocalFile() == str(folder)
    stage.close()


def test_links_lead_to_chapters_and_out_of_the_guide(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    browser = Browser()
    browser.stands_in("https")
    help_.view.anchorClicked.emit(QUrl("health.md"))
    assert help_.topic == "health"
    for address in ("https://example.org/a", "javascript:alert(1)", "nothing.md", "../../README.md", "data:text/html,a"):
        help_.view.anchorClicked.emit(QUrl(address))
        assert help_.topic == "health"
    QDesktopServices.unsetUrlHandler("https")
    assert browser.opened == ["https://example.org/a"]
    stage.close()


# --- search ---------------------------------------------------------------------------------------------------------


def type_in(help_: HelpWindow, text: str) -> None:
    help_.search.setText(text)
    help_.look()


def test_search_lists_where_the_words_stand(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    type_in(help_, "mask blur")
    hits = guide.search(guide.chapters(), "mask blur")
    assert {key for key in help_.entries if " " in key} == {f"{hit.chapter.topic} {hit.section}" for hit in hits if hit.section}
    assert help_.topic == hits[0].chapter.topic
    assert help_.count.text() == f"{sum(hit.count for hit in hits)} matches"
    marks = help_.view.extraSelections()
    assert {mark.cursor.selectedText().lower() for mark in marks} == {"mask", "blur"}
    type_in(help_, "")
    assert list(help_.entries) == [*guide.TOPICS, SHORTCUTS, PLACES]
    assert not help_.view.extraSelections()
    assert not help_.count.isVisible()
    stage.close()


def test_enter_goes_from_place_to_place_through_all_chapters_and_back(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)

    def place() -> tuple[str, int]:
        return help_.topic, help_.view.textCursor().position()

    type_in(help_, "cure")
    topics = [topic for topic in help_.entries if " " not in topic]
    assert topics == list(dict.fromkeys(hit.chapter.topic for hit in guide.search(guide.chapters(), "cure")))
    assert len(topics) > 3
    first = topics.index(help_.topic)
    walk = [place()]
    while len(walk) < 500:
        QTest.keyClick(help_.search, Qt.Key.Key_Return)
        if place() == walk[0]:
            break
        walk.append(place())
    assert place() == walk[0]
    assert len(set(walk)) == len(walk)
    assert list(dict.fromkeys(topic for topic, _at in walk)) == topics[first:] + topics[:first]
    for expected in reversed(walk):
        help_.before.click()
        assert place() == expected
    stage.close()


def marked_now(help_: HelpWindow) -> list[int]:
    """Ends of the marked places that are shown as the one that was gone to."""
    now = theme.current().color("warn")
    return [one.cursor.selectionEnd() for one in help_.view.extraSelections() if one.format.background().color() == now]


def test_a_theme_keeps_the_hit_that_was_gone_to(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    type_in(help_, "cure")
    for _ in range(3):
        help_.next_hit()
    key = next(key for key, entry in help_.entries.items() if entry.isChecked())
    here, scrolled = help_.view.textCursor().position(), help_.view.verticalScrollBar().value()
    assert marked_now(help_) == [here]
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, theme="light"))
    assert help_.view.textCursor().position() == here
    assert help_.view.verticalScrollBar().value() == scrolled
    assert marked_now(help_) == [here]
    assert help_.entries[key].isChecked()
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, theme="dark"))
    stage.close()


def test_f1_brings_a_minimised_window_back(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    help_.showMinimized()
    assert help_.isMinimized()
    stage.window.activateWindow()
    stage.workspace.show_guide()
    assert not help_.isMinimized()
    assert help_.isVisible()
    stage.close()


def test_a_section_that_was_found_is_gone_to(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    type_in(help_, "doctor")
    key = next(key for key in reversed(help_.entries) if key.startswith("training "))
    help_.entries[key].click()
    assert help_.topic == "training"
    assert help_.entries[key].isChecked()
    assert help_.view.textCursor().block().text().lower().count("doctor")
    assert help_.view.cursorRect().top() < help_.view.viewport().height()
    stage.close()


@pytest.mark.parametrize("text", ["(", "[a-", "\\", ".*", "<b>x</b>", "&", "qqzzx " * 500, "\x00\x1b[31m", "\u202e", "健康 zzz"])
def test_any_text_can_be_searched_for(qtbot: QtBot, text: str) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    type_in(help_, text)
    for _ in range(3):
        help_.next_hit()
    marks = help_.view.extraSelections()
    assert all(mark.cursor.selectedText().casefold() in guide.searched(text) for mark in marks)
    assert help_.count.text()
    stage.close()


# --- looks ----------------------------------------------------------------------------------------------------------


def test_it_follows_the_language_and_the_theme_at_once(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    help_ = opened(stage)
    settings = stage.controller.settings
    stage.controller.session.settings.update(msgspec.structs.replace(settings, language="zh_CN"))
    stage.wait(lambda: help_.windowTitle() == "Halftone 帮助")
    assert help_.view.toPlainText().startswith(guide.chapters("zh_CN")[0].title)
    assert help_.entries["models"].accessibleName() == guide.chapters("zh_CN")[1].title
    type_in(help_, "显存")
    assert help_.topic == "numerics"
    type_in(help_, "蒙版模糊")
    assert help_.topic == "image-to-image"
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, language="en"))
    stage.wait(lambda: help_.windowTitle() == "Halftone help")
    type_in(help_, "")
    dark = colours(help_)
    assert theme.current().color("text").name() in dark
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, theme="light"))
    light = colours(help_)
    assert QColor(theme.current().color("text")).name() in light
    assert not dark & light
    stage.idle()
    stage.close()
    set_language("en")
