"""A folded row of the Create form and what stands below it: one part of what the next pictures depend on."""

from collections.abc import Callable
from typing import ClassVar

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QAbstractButton, QMenu, QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.form_parts import FoldedRow
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit.built_later import BuiltLater
from halftone.gui.kit.stock_widgets import hline, label
from halftone.gui.text import error_remedy, error_sentence
from halftone.session.events import RowFolded
from halftone.session.pictures.draft import in_use
from halftone.session.pictures.draft_parts import takes


class FoldedPart(BuiltLater):
    """`changed`: what is said of it, or what stands in it. `row` opens it, `note` is a warning that a part may lay
    out. The form asks `problem` why no picture can be made. What stands below the row is made when it is first opened.
    `opened`: also where it was open already, and a row around it may be folded.
    """

    changed = Signal()
    opened = Signal()
    part_name: ClassVar[str] = ""
    """Its name in `session.pictures.draft_parts`, "" for one that every model can use."""
    grows: ClassVar[bool] = True
    """Whether what changes in it may end below the edge of the form, which then scrolls there."""
    field: ClassVar[str] = ""
    """The one whose problem (`session.pictures.draft_problems`) is shown here."""
    opens: ClassVar[bool] = False
    """Whether that problem opens it."""

    def __init__(self, binding: Binding, title: str, tip: str = "") -> None:
        super().__init__()
        self._binding, self._controller = binding, binding.controller
        self._model: ModelFacts | None = None
        self.title = title
        self.there = True
        """Whether the model can use it."""
        self.row = FoldedRow(title, self)
        self.row.setToolTip(tip)
        self._end: QWidget | None = None
        self.row.toggled.connect(self._toggled)
        self.note = label("", "caption", "warn", wrap=True)
        self.note.setParent(self)
        self.note.hide()
        self._unfit = ""
        self._problem = ""
        self._says_refusal = False
        """Whether the note says why a file or value was refused."""

    @property
    def _key(self) -> str:
        return type(self).__name__

    def restore(self) -> None:
        """Open it where it was open before the form was made anew."""
        self.row.setChecked(self._key in self._controller.state.open_rows)

    def alone(self) -> tuple[QWidget, ...]:
        """What the form lays out of a part that stands in no group."""
        self._end = hline()
        return self.row, self, self._end

    def open(self) -> None:
        """Show what stands below the row."""
        self.row.setChecked(True)
        if self.there:
            self.opened.emit()

    def _toggled(self, on: bool) -> None:
        self._controller.take(RowFolded(row=self._key, open=on))
        if on and self.there:
            self.opened.emit()

    def used(self) -> bool:
        """Whether it changes the next pictures."""
        return in_use(self._binding.draft, self.part_name)

    def follow(self, model: ModelFacts | None) -> None:
        """Show what there is of it with this model, and nothing where the model cannot use it."""
        self._model, self.there = model, self.is_there(model)
        self.row.setVisible(self.there)
        if self._end is not None:
            self._end.setVisible(self.there)
        self.setVisible(self.there and self.row.isChecked())

    def is_there(self, model: ModelFacts | None) -> bool:
        """Whether a model can use it."""
        return takes(model, self.part_name)

    def problem(self) -> str:
        """Why no picture can be made as it stands, "" where one can."""
        return (self._unfit or self._problem) if self.there else ""

    def show_problem(self, words: str) -> None:
        """What the draft lacks here, or cannot be used with; "" for nothing."""
        if words != self._problem:
            self._problem = words
            if words and self.opens:
                self.open()
            self.say(self.problem())

    def say(self, words: str) -> None:
        """Warn; "" for nothing to say."""
        self._says_refusal = False
        self.note.setText(words)
        self.note.setVisible(bool(words))
        self.changed.emit()

    def refused(self, error: Exception) -> None:
        """Say why something was not taken, and open for it."""
        self.refuse(said_of(error))

    def refuse(self, words: str) -> None:
        """The same, in words."""
        self.open()
        self.say(words)
        self._says_refusal = True

    def hush(self) -> None:
        """Clear a refusal once something in the form has changed."""
        if self._says_refusal:
            self.say(self.problem())

    @property
    def removal(self) -> Callable[[], object] | None:
        """Removes what does not fit the model; None where nothing can be removed."""
        return None

    def does_not_fit(self, error: Exception) -> None:
        """What stands here would stop the next picture: it is the `problem` until `fits` is called."""
        words = said_of(error)
        if words != self._unfit:
            self._unfit = words
            self.open()
        self.say(words)

    def fits(self) -> None:
        """What stands here can be used."""
        self._unfit = ""
        self.say(self.problem())

    def menu(self) -> QMenu:
        """A new menu, gone when it closes."""
        made = QMenu(self)
        made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        made.setToolTipsVisible(True)
        return made


def said_of(error: Exception) -> str:
    """What happened and what to do. Raises what is no error of the user's files."""
    if not isinstance(error, HalftoneError):
        raise error
    facts = error.as_facts()
    return sentences(error_sentence(facts), error_remedy(facts))


def no_model_words() -> str:
    """Why a file is not taken while there is no model to try it with."""
    return tr("Open a model first.")


def below(menu: QMenu, opener: QAbstractButton) -> None:
    """Open a menu under the button it belongs to."""
    menu.popup(opener.mapToGlobal(QPoint(0, opener.height() + 2)))
