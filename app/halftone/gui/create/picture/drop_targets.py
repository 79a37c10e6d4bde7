"""What can be done with a picture that is dragged over Create or was pasted: one target each, which says what it would take."""

from typing import Final, Literal

from PySide6.QtCore import QEvent, QRectF, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent, QKeyEvent, QPainter, QPen
from PySide6.QtWidgets import QWidget

from halftone.gui import icons, theme
from halftone.gui.i18n import tr
from halftone.gui.kit.actions import takes_escape
from halftone.gui.kit.painting import plate, write
from halftone.gui.kit.stock_widgets import ElidedLabel, HoverButton, button, column, row, surface

Use = Literal["settings", "start", "inpaint"]
_WRAPPED: Final = int(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap)
_HEIGHT: Final = 164
_CENTRE: Final = int(Qt.AlignmentFlag.AlignCenter)


class DropCard(HoverButton):
    """A target. `clicked`: also when something is dropped on it. `over`: something is dragged over it, or no more."""

    over = Signal(bool)

    def __init__(self, icon: str, title: str) -> None:
        super().__init__()
        self._icon, self._title, self._words = icon, title, ""
        self.setAcceptDrops(True)
        self.setMinimumSize(120, _HEIGHT)
        self.setMaximumHeight(_HEIGHT)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.say("")

    def say(self, words: str, *, usable: bool = True) -> None:
        """Tell what it would take, or why it cannot be used."""
        self._words = words
        self.setAccessibleName(self._title)
        self.setAccessibleDescription(words)
        self.setEnabled(usable)
        self.update()

    @property
    def words(self) -> str:
        return self._words

    def draw(self, painter: QPainter) -> None:
        marked = self.isEnabled() and (self.hovered or self.hasFocus())
        box = QRectF(self.rect()).adjusted(1, 1, -1, -1)
        plate(painter, box, 8, "hover" if marked else "surface-raised")
        colour = theme.current().color("accent" if marked else "border-control")
        painter.setPen(QPen(colour, 2 if marked else 1, Qt.PenStyle.SolidLine if marked else Qt.PenStyle.DashLine))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box, 8, 8)
        ink = "text" if self.isEnabled() else "text-disabled"
        top = box.top() + 30
        tint = theme.current().color("accent-text" if self.isEnabled() else "text-disabled")
        icons.paint(painter, self._icon, QRectF(box.center().x() - 12, top, 24, 24), tint)
        write(painter, QRectF(box.left() + 10, top + 34, box.width() - 20, 22), self._title, "heading-s", ink, _CENTRE)
        words = QRectF(box.left() + 12, top + 60, box.width() - 24, box.bottom() - top - 64)
        write(painter, words, self._words, "small", "text-secondary" if self.isEnabled() else "text-muted", _WRAPPED)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if self.isEnabled():
            event.acceptProposedAction()
            self.hovered = True
            self.over.emit(True)
            self.update()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self.hovered = False
        self.over.emit(False)
        self.update()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        self.hovered = False
        self.clicked.emit()


class DropTargets(QWidget):
    """Lies over the canvas. `chosen`: the use that the picture was dropped on or that was clicked; `left`: none of them."""

    chosen = Signal(str)
    left = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.cards: dict[Use, DropCard] = {
            "settings": DropCard("sliders-horizontal", tr("Use its settings")),
            "start": DropCard("image", tr("Image to image")),
            "inpaint": DropCard("brush", tr("Inpaint")),
        }
        for use, card in self.cards.items():
            card.clicked.connect(lambda _on=False, use=use: self.chosen.emit(use))
        self.name = ElidedLabel("")
        self.name.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.cancel = button(tr("Cancel"), size="compact", clicked=self.left.emit)
        self.ground = surface("canvas")
        cards = row(*self.cards.values(), spacing=12, stretch=(0, 1, 2))
        self.ground.setLayout(column(-1, self.name, cards, row(-1, self.cancel, -1), -1, spacing=14, margins=(24, 20, 24, 20)))
        self.setLayout(column(self.ground, spacing=0))
        self.hide()

    def offer(self, name: str, *, pasted: bool) -> None:
        """Show the targets for a picture. pasted: they are clicked, as nothing is dragged."""
        self.name.set_text(name)
        self.cancel.setVisible(pasted)
        for card in self.cards.values():
            card.hovered = False
        self.show()
        self.raise_()
        if pasted:
            next((card for card in self.cards.values() if card.isEnabled()), self.cancel).setFocus(
                Qt.FocusReason.OtherFocusReason
            )

    def can(self, use: Use) -> bool:
        """Whether the picture can be used so."""
        return self.cards[use].isEnabled()

    def event(self, event: QEvent) -> bool:
        """Let Esc close the targets here; elsewhere it cancels the running job."""
        return takes_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)
