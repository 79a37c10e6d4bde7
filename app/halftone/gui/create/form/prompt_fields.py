"""The prompts of the Create form, how much of the model's reading length they use, and what is said of them."""

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from halftone.gui.background import Background
from halftone.gui.create.form.embeddings_line import TakenNote, WordsNote
from halftone.gui.create.form.form_parts import PromptEdit
from halftone.gui.create.form.token_counter import PromptCounter
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import column, label, row
from halftone.settings.places import resources

_HIGH, _LOW, _NEGATIVE = 104, 66, 38


def examples() -> tuple[str, ...]:
    """The prompts that the demo model is good at."""
    return tuple(msgspec.json.decode((resources() / "pocket" / "examples.json").read_bytes(), type=list[str]))


class PromptsPart(QWidget):
    """`words_note`: the embeddings that they name; `taken`: what became of settings that were dropped or pasted."""

    def __init__(self, background: Background) -> None:
        super().__init__()
        self.prompt = PromptEdit(tr("Prompt"), "", tr("For example: {0}", examples()[0]))
        self.counter = PromptCounter(background)
        leave_out = tr("Has no effect at guidance 1.")
        self.negative = PromptEdit(tr("Negative prompt"), leave_out, tr("What to leave out"))
        self.negative.setFixedHeight(_NEGATIVE)
        self.negative.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.words_note, self.taken = WordsNote(), TakenNote()
        self.setLayout(
            column(
                row(label(tr("Prompt"), "small", "secondary"), -1, self.counter),
                self.prompt,
                2,
                label(tr("Negative prompt"), "small", "secondary"),
                self.negative,
                self.words_note,
                self.taken,
                spacing=6,
                margins=(14, 10, 14, 12),
            )
        )
        self.set_low(False)

    def set_low(self, low: bool) -> None:
        """In a low window the prompt is 66 high."""
        self.prompt.setFixedHeight(_LOW if low else _HIGH)
        self.prompt.set_tight(low)
