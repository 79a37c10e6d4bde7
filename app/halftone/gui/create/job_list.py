"""The queue beside the canvas: the running job, then those that wait, in an order that can be changed."""

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from halftone.contract.messages import Generate, Upscale
from halftone.contract.request import PictureRequest, model_stem
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.picture.progress_panel import seconds_left
from halftone.gui.device_names import names_apart
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.actions import keys_shown, pressed
from halftone.gui.kit.stock_widgets import ElidedLabel, button, column, icon_button, label, row, surface
from halftone.gui.views.card_list import CardDelegate, CardList, paint_line
from halftone.gui.views.list_model import ListModel
from halftone.gui.views.thumbnails import paint_thumbnail
from halftone.session.state import AppState, Job

_LEFT: Final = 62
_COMPACT_LEFT: Final = 12
_COMPACT_BELOW: Final = 180
"""Pixels of width below which there is no room for small pictures."""
_RUNNING: Final = 82
_WAITING: Final = 82
_MOST: Final = _RUNNING + 5 * _WAITING
"""Pixels of height that the jobs take at most; the others are scrolled to."""


class JobWords(NamedTuple):
    """What stands on a job's card. line: the model and the size; batch: how many pictures, and their seed."""

    title: str
    line: str
    batch: str


class JobTimes(NamedTuple):
    """Seconds until a job begins, and that it takes; None where they are not known."""

    starts: float | None
    takes: float | None


def kind_name(job: Job) -> str:
    """What a job is, where it has no prompt to show."""
    return {
        "Examine": tr("Check"),
        "SelfTest": tr("Measure device"),
        "Repair": tr("Repaired copy"),
        "Upscale": tr("Upscale"),
        "Train": tr("Training"),
    }.get(job.kind, tr("Picture"))


def job_words(job: Job) -> JobWords:
    """A job without a title is called by its kind, which then does not stand below it again."""
    title = job.title or kind_name(job)
    if isinstance(job.command, Upscale):
        marked = tr("set under Finish") if job.chained else ""
        return JobWords(title, listed(kind_name(job), model_stem(job.command.request.upscaler)), marked)
    if not isinstance(job.command, Generate):
        return JobWords(title, kind_name(job) if job.title else "", "")
    request = job.command.request
    size = f"{request.width} × {request.height}" if request.width and request.height else ""
    seed = tr("random seed") if request.seed is None else tr("seed {0}", request.seed)
    count = tr("batch {0}", request.batch) if request.batch > 1 else ""
    if job.grid is not None:
        count = tr("Grid, {0} of {1}", len(job.grid.cells) + (1 if job.running else 0), job.grid.count)
    then = tr("then upscale") if job.upscaler else ""
    return JobWords(title, listed(*filter(None, (model_stem(request.model), size))), listed(*filter(None, (count, seed, then))))


def time_words(times: JobTimes) -> str:
    """When a waiting job begins and how long it takes."""
    if times.takes is None:
        return ""
    takes = figures.duration(times.takes)
    return takes if times.starts is None else tr("{0}, starts in {1}", takes, figures.duration(times.starts))


def job_times(jobs: Sequence[Job], takes: Mapping[str, float | None], left: float | None) -> dict[str, JobTimes]:
    """When each waiting job begins, by its key. takes: seconds of each; left: of the running one."""
    found, begins = dict[str, JobTimes](), left
    for job in jobs:
        if not job.running:
            found[job.key] = JobTimes(begins, takes.get(job.key))
            length = takes.get(job.key)
            begins = None if begins is None or length is None else begins + length
    return found


def gpu_names(state: AppState) -> dict[str, str]:
    """What each GPU is called, by the card of a job; empty where all jobs run on the device in use."""
    if not state.cards or state.device is None:
        return {}
    names = names_apart(state.devices)
    return {"": names.get(state.device.id, ""), **{card.id: names.get(card.id, "") for card in state.cards}}


class JobModel(ListModel[Job]):
    def __init__(self) -> None:
        super().__init__()
        self.gpus: dict[str, str] = {}
        """Names of the GPUs that take jobs, by the card of a job."""

    def gpu(self, item: Job) -> str:
        """The GPU that makes the job, "" where only one takes jobs and for a job that may still go to any."""
        return self.gpus.get(item.card, "") if item.running or item.card else ""

    def key(self, item: Job) -> str:
        return item.key

    def name(self, item: Job) -> str:
        return listed(*filter(None, (*job_words(item), self.gpu(item))))

    def tip(self, item: Job) -> str:
        move = "" if item.running else tr("Drag to reorder ({0}, {1})", keys_shown("job-up"), keys_shown("job-down"))
        words = job_words(item)
        return "\n".join(filter(None, (item.title, self.gpu(item), words.line, words.batch, move)))


