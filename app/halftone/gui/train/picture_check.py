"""The centre of Train before the start: what is in the folder of pictures, and what is wrong with some of them."""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QTreeWidget, QTreeWidgetItem, QWidget

from halftone.contract.training import TrainConfig, TrainPicture
from halftone.gui.i18n import catalogue, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import Card, ElidedLabel, IconLabel, button, column, label, row, set_tone
from halftone.gui.text import error_remedy, error_sentence
from halftone.health.training.training_sentences import picture_words
from halftone.session.state import Preparation

_LINE = 26
"""Pixels of a line of the list."""
_BESIDE, _WIDEST = 56, 420
"""Pixels of a name's column beside the name, and at most; longer names are cut."""


def found_words(pictures: Sequence[TrainPicture]) -> str:
    """How many pictures there are, and whether they have captions."""
    count, captioned = len(pictures), sum(1 for picture in pictures if picture.caption)
    if captioned == count:
        return tr("{0}, all captioned", count)
    return tr("{0}, no captions", count) if not captioned else tr("{0}, {1} captioned", count, captioned)


def used(pictures: Sequence[TrainPicture], left_out: Sequence[str]) -> tuple[TrainPicture, ...]:
    """Those that will be trained on."""
    return tuple(picture for picture in pictures if not picture.problem and picture.name not in left_out)


class CheckView(QWidget):
    """`left_out` carries the excluded names; `again` asks to read the folder again."""

    left_out = Signal(object)
    again = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[TrainPicture, ...] | None = None
        self._icon = IconLabel("loader-circle", "text-secondary", 18)
        self.title = label("", "heading-s", wrap=True, numbers=True)
        self.folder = ElidedLabel("", "small", "muted")
        self._again = button(tr("Read again"), "link", clicked=self.again.emit)
        self.words = label("", "body", "secondary", wrap=True)
        self.list = QTreeWidget()
        self.list.setColumnCount(2)
        self.list.setHeaderHidden(True)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setAccessibleName(tr("Pictures to review"))
        self.list.itemChanged.connect(self._changed)
        head = row(self._icon, self.title, self._again, spacing=10, stretch=1)
        frame = Card(layout=column(head, self.folder, self.words, self.list, spacing=6, margins=(16, 14, 16, 14)))
        layout = column(frame, margins=(16, 14, 16, 14))
        layout.addStretch(1)
        self.setLayout(layout)

    def show_check(self, check: Preparation, config: TrainConfig) -> None:
        """What is known of the folder."""
        folder, left_out = config.pictures, config.left_out
        self.folder.set_text(folder)
        self._again.setVisible(not check.busy)
        if check.error is not None:
            self._tell("octagon-alert", "danger", error_sentence(check.error), error_remedy(check.error))
        elif check.pictures is None:
            self._tell("loader-circle", "text-secondary", tr("Checking pictures…"), "")
        else:
            self._tell_found(check.pictures, config)
        self._fill(check.pictures or (), left_out)

    def _tell_found(self, pictures: Sequence[TrainPicture], config: TrainConfig) -> None:
        count = len(used(pictures, config.left_out))
        title = tr("Pictures: {0}", found_words(pictures))
        if not count:
            self._tell("octagon-alert", "danger", title, tr("No usable pictures."))
            return
        odd = [picture for picture in pictures if picture_words(picture) is not None]
        words = tr("{0} pictures used.", count, one="1 picture used.")
        often = max(1, round(config.steps * config.batch * config.accumulate / count))
        words = sentences(words, tr("About {0} times each.", figures.group(often)))
        if not odd:
            words = sentences(words, tr("All readable and captioned."))
        else:
            words = sentences(words, tr("These may not help. Untick a picture to leave it out."))
        icon, token = ("circle-check", "ok") if not odd else ("triangle-alert", "warn")
        self._tell(icon, token, title, words)

    def _tell(self, icon: str, token: str, title: str, words: str) -> None:
        self._icon.set(icon, token)
        self.title.setText(title)
        self.words.setText(words)
        self.words.setVisible(bool(words))
        set_tone(self.words, "secondary")

    def _fill(self, pictures: Sequence[TrainPicture], left_out: Sequence[str]) -> None:
        odd = tuple(picture for picture in pictures if picture_words(picture) is not None)
        self.list.setVisible(bool(odd))
        if odd == self._shown:
            return
        self._shown = odd
        self.list.blockSignals(True)
        self.list.clear()
        for picture in odd:
            self.list.addTopLevelItem(_item(picture, out=picture.name in left_out))
        widest = max((self.list.fontMetrics().horizontalAdvance(picture.name) for picture in odd), default=0)
        self.list.setColumnWidth(0, min(_WIDEST, widest + _BESIDE))
        self.list.blockSignals(False)
        self.list.setFixedHeight(min(420, 4 + _LINE * max(1, len(odd))))

    def _changed(self, _item: QTreeWidgetItem, _column: int) -> None:
        items = filter(None, (self.list.topLevelItem(place) for place in range(self.list.topLevelItemCount())))
        out = [item for item in items if item.checkState(0) == Qt.CheckState.Unchecked]
        self.left_out.emit([item.text(0) for item in out if item.flags() & Qt.ItemFlag.ItemIsEnabled])


def _item(picture: TrainPicture, *, out: bool) -> QTreeWidgetItem:
    """A line, ticked if the picture is trained on; one that cannot be used cannot be ticked."""
    words = picture_words(picture)
    made = QTreeWidgetItem([picture.name, words.text(catalogue()) if words else ""])
    made.setSizeHint(1, QSize(0, _LINE))
    flags = Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsSelectable
    made.setFlags(flags if picture.problem else flags | Qt.ItemFlag.ItemIsEnabled)
    made.setCheckState(0, Qt.CheckState.Unchecked if out or picture.problem else Qt.CheckState.Checked)
    made.setToolTip(0, picture.caption)
    return made
