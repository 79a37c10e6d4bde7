"""Messages: one-line bars with actions, and toasts, which stay six seconds, longer under the pointer; failures stay."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Final, Literal

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QEnterEvent, QFontMetrics
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from halftone.gui import theme
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit.stock_widgets import ButtonKind, Card, IconLabel, button, icon_button, label, row
from halftone.gui.shell.toast_place import free_place, taken_areas

Level = Literal["ok", "info", "warn", "danger"]
_WATCH_MS: Final = 150
"""How often a toast looks whether something came up under it."""
_ABOVE_EDGE: Final = 86
_AROUND: Final = 4
"""Pixels below a toast, and around one on the shelf."""

LEVEL_ICONS: dict[str, tuple[str, str]] = {
    "ok": ("circle-check", "ok"),
    "info": ("info", "accent-text"),
    "warn": ("triangle-alert", "warn"),
    "danger": ("octagon-alert", "danger"),
}


@dataclass(frozen=True)
class Act:
    """A button of a message: what it is called in code, its label, icon and kind."""

    key: str
    label: str
    icon: str = ""
    kind: ButtonKind = "link"
    tip: str = ""


@dataclass(frozen=True)
class Message:
    """A message in words. title: what happened; text: what Halftone did and what you can do; strong: its last, bold sentence.

    lasting: as a toast it stays until it is closed or another comes.
    """

    level: Level
    title: str
    text: str = ""
    strong: str = ""
    actions: tuple[Act, ...] = ()
    price: str = ""
    details: tuple[tuple[str, str], ...] = ()
    lasting: bool = False

    @property
    def spoken(self) -> str:
        return sentences(self.title, self.text, self.strong)


def announce(widget: QWidget, text: str, *, urgent: bool = False) -> None:
    """Tell screen readers about a new message."""
    event = QAccessibleAnnouncementEvent(widget, text)
    if urgent:
        event.setPoliteness(QAccessible.AnnouncementPoliteness.Assertive)
    QAccessible.updateAccessibility(event)


class MessageBar(Card):
    """Icon, words, actions as links and, where it may be closed, a cross."""

    acted = Signal(str)
    closed = Signal()

    def __init__(self, message: Message, *, closable: bool = True, parent: QWidget | None = None) -> None:
        super().__init__(message.level)
        self.setParent(parent)
        self.message = message
        words = label("", wrap=True)
        words.setTextFormat(Qt.TextFormat.RichText)
        words.setText(rich(message))
        words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        margins = (12, 5, 8 if closable else 12, 5)
        layout = row(IconLabel(*LEVEL_ICONS[message.level]), words, spacing=10, margins=margins, stretch=1)
        self.setLayout(layout)
        for act in message.actions:
            made = button(act.label, act.kind, act.icon, size="compact" if act.kind != "link" else "", tip=act.tip)
            made.clicked.connect(lambda _on=False, key=act.key: self.acted.emit(key))
            layout.addWidget(made)
        if closable:
            layout.addWidget(icon_button("x", tr("Close"), size=14, clicked=self.closed.emit))
        self.setAccessibleName(message.spoken)
        self.setMinimumHeight(theme.grown(34))

    def first_button(self) -> QWidget:
        """The widget that takes the focus when the user jumps to the message."""
        return self.findChild(QAbstractButton) or self


def rich(message: Message) -> str:
    """The words as rich text: a bold title when a text follows, a bold last sentence."""
    parts = [_strong(message.title) if message.text else escape(message.title), escape(message.text)]
    if message.strong:
        parts.append(_strong(message.strong))
    return sentences(*parts)


def _strong(words: str) -> str:
    """Semibold: the bold of rich text is a weight that is not bundled."""
    return f"<span style='font-weight:600'>{escape(words)}</span>"


class Toasts(QObject):
    """Shows one toast at a time above the lower edge of a window, where it covers nothing that is used; the others wait.

    Where there is no such place it lies on the shelf, a row of the window that is there as long as it is needed.
    """

    def __init__(self, host: QWidget, shelf: QWidget, lift: Callable[[], int] = lambda: 0) -> None:
        """lift: pixels to stay further above the edge."""
        super().__init__(host)
        self._host = host
        self._shelf = shelf
        self._lift = lift
        shelf.setFixedHeight(0)
        self._watch = QTimer(self, interval=_WATCH_MS)
        self._watch.timeout.connect(self._make_way)
        self._waiting: list[tuple[Message, Callable[[str], None], Callable[[], bool]]] = []
        self._holds: Callable[[], bool] = lambda: True
        self._bar: MessageBar | None = None
        self._before: MessageBar | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._close)
        host.installEventFilter(self)

    def show(self, message: Message, act: Callable[[str], None], holds: Callable[[], bool] = lambda: True) -> None:
        """act: called with the key of the action that was taken; holds: whether the message is still true."""
        self._waiting.append((message, act, holds))
        if self._bar is None:
            self._next()
        elif not self._held():
            self._close()

    def began(self) -> None:
        """Mark the shown message as older than the job that starts."""
        self._before = self._bar

    def went_well(self) -> None:
        """What failed before it is no news any more."""
        if self._bar is not None and self._bar is self._before and self._bar.message.level == "danger" and not self._held():
            self._close()

    def withdraw(self) -> None:
        """Close and forget the messages that are no longer true."""
        self._waiting = [one for one in self._waiting if one[2]()]
        if self._bar is not None and not self._holds():
            self._close()

    @property
    def shown(self) -> MessageBar | None:
        return self._bar

    def _next(self) -> None:
        if not self._waiting:
            return
        message, act, self._holds = self._waiting.pop(0)
        bar = MessageBar(message, parent=self._host)
        bar.acted.connect(lambda key: self._taken(key, act))
        bar.closed.connect(self._close)
        bar.installEventFilter(self)
        self._bar = bar
        self.place()
        bar.show()
        bar.raise_()
        self._watch.start()
        announce(bar, message.spoken)
        self._start_timer()

    def _start_timer(self) -> None:
        """A failure stays until it is closed, another message comes or a later job goes well; so does what lasts."""
        if self._bar is not None and self._bar.message.level != "danger" and not self._bar.message.lasting:
            self._timer.start(theme.current().px("motion.toast-hold"))

    def _taken(self, key: str, act: Callable[[str], None]) -> None:
        self._close()
        act(key)

    def _held(self) -> bool:
        bar = self._bar
        return bar is not None and (bar.underMouse() or bar.isAncestorOf(_focus(bar)))

    def _close(self) -> None:
        bar = self._bar
        if bar is None:
            return
        if self.sender() is self._timer and self._held():
            self._timer.start(1000)
            return
        self._bar = None
        self._timer.stop()
        self._watch.stop()
        self._shelf.setFixedHeight(0)
        bar.hide()
        bar.deleteLater()
        self._next()

    def place(self) -> None:
        """Over nothing that is used on the page that is shown now."""
        bar = self._bar
        if bar is None:
            return
        actions = sum(QFontMetrics(bar.font()).horizontalAdvance(act.label) + 36 for act in bar.message.actions)
        wanted = QFontMetrics(bar.font()).horizontalAdvance(bar.message.spoken) + actions + 110
        bar.setFixedWidth(min(wanted, 760, self._host.width() - 40))
        layout = bar.layout()
        bar.setFixedHeight(max(38, layout.heightForWidth(bar.width()) + 8 if layout is not None else 38))
        self._shelf.setFixedHeight(0)
        self._lay_out()
        lowest = self._host.height() - bar.height() - _ABOVE_EDGE - self._lift()
        found = free_place(self._host.width(), (bar.width(), bar.height()), lowest, taken_areas(self._host, bar))
        bar.move(*(self._on_shelf(bar) if found is None else found))

    def _on_shelf(self, bar: MessageBar) -> tuple[int, int]:
        self._shelf.setFixedHeight(bar.height() + 2 * _AROUND)
        self._lay_out()
        return (self._host.width() - bar.width()) // 2, self._shelf.mapTo(self._host, QPoint()).y() + _AROUND

    def _lay_out(self) -> None:
        layout = self._host.layout()
        if layout is not None:
            layout.activate()

    def _make_way(self) -> None:
        """Move where something that is used came up under it."""
        bar = self._bar
        if bar is not None and any(bar.geometry().intersects(area) for area in taken_areas(self._host, bar)):
            self.place()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._host and event.type() == QEvent.Type.Resize:
            self.place()
        if watched is self._bar and isinstance(event, QEnterEvent):
            self._timer.stop()
        if watched is self._bar and event.type() == QEvent.Type.Leave:
            self._start_timer() if not self._waiting else self._timer.start(0)
        return super().eventFilter(watched, event)


def _focus(widget: QWidget) -> QWidget:
    """The widget with the focus in this window, or the window itself."""
    return widget.window().focusWidget() or widget.window()
