"""Parts of the Create form that paint or lay out themselves: Generate button, folded row."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from halftone.gui import icons, theme
from halftone.gui.i18n import tr
from halftone.gui.kit.actions import keys_shown
from halftone.gui.kit.stock_widgets import HoverButton, IconLabel, label, row, set_tone

_INSET = (36, 0, 14, 0)
_VCENTER = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)


def _keys() -> str:
    return keys_shown("generate").replace("+", " ")


class GenerateButton(HoverButton):
    """Generate, Add to queue or Replace job in the same place, with its keys in a small frame. Paints itself, so that all fit one
    size.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(theme.grown(40))
        self._queueing = False
        self.set_queueing(False)

    def set_queueing(self, queueing: bool, *, replacing: bool = False) -> None:
        """queueing: a job runs, and the button adds to the queue; replacing: a job is being edited, which it replaces."""
        text = tr("Replace job") if replacing else tr("Add to queue") if queueing else tr("Generate")
        if text == self.text():
            return
        self._queueing = queueing
        self.setText(text)
        self.setAccessibleName(self.text())
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(220, 40)

    def _look(self) -> tuple[str, str, str]:
        """Ground, edge and ink."""
        if not self.isEnabled():
            return "surface-raised", "border", "text-disabled"
        if self._queueing:
            return ("pressed" if self.isDown() else "hover" if self.hovered else "surface-raised"), "border-control", "text"
        ground = "accent-pressed" if self.isDown() else "accent-hover" if self.hovered else "accent"
        return ground, ground, "on-accent"

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        ground, edge, ink = self._look()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(colours.color(edge), 1))
        painter.setBrush(colours.color(ground))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
        strong, small = colours.font("body-strong"), colours.font("caption")
        strong.setPixelSize(theme.grown(14))
        words = QFontMetrics(strong).horizontalAdvance(self.text())
        keys = QFontMetrics(small).horizontalAdvance(_keys()) + 12
        icon = 26 if self._queueing else 0
        left = (self.width() - icon - words - 12 - keys) / 2
        middle = self.height() / 2
        if icon:
            icons.paint(painter, "list-end", QRectF(left, middle - 9, 18, 18), colours.color(ink))
        painter.setPen(colours.color(ink))
        painter.setFont(strong)
        painter.drawText(QRectF(left + icon, 0, words + 4, self.height()), _VCENTER, self.text())
        high = theme.grown(17)
        box = QRectF(round(left + icon + words + 12) + 0.5, round(middle - high / 2) + 0.5, keys, high)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box, 3, 3)
        painter.setFont(small)
        painter.drawText(box, int(Qt.AlignmentFlag.AlignCenter), _keys())
        painter.end()


class FoldedRow(HoverButton):
    """A row that opens and closes what stands below it; its value is shown at the right."""

    def __init__(self, name: str, inside: QWidget, value: QLabel | None = None) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setFixedHeight(theme.grown(34))
        self.setAccessibleName(name)
        self._inside = inside
        self._chevron = IconLabel("chevron-right", "text-secondary", 14)
        self.value = value or label("", "small", "muted")
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._words = label(name, "small")
        for part in (self._chevron, self._words, self.value):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._line = row(self._chevron, self._words, self.value, spacing=8, margins=(14, 0, 14, 0), stretch=2)
        self.setLayout(self._line)
        self.toggled.connect(self._fold)
        inside.hide()

    def set_inset(self) -> None:
        """Stand inside a row of its kind."""
        self._line.setContentsMargins(*_INSET)
        self.setFixedHeight(theme.grown(30))
        set_tone(self._words, "secondary")

    def _fold(self, open_: bool) -> None:
        self._chevron.set("chevron-down" if open_ else "chevron-right", "text-secondary")
        self._inside.setVisible(open_)

    def sizeHint(self) -> QSize:
        return QSize(200, self.height())

    def paintEvent(self, event: object) -> None:
        return