class JobDelegate(CardDelegate[Job]):
    """A job: running with a bar, or waiting with its place."""

    def __init__(self, model: JobModel) -> None:
        super().__init__()
        self._model = model
        self.previews: dict[str, QImage] = {}
        """By job."""
        self.times: dict[str, JobTimes] = {}

    def size(self, item: Job) -> QSize:
        return QSize(0, theme.grown(_RUNNING if item.running else _WAITING))

    def has_cross(self, item: Job) -> bool:
        return True

    def cross_tip(self, item: Job) -> str:
        return tr("Cancel") if item.running else tr("Remove from queue")

    def cross(self, rect: QRect, item: Job) -> QRect:
        return QRect(rect.right() - 29, rect.top() + 8, 24, 24)

    def paint_card(self, painter: QPainter, rect: QRect, item: Job, *, hovered: bool, selected: bool) -> None:
        colours = theme.current()
        compact = rect.width() < _COMPACT_BELOW
        painter.fillRect(rect, colours.color("selected" if item.running else "surface"))
        if not compact:
            self._paint_box(painter, QRectF(rect.left() + 12, rect.top() + theme.grown(10), 40, 40), item)
        left, right = rect.left() + (_COMPACT_LEFT if compact else _LEFT), rect.right() - 35
        words, line = job_words(item), theme.grown(16)
        paint_line(painter, QRect(left, rect.top() + theme.grown(8), right - left, theme.grown(18)), words.title, "small")
        where = listed(*filter(None, (self._model.gpu(item), words.line)))
        paint_line(painter, QRect(left, rect.top() + theme.grown(27), right - left, line), where, "caption", "text-muted")
        last = QRect(left, rect.top() + theme.grown(58 if item.running else 43), right - left, line)
        if item.running:
            _paint_bar(painter, QRectF(left, rect.top() + theme.grown(46), right - left, 4), item.fraction or 0.0)
            steps = f"{item.done} / {item.total}" if item.total and item.phase == "denoise" else ""
            shown = listed(tr("Grid, {0} of {1}", len(item.grid.cells) + 1, item.grid.count), steps) if item.grid else steps
            shown = shown if steps else words.batch
            paint_line(painter, last, shown, "caption", "text-muted", numbers=True)
            seconds = None if compact else seconds_left(item)
            left_words = tr("{0} left", figures.duration(seconds)) if seconds is not None else ""
            widths = sum(
                QFontMetrics(theme.current().font("caption", numbers=True)).horizontalAdvance(one) for one in (shown, left_words)
            )
            left_words = left_words if widths + 8 <= last.width() else ""
            paint_line(painter, last, left_words, "caption", "text-muted", numbers=True, right=True)
        else:
            says = tr("Being edited") if item.held else tr("Going to the farm…") if item.leaving else words.batch
            token = "accent-text" if item.held or item.leaving else "text-muted"
            paint_line(painter, last, says, "caption", token, numbers=True)
            when = "" if compact else time_words(self.times.get(item.key, JobTimes(None, None)))
            paint_line(painter, last.translated(0, theme.grown(16)), when, "caption", "text-muted", numbers=True)
        painter.fillRect(QRect(rect.left(), rect.bottom(), rect.width(), 1), colours.color("border"))

    def _paint_box(self, painter: QPainter, box: QRectF, job: Job) -> None:
        """The preview of the running job, the place of one that waits."""
        if job.running:
            paint_thumbnail(painter, box, self.previews.get(job.id, QImage()))
            return
        colours = theme.current()
        painter.setPen(QPen(colours.color("border-control"), 1, Qt.PenStyle.DashLine))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5))
        painter.setPen(colours.color("text-muted"))
        painter.setFont(colours.font("small", numbers=True))
        painter.drawText(box, int(Qt.AlignmentFlag.AlignCenter), str(self._model.index_of(job.key).row() + 1))


def _paint_bar(painter: QPainter, bar: QRectF, share: float) -> None:
    colours = theme.current()
    painter.setPen(Qt.PenStyle.NoPen)
    for width, token in ((bar.width(), "border-strong"), (bar.width() * share, "accent")):
        painter.setBrush(colours.color(token))
        painter.drawRoundedRect(QRectF(bar.left(), bar.top(), width, bar.height()), 2, 2)


