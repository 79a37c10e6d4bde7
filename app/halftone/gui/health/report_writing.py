"""Writes the repaired copy of a model and the report of its check; progress shows below the cures."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from halftone.contract.facts import CheckReport, ModelFacts
from halftone.contract.messages import Repair
from halftone.contract.vocabulary import Layout
from halftone.gui.controller import Controller
from halftone.gui.health import file_dialogs, report_export
from halftone.gui.health.finding_and_cure_cards import CureCard
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.text import problem
from halftone.session.events import Noted
from halftone.session.state import Ended, Job


class Writing(QObject):
    """Write files about the model and the report that the page shows."""

    def __init__(
        self,
        page: QWidget,
        controller: Controller,
        cure: CureCard,
        model: Callable[[], ModelFacts | None],
        report: Callable[[], CheckReport | None],
    ) -> None:
        super().__init__(page)
        self._page, self._controller, self._cure = page, controller, cure
        self._model, self._report = model, report
        self._notes: dict[str, str] = {}

    def ended(self, ended: Ended, command: Repair) -> None:
        """Writing a copy is over."""
        self._notes[command.model] = file_dialogs.copy_words(ended)
        if ended.outcome == "done":
            self._say_saved(Path(command.output), self._notes[command.model])

    def job(self) -> Job | None:
        """Return the job that writes, or waits to write, a copy of the model."""
        model = self._model()
        jobs = self._controller.state.jobs
        return next(
            (job for job in jobs if model is not None and isinstance(job.command, Repair) and job.model == model.id), None
        )

    def show(self) -> None:
        """How far a copy is, or what was written last."""
        model, job = self._model(), self.job()
        if job is not None:
            share = "" if job.fraction is None else f" {round(job.fraction * 100)}{figures.HARD}%"
            self._cure.set_note(tr("Writing the repaired copy…") + share, cancel=True)
        else:
            self._cure.set_note(self._notes.get(model.id if model is not None else "", ""), cancel=False)

    def ask_copy(self, layout: Layout | None = None) -> None:
        """Ask where to save the repaired copy, never over an existing file. layout: None for the model's own."""
        model = self._model()
        if model is None:
            return
        place, kind, ending = file_dialogs.copy_place(model, layout)
        save = partial(self.save_copy, layout=layout)
        file_dialogs.ask_save(self._page, tr("Save repaired copy"), place, kind, ending, save)

    def save_copy(self, path: str, layout: Layout | None = None) -> None:
        """Begin to write one."""
        model = self._model()
        if model is not None:
            self._notes.pop(model.id, None)
            self._controller.session.checks.repair(model, path, layout=layout)

    def ask_export(self) -> None:
        """Ask where to save the report."""
        report = self._report()
        if report is None:
            return
        place = Path.home() / f"{file_dialogs.report_name(report)}.html"
        file_dialogs.ask_save(self._page, tr("Export report"), place, tr("Report (*.html)"), "html", self.export)

    def export(self, path: str) -> None:
        """Write the page that a browser shows, and the data beside it."""
        report = self._report()
        if report is None:
            return
        name, tested = report.model.id, self._controller.state.self_test
        self._controller.background.run(
            lambda: report_export.save(report, tested, Path(path)),
            lambda files: self._exported(name, *files),
            lambda error: self._note(name, tr("Could not save: {0}.", problem(error))),
        )

    def _exported(self, model: str, page: Path, data: Path) -> None:
        words = tr("Report saved: {0} and {1}.", page.name, data.name)
        self._note(model, words)
        self._say_saved(page, words)

    def _say_saved(self, file: Path, words: str) -> None:
        """A message as well: the note below the cures may be out of sight."""
        self._controller.take(Noted(kind="saved", facts=(file.name, str(file), words)))

    def _note(self, model: str, words: str) -> None:
        """Show a note below the cures of this model, until a newer one."""
        self._notes[model] = words
        self.show()

    def cancel(self) -> None:
        """Stop writing the copy."""
        job = self.job()
        if job is not None:
            self._controller.session.queue.cancel(job.id)
