"""The row that says what to set in ComfyUI, A1111 or diffusers, and saves the repaired file for them."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from halftone.contract.facts import CheckReport, ModelFacts
from halftone.contract.vocabulary import Layout, OtherProgram
from halftone.contract.wording import Words
from halftone.gui.health.folded_row import FoldedRow
from halftone.gui.health.health_view import HealthView
from halftone.gui.i18n import catalogue, tr
from halftone.gui.kit.stock_widgets import boxed, button, clear, column, fill, icon_button, label, row
from halftone.gui.kit.switches import Segmented
from halftone.health.other_programs import LAYOUTS, PROGRAM_NAMES, ToSet, export

_MEASURED = ("ok", "tight", "overflows", "cured", "broken")


class OtherProgramsRow(FoldedRow):
    """Shown once the model was checked."""

    save = Signal(object)
    """Asks for the repaired file in a layout."""

    def __init__(self, can_be_laid: Callable[[ModelFacts, Layout], bool]) -> None:
        """can_be_laid: whether a model's headers allow a layout."""
        self._can_be_laid = can_be_laid
        self._shown: tuple[CheckReport, OtherProgram] | None = None
        self._report: CheckReport | None = None
        self._busy = False
        self._program: OtherProgram = "comfyui"
        self.programs = Segmented(list(PROGRAM_NAMES.items()))
        self.programs.set_value(self._program)
        self.programs.chosen.connect(self._choose)
        self._rows = column(spacing=10)
        self.file = button(tr("Save repaired file…"), "", "save", clicked=lambda: self.save.emit(LAYOUTS[self._program]))
        inside = column(row(self.programs, -1), self._rows, row(self.file, -1), spacing=10, margins=(30, 0, 14, 6))
        super().__init__(tr("Use in another program…"), inside)
        self.head.setToolTip(tr("What to set there, so that this model works without Halftone."))

    def set_view(self, view: HealthView, *, busy: bool) -> None:
        """busy: a check or a copy of this model is under way."""
        self._report, self._busy = (view.report if view.state in _MEASURED else None), busy
        self.setVisible(self._report is not None)
        self._fill()

    def _choose(self, program: str) -> None:
        self._program = next(one for one in PROGRAM_NAMES if one == program)
        self._fill()

    def _fill(self) -> None:
        self.file.setEnabled(not self._busy)
        report = self._report
        if report is None or self._shown == (report, self._program):
            return
        self._shown = report, self._program
        found = export(report, self._program)
        clear(self._rows)
        fill(self._rows, *map(_entry, found.settings))
        notes = [note.text(catalogue()) for note in found.notes]
        fill(self._rows, *(label(words, "small", "secondary", wrap=True) for words in notes))
        self.file.setVisible(found.rescale and self._can_be_laid(report.model, LAYOUTS[self._program]))
        one_file = LAYOUTS[self._program] == "file"
        tip = tr("One .safetensors file that needs no setting.") if one_file else tr("A folder that needs no setting.")
        self.file.setToolTip(tip)


def _entry(one: ToSet) -> QWidget:
    """Where to set it and for which parts; below it what to write there."""
    where = label(Words("{0}, {1}: {2}", (one.app, one.where, one.parts)).text(catalogue()), "small", "secondary", wrap=True)
    instead = [label(tr("Or:"), "small", "secondary"), _value(one.instead)] if one.instead else []
    return boxed(column(where, _value(one.value), *instead, spacing=1))


def _value(words: str) -> QWidget:
    shown = label(words, "mono", wrap=True)
    shown.setMinimumWidth(1)  # a long path must not widen the page
    shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    copy = icon_button("copy", tr("Copy"), clicked=lambda: QGuiApplication.clipboard().setText(words))
    return boxed(row(column(copy, -1), shown, spacing=8, stretch=1))
