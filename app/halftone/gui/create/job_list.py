"""The queue beside the canvas: the running job, then those that wait, in an order that can be changed."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QApplication, QFrame, QMenu, QVBoxLayout, QWidget

from halftone.contract.messages import Generate
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.form.model_picker import paint_thumbnail
from halftone.gui.create.picture.progress_panel import seconds_left
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import ElidedLabel, clear, column, icon_button, label, row, surface
from halftone.session.state import Job

_LEFT: Final = 62
_COMPACT_LEFT: Final = 12
_COMPACT_BELOW: Final = 180
"""Pixels of width below which there is no room for small pictures."""


class QueueRow(QWidget):
    """One job: running with a bar, or waiting with its place. Drag it, or Alt+Up and Alt+Down; Delete removes it.

    dragged, dropped: the job, and the height in the panel where the pointer is.
    """

    removed = Signal(str)
    moved = Signal(str, int)
    dragged = Signal(str, int)
    dropped = Signal(str, int)

    def __init__(self, job: Job, place: int) -> None:
        super().__init__()
        self.job = job
        self._left = _LEFT
        self._place = place
        self._grip: QPoint | None = None
        self._dragging = False
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        if not job.running:
            self.setCursor(Qt.CursorShape.OpenHandCursor)
            self.setToolTip(tr("Drag to reorder (Alt+Up, Alt+Down)"))
        self.setAccessibleName(job.title)
        self.title = ElidedLabel(job.title or kind_name(job), "small")
        self.line = ElidedLabel(_job_line(job), "caption", "muted")
        self.left = label("", "caption", "muted", numbers=True)
        self.right = label("", "caption", "muted", numbers=True)
        self.left.setText(_batch_line(job))
        self.setFixedHeight(82 if job.running else 66)
        close = icon_button("x", tr("Remove from queue") if not job.running else tr("Cancel"), size=14)
        close.setCursor(Qt.CursorShape.ArrowCursor)
        close.clicked.connect(lambda: self.removed.emit(job.id))
        words = column(self.title, self.line, spacing=1)
        if job.running:
            words.addSpacing(10)
        words.addLayout(row(self.left, -1, self.right))
        layout = row(words, spacing=6, margins=(_LEFT, 8, 6, 8))
        layout.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)
        layout.setStretch(0, 1)
        self.setLayout(layout)
        theme.watcher().changed.connect(self.update)

    def set_compact(self, compact: bool) -> None:
        """Without the small picture, for a narrow panel."""
        self._left = _COMPACT_LEFT if compact else _LEFT
        layout = self.layout()
        if layout is not None:
            layout.setContentsMargins(self._left, 8, 6, 8)
        self.right.setVisible(self.job.running and not compact)
        self.update()

    def show_job(self, job: Job, preview: QImage) -> None:
        self.job = job
        self._preview = preview
        if job.running:
            self.left.setText(f"{job.done} / {job.total}" if job.total and job.phase == "denoise" else "")
            left = seconds_left(job)
            self.right.setText(tr("{0} left", figures.duration(left)) if left is not None else "")
        self.update()

    _preview = QImage()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), colours.color("selected" if self.job.running else "surface"))
        if self._left == _LEFT:
            self._paint_box(painter, QRectF(12, 10, 40, 40))
        if self.job.running:
            bar = QRectF(self._left, 46, self.width() - self._left - 36, 4)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colours.color("border-strong"))
            painter.drawRoundedRect(bar, 2, 2)
            share = self.job.fraction if self.job.fraction is not None else 0.0
            painter.setBrush(colours.color("accent"))
            painter.drawRoundedRect(QRectF(bar.left(), bar.top(), bar.width() * share, bar.height()), 2, 2)
        painter.setPen(colours.color("border"))
        painter.drawLine(0, self.height() - 1, self.width(), self.height() - 1)
        painter.end()

    def _paint_box(self, painter: QPainter, box: QRectF) -> None:
        """The preview of the running job, the place of one that waits."""
        colours = theme.current()
        if self.job.running:
            paint_thumbnail(painter, box, self._preview)
            return
        painter.setPen(QPen(colours.color("border-control"), 1, Qt.PenStyle.DashLine))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5))
        painter.setPen(colours.color("text-muted"))
        painter.setFont(colours.font("small", numbers=True))
        painter.drawText(box, int(Qt.AlignmentFlag.AlignCenter), str(self._place))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and not self.job.running:
            self._grip = event.position().toPoint()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._grip is None:
            return
        at = event.position().toPoint()
        self._dragging = self._dragging or (at - self._grip).manhattanLength() >= QApplication.startDragDistance()
        if self._dragging:
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
            self.dragged.emit(self.job.id, self.mapToParent(at).y())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        dragging, self._grip, self._dragging = self._dragging, None, False
        if dragging:
            self.setCursor(Qt.CursorShape.OpenHandCursor)
            self.dropped.emit(self.job.id, self.mapToParent(event.position().toPoint()).y())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        alt = bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        if alt and event.key() == Qt.Key.Key_Up:
            self.moved.emit(self.job.id, -1)
        elif alt and event.key() == Qt.Key.Key_Down:
            self.moved.emit(self.job.id, 1)
        elif event.key() == Qt.Key.Key_Delete:
            self.removed.emit(self.job.id)
        else:
            super().keyPressEvent(event)


def kind_name(job: Job) -> str:
    """What a job is, where it has no prompt to show."""
    return {
        "Examine": tr("Check"),
        "SelfTest": tr("Measure device"),
        "Repair": tr("Repaired copy"),
        "Upscale": tr("Upscale"),
        "Train": tr("Training"),
    }.get(job.kind, tr("Picture"))


def _job_line(job: Job) -> str:
    if isinstance(job.command, Generate):
        request = job.command.request
        return f"{request.width} × {request.height}" if request.width and request.height else ""
    return kind_name(job)


def _batch_line(job: Job) -> str:
    request = job.command.request if isinstance(job.command, Generate) else None
    return tr("batch {0}", request.batch) if request is not None and request.batch > 1 else ""


class QueuePanel(QWidget):
    """Shown while there are jobs: the running one first, then those that wait."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._rows: dict[str, QueueRow] = {}
        self._order: tuple[tuple[str, bool], ...] = ()
        self._preview = QImage()
        self.count = label("", "caption", "muted", numbers=True)
        self.pause = icon_button("pause", tr("Pause after this"), checkable=True)
        self.pause.toggled.connect(controller.session.queue.pause)
        self.more = icon_button("ellipsis", tr("More"), clicked=self._menu)
        head = surface("plain", "bottom")
        head.setFixedHeight(40)
        self.name = ElidedLabel(tr("Queue"), "body-strong")
        across = row(self.name, self.count, self.pause, self.more, spacing=6, margins=(12, 0, 8, 0))
        across.setStretch(0, 1)
        head.setLayout(across)
        self._list = QVBoxLayout()
        self._list.setSpacing(0)
        self._list.setContentsMargins(0, 0, 0, 0)
        self.setLayout(column(head, self._list, spacing=0))
        self._mark = QFrame(self)
        self._mark.setProperty("line", "drop")
        self._mark.setFixedHeight(2)
        self._mark.hide()
        controller.changed.connect(self._refresh)
        self.hide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        compact = self.width() < _COMPACT_BELOW
        self.count.setVisible(not compact)
        self.pause.setVisible(not compact)
        for one in self._rows.values():
            one.set_compact(compact)

    def set_preview(self, image: QImage) -> None:
        self._preview = image
        self._refresh()

    def _refresh(self) -> None:
        state = self._controller.state
        jobs = state.jobs
        self.setVisible(bool(jobs))
        order = tuple((job.id, job.running) for job in jobs[:6])
        if order != self._order:
            self._order = order
            self._arrange(jobs[:6])
        for job in jobs[:6]:
            self._rows[job.id].show_job(job, self._preview if job.running else QImage())
        self.count.setText(tr("{0} jobs", len(jobs), one="1 job"))
        self.pause.setChecked(state.paused)
        if not jobs:
            self._preview = QImage()

    def _arrange(self, jobs: Sequence[Job]) -> None:
        focused = next((name for name, one in self._rows.items() if one.hasFocus()), "")
        self._mark.hide()
        clear(self._list)
        self._rows = {}
        for place, job in enumerate(jobs, start=1):
            made = QueueRow(job, place)
            made.removed.connect(self._remove)
            made.moved.connect(self._controller.session.queue.move)
            made.dragged.connect(self._show_mark)
            made.dropped.connect(self._drop)
            self._rows[job.id] = made
            self._list.addWidget(made)
        self._fit()
        if focused in self._rows:
            self._rows[focused].show()
            self._rows[focused].setFocus(Qt.FocusReason.OtherFocusReason)

    def _place_at(self, height: int) -> int:
        """Place among the waiting jobs that a row let go at this height would have; the dragged row counts as where it was."""
        waiting = [one for one in self._rows.values() if not one.job.running]
        return sum(1 for one in waiting if one.geometry().center().y() < height)

    def _show_mark(self, _job: str, height: int) -> None:
        """A line where the row would go."""
        waiting = [one for one in self._rows.values() if not one.job.running]
        place = self._place_at(height)
        edge = waiting[place].geometry().top() if place < len(waiting) else waiting[-1].geometry().bottom()
        self._mark.setGeometry(0, edge - 1, self.width(), 2)
        self._mark.show()
        self._mark.raise_()

    def _drop(self, job: str, height: int) -> None:
        self._mark.hide()
        order = [name for name, one in self._rows.items() if not one.job.running]
        place = self._place_at(height)
        self._controller.session.queue.move(job, to=place - 1 if order.index(job) < place else place)

    def _remove(self, job_id: str) -> None:
        self._controller.session.queue.remove_with_undo(job_id)

    def _menu(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if self.pause.isHidden():
            pause = menu.addAction(self.pause.toolTip(), self.pause.toggle)
            pause.setCheckable(True)
            pause.setChecked(self.pause.isChecked())
        waiting = any(not job.running for job in self._controller.state.jobs)
        menu.addAction(tr("Clear waiting"), self._controller.session.queue.clear_waiting).setEnabled(waiting)
        menu.popup(self.more.mapToGlobal(QPoint(0, self.more.height())))
