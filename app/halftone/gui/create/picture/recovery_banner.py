"""The banner above a picture that came out black: what happened, what Halftone did, what you can do; evidence at the right."""

from PySide6.QtCore import QPoint, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QImage, QPainter, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QFrame, QSizePolicy, QWidget

from halftone.contract.facts import GuardEvent
from halftone.contract.vocabulary import DTYPE_NAMES, FLOAT_LIMITS, DType
from halftone.gui import theme
from halftone.gui.charts.headroom_chart import HeadroomChart
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.message_bars import LEVEL_ICONS, Message, announce
from halftone.gui.kit.painting import Painted, ink
from halftone.gui.kit.stock_widgets import (
    FactGrid,
    HoverButton,
    IconLabel,
    boxed,
    button,
    clear,
    column,
    detail_labels,
    label,
    repolish,
    row,
    scrolling,
)
from halftone.health.headroom import layer_of

_RIGHT = 330
_BETWEEN = 20
"""Pixels of the evidence, and between it and the words."""


class _Picture(Painted):
    """A small picture of the evidence."""

    def __init__(self) -> None:
        super().__init__()
        self._image = QImage()
        self.setFixedHeight(112)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_image(self, image: QImage) -> None:
        self._image = image
        self.update()

    def draw(self, painter: QPainter) -> None:
        side = min(self.height(), self.width())
        box = QRectF(0, 0, min(self.width(), side * 4 / 3), side)
        painter.fillRect(box, Qt.GlobalColor.black)
        if not self._image.isNull():
            _paint_cover(painter, box, self._image)
        ink(painter, edge="border-strong")
        painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5))


def _paint_cover(painter: QPainter, box: QRectF, image: QImage) -> None:
    """Fill the box with the middle of the picture."""
    wide = box.width() / box.height()
    width = min(float(image.width()), image.height() * wide)
    height = width / wide
    crop = QRectF((image.width() - width) / 2, (image.height() - height) / 2, width, height)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
    painter.drawImage(box, image, crop)


class Evidence(QWidget):
    """What half precision gave, what was recovered, and the peaks through the component."""

    def __init__(self) -> None:
        super().__init__()
        self.failed = _Picture()
        self.recovered = _Picture()
        self._failed_words = label("", "caption", "secondary")
        self._recovered_words = label("", "caption", "secondary")
        arrow = IconLabel("arrow-right", "text-secondary", 16)
        left = column(self.failed, row(IconLabel("octagon-alert", "danger", 14), self._failed_words, -1, spacing=5), spacing=6)
        right = column(self.recovered, row(IconLabel("circle-check", "ok", 14), self._recovered_words, -1, spacing=5), spacing=6)
        pair = row(left, arrow, right, stretch=(0, 2))
        pair.setAlignment(arrow, Qt.AlignmentFlag.AlignVCenter)
        self.pictures = boxed(pair)
        self._chart_words = label(tr("Peak by layer"), "caption", "secondary")
        self._limit_words = label("", "caption", "danger", numbers=True)
        self.chart = HeadroomChart(compact=True)
        self.chart.setFixedHeight(118)
        self.chart_part = boxed(column(row(self._chart_words, -1, self._limit_words), self.chart, spacing=2))
        self.setLayout(column(self.pictures, self.chart_part, -1, spacing=8))

    def show_event(self, event: GuardEvent, dtype: DType, failed: QImage, recovered: QImage) -> None:
        """failed: what the failing precision gave; a null image hides the pair."""
        self.pictures.setVisible(not failed.isNull() and not recovered.isNull())
        self.failed.show_image(failed)
        self.recovered.show_image(recovered)
        self._failed_words.setText(tr("{0} result", DTYPE_NAMES[dtype]))
        full = event.cure in ("float32-component", "float32-all", "upcast-region")
        self._recovered_words.setText(tr("Recovered in FP32") if full else tr("Recovered"))
        self.chart_part.setVisible(bool(event.layers))
        if event.layers:
            limit = FLOAT_LIMITS[dtype]
            shown = figures.group(int(limit)) if limit < 1e9 else figures.power(128)
            self._limit_words.setText(tr("{0} limit {1}", DTYPE_NAMES[dtype], shown))
            self.chart.set_layers(event.layers, dtype, origin=layer_of(event.layers, event))


class _Fold(HoverButton):
    """Opens and closes the technical details."""

    def __init__(self) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setFixedHeight(26)
        self.setAccessibleName(tr("Technical details"))
        self._chevron = IconLabel("chevron-right", "text-secondary", 14)
        self.setLayout(row(self._chevron, label(tr("Technical details"), "small-strong", "secondary"), -1, spacing=8))
        for part in self.findChildren(QWidget):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.toggled.connect(lambda on: self._chevron.set("chevron-down" if on else "chevron-right", "text-secondary"))


