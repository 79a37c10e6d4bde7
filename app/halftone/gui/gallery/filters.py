"""The row above the grid: search as you type, filters, and the size of the pictures."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

import msgspec
from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QActionGroup, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QLineEdit, QMenu, QSlider, QWidget

from halftone.gui import icons, theme
from halftone.gui.gallery.grid import SIZES, USUAL
from halftone.gui.i18n import tr
from halftone.gui.kit import actions, figures
from halftone.gui.kit.stock_widgets import WordButton, icon_button, label, repolish, row, show_clear, surface
from halftone.gui.kit.wheel import guard_wheel
from halftone.gui.text import short
from halftone.session.pictures.gallery import FAVOURITE, Query
from halftone.session.pictures.gallery_state import Count, GalleryState

_WIDEST: Final = 240
_AROUND: Final = 66
"""Pixels that icon, arrow and edges of a filter take."""
_BESIDE: Final = 80
"""Pixels that the icon and the edges of the search take."""
_GAP: Final = 8
_MARGIN: Final = 20
_ICON: Final = 34
_PAUSE_MS: Final = 120
"""After the last letter, until the search begins."""
_MOST: Final = 40
"""Models or LoRAs in a menu, the most used ones: any other is found by its name in the search."""

Entry = tuple[object, str]
"""A value and its words."""


class Filter(WordButton):
    """A button with a menu of one choice. `chosen`: the value; None for any."""

    chosen = Signal(object)

    def __init__(self, anything: str, icon: str) -> None:
        super().__init__("", icon, "text-secondary")
        self._any, self._icon_name = anything, icon
        self._entries: Sequence[Entry] = ()
        self._value: object = None
        self._narrow = False
        self.setProperty("menu", True)
        self.setFont(theme.current().font("body"))
        self.setIconSize(QSize(theme.grown(16), theme.grown(16)))
        self.setMenu(QMenu(self))
        self.menu().aboutToShow.connect(self._fill)
        self._show()

    def set_entries(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._show()

    def set_value(self, value: object) -> None:
        """Show a value, without a signal."""
        self._value = value
        self._show()

    @property
    def wide(self) -> int:
        """Pixels that it takes with its words."""
        return self.fontMetrics().horizontalAdvance(self._words()) + theme.grown(_AROUND)

    def set_narrow(self, narrow: bool) -> None:
        """Show the icon alone, or with its words."""
        if narrow != self._narrow:
            self._narrow = narrow
            self._show()

    def _words(self) -> str:
        words = next((words for value, words in self._entries if value == self._value), None)
        return self._any if self._value is None else short(words if words is not None else str(self._value))

    def _show(self) -> None:
        text = self._words()
        self.setText("") if self._narrow else self.set_words(text)
        self.setMinimumWidth(theme.grown(_ICON))
        self.setMaximumWidth(theme.grown(_ICON if self._narrow else _WIDEST))
        if self.property("menu") == self._narrow:
            self.setProperty("menu", not self._narrow)
            self.setProperty("icon-only", self._narrow)
            repolish(self)
        self.setAccessibleName(text)
        self.setToolTip(text if self._narrow else "")
        on = self._value is not None
        self.setIcon(icons.icon(self._icon_name, "accent-text" if on else "text-secondary"))
        if self.property("on") != on:
            self.setProperty("on", on)
            repolish(self)

    def _fill(self) -> None:
        menu = self.menu()
        menu.clear()
        group = QActionGroup(menu)
        for value, words in ((None, self._any), *self._entries):
            made = menu.addAction(words.replace("&", "&&"), lambda value=value: self._choose(value))
            made.setCheckable(True)
            made.setChecked(value == self._value)
            group.addAction(made)
            if value is None and self._entries:
                menu.addSeparator()

    def _choose(self, value: object) -> None:
        self.set_value(value)
        self.chosen.emit(value)


class SearchField(QLineEdit):
    """`left_down`: the down key asks for the pictures."""

    left_down = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._words = tr("Search prompts, models, seeds")
        self.setPlaceholderText(self._words)
        self.setAccessibleName(tr("Search"))
        self.setToolTip(actions.tip("search", tr('Words, "a phrase", -without')))
        show_clear(self)
        self.addAction(icons.icon("search", "text-muted"), QLineEdit.ActionPosition.LeadingPosition)
        self._keys = label("".join(actions.keys_of("search")[:1]), "small", "muted")
        self._keys.setParent(self)
        self._keys.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.textChanged.connect(lambda _text: self._place_keys())

    def _place_keys(self) -> None:
        """The keys stand at the right end where nothing else does."""
        self._keys.adjustSize()
        self._keys.move(self.width() - self._keys.width() - 10, (self.height() - self._keys.height()) // 2)
        self._keys.setVisible(not self.text() and self.width() > self.wide + self._keys.width())

    @property
    def wide(self) -> int:
        """Pixels that it takes with all its words."""
        return self.fontMetrics().horizontalAdvance(self._words) + theme.grown(_BESIDE)

    def set_short(self, short: bool) -> None:
        """Show one word, or all."""
        self.setPlaceholderText(tr("Search") if short else self._words)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_keys()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.left_down.emit()
        else:
            super().keyPressEvent(event)


class FilterBar(QWidget):
    """`asked`: another query; `sized`: another height of the lines; `folder_wanted`: a folder is to be watched."""

    asked = Signal(object)
    sized = Signal(int)
    folder_wanted = Signal()

    def __init__(self, query: Query, size: int) -> None:
        super().__init__()
        self._query = query
        self._last: list[QWidget] = []
        self.search = SearchField()
        self.model = Filter(tr("Any model"), "boxes")
        self.lora = Filter(tr("Any LoRA"), "layers")
        self.time = Filter(tr("Any time"), "calendar")
        self.result = Filter(tr("Any result"), "activity")
        self.kind = Filter(tr("Any kind"), "shapes")
        self.mark = Filter(tr("All pictures"), "star")
        self.filters = (self.model, self.lora, self.time, self.result, self.kind, self.mark)
        self.folder = icon_button("folder-plus", tr("Add folder…"), clicked=self.folder_wanted.emit)
        self.slider = guard_wheel(QSlider(Qt.Orientation.Horizontal))
        self.slider.setRange(*SIZES)
        self.slider.setValue(size or USUAL)
        self.slider.setSingleStep(20)
        self.slider.setPageStep(40)
        self.slider.setFixedWidth(90)
        self._size_words = label(tr("Size"), "small", "secondary")
        self._size_words.setBuddy(self.slider)
        self.slider.setAccessibleName(tr("Size"))
        self._build()
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._pause.timeout.connect(self._search)
        self._connect()

    def _build(self) -> None:
        frame = surface("plain", "bottom")
        frame.setFixedHeight(theme.grown(48))
        self.search.setMinimumWidth(130)
        self.search.setMaximumWidth(theme.grown(300))
        right = (self.folder, self._size_words, self.slider)
        self._inside = inside = row(self.search, *self.filters, -1, *right, spacing=_GAP, margins=(_MARGIN, 0, _MARGIN, 0))
        inside.setStretch(0, 100)
        frame.setLayout(inside)
        self.setLayout(row(frame, spacing=0))
        self.result.set_entries((("clean", tr("Clean")), ("recovered", tr("Recovered")), ("cured", tr("Made with a cure"))))
        self.kind.set_entries(
            (
                ("picture", tr("Pictures")),
                ("video", tr("Videos")),
                ("upscaled", tr("Upscaled")),
                ("other", tr("From other programs")),
            )
        )
        query = self._query
        self.search.setText(query.words)
        self.time.set_entries(_times())
        values = (query.model or None, query.lora or None, query.days, query.result, query.kind, query.mark)
        for one, value in zip(self.filters, values, strict=True):
            one.set_value(value)

    def _connect(self) -> None:
        self.search.textChanged.connect(lambda _text: self._pause.start())
        self.slider.valueChanged.connect(self.sized.emit)
        self.model.chosen.connect(lambda value: self._ask(model=value or ""))
        self.lora.chosen.connect(lambda value: self._ask(lora=value or ""))
        self.time.chosen.connect(lambda value: self._ask(days=value))
        self.result.chosen.connect(lambda value: self._ask(result=value))
        self.kind.chosen.connect(lambda value: self._ask(kind=value))
        self.mark.chosen.connect(lambda value: self._ask(mark=value))

    def add_last(self, widget: QWidget) -> None:
        """A button at the right end."""
        self._inside.addWidget(widget)
        self._last.append(widget)

    def show_known(self, state: GalleryState) -> None:
        """What can be asked for."""
        self.model.set_entries(_counted(state.models))
        self.lora.set_entries(_counted(state.loras))
        favourites: Entry = (FAVOURITE, tr("Favourites"))
        self.mark.set_entries((favourites, *_counted(state.collections)))
        self.lora.setVisible(bool(state.loras) or bool(self._query.lora))
        self._fit()

    def clear(self) -> None:
        """Ask for everything."""
        self._query = Query()
        self.search.blockSignals(True)
        self.search.clear()
        self.search.blockSignals(False)
        for one in self.filters:
            one.set_value(None)
        self.asked.emit(self._query)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Filters lose their words, the least used first, until the search shows its own; then the slider goes."""
        shown = [one for one in self.filters if not one.isHidden()]
        sizes = (self._size_words, self.slider)
        free = self.width() - 2 * _MARGIN - self.search.wide - sum(map(_width_of, (self.folder, *sizes, *self._last)))
        wide = sum(one.wide + _GAP for one in shown)
        for one in (self.kind, self.lora, self.mark, self.result, self.time, self.model):
            narrow = one in shown and wide > free
            one.set_narrow(narrow)
            wide -= one.wide - theme.grown(_ICON) if narrow else 0
        for part in sizes:
            part.setHidden(wide > free)
            free += _width_of(part) if part.isHidden() else 0
        self.search.set_short(wide > free)

    def _search(self) -> None:
        if self.search.text() != self._query.words:
            self._ask(words=self.search.text())

    def _ask(self, **changes: object) -> None:
        self._query = msgspec.structs.replace(self._query, **changes)
        self._fit()
        self.asked.emit(self._query)


