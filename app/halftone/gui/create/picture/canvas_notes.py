"""Lasting notes around the canvas: the NaN check is off (above), what to do after the first picture (below)."""

import msgspec
from PySide6.QtWidgets import QWidget

from halftone.gui.controller import Controller
from halftone.gui.create.form.model_picker import ask_model
from halftone.gui.i18n import tr
from halftone.gui.kit.built_later import BuiltLater
from halftone.gui.kit.message_bars import Act, Message, MessageBar
from halftone.gui.kit.stock_widgets import column


class UnwatchedNote(BuiltLater):
    """Stays as long as nobody watches the numbers (M7)."""

    def __init__(self, controller: Controller, parent: QWidget) -> None:
        super().__init__(parent)
        self._controller = controller
        controller.settings_changed.connect(self._refresh)
        self._refresh()

    def build(self) -> None:
        words = tr("NaN check is off. Black pictures are not recovered.")
        self.bar = MessageBar(Message("warn", words, actions=(Act("on", tr("Turn on")),)), closable=False)
        self.bar.acted.connect(lambda _key: self._turn_on())
        self.setLayout(column(self.bar, margins=(12, 8, 12, 8)))

    def _refresh(self) -> None:
        self.setVisible(self._controller.settings.numerics.nan_check == "off")

    def _turn_on(self) -> None:
        numerics = self._controller.settings.numerics
        self._controller.update_numerics(msgspec.structs.replace(numerics, nan_check="every-step"))


class NextSteps(BuiltLater):
    """Shown once, below the very first picture."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self.hide()

    def build(self) -> None:
        words = tr("Saved. Next: add models, or see what your device can do.")
        self.bar = MessageBar(Message("ok", words, actions=(Act("models", tr("Add a model…")), Act("device", tr("Device")))))
        self.bar.closed.connect(self.hide)
        self.bar.acted.connect(self._act)
        self.setLayout(column(self.bar, margins=(12, 0, 12, 10)))

    def _act(self, key: str) -> None:
        self.hide()
        if key == "device":
            self._controller.go("device")
        else:
            ask_model(self, self._controller)
