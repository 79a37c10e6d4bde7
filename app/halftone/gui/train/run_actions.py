"""What Train does with a run beside training: export it as a page, copy details, show a test picture large."""

from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QWidget

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import ModelFacts
from halftone.contract.training import Caught, TrainReport
from halftone.gui.controller import Controller
from halftone.gui.create.picture.full_screen import FullScreen
from halftone.gui.create.picture.picture_report import copy_details
from halftone.gui.health import file_dialogs
from halftone.gui.i18n import catalogue, language, tr
from halftone.gui.text import problem
from halftone.gui.train.caught_card import details_text
from halftone.health.reports.report_page import Language
from halftone.health.training.training_export import as_html
from halftone.session.events import Noted
from halftone.settings.atomic import write_atomically


class TrainActs(QObject):
    """owner: the page, over which dialogs open."""

    def __init__(self, owner: QWidget, controller: Controller) -> None:
        super().__init__(owner)
        self._owner = owner
        self._controller = controller
        self._training = controller.session.training

    def ask_export(self) -> None:
        """Ask where to save the run's report."""
        record = self._training.run.record
        if record is not None:
            place = Path.home() / f"{record.config.name}.html"
            file_dialogs.ask_save(self._owner, tr("Export report"), place, tr("Report (*.html)"), "html", self.export)

    def export(self, path: str) -> None:
        """Write the run as one page."""
        run, control = self._training.run, self._controller
        if run.record is None:
            return
        report = run.end.report if run.end is not None and isinstance(run.end.report, TrainReport) else None
        own = Language(catalogue(), "zh-CN" if language() == "zh_CN" else "en")
        page = as_html(run.record, report, own).encode()
        file = Path(path)
        notice = Noted(kind="saved", facts=(file.name, str(file)))
        control.background.run(
            lambda: write_atomically(file, page),
            lambda _done: control.take(notice),
            lambda error: control.take(Noted(kind="not-written", facts=(problem(error),))),
        )

    def copy(self, caught: Caught) -> None:
        """Details of what was stopped, as text."""
        self._to_clipboard(details_text(caught, copy_details(None, self._model(), self._controller.state.device)))

    def copy_error(self, error: ErrorFacts) -> None:
        """Details of what a training failed with, as text."""
        self._to_clipboard(copy_details(None, self._model(), self._controller.state.device, error))

    def _to_clipboard(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self._controller.take(Noted(kind="copied"))

    def _model(self) -> ModelFacts | None:
        """That of the newest training."""
        used = self._training.run.record.config.model if self._training.run.record is not None else ""
        return next((model for model in self._controller.models if model.id == used), None)

    def open_picture(self, path: str) -> None:
        """Show a test picture on the whole screen; it is read in the background."""
        self._controller.background.run(lambda: QImage(path), self._opened, receiver=self)

    def _opened(self, image: QImage) -> None:
        if not image.isNull():
            FullScreen(image, self._owner.window()).showFullScreen()
