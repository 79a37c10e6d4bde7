"""Controls that choose one of a few: an on/off switch, and joined buttons."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QButtonGroup, QCheckBox, QFrame, QPushButton, QSizePolicy

from halftone.gui import theme
from halftone.gui.kit.painting import dot, paint_on, plate
from halftone.gui.kit.stock_widgets import row


class Switch(QCheckBox):
    """An on/off switch, 30 by 16; a label beside it says On or Off."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def sizeHint(self) -> QSize:
        width = 30 + (8 + self.fontMetrics().horizontalAdvance(self.text()) if self.text() else 0)
        return QSize(width, theme.grown(24))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def hitButton(self, pos: object) -> bool:
        del pos
        return True

    def paintEvent(self, event: QPaintEvent) -> None:
        paint_on(self, self._draw)

    def _draw(self, painter: QPainter) -> None:
        track = QRectF(0.5, (self.height() - 16) / 2 + 0.5, 29, 15)
        on = self.isChecked()
        fill, edge, knob = ("accent", "accent", "on-accent") if on else ("field", "border-control", "border-control")
        if not self.isEnabled():
            fill, edge, knob = "surface-raised", "border-strong", "text-disabled"
        plate(painter, track, 7.5, fill, edge)
        dot(painter, QPointF(track.right() - 7.5 if on else track.left() + 7.5, track.center().y()), 5, knob)
        if self.text():
            painter.setPen(theme.current().color("text" if self.isEnabled() else "text-disabled"))
            painter.drawText(self.rect().adjusted(38, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self.text())


class Segmented(QFrame):
    """One choice of a few, as joined buttons; arrow keys move inside."""

    chosen = Signal(str)

    def __init__(self, choices: Sequence[tuple[str, str]]) -> None:
        """choices: value and label."""
        super().__init__()
        self.setProperty("segmented", True)
        self.setFixedHeight(theme.grown(28))
        self._group = QButtonGroup(self)
        self._buttons: dict[str, QPushButton] = {}
        for value, text in choices:
            self._buttons[value] = self._button(value, text)
        self.setLayout(row(*self._buttons.values(), spacing=0, margins=(2, 2, 2, 2)))

    def _button(self, value: str, text: str) -> QPushButton:
        made = QPushButton(text)
        made.setCheckable(True)
        made.setMinimumWidth(24)
        made.setFont(theme.current().font("small"))
        made.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        made.clicked.connect(lambda: self.chosen.emit(value))
        self._group.addButton(made)
        return made

    def value(self) -> str:
        """The chosen value, "" if there is none."""
        return next((value for value, made in self._buttons.items() if made.isChecked()), "")

    def set_value(self, value: str) -> None:
        """Choose without telling."""
        if value in self._buttons:
            self._buttons[value].setChecked(True)

    def button(self, value: str) -> QPushButton:
        return self._buttons[value]

    def set_tip(self, value: str, tip: str) -> None:
        self._buttons[value].setToolTip(tip)
