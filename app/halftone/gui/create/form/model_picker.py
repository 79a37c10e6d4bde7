"""The model row of the Create form and the list it opens."""

from collections.abc import Callable, Collection

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import QFontMetrics, QImage, QKeyEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QSizePolicy, QVBoxLayout, QWidget

from halftone.contract.echoes import harmless
from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import ModelFacts
from halftone.gui import icons, text, theme
from halftone.gui.controller import Controller
from halftone.gui.health import file_dialogs
from halftone.gui.i18n import listed, say, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import HEALTH_LOOK, HoverButton, button, health_word, hline, icon_button, paint_badge, row
from halftone.health.judge import Badge
from halftone.library.add_ons.unusable_files import UNETS
from halftone.library.models import POCKET
from halftone.session.model_list import ModelList as Known

_BADGE = 6 + 14 + 5 + 8
"""Pixels of a badge without its word."""
_LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)


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


class ModelRow(HoverButton):
    """Thumbnail, name, line and badge of one model; as the form's button it also has a frame and a chevron."""

    def __init__(self, *, framed: bool = False) -> None:
        super().__init__()
        self._framed = framed
        self._compact = False
        self._name = ""
        self._line = ""
        self._state = "unchecked"
        self._chosen = False
        self._thumbnail = QImage()
        self.setFixedHeight(54 if framed else 42)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_model(self, name: str, line: str, state: str, *, tip: str = "", chosen: bool = False) -> None:
        """state: "" where nothing is known of health, and no badge is shown. tip: what stands behind the badge. The tooltip has
        everything in full.
        """
        self._name, self._line, self._state, self._chosen = name, line, state, chosen
        health = health_word(state) if state else ""
        self.setAccessibleName(f"{name}, {tr('Model health: {0}', health) if health else line}")
        self.setToolTip("\n".join(filter(None, (name, line, health, tip))))
        self.update()

    def set_thumbnail(self, image: QImage) -> None:
        """A picture that this model made; a null image: none yet."""
        self._thumbnail = image
        self.update()

    def set_compact(self, compact: bool) -> None:
        """The badge stands below the name, with its word where there is room for it."""
        self._compact = compact
        self.update()

    def badge_words(self, room: float) -> str:
        """What stands in the badge, with so many pixels for it and the line below the name; "" for its icon alone."""
        if not self._state:
            return ""
        word = health_word(self._state)
        colours = theme.current()
        line = QFontMetrics(colours.font("caption")).horizontalAdvance(self._line)
        badge = _BADGE + QFontMetrics(colours.font("caption-strong")).horizontalAdvance(word)
        return word if not self._compact or line + 8 + badge <= room else ""

    def badge_below(self, room: float) -> bool:
        """Whether the badge stands beside the line below the name, so that the name has the whole width."""
        words = self.badge_words(room)
        colours = theme.current()
        name = QFontMetrics(colours.font("body-strong")).horizontalAdvance(self._name)
        badge = _BADGE + QFontMetrics(colours.font("caption-strong")).horizontalAdvance(words)
        return bool(words) and (self._compact or name + 8 + badge > room)

    def sizeHint(self) -> QSize:
        return QSize(280, self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_ground(painter)
        side = 40 if self._framed else 30
        picture = QRectF(7 if self._framed else 10, (self.height() - side) / 2, side, side)
        paint_thumbnail(painter, picture, self._thumbnail)
        right = self.width() - 10.0
        if self._framed:
            icons.paint(
                painter, "chevron-down", QRectF(right - 16, self.height() / 2 - 8, 16, 16), colours.color("text-secondary")
            )
            right -= 24
        elif self._chosen:
            icons.paint(painter, "check", QRectF(right - 16, self.height() / 2 - 8, 16, 16), colours.color("accent-text"))
        if not self._framed:
            right -= 24
        left = picture.right() + 9
        below = self.badge_below(right - left)
        beside = right
        if self._state:
            beside = self._paint_badge(painter, right, self.badge_words(right - left), below=below) - 8
        self._paint_words(painter, left, right if below else beside, beside)
        painter.end()

    def _paint_ground(self, painter: QPainter) -> None:
        colours = theme.current()
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        if self._framed:
            painter.setPen(QPen(colours.color("border-control" if self.hovered else "border-strong"), 1))
            painter.setBrush(colours.color("field"))
            painter.drawRoundedRect(box, 5, 5)
        elif self._chosen or self.hovered or self.hasFocus():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colours.color("selected" if self._chosen else "hover"))
            painter.drawRect(self.rect())

    def _paint_badge(self, painter: QPainter, right: float, words: str, *, below: bool) -> float:
        """Returns the left edge of what was painted."""
        icon, tone = HEALTH_LOOK.get(self._state, HEALTH_LOOK["unchecked"])
        metrics = QFontMetrics(theme.current().font("caption-strong"))
        width = _BADGE + metrics.horizontalAdvance(words) if words else 26
        box = QRectF(right - width, self.height() / 2 - (1 if below else 10), width, 20)
        paint_badge(painter, box, icon, words, tone)
        return box.left()

    def _paint_words(self, painter: QPainter, left: float, right: float, line_right: float) -> None:
        """The name up to one edge, the line below it up to another."""
        colours = theme.current()
        strong, small = colours.font("body-strong"), colours.font("caption")
        width, line_width = int(right - left), int(line_right - left)
        middle = self.height() / 2
        painter.setFont(strong)
        painter.setPen(colours.color("text"))
        name = QFontMetrics(strong).elidedText(self._name, Qt.TextElideMode.ElideRight, width)
        painter.drawText(QRectF(left, middle - 18, width, 18), _LEFT, name)
        painter.setFont(small)
        painter.setPen(colours.color("text-muted"))
        line = shortened(self._line, QFontMetrics(small), line_width)
        painter.drawText(QRectF(left, middle + 1, line_width, 16), _LEFT, line)


