"""A small window of models, in which a row of Create chooses a file from the library."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from PySide6.QtCore import QPoint, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QSizePolicy, QStackedWidget, QToolButton, QWidget

from halftone.gui import icons, theme
from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import column, icon_button, label, row, show_clear
from halftone.gui.kit.switches import Segmented
from halftone.gui.models.model_cards import ModelGrid, RowModel
from halftone.gui.models.model_rows import ModelRows
from halftone.gui.models.previews import Previews
from halftone.library.add_ons.controlnets import KINDS
from halftone.library.families.recognise import Kind
from halftone.session.models.listing import Place, Query, Row, short_family

_PLACES: Final[dict[Kind, Place]] = {
    "checkpoint": "Checkpoints",
    "denoiser": "Checkpoints",
    "LoRA": "LoRA",
    "VAE": "VAE",
    "ControlNet": "ControlNet",
    "IP-Adapter": "ControlNet",
    "embedding": "Embeddings",
    "upscaler": "Upscalers",
}
_SIZE: Final = (660, 470)
_TYPING_MS: Final = 100


class ModelPicker(QFrame):
    """Closes when something is chosen. chosen: the path of a file or folder."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget, controller: Controller, kind: Kind, family: str = "") -> None:
        """family: the only one to offer; "" for all, those of the model in use first where the kind has to fit it."""
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("modelMenu")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        model = controller.model
        fits = family or (short_family(model.family) if model is not None and kind not in ("checkpoint", "upscaler") else "")
        kinds: tuple[Kind, ...] = KINDS if kind == "ControlNet" else (kind,)
        query = Query(place=_PLACES[kind], kinds=kinds, family=fits)
        self.rows = ModelRows(controller, query, self)
        self.cards = RowModel()
        self.grid = ModelGrid(Previews(controller).small, acts=False)
        self.grid.setModel(self.cards)
        self.search = QLineEdit()
        self.search.setAccessibleName(tr("Search models"))
        self.search.setPlaceholderText(tr("Search name, family, note"))
        show_clear(self.search)
        self.search.addAction(QAction(icons.icon("search"), "", self.search), QLineEdit.ActionPosition.LeadingPosition)
        self.fitting = Segmented((("fits", fits), ("all", tr("All"))))
        self.fitting.set_value("fits")
        self.fitting.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.none = label("", "body", "muted", wrap=True)
        self.none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.views = QStackedWidget()
        self.views.addWidget(self.grid)
        self.views.addWidget(self.none)
        head = row(self.search, self.fitting, spacing=8, margins=(16, 12, 16, 2), stretch=0)
        self.setLayout(column(head, self.views, spacing=0, margins=(1, 1, 1, 1), stretch=1))
        self.fitting.setVisible(bool(fits) and not family)
        self.setFixedSize(*_SIZE)
        self._fits = fits
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._typing.timeout.connect(lambda: self.rows.ask(replace(self.rows.query, words=self.search.text())))
        self._connect(controller)

    def _connect(self, controller: Controller) -> None:
        controller.thumbnails.arrived.connect(self.grid.viewport().update)
        self.search.textChanged.connect(lambda _text: self._typing.start())
        self.search.returnPressed.connect(self._take_first)
        self.fitting.chosen.connect(
            lambda value: self.rows.ask(replace(self.rows.query, family=self._fits if value == "fits" else ""))
        )
        self.rows.changed.connect(self._show_rows)
        for signal in (self.grid.chosen, self.grid.used):
            signal.connect(self._take)

    def _show_rows(self) -> None:
        rows = self.rows.listing.rows
        self.cards.show_rows(rows)
        self.none.setText(tr("No model matches.") if self.rows.query.words else tr("No such file in your folders."))
        self.views.setCurrentWidget(self.grid if rows else self.none)

    def _take(self, chosen: Row) -> None:
        self.close()
        self.chosen.emit(chosen.entry.path)

    def _take_first(self) -> None:
        """Enter takes what was searched for, where only one is left; else it leads to the cards."""
        rows = self.rows.listing.rows
        if len(rows) == 1:
            self._take(rows[0])
        elif rows:
            self.grid.setFocus(Qt.FocusReason.OtherFocusReason)
            self.grid.setCurrentIndex(self.cards.index(0))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Down and self.search.hasFocus():
            self.grid.setFocus(Qt.FocusReason.OtherFocusReason)
            self.grid.setCurrentIndex(self.cards.index(0))
        else:
            super().keyPressEvent(event)

    def show_beside(self, anchor: QWidget) -> None:
        """Show it below the anchor, inside the screen."""
        screen, corner = anchor.screen().availableGeometry(), anchor.mapToGlobal(QPoint(0, anchor.height() + 3))
        place = QRect(corner, self.size())
        place.moveLeft(max(screen.left(), min(place.left(), screen.right() - place.width())))
        place.moveTop(max(screen.top(), min(place.top(), screen.bottom() - place.height())))
        self.move(place.topLeft())
        self.show()
        self.rows.refresh()
        self.search.setFocus(Qt.FocusReason.PopupFocusReason)


def pick(anchor: QWidget, controller: Controller, kind: Kind, chosen: Callable[[str], object], family: str = "") -> ModelPicker:
    """Open the picker below a widget."""
    made = ModelPicker(anchor, controller, kind, family)
    made.chosen.connect(chosen)
    made.show_beside(anchor)
    return made


def library_button(controller: Controller, kind: Kind, chosen: Callable[[str], object], family: str = "") -> QToolButton:
    """A button that opens the picker below itself."""
    made = icon_button("layout-grid", tr("Choose from your models"), kind="framed")
    made.setFixedSize(theme.grown(28), theme.grown(28))
    made.clicked.connect(partial(_open, made, controller, kind, chosen, family))
    return made


def _open(
    anchor: QWidget, controller: Controller, kind: Kind, chosen: Callable[[str], object], family: str, _on: bool = False
) -> None:
    pick(anchor, controller, kind, chosen, family)
