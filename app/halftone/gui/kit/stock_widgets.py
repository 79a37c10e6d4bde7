"""Small stock widgets dressed in the theme: labels, buttons, hairlines, switches, segments and health badges."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Literal, TypeVar

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt
from PySide6.QtGui import QAction, QEnterEvent, QFontMetrics, QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QBoxLayout,
    QComboBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QKeySequenceEdit,
    QLabel,
    QLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from halftone.contract.echoes import harmless
from halftone.gui import icons, theme
from halftone.gui.i18n import tr
from halftone.gui.kit.painting import Painted, paint_on, plate, write

L = TypeVar("L", bound=QBoxLayout)
Item = QWidget | QLayout | int
Margins = tuple[int, int, int, int]
NONE: Margins = (0, 0, 0, 0)
ButtonKind = Literal["", "primary", "quiet", "danger", "link", "row"]

HEALTH_LOOK: dict[str, tuple[str, str]] = {
    "healthy": ("circle-check", "ok"),
    "cured": ("bandage", "ok"),
    "tight": ("triangle-alert", "warn"),
    "overflows": ("octagon-alert", "danger"),
    "broken": ("octagon-x", "danger"),
    "unchecked": ("circle-dashed", "unknown"),
}


def health_word(state: str) -> str:
    """The word of a badge."""
    return {
        "healthy": tr("Healthy"),
        "cured": tr("Cured"),
        "tight": tr("Tight"),
        "overflows": tr("Overflows"),
        "broken": tr("Damaged"),
    }.get(state, tr("Not checked"))


def set_icon(made: QAbstractButton, name: str, token: str) -> None:
    """Give a button an icon, unless it has it: setting one repaints the button."""
    if made.property("icon-name") != f"{name} {token}":
        made.setProperty("icon-name", f"{name} {token}")
        made.setIcon(icons.icon(name, token))


def repolish(widget: QWidget) -> None:
    """Take a changed style property into account."""
    widget.style().unpolish(widget)
    widget.style().polish(widget)
    widget.update()


def set_tone(widget: QWidget, tone: str) -> None:
    """Colour a label by a tone: "", "secondary", "muted", "ok", "warn", "danger", "accent"."""
    if widget.property("tone") != tone:
        widget.setProperty("tone", tone)
        repolish(widget)


def label(text: str = "", role: str = "body", tone: str = "", *, wrap: bool = False, numbers: bool = False) -> QLabel:
    """A label in a type role and a tone. numbers: figures of equal width."""
    made = QLabel(harmless(text))
    made.setFont(theme.current().font(role, numbers=numbers))
    made.setProperty("tone", tone)
    made.setWordWrap(wrap)
    made.setTextFormat(Qt.TextFormat.PlainText)
    if wrap:
        policy = made.sizePolicy()
        policy.setHeightForWidth(True)
        made.setSizePolicy(policy)
    return made


def plain_tip(text: str) -> str:
    """The words of a tooltip; Qt would read a name such as "<b>a</b>" as a page of its own."""
    return f"<qt>{escape(text).replace(chr(10), '<br>')}</qt>" if "<" in text else text


class ElidedLabel(QLabel):
    """One line, elided where it does not fit; the tooltip then holds the whole."""

    def __init__(self, text: str = "", role: str = "body", tone: str = "", *, numbers: bool = False) -> None:
        super().__init__()
        self._text = self._tip = ""
        self.setFont(theme.current().font(role, numbers=numbers))
        self.setProperty("tone", tone)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.set_text(text)

    def set_text(self, text: str, tip: str = "") -> None:
        """tip: the tooltip while the text fits."""
        self._text, self._tip = harmless(text), harmless(tip)
        self.setAccessibleName(self._text)
        self._fit()

    def _fit(self) -> None:
        line = re.sub("[ \t\n]+", " ", self._text)  # spaces that keep a number whole stay what they are
        shown = QFontMetrics(self.font()).elidedText(line, Qt.TextElideMode.ElideRight, max(0, self.width()))
        self.setText(shown)
        self.setToolTip(plain_tip("\n".join(filter(None, (self._text if shown != line else "", self._tip)))))

    def sizeHint(self) -> QSize:
        return QSize(QFontMetrics(self.font()).horizontalAdvance(self._text) + 2, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()


class WordButton(QPushButton):
    """A push button whose words keep their distance from its icon. icon_last: the icon stands behind them."""

    def __init__(self, text: str, icon: str, tint: str, *, icon_last: bool = False) -> None:
        super().__init__()
        self._icon_last = icon_last
        if icon:
            self.setIcon(icons.icon(icon, tint))
        if icon_last:
            self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self.set_words(text)

    def set_words(self, text: str) -> None:
        """What stands on it. Qt leaves too little between icon and word, so a space is added."""
        gap = " " if text and not self.icon().isNull() else ""
        self.setText(f"{text}{gap}" if self._icon_last else f"{gap}{text}")
        self.setAccessibleName(text)

    def words(self) -> str:
        return self.text().strip()


def button(
    text: str,
    kind: ButtonKind = "",
    icon: str = "",
    *,
    size: str = "",
    tip: str = "",
    icon_last: bool = False,
    clicked: Callable[[], object] | None = None,
) -> WordButton:
    """A push button. kind: "" is the secondary one."""
    tint = "on-accent" if kind == "primary" else "danger" if kind == "danger" else "text-secondary"
    made = WordButton(text, icon, tint, icon_last=icon_last)
    made.setProperty("kind", kind)
    made.setProperty("size", size)
    made.setFont(theme.current().font("body"))
    made.setIconSize(QSize(theme.grown(16), theme.grown(16)))
    if tip:
        made.setToolTip(tip)
    if clicked is not None:
        made.clicked.connect(lambda _on=False: clicked())
    return made


def icon_button(
    icon: str, tip: str, *, kind: str = "", size: int = 16, checkable: bool = False, clicked: Callable[[], object] | None = None
) -> QToolButton:
    """A button with only an icon: its accessible name is its tooltip."""
    made = QToolButton()
    made.setIcon(icons.icon(icon))
    made.setIconSize(QSize(theme.grown(size), theme.grown(size)))
    made.setProperty("kind", kind)
    made.setCheckable(checkable)
    made.setToolTip(tip)
    made.setAccessibleName(tip)
    made.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    if clicked is not None:
        made.clicked.connect(lambda _on=False: clicked())
    return made


class _EscapeClears(QObject):
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Esc empties the field; in an empty one it means what it means around it."""
        escape = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if escape and isinstance(watched, QLineEdit) and watched.text():
            if event.type() == QEvent.Type.ShortcutOverride:
                event.accept()
            elif event.type() == QEvent.Type.KeyPress:
                watched.clear()
            return True
        return False


