"""The end of the window: a question while there is work, and a lasting note while it waits for the work to be done.

An update that is being installed is work, too: closing would stop it.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFrame, QMessageBox, QWidget

from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import IconLabel, button, column, label, row


class Closing(QObject):
    """`changed`: `waiting` changed, which is whether the window closes as soon as no work is left."""

    changed = Signal()

    def __init__(self, window: QWidget, controller: Controller, keep: Callable[[], object]) -> None:
        """keep: saves what is to be remembered."""
        super().__init__(window)
        self.waiting = False
        self._window = window
        self._controller = controller
        self._keep = keep
        self._stopping = False
        self._box: QMessageBox | None = None
        controller.changed.connect(self._look)
        controller.updates_changed.connect(self._look_at_the_update)

    @property
    def jobs(self) -> int:
        """How many there are, the running one included."""
        return len(self._controller.state.jobs)

    @property
    def updating(self) -> bool:
        return self._controller.state.updating.stage == "installing"

    @property
    def work(self) -> bool:
        return self.jobs > 0 or self.updating

    def may_close(self) -> bool:
        """Whether the window may close now; asks the user what to do where it may not."""
        if self.work and not self._stopping:
            self._ask()
            return False
        self._keep()
        self._window.hide()
        self._controller.session.stop()
        return True

    def _ask(self) -> None:
        box = QMessageBox(self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setWindowTitle("Halftone")
        box.setText(self._question())
        finish = box.addButton(tr("Finish, then close"), QMessageBox.ButtonRole.AcceptRole)
        stop = box.addButton(tr("Stop and close"), QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(tr("Cancel"), QMessageBox.ButtonRole.RejectRole)
        finish.clicked.connect(lambda: self.wait(True))
        stop.clicked.connect(self.stop)
        box.finished.connect(self._answered)
        self._box = box
        box.open()

    def _question(self) -> str:
        training, state = self._controller.session.training, self._controller.state
        if self.updating:
            return (
                tr("Finish all jobs and the update first, or stop now?")
                if self.jobs
                else tr("Finish the update first, or stop it now?")
            )
        if training.running and state.running is not None and self.jobs == 1:
            done, total = (figures.group(number) for number in (state.running.done, state.running.total or 0))
            return tr("Training: step {0} of {1}. Finish it, or stop and keep the result?", done, total)
        return tr("Finish {0} jobs first, or stop now?", self.jobs, one="Finish 1 job first, or stop now?")

    def _answered(self) -> None:
        self._box = None

    def wait(self, on: bool) -> None:
        """Close when all work is done, or take that back."""
        self.waiting = on
        if on:
            self._controller.session.finish()
        self.changed.emit()
        self._look()

    def stop(self) -> None:
        """Close at once; the worker has a moment to leave."""
        self._stopping = True
        self._window.setEnabled(False)
        self._controller.session.leave(self._window.close)

    def _look(self) -> None:
        if self._box is not None and self.work:
            self._box.setText(self._question())
        elif self._box is not None:  # the work is done: nothing is left to ask
            self._box.reject()
            self.wait(True)
            return
        if self.waiting and not self.work:
            self._controller.later(self._close_if_done)

    def _look_at_the_update(self) -> None:
        """One that failed is no reason to close: the window says why."""
        if self._controller.state.updating.stage == "failed":
            if self._box is not None:
                self._box.reject()
            self.waiting = False
        self.changed.emit()
        self._look()

    def _close_if_done(self) -> None:
        """The end of one job may have begun another."""
        if self.waiting and not self.work:
            self.waiting = False
            self._window.close()


class ClosingNote(QWidget):
    """Says on every page that the window will close, and offers to take it back."""

    def __init__(self, closing: Closing, controller: Controller) -> None:
        super().__init__()
        self._closing = closing
        self.words = label("")
        self.stay = button(tr("Keep open"), "link", clicked=lambda: closing.wait(False))
        self.stop = button(tr("Stop and close"), "link", clicked=closing.stop)
        bar = QFrame()
        bar.setProperty("card", "info")
        bar.setLayout(
            row(IconLabel("info", "accent-text", 16), self.words, -1, self.stay, self.stop, spacing=12, margins=(12, 5, 12, 5))
        )
        self.setLayout(column(bar, margins=(12, 8, 12, 8)))
        closing.changed.connect(self._refresh)
        controller.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        self.setVisible(self._closing.waiting and self._closing.work)
        self.words.setText(self._words())

    def _words(self) -> str:
        jobs = self._closing.jobs
        if self._closing.updating:
            return (
                tr("Halftone closes when all jobs and the update are done.")
                if jobs
                else tr("Halftone closes when the update is installed.")
            )
        return tr("Halftone closes when these {0} jobs are done.", jobs, one="Halftone closes when this job is done.")
