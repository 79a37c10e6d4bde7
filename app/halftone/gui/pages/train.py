"""The Train page: teach a model a style, and stop a bad number before it does harm."""

import time
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QImage, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from halftone.contract.facts import ModelFacts
from halftone.contract.training import Caught, TrainReport
from halftone.gui import reasons
from halftone.gui.control.training_pictures import PictureCheck
from halftone.gui.controller import Controller
from halftone.gui.i18n import language, tr
from halftone.gui.own_events import Noted
from halftone.gui.pages import health_files
from halftone.gui.pages.create_full import FullScreen
from halftone.gui.pages.health_style import apply_style
from halftone.gui.pages.page import NARROW, Page
from halftone.gui.pages.train_begin import EmptyTrain
from halftone.gui.pages.train_caught import CaughtCard, details_text
from halftone.gui.pages.train_check import CheckView, found_words, used
from halftone.gui.pages.train_form import TrainForm
from halftone.gui.pages.train_notes import RunNotes
from halftone.gui.pages.train_pictures import WIDTH as PICTURES_WIDTH
from halftone.gui.pages.train_pictures import PicturesColumn
from halftone.gui.pages.train_run import ChartCard, EventList, RunHeader, notice
from halftone.gui.pages.train_setup import WIDTH as SETUP_WIDTH
from halftone.gui.pages.train_setup import TrainSetup
from halftone.gui.picture_report import copy_details
from halftone.gui.text import error_sentence
from halftone.gui.widgets import figures
from halftone.gui.widgets.common import clear, column, scrolling
from halftone.gui.widgets.splitter import LineSplitter
from halftone.health.report import Language
from halftone.health.training_export import as_html
from halftone.health.training_record import RunRecord
from halftone.library.loras import lora_folders
from halftone.library.training_runs import BrokenRun
from halftone.settings import places
from halftone.settings.atomic import write_atomically

REFRESH_MS = 100