def _width_of(widget: QWidget) -> int:
    """Pixels that a widget takes in the row."""
    return max(widget.sizeHint().width(), widget.minimumWidth()) + _GAP


def _counted(counts: Sequence[Count]) -> tuple[Entry, ...]:
    return tuple((name, f"{name}  {figures.group(count)}") for name, count in counts[:_MOST])


def _times() -> tuple[Entry, ...]:
    """Stretches of days, first and last."""
    today = date.today()
    now = today.toordinal()

    def back(days: int) -> tuple[int, int]:
        return now - days + 1, now

    return (
        (back(1), tr("Today")),
        ((now - 1, now - 1), tr("Yesterday")),
        (back(7), tr("Last 7 days")),
        (back(30), tr("Last 30 days")),
        ((today.replace(month=1, day=1).toordinal(), now), tr("This year")),
    )


def collection_menu(
    menu: QMenu, state: GalleryState, marks: frozenset[str], mark: Callable[[str, bool], object], create: Callable[[], object]
) -> None:
    """Fill a menu with the collections: ticked where they hold all selected pictures. mark: gets a name, and if to add."""
    for name, _count in state.collections:
        made = menu.addAction(name.replace("&", "&&"))
        made.setCheckable(True)
        made.setChecked(name in marks)
        made.triggered.connect(lambda on=False, name=name: mark(name, on))
    if state.collections:
        menu.addSeparator()
    menu.addAction(tr("New collection…"), create)