class PictureBanner(QWidget):
    """Scrolls inside. `acted` carries the key of the action; `reshaped`: it wants another height."""

    acted = Signal(str)
    reshaped = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.message: Message | None = None
        self._narrow = False
        self._icon = IconLabel("triangle-alert", "warn", 20)
        self._title = label("", "heading-s", wrap=True)
        self._text = label("", "body", "secondary", wrap=True)
        self._text.setTextFormat(Qt.TextFormat.RichText)
        self._buttons = row()
        self._price = label("", "caption", "muted", numbers=True)
        self.fold = _Fold()
        self._grid = FactGrid(down=5, margins=(22, 0, 0, 0))
        self._details = boxed(self._grid)
        self.fold.toggled.connect(self._folded)
        self.evidence = Evidence()
        self.evidence.setFixedWidth(_RIGHT)
        self._build()
        self.hide()

    def _build(self) -> None:
        head = row(self._icon, self._title, spacing=10, stretch=1)
        head.setAlignment(self._icon, Qt.AlignmentFlag.AlignTop)
        buttons = boxed(self._buttons)
        words = column(head, self._text, 2, buttons, self._price, self.fold, self._details, -1, spacing=6)
        self._pair = row(words, self.evidence, spacing=20, stretch=0)
        self._pair.setAlignment(self.evidence, Qt.AlignmentFlag.AlignTop)
        self._across = column(self._pair, spacing=6, margins=(16, 14, 16, 12))
        inside = boxed(self._across)
        self._area = scrolling(inside)
        self._inside = inside
        self._edge = QFrame()
        self._edge.setFixedWidth(3)
        frame = QFrame()
        frame.setProperty("surface", "raised")
        frame.setProperty("edge", "bottom")
        frame.setLayout(row(self._edge, self._area, spacing=0, stretch=1))
        self.setLayout(column(frame, spacing=0))

    # --- content ----------------------------------------------------------------------------------------------------

    def show_message(self, message: Message, event: GuardEvent | None, dtype: DType, failed: QImage, recovered: QImage) -> None:
        """Show a banner. event: for the evidence at the right, which is hidden without one."""
        if message != self.message:
            self._area.verticalScrollBar().setValue(0)
        self.message = message
        self._icon.set(*LEVEL_ICONS[message.level])
        self._title.setText(message.title)
        self._text.setText(_rich(message))
        self._text.setVisible(bool(message.text or message.strong))
        self._price.setText(message.price)
        self._price.setVisible(bool(message.price))
        self._fill_buttons(message)
        self._fill_details(message)
        shown = event is not None and (not failed.isNull() or bool(event.layers))
        self.evidence.setVisible(shown)
        if event is not None and shown:
            self.evidence.show_event(event, dtype, failed, recovered)
        self._edge.setProperty("stripe", message.level)
        repolish(self._edge)
        self.setAccessibleName(message.spoken)
        self._fit()
        self.show()
        announce(self, message.spoken, urgent=message.level == "danger")
        self.reshaped.emit()

    def _fill_buttons(self, message: Message) -> None:
        clear(self._buttons)
        for act in message.actions:
            made = button(act.label, act.kind, act.icon, size="large", tip=act.tip)
            made.clicked.connect(lambda _on=False, key=act.key: self.acted.emit(key))
            self._buttons.addWidget(made)
        self._buttons.addStretch(1)

    def _fill_details(self, message: Message) -> None:
        self._grid.fill(detail_labels(message.details))
        self.fold.setVisible(bool(message.details))
        self._details.setVisible(bool(message.details) and self.fold.isChecked())

    def _folded(self, open_: bool) -> None:
        self._details.setVisible(open_)
        self.reshaped.emit()
        if open_:
            QTimer.singleShot(0, self, self._show_details)

    def _show_details(self) -> None:
        """The heading is whole or out of sight."""
        bar, fold = self._area.verticalScrollBar(), self.fold.mapTo(self._inside, QPoint()).y()
        wanted = min(bar.maximum(), fold)
        bar.setValue(wanted if wanted > self._title.mapTo(self._inside, QPoint()).y() + self._title.height() else 0)

    def first_button(self) -> QAbstractButton | None:
        """The main action."""
        item = self._buttons.itemAt(0)
        widget = item.widget() if item is not None else None
        return widget if isinstance(widget, QAbstractButton) else None

    # --- shape ------------------------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Stack words and evidence where they do not fit abreast: the width changes with the buttons and with the language."""
        both = _RIGHT + _BETWEEN
        words = self._inside.minimumSizeHint().width() - (0 if self._narrow else both)
        narrow = self._area.viewport().width() < words + both
        if narrow == self._narrow:
            return
        self._narrow = narrow
        if narrow:
            self._pair.removeWidget(self.evidence)
            self._across.addWidget(self.evidence)
        else:
            self._across.removeWidget(self.evidence)
            self._pair.addWidget(self.evidence, 0, Qt.AlignmentFlag.AlignTop)
        self.reshaped.emit()

    def wanted_height(self) -> int:
        """Pixels that show everything without scrolling."""
        width = max(200, self._area.viewport().width())
        layout = self._inside.layout()
        wanted = layout.totalHeightForWidth(width) if layout is not None and layout.hasHeightForWidth() else 0
        return max(wanted, self._inside.sizeHint().height() if wanted <= 0 else 0) + 2


def _rich(message: Message) -> str:
    from html import escape

    colour = theme.current().color("text").name()
    strong = f"<span style='font-weight:600; color:{colour}'>{escape(message.strong)}</span>" if message.strong else ""
    return f"<p style='line-height:122%; margin:0'>{sentences(escape(message.text), strong)}</p>"
