"""The Device page: what this device really does. Opens first, measures by itself, and leads to the first picture."""

import time
from pathlib import Path

import msgspec
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QButtonGroup,
    QCheckBox,
    QFrame,
    QLabel,
    QRadioButton,
    QWidget,
)

from halftone.contract.messages import SelfTest
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.picture.picture_files import not_written
from halftone.gui.device import device_verdict, device_view, self_test_export
from halftone.gui.device.device_cards import DeviceCard, PromiseCard, VerdictCard
from halftone.gui.device.measurement_cards import BitsCard, SpeedCard, TestsCard
from halftone.gui.device_names import names_apart
from halftone.gui.health import file_dialogs
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.navigation import guide_button
from halftone.gui.kit.page_base import Page
from halftone.gui.kit.stock_widgets import Card, IconLabel, boxed, button, clear, column, label, row, scrolling, surface
from halftone.health.planning.usable_settings import no_cards
from halftone.session.events import Noted
from halftone.session.state import Job


class DevicePage(Page):
    """Follows the controller; with first run on, it shows the tour strip above and the way on below."""

    make_first_picture = Signal()
    skip_tour = Signal()

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._first_run = False
        self._shown_report: object = ()
        self._known_devices: tuple[str, ...] = ()
        self.verdict = VerdictCard()
        self.device = DeviceCard()
        self.promises = PromiseCard()
        self.speed = SpeedCard(tr("Speed"))
        self.bits = BitsCard(tr("Correctness"))
        self.tests = TestsCard()
        self._build()
        self._connect()
        self.refresh()

    # layout

    def _build(self) -> None:
        self.tour = self._tour_strip()
        self.header = self._header()
        self.footer = self._footer()
        self._choice_rows = column(spacing=6)
        self._card_words: dict[str, QLabel] = {}
        self.all_cards = QCheckBox(tr("Use all GPUs for the queue"))
        self.all_cards.clicked.connect(self._use_all)
        devices = column(
            label(tr("Devices"), "heading-s"), self._choice_rows, self.all_cards, spacing=8, margins=(16, 12, 16, 12)
        )
        self.choice = Card(layout=devices)
        self._left = boxed(column(self.choice, self.verdict, self.device, self.promises, -1, spacing=12))
        self._pair = row(self.speed, self.bits, spacing=12)
        self._pair.setStretch(0, 4)
        self._pair.setStretch(1, 5)
        right = boxed(column(self._pair, self.tests, -1, spacing=12))
        self._scroll = scrolling(boxed(row(self._left, right, spacing=12, margins=(20, 16, 20, 16), stretch=1)))
        self.tests.matrix.selected.connect(lambda _row, _column: QTimer.singleShot(0, self, self._show_detail))
        self.setLayout(column(self.tour, self.header, self._scroll, self.footer, spacing=0, stretch=2))
        self._show_first_run()

    def _show_detail(self) -> None:
        """The numbers behind a mark scroll into view."""
        self._scroll.ensureWidgetVisible(self.tests.detail, 0, 40)  # with the edge of their card

    def _tour_strip(self) -> QFrame:
        strip = surface("plain", "bottom")
        strip.setFixedHeight(theme.grown(60))
        self._tour_icon = IconLabel("circle-dot", "accent-text", 22)
        self._tour_state = label("", "caption", "secondary", numbers=True)
        self.skip_button = button(tr("Skip the tour"), "quiet", clicked=self.skip_tour.emit)
        self._tour_title = label(tr("Your GPU"), "body-strong")
        strip.setLayout(
            row(
                self._tour_icon,
                column(-1, self._tour_title, self._tour_state, -1, spacing=0),
                *self._tour_step("2", tr("First picture"), tr("Demo model included")),
                *self._tour_step("3", tr("Your models"), tr("Optional")),
                -1,
                self.skip_button,
                spacing=12,
                margins=(20, 0, 20, 0),
            )
        )
        return strip

    def _tour_step(self, number: str, title: str, caption: str) -> tuple[QWidget, ...]:
        dash = QFrame()
        dash.setProperty("line", "h")
        dash.setFixedSize(56, 1)
        disc = label(number, "caption-strong", "secondary")
        disc.setAlignment(Qt.AlignmentFlag.AlignCenter)
        disc.setFixedSize(22, 22)
        disc.setObjectName("disc")
        words = boxed(column(-1, label(title, "body-strong", "secondary"), label(caption, "caption", "muted"), -1, spacing=0))
        return dash, disc, words

    def _header(self) -> QWidget:
        self._title = label(tr("Device"), "heading-m")
        self._measured = label("", "small", "secondary")
        self.measure_button = button(tr("Measure again"), "", "refresh-cw", clicked=self.measure)
        self.export_button = button(tr("Export report"), "quiet", "file-down", clicked=self.ask_export)
        self.guide_button = guide_button()
        self.guide_button.clicked.connect(self._controller.guide_requested)
        words = row(self._title, self._measured, -1, self.measure_button, self.export_button, self.guide_button, spacing=12)
        words.setContentsMargins(20, 12, 20, 0)
        return boxed(words)

    def _footer(self) -> QFrame:
        strip = surface("plain", "top")
        strip.setFixedHeight(theme.grown(60))
        self.foot_measure = button(tr("Measure again"), "quiet", "refresh-cw", clicked=self.measure)
        self.foot_export = button(tr("Export report"), "quiet", "file-down", clicked=self.ask_export)
        self.add_models = button(tr("Add my models…"), "", size="large", clicked=self.ask_model)
        self.first_picture = button(
            tr("Make my first picture"),
            "primary",
            "arrow-right",
            size="large",
            icon_last=True,
            clicked=self.make_first_picture.emit,
        )
        self.wait_words = label("", "small", "secondary", wrap=True)
        self.wait_words.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        items = (self.foot_measure, self.foot_export, self.wait_words, self.add_models, self.first_picture)
        strip.setLayout(row(*items, spacing=8, margins=(20, 0, 20, 0), stretch=2))
        return strip

    def _connect(self) -> None:
        control = self._controller
        self.follow(control.changed, control.settings_changed)
        self.verdict.skip.connect(self.skip)
        self.device.free_memory.connect(control.session.memory.free)
        self.verdict.measure.connect(self.measure)
        self.promises.change.connect(lambda: control.go("numerics"))

    def set_first_run(self, on: bool) -> None:
        """Show or hide the tour strip and the way to the first picture."""
        if on != self._first_run:
            self._first_run = on
            self._show_first_run()
            self.refresh()

    def _show_first_run(self) -> None:
        self.tour.setVisible(self._first_run)
        self.footer.setVisible(self._first_run)
        self.header.setVisible(not self._first_run)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._focus_way_on()

    def _arrange(self, narrow: bool) -> None:
        self._left.setFixedWidth(300 if narrow else 372)
        self.promises.set_narrow(narrow)
        self._pair.setDirection(QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight)

    # what is shown

    def _job(self) -> Job | None:
        """The self-test of the device in use."""
        return next((job for job in self._controller.state.jobs if isinstance(job.command, SelfTest) and not job.card), None)

    def _show(self) -> None:
        state, numerics = self._controller.state, self._controller.numerics
        job = self._job()
        verdict = device_verdict.verdict(state.self_test, state.device, job, time.monotonic(), numerics.precision)
        fraction = job.fraction if job is not None and job.running else None
        self.verdict.set_verdict(verdict, fraction, first_run=self._first_run, can_measure=state.device is not None)
        self.device.setVisible(state.device is not None)
        if state.device is not None:
            self.device.set_device(state.device, state.memory)
        self._show_loaded()
        self.promises.setVisible(state.device is not None)
        self.promises.set_promises(device_view.promises(state.self_test, numerics, self._controller.state.device_precision))
        if state.self_test is not self._shown_report:
            self._shown_report = state.self_test
            self.speed.set_report(state.self_test)
            self.bits.set_report(state.self_test)
        tests = job.tests if job is not None and job.tests else state.self_test.tests if state.self_test is not None else ()
        self.tests.set_tests(tests, numerics)
        self._show_devices()
        self._show_buttons(job)
        self.tick(job is not None and job.running)

    def _show_loaded(self) -> None:
        """The models in the memory of all GPUs in use."""
        state = self._controller.state
        held = {"": state.loaded, **{card.id: card.loaded for card in state.cards}}
        busy = {job.card for job in state.begun}
        names = dict.fromkeys(model.name for model in held.values() if model is not None)
        self.device.set_loaded(tuple(names), can_free=any(model is not None and card not in busy for card, model in held.items()))

    def _show_buttons(self, job: Job | None) -> None:
        state = self._controller.state
        report = state.self_test
        for made in (self.measure_button, self.foot_measure):
            words = tr("Measure again") if report is not None else tr("Measure now")
            made.set_words(words if report is None else f"{words} · {figures.duration(report.seconds)}")
            made.setEnabled(job is None and state.device is not None)
            made.setToolTip(tr("Pictures wait meanwhile."))
        for made in (self.export_button, self.foot_export):
            made.setEnabled(report is not None)
            made.setToolTip(tr("Saves this page as JSON."))
        measured = (
            tr("Measured {0}, {1}", figures.moment(report.measured_at), figures.duration(report.seconds))
            if report is not None
            else ""
        )
        self._measured.setText(measured)
        done = report is not None and job is None
        self._tour_icon.set("circle-check" if done else "circle-dot", "ok" if done else "accent-text")
        self._tour_title.setText(tr("Your processor") if device_view.on_processor(state.device) else tr("Your GPU"))
        took = tr("Measured in {0}", figures.duration(report.seconds)) if report is not None else tr("Not measured yet")
        self._tour_state.setText(tr("Measuring…") if job is not None else took)
        self._show_way_on()

    def _show_way_on(self) -> None:
        """The first picture waits for the measurement, so that what it runs in is known; it gets the focus when the wait ends."""
        why = device_view.wait_words(self._controller.state)
        waited = not self.first_picture.isEnabled()
        self.wait_words.setText(why)
        self.first_picture.setToolTip(why)
        self.first_picture.setEnabled(not why)
        if waited and not why:
            self._focus_way_on()

    def _focus_way_on(self) -> None:
        if self._first_run and self.isVisible() and self.first_picture.isEnabled():
            self.first_picture.setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_devices(self) -> None:
        """A list only where there is a choice."""
        state = self._controller.state
        key = tuple(one.id for one in state.devices) + ((state.device.id,) if state.device is not None else ())
        self.choice.setVisible(len(state.devices) > 1)
        self.all_cards.setVisible(no_cards(state.device, state.devices) is None)
        self.all_cards.setChecked(state.settings.all_cards)
        if key != self._known_devices:
            self._fill_devices(key)
        for name, words in self._card_words.items():
            card = state.card(name)
            job = next((job for job in state.begun if job.card == name), None)
            words.setVisible(card is not None)
            words.setText(device_view.card_words(card, job) if card is not None else "")

    def _use_all(self) -> None:
        settings = self._controller.settings
        self._controller.session.settings.update(msgspec.structs.replace(settings, all_cards=self.all_cards.isChecked()))

    def _fill_devices(self, key: tuple[str, ...]) -> None:
        state = self._controller.state
        self._known_devices = key
        clear(self._choice_rows)
        self._card_words.clear()
        group = QButtonGroup(self.choice)
        names = names_apart(state.devices)
        for one in state.devices:
            size = "" if one.memory_total is None else f" · {figures.size(one.memory_total)}"
            made = QRadioButton(f"{names[one.id]}{size}")
            made.setToolTip(one.name)
            made.setChecked(state.device is not None and one.id == state.device.id)
            made.clicked.connect(lambda _on=False, device=one: self._controller.session.devices.use(device))
            group.addButton(made)
            self._choice_rows.addWidget(made)
            self._card_words[one.id] = label("", "caption", "secondary", numbers=True)
            self._card_words[one.id].setIndent(24)
            self._choice_rows.addWidget(self._card_words[one.id])

    # actions

    def measure(self) -> None:
        if self._job() is None:
            self._controller.session.devices.measure()

    def skip(self) -> None:
        """Stop measuring; FP32 is used until a later measurement."""
        job = self._job()
        if job is not None:
            self._controller.session.queue.cancel(job.id)

    def ask_model(self) -> None:
        """Add a model, then go on to Create with it."""
        file_dialogs.ask_model(self, self._use_model)

    def _use_model(self, path: str) -> None:
        self._controller.session.models.select(path)
        self.skip_tour.emit()

    def ask_export(self) -> None:
        place = Path.home() / "halftone-device.json"
        file_dialogs.ask_save(self, tr("Export report"), place, tr("Report (*.json)"), "json", self.export)

    def export(self, path: str) -> None:
        report = self._controller.state.self_test
        if report is None:
            return
        take = self._controller.take
        self._controller.background.run(
            lambda: self_test_export.save(report, Path(path)),
            lambda _done: take(Noted(kind="saved", facts=(Path(path).name, path))),
            lambda error: take(not_written(error)),
        )
