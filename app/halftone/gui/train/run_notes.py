"""Cards above the chart of a training: what was foreseen, what could not be written, and how it ended."""

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from halftone.contract.training import Omen, TrainConfig, TrainReport
from halftone.gui.i18n import catalogue, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import clear, column
from halftone.gui.settings.folder_list import show_place
from halftone.gui.text import error_remedy, error_sentence
from halftone.gui.train.run_view import notice, omen_card
from halftone.health.training.training_record import RunRecord
from halftone.health.training.training_remedies import remedied
from halftone.health.training.training_sentences import REMEDIES, report_words, wider_words
from halftone.session.state import Ended
from halftone.session.training import Training


class RunNotes(QWidget):
    """`go_on`: from where it was saved; `try_wanted` carries the file of the LoRA."""

    go_on = Signal()
    try_wanted = Signal(str)
    folder_wanted = Signal()
    """Another one, to save in."""
    again = Signal(object)
    """Asks to restart the training with this TrainConfig."""

    def __init__(self) -> None:
        super().__init__()
        self._told: tuple[object, ...] = ()
        self._cards = column(spacing=10)
        self.setLayout(self._cards)

    def show_training(self, training: Training, record: RunRecord) -> None:
        omens = record.begins.omens if record.begins is not None and training.job is not None else ()
        wider = record.begins.wider if record.begins is not None else None
        known = (training.run.end, omens, wider, record.unsaved, record.no_picture)
        if known == self._told:
            return
        self._told = known
        clear(self._cards)
        if wider is not None:
            self._cards.addWidget(notice("warn", "info", wider_words(wider).text(catalogue())))
        for omen in omens:
            self._show_omen(omen, record.config)
        self._show_unsaved(record)
        if training.run.end is not None:
            self._show_end(training.run.end)
        self.setVisible(self._cards.count() > 0)

    def _show_omen(self, omen: Omen, config: TrainConfig) -> None:
        """Show a warning, with the first remedy that is a setting, to restart with."""
        found = remedied(omen, config)
        if found is None:
            self._cards.addWidget(omen_card(omen))
            return
        remedy, changed = found
        words = tr("Restart with {0}", REMEDIES[remedy].text(catalogue()))
        self._cards.addWidget(omen_card(omen, (words, "link", lambda: self.again.emit(changed))))

    def _show_unsaved(self, record: RunRecord) -> None:
        """Show what could not be written or made; the training continues."""
        if record.unsaved is not None:
            unsaved = tr("Step {0} was not saved. Halftone will retry.", figures.group(record.unsaved.step))
            words = sentences(unsaved, error_sentence(record.unsaved.error), error_remedy(record.unsaved.error))
            folder = (tr("Choose folder…"), "primary", self.folder_wanted.emit)
            self._cards.addWidget(notice("warn", "triangle-alert", words, folder))
        if record.no_picture is not None:
            words = sentences(tr("A test picture failed."), error_sentence(record.no_picture))
            self._cards.addWidget(notice("warn", "triangle-alert", words))

    def _show_end(self, end: Ended) -> None:
        if isinstance(end.report, TrainReport):
            self._show_done(end.report)
        elif end.outcome == "failed":
            why = sentences(error_sentence(end.error), error_remedy(end.error)) if end.error is not None else ""
            words = sentences(tr("Training stopped."), tr("Saved steps are kept."), why)
            self._cards.addWidget(notice("danger", "octagon-alert", words, (tr("Resume"), "primary", self.go_on.emit)))
        else:
            self._cards.addWidget(notice("unknown", "info", tr("Training stopped.")))

    def _show_done(self, report: TrainReport) -> None:
        whole = report.steps >= report.steps_wanted
        again = () if whole or not report.path else ((tr("Resume"), "link", self.go_on.emit),)
        tried = (tr("Try it in Create"), "primary", lambda: self.try_wanted.emit(report.path))
        show = (tr("Show file"), "link", lambda: show_place(Path(report.path).parent))
        icon, level = ("circle-check", "ok") if whole else ("square-check-big", "info")
        buttons = (*again, show, tried) if report.path else again
        saved = tr("Saved as {0}.", Path(report.path).name) if report.path else ""
        self._cards.addWidget(notice(level, icon, sentences(report_words(report).text(catalogue()), saved), *buttons))
        if report.not_kept:
            words = tr("Could not save the last state: {0}", error_sentence(report.not_kept))
            self._cards.addWidget(notice("danger", "octagon-alert", words))