def shortened(line: str, metrics: QFontMetrics, width: int) -> str:
    """As much of a model's line as there is room for: its first parts are left out before anything is cut."""
    line = harmless(line)
    while metrics.horizontalAdvance(line) > width and " · " in line:
        line = line.partition(" · ")[2]
    return metrics.elidedText(line, Qt.TextElideMode.ElideMiddle, width)


def paint_thumbnail(painter: QPainter, rect: QRectF, image: QImage) -> None:
    """A square crop of a picture with small round corners, or a sign for one where there is none yet."""
    painter.save()
    path = QPainterPath()
    path.addRoundedRect(rect, 3, 3)
    painter.setClipPath(path)
    if image.isNull():
        painter.fillRect(rect, theme.current().color("surface-overlay"))
        side = rect.width() * 0.45
        sign = QRectF(rect.center().x() - side / 2, rect.center().y() - side / 2, side, side)
        icons.paint(painter, "image", sign, theme.current().color("text-muted"))
    else:
        side = min(image.width(), image.height())
        crop = QRectF((image.width() - side) / 2, (image.height() - side) / 2, side, side)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.drawImage(rect, image, crop)
    painter.restore()


class ModelList(QFrame):
    """The list that the model row opens: models, then ways to get more."""

    chosen = Signal(str)
    open_folder = Signal()
    make_fragile = Signal()
    forgotten = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("modelList")
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(1, 4, 1, 4)
        self._layout.setSpacing(0)

    def fill(
        self,
        known: Known,
        in_use: Collection[str | None],
        badge: Callable[[ModelFacts], Badge],
        picture: Callable[[str], QImage],
    ) -> None:
        """in_use: the model, and the file in the place of its transformer. picture: what a model made."""
        found = known.found
        for model in (*found.models.values(), *found.waiting.values()):
            look = badge(model)
            line = tr("A small file is missing") if model.id in found.waiting else model_line(model)
            entry = self._add(model, known, picture)
            entry.show_model(model.name, line, look.state, tip=badge_tip(look, ""), chosen=model.id in in_use)
        for part in found.parts.values():
            tip = tr("Uses the other parts of a matching model.")
            self._add(part, known, picture).show_model(part.name, part_line(part), "", tip=tip, chosen=part.path in in_use)
        self._layout.addWidget(hline())
        for words, icon, signal in (
            (tr("Open a model…"), "folder-plus", self.open_folder),
            (tr("Create the overflow demo model"), "flask-conical", self.make_fragile),
        ):
            made = button(words, "row", icon)
            made.clicked.connect(lambda _on=False, signal=signal: self._leave(signal))
            self._layout.addWidget(made)

    def _add(self, model: ModelFacts, known: Known, picture: Callable[[str], QImage]) -> ModelRow:
        entry = ModelRow()
        entry.set_thumbnail(picture(model.id))
        entry.clicked.connect(lambda _on=False: self._choose(model.id))
        leaving = len(known.with_it(model.id))
        self._layout.addLayout(row(entry, self._forget_button(model, leaving) if leaving else 32, spacing=0))
        return entry

    def _forget_button(self, model: ModelFacts, leaving: int) -> QWidget:
        words = tr("Remove {0}. Files are kept.", model.name)
        if leaving > 1:
            words = tr("Remove {0} and its folder ({1} models). Files are kept.", model.name, leaving)
        made = icon_button("x", words, size=14, clicked=lambda: self._forget(model.id))
        made.setFixedWidth(32)
        return made

    def _forget(self, model: str) -> None:
        self.close()
        self.forgotten.emit(model)

    def _choose(self, model: str) -> None:
        self.close()
        self.chosen.emit(model)

    def _leave(self, signal: SignalInstance) -> None:
        self.close()
        signal.emit()

    def show_under(self, anchor: QWidget) -> None:
        """Below the anchor, as wide as it or a little wider."""
        self.setFixedWidth(max(anchor.width() + 32, 320))
        self.adjustSize()
        self.move(anchor.mapToGlobal(QPoint(0, anchor.height() + 3)))
        self.show()
        self.setFocus(Qt.FocusReason.PopupFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Down:
            self.focusNextChild()
        elif event.key() == Qt.Key.Key_Up:
            self.focusPreviousChild()
        else:
            super().keyPressEvent(event)


def ask_model(parent: QWidget, controller: Controller) -> None:
    """Let the user choose a model, and use it."""
    file_dialogs.ask_model(parent, controller.session.models.select)


def problem_words(error: ErrorFacts) -> str:
    """Why the model of the form cannot be used, in a few words."""
    if error.code == "model-needs-files":
        return tr("A small file is missing")
    return tr("File not found") if error.code == "model-missing" else text.error_sentence(error)
