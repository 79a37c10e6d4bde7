"""Parts of the Create form that paint or lay out themselves: prompt field, Generate button, folded row."""

from PySide6.QtCore import QMimeData, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QKeyEvent, QPainter, QPaintEvent, QPen, QTextBlockFormat, QTextCursor
from PySide6.QtWidgets import QSizePolicy, QTextEdit, QWidget

from halftone.gui import icons, theme
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import HoverButton, IconLabel, label, row
from halftone.metadata.reading import holds_parameters

_MARGIN = 4
_KEYS = "Ctrl Enter"
_VCENTER = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)


class PromptEdit(QTextEdit):
    """Plain text in lines of 20; Tab leaves the field, Ctrl+Enter is left to the window. `settings_pasted`: a text that is more
    than a prompt, as A1111 writes them. Files that are dropped are left to the page.
    """

    settings_pasted = Signal(str)

    def __init__(self, name: str, tip: str, placeholder: str) -> None:
        super().__init__()
        self.setAcceptRichText(False)
        self.setTabChangesFocus(True)
        self.setAccessibleName(name)
        self.setToolTip(tip)
        self.setAccessibleDescription(placeholder)
        self._placeholder = placeholder
        self._tight = False
        self.setFont(theme.current().font("body"))
        self.document().setDocumentMargin(_MARGIN)
        self.setPlainText("")

    def setPlainText(self, text: str) -> None:
        """Qt forgets the line height and the margins with each new text."""
        super().setPlainText(text)
        shape = QTextBlockFormat()
        shape.setLineHeight(theme.current().line("body"), QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.mergeBlockFormat(shape)
        self.set_tight(self._tight)
        self.document().clearUndoRedoStacks()

    def set_tight(self, tight: bool) -> None:
        """Without space above and below the text, for a low window."""
        self._tight = tight
        shape = self.document().rootFrame().frameFormat()
        shape.setTopMargin(0 if tight else _MARGIN)
        shape.setBottomMargin(0 if tight else _MARGIN)
        self.document().rootFrame().setFrameFormat(shape)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Qt cuts a placeholder off after the first line where lines have a fixed height, so it is painted here."""
        super().paintEvent(event)
        if self.toPlainText():
            return
        painter = QPainter(self.viewport())
        painter.setPen(theme.current().color("text-muted"))
        painter.setFont(self.font())
        box = self.viewport().rect().adjusted(_MARGIN, _MARGIN + 1, -_MARGIN, 0)
        painter.drawText(box, int(Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap), self._placeholder)
        painter.end()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return not any(url.isLocalFile() for url in source.urls()) and super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        if source.hasText() and holds_parameters(source.text()):
            self.settings_pasted.emit(source.text())
        else:
            super().insertFromMimeData(source)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            event.ignore()
            return
        super().keyPressEvent(event)


class GenerateButton(HoverButton):
    """Generate, or Add to queue in the same place, with its keys in a small frame. Paints itself, so that both fit one size."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(40)
        self._queueing = False
        self.set_queueing(False)

    def set_queueing(self, queueing: bool) -> None:
        """True while a job runs: the button then adds to the queue."""
        if queueing == self._queueing and self.text():
            return
        self._queueing = queueing
        self.setText(tr("Add to queue") if queueing else tr("Generate"))
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
        strong.setPixelSize(14)
        words = QFontMetrics(strong).horizontalAdvance(self.text())
        keys = QFontMetrics(small).horizontalAdvance(_KEYS) + 12
        icon = 26 if self._queueing else 0
        left = (self.width() - icon - words - 12 - keys) / 2
        middle = self.height() / 2
        if icon:
            icons.paint(painter, "list-end", QRectF(left, middle - 9, 18, 18), colours.color(ink))
        painter.setPen(colours.color(ink))
        painter.setFont(strong)
        painter.drawText(QRectF(left + icon, 0, words + 4, self.height()), _VCENTER, self.text())
        box = QRectF(round(left + icon + words + 12) + 0.5, round(middle - 9) + 0.5, keys, 17)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box, 3, 3)
        painter.setFont(small)
        painter.drawText(box, int(Qt.AlignmentFlag.AlignCenter), _KEYS)
        painter.end()


class FoldedRow(HoverButton):
    """A row that opens and closes what stands below it; its value is shown at the right."""

    def __init__(self, name: str, inside: QWidget) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setFixedHeight(34)
        self.setAccessibleName(name)
        self._inside = inside
        self._chevron = IconLabel("chevron-right", "text-secondary", 14)
        self.value = label("", "small", "muted")
        words = label(name, "small")
        for part in (self._chevron, words, self.value):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setLayout(row(self._chevron, words, -1, self.value, spacing=8, margins=(14, 0, 14, 0)))
        self.toggled.connect(self._fold)
        inside.hide()

    def _fold(self, open_: bool) -> None:
        self._chevron.set("chevron-down" if open_ else "chevron-right", "text-secondary")
        self._inside.setVisible(open_)

    def sizeHint(self) -> QSize:
        return QSize(200, 34)

    def paintEvent(self, event: object) -> None:
        return
