"""The menu that the model row opens: the models to choose from, then ways to get more."""

from collections.abc import Callable, Collection
from typing import Literal, NamedTuple

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import QImage, QKeyEvent, QPainter
from PySide6.QtWidgets import QFrame, QWidget

from halftone.contract.facts import ModelFacts
from halftone.gui import icons, theme
from halftone.gui.create.form.model_picker import ModelCard, badge_tip, model_line, paint_model, part_line
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import button, column, hline
from halftone.gui.views.card_list import CardDelegate, CardList
from halftone.gui.views.list_model import ListModel
from halftone.health.judge import Badge
from halftone.session.models.model_list import ModelList as Known

_ROW = 42
_MOST = 12
"""Rows that the menu shows at most; the others are scrolled to."""


class Choice(NamedTuple):
    """A model, one that lacks small files, or a file that runs in the place of a model's transformer."""

    facts: ModelFacts
    kind: Literal["model", "waiting", "part"] = "model"


class ModelChoices(ListModel[Choice]):
    """in_use: the model, and the file in the place of its transformer."""

    def __init__(self, known: Known, in_use: Collection[str | None], badge: Callable[[ModelFacts], Badge]) -> None:
        super().__init__()
        self._in_use, self._badge = in_use, badge
        found = known.found
        waiting = (Choice(facts, "waiting") for facts in found.waiting.values())
        parts = (Choice(facts, "part") for facts in found.parts.values())
        self.show([*map(Choice, found.models.values()), *waiting, *parts])

    def card(self, item: Choice) -> ModelCard:
        """Look it up when it is shown: judging thousands takes time."""
        model = item.facts
        if item.kind == "part":
            tip = tr("Uses the other parts of a matching model.")
            return ModelCard(model.name, part_line(model), "", tip, self.is_chosen(item))
        look = self._badge(model)
        line = tr("A small file is missing") if item.kind == "waiting" else model_line(model)
        return ModelCard(model.name, line, look.state, badge_tip(look, ""), self.is_chosen(item))

    def is_chosen(self, item: Choice) -> bool:
        return (item.facts.path if item.kind == "part" else item.facts.id) in self._in_use

    def key(self, item: Choice) -> str:
        return item.facts.id

    def name(self, item: Choice) -> str:
        return self.card(item).spoken

    def tip(self, item: Choice) -> str:
        return self.card(item).tooltip


class ModelDelegate(CardDelegate[Choice]):
    """picture: what a model made."""

    def __init__(self, choices: ModelChoices, known: Known, picture: Callable[[str], QImage]) -> None:
        super().__init__()
        self._choices, self._known, self._picture = choices, known, picture

    def size(self, item: Choice) -> QSize:
        return QSize(0, theme.grown(_ROW))

    def has_cross(self, item: Choice) -> bool:
        return self._known.can_leave(item.facts.id)

    def cross_tip(self, item: Choice) -> str:
        name, leaving = item.facts.name, len(self._known.with_it(item.facts.id))
        if leaving > 1:
            return tr("Remove {0} and its folder ({1} models). Files are kept.", name, leaving)
        return tr("Remove {0}. Files are kept.", name)

    def paint_card(self, painter: QPainter, rect: QRect, item: Choice, *, hovered: bool, selected: bool) -> None:
        colours, card, box = theme.current(), self._choices.card(item), QRectF(rect)
        if card.chosen or hovered or selected:
            painter.fillRect(rect, colours.color("selected" if card.chosen else "hover"))
        if card.chosen:
            check = QRectF(box.right() - 58, box.center().y() - 8, 16, 16)
            icons.paint(painter, "check", check, colours.color("accent-text"))
        paint_model(painter, box.adjusted(10, 0, -66, 0), card, self._picture(item.facts.id), 30)


class ModelMenu(QFrame):
    """Closes when something is chosen."""

    chosen = Signal(str)
    open_folder = Signal()
    make_fragile = Signal()
    forgotten = Signal(str)

    def __init__(
        self,
        parent: QWidget,
        known: Known,
        in_use: Collection[str | None],
        badge: Callable[[ModelFacts], Badge],
        picture: Callable[[str], QImage],
    ) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("modelMenu")
        self.choices = ModelChoices(known, in_use, badge)
        self.list = CardList(tr("Model"), ModelDelegate(self.choices, known, picture))
        self.list.setUniformItemSizes(True)
        self.list.setModel(self.choices)
        self.list.chosen.connect(lambda choice: self._leave(self.chosen, choice.facts.id))
        self.list.removed.connect(self._remove)
        self._known = known
        more = (
            (tr("Open a model…"), "folder-plus", self.open_folder),
            (tr("Create the overflow demo model"), "flask-conical", self.make_fragile),
        )
        buttons = [button(words, "row", icon, clicked=lambda s=signal: self._leave(s)) for words, icon, signal in more]
        self.setLayout(column(self.list, hline(), *buttons, spacing=0, margins=(1, 4, 1, 4)))

    def _remove(self, choice: Choice) -> None:
        if self._known.can_leave(choice.facts.id):
            self._leave(self.forgotten, choice.facts.id)

    def _leave(self, signal: SignalInstance, *values: str) -> None:
        self.close()
        signal.emit(*values)

    def show_under(self, anchor: QWidget) -> None:
        """Show it below the anchor, as wide as it or a little wider, as high as the screen lets it be."""
        top = anchor.mapToGlobal(QPoint(0, anchor.height() + 3))
        others = self.sizeHint().height() - self.list.sizeHint().height()
        room = max(3 * theme.grown(_ROW), anchor.screen().availableGeometry().bottom() - top.y() - others)
        self.list.setFixedHeight(min(room, theme.grown(_ROW) * min(_MOST, len(self.choices.items))))
        self.setFixedWidth(max(anchor.width() + 32, 320))
        self.adjustSize()
        self.move(top)
        self.show()
        in_use = next((choice.facts.id for choice in self.choices.items if self.choices.is_chosen(choice)), "")
        self.list.select(self.choices.index_of(in_use))
        self.list.setFocus(Qt.FocusReason.PopupFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Up and down lead from the last model to what stands below it, and back."""
        if event.key() == Qt.Key.Key_Down:
            self.focusNextChild()
        elif event.key() == Qt.Key.Key_Up:
            self.focusPreviousChild()
        else:
            super().keyPressEvent(event)
