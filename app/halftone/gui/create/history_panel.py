"""The right panel of Create below the queue: the pictures made before."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final

from PySide6.QtCore import QMimeData, QModelIndex, QPoint, QRect, QRectF, QSize, Qt, QUrl, Signal
from PySide6.QtGui import QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import QListView, QStyle, QWidget

from halftone.gui import icons, theme
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import actions
from halftone.gui.kit.stock_widgets import ElidedLabel, column, icon_button, label, row, surface
from halftone.gui.text import net_list
from halftone.gui.views.card_list import CardDelegate, CardList
from halftone.gui.views.list_model import ListModel, item_of
from halftone.gui.views.thumbnails import Thumbnails, paint_glyph, paint_thumbnail
from halftone.health.pictures.frame_lists import clock, video_seconds
from halftone.library.prompts.drawn_prompts import as_made
from halftone.library.prompts.shown_prompts import shown_prompt
from halftone.session.pictures.history import Made

_LEFT: Final = 9
_HEADING: Final = 28
_LINE = int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)


Row = Made | date
"""A picture, or the day above the pictures of that day."""


def day_name(day: date, today: date) -> str:
    """Today, Yesterday, or the date."""
    if day == today:
        return tr("Today")
    if day == today - timedelta(days=1):
        return tr("Yesterday")
    return f"{day:%Y-%m-%d}"


def by_day(pictures: Sequence[Made]) -> list[Row]:
    """Each day in the order in which its first picture comes, then its pictures."""
    days: dict[date, list[Row]] = {}
    for made in pictures:
        days.setdefault(made.made_at.astimezone().date(), []).append(made)
    return [one for day, inside in days.items() for one in (day, *inside)]


def _today() -> date:
    return datetime.now().astimezone().date()


class HistoryModel(ListModel[Row]):
    def key(self, item: Row) -> str:
        return item.facts.path if isinstance(item, Made) else item.isoformat()

    def name(self, item: Row) -> str:
        if not isinstance(item, Made):
            return day_name(item, _today())
        return listed(*filter(None, (shown_prompt(item.request.prompt) or item.facts.path, _film(item))))

    def tip(self, item: Row) -> str:
        if not isinstance(item, Made):
            return ""
        words = {"recovered": tr("Recovered"), "not-recovered": tr("Not recovered"), "unwatched": tr("Not monitored")}
        loras = as_made(item.request, item.facts).loras
        used = tr("LoRA: {0}", net_list(loras)) if loras else ""
        return "\n".join(filter(None, (shown_prompt(item.request.prompt), _film(item), used, words.get(item.facts.state, ""))))

    def state(self, item: Row) -> Qt.ItemFlag:
        return super().state(item) | Qt.ItemFlag.ItemIsDragEnabled if isinstance(item, Made) else Qt.ItemFlag.NoItemFlags

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        """The files of pictures, for Create and for other programs."""
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(item.facts.path) for item in map(item_of, indexes) if isinstance(item, Made)])
        return data


def _film(made: Made) -> str:
    seconds = video_seconds(made.facts)
    return tr("Video, {0}", clock(seconds)) if seconds else ""


class ThumbDelegate(CardDelegate[Row]):
    """A square thumbnail; the selected one has a frame, a glyph stands in the corner if something happened, and a film with its
    length in the other one of a video.
    """

    def __init__(self, thumbnails: Thumbnails) -> None:
        super().__init__()
        self._thumbnails = thumbnails
        self.side = 90
        self.width = 190

    def size(self, item: Row) -> QSize:
        return QSize(self.side + 1, self.side + 2) if isinstance(item, Made) else QSize(self.width, _HEADING)

    def paint_card(self, painter: QPainter, rect: QRect, item: Row, *, hovered: bool, selected: bool) -> None:
        colours = theme.current()
        if not isinstance(item, Made):
            painter.setFont(colours.font("caption-strong"))
            painter.setPen(colours.color("text-muted"))
            painter.drawText(rect.adjusted(3, 4, 0, 0), _LINE, day_name(item, _today()))
            return
        outside = QRectF(rect.left(), rect.top(), self.side, self.side)
        box = outside.adjusted(3, 3, -3, -3)
        paint_thumbnail(painter, box, self._thumbnails.get(item.facts.path))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if selected:
            painter.setPen(QPen(colours.color("accent"), 2))
            painter.drawRoundedRect(outside.adjusted(1, 1, -1, -1), 4, 4)
        elif hovered:
            painter.setPen(QPen(colours.color("border-control"), 1))
            painter.drawRoundedRect(box.adjusted(-1, -1, 1, 1), 3, 3)
        glyph = {"recovered": ("triangle-alert", "warn"), "not-recovered": ("octagon-alert", "danger")}.get(item.facts.state)
        if glyph is not None:
            paint_glyph(painter, box, *glyph)
        if seconds := video_seconds(item.facts):
            _paint_length(painter, box, clock(seconds))


def _paint_length(painter: QPainter, box: QRectF, words: str) -> None:
    painter.setFont(theme.current().font("caption"))
    wide = painter.fontMetrics().horizontalAdvance(words)
    plate = QRectF(box.left() + 4, box.bottom() - 22, wide + 27, 18)
    colour = theme.Theme("dark").color("text")
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.current().color("picture-badge"))
    painter.drawRoundedRect(plate, 4, 4)
    icons.paint(painter, "film", QRectF(plate.left() + 5, plate.top() + 3, 12, 12), colour)
    painter.setPen(colour)
    painter.drawText(plate.adjusted(21, 0, -4, 0), _LINE, words)


class ThumbList(CardList[Row]):
    """Two columns of thumbnails, one in a narrow panel; the days between them are as wide as the list."""

    def __init__(self, thumbnails: Thumbnails) -> None:
        self._thumbs = ThumbDelegate(thumbnails)
        super().__init__(tr("History"), self._thumbs)
        self.setFlow(QListView.Flow.LeftToRight)
        self.setWrapping(True)
        self.setDragDropMode(QListView.DragDropMode.DragOnly)
        self.setViewportMargins(_LEFT, 0, 0, 0)
        thumbnails.arrived.connect(self.viewport().update)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The scroll bar has its place even while there is none, so that its coming and going moves nothing."""
        bar = self.style().pixelMetric(QStyle.PixelMetric.PM_ScrollBarExtent, None, self.verticalScrollBar())
        width = self.width() - _LEFT - bar - 1
        if width != self._thumbs.width:
            columns = 1 if self.width() < 150 else 2
            self._thumbs.width, self._thumbs.side = width, max(40, width // columns - 1)
            self.scheduleDelayedItemsLayout()
        super().resizeEvent(event)


class HistoryPanel(QWidget):
    """Thumbnails by day, newest first.

    menu_requested: a picture, and where on the screen. picked, removed: a picture.
    """

    picked = Signal(str)
    removed = Signal(str)
    menu_requested = Signal(str, QPoint)
    collapse = Signal()

    def __init__(self, thumbnails: Thumbnails) -> None:
        super().__init__()
        self._pictures: Sequence[Made] = ()
        self.fold = icon_button("panel-right-close", actions.tip("right-panel", tr("Hide panel")), clicked=self.collapse.emit)
        head = surface("plain", "bottom")
        head.setFixedHeight(theme.grown(40))
        self._title = ElidedLabel(tr("History"), "body-strong")
        across = row(self._title, self.fold, margins=(12, 0, 8, 0))
        across.setStretch(0, 1)
        head.setLayout(across)
        self.model = HistoryModel()
        self.list = ThumbList(thumbnails)
        self.list.setModel(self.model)
        for signal in (self.list.chosen, self.list.reached):
            signal.connect(lambda made: self.picked.emit(made.facts.path))
        self.list.removed.connect(lambda made: self.removed.emit(made.facts.path))
        self.list.menu_requested.connect(lambda made, at: self.menu_requested.emit(made.facts.path, at))
        self._none = label("", "small", "muted", wrap=True)
        self._none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._none.setContentsMargins(13, 0, 13, 0)
        inside = column(head, self._none, self.list, spacing=0)
        inside.setStretch(1, 1)
        inside.setStretch(2, 1)
        self.setLayout(inside)
        self.set_pictures(())

    @property
    def least_width(self) -> int:
        """Return the width in which the head shows its words in full."""
        self.fold.ensurePolished()
        return 12 + self._title.sizeHint().width() + 8 + self.fold.sizeHint().width() + 8

    def paths(self) -> list[str]:
        """Newest first."""
        return [made.facts.path for made in self._pictures]

    def set_pictures(self, pictures: Sequence[Made], *, none: str = "") -> None:
        """Show these, newest first. none: what to say where there is none."""
        self._pictures = pictures
        self._none.setText(none)
        self.model.show(by_day(pictures))
        self._none.setVisible(not pictures and bool(self._none.text()))
        self.list.setVisible(bool(pictures))

    def select(self, path: str) -> None:
        self.list.select(self.model.index_of(path))

    def neighbour(self, path: str, by: int) -> str:
        """The picture before (-1: newer) or after (+1: older) another, "" at the end."""
        paths = self.paths()
        place = paths.index(path) + by if path in paths else 0
        return paths[place] if 0 <= place < len(paths) else ""
