"""The Health page: one verdict, the evidence, the cheapest cure."""

import time
from dataclasses import replace

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QBoxLayout

from halftone.contract.facts import CheckReport, LayerPeak, ModelFacts
from halftone.contract.messages import Examine, LayersMeasured, Repair
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.gui import text, theme
from halftone.gui.charts.headroom_chart_text import type_name
from halftone.gui.controller import Controller
from halftone.gui.health import file_dialogs, health_view
from halftone.gui.health.finding_and_cure_cards import CureCard, FindingsCard, HealthHeader
from halftone.gui.health.health_view import Figure, HealthView
from halftone.gui.health.known_troubles import KnownCard
from halftone.gui.health.other_programs_row import OtherProgramsRow
from halftone.gui.health.report_writing import Writing
from halftone.gui.health.verdict_and_chart_cards import ChartCard, VerdictCard
from halftone.gui.i18n import say, tr
from halftone.gui.kit import actions, figures
from halftone.gui.kit.page_base import Page
from halftone.gui.kit.stock_widgets import boxed, column, hline, row, scrolling
from halftone.health.troubles import Trouble, known_on
from halftone.session.state import Ended, Job


class HealthPage(Page):
    """Follows the controller; looks at the model of Create until another is chosen in its menu."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._picked: str | None = None
        self._in: DType | None = None  # the precision looked at, None for the one in use
        self._measured = (0, 0)
        self._unfinished: dict[str, Ended] = {}
        self._view = health_view.of_unchecked(None)
        self._known: tuple[CheckReport, Words | None, HealthView] | None = None
        self._batch: tuple[tuple[LayerPeak, ...], tuple[Figure, ...]] | None = None
        self.header = HealthHeader()
        self.verdict = VerdictCard()
        self.chart = ChartCard()
        self.findings = FindingsCard()
        self.cure = CureCard()
        self.elsewhere = OtherProgramsRow(controller.session.checks.can_be_laid)
        self.known = KnownCard()
        self.writing = Writing(self, controller, self.cure, lambda: self.model, lambda: self._view.report)
        self._build()
        self._connect()
        self.refresh()

    # layout

    def _build(self) -> None:
        self._bottom_layout = row(self.findings, self.cure, spacing=12, stretch=0)
        self._bottom = boxed(self._bottom_layout)
        self._inner_layout = column(
            self.verdict, self.chart, self._bottom, self.elsewhere, self.known, spacing=10, margins=(20, 0, 20, 14), stretch=2
        )
        self._inner_layout.addStretch(0)
        self._scroll = scrolling(boxed(self._inner_layout))
        self._pinned = column(margins=(8, 0, 8, 0))
        head = row(self.header, margins=(20, 12, 20, 10))
        self._pinned_line = hline()
        self.setLayout(column(head, self._scroll, self._pinned_line, self._pinned, spacing=0))

    def _connect(self) -> None:
        control = self._controller
        self.follow(control.changed, control.models_changed, control.badges_changed, control.settings_changed)
        control.model_selected.connect(self._follow)
        control.worker_event.connect(self._heard)
        control.job_ended.connect(self._ended)
        self.header.guide_button.clicked.connect(control.guide_requested)
        self.header.menu.aboutToShow.connect(self._fill_menu)
        self.header.picked.connect(self.look_at)
        self.header.check.connect(self.start_check)
        self.header.precision.connect(self.look_in)
        self.verdict.precision.connect(self.look_in)
        self.header.open_folder.connect(lambda: file_dialogs.ask_model(self, control.session.models.select))
        self.verdict.check.connect(lambda: self.start_check("quick"))
        self.verdict.cancel.connect(self.cancel_check)
        self.verdict.undo.connect(self.undo_cure)
        self.verdict.copy.connect(self.copy_details)
        self.findings.view.chosen.connect(lambda number: self.chart.chart.select_finding(number or None))
        self.findings.view.rows.layoutChanged.connect(self._set_heights)
        self.chart.chart.finding_selected.connect(self.findings.view.select_number)
        self.cure.cures.changed.connect(lambda: self.cure.refresh_buttons(self._view, busy=self._busy()))
        self.cure.apply.clicked.connect(lambda _on=False: self.apply_cure())
        self.elsewhere.save.connect(self.writing.ask_copy)
        self.elsewhere.head.clicked.connect(lambda _on=False: QTimer.singleShot(0, self, self._bring_into_view))
        self.cure.copy.clicked.connect(lambda _on=False: self.writing.ask_copy())
        self.cure.export.clicked.connect(lambda _on=False: self.writing.ask_export())
        actions.add_shortcut(self, self.cure.copy.click, *actions.keys_of("save-repaired"), inside=True)
        self.cure.cancel_copy.clicked.connect(lambda _on=False: self.writing.cancel())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_heights()

    def _arrange(self, narrow: bool) -> None:
        """Side by side, or stacked with the cure's buttons pinned at the bottom."""
        way = QBoxLayout.Direction
        self._bottom_layout.setDirection(way.TopToBottom if narrow else way.LeftToRight)
        self.verdict.set_narrow(narrow)
        self.chart.set_narrow(narrow)
        self._move_buttons(narrow)
        self._pinned_line.setVisible(narrow)
        self._inner_layout.setStretch(2, 0 if narrow else 1)
        self._inner_layout.setStretch(5, 1 if narrow else 0)  # room to spare is below the cards, not inside one
        self.cure.setMaximumWidth(16777215 if narrow else 552)
        self.cure.setMinimumWidth(440 if narrow else 552)
        self.refresh()

    def _move_buttons(self, narrow: bool) -> None:
        """Move the buttons to the bottom of the page or below the cures; focus and scroll position stay."""
        bar, buttons = self._scroll.verticalScrollBar(), self.cure.buttons.findChildren(QAbstractButton)
        place, focused = bar.value(), next((one for one in buttons if one is self.focusWidget()), None)
        if narrow:
            self._pinned.addWidget(self.cure.buttons)
        else:
            self.cure.take_buttons()
        if focused is not None:
            focused.setFocus(Qt.FocusReason.OtherFocusReason)
        bar.setValue(place)

    def _bring_into_view(self) -> None:
        self._scroll.ensureWidgetVisible(self.elsewhere.body if self.elsewhere.body.isVisible() else self.elsewhere.head)

    def _set_heights(self) -> None:
        """Give the chart 360 pixels where they fit, never less than 240; lists show at least a few rows."""
        spare = self.height() - 58 - self.verdict.sizeHint().height() - 10 - 14 - 10
        below = max(296, self.cure.minimumSizeHint().height()) + self.elsewhere.closed_height + self.known.closed_height
        self.chart.setFixedHeight(min(theme.grown(360), max(theme.grown(240), spare - below)))
        if self._narrow:  # the page scrolls, the list in it does not
            self.findings.setFixedHeight(50 + max(self.findings.view.height_for_rows(), 60))
        else:
            self.findings.setMinimumHeight(200)
            self.findings.setMaximumHeight(16777215)

    # what is shown

    @property
    def view(self) -> HealthView:
        return self._view

    @property
    def model(self) -> ModelFacts | None:
        """The model looked at."""
        if self._picked is None:
            return self._controller.model
        return next((one for one in self._controller.models if one.id == self._picked), self._controller.model)

    def look_at(self, model: str) -> None:
        self._picked, self._in = model, None
        self.chart.chart.reset_zoom()
        self.refresh()

    def look_in(self, precision: DType | None) -> None:
        """Show the check in a precision, and check in it from now on; None: in that of the pictures."""
        self._in = precision
        self.chart.chart.reset_zoom()
        self.refresh()

    @property
    def _dtype(self) -> DType:
        return self._in or self._in_use

    @property
    def _in_use(self) -> DType:
        """What the model looked at runs in."""
        return self._controller.session.checks.precision_of(self.model)[0]

    def _report(self, model: ModelFacts | None) -> CheckReport | None:
        return self._controller.session.checks.report(model, self._in)

    def _follow(self) -> None:
        self._picked = self._in = None
        self.soon()

    def _heard(self, event: object, _blob: object) -> None:
        if isinstance(event, LayersMeasured):
            self._measured = (event.done, event.total)
            self.soon()

    def _ended(self, ended: Ended) -> None:
        command = ended.job.command
        if isinstance(command, Examine):
            self._measured = (0, 0)
            if ended.outcome == "done" or command.plan is not None or self._holds_after(ended):
                self._unfinished.pop(command.model, None)
                self._keep_in_sight(ended)
            else:
                self._unfinished[command.model] = ended
        elif isinstance(command, Repair):
            self.writing.ended(ended, command)
        self.soon()

    def _keep_in_sight(self, ended: Ended) -> None:
        """Stay with the precision of a check that has just ended: what it found may be why Auto takes another one from now on."""
        report, model = ended.report, self.model
        if isinstance(report, CheckReport) and model is not None and report.model.fingerprint == model.fingerprint:
            self._in = self._in if report.precision == self._dtype else report.precision

    def _holds_after(self, ended: Ended) -> bool:
        """Whether the last report stays in sight: the user stopped the new check, and nothing is wrong."""
        model = next((one for one in self._controller.models if one.id == ended.job.model), None)
        return ended.outcome == "cancelled" and self._report(model) is not None

    def _check_job(self) -> Job | None:
        model = self.model
        jobs = self._controller.state.jobs
        return next(
            (job for job in jobs if model is not None and isinstance(job.command, Examine) and job.model == model.id), None
        )

    def _busy(self) -> bool:
        return self._check_job() is not None or self.writing.job() is not None

    def _show(self) -> None:
        model, job = self.model, self._check_job()
        self._view = self._decide(model, job)
        self._show_header(model, job)
        share = health_view.whole_share(job)
        words = tr("Check again") if self._view.state == "stale" else tr("Check now")
        if (seconds := self._known_seconds(model)) is not None:
            words = tr("{0} · about {1}", words, figures.duration(seconds))
        self.verdict.set_view(
            self._view, running=job is not None and job.running, check_words=words, left=self._left(model, job), share=share
        )
        others = (
            self._controller.session.checks.checked_in(model) if model is not None and self._view.state == "unchecked" else []
        )
        self.verdict.set_other(next(iter(others), None))
        self.chart.set_view(self._view)
        self.findings.set_view(self._view, health_view.summary_of_findings(self._view.findings))
        self.cure.set_view(self._view, busy=self._busy())
        self.elsewhere.set_view(self._view, busy=self._busy())
        self.known.set_troubles(self._troubles(model))
        self.chart.chart.select_finding(self.findings.view.selected_number())
        self.writing.show()
        self.tick(job is not None and job.running)
        self._set_heights()

    def _decide(self, model: ModelFacts | None, job: Job | None) -> HealthView:
        control = self._controller
        device = control.state.device
        report = self._report(model)
        if model is None and self._picked is None and (error := control.model_error) is not None:
            return HealthView("missing", text.error_sentence(error), text.error_remedy(error))
        dtype = self._dtype
        known = health_view.of_unchecked(device)
        badge = control.session.checks.badge(model, self._in)
        if model is not None and report is None and badge.elsewhere:
            known = replace(known, title=say(badge.reason).rstrip(".。"))
        if model is not None and report is not None:
            stale = badge.reason if badge.state == "unchecked" else None
            known = self._of_report(report, stale)
        if job is not None:
            return health_view.of_progress(job, self._chart_share(job), dtype, known, self._figures(job, dtype))
        if model is not None and (ended := self._unfinished.get(model.id)) is not None:
            return health_view.of_failed(ended, dtype)
        return known

    def _troubles(self, model: ModelFacts | None) -> tuple[Trouble, ...]:
        """What others met with this model as it would run now."""
        control = self._controller
        device = control.state.device
        if model is None or device is None:
            return ()
        return known_on(model, device, self._dtype, control.numerics)

    def _of_report(self, report: CheckReport, stale: Words | None) -> HealthView:
        """The view of a report, worked out once: a thousand layers take their time."""
        if self._known is None or self._known[0] is not report or self._known[1] != stale:
            self._known = (report, stale, health_view.of_report(report, stale))
        return self._known[2]

    def _figures(self, job: Job, dtype: DType) -> tuple[Figure, ...]:
        """Figures of a running check, worked out once for each batch of layers."""
        if self._batch is None or self._batch[0] is not job.layers:
            self._batch = (job.layers, health_view.figures_of(job.layers, dtype))
        return self._batch[1]

    def _chart_share(self, job: Job) -> float:
        done, total = self._measured
        if total > 0 and job.phase == "range":
            return done / total
        return 1.0 if job.layers else 0.0

    def _known_seconds(self, model: ModelFacts | None) -> float | None:
        """What the last check of this model took here."""
        report = self._report(model)
        return report.seconds if report is not None else None

    def _left(self, model: ModelFacts | None, job: Job | None) -> str:
        if job is None or job.started is None or job.stopping:
            return ""
        used = time.monotonic() - job.started
        known = self._known_seconds(model)
        command = job.command
        if known is not None and isinstance(command, Examine) and command.plan is None and used < known:
            return tr("about {0} left", figures.duration(known - used))
        return tr("{0} so far", figures.duration(used)) if used >= 1 else ""

    def _show_header(self, model: ModelFacts | None, job: Job | None) -> None:
        tags = health_view.model_tags(model, self._controller.state.extras_of(model)) if model is not None else ()
        if self._in not in (None, self._in_use):
            tags = (tr("Viewing the {0} check", type_name(self._dtype)), *tags)
        elif self._controller.state.once is not None:
            tags = (tr("{0} for the next pictures", type_name(self._dtype)), *tags)
        self.header.set_precision(self._in, self._in_use)
        self.header.set_model(model.name if model is not None else tr("No model"), tags, narrow=self.width() < 900)
        seconds = self._known_seconds(model)
        tip = "" if seconds is None else tr("Takes about {0}.", figures.duration(seconds))
        self.header.set_checked(
            self._view.checked, can_check=model is not None and job is None, again=bool(self._view.checked), tip=tip
        )

    def _fill_menu(self) -> None:
        """Judge every model: only once somebody looks."""
        control, model = self._controller, self.model
        states = [control.session.checks.badge(one).state for one in control.models]
        self.header.set_models(control.models, states, model.id if model is not None else "")

    # actions

    def start_check(self, depth: str = "quick") -> None:
        model = self.model
        if model is None or self._check_job() is not None:
            return
        self._unfinished.pop(model.id, None)
        self._measured = (0, 0)
        self._controller.session.checks.check(model, "thorough" if depth == "thorough" else "quick", precision=self._in)

    def cancel_check(self) -> None:
        job = self._check_job()
        if job is not None:
            self._controller.session.queue.cancel(job.id)

    def apply_cure(self) -> None:
        report, cure = self._view.report, self.cure.cures.chosen()
        if report is not None and cure is not None:
            self._controller.session.checks.apply(report, cure)

    def undo_cure(self) -> None:
        if self._view.report is not None:
            self._controller.session.checks.undo(self._view.report)

    def copy_details(self) -> None:
        """Plain text without prompt and paths."""
        model = self.model
        ended = self._unfinished.get(model.id) if model is not None else None
        error = ended.error if ended is not None else self._controller.model_error
        QGuiApplication.clipboard().setText(file_dialogs.details(self._controller.state, model, ended, error))
