"""Holds the state; every change of it is one event through `apply`."""

import time

from PySide6.QtCore import QObject, Signal

from halftone.contract.messages import AnyEvent
from halftone.gui.state.app_state import AppState
from halftone.gui.state.reducer import apply
from halftone.gui.state.window_events import OwnEvent


class StateHolder(QObject):
    """`changed` follows every step of the state; `noticed` carries the newest message for the user."""

    changed = Signal()
    noticed = Signal(object)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.state = AppState()

    def take(self, event: AnyEvent | OwnEvent) -> None:
        """One step of the state."""
        before = self.state
        self.state = apply(before, event, time.monotonic())
        if self.state.notices and self.state.next_notice != before.next_notice:
            self.noticed.emit(self.state.notices[-1])
        if self.state is not before:
            self.changed.emit()
