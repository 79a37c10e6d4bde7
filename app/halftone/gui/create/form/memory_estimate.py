"""The memory of the next picture: shown in the foot of the form, and asked about once where it does not fit."""

from collections.abc import Callable
from typing import Final

from PySide6.QtWidgets import QMessageBox, QWidget

from halftone.gui.create.form.time_estimate import size_words
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit import figures
from halftone.health.forecasts.memory_forecast import Fit
from halftone.health.forecasts.picture_memory import Forecast
from halftone.session.pictures.memory_estimate import Shortage

MARKS: Final[dict[Fit, tuple[str, str]]] = {
    "fits": ("circle-check", "ok"),
    "tight": ("triangle-alert", "warn"),
    "no": ("octagon-alert", "danger"),
}
"""Icon and tone."""


def fit_word(fit: Fit) -> str:
    return {"fits": tr("Fits"), "tight": tr("Tight"), "no": tr("Does not fit")}[fit]


def peak_words(found: Forecast) -> str:
    """How much, where the figure comes from, and what is there."""
    peak = figures.size(found.peak)
    if found.pictures:
        source = tr(
            "Peak memory {1}, measured on {0} similar pictures.",
            found.pictures,
            peak,
            one="Peak memory {1}, measured on a similar picture.",
        )
    else:
        source = tr("Peak memory about {0}, estimated.", peak)
    free = "" if found.free is None else tr("{0} free.", figures.size(found.free))
    return sentences(source, free, _tiles_words(found))


def _tiles_words(found: Forecast) -> str:
    """What does not fit is not decoded at all."""
    if not found.way.tiled:
        return ""
    return tr("Not enough even with tiled decoding.") if found.fit == "no" else tr("Decoded in tiles.")


def shortage_words(short: Shortage | None) -> str:
    """What is missing; "" for nothing."""
    if short is None:
        return ""
    least = tr(
        "{0} needs about {1} of memory; {2} is free.",
        size_words(short.shape),
        figures.size(short.needed),
        figures.size(short.free),
    )
    return sentences(least, tr("Largest that fits: {0}.", size_words(short.largest)) if short.largest else "")


def ask(parent: QWidget, words: str, go_on: Callable[[], object]) -> None:
    """Ask whether to try it all the same; nothing waits for the answer."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Warning)
    box.setText(words)
    box.setInformativeText(
        sentences(
            tr("The system may slow down or close programs."),
            tr("Use a smaller size or half precision."),
        )
    )
    yes = box.addButton(tr("Try anyway"), QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(tr("Cancel"), QMessageBox.ButtonRole.RejectRole))
    yes.clicked.connect(go_on)
    box.finished.connect(box.deleteLater)
    box.open()
