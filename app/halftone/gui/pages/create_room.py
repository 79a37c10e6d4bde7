"""A size that needs more memory than there is: told, and asked about once before it is made."""

from collections.abc import Callable

from PySide6.QtWidgets import QMessageBox, QWidget

from halftone.contract.facts import MemoryFacts
from halftone.contract.words import DType
from halftone.gui.i18n import sentences, tr
from halftone.gui.pages.create_estimate import Shape, size_words
from halftone.gui.widgets import figures
from halftone.library.decoder import least_bytes


def shortage(shape: Shape, channels: int | None, dtype: DType, memory: MemoryFacts | None) -> str:
    """What is missing, by a lower bound; "" where the picture may fit. channels: of the decoder, None where not known."""
    if memory is None:
        return ""
    least, free = least_bytes(shape.width, shape.height, channels, dtype), max(0, memory.total - memory.others)
    if least <= free:
        return ""
    return tr(
        "{0} needs at least {1} of memory, and only {2} are free.", size_words(shape), figures.size(least), figures.size(free)
    )


def ask(parent: QWidget, words: str, go_on: Callable[[], object]) -> None:
    """Ask whether to try it all the same; nothing waits for the answer."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Warning)
    box.setText(words)
    box.setInformativeText(
        sentences(
            tr("The system may become very slow and end Halftone's worker, or another program."),
            tr("A smaller size, FP16 or BF16 needs less."),
        )
    )
    yes = box.addButton(tr("Try it all the same"), QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(tr("Cancel"), QMessageBox.ButtonRole.RejectRole))
    yes.clicked.connect(go_on)
    box.finished.connect(box.deleteLater)
    box.open()
