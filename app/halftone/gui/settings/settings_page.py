"""The Settings page: navigation on the left, one section on the right. Every row acts at once."""

from typing import cast

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QFrame, QScrollArea, QStackedWidget

from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.gui.kit.navigation import NavButton, guide_button
from halftone.gui.kit.page_base import Page
from halftone.gui.kit.stock_widgets import boxed, column, label, row, scrolling, surface
from halftone.gui.settings.numerics_section import NumericsSection
from halftone.gui.settings.program_section import AboutSection, ProgramSection

SECTIONS = (
    ("General", "sliders-horizontal"),
    ("Appearance", "palette"),
    ("Folders", "folder"),
    ("Numerics", "activity"),
    ("About", "info"),
)


Section = ProgramSection | NumericsSection | AboutSection


class SettingsPage(Page):
    """Opens at the first section. `section_shown`: the English name of the one that is shown."""

    section_shown = Signal(str)

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._sections: dict[str, Section] = {}
        self._scrolls: dict[str, QScrollArea] = {}
        self._stack = QStackedWidget()
        self.nav: dict[str, NavButton] = {}
        self._side = self._navigation()
        self.setLayout(row(self._side, self._stack, spacing=0, stretch=1))
        self.follow(controller.changed, controller.settings_changed, controller.badges_changed)
        self.show_section(SECTIONS[0][0])

    def section(self, name: str) -> Section:
        """Make a section when it is first wanted: they hold most of the page's widgets."""
        if name not in self._sections:
            match name:
                case "Numerics":
                    made: Section = NumericsSection(self._controller)
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
        body = column(head, 8, spacing=2, margins=(8, 16, 8, 16))
        for name, icon in SECTIONS:
            made = NavButton(tr(name), icon)
            made.clicked.connect(lambda _on=False, section=name: self.show_section(section))
            group.addButton(made)
            self.nav[name] = made
            body.addWidget(made)
        body.addStretch(1)
        side.setLayout(body)
        side.setFixedWidth(208)
        return side

    def show_section(self, name: str) -> None:
        """Show one section by its English name."""
        self.section(name)
        self._stack.setCurrentWidget(self._scrolls[name])
        self.nav[name].setChecked(True)
        self.section_shown.emit(name)
        self.refresh()

    @property
    def numerics(self) -> NumericsSection:
        return cast("NumericsSection", self.section("Numerics"))

    def _show(self) -> None:
        for section in self._sections.values():
            section.refresh()

    def _arrange(self, narrow: bool) -> None:
        self._side.setFixedWidth(160 if narrow else 208)
        for section in self._sections.values():
            section.set_narrow(narrow=narrow)
