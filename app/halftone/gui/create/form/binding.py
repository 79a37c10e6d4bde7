"""Ties widgets to fields of the draft: an edit becomes a new draft, and every change of the draft is rendered."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from PySide6.QtCore import QObject, Qt, SignalInstance
from PySide6.QtWidgets import QCheckBox, QComboBox, QTextEdit, QWidget

from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.form.form_fields import NumberBox, SliderField
from halftone.session.pictures.draft import LISTED, SCALARS, Draft, with_value

Access = tuple[SignalInstance, Callable[[], Any], Callable[[Any], object]]
_NARROWEST: Final = 60


def access(widget: QWidget) -> Access:
    """The signal of its edits, how its value is read, and how one is shown. Fields of our own have `changed`, `value` and
    `set_value`.
    """
    match widget:
        case NumberBox():
            return widget.valueChanged, widget.number, widget.setValue
        case QCheckBox():
            return widget.toggled, widget.isChecked, widget.setChecked
        case QComboBox():
            return widget.currentIndexChanged, widget.currentData, lambda value: widget.setCurrentIndex(widget.findData(value))
        case QTextEdit():
            return widget.textChanged, widget.toPlainText, widget.setPlainText
        case _:
            own: Any = widget
            return own.changed, own.value, own.set_value


def number_box(field: str, name: str, tip: str, *, width: int = 0) -> NumberBox:
    """A number of the draft, within what it may be. width: 0 for as wide as there is place."""
    scalar = SCALARS.get(field) or LISTED[field]
    made = NumberBox(scalar.allowed, scalar.places)
    made.setSingleStep(0.05 if scalar.places == 2 else 10**-scalar.places)
    made.setFont(theme.current().font("body", numbers=True))
    made.setAlignment(Qt.AlignmentFlag.AlignRight)
    made.setMinimumWidth(theme.grown(width) or _NARROWEST)
    if width:
        made.setMaximumWidth(theme.grown(width))
    made.setAccessibleName(name)
    made.setToolTip(tip)
    return made


@dataclass
class _Watcher:
    get: Callable[[Draft], tuple[Any, ...]]
    hear: Callable[..., object]
    last: tuple[Any, ...] = ()


class Binding(QObject):
    """Rendering is no edit: what widgets say meanwhile changes nothing. The last watcher hears when all show the draft."""

    def __init__(self, controller: Controller, parent: QObject) -> None:
        super().__init__(parent)
        self.controller = controller
        self._watchers: list[_Watcher] = []
        self.rendering = False
        controller.draft_changed.connect(self._render)

    @property
    def draft(self) -> Draft:
        return self.controller.state.draft

    def put(self, draft: Draft) -> None:
        if not self.rendering:
            self.controller.session.drafting.put(draft)

    def set(self, field: str, value: object) -> None:
        """Give one field another value. field: with dots for a field of a field."""
        self.put(with_value(self.draft, field, value))

    def bind(self, field: str, widget: QWidget) -> None:
        """Let a widget edit and show a field."""
        edited, read, show = access(widget)
        none = 0 if field in SCALARS and SCALARS[field].optional else None
        edited.connect(lambda *_: self.set(field, None if read() == none else read()))

        def render(value: object) -> None:
            if (wanted := none if value is None else value) != read():
                show(wanted)

        self.watch(render, field)

    def number(self, field: str, name: str, tip: str, *, width: int = 0) -> NumberBox:
        """A box bound to a number of the draft."""
        made = number_box(field, name, tip, width=width)
        self.bind(field, made)
        return made

    def slider(self, field: str, name: str, tip: str, usual: tuple[float, float], step: float = 1.0) -> SliderField:
        """A slider over what is usual, bound to a number of the draft."""
        made = SliderField(name, tip, usual, SCALARS[field].allowed, step)
        self.bind(field, made)
        return made

    def watch(self, hear: Callable[..., object], *fields: str) -> None:
        """Call `hear` with the values of these fields, now and whenever one has changed."""
        get = attrgetter(*fields)
        self._watchers.append(_Watcher(get if len(fields) > 1 else lambda draft: (get(draft),), hear))
        self._render_one(self._watchers[-1], self.draft)

    def _render(self) -> None:
        draft = self.draft
        for one in self._watchers:
            self._render_one(one, draft)

    def _render_one(self, one: _Watcher, draft: Draft) -> None:
        values = one.get(draft)
        if values != one.last:
            one.last = values
            self.quietly(lambda: one.hear(*values))

    def quietly(self, call: Callable[[], object]) -> None:
        """Change what widgets show; no edit comes of it."""
        before, self.rendering = self.rendering, True
        try:
            call()
        finally:
            self.rendering = before
