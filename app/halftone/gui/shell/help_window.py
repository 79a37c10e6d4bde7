"""The help window: the guide with a search over all chapters, the shortcuts, and where Halftone keeps its files."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QKeySequence, QShortcut
from PySide6.QtWidgets import QButtonGroup, QLineEdit, QVBoxLayout, QWidget

from halftone import __version__
from halftone.contract.echoes import echo
from halftone.gui import theme
from halftone.gui.i18n import language, say, tr
from halftone.gui.kit import actions
from halftone.gui.kit.navigation import NavButton
from halftone.gui.kit.stock_widgets import ElidedLabel, clear, column, icon_button, label, row, scrolling, show_clear, surface
from halftone.gui.kit.tab_order import OrderedDialog
from halftone.gui.shell.guide_view import GuideView, url_is_outside
from halftone.gui.shell.pages import PAGES, page_keys
from halftone.settings import guide, places

SHORTCUTS: Final = "shortcuts"
PLACES: Final = "places"
"""Topics of the two chapters that are made here."""
_ICONS: Final = {
    "first-picture": "image",
    "models": "boxes",
    "gallery": "images",
    "health": "activity",
    "numerics": "sliders-horizontal",
    "image-to-image": "scaling",
    "loras": "palette",
    "training": "chart-line",
    "updates": "refresh-cw",
    "troubles": "triangle-alert",
    "farm": "cpu",
    "command-line": "file-text",
    SHORTCUTS: "keyboard",
    PLACES: "folder",
}
_SIDE: Final = 256
_PAUSE_MS: Final = 120
"""The pause in typing before the search starts, in milliseconds."""


def shortcuts() -> tuple[tuple[str, str], ...]:
    """Keys and what they do."""
    pages = ((", ".join(page_keys(name)), say(page.name)) for name, page in PAGES.items() if page_keys(name))
    return (*pages, *((actions.keys_shown(name), actions.words(name)) for name in actions.ACTIONS if actions.keys_of(name)))


class HelpWindow(OrderedDialog):
    """A window beside the main one. pictures_folder: where pictures go now, None for the usual place."""

    def __init__(self, parent: QWidget, pictures_folder: Callable[[], str | None]) -> None:
        super().__init__(parent)
        self._pictures_folder = pictures_folder
        self._chapters: tuple[guide.Chapter, ...] = ()
        self._hits: tuple[guide.Hit, ...] = ()
        self._words: tuple[str, ...] = ()
        self._topic = guide.TOPICS[0]
        self.entries: dict[str, NavButton] = {}
        """Entries of the list by topic; those of sections that were found by "topic 3"."""
        self._group = QButtonGroup(self)
        self._wait = QTimer(self)
        self._wait.setSingleShot(True)
        self._wait.setInterval(_PAUSE_MS)
        self._wait.timeout.connect(self.look)
        self.view = GuideView()
        self.view.anchorClicked.connect(self._follow)
        line = row(self._left(), self.view, spacing=0)
        line.setStretch(1, 1)
        self.setLayout(line)
        self.resize(1000, 720)
        self.setMinimumSize(720, 420)
        QShortcut(QKeySequence.StandardKey.Find, self).activated.connect(self.search.setFocus)
        theme.watcher().changed.connect(self._redress)
        self.speak()

    def _left(self) -> QWidget:
        self.search = QLineEdit()
        show_clear(self.search)
        self.search.textChanged.connect(lambda _words: self._wait.start())
        self.search.returnPressed.connect(self.next_hit)
        self.count = label("", "caption", "muted", numbers=True)
        self.before = icon_button("chevron-up", "", size=14, clicked=lambda: self.next_hit(forward=False))
        self.after = icon_button("chevron-down", "", size=14, clicked=self.next_hit)
        self._found = QWidget()
        self._found.setLayout(row(self.count, -1, self.before, self.after, spacing=2, margins=(18, 0, 12, 0)))
        inside = QWidget()
        self._list = QVBoxLayout(inside)
        self._list.setContentsMargins(8, 0, 10, 8)
        self._list.setSpacing(2)
        self._foot = label("", "caption", "muted", wrap=True)
        self._foot.setContentsMargins(18, 8, 14, 12)
        side = surface("plain", "right")
        side.setFixedWidth(_SIDE)
        field = row(self.search, margins=(12, 14, 12, 4))
        side.setLayout(column(field, self._found, 4, scrolling(inside), self._foot, spacing=0))
        return side

    # --- words ------------------------------------------------------------------------------------------------------

    def speak(self) -> None:
        """Say everything in the language that is now in force."""
        self.setWindowTitle(tr("Halftone help"))
        self.search.setPlaceholderText(tr("Search the guide"))
        self.search.setAccessibleName(tr("Search the guide"))
        for made, words in ((self.before, tr("Previous match")), (self.after, actions.with_keys(tr("Next match"), "Enter"))):
            made.setToolTip(words)
            made.setAccessibleName(words)
        self._foot.setText(tr("Halftone {0}. Nothing leaves this computer.", __version__))
        if self.isVisible():  # else chapters are laid out once it is shown
            self._read()
            self.look()

    def _read(self) -> None:
        kept = guide.parsed(SHORTCUTS, _shortcuts_page()), guide.parsed(PLACES, _places_page(self._pictures_folder()))
        self._chapters = (*guide.chapters(language()), *kept)

    def _redress(self) -> None:
        """Show the chapter in the colours of another theme, at the place that is read and with the hit that was gone to."""
        if self.isVisible():
            self.view.show_chapter_again(self._chapter(self._topic), self._words)

    # --- chapters ---------------------------------------------------------------------------------------------------

    def show_topic(self, topic: str) -> None:
        """Show the window at a chapter."""
        self._read()  # the folder of pictures may be another one now
        self._turn_to(topic)
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _turn_to(self, topic: str) -> None:
        """Show a chapter and end the search."""
        self.search.clear()
        self._topic = topic
        self.look()

    @property
    def topic(self) -> str:
        """The chapter that is shown."""
        return self._topic

    def _show(self, topic: str, section: int | None = None) -> None:
        self._topic = topic
        self.view.show_chapter(self._chapter(topic), self._words)
        if section is not None:
            self.view.go_to_heading(section)
        entry = self.entries.get(f"{topic} {section}", self.entries.get(topic))
        if entry is not None:
            entry.setChecked(True)

    def _chapter(self, topic: str) -> guide.Chapter:
        return next(one for one in self._chapters if one.topic == topic)

    def _follow(self, url: QUrl) -> None:
        topic = guide.linked_topic(url.toString())
        if topic is not None:
            self._turn_to(topic)
        elif url_is_outside(url):
            QDesktopServices.openUrl(url)

    # --- search -----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """List the chapters, or where they hold the words in the search field; the first such place is shown."""
        self._wait.stop()
        self._hits = guide.search(self._chapters, self.search.text())
        self._words = guide.searched(self.search.text())
        total = sum(hit.count for hit in self._hits)
        self._found.setVisible(bool(self._words))
        self.before.setEnabled(bool(total))
        self.after.setEnabled(bool(total))
        self.count.setText(_hits_words(total))
        self._fill()
        if not self._hits:
            self._show(self._topic)
            return
        here = next((hit for hit in self._hits if hit.chapter.topic == self._topic), self._hits[0])
        self._show(here.chapter.topic, here.section)

    def _fill(self) -> None:
        clear(self._list)
        self.entries = {}
        found = {hit.chapter.topic for hit in self._hits}
        for chapter in self._chapters:
            if self._hits and chapter.topic not in found:
                continue
            self._add(chapter.topic, NavButton(chapter.title, _ICONS[chapter.topic]), chapter.topic, None)
            for hit in self._hits:
                if hit.chapter.topic == chapter.topic and hit.section:
                    self._add_section(hit)
        self._list.addStretch(1)

    def _add_section(self, hit: guide.Hit) -> None:
        title = hit.chapter.sections[hit.section].title
        made = NavButton(title)
        made.setText("")
        made.setAccessibleName(tr("{0}, {1}", title, _hits_words(hit.count)))
        made.setToolTip(title)
        name = ElidedLabel(title, "small", "secondary")
        name.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        count = label(str(hit.count), "caption", "muted", numbers=True)
        count.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        line = row(name, count, spacing=6, margins=(34, 0, 8, 0))
        line.setStretch(0, 1)
        made.setLayout(line)
        made.setFixedHeight(theme.grown(26))
        self._add(f"{hit.chapter.topic} {hit.section}", made, hit.chapter.topic, hit.section)

    def _add(self, key: str, made: NavButton, topic: str, section: int | None) -> None:
        made.clicked.connect(lambda _on=False: self._show(topic, section))
        self._group.addButton(made)
        self.entries[key] = made
        self._list.addWidget(made)

    def next_hit(self, *, forward: bool = True) -> None:
        """Go to the next place, in the chapters after this one too, and from the last to the first."""
        if self._wait.isActive():
            self.look()
            return
        if not self._hits or self.view.go_to_mark(forward=forward):
            return
        topics = list(dict.fromkeys(hit.chapter.topic for hit in self._hits))
        here = topics.index(self._topic) if self._topic in topics else -1
        topic = topics[(here + (1 if forward else -1)) % len(topics)]
        self._show(topic)
        if not forward:
            self.view.go_to_end()
        self.view.go_to_mark(forward=forward)


def _hits_words(count: int) -> str:
    return tr("{0} matches", count, one="1 match") if count else tr("No matches.")


def _shortcuts_page() -> str:
    return _page(tr("Shortcuts"), (tr("Keys"), tr("Action")), [(f"`{keys}`", what) for keys, what in shortcuts()])


def _places_page(pictures_folder: str | None) -> str:
    folders = (
        (tr("Pictures"), pictures_folder or str(places.pictures_dir())),
        (tr("Settings"), str(places.settings_file().parent)),
        (tr("Checks, history, saved latents"), str(places.data_dir())),
        (tr("Logs"), str(places.log_dir())),
    )
    return _page(tr("Where files go"), (tr("What"), tr("Folder")), [(what, _folder_link(folder)) for what, folder in folders])


def _page(title: str, heads: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"# {title}", "", f"| {heads[0]} | {heads[1]} |", "|---|---|", *(f"| {left} | {right} |" for left, right in rows)]
    return "\n".join(lines)


def _folder_link(folder: str) -> str:
    """The folder's name, whatever letters it has, as a link that opens it."""
    shown = re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", echo(folder))
    address = bytes(QUrl.fromLocalFile(folder).toEncoded().data()).decode().replace("(", "%28").replace(")", "%29")
    return f"[{shown}]({address.replace('|', '%7C')})"
