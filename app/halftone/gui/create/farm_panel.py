"""The window's pictures on the farm, below the queue."""

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QMenu, QWidget

from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.farm_jobs import FarmJobs
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit.stock_widgets import ElidedLabel, column, icon_button, label, row, surface
from halftone.gui.text import error_remedy, error_sentence
from halftone.gui.views.card_list import CardDelegate, CardList, paint_line
from halftone.gui.views.list_model import ListModel

if TYPE_CHECKING:
    from halftone.farm.window_jobs import Entry

_HEIGHT: Final = 50
_MOST: Final = 4 * _HEIGHT
"""Pixels of height that the pictures take at most; the others are scrolled to."""


def state_words(entry: "Entry", *, head: bool) -> str:
    """What becomes of a picture. head: whether a head runs."""
    match entry.state:
        case "leased":
            return tr("On the farm: {0}", entry.host) if entry.host else tr("On the farm: with a node")
        case "placing":
            return tr("On the farm: saving")
        case "waiting":
            return tr("On the farm: waiting") if head else tr("Waiting: no head runs")
        case "aside":
            return tr("Set aside: {0}", _why(entry))
        case _:
            return tr("Failed: {0}", _why(entry))


def _why(entry: "Entry") -> str:
    return "" if entry.error is None else error_sentence(entry.error)


class FarmModel(ListModel["Entry"]):
    def __init__(self) -> None:
        super().__init__()
        self.head = False

    def key(self, item: "Entry") -> str:
        return item.key

    def name(self, item: "Entry") -> str:
        return sentences(tr("{0}.", item.title), tr("{0}.", state_words(item, head=self.head).rstrip(".")))

    def tip(self, item: "Entry") -> str:
        remedy = "" if item.error is None else error_remedy(item.error)
        return "\n".join(filter(None, (item.title, state_words(item, head=self.head), remedy)))


class FarmDelegate(CardDelegate["Entry"]):
    def __init__(self, model: FarmModel) -> None:
        super().__init__()
        self._model = model

    def size(self, item: "Entry") -> QSize:
        return QSize(0, theme.grown(_HEIGHT))

    def has_cross(self, item: "Entry") -> bool:
        return True

    def cross_tip(self, item: "Entry") -> str:
        return tr("Cancel") if item.is_open else tr("Remove")

    def paint_card(self, painter: QPainter, rect: QRect, item: "Entry", *, hovered: bool, selected: bool) -> None:
        colours = theme.current()
        painter.fillRect(rect, colours.color("surface"))
        first = QRect(rect.left() + 12, rect.top() + theme.grown(8), rect.width() - 47, theme.grown(18))
        paint_line(painter, first, item.title, "small")
        second = QRect(first.left(), rect.top() + theme.grown(27), first.width(), theme.grown(16))
        token = "text-muted" if item.is_open else "danger"
        paint_line(painter, second, state_words(item, head=self._model.head), "caption", token)
        painter.fillRect(QRect(rect.left(), rect.bottom(), rect.width(), 1), colours.color("border"))


class FarmPanel(QWidget):
    """Shown while pictures of the window are on the farm, or did not end well there."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self.jobs = FarmJobs(controller, self)
        self.count = label("", "caption", "muted", numbers=True)
        self.more = icon_button("ellipsis", tr("More"), clicked=self._menu)
        head = surface("plain", "bottom")
        head.setFixedHeight(theme.grown(40))
        across = row(ElidedLabel(tr("On the farm"), "body-strong"), self.count, self.more, spacing=6, margins=(12, 0, 8, 0))
        across.setStretch(0, 1)
        head.setLayout(across)
        self.model = FarmModel()
        self.list = CardList["Entry"](tr("On the farm"), FarmDelegate(self.model))
        self.list.setModel(self.model)
        self.list.removed.connect(self.jobs.remove)
        self.list.menu_requested.connect(self._entry_menu)
        self.setLayout(column(head, self.list, spacing=0))
        self.jobs.changed.connect(self.refresh)
        self.hide()

    def refresh(self) -> None:
        """Show the pictures as they are."""
        entries = self.jobs.entries
        self.setVisible(bool(entries))
        self.model.head = self.jobs.head
        self.model.show(entries)
        self.list.viewport().update()  # whether a head runs changes the words of all
        self.list.setFixedHeight(theme.grown(min(_MOST, _HEIGHT * len(entries))))
        self.count.setText(tr("{0} pictures", len(entries), one="1 picture"))

    def entry_menu(self, entry: "Entry") -> QMenu:
        """What can be done with a picture."""
        menu = QMenu(self)
        if not entry.is_open:
            menu.addAction(tr("Try again"), lambda: self.jobs.retry(entry))
        menu.addAction(tr("Cancel") if entry.is_open else tr("Remove"), lambda: self.jobs.remove(entry))
        return menu

    def _entry_menu(self, entry: "Entry", at: QPoint) -> None:
        _pop_up(self.entry_menu(entry), at)

    def _menu(self) -> None:
        menu = QMenu(self)
        waiting = any(one.is_open for one in self.jobs.entries)
        menu.addAction(tr("Cancel all"), self.jobs.cancel_all).setEnabled(waiting)
        _pop_up(menu, self.more.mapToGlobal(QPoint(0, self.more.height())))


def _pop_up(menu: QMenu, at: QPoint) -> None:
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    menu.popup(at)
