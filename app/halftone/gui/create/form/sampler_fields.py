"""The sampler of the next pictures: its method, and how the noise levels lie between the steps."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from halftone.contract.request import split_sampler
from halftone.gui.create.form.form_fields import combo
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import column, label, row
from halftone.library.samplers import offered
from halftone.session.pictures.draft import fitting_sampler

_NARROW: Final = 92
"""Pixels of each list in the narrowest form."""


class SamplerField(QWidget):
    """Two lists of what goes with the model, and with the method."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._names: tuple[str, ...] = ()
        self.method = combo(tr("Sampler"), "")
        self.schedule = combo(tr("Schedule"), tr("Noise level at each step."))
        for box in (self.method, self.schedule):
            box.setMinimumWidth(_NARROW)
        self.note = label("", "caption", "warn", wrap=True)
        self.note.hide()
        fields = row(
            column(label(tr("Sampler"), "small", "secondary"), self.method, spacing=5),
            column(label(tr("Schedule"), "small", "secondary"), self.schedule, spacing=5),
            spacing=8,
        )
        fields.setStretch(0, 6)  # names of samplers are longer, and so is "Model default"
        fields.setStretch(1, 5)
        self.setLayout(column(fields, self.note, spacing=2))
        self.method.currentIndexChanged.connect(self._method_changed)
        self.schedule.currentIndexChanged.connect(self.changed)
        self.method.activated.connect(self.note.hide)
        self.method.activated.connect(self.changed)  # also where what is shown is not what was wanted
        self.follow(())

    def follow(self, names: Sequence[str]) -> None:
        """The samplers that go with a model; the chosen one stays if it does."""
        chosen = self.value()
        self._names = tuple(names)
        fit = list(dict.fromkeys(split_sampler(name)[0] for name in names))
        self.method.blockSignals(True)
        self.method.clear()
        self.method.addItem(tr("Model default"), "")
        for name in fit:
            self.method.addItem(name, name)
        self.method.blockSignals(False)
        self.set_value(chosen)

    def value(self) -> str | None:
        """As a request names it; None: the model's own."""
        return f"{self.method.currentData() or ''} {self.schedule.currentData() or ''}".strip() or None

    def set_value(self, wanted: str | None) -> None:
        """Take a sampler; where it does not go with the model, its own is taken, and that is said."""
        name = fitting_sampler(wanted, self._names)
        method, way = split_sampler(name or "")
        self.method.setCurrentIndex(max(0, self.method.findData(method)))
        self._list_schedules(method, way)
        self.schedule.setCurrentIndex(max(0, self.schedule.findData(way)))
        self.note.setText(tr("{0} is not supported. Using the model default.", wanted or ""))
        self.note.setVisible(bool(wanted and not name and self._names))

    def _method_changed(self) -> None:
        way = self.schedule.currentData()
        self._list_schedules(self.method.currentData() or "")
        item = self.schedule.findData(way or "")
        self.schedule.setCurrentIndex(max(item, 0))

    def _list_schedules(self, method: str, chosen: str = "") -> None:
        """The usual one is the model's; of the others those that the method can do, and the chosen one."""
        self.schedule.clear()
        self.schedule.addItem(tr("Default"), "")
        ways = [way for own, way in map(split_sampler, offered(self._names)) if own == method and way]
        for way in dict.fromkeys((*ways, chosen)):
            if way and f"{method} {way}" in self._names:
                self.schedule.addItem(way, way)
        self.schedule.setEnabled(self.schedule.count() > 1)
