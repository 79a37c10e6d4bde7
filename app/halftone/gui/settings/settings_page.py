"""The Settings page: navigation on the left, one section on the right. Every row acts at once."""

from functools import partial
from typing import cast

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QApplication, QButtonGroup, QFrame, QLineEdit, QScrollArea, QStackedWidget

from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.gui.kit.actions import add_shortcut, keys_of, tip
from halftone.gui.kit.navigation import NavButton, guide_button
from halftone.gui.kit.page_base import Page
from halftone.gui.kit.stock_widgets import boxed, clear, column, label, row, scrolling, show_clear, surface
from halftone.gui.settings.numerics_section import NumericsSection
from halftone.gui.settings.program_section import AboutSection, ProgramSection
from halftone.gui.settings.setting_rows import SettingRow
from halftone.gui.settings.shortcuts_section import ShortcutsSection, all_shortcuts
from halftone.gui.settings.updates_section import UpdatesSection
from halftone.settings.search import Entry, declared_entries, find

SECTIONS = (
    ("General", "sliders-horizontal"),
    ("Appearance", "palette"),
    ("Notifications", "bell"),
    ("Shortcuts", "keyboard"),
    ("Folders", "folder"),
    ("Numerics", "activity"),
    ("Updates", "refresh-cw"),
    ("About", "info"),
)


Section = ProgramSection | NumericsSection | ShortcutsSection | UpdatesSection | AboutSection
_SIDE = 208
_NARROW_SIDE = 160
_MOST_HITS = 12


def entries() -> tuple[Entry, ...]:
    """Everything that the search knows: the declared settings and the shortcuts."""
    return (
        *declared_entries(),
        *(Entry("Shortcuts", name, words, (", ".join(keys), "hotkey key binding")) for name, words, keys in all_shortcuts()),
    )


class SettingsPage(Page):
    """Opens at the first section. `section_shown`: the English name of the one that is shown."""

    section_shown = Signal(str)

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._sections: dict[str, Section] = {}
        self._scrolls: dict[str, QScrollArea] = {}
        self._stack = QStackedWidget()
        self._hits: tuple[Entry, ...] = ()
        self.nav: dict[str, NavButton] = {}
        self._side = self._navigation()
        self.setLayout(row(self._side, self._stack, spacing=0, stretch=1))
        self.follow(controller.changed, controller.settings_changed, controller.badges_changed, controller.updates_changed)
        self.show_section(SECTIONS[0][0])

    def section(self, name: str) -> Section:
        """Make a section when it is first wanted: they hold most of the page's widgets."""
        if name not in self._sections:
            match name:
                case "Numerics":
                    made: Section = NumericsSection(self._controller)
                case "Shortcuts":
                    made = ShortcutsSection(self._controller)
                case "Updates":
                    made = UpdatesSection(self._controller)
                case "About":
                    made = AboutSection(self._controller)
                case _:
                    made = ProgramSection(self._controller, name)
            self._sections[name], self._scrolls[name] = made, scrolling(boxed(column(made, margins=(20, 12, 20, 12))))
            if self._narrow is not None:
                made.set_narrow(narrow=self._narrow)
            self._stack.addWidget(self._scrolls[name])
        return self._sections[name]

    def _navigation(self) -> QFrame:
        side = surface("plain", "right")
        group = QButtonGroup(side)
        self.guide_button = guide_button()
        self.guide_button.clicked.connect(self._controller.guide_requested)
        head = row(label(tr("Settings"), "heading-s"), -1, self.guide_button, margins=(10, 0, 4, 0))
        self.search = QLineEdit()
        self.search.setFont(theme.current().font("body"))
        self.search.setPlaceholderText(tr("Search settings"))
        self.search.setAccessibleName(tr("Search settings"))
        self.search.setToolTip(tip("search", tr("Titles, sentences, flags and A1111's names")))
        show_clear(self.search)
        self.search.textChanged.connect(self._search)
        self.search.returnPressed.connect(self._open_first)
        add_shortcut(self, self.focus_search, *keys_of("search"))
        self._found = column(spacing=2)
        self._results = boxed(self._found)
        self._results.hide()
        body = column(head, 8, self.search, 6, spacing=2, margins=(8, 16, 8, 16))
        for name, icon in SECTIONS:
            made = NavButton(tr(name), icon)
            made.clicked.connect(lambda _on=False, section=name: self.show_section(section))
            group.addButton(made)
            self.nav[name] = made
            body.addWidget(made)
        body.addStretch(1)
        body.insertWidget(body.count() - 1, self._results)
        side.setLayout(body)
        side.setFixedWidth(theme.grown(_SIDE))
        return side

    def show_section(self, name: str) -> None:
        """Show one section by its English name."""
        self.section(name)
        self._stack.setCurrentWidget(self._scrolls[name])
        self.nav[name].setChecked(True)
        self.section_shown.emit(name)
        self.refresh()

    # --- search -----------------------------------------------------------------------------------------------------

    def focus_search(self) -> None:
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def _search(self, text: str) -> None:
        clear(self._found)
        wanted = bool(text.strip())
        self._hits = find(text, entries(), lambda words: (words, tr(words))) if wanted else ()
        for made in self.nav.values():
            made.setVisible(not wanted)
        for hit in self._hits[:_MOST_HITS]:
            made = NavButton(tr(hit.title), dict(SECTIONS)[hit.page])
            made.setCheckable(False)
            made.setToolTip(tr(hit.page))
            made.clicked.connect(partial(self.show_setting, hit))
            self._found.addWidget(made)
        if wanted and not self._hits:
            self._found.addWidget(label(tr("Nothing found"), "small", "muted"))
        self._results.setVisible(wanted)

    def _open_first(self) -> None:
        if self._hits:
            self.show_setting(self._hits[0])

    def show_setting(self, entry: Entry, _on: bool = False) -> None:
        """Show a setting's page, scroll to its row and mark it."""
        self.show_section(entry.page)
        one = self.section(entry.page).rows[entry.field]
        scroll = self._scrolls[entry.page]
        self.refresh()
        QTimer.singleShot(0, one, lambda: scroll.ensureWidgetVisible(one, 0, 60))
        for other in self._scrolls[entry.page].findChildren(SettingRow):
            other.set_found(found=other is one)

    def focused_field(self) -> str:
        """The field whose control has the focus, "" for none."""
        focus = QApplication.focusWidget()
        rows = next((one.rows for name, one in self._sections.items() if self.nav[name].isChecked()), {})
        return next((field for field, one in rows.items() if focus is not None and one.isAncestorOf(focus)), "")

    def focus_field(self, field: str) -> None:
        """Give the focus back to the control of a field of the page that is shown."""
        for name, section in self._sections.items():
            if self.nav[name].isChecked() and field in section.rows:
                section.rows[field].focus_control()
                self._scrolls[name].ensureWidgetVisible(section.rows[field])

    @property
    def numerics(self) -> NumericsSection:
        return cast("NumericsSection", self.section("Numerics"))

    def _show(self) -> None:
        for section in self._sections.values():
            section.refresh()

    def _arrange(self, narrow: bool) -> None:
        self._side.setFixedWidth(theme.grown(_NARROW_SIDE if narrow else _SIDE))
        for section in self._sections.values():
            section.set_narrow(narrow=narrow)
