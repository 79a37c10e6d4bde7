"""What stands above the list of models: offers of folders, how far the reading came, what went wrong, and hits of other kinds."""

from collections.abc import Mapping, Sequence
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QSizePolicy, QWidget

from halftone.gui.i18n import say, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import (
    Card,
    IconLabel,
    boxed,
    button,
    clear,
    column,
    label,
    progress_bar,
    row,
)
from halftone.gui.models.flow_layout import FlowLayout
from halftone.gui.models.model_words import place_words
from halftone.library.index.programs import Install
from halftone.session.models.listing import SHELVES
from halftone.session.models.watched import Library, reading


class OffersCard(Card):
    """Other programs whose folders may be watched too. accepted: folders of those that are ticked."""

    accepted = Signal(tuple)
    declined = Signal()

    def __init__(self) -> None:
        super().__init__("info")
        self._offers: Sequence[Install] = ()
        self._boxes: list[tuple[Install, QCheckBox]] = []
        self._programs = column(spacing=2)
        self.add = button(tr("Add"), "primary", clicked=self._accept)
        self.later = button(tr("Not now"), "quiet", clicked=self.declined.emit)
        title = label(tr("Halftone found models of other programs."), "body-strong", wrap=True)
        words = column(title, self._programs, spacing=4)
        inside = row(IconLabel("folder-plus", "accent-text", 18), words, self.later, self.add, spacing=10, stretch=1)
        inside.setContentsMargins(14, 10, 12, 10)
        self.setLayout(inside)
        self.hide()

    def show_offers(self, offers: Sequence[Install]) -> None:
        if offers == self._offers:
            return
        self._offers = offers
        clear(self._programs)
        self._boxes = [(offer, self._box(offer)) for offer in offers]
        for _, box in self._boxes:
            self._programs.addWidget(box)
        self.setVisible(bool(offers))

    def _box(self, offer: Install) -> QCheckBox:
        made = QCheckBox(f"{offer.program} · {offer.root}")
        made.setToolTip("\n".join(offer.folders))
        made.setChecked(True)
        made.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        made.toggled.connect(lambda _on: self.add.setEnabled(any(box.isChecked() for _, box in self._boxes)))
        return made

    def _accept(self) -> None:
        ticked = [offer for offer, box in self._boxes if box.isChecked()]
        self.accepted.emit(tuple(dict.fromkeys(folder for offer in ticked for folder in offer.folders)))


class ReadingLine(QWidget):
    """How many of the new files have been read."""

    def __init__(self) -> None:
        super().__init__()
        self.words = label("", "small", "secondary", numbers=True)
        self.meter = progress_bar(tr("Reading models…"))
        self.setLayout(column(self.words, self.meter, spacing=4))

    def show_progress(self, done: int, most: int) -> None:
        """most: 0 until it is known."""
        known = tr("Reading models: {0} of {1}", figures.group(done), figures.group(most))
        self.words.setText(known if most else tr("Reading models…"))
        self.meter.setRange(0, most)
        self.meter.setValue(done)


class TroubleCard(Card):
    """Why the list is not up to date. again: the user wants another try."""

    again = Signal()

    def __init__(self) -> None:
        super().__init__("warn")
        self.words = label("", "body", wrap=True)
        retry = button(tr("Try again"), clicked=self.again.emit)
        inside = row(IconLabel("triangle-alert", "warn", 18), self.words, retry, spacing=10, margins=(14, 10, 12, 10), stretch=1)
        self.setLayout(inside)

    def show_library(self, library: Library) -> None:
        """Hide where all is well."""
        if library.failed is not None:
            self.words.setText(sentences(tr("The list of models cannot be read."), say(library.failed)))
        elif library.watch_ended:
            self.words.setText(tr("The process that watches your folders ended twice, so new models do not appear."))
        self.setVisible(library.failed is not None or library.watch_ended)


class ListNotes(QWidget):
    """Takes no space while there is nothing to say. place_wanted: a kind with matches of the search."""

    place_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.offers = OffersCard()
        self.trouble = TroubleCard()
        self.reading = ReadingLine()
        self.invitation = Card("info")
        words = label(tr("Add a folder of models, or drop one here."), "body", wrap=True)
        self.add = button(tr("Add folder…"), "primary")
        icon = IconLabel("folder-plus", "accent-text", 18)
        self.invitation.setLayout(row(icon, words, self.add, spacing=10, margins=(14, 10, 12, 10), stretch=1))
        self._hits = FlowLayout(spacing=6)
        self.hits = boxed(self._hits)
        self._elsewhere: Mapping[str, int] = {}
        self.hits.hide()
        self._parts = (self.trouble, self.offers, self.invitation, self.reading, self.hits)
        self.setLayout(column(*self._parts, spacing=10, margins=(16, 12, 16, 0)))

    def show_library(self, library: Library, *, alone: bool) -> None:
        """alone: the user has no folder yet."""
        self.trouble.show_library(library)
        self.offers.show_offers(library.offers)
        self.invitation.setVisible(alone and not library.offers)
        progress = reading(library)
        self.reading.setVisible(progress is not None)
        if progress is not None:
            self.reading.show_progress(*progress)
        self._fit()

    def show_elsewhere(self, elsewhere: Mapping[str, int]) -> None:
        """Show how many matches of the search other kinds have."""
        if elsewhere != self._elsewhere:
            self._elsewhere = elsewhere
            clear(self._hits)
            for shelf in SHELVES:
                if count := elsewhere.get(shelf, 0):
                    words = tr("{2} matches in {1}", count, place_words(shelf), figures.group(count), one="1 match in {1}")
                    made = button(words, size="compact", clicked=partial(self.place_wanted.emit, shelf))
                    made.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
                    self._hits.addWidget(made)
            self.hits.setVisible(bool(elsewhere))
        self._fit()

    def _fit(self) -> None:
        self.setVisible(any(not part.isHidden() for part in self._parts))