def show_clear(field: QLineEdit | QKeySequenceEdit) -> None:
    """Put a cross into a field that clears it, with a name. Esc does the same, except where keys are entered."""
    field.setClearButtonEnabled(True)
    if (cross := field.findChild(QAction, "_q_qlineeditclearaction")) is not None:
        cross.setIcon(icons.icon("x"))  # the style's own is dark in every theme
    for made in field.findChildren(QAbstractButton):
        made.setAccessibleName(tr("Clear"))
    if isinstance(field, QLineEdit):
        field.installEventFilter(_EscapeClears(field))


def hline() -> QFrame:
    made = QFrame()
    made.setProperty("line", "h")
    made.setFixedHeight(1)
    return made


def vline(height: int = 16) -> QFrame:
    made = QFrame()
    made.setProperty("line", "v")
    made.setFixedSize(1, height)
    return made


def surface(name: str, edge: str = "", layout: QLayout | None = None) -> QFrame:
    """A frame filled with a surface colour, with a hairline on one edge."""
    made = QFrame()
    made.setProperty("surface", name)
    if edge:
        made.setProperty("edge", edge)
    if layout is not None:
        made.setLayout(layout)
    return made


class OverlayScroll(QScrollArea):
    """Its scroll bar lies over the right margin of what it shows, so that its coming and going moves nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.verticalScrollBar().rangeChanged.connect(self._make_room)

    def _make_room(self, _least: int, most: int) -> None:
        bar = self.verticalScrollBar()
        self.setViewportMargins(0, 0, -bar.sizeHint().width() if most > 0 else 0, 0)
        if (holder := bar.parentWidget()) is not None:
            holder.raise_()


def scrolling(inside: QWidget) -> QScrollArea:
    """A widget that scrolls up and down, as wide as its place. Its right margin holds the scroll bar."""
    inside.setObjectName("scrolled")
    made = OverlayScroll()
    made.setWidgetResizable(True)
    made.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    made.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    made.setWidget(inside)
    return made


class Bar(QWidget):
    """A sunken row along an edge of the window. height: token of its height; edge: where its hairline is."""

    def __init__(self, height: str, edge: str, margins: tuple[int, int], spacing: int) -> None:
        super().__init__()
        self.setFixedHeight(theme.current().px(height))
        frame = surface("sunken", edge)
        self.setLayout(column(frame, spacing=0))
        self.items = QHBoxLayout(frame)
        self.items.setContentsMargins(margins[0], 0, margins[1], 0)
        self.items.setSpacing(spacing)

    def add(self, *widgets: QWidget, gap: int = 0) -> None:
        """Widgets in the middle of the height; gap: more space after each."""
        for widget in widgets:
            self.items.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
            if gap:
                self.items.addSpacing(gap)


class Card(QFrame):
    """A raised card: "true", "ok", "warn", "danger", "info", "unknown" or "dashed"."""

    def __init__(self, kind: str = "true", layout: QLayout | None = None) -> None:
        super().__init__()
        self.setProperty("card", kind)
        if layout is not None:
            self.setLayout(layout)

    def set_kind(self, kind: str) -> None:
        if self.property("card") != kind:
            self.setProperty("card", kind)
            repolish(self)


def row(*items: Item, spacing: int = 8, margins: Margins = NONE, stretch: int | tuple[int, ...] = ()) -> QHBoxLayout:
    """Items side by side; an integer is a gap of so many pixels, -1 a stretch. stretch: places of the items that grow."""
    return _filled(QHBoxLayout(), items, spacing, margins, stretch)


def column(*items: Item, spacing: int = 8, margins: Margins = NONE, stretch: int | tuple[int, ...] = ()) -> QVBoxLayout:
    """Items one below the other, otherwise as `row`."""
    return _filled(QVBoxLayout(), items, spacing, margins, stretch)


def boxed(layout: QLayout) -> QWidget:
    """A plain widget with this layout."""
    made = QWidget()
    made.setLayout(layout)
    return made


def _filled(layout: L, items: Sequence[Item], spacing: int, margins: Margins, stretch: int | tuple[int, ...]) -> L:
    layout.setSpacing(spacing)
    layout.setContentsMargins(*margins)
    fill(layout, *items)
    for place in (stretch,) if isinstance(stretch, int) else stretch:
        layout.setStretch(place, 1)
    return layout


class FactGrid(QGridLayout):
    """Names and what they stand for, side by side. names: pixels that the names take at least."""

    def __init__(self, *, across: int = 16, down: int = 4, margins: Margins = NONE, names: int = 0) -> None:
        super().__init__()
        self.setContentsMargins(*margins)
        self.setHorizontalSpacing(across)
        self.setVerticalSpacing(down)
        self.setColumnMinimumWidth(0, names)
        self.setColumnStretch(1, 1)

    def fill(self, lines: Iterable[tuple[QLabel, QLabel]]) -> None:
        """Show these lines instead of the former ones; what they say can be selected."""
        clear(self)
        for index, (name, value) in enumerate(lines):
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self.addWidget(name, index, 0, Qt.AlignmentFlag.AlignTop)
            self.addWidget(value, index, 1)


def centred(layout: QBoxLayout) -> QBoxLayout:
    """Each widget as wide as it wants, in the middle."""
    for widget in (item.widget() for place in range(layout.count()) if (item := layout.itemAt(place)) is not None):
        if widget is not None:
            layout.setAlignment(widget, Qt.AlignmentFlag.AlignHCenter)
    return layout


def fill_combo(box: QComboBox, choices: Iterable[tuple[object, str]]) -> None:
    """Add entries: value and words of each."""
    for value, words in choices:
        box.addItem(words, value)


def progress_bar(name: str) -> QProgressBar:
    """A bar without figures. name: for screen readers."""
    made = QProgressBar()
    made.setTextVisible(False)
    made.setAccessibleName(name)
    return made


def dress_table(made: QTableView, name: str, widths: Sequence[int], *, stretched: int) -> None:
    """Without grid and row numbers. widths: of its columns; stretched: the one that takes what is left."""
    made.setAccessibleName(name)
    made.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    made.setShowGrid(False)
    made.setFont(theme.current().font("small", numbers=True))
    made.verticalHeader().hide()
    made.verticalHeader().setDefaultSectionSize(26)
    head = made.horizontalHeader()
    head.setHighlightSections(False)
    head.setFont(theme.current().font("small"))
    for place, width in enumerate(widths):
        made.setColumnWidth(place, width)
    head.setSectionResizeMode(stretched, QHeaderView.ResizeMode.Stretch)


def detail_labels(details: Iterable[tuple[str, str]]) -> Iterator[tuple[QLabel, QLabel]]:
    """Lay out technical details for a `FactGrid`; the first is a name in code."""
    for index, (name, value) in enumerate(details):
        words = label(value, "small" if index else "mono", wrap=True, numbers=index > 0)
        yield label(name, "small", "muted"), words


def fill(layout: QBoxLayout, *items: Item) -> None:
    """Append items, as `row` takes them."""
    for item in items:
        if isinstance(item, int):
            if item < 0:
                layout.addStretch(1)
            else:
                layout.addSpacing(item)
        elif isinstance(item, QLayout):
            layout.addLayout(item)
        else:
            layout.addWidget(item)


def clear(layout: QLayout) -> None:
    """Take everything out of a layout and delete the widgets."""
    while (item := layout.takeAt(0)) is not None:
        widget, inner = item.widget(), item.layout()
        if widget is not None:
            widget.hide()
            widget.deleteLater()
        elif inner is not None:
            clear(inner)


class IconLabel(Painted):
    """A tinted icon that follows the theme."""

    def __init__(self, name: str = "", token: str = "text-secondary", size: int = 16) -> None:
        super().__init__()
        self._name = name
        self._token = token
        self.setFixedSize(theme.grown(size), theme.grown(size))

    def set(self, name: str, token: str) -> None:
        if (name, token) != (self._name, self._token):
            self._name, self._token = name, token
            self.update()

    def draw(self, painter: QPainter) -> None:
        if self._name:
            icons.paint(painter, self._name, QRectF(self.rect()), theme.current().color(self._token))


def paint_badge(painter: QPainter, rect: QRectF, icon: str, text: str, tone: str) -> None:
    """A badge into a rectangle: for widgets and for delegates."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    plate(painter, rect, 3, f"{tone}-subtle")
    side = 14.0
    left = rect.left() + (6 if text else (rect.width() - side) / 2)
    icons.paint(painter, icon, QRectF(left, rect.center().y() - side / 2, side, side), theme.current().color(tone))
    if text:
        write(painter, rect.adjusted(25, 0, -4, 0), text, "caption-strong", tone)
    painter.restore()


class HoverButton(QAbstractButton):
    """A button that paints itself in `draw`, or is filled by other widgets. `hovered`: the pointer is on it."""

    def __init__(self) -> None:
        super().__init__()
        self.hovered = False
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def enterEvent(self, event: QEnterEvent) -> None:
        self.hovered = True
        self.update()
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self.hovered = False
        self.update()
        super().leaveEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        paint_on(self, self.draw)

    def draw(self, painter: QPainter) -> None:
        """Nothing, where other widgets lie on it."""
