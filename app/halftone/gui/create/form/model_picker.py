"""The model row of the Create form, and how a model is shown in it and in the menu that it opens."""

from dataclasses import dataclass

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QImage, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from halftone.contract.echoes import harmless
from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import ModelFacts
from halftone.contract.vocabulary import POCKET
from halftone.gui import icons, text, theme
from halftone.gui.controller import Controller
from halftone.gui.health import file_dialogs
from halftone.gui.i18n import listed, say, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import HEALTH_LOOK, HoverButton, health_word, paint_badge
from halftone.gui.views.card_list import paint_line
from halftone.gui.views.thumbnails import paint_thumbnail
from halftone.health.judge import Badge
from halftone.library.add_ons.unusable_files import UNETS

_BADGE = 6 + 14 + 5 + 8
"""Pixels of a badge without its word."""


def model_line(model: ModelFacts) -> str:
    """SDXL · FP16 · 6.9 GB. The demo model's name says what it is."""
    stored = text.TYPE_NAMES.get(model.stored_dtype, model.stored_dtype)
    family = "" if model.id == POCKET else model.base or model.family
    return " · ".join(filter(None, (family, stored, figures.size(model.size_bytes))))


def part_line(part: ModelFacts) -> str:
    """As of a model, of a file that runs in the place of a model's transformer."""
    family, *rest = model_line(part).split(" · ")
    first = tr("UNet of {0}", family) if part.family in UNETS else tr("Transformer of {0}", family)
    return " · ".join((first, *rest))


def badge_tip(badge: Badge, report_date: str) -> str:
    """What stands behind a badge."""
    parts: list[str] = []
    if badge.room_bits is not None:
        parts.append(tr("Headroom {0}", figures.bits(badge.room_bits)))
    if report_date:
        parts.append(tr("checked {0} on this device", figures.moment(report_date)))
    words = tr("{0}.", listed(*parts)) if parts else ""
    return sentences(words, say(badge.reason))


@dataclass(frozen=True)
class ModelCard:
    """What is shown of a model. state: "" where nothing is known of its health, and it has no badge; tip: what stands behind the
    badge; chosen: it is in use.
    """

    name: str = ""
    line: str = ""
    state: str = "unchecked"
    tip: str = ""
    chosen: bool = False

    @property
    def spoken(self) -> str:
        """What a screen reader calls it."""
        return f"{self.name}, {tr('Model health: {0}', health_word(self.state)) if self.state else self.line}"

    @property
    def tooltip(self) -> str:
        """Everything in full."""
        health = health_word(self.state) if self.state else ""
        return "\n".join(filter(None, (self.name, self.line, health, self.tip)))

    def badge_words(self, room: float, *, compact: bool = False) -> str:
        """What stands in the badge, with so many pixels for it and the words beside it; "" for its icon alone."""
        if not self.state:
            return ""
        word = health_word(self.state)
        line = QFontMetrics(theme.current().font("caption")).horizontalAdvance(self.line)
        widest = max(line, self._name_width())
        return word if not compact or widest + 8 + _badge_width(word) <= room else ""

    def badge_below(self, room: float, *, compact: bool = False) -> bool:
        """Whether the badge stands beside the line below the name, so that the name has the whole width."""
        words = self.badge_words(room, compact=compact)
        return bool(words) and self._name_width() + 8 + _badge_width(words) > room

    def _name_width(self) -> int:
        return QFontMetrics(theme.current().font("body-strong")).horizontalAdvance(self.name)


def _badge_width(word: str) -> int:
    return _BADGE + QFontMetrics(theme.current().font("caption-strong")).horizontalAdvance(word)


def paint_model(painter: QPainter, rect: QRectF, card: ModelCard, image: QImage, side: int, *, compact: bool = False) -> None:
    """Paint thumbnail, name, line and badge of a model into a rectangle. compact: the badge has its word only where name and line
    are short enough.
    """
    middle = rect.center().y()
    picture = QRectF(rect.left(), middle - side / 2, side, side)
    paint_thumbnail(painter, picture, image)
    left = picture.right() + 9
    room = rect.right() - left
    words, below = card.badge_words(room, compact=compact), card.badge_below(room, compact=compact)
    beside = rect.right()
    if card.state:
        icon, tone = HEALTH_LOOK.get(card.state, HEALTH_LOOK["unchecked"])
        wide = _badge_width(words) if words else 26
        badge = QRectF(0, middle - theme.grown(1 if below else 10), wide, theme.grown(20))
        badge.moveRight(rect.right())
        paint_badge(painter, badge, icon, words, tone)
        beside = badge.left() - 8
    name = QRect(int(left), int(middle) - theme.grown(18), int((rect.right() if below else beside) - left), theme.grown(18))
    paint_line(painter, name, card.name, "body-strong")
    line = QRect(int(left), int(middle + 1), int(beside - left), theme.grown(16))
    metrics = QFontMetrics(theme.current().font("caption"))
    paint_line(painter, line, shortened(card.line, metrics, line.width()), "caption", "text-muted")


class ModelRow(HoverButton):
    """The model in use: opens the menu of models."""

    def __init__(self) -> None:
        super().__init__()
        self.card = ModelCard()
        self.image = QImage()
        self._compact = False
        self.setFixedHeight(theme.grown(54))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_model(self, card: ModelCard) -> None:
        self.card = card
        self.setAccessibleName(card.spoken)
        self.setToolTip(card.tooltip)
        self.update()

    def set_thumbnail(self, image: QImage) -> None:
        """A picture that this model made; a null image: none yet."""
        self.image = image
        self.update()

    def set_compact(self, compact: bool) -> None:
        self._compact = compact
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(280, self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, box = theme.current(), QRectF(self.rect())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(colours.color("border-control" if self.hovered else "border-strong"), 1))
        painter.setBrush(colours.color("field"))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
        side = theme.grown(16)
        chevron = QRectF(box.right() - 18 - side / 2, box.center().y() - side / 2, side, side)
        icons.paint(painter, "chevron-down", chevron, colours.color("text-secondary"))
        paint_model(painter, box.adjusted(7, 0, -34, 0), self.card, self.image, 40, compact=self._compact)
        painter.end()


def shortened(line: str, metrics: QFontMetrics, width: int) -> str:
    """As much of a model's line as there is room for: its first parts are left out before anything is cut."""
    line = harmless(line)
    while metrics.horizontalAdvance(line) > width and " · " in line:
        line = line.partition(" · ")[2]
    return metrics.elidedText(line, Qt.TextElideMode.ElideMiddle, width)


def ask_model(parent: QWidget, controller: Controller) -> None:
    """Let the user choose a model, and use it."""
    file_dialogs.ask_model(parent, controller.session.models.select)


def problem_words(error: ErrorFacts) -> str:
    """Why the model of the form cannot be used, in a few words."""
    if error.code == "model-needs-files":
        return tr("A small file is missing")
    return tr("File not found") if error.code == "model-missing" else text.error_sentence(error)
