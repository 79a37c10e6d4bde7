"""The right panel of Create below the queue: the pictures made before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial

from PySide6.QtCore import (
    QPoint,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QVBoxLayout,
    QWidget,
)

from halftone.contract.request import Lora
from halftone.contract.vocabulary import ReceiptState
from halftone.gui import icons, theme
from halftone.gui.create.form.model_picker import paint_thumbnail
from halftone.gui.i18n import listed, tr
from halftone.gui.kit.stock_widgets import HoverButton, clear, column, icon_button, label, row, scrolling, surface
from halftone.gui.text import net_list
from halftone.health.pictures.frame_lists import clock


@dataclass(frozen=True)
class Thumb:
    """One picture of the history."""

    path: str
    image: QImage
    state: ReceiptState
    made: datetime
    prompt: str
    loras: tuple[Lora, ...] = ()
    seconds: float = 0.0
    """How long a video lasts; 0 of a picture."""


class ThumbButton(HoverButton):
    """A square thumbnail; the selected one has a frame, a glyph stands in the corner if something happened, and a film with its
    length in the other one of a video.
    """

    def __init__(self, thumb: Thumb) -> None:
        super().__init__()
        self.thumb = thumb
        self._selected = False
        words = {"recovered": tr("Recovered"), "not-recovered": tr("Not recovered"), "unwatched": tr("Not monitored")}
        used = tr("LoRA: {0}", net_list(thumb.loras)) if thumb.loras else ""
        film = tr("Video, {0}", clock(thumb.seconds)) if thumb.seconds else ""
        self.setToolTip("\n".join(filter(None, (thumb.prompt, film, used, words.get(thumb.state, "")))))
        self.setAccessibleName(listed(*filter(None, (thumb.prompt or thumb.path, film))))

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
        if self.thumb.seconds:
            self._paint_length(painter, box)
        painter.end()

    def _paint_length(self, painter: QPainter, box: QRectF) -> None:
        words = clock(self.thumb.seconds)
        painter.setFont(theme.current().font("caption"))
        wide = painter.fontMetrics().horizontalAdvance(words)
        plate = QRectF(box.left() + 4, box.bottom() - 22, wide + 27, 18)
        colour = theme.Theme("dark").color("text")
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().color("picture-badge"))
        painter.drawRoundedRect(plate, 4, 4)
        icons.paint(painter, "film", QRectF(plate.left() + 5, plate.top() + 3, 12, 12), colour)
        painter.setPen(colour)
        painter.drawText(plate.adjusted(21, 0, -4, 0), int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), words)

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
    """Thumbnails by day, newest first, two columns (one in a narrow window).

    menu_requested: a picture, and where on the screen.
    """

    picked = Signal(str)
    menu_requested = Signal(str, QPoint)
    collapse = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._thumbs: list[Thumb] = []
        self._buttons: dict[str, ThumbButton] = {}
        self._columns = 2
        self._selected = ""
        self.fold = icon_button("panel-right-close", tr("Hide panel (F7)"), clicked=self.collapse.emit)
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
            words = label(tr("No pictures yet."), "small", "muted", wrap=True)
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
            made.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            made.customContextMenuRequested.connect(partial(self._ask_menu, made))
            self._buttons[thumb.path] = made
            grid.addWidget(made, index // self._columns, index % self._columns)
        grid.setColumnStretch(self._columns, 1)
        return grid

    def _ask_menu(self, button: ThumbButton, at: QPoint) -> None:
        self.menu_requested.emit(button.thumb.path, button.mapToGlobal(at))
