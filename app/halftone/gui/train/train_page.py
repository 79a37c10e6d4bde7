"""The Train page: teach a model a style, and stop a bad number before it does harm."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QShowEvent
from PySide6.QtWidgets import QMenu, QStackedWidget, QWidget

from halftone.contract.facts import ModelFacts
from halftone.contract.training import TrainConfig
from halftone.gui.controller import Controller
from halftone.gui.create.form.memory_estimate import ask
from halftone.gui.i18n import tr
from halftone.gui.kit.page_base import Page
from halftone.gui.kit.splitter import LineSplitter
from halftone.gui.kit.stock_widgets import boxed, column, scrolling
from halftone.gui.text import error_sentence
from halftone.gui.train.caught_card import CaughtCard
from halftone.gui.train.memory_line import shortage_words
from halftone.gui.train.picture_check import CheckView, found_words, used
from halftone.gui.train.preparation_view import PrepareView
from halftone.gui.train.resume_offers import TrainOffers, run_facts
from halftone.gui.train.run_actions import TrainActs
from halftone.gui.train.run_notes import RunNotes
from halftone.gui.train.run_view import ChartCard, EventList, RunHeader
from halftone.gui.train.setup_form import TrainForm, ask_folder
from halftone.gui.train.setup_panel import WIDTH as SETUP_WIDTH
from halftone.gui.train.setup_panel import TrainSetup
from halftone.gui.train.test_pictures import WIDTH as PICTURES_WIDTH
from halftone.gui.train.test_pictures import PicturesColumn
from halftone.gui.train.train_invitation import EmptyTrain
from halftone.health.training.training_record import RunRecord
from halftone.library.add_ons.loras import lora_folders
from halftone.library.training_data.training_runs import BrokenRun
from halftone.session.state import Preparation
from halftone.settings import places

REFRESH_MS = 100
_EARLIER = 20
"""Runs in the menu."""


class TrainPage(Page):
    """`try_wanted` carries the file of a LoRA that is to be used in Create."""

    try_wanted = Signal(str)

    def __init__(self, controller: Controller) -> None:
        super().__init__(REFRESH_MS)
        self._controller = controller
        self.training = controller.session.training
        self.acts = TrainActs(self, controller)
        self._picked = "chart"
        self._hidden = False
        self._followed: RunRecord | None = None
        self.form = TrainForm(self._output)
        self.setup = TrainSetup(self.form)
        self.pictures = PicturesColumn()
        self.empty = EmptyTrain()
        self._pictures_check = controller.session.training_pictures
        self.checked = CheckView()
        self._memory = controller.session.training_memory
        self.offers = TrainOffers()
        self.prepare = PrepareView()
        self.header = RunHeader()
        self.notes = RunNotes()
        self.card = CaughtCard()
        self.chart = ChartCard()
        self.events = EventList()
        self._build()
        self._connect()
        self.setAcceptDrops(True)
        self._restore()
        self.refresh()

    # --- layout -----------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        lines = column(
            self.notes, self.card, self.prepare, self.chart, self.events, spacing=10, margins=(16, 0, 16, 14), stretch=(2, 3)
        )
        self._scroll = scrolling(boxed(lines))
        self._views = QStackedWidget()
        self._views.addWidget(self._scroll)
        head = boxed(column(self.header, margins=(16, 12, 16, 10)))
        self._run = boxed(column(head, self._views, spacing=0, stretch=1))
        self.centre = QStackedWidget()
        self.centre.addWidget(self.empty)
        self.centre.addWidget(self.checked)
        self.centre.addWidget(self._run)
        self.centre.setMinimumWidth(360)
        lines = column(self.offers, self.centre, spacing=0, stretch=1)
        middle = boxed(lines)
        self.splitter = LineSplitter()
        for part in (self.setup, middle, self.pictures):
            self.splitter.addWidget(part)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.set_defaults([SETUP_WIDTH, 936, PICTURES_WIDTH])
        self.splitter.restore_defaults()
        self.setLayout(column(self.splitter))

    def _connect(self) -> None:
        control = self._controller
        control.job_ended.connect(self._look_for_broken)  # no lambda: the controller outlives a page
        self.follow(control.changed, control.models_changed)
        self.form.changed.connect(self._form_changed)
        self.setup.start.connect(self.start)
        self.setup.hold.connect(self.training.hold)
        self.setup.keep.connect(self.training.keep)
        self.setup.withdraw.connect(self.training.withdraw)
        self.empty.choose.connect(self.form.ask_pictures)
        self.checked.again.connect(self._pictures_check.again)
        self.checked.left_out.connect(self.form.leave_out)
        self.notes.go_on.connect(self.training.go_on)
        self.notes.try_wanted.connect(self._try)
        self.notes.folder_wanted.connect(lambda: ask_folder(self, tr("Save in"), self.training.save_in))
        self.notes.again.connect(self._begin_again)
        self.setup.earlier.connect(self._list_earlier)
        self.setup.guide_button.clicked.connect(self._controller.guide_requested)
        self.setup.memory.wanted.connect(lambda key, value: self.form.row(key).set_value(value))
        self.offers.go_on.connect(self._go_on)
        self.offers.leave.connect(lambda run: self._pictures_check.forget_broken(run.folder))
        self.offers.copy.connect(self.acts.copy_error)
        self.header.chosen.connect(self._choose_view)
        self.header.as_table.toggled.connect(self.chart.show_table)
        self.header.export.connect(self.acts.ask_export)
        self.card.acted.connect(self._act)
        self.card.left_out.connect(self._leave_out)
        self.events.chosen.connect(self.training.look_at)
        self.chart.chart.event_chosen.connect(self.training.look_at)
        self.pictures.opened.connect(self.acts.open_picture)
        self.pictures.hidden.connect(lambda: self._hide_pictures(True))

    def _restore(self) -> None:
        """What stood here when the window was closed, or before the language changed."""
        if (left := self._controller.state.training_draft) is not None:
            self.form.take(left)

    def _output(self) -> str:
        """Return the default folder for LoRAs, where Create looks for them."""
        folders = lora_folders(self._controller.settings)
        return folders[0] if folders else str(places.data_dir() / "loras")

    def _arrange(self, narrow: bool) -> None:
        """Below 1180 the test pictures are a view of the centre; else a column of their own."""
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
            record = self.training.run.record
            some = record is not None and bool(record.config.test_every or self.training.run.shown)
            self.pictures.setVisible(some and not self._hidden and self.centre.currentWidget() is self._run)

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def _known(self) -> Preparation:
        return self._controller.state.preparation

    def _show(self) -> None:
        training, control = self.training, self._controller
        self.form.show_models(control.models, control.settings.last_model)
        self.tick(training.running or bool(training.run.open))
        run, record = training.run, training.run.record
        if record is not None and record is not self._followed:
            self._followed = record
            self.form.take(record.config)
        self._look(control.models)
        self.setup.show_training(training, self._found(), self.form.problem() or self._none_used(), self._known.forecast)
        self.setup.earlier_button.setVisible(training.job is None and bool(self._known.earlier))
        self.centre.setCurrentWidget(self._view())
        self._show_column()
        self._show_offers()
        if record is None:
            return
        self.header.show_training(training)
        preparing = training.job is not None and record.begins is None
        self.prepare.setVisible(preparing)
        self.chart.setVisible(not preparing)
        if preparing and training.job is not None:
            self.prepare.show_job(training.job)
        self.chart.follow(record)
        self.events.show_events(record.caught)
        self.pictures.show_pictures(run.shown)
        self._show_card()
        self.notes.show_training(training, record)

    def _look(self, models: Sequence[ModelFacts]) -> None:
        """Have the folder read, and show what was found in it."""
        if self.training.job is not None:
            return
        config = self.form.config()
        model = next((model for model in models if model.id == config.model), None)
        self._pictures_check.look(config, model)
        if model is not None:
            self.form.suit(model)
        state = self._controller.state
        if state.device is not None:
            auto = self._controller.session.checks.precision_of(model, "auto")[0]
            self._memory.look(config, model, auto, state.device.backend, state.memory)
        found = found_words(self._known.pictures) if self._known.pictures is not None else ""
        self.form.pictures.show_words(found if config.pictures else "")
        self.checked.show_check(self._known, config)

    def _view(self) -> QWidget:
        """The newest training; what was chosen for another one; else an invitation."""
        record, chosen = self.training.run.record, self.form.pictures.value()
        here = record is not None and not self.training.run.refused and chosen in ("", record.config.pictures)
        if self.training.job is not None or here:
            return self._run
        return self.checked if chosen else self.empty

    def _none_used(self) -> str:
        """Why the chosen pictures cannot be trained on."""
        if self._known.error is not None:
            return error_sentence(self._known.error)
        if self._known.busy:
            return tr("Checking pictures…")
        pictures = self._known.pictures
        if pictures is not None and not used(pictures, self.form.config().left_out):
            return tr("No usable pictures.")
        return ""

    def _found(self) -> str:
        """What the training at hand found in its folder."""
        begins = self.training.run.record.begins if self.training.run.record is not None else None
        return "" if begins is None or self.training.job is None else found_words(begins.pictures)

    def _look_for_broken(self) -> None:
        self._pictures_check.look_for_broken(self.form.config().output)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._look_for_broken()

    def _show_offers(self) -> None:
        """While nothing is trained: why none could begin, and a run that was broken off."""
        training = self.training
        run = training.run
        idle, known = training.job is None, run.folder if run.end is not None else ""
        broken = next((run for run in self._known.broken if run.folder != known), None) if idle else None
        refused = run.end.error if idle and run.end is not None and run.refused else None
        self.offers.show_offers(broken, refused)

    def _list_earlier(self) -> None:
        """Open a menu of runs that can be resumed."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for run in self._known.earlier[:_EARLIER]:
            words = tr("{0}, step {1} of {2}", *run_facts(run)).replace("&", "&&")
            menu.addAction(words, lambda run=run: self._go_on(run))
        under = self.setup.earlier_button
        menu.popup(under.mapToGlobal(under.rect().bottomLeft()))

    def _go_on(self, run: BrokenRun) -> None:
        self.form.take(run.config)
        self.training.start(run.config, run.folder)

    def _show_card(self) -> None:
        """The newest bad number that was not looked at, or the one that the training waits for."""
        run, record = self.training.run, self.training.run.record
        assert record is not None
        asks = run.asking
        caught = record.asks if asks else run.open[-1] if run.open else None
        if caught is None:
            self.card.hide()
            return
        saved = record.saved.step if record.saved is not None else None
        heard = run.heard.get((caught.step, caught.name))
        seconds = time.monotonic() - heard if heard is not None else None
        self.card.show_caught(caught, asks=asks, saved=saved, seconds=seconds, running=self.training.running)

    # --- deeds ------------------------------------------------------------------------------------------------------

    def _form_changed(self) -> None:
        self.training.put(self.form.config())
        self.soon()

    def start(self) -> None:
        """Queue the training, unless something is missing; where the memory will not do, ask first."""
        if self.form.problem():
            return
        if short := shortage_words(self._known.forecast):
            ask(self, short, lambda: self.training.start(self.form.config()))
        else:
            self.training.start(self.form.config())

    def _begin_again(self, config: TrainConfig) -> None:
        self.form.take(config)
        self.training.begin_again(config)

    def _try(self, path: str) -> None:
        """Try the LoRA in Create, with its base model."""
        record = self.training.run.record
        if record is not None and any(model.id == record.config.model for model in self._controller.models):
            self._controller.session.models.select(record.config.model)
        self.try_wanted.emit(path)

    def _act(self, key: str) -> None:
        caught = self.card.caught
        if caught is None:
            return
        match key:
            case "copy":
                self.acts.copy(caught)
            case "keep-cure" | "float32-block" | "stop":
                self.training.decide(key)
                self.training.dismiss(caught)
            case _:
                self.training.dismiss(caught)

    def _leave_out(self, name: str) -> None:
        if self.card.caught is not None:
            self.training.decide("leave-out", name)
            self.training.dismiss(self.card.caught)

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
            return str(path if os.path.isdir(path) else path.parent)
    return ""
