"""Controls that choose one of a few: an on/off switch, and joined buttons."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QButtonGroup, QCheckBox, QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget

from halftone.gui import theme


class Switch(QCheckBox):
    """An on/off switch, 30 by 16; a label beside it says On or Off."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        theme.watcher().changed.connect(self.update)

    def sizeHint(self) -> QSize:
        width = 30 + (8 + self.fontMetrics().horizontalAdvance(self.text()) if self.text() else 0)
        return QSize(width, 24)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def hitButton(self, pos: object) -> bool:
        del pos
        return True

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        track = QRectF(0.5, (self.height() - 16) / 2 + 0.5, 29, 15)
        on = self.isChecked()
        enabled = self.isEnabled()
        fill = colours.color("accent" if on else "field") if enabled else colours.color("surface-raised")
        edge = colours.color("accent" if on else "border-control") if enabled else colours.color("border-strong")
        painter.setPen(QPen(edge, 1))
        painter.setBrush(fill)
        painter.drawRoundedRect(track, 7.5, 7.5)
        knob = colours.color("on-accent" if on else "border-control") if enabled else colours.color("text-disabled")
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(knob)
        x = track.right() - 7.5 if on else track.left() + 7.5
        painter.drawEllipse(QRectF(x - 5, track.center().y() - 5, 10, 10))
        if self.text():
            painter.setPen(colours.color("text" if enabled else "text-disabled"))
            painter.drawText(self.rect().adjusted(38, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self.text())
        painter.end()


class Segmented(QFrame):
    """One choice of a few, as joined buttons; arrow keys move inside."""

    chosen = Signal(str)

    def __init__(self, choices: Sequence[tuple[str, str]] = (), parent: QWidget | None = None) -> None:
        """choices: value and label."""
        super().__init__(parent)
        self.setProperty("segmented", True)
        self.setFixedHeight(28)
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self._buttons: dict[str, QPushButton] = {}
        layout = QHBoxLayout(self)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.setSpacing(0)
        for value, text in choices:
            self._add(value, text, layout)

    def _add(self, value: str, text: str, layout: QHBoxLayout) -> None:
        made = QPushButton(text)
        made.setCheckable(True)
        made.setMinimumWidth(24)
        made.setFont(theme.current().font("small"))
        made.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        made.clicked.connect(lambda: self.chosen.emit(value))
        self._group.addButton(made)
        self._buttons[value] = made
        layout.addWidget(made)

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
