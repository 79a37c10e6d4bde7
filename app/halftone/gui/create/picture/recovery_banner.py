"""The banner above a picture that came out black: what happened, what Halftone did, what you can do; evidence at the right."""

from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QFrame, QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from halftone.contract.facts import GuardEvent
from halftone.contract.vocabulary import DTYPE_NAMES, FLOAT_LIMITS, DType
from halftone.gui import theme
from halftone.gui.charts.headroom_chart import HeadroomChart
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.built_later import BuiltLater
from halftone.gui.kit.message_bars import LEVEL_ICONS, Message, announce
from halftone.gui.kit.stock_widgets import (
    HoverButton,
    IconLabel,
    boxed,
    button,
    clear,
    column,
    label,
    progress_bar,
    repolish,
    row,
    scrolling,
)
from halftone.health.headroom import layer_of

_RIGHT = 330
_BETWEEN = 20
"""Pixels of the evidence, and between it and the words."""
_HIGH, _LOW = 112, 84
"""Pixels of its pictures beside the words, and below them."""


class _Picture(QWidget):
    """A small picture of the evidence."""

    def __init__(self) -> None:
        super().__init__()
        self.image = QImage()
        self.set_height(_HIGH)

    def set_height(self, high: int) -> None:
        self.setFixedSize(high * 4 // 3, high)

    def show_image(self, image: QImage) -> None:
        self.image = image
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect())
        painter.fillRect(box, Qt.GlobalColor.black)
        if not self.image.isNull():
            _paint_cover(painter, box, self.image)
        painter.setPen(theme.current().color("border-strong"))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5))
        painter.end()


def _paint_cover(painter: QPainter, box: QRectF, image: QImage) -> None:
    """Fill the box with the middle of the picture."""
    wide = box.width() / box.height()
    width = min(float(image.width()), image.height() * wide)
    height = width / wide
    crop = QRectF((image.width() - width) / 2, (image.height() - height) / 2, width, height)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
    painter.drawImage(box, image, crop)


class Evidence(QWidget):
    """Two pictures beside each other: what half precision gave and what was recovered, or that and the one made clean."""

    def __init__(self) -> None:
        super().__init__()
        self.before = _Picture()
        self.after = _Picture()
        self._before_icon = IconLabel("octagon-alert", "danger", 14)
        self._before_words = label("", "caption", "secondary")
        self._after_words = label("", "caption", "secondary")
        arrow = IconLabel("arrow-right", "text-secondary", 16)
        left = column(self.before, row(self._before_icon, self._before_words, -1, spacing=5), spacing=6)
        right = column(self.after, row(IconLabel("circle-check", "ok", 14), self._after_words, -1, spacing=5), spacing=6)
        self.pictures = QWidget()
        pair = QHBoxLayout(self.pictures)
        pair.setContentsMargins(0, 0, 0, 0)
        pair.setSpacing(8)
        pair.addLayout(left)
        pair.addWidget(arrow, 0, Qt.AlignmentFlag.AlignVCenter)
        pair.addLayout(right)
        pair.addStretch(1)
        self._chart_words = label(tr("Peak by layer"), "caption", "secondary")
        self._limit_words = label("", "caption", "danger", numbers=True)
        self.chart = HeadroomChart(compact=True)
        self.chart.setFixedHeight(118)
        self.chart_part = QWidget()
        self.chart_part.setLayout(column(row(self._chart_words, -1, self._limit_words), self.chart, spacing=2))
        self.setLayout(column(self.pictures, self.chart_part, -1, spacing=8))

    def show_event(self, event: GuardEvent, dtype: DType, failed: QImage, recovered: QImage, *, chart: bool = True) -> None:
        """failed: what the failing precision gave; a null image hides the pair. chart: with the peaks through the component."""
        full = event.cure in ("float32-component", "float32-all", "upcast-region")
        self._before_icon.set("octagon-alert", "danger")
        self._show_pair(
            failed, tr("{0} result", DTYPE_NAMES[dtype]), recovered, tr("Recovered in FP32") if full else tr("Recovered")
        )
        self.chart_part.setVisible(chart and bool(event.layers))
        if chart and event.layers:
            limit = FLOAT_LIMITS[dtype]
            shown = figures.group(int(limit)) if limit < 1e9 else figures.power(128)
            self._limit_words.setText(tr("{0} limit {1}", DTYPE_NAMES[dtype], shown))
            self.chart.set_layers(event.layers, dtype, origin=layer_of(event.layers, event))

    def show_fixed(self, recovered: QImage, clean: QImage) -> None:
        """The two pictures of one seed."""
        self._before_icon.set("triangle-alert", "warn")
        self._show_pair(recovered, tr("Recovered"), clean, tr("Clean"))
        self.chart_part.hide()

    def _show_pair(self, before: QImage, before_words: str, after: QImage, after_words: str) -> None:
        self.pictures.setVisible(not before.isNull() and not after.isNull())
        self.before.show_image(before)
        self.after.show_image(after)
        self._before_words.setText(before_words)
        self._after_words.setText(after_words)

    def set_low(self, low: bool) -> None:
        """Small pictures, where the banner has little height."""
        for picture in (self.before, self.after):
            picture.set_height(_LOW if low else _HIGH)


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

    def paintEvent(self, event: QPaintEvent) -> None:
        return


_SHARES = 1000
"""Parts of the whole bar."""


