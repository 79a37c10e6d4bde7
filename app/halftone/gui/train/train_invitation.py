"""The centre of Train before the first training: an invitation."""

from PySide6.QtCore import Qt, Signal

from halftone.gui.i18n import tr
from halftone.gui.kit.dots import DotField
from halftone.gui.kit.stock_widgets import boxed, button, centred, column, label
from halftone.gui.shell.topbar import MarkLabel


class EmptyTrain(DotField):
    """`choose`: the user wants to choose pictures."""

    choose = Signal()

    def __init__(self) -> None:
        super().__init__()
        title = label(tr("Teach a model your style"), "heading-l", wrap=True)
        title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        words = label(
            tr("A LoRA from 10 to 100 pictures."),
            "body",
            "secondary",
            wrap=True,
        )
        words.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        for made in (title, words):
            made.setFixedWidth(440)
            made.setMinimumHeight(made.heightForWidth(440))
        self.button = button(tr("Choose pictures…"), "primary", "folder-open", size="hero", clicked=self.choose.emit)
        drop = label(tr("Or drop a folder here."), "small", "muted")
        lines = column(-1, MarkLabel(40), 12, title, words, 12, self.button, drop, -1, spacing=8, margins=(20, 20, 20, 20))
        content = boxed(centred(lines))
        self.setLayout(column(content))
