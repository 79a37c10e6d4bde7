"""A folded row of the Create form with a list of files that have to fit the model: LoRAs, ControlNets, IP-Adapters."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QBoxLayout, QLayout, QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Control, IpAdapter, Lora
from halftone.gui.create.form.binding import Binding, access, number_box
from halftone.gui.create.form.file_choosers import add_choosing, add_known
from halftone.gui.create.rows.folded_row import FoldedPart, below, no_model_words
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import ElidedLabel, button, clear, column, icon_button, row
from halftone.gui.models.picker import library_button
from halftone.library.families.recognise import Kind

Item = TypeVar("Item", Lora, Control, IpAdapter)


@dataclass(frozen=True)
class Listed(Generic[Item]):
    """title, tip, adding, kinds: words for the row, what it is for, the button, and the files; folders: whether one may be a
    folder; new: an entry of a file; check: raises where one does not fit a model, on another thread; words: all of them in a few
    letters; shape: what of an entry other widgets are made for; kind: of the files in the library; together: whether a new one is
    checked with those that are there; twice: whether a file may be in the list more than once.
    """

    title: str
    tip: str
    adding: str
    kinds: str
    folders: bool
    new: Callable[[str], Item]
    check: Callable[[tuple[Item, ...], ModelFacts], None]
    words: Callable[[Sequence[Item]], str]
    shape: Callable[[Item], object]
    kind: Kind
    together: bool = False
    twice: bool = True


class ListRow(FoldedPart, Generic[Item]):
    """What does not fit is the `problem` until it is removed, or another model is chosen."""

    def __init__(self, binding: Binding, kind: Listed[Item]) -> None:
        super().__init__(binding, kind.title, kind.tip)
        self._kind = kind
        self.known: Mapping[str, str] = {}
        """Name -> path of those that can be added without looking for them."""
        self._items: tuple[Item, ...] = ()
        self._misfits: tuple[Item, ...] = ()
        self._looks = 0
        self._tied: list[tuple[int, str, Callable[[Any], object]]] = []
        self.row.toggled.connect(lambda on: self.look() if on else None)
        self._controller.model_selected.connect(self.look_at_fit)
        self._controller.models_changed.connect(self.look_at_fit)
        self.row.value.setText(kind.words(()))
        binding.watch(self._render, self.field)

    def build(self) -> None:
        self._list = column(spacing=8)
        self.add_button = button(self._kind.adding, tip=self._kind.tip, clicked=self._open_menu)
        self.library_button = library_button(self._controller, self._kind.kind, self.add)
        self.setLayout(
            column(self._list, row(self.add_button, self.library_button, -1), self.note, spacing=8, margins=(14, 10, 14, 12))
        )
        self._fill()

    @abstractmethod
    def look(self) -> None:
        """Read which of them the folders of the settings hold."""

    @abstractmethod
    def inside(self, index: int, item: Item, head: QBoxLayout) -> QLayout:
        """Lay out an entry. head: its name and the cross that removes it."""

    def found(self, known: Mapping[str, str]) -> None:
        self.known = known

    # --- the list ---------------------------------------------------------------------------------------------------

    def items(self) -> tuple[Item, ...]:
        return self._items

    def set_items(self, items: tuple[Item, ...]) -> None:
        self._binding.set(self.field, items)

    def change(self, index: int, **changes: Any) -> None:
        """Give one entry other values."""
        changed = msgspec.structs.replace(self._items[index], **changes)
        self.set_items((*self._items[:index], changed, *self._items[index + 1 :]))

    def remove(self, index: int) -> None:
        self.set_items((*self._items[:index], *self._items[index + 1 :]))
        self.add_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def tie(self, index: int, field: str, widget: QWidget) -> None:
        """Let a widget edit and show a field of an entry."""
        edited, read, show = access(widget)
        show(getattr(self._items[index], field))
        edited.connect(lambda *_: self.change(index, **{field: read()}))
        self.show_too(index, field, lambda value: show(value) if read() != value else None)

    def show_too(self, index: int, field: str, show: Callable[[Any], object]) -> None:
        """Show a field of an entry whenever the list is rendered."""
        self._tied.append((index, field, show))

    def number(self, index: int, field: str, name: str, tip: str) -> QWidget:
        """A number of an entry."""
        box = number_box(f"{self.field}.{field}", name, tip, width=72)
        self.tie(index, field, box)
        return box

    def _render(self, items: tuple[Item, ...]) -> None:
        before, self._items = self._items, items
        if list(map(self._kind.shape, before)) != list(map(self._kind.shape, items)):
            if self.built:
                self._fill()
            self.look_at_fit()
        for index, field, show in self._tied:
            show(getattr(items[index], field))
        self.row.value.setText(self._kind.words(items))
        self.say(self.problem())

    def _fill(self) -> None:
        clear(self._list)
        self._tied.clear()
        for index, item in enumerate(self._items):
            remove = icon_button("x", tr("Remove {0}", item.name), size=14, clicked=partial(self.remove, index))
            head = row(ElidedLabel(item.name), remove, spacing=6, stretch=0)
            made = QWidget()
            made.setToolTip(item.path)
            made.setLayout(self.inside(index, item, head))
            self._list.addWidget(made)

    # --- what fits --------------------------------------------------------------------------------------------------

    def look_at_fit(self) -> None:
        """Another model may be there now, or other files. What was said before stands until the answer comes."""
        self._looks += 1
        look, items, model = self._looks, self._items, self._controller.model
        if not items:
            if self._unfit:
                self.fits()
        elif model is not None:
            self._controller.background.run(
                lambda: _misfits(self._kind.check, items, model),
                lambda found: self._looked(*found) if look == self._looks else None,
                receiver=self,
            )

    def _looked(self, misfits: tuple[Item, ...], error: HalftoneError | None) -> None:
        self._misfits = misfits
        if error is None:
            self.fits()
        else:
            self.does_not_fit(error)

    @property
    def removal(self) -> Callable[[], object] | None:
        return self._remove_misfits if self.problem() and self._unfit else None

    def _remove_misfits(self) -> None:
        """Its weight may have changed since: what does not fit is known by its file alone."""
        shapes = [self._kind.shape(item) for item in self._misfits]
        self.set_items(tuple(item for item in self._items if self._kind.shape(item) not in shapes))

    def add(self, path: str) -> None:
        """Add a file, if it fits the model; what is wrong with it is said below the list."""
        model, item = self._controller.model, self._kind.new(path)
        if model is None:
            self.say(no_model_words())
            return
        items = (*self._items, item) if self._kind.together else (item,)
        self._controller.background.run(
            lambda: self._kind.check(items, model),
            lambda _none: self.set_items((*self._items, item)),
            self.refused,
            receiver=self,
        )

    def take(self, path: str) -> None:
        """Open the row and use a file, if it fits the model."""
        self.row.setChecked(True)
        self.add(path)

    def _open_menu(self) -> None:
        menu, there = self.menu(), set() if self._kind.twice else {item.path for item in self._items}
        add_known(menu, {name: path for name, path in self.known.items() if path not in there}, self.add)
        add_choosing(menu, self._kind.adding, self._kind.kinds, self.add, folders=self._kind.folders)
        below(menu, self.add_button)


def _misfits(
    check: Callable[[tuple[Item, ...], ModelFacts], None], items: tuple[Item, ...], model: ModelFacts
) -> tuple[tuple[Item, ...], HalftoneError | None]:
    """Return the entries that do not fit a model, and the first error. Entries that only clash: the last one."""
    try:
        check(items, model)
    except HalftoneError as error:
        alone = tuple(item for item in items if _misfit(check, item, model))
        return alone or items[-1:], error
    return (), None


def _misfit(check: Callable[[tuple[Item, ...], ModelFacts], None], item: Item, model: ModelFacts) -> bool:
    try:
        check((item,), model)
    except HalftoneError:
        return True
    return False
