"""The cards above the centre of Train while nothing is trained: a run to resume, and why none could start."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from halftone.contract.errors import ErrorFacts
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import clear, column
from halftone.gui.text import error_remedy, error_sentence
from halftone.gui.train.run_view import notice
from halftone.library.training_data.training_runs import BrokenRun


class TrainOffers(QWidget):
    """`go_on` and `leave` carry the `BrokenRun`; `copy` the `ErrorFacts` whose details are wanted."""

    go_on = Signal(object)
    leave = Signal(object)
    copy = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._told: tuple[BrokenRun | None, ErrorFacts | None] = (None, None)
        self._cards = column(spacing=10, margins=(16, 12, 16, 0))
        self.setLayout(self._cards)
        self.hide()

    def show_offers(self, broken: BrokenRun | None, refused: ErrorFacts | None) -> None:
        """broken: a run that was broken off; refused: why the last training did not begin."""
        if (broken, refused) == self._told:
            return
        self._told = (broken, refused)
        clear(self._cards)
        if refused is not None:
            words = sentences(tr("Training could not start."), error_sentence(refused), error_remedy(refused))
            copy = (tr("Copy details"), "link", lambda: self.copy.emit(refused))
            self._cards.addWidget(notice("danger", "octagon-alert", words, copy))
        if broken is not None:
            words = tr("“{0}” stopped early, saved at step {1} of {2}.", *run_facts(broken))
            leave = (tr("Not now"), "link", lambda: self.leave.emit(broken))
            go_on = (tr("Resume"), "primary", lambda: self.go_on.emit(broken))
            self._cards.addWidget(notice("info", "info", words, leave, go_on))
        self.setVisible(self._cards.count() > 0)


def run_facts(run: BrokenRun) -> tuple[str, str, str]:
    """Name, step that is saved, and steps that were wanted."""
    return run.config.name, figures.group(run.step), figures.group(run.config.steps)
