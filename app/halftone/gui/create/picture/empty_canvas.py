"""The canvas before the first picture: a dot field, a line of help and four examples; a click on one starts it."""

from collections.abc import Sequence
from functools import cache

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QGridLayout, QSizePolicy

from halftone.gui.i18n import language, tr
from halftone.gui.kit.dots import DotField
from halftone.gui.kit.painting import END, LEFT, plate, write
from halftone.gui.kit.stock_widgets import HoverButton, boxed, button, centred, column, label, row
from halftone.gui.shell.topbar import MarkLabel
from halftone.gui.views.thumbnails import paint_thumbnail
from halftone.settings.places import resources

_CARD = QSize(254, 58)


class ExampleCard(HoverButton):
    """One example prompt with the picture it gave. In another language than the prompt's, what it says stands above it."""

    def __init__(self, prompt: str, image: QImage) -> None:
        super().__init__()
        self.prompt = prompt
        self._image = image
        said = tr(prompt)
        self.caption = said if said != prompt else ""
        self.setFixedSize(_CARD)
        self.setAccessibleName(said)
        self.setToolTip("\n".join(filter(None, (tr("Make this picture"), prompt if self.caption else ""))))

    def draw(self, painter: QPainter) -> None:
        ground, edge = ("hover", "border-control") if self.hovered else ("surface-raised", "border-strong")
        plate(painter, QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 5, ground, edge)
        paint_thumbnail(painter, QRectF(9, (self.height() - 38) / 2, 38, 38), self._image)
        words = QRectF(57, 4, self.width() - 66, self.height() - 8)
        if not self.caption:
            flags = LEFT | int(Qt.TextFlag.TextWordWrap)
            write(painter, words, self.prompt[:1].upper() + self.prompt[1:], "body", "text-secondary", flags)
            return
        middle = words.center().y()
        upper = QRectF(words.left(), middle - 20, words.width(), 20)
        write(painter, upper, self.caption, "body", "text-secondary", cut=END)
        lower = QRectF(words.left(), middle + 1, words.width(), 18)
        write(painter, lower, self.prompt, "caption", "text-muted", cut=END)


@cache
def example_image(index: int) -> QImage:
    """The bundled picture of an example, a null image if there is none."""
    file = resources() / "pocket" / "examples" / f"{index + 1}.png"
    return QImage(str(file)) if file.is_file() else QImage()


class EmptyCanvas(DotField):
    """Emits the prompt of an example, or that the user wants to add models."""

    example_chosen = Signal(str)
    models_wanted = Signal()

    def __init__(self, prompts: Sequence[str]) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        title = label(tr("Describe your first picture"), "heading-l")
        words = label(tr("Type a prompt, or pick an example:"), "body", "secondary", wrap=True)
        words.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        words.setFixedWidth(440)
        words.setMinimumHeight(words.heightForWidth(440))
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(10)
        self.cards = [ExampleCard(prompt, example_image(index)) for index, prompt in enumerate(prompts[:4])]
        for card in self.cards:
            card.clicked.connect(lambda _on=False, prompt=card.prompt: self.example_chosen.emit(prompt))
        link = button(tr("add your own models"), "link", clicked=self.models_wanted.emit)
        foot = row(-1, label(tr("Pocket is a small demo. For better pictures,"), "small", "muted"), link, -1, spacing=2)
        self.english_only = label(tr("The demo model understands English only."), "small", "muted")
        words_above = (-1, MarkLabel(40), 12, title, words, 12)
        lines = column(*words_above, boxed(self._grid), self.english_only, 12, foot, -1, margins=(20, 20, 20, 20))
        self._content = boxed(centred(lines))
        self.english_only.setVisible(language() != "en")  # only now: without a parent it would open as a window
        self.setLayout(column(self._content))
        self._columns = 0
        self._arrange(2)

    def set_working(self, on: bool) -> None:
        """Show only the dots while the first picture is made."""
        self._content.setVisible(not on)

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for index, card in enumerate(self.cards):
            self._grid.addWidget(card, index // columns, index % columns)

    def resizeEvent(self, event: object) -> None:
        self._arrange(2 if self.width() >= 2 * _CARD.width() + 60 else 1)