class TrainPage(Page):
    """`try_wanted` carries the file of a LoRA that is to be used in Create."""

    try_wanted = Signal(str)

    def __init__(self, controller: Controller, parent: QWidget | None = None) -> None:
        super().__init__(REFRESH_MS, parent)
        self._controller = controller
        self.training = controller.training
        self._narrow: bool | None = None
        self._picked = "chart"
        self._hidden = False
        self._offered: tuple[BrokenRun, ...] = ()
        self._followed: RunRecord | None = None
        self.form = TrainForm(self._output)
        self.setup = TrainSetup(self.form)
        self.pictures = PicturesColumn()
        self.empty = EmptyTrain()
        self.check = PictureCheck(controller.background, self)
        self.checked = CheckView()
        self.header = RunHeader()
        self.notes = RunNotes()
        self.card = CaughtCard()
        self.chart = ChartCard()
        self.events = EventList()
        self._build()
        self._connect()
        self.setAcceptDrops(True)
        apply_style(self)
        self._restore()
        self.refresh()

    # --- layout -----------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        inside = QWidget()
        lines = column(self.notes, self.card, self.chart, self.events, spacing=10, margins=(16, 0, 16, 14))
        lines.setStretch(2, 1)
        inside.setLayout(lines)
        self._scroll = scrolling(inside)
        self._views = QStackedWidget()
        self._views.addWidget(self._scroll)
        self._run = QWidget()
        head = QWidget()
        head.setLayout(column(self.header, margins=(16, 12, 16, 10)))
        layout = column(head, self._views, spacing=0)
        layout.setStretch(1, 1)
        self._run.setLayout(layout)
        self.centre = QStackedWidget()
        self.centre.addWidget(self.empty)
        self.centre.addWidget(self.checked)
        self.centre.addWidget(self._run)
        self.centre.setMinimumWidth(360)
        self._offer = QVBoxLayout()
        self._offer.setContentsMargins(16, 0, 16, 0)
        middle = QWidget()
        middle.setLayout(column(self._offer, self.centre, spacing=0))
        self.splitter = LineSplitter()
        for part in (self.setup, middle, self.pictures):
            self.splitter.addWidget(part)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.set_defaults([SETUP_WIDTH, 936, PICTURES_WIDTH])
        self.splitter.restore_defaults()
        self.setLayout(column(self.splitter))

    def _connect(self) -> None:
        control = self._controller
        control.job_ended.connect(lambda _ended: self._look_for_broken())
        self.follow(control.changed, control.models_changed, control.training.changed)
        self.form.changed.connect(self._form_changed)
        self.setup.start.connect(self.start)
        self.setup.hold.connect(self.training.hold)
        self.setup.keep.connect(self.training.keep)
        self.setup.withdraw.connect(self.training.withdraw)
        self.empty.choose.connect(self.form.ask_pictures)
        self.check.changed.connect(self.soon)
        self.checked.again.connect(self.check.again)
        self.checked.left_out.connect(self.form.leave_out)
        self.notes.go_on.connect(self.training.go_on)
        self.notes.try_wanted.connect(self.try_wanted)
        self.header.chosen.connect(self._choose_view)
        self.header.export.connect(self.ask_export)
        self.card.acted.connect(self._act)
        self.card.left_out.connect(self._leave_out)
        self.events.chosen.connect(self.training.look_at)
        self.chart.chart.event_chosen.connect(self.training.look_at)
        self.pictures.opened.connect(self.open_picture)
        self.pictures.hidden.connect(lambda: self._hide_pictures(True))

    def _restore(self) -> None:
        """What stood here when the window was closed, or before the language changed."""
        left = self.training.draft or self._controller.settings.train
        if left:
            self.form.restore(left)

    def _output(self) -> str:
        """Where LoRAs are saved that nobody chose a folder for: where Create looks for them."""
        folders = lora_folders(self._controller.settings)
        return folders[0] if folders else str(places.data_dir() / "loras")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Below 1180 the test pictures are a view of the centre; else a column of their own."""
        narrow = self.width() < NARROW
        if narrow != self._narrow:
            self._narrow = narrow
            self.header.set_narrow(narrow)
            self.pictures.set_closable(not narrow)
            if narrow:
                self._views.addWidget(self.pictures)
            else:
                self.splitter.addWidget(self.pictures)
                self.splitter.restore_defaults()
        self._choose_view(self._picked)
        self._show_column()

    def _choose_view(self, view: str) -> None:
        self._picked = view
        self.header.views.set_value(view)
        self._views.setCurrentWidget(self.pictures if self._narrow and view == "pictures" else self._scroll)

    def _hide_pictures(self, on: bool) -> None:
        self._hidden = on
        self._show_column()

    def _show_column(self) -> None:
        if not self._narrow:
            self.pictures.setVisible(self.training.record is not None and not self._hidden)

    # --- what is known ----------------------------------------------------------------------------------------------

    def _show(self) -> None:
        training, control = self.training, self._controller
        self.form.show_models(control.models, control.settings.last_model)
        self.tick(training.running)
        if training.record is not None and training.record is not self._followed:
            self._followed = training.record
            self.form.take(training.record.config)
        self._look(control.models)
        self.setup.show_training(training, self._found(), self.form.problem() or self._none_used())
        self.centre.setCurrentWidget(self._view())
        self._show_column()
        self._show_broken()
        if training.record is None:
            return
        self.header.show_training(training)
        self.chart.chart.follow(training.record)
        self.events.show_events(training.record.caught)
        self.pictures.show_pictures(tuple(training.shown))
        self._show_card()
        self.notes.show_training(training, training.record)

    def _look(self, models: Sequence[ModelFacts]) -> None:
        """Have the folder read, and show what was found in it."""
        if self.training.job is not None:
            return
        config = self.form.config()
        self.check.look(config, next((model for model in models if model.id == config.model), None))
        found = found_words(self.check.pictures) if self.check.pictures is not None else ""
        self.form.pictures.show_words(found if config.pictures else "")
        self.checked.show_check(self.check, config.pictures, config.left_out)

    def _view(self) -> QWidget:
        """The newest training; what was chosen for another one; else an invitation."""
        record, chosen = self.training.record, self.form.pictures.value()
        if record is not None and (self.training.job is not None or chosen in ("", record.config.pictures)):
            return self._run
        return self.checked if chosen else self.empty

    def _none_used(self) -> str:
        """Why the chosen pictures cannot be trained on."""
        if self.check.error is not None:
            return error_sentence(self.check.error)
        if self.check.busy:
            return tr("Looking at the pictures…")
        pictures = self.check.pictures
        if pictures is not None and not used(pictures, self.form.config().left_out):
            return tr("None of these pictures can be used.")
        return ""

    def _found(self) -> str:
        """What the training at hand found in its folder."""
        begins = self.training.record.begins if self.training.record is not None else None
        return "" if begins is None or self.training.job is None else found_words(begins.pictures)

    def _look_for_broken(self) -> None:
        self.check.look_for_broken(self.form.config().output)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._look_for_broken()

    def _show_broken(self) -> None:
        """Offer to go on with a run that was broken off, while nothing is trained."""
        now = self.training.folder
        known = now if self.training.end is not None else ""
        found = tuple(run for run in self.check.broken if run.folder != known)[:1] if self.training.job is None else ()
        if found == self._offered:
            return
        self._offered = found
        clear(self._offer)
        self._offer.setContentsMargins(16, 12 if found else 0, 16, 0)
        for run in found:
            done, total = (figures.group(number) for number in (run.step, run.config.steps))
            words = tr("“{0}” was broken off; step {1} of {2} is saved.", run.config.name, done, total)
            go_on = (tr("Go on"), "primary", lambda run=run: self._go_on(run))
            leave = (tr("Not now"), "link", lambda run=run: self.check.forget_broken(run.folder))
            self._offer.addWidget(notice("info", "info", words, leave, go_on))

    def _go_on(self, run: BrokenRun) -> None:
        self.form.take(run.config)
        self.training.start(run.config, run.folder)

    def _show_card(self) -> None:
        """The newest bad number that was not looked at, or the one that the training waits for."""
        record = self.training.record
        assert record is not None
        asks = self.training.asking
        caught = record.asks if asks else self.training.open[-1] if self.training.open else None
        if caught is None:
            self.card.hide()
            return
        saved = record.saved.step if record.saved is not None else None
        heard = self.training.heard.get((caught.step, caught.name))
        seconds = time.monotonic() - heard if heard is not None else None
        self.card.show_caught(caught, asks=asks, saved=saved, seconds=seconds, running=self.training.running)

    # --- deeds ------------------------------------------------------------------------------------------------------

    def _form_changed(self) -> None:
        self.training.draft = self.form.kept()
        self.soon()

    def start(self) -> None:
        """Queue the training, unless something is missing."""
        if not self.form.problem():
            self.training.start(self.form.config())

    def _act(self, key: str) -> None:
        caught = self.card.caught
        if caught is None:
            return
        match key:
            case "copy":
                self._copy(caught)
            case "keep-cure":
                self.training.decide("keep-cure")
                self.training.dismiss(caught)
            case "float32-block":
                self.training.decide("float32-block")
                self.training.dismiss(caught)
            case "stop":
                self.training.decide("stop")
                self.training.dismiss(caught)
            case _:
                self.training.dismiss(caught)

    def _leave_out(self, name: str) -> None:
        if self.card.caught is not None:
            self.training.decide("leave-out", name)
            self.training.dismiss(self.card.caught)

    def _copy(self, caught: Caught) -> None:
        control = self._controller
        used = self.training.record.config.model if self.training.record is not None else ""
        model = next((model for model in control.models if model.id == used), None)
        versions = copy_details(None, model, control.state.device)
        QGuiApplication.clipboard().setText(details_text(caught, versions))
        control.take(Noted(kind="copied"))

    def open_picture(self, path: str) -> None:
        """Show a test picture on the whole screen; it is read in the background."""
        self._controller.background.run(lambda: QImage(path), self._opened, receiver=self)

    def _opened(self, image: QImage) -> None:
        if not image.isNull():
            FullScreen(image, self.window()).showFullScreen()

    def ask_export(self) -> None:
        """Where the page of the run goes."""
        record = self.training.record
        if record is not None:
            place = Path.home() / f"{record.config.name}.html"
            health_files.ask_save(self, tr("Export this run"), place, tr("Report (*.html)"), "html", self.export)

    def export(self, path: str) -> None:
        """Write the run as one page."""
        training, control = self.training, self._controller
        if training.record is None:
            return
        report = training.end.report if training.end is not None and isinstance(training.end.report, TrainReport) else None
        own = Language(tr, str, "zh-CN" if language() == "zh_CN" else "en")
        page = as_html(training.record, report, own).encode()
        file = Path(path)
        said = Noted(kind="saved", facts=(file.name, str(file)))
        control.background.run(
            lambda: write_atomically(file, page),
            lambda _done: control.take(said),
            lambda error: control.take(Noted(kind="not-written", facts=(reasons.problem(error),))),
        )

    # --- dropped folders --------------------------------------------------------------------------------------------

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if self.training.job is None and _folder_of(event):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        if folder := _folder_of(event):
            self.form.choose_pictures(folder)
            event.acceptProposedAction()


def _folder_of(event: QDropEvent) -> str:
    """The folder that is dropped, or that of the file; "" of anything else."""
    for url in event.mimeData().urls():
        if url.isLocalFile():
            path = Path(url.toLocalFile())
            return str(path if path.is_dir() else path.parent)
    return ""
