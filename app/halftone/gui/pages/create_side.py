"""The right panel of Create: the queue while it has jobs, and the pictures made before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from PySide6.QtCore import (
    QPoint,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QImage, QKeyEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QMenu,
    QVBoxLayout,
    QWidget,
)

from halftone.contract.messages import Generate
from halftone.contract.words import ReceiptState
from halftone.gui import icons, theme
from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.gui.pages.create_model import paint_thumbnail
from halftone.gui.pages.create_transport import seconds_left
from halftone.gui.state import Job
from halftone.gui.widgets import figures
from halftone.gui.widgets.common import ElidedLabel, HoverButton, clear, column, icon_button, label, row, scrolling, surface


@dataclass(frozen=True)
class Thumb:
    """One picture of the history."""

    path: str
    image: QImage
    state: ReceiptState
    made: datetime
    prompt: str


class ThumbButton(HoverButton):
    """A square thumbnail; the selected one has a frame, and a glyph stands in the corner if something happened."""

    def __init__(self, thumb: Thumb) -> None:
        super().__init__()
        self.thumb = thumb
        self._selected = False
        words = {"recovered": tr("Recovered"), "not-recovered": tr("Not recovered"), "unwatched": tr("Not watched")}
        self.setToolTip("\n".join(filter(None, (thumb.prompt, words.get(thumb.state, "")))))
        self.setAccessibleName(thumb.prompt or thumb.path)

    def set_selected(self, selected: bool) -> None:
        if selected != self._selected:
            self._selected = selected
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect()).adjusted(3, 3, -3, -3)
        paint_thumbnail(painter, box, self.thumb.image)
        if self._selected:
            painter.setPen(QPen(colours.color("accent"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)
        elif self.hovered:
            painter.setPen(QPen(colours.color("border-control"), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(box.adjusted(-1, -1, 1, 1), 3, 3)
        glyph = {"recovered": ("triangle-alert", "warn"), "not-recovered": ("octagon-alert", "danger")}.get(self.thumb.state)
        if glyph is not None:
            self._paint_glyph(painter, box, *glyph)
        painter.end()

    def _paint_glyph(self, painter: QPainter, box: QRectF, icon: str, tone: str) -> None:
        disc = QRectF(box.right() - 22, box.bottom() - 22, 18, 18)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().color("picture-badge"))
        painter.drawEllipse(disc)
        icons.paint(painter, icon, disc.adjusted(3, 3, -3, -3), theme.Theme("dark").color(tone))


def day_name(day: date, today: date) -> str:
    """Today, Yesterday, or the date."""
    if day == today:
        return tr("Today")
    if day == today - timedelta(days=1):
        return tr("Yesterday")
    return f"{day:%Y-%m-%d}"


class HistoryPanel(QWidget):
    """Thumbnails by day, newest first, two columns (one in a narrow window)."""

    picked = Signal(str)
    collapse = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._thumbs: list[Thumb] = []
        self._buttons: dict[str, ThumbButton] = {}
        self._columns = 2
        self._selected = ""
        self.fold = icon_button("panel-right-close", tr("Hide the right panel (F7)"), clicked=self.collapse.emit)
        head = surface("plain", "bottom")
        head.setFixedHeight(40)
        head.setLayout(row(label(tr("History"), "body-strong"), -1, self.fold, margins=(12, 0, 8, 0)))
        inside = QWidget()
        self._list = QVBoxLayout(inside)
        self._list.setContentsMargins(9, 2, 0, 8)
        self._list.setSpacing(4)
        self._area = scrolling(inside)
        self.setLayout(column(head, self._area, spacing=0))
        self._arrange()

    def paths(self) -> list[str]:
        """Newest first."""
        return [thumb.path for thumb in self._thumbs]

    def set_thumbs(self, thumbs: Sequence[Thumb]) -> None:
        self._thumbs = list(thumbs)
        self._arrange()

    def add(self, thumb: Thumb) -> None:
        """A picture that was just made."""
        self._thumbs = [thumb, *(other for other in self._thumbs if other.path != thumb.path)]
        self._arrange()

    def remove(self, path: str) -> None:
        self._thumbs = [thumb for thumb in self._thumbs if thumb.path != path]
        self._arrange()

    def thumb(self, path: str) -> Thumb | None:
        return next((thumb for thumb in self._thumbs if thumb.path == path), None)

    def select(self, path: str) -> None:
        self._selected = path
        for name, made in self._buttons.items():
            made.set_selected(name == path)
        made = self._buttons.get(path)
        if made is not None:
            self._area.ensureWidgetVisible(made, 0, 20)

    def neighbour(self, path: str, by: int) -> str:
        """The picture before (-1: newer) or after (+1: older) another, "" at the end."""
        paths = self.paths()
        place = paths.index(path) + by if path in paths else 0
        return paths[place] if 0 <= place < len(paths) else ""

    def resizeEvent(self, event: QResizeEvent) -> None:
        """One column of 112, two from 160 on."""
        super().resizeEvent(event)
        columns = 1 if self.width() < 150 else 2
        if columns != self._columns:
            self._columns = columns
            self._arrange()
        for made in self._buttons.values():
            made.setFixedSize(self._side, self._side)

    @property
    def _side(self) -> int:
        """Of a thumbnail. It leaves room for the scroll bar, so that its coming and going moves nothing."""
        return max(40, (self.width() - 9 - 11) // self._columns - 1)

    def _arrange(self) -> None:
        clear(self._list)
        self._buttons = {}
        if not self._thumbs:
            words = label(tr("Your pictures appear here as you make them."), "small", "muted", wrap=True)
            words.setAlignment(Qt.AlignmentFlag.AlignCenter)
            words.setContentsMargins(4, 0, 13, 0)
            self._list.addStretch(1)
            self._list.addWidget(words)
            self._list.addStretch(1)
            return
        today = datetime.now().astimezone().date()
        days: dict[date, list[Thumb]] = {}
        for thumb in self._thumbs:
            days.setdefault(thumb.made.astimezone().date(), []).append(thumb)
        for day, thumbs in days.items():
            name = label(day_name(day, today), "caption-strong", "muted")
            name.setContentsMargins(3, 6, 0, 2)
            self._list.addWidget(name)
            self._list.addLayout(self._day(thumbs))
        self._list.addStretch(1)

    def _day(self, thumbs: Sequence[Thumb]) -> QGridLayout:
        grid = QGridLayout()
        grid.setSpacing(2)
        for index, thumb in enumerate(thumbs):
            made = ThumbButton(thumb)
            made.set_selected(thumb.path == self._selected)
            made.setFixedSize(self._side, self._side)
            made.clicked.connect(lambda _on=False, path=thumb.path: self.picked.emit(path))
            self._buttons[thumb.path] = made
            grid.addWidget(made, index // self._columns, index % self._columns)
        grid.setColumnStretch(self._columns, 1)
        return grid


class QueueRow(QWidget):
    """One job: running with a bar, or waiting with its place. Alt+Up and Alt+Down move it, Delete removes it."""

    removed = Signal(str)
    moved = Signal(str, int)

    def __init__(self, job: Job, place: int) -> None:
        super().__init__()
        self.job = job
        self._place = place
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(job.title)
        self.title = ElidedLabel(job.title or kind_name(job), "small")
        self.line = ElidedLabel(_job_line(job), "caption", "muted")
        self.left = label("", "caption", "muted", numbers=True)
        self.right = label("", "caption", "muted", numbers=True)
        self.setFixedHeight(82 if job.running else 62)
        close = icon_button("x", tr("Remove from the queue") if not job.running else tr("Cancel"), size=14)
        close.clicked.connect(lambda: self.removed.emit(job.id))
        words = column(self.title, self.line, spacing=1)
        if job.running:
            words.addSpacing(10)
        words.addLayout(row(self.left, -1, self.right))
        layout = row(words, spacing=6, margins=(62, 8, 6, 8))
        layout.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)
        layout.setStretch(0, 1)
        self.setLayout(layout)
        theme.watcher().changed.connect(self.update)

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
        box = QRectF(12, 10, 40, 40)
        if self.job.running:
            paint_thumbnail(painter, box, self._preview)
            bar = QRectF(62, 46, self.width() - 62 - 36, 4)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colours.color("border-strong"))
            painter.drawRoundedRect(bar, 2, 2)
            share = self.job.fraction if self.job.fraction is not None else 0.0
            painter.setBrush(colours.color("accent"))
            painter.drawRoundedRect(QRectF(bar.left(), bar.top(), bar.width() * share, bar.height()), 2, 2)
        else:
            painter.setPen(QPen(colours.color("border-control"), 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5))
            painter.setPen(colours.color("text-muted"))
            painter.setFont(colours.font("small", numbers=True))
            painter.drawText(box, int(Qt.AlignmentFlag.AlignCenter), str(self._place))
        painter.setPen(colours.color("border"))
        painter.drawLine(0, self.height() - 1, self.width(), self.height() - 1)
        painter.end()

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
    return {"Examine": tr("Check"), "SelfTest": tr("Measure the device"), "Repair": tr("Repaired copy")}.get(
        job.kind, tr("Picture")
    )


def _job_line(job: Job) -> str:
    if isinstance(job.command, Generate):
        request = job.command.request
        size = f"{request.width} × {request.height}" if request.width and request.height else ""
        batch = tr("batch {0}", request.batch) if request.batch > 1 else ""
        return " · ".join(filter(None, (size, batch)))
    return kind_name(job)


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
        self.pause.toggled.connect(controller.pause)
        self.more = icon_button("ellipsis", tr("More"), clicked=self._menu)
        head = surface("plain", "bottom")
        head.setFixedHeight(40)
        head.setLayout(row(label(tr("Queue"), "body-strong"), self.count, -1, self.pause, self.more, margins=(12, 0, 8, 0)))
        self._list = QVBoxLayout()
        self._list.setSpacing(0)
        self._list.setContentsMargins(0, 0, 0, 0)
        self.setLayout(column(head, self._list, spacing=0))
        controller.changed.connect(self._refresh)
        self.hide()

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
        self.count.setText(tr("1 job") if len(jobs) == 1 else tr("{0} jobs", len(jobs)))
        self.pause.setChecked(state.paused)
        if not jobs:
            self._preview = QImage()

    def _arrange(self, jobs: Sequence[Job]) -> None:
        clear(self._list)
        self._rows = {}
        for place, job in enumerate(jobs, start=1):
            made = QueueRow(job, place)
            made.removed.connect(self._remove)
            made.moved.connect(self._controller.move)
            self._rows[job.id] = made
            self._list.addWidget(made)

    def _remove(self, job_id: str) -> None:
        self._controller.remove_with_undo(job_id)

    def _menu(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        waiting = any(not job.running for job in self._controller.state.jobs)
        menu.addAction(tr("Clear waiting"), self._controller.clear_waiting).setEnabled(waiting)
        menu.popup(self.more.mapToGlobal(QPoint(0, self.more.height())))
