"""The memory of the training in the form: whether it fits, and the one setting that would save most."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from halftone.gui.create.form.memory_estimate import MARKS, fit_word
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import IconLabel, button, column, label, row
from halftone.gui.text import TYPE_NAMES
from halftone.health.training.training_memory import Saving, TrainingForecast


class MemoryLine(QWidget):
    """`wanted` carries the field of TrainConfig and the value that would save memory."""

    wanted = Signal(str, object)

    def __init__(self) -> None:
        super().__init__()
        self._shown: TrainingForecast | None = None
        self._icon = IconLabel("circle-check", "ok", 14)
        self.words = label("", "small", "secondary", numbers=True)
        self.saving = button("", "link", clicked=self._want)
        first = row(self._icon, self.words, spacing=6, stretch=1)
        self.setLayout(column(first, row(self.saving, -1), spacing=2))
        self.hide()

    def show_forecast(self, found: TrainingForecast | None) -> None:
        """None: nothing is known."""
        self.setVisible(found is not None)
        if found is None or found == self._shown:
            return
        self._shown = found
        size = figures.size(found.room.peak)
        icon, tone = MARKS[found.fit] if found.fit is not None else ("info", "text-muted")
        self._icon.set(icon, tone)
        self.words.setText(
            listed(fit_word(found.fit), tr("about {0}", size)) if found.fit is not None else tr("About {0} of memory", size)
        )
        for part in (self, self.words):
            part.setToolTip(memory_words(found))
        self.setAccessibleName(f"{self.words.text()}. {memory_words(found)}")
        self._show_saving(found.saving)

    def _show_saving(self, saving: Saving | None) -> None:
        self.saving.setVisible(saving is not None)
        if saving is None:
            return
        self.saving.setText(saving_words(saving))
        enough = "" if saving.fit != "no" else tr("Not enough on its own.")
        self.saving.setToolTip(sentences(tr("Saves the most memory."), enough))

    def _want(self) -> None:
        if self._shown is not None and (saving := self._shown.saving) is not None:
            self.wanted.emit(saving.change, saving.value)


def memory_words(found: TrainingForecast) -> str:
    """How much, of what, and what is there."""
    room = found.room
    peak = tr("Peak memory about {0}, estimated.", figures.size(room.peak))
    if room.loading > room.base + room.lora + room.activations:
        parts = [tr("loading all networks {0}", figures.size(room.loading))]
    else:
        named = (tr("base model {0}"), room.base), (tr("LoRA {0}"), room.lora), (tr("one step {0}"), room.activations)
        parts = [words.format(figures.size(part)) for words, part in named]
    if room.process:
        parts.append(tr("Halftone itself {0}", figures.size(room.process)))
    free = "" if found.free is None else tr("{0} free.", figures.size(found.free))
    return sentences(peak, tr("Of these: {0}.", listed(*parts)), free)


def saving_words(saving: Saving) -> str:
    """The setting and what is needed with it."""
    change = {
        "checkpointing": tr("Save memory"),
        "batch": f"{tr('Batch size')} {saving.value}",
        "size": f"{tr('Size')} {saving.value}",
        "precision": TYPE_NAMES.get(str(saving.value), ""),
    }[saving.change]
    return tr("{0}: {1}", change, tr("about {0}", figures.size(saving.peak)))


def shortage_words(found: TrainingForecast | None) -> str:
    """What is missing; "" where it fits, or where that is not known."""
    if found is None or found.fit != "no" or found.free is None:
        return ""
    needed, free = figures.size(found.room.peak), figures.size(found.free)
    return tr("{0} needs about {1} of memory; {2} is free.", tr("Training"), needed, free)