class PictureBanner(BuiltLater):
    """Scrolls inside. `acted` carries the key of the action; `reshaped`: it wants another height."""

    acted = Signal(str)
    reshaped = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.message: Message | None = None
        self._narrow = False
        self._shown_event: tuple[GuardEvent, DType, QImage, QImage] | None = None
        self.hide()

    def build(self) -> None:
        self._icon = IconLabel("triangle-alert", "warn", 20)
        self._title = label("", "heading-s", wrap=True)
        self._text = label("", "body", "secondary", wrap=True)
        self._text.setTextFormat(Qt.TextFormat.RichText)
        self._buttons = QHBoxLayout()
        self._buttons.setSpacing(8)
        self._price = label("", "caption", "muted", numbers=True)
        self.fold = _Fold()
        self._details = QWidget()
        self._grid = QGridLayout(self._details)
        self._grid.setContentsMargins(22, 0, 0, 0)
        self._grid.setHorizontalSpacing(16)
        self._grid.setVerticalSpacing(5)
        self.fold.toggled.connect(self._folded)
        self.evidence = Evidence()
        self.evidence.setFixedWidth(_RIGHT)
        head = row(self._icon, self._title, spacing=10)
        head.setAlignment(self._icon, Qt.AlignmentFlag.AlignTop)
        head.setStretch(1, 1)
        buttons = QWidget()
        buttons.setLayout(self._buttons)
        self._buttons.setContentsMargins(0, 0, 0, 0)
        self._bar = progress_bar(tr("Progress"))
        self._bar.setRange(0, _SHARES)
        self._left = label("", "caption", "muted", numbers=True)
        self._going = boxed(row(self._bar, self._left, spacing=10))
        self._going.hide()
        self._words = column(head, self._text, self._going, 2, buttons, self._price, self.fold, self._details, -1, spacing=6)
        inside = QWidget()
        self._across = QVBoxLayout()
        self._pair = QHBoxLayout()
        self._pair.setSpacing(20)
        self._pair.addLayout(self._words, 1)
        self._pair.addWidget(self.evidence, 0, Qt.AlignmentFlag.AlignTop)
        self._across.addLayout(self._pair)
        self._across.setContentsMargins(16, 14, 16, 12)
        inside.setLayout(self._across)
        self._area = scrolling(inside)
        self._inside = inside
        inside.installEventFilter(self)
        self._edge = QFrame()
        self._edge.setFixedWidth(3)
        frame = QFrame()
        frame.setProperty("surface", "raised")
        frame.setProperty("edge", "bottom")
        layout = row(self._edge, self._area, spacing=0)
        layout.setStretch(1, 1)
        frame.setLayout(layout)
        self.setLayout(column(frame, spacing=0))

    # --- content ----------------------------------------------------------------------------------------------------

    def show_message(self, message: Message, event: GuardEvent | None, dtype: DType, failed: QImage, recovered: QImage) -> None:
        """Show a banner. event: for the evidence at the right, which is hidden without one."""
        self._show_words(message)
        shown = event is not None and (not failed.isNull() or bool(event.layers))
        self._shown_event = (event, dtype, failed, recovered) if event is not None and shown else None
        self._going.hide()
        self._show_evidence()
        self._show_it(message)

    @property
    def progress(self) -> int:
        """What the bar shows."""
        return self._bar.value()

    def set_progress(self, progress: float, left: str) -> None:
        """Show how much of a fix is done, from 0 to 1, and the time left in words."""
        self._going.show()
        self._bar.setValue(round(progress * _SHARES))
        self._left.setText(left)

    def show_fixed(self, recovered: QImage, clean: QImage) -> None:
        """Show the two pictures of a fix."""
        self._shown_event = None
        self.evidence.setVisible(True)
        self.evidence.show_fixed(recovered, clean)
        self._fit()
        self.reshaped.emit()

    def _show_evidence(self) -> None:
        """The pair, and with the details the peaks."""
        shown, opened = self._shown_event, self.fold.isChecked()
        there = shown is not None and (opened or not (shown[2].isNull() or shown[3].isNull()))
        self.evidence.setVisible(there)
        if shown is not None and there:
            self.evidence.show_event(*shown, chart=opened)

    def show_recovered(self, image: QImage) -> None:
        """The recovered picture was read."""
        if self._shown_event is not None:
            self._shown_event = (*self._shown_event[:3], image)
            self._show_evidence()

    def _show_words(self, message: Message) -> None:
        self.make()
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

    def _show_it(self, message: Message) -> None:
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
            made.show()  # else it has no width until later, and the banner takes the wrong shape
        self._buttons.addStretch(1)

    def _fill_details(self, message: Message) -> None:
        clear(self._grid)
        for index, (name, value) in enumerate(message.details):
            layer = name == tr("Where")
            words = label(value, "mono" if layer else "small", wrap=True, numbers=not layer)
            words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self._grid.addWidget(label(name, "small", "muted"), index, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(words, index, 1)
        self._grid.setColumnStretch(1, 1)
        self.fold.setVisible(bool(message.details))
        self._details.setVisible(bool(message.details) and self.fold.isChecked())

    def _folded(self, open_: bool) -> None:
        self._details.setVisible(open_)
        self._show_evidence()
        self._fit()
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
        if self.built:
            self._fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Buttons that got their font want another width, and what comes or goes another height."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
            self.reshaped.emit()
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        """Stack words and evidence where they do not fit abreast: the width changes with the buttons and with the language."""
        margins = self._across.contentsMargins()
        words = self._words.minimumSize().width() + margins.left() + margins.right()
        narrow = self._area.width() < words + _BETWEEN + _RIGHT
        if narrow == self._narrow:
            return
        self._narrow = narrow
        self.evidence.set_low(narrow)
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
