"""The left panel of the Models page: shelves, lists, health, families, and the watched folders."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from halftone.gui import icons, theme
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import END, LEFT, RIGHT, plate, width_of, write
from halftone.gui.kit.stock_widgets import (
    HEALTH_LOOK,
    ElidedLabel,
    HoverButton,
    IconLabel,
    boxed,
    clear,
    column,
    health_word,
    hline,
    icon_button,
    label,
    row,
    scrolling,
    surface,
)
from halftone.gui.models.model_words import PLACE_ICONS, family_words, place_tip, place_words
from halftone.session.models.listing import LISTS, PROBLEMS, SHELVES, STATES, Listing, Place, Query
from halftone.session.models.watched import Watched

_HIGH: Final = 30


class SideRow(HoverButton):
    """An icon, a name and how many there are. Up and down move to its neighbours."""

    def __init__(self, icon: str, token: str) -> None:
        super().__init__()
        self.setCheckable(True)
        self._icon, self._token, self._count = icon, token, 0
        self.setFont(theme.current().font("body"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_count(self, words: str, count: int, tip: str = "") -> None:
        if (words, count) != (self.text(), self._count):
            self.setText(words)
            self._count = count
            self.setAccessibleName(listed(words, str(count)))
            self.update()
        self.setToolTip(tip)

    def sizeHint(self) -> QSize:
        return QSize(theme.grown(180), theme.grown(_HIGH))

    def nextCheckState(self) -> None:
        """The page says what is chosen."""

    def draw(self, painter: QPainter) -> None:
        box, on = QRectF(self.rect()), self.isChecked()
        if on or self.hovered:
            plate(painter, box, 5, "selected" if on else "hover")
        token = "text" if on and self._token == "text-secondary" else self._token
        half = 4 if self._icon == "circle" else 8
        sign = QRectF(18 - half, box.center().y() - half, 2 * half, 2 * half)
        icons.paint(painter, self._icon, sign, theme.current().color(token))
        count = figures.group(self._count)
        words = box.adjusted(34, 0, -16 - width_of(count, "small", numbers=True), 0)
        write(painter, words, self.text(), "body-strong" if on else "body", "text" if on else "text-secondary", LEFT, cut=END)
        write(painter, box.adjusted(0, 0, -10, 0), count, "small", "text-muted", RIGHT, numbers=True)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Down:
            self.focusNextChild()
        elif event.key() == Qt.Key.Key_Up:
            self.focusPreviousChild()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)


class _Line(NamedTuple):
    """One row of the panel. kind, value: what a click chooses."""

    kind: str
    value: str
    icon: str
    token: str
    words: str
    amount: int
    chosen: bool
    tip: str = ""


def lines_of(listing: Listing, query: Query, title: str) -> list[_Line | str]:
    """The rows of the panel and the headings between them. title: of the health on this device."""
    places = listing.places
    made: list[_Line | str] = []

    def place(name: Place) -> _Line:
        chosen, token = query.place == name, "warn" if name in PROBLEMS else "text-secondary"
        words, tip = place_words(name), place_tip(name)
        return _Line("place", name, PLACE_ICONS[name], token, words, places.get(name, 0), chosen, tip)

    made += [place(name) for name in SHELVES if places.get(name) or name in ("Checkpoints", "LoRA", "VAE") or query.place == name]
    made.append(tr("Lists"))
    made += [place(name) for name in LISTS if places.get(name) or name in LISTS[:2] or query.place == name]
    if listing.states or query.health:
        made.append(title)
        for state in STATES:
            if state == "broken" and not listing.states.get(state) and query.health != state:
                continue
            icon, token = HEALTH_LOOK[state]
            count, chosen = listing.states.get(state, 0), query.health == state
            made.append(_Line("health", state, icon, token, health_word(state), count, chosen))
    families = sorted(listing.families.items(), key=lambda one: (one[0] == "Other", one[0]))
    if len(families) > 1 or query.family:
        made.append(tr("Family"))
        for name, count in families:
            made.append(_Line("family", name, "circle", "text-muted", family_words(name), count, query.family == name))
    return made


class SidePanel(QWidget):
    """chosen: kind ("place", "health" or "family") and value of a row that was clicked."""

    chosen = Signal(str, str)
    add_folder = Signal()
    remove_folder = Signal(str)
    rescan = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._shape: tuple[tuple[str, str], ...] = ()
        self._rows: dict[tuple[str, str], SideRow] = {}
        self._list = column(spacing=0, margins=(8, 8, 8, 8))
        self._list.addStretch(1)
        self.add = icon_button("plus", tr("Add folder…"), size=14, clicked=self.add_folder.emit)
        self.again = icon_button("refresh-cw", tr("Look for changes"), size=14, clicked=self.rescan.emit)
        self._folders = QVBoxLayout()
        self._folders.setSpacing(2)
        self._watched: Sequence[Watched] | None = None
        head = row(label(tr("Watched folders"), "caption-strong", "muted"), -1, self.again, self.add, spacing=0)
        folders = scrolling(boxed(column(self._folders, -1, spacing=0)))
        folders.setMaximumHeight(150)
        self._folder_area = folders
        below = column(head, folders, spacing=4, margins=(14, 6, 8, 8))
        frame = surface("plain")
        frame.setLayout(column(scrolling(boxed(self._list)), hline(), boxed(below), spacing=0, stretch=0))
        self.setLayout(column(frame, spacing=0))

    def row(self, kind: str, value: str) -> SideRow:
        return self._rows[kind, value]

    def show_listing(self, listing: Listing, query: Query, title: str) -> None:
        """Show the counts; the rows stay where only those changed, and so does the focus."""
        lines = lines_of(listing, query, title)
        shape = tuple(("", line) if isinstance(line, str) else (line.kind, line.value) for line in lines)
        if shape != self._shape:
            self._build(shape, lines)
        for line in lines:
            if not isinstance(line, str):
                made = self._rows[line.kind, line.value]
                made.show_count(line.words, line.amount, line.tip)
                made.setChecked(line.chosen)

    def _build(self, shape: tuple[tuple[str, str], ...], lines: Iterable[_Line | str]) -> None:
        focused = next((key for key, made in self._rows.items() if made.hasFocus()), None)
        self._shape, self._rows = shape, {}
        clear(self._list)
        for line in lines:
            if isinstance(line, str):
                heading = label(line, "caption-strong", "muted")
                heading.setContentsMargins(9, 10, 0, 4)
                self._list.addWidget(heading)
            else:
                made = SideRow(line.icon, line.token)
                made.clicked.connect(partial(self._clicked, line.kind, line.value))
                self._rows[line.kind, line.value] = made
                self._list.addWidget(made)
        self._list.addStretch(1)
        if focused in self._rows:
            self._rows[focused].setFocus(Qt.FocusReason.OtherFocusReason)

    def _clicked(self, kind: str, value: str, _on: bool = False) -> None:
        self.chosen.emit(kind, value)

    def show_folders(self, watched: Sequence[Watched]) -> None:
        if watched == self._watched:
            return
        self._watched = watched
        clear(self._folders)
        for one in watched:
            self._folders.addWidget(_folder_line(one, partial(self.remove_folder.emit, one.root)))
        high = theme.grown(28) * len(watched)
        self._folder_area.setFixedHeight(min(150, high))
        self._folder_area.setVisible(bool(watched))


def folder_state(watched: Watched) -> tuple[str, str, str]:
    """Word, icon and tone of a watched folder."""
    if watched.offline:
        return tr("Offline"), "folder-x", "warn"
    if watched.scanning is not None:
        done, most = watched.scanning
        return (f"{figures.group(done)} / {figures.group(most)}" if most else tr("Scanning")), "loader-circle", "accent"
    if watched.closed:
        return tr("Partly unreadable"), "triangle-alert", "warn"
    return "", "circle-check", "ok"


def folder_tip(watched: Watched) -> str:
    """Path, how many files, and what is wrong."""
    files = tr("{1} files", watched.files, figures.group(watched.files), one="1 file")
    closed = [tr("Unreadable: {0}", folder) for folder in watched.closed[:5]]
    away = tr("Not connected. Its models stay listed.") if watched.offline else ""
    return "\n".join(filter(None, (watched.root, files, away, *closed)))


def _folder_line(watched: Watched, remove: Callable[[], object]) -> QWidget:
    words, icon, tone = folder_state(watched)
    name = ElidedLabel(Path(watched.root).name or watched.root, "small", "warn" if watched.offline else "secondary")
    name.set_text(Path(watched.root).name or watched.root, folder_tip(watched))
    first = IconLabel("folder-x" if watched.offline else "folder", "warn" if watched.offline else "text-secondary", 14)
    cross = icon_button("x", tr("Remove {0} from the list", Path(watched.root).name), size=12, clicked=remove)
    parts: list[QWidget] = [first, name]
    if words:
        parts.append(label(words, "caption", tone, numbers=True))
    if not watched.offline:
        sign = IconLabel(icon, "accent-text" if tone == "accent" else tone, 14)
        sign.setToolTip(folder_tip(watched))
        parts.append(sign)
    return boxed(row(*parts, cross, spacing=6, stretch=1))