class JobList(CardList[Job]):
    """Drag a waiting job to another place, or move it with Alt+Up and Alt+Down. A line shows where it would go.

    moved: the job, and by how many places. doubled: the job that was clicked twice. dropped: the job, and its place among
    those that wait.
    """

    moved = Signal(object, int)
    doubled = Signal(object)
    dropped = Signal(object, int)

    def __init__(self, model: JobModel, delegate: JobDelegate) -> None:
        super().__init__(tr("Queue"), delegate)
        self.setModel(model)
        self._model = model
        self._grip: QPoint | None = None
        self.by_key = False
        """Whether the job is chosen with a key."""
        self.target: int | None = None
        """The row that the dragged job would stand before, None while none is dragged."""

    def pointer(self, item: Job) -> Qt.CursorShape:
        return Qt.CursorShape.ArrowCursor if item.running else Qt.CursorShape.OpenHandCursor

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        at, job = event.position().toPoint(), self.current()
        grips = event.button() == Qt.MouseButton.LeftButton and job is not None and not job.running
        self._grip = at if grips and self.indexAt(at) == self.currentIndex() and not self.presses_cross else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        at = event.position().toPoint()
        if self._grip is None:
            super().mouseMoveEvent(event)
        elif self.target is not None or (at - self._grip).manhattanLength() >= QApplication.startDragDistance():
            self.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
            self.scrollTo(self.indexAt(at))
            self.target = self._row_at(at.y())
            self.viewport().update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        target, job, own = self.target, self.current(), self.currentIndex().row()
        self._grip = self.target = None
        super().mouseReleaseEvent(event)
        if target is not None and job is not None:
            target = self._row_at(event.position().toPoint().y())  # the running job may have ended meanwhile
            self.viewport().setCursor(Qt.CursorShape.OpenHandCursor)
            self.viewport().update()
            first = self._first_waiting
            self.dropped.emit(job, target - first - (1 if own < target else 0))

    @property
    def _first_waiting(self) -> int:
        return sum(job.running for job in self._model.items)

    def _row_at(self, height: int) -> int:
        """The row that a job let go at this height would stand before: never a running one."""
        index = self.indexAt(QPoint(0, height))
        if not index.isValid():
            return self._first_waiting if height < 0 else len(self._model.items)
        below = height > self.visualRect(index).center().y()
        return max(self._first_waiting, index.row() + (1 if below else 0))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.target is not None:
            edge = self.visualRect(self._model.index(self.target - 1)).bottom() if self.target else 0
            painter = QPainter(self.viewport())
            painter.fillRect(0, edge - 1, self.viewport().width(), 2, theme.current().color("accent"))
            painter.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        name, job = pressed(event, "job-up", "job-down"), self.current()
        if name is not None and job is not None:
            self.moved.emit(job, -1 if name == "job-up" else 1)
            return
        self.by_key = True
        super().keyPressEvent(event)
        self.by_key = False

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        super().mouseDoubleClickEvent(event)
        job = self.current()
        if not self.presses_cross and job is not None:
            self._grip = None
            self.doubled.emit(job)


def _requests(job: Job) -> tuple[PictureRequest, ...]:
    """What an entry has left to make."""
    if job.grid is not None:
        return job.grid.requests[len(job.grid.cells) :]
    return (job.command.request,) if isinstance(job.command, Generate) else ()


class QueuePanel(QWidget):
    """Shown while there are jobs: the running one first, then those that wait. edit_wanted: with the job; edit_cancelled: the
    job that is edited stays as it was; farm_wanted: with jobs that the farm is to make.
    """

    edit_wanted = Signal(object)
    farm_wanted = Signal(object)
    edit_cancelled = Signal()

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self.editing = ""
        """The key of the job whose request the form shows, "" for none."""
        self._takes: dict[str, float | None] = {}
        self._learnt: object = None
        queue = controller.session.queue
        self.count = label("", "caption", "muted", numbers=True)
        self.pause = icon_button("pause", tr("Pause after this"), checkable=True)
        self.pause.toggled.connect(queue.pause)
        self.more = icon_button("ellipsis", tr("More"), clicked=self._menu)
        head = surface("plain", "bottom")
        head.setFixedHeight(theme.grown(40))
        self.name = ElidedLabel(tr("Queue"), "body-strong")
        across = row(self.name, self.count, self.pause, self.more, spacing=6, margins=(12, 0, 8, 0))
        across.setStretch(0, 1)
        head.setLayout(across)
        self.model = JobModel()
        self._jobs = JobDelegate(self.model)
        self.list = JobList(self.model, self._jobs)
        self.list.moved.connect(lambda job, by: queue.move(job.key, by))
        self.list.dropped.connect(lambda job, to: queue.move(job.key, to=to))
        self.list.removed.connect(self._remove)
        self.list.menu_requested.connect(self._job_menu)
        self.list.chosen.connect(lambda job: self._edit(job) if self.list.by_key else None)
        self.list.doubled.connect(self._edit)
        self.note = surface("plain", "bottom")
        stay = button(tr("Cancel editing"), "link", clicked=self.edit_cancelled.emit)
        words = label(tr("Generate replaces the job that is being edited."), "caption", "secondary", wrap=True)
        self.note.setLayout(column(words, stay, spacing=2, margins=(12, 6, 12, 6)))
        self.note.hide()
        self.setLayout(column(head, self.note, self.list, spacing=0))
        controller.changed.connect(self.refresh)
        self.hide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        compact = self.width() < _COMPACT_BELOW
        self.count.setVisible(self.width() >= theme.grown(_COMPACT_BELOW - 20))
        self.pause.setVisible(not compact)

    def set_preview(self, job: str, image: QImage) -> None:
        self._jobs.previews[job] = image
        self.list.viewport().update()

    def refresh(self) -> None:
        """Show the queue as it is."""
        state = self._controller.state
        self.setVisible(bool(state.jobs))
        if self.editing and ((edited := state.job(self.editing)) is None or not edited.held):
            self.show_editing("")
        self._jobs.times = self._times()
        self.model.gpus = gpu_names(state)
        self.model.show(state.jobs)
        tall = sum(self._jobs.size(job).height() for job in state.jobs[:6])
        self.list.setFixedHeight(min(theme.grown(_MOST), tall))
        self.count.setText(tr("{0} jobs", len(state.jobs), one="1 job"))
        self.pause.setChecked(state.paused)
        begun = {job.id for job in state.begun}
        self._jobs.previews = {job: image for job, image in self._jobs.previews.items() if job in begun}

    def _times(self) -> dict[str, JobTimes]:
        """When each waiting job begins. A time is computed once for each entry, and again when a picture taught something."""
        state, estimates = self._controller.state, self._controller.session.estimates
        if state.history.timed is not self._learnt:
            self._learnt = state.history.timed
            self._takes.clear()
        for job in state.jobs:
            if job.id not in self._takes:
                self._takes[job.id] = estimates.seconds(_requests(job)) if isinstance(job.command, Generate) else None
        running = state.running
        if state.cards:  # which of them is free first is not known
            return job_times(state.jobs, {job.key: self._takes.get(job.id) for job in state.jobs}, None)
        left = 0.0 if running is None else seconds_left(running)
        if running is not None and left is None and running.started is not None:
            known = self._takes.get(running.id)
            left = None if known is None else max(0.0, known - (time.monotonic() - running.started))
        return job_times(state.jobs, {job.key: self._takes.get(job.id) for job in state.jobs}, left)

    def show_editing(self, key: str) -> None:
        """Say that the form shows this job; "" for none."""
        self.editing = key
        self.note.setVisible(bool(key))

    def _edit(self, job: Job) -> None:
        if not (job.running or job.leaving) and isinstance(job.command, Generate) and job.grid is None:
            self.edit_wanted.emit(job)

    def _repeat(self, job: Job) -> None:
        queue = self._controller.session.queue
        if job.grid is not None:
            queue.make_grid(msgspec.structs.replace(job.grid, cells=()), job.title, upscaler=job.upscaler)
        else:
            queue.retry(job)

    def _clear(self) -> None:
        self._controller.session.queue.clear_with_undo()

    def _repeat_last(self) -> None:
        """An upscaled picture was made from another one."""
        pictures = self._controller.state.history.pictures
        made = next((made for made in pictures if made.facts.upscaled is None), None)
        if made is not None:
            self._controller.session.queue.generate(made.request)

    def _remove(self, job: Job) -> None:
        self._controller.session.queue.remove_with_undo(job.key)

    def _job_menu(self, job: Job, at: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if not (job.running or job.leaving) and isinstance(job.command, Generate) and job.grid is None:
            menu.addAction(tr("Edit"), lambda: self._edit(job))
        menu.addAction(tr("Repeat"), lambda: self._repeat(job))
        if not (job.running or job.held or job.leaving) and isinstance(job.command, Generate):
            menu.addAction(tr("Run on the farm"), lambda: self.farm_wanted.emit((job,)))
        menu.addAction(self._jobs.cross_tip(job), lambda: self._remove(job))
        menu.popup(at)

    def _menu(self) -> None:
        self.more_menu().popup(self.more.mapToGlobal(QPoint(0, self.more.height())))

    def more_menu(self) -> QMenu:
        """What can be done with the whole queue."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if self.pause.isHidden():
            pause = menu.addAction(self.pause.toolTip(), self.pause.toggle)
            pause.setCheckable(True)
            pause.setChecked(self.pause.isChecked())
        waiting = any(not job.running for job in self._controller.state.jobs)
        menu.addAction(tr("Clear waiting"), self._clear).setEnabled(waiting)
        pictures = [job for job in self._controller.state.jobs if not job.running and isinstance(job.command, Generate)]
        farm = menu.addAction(tr("Run all waiting on the farm"), lambda: self.farm_wanted.emit(tuple(pictures)))
        farm.setEnabled(bool(pictures))
        menu.addAction(tr("Repeat the last picture"), self._repeat_last)
        return menu
