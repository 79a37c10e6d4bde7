"""The memory of the next picture: told in the foot of the form, and asked about once where it does not fit."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType
from halftone.gui.controller import Controller
from halftone.gui.create.form.time_estimate import size_words
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit import figures
from halftone.health.forecasts.memory_forecast import Fit
from halftone.health.forecasts.picture_memory import Forecast, Made, Next, forecast
from halftone.library.families.networks import Network, files_in, known_networks
from halftone.session.picture_time import Shape

_Key = tuple[str, str, tuple[tuple[str, ...], ...]]
MARKS: Final[dict[Fit, tuple[str, str]]] = {
    "fits": ("circle-check", "ok"),
    "tight": ("triangle-alert", "warn"),
    "no": ("octagon-alert", "danger"),
}
"""Icon and tone."""


class Room(QObject):
    """Reads off the UI thread what the chosen networks need; `known` when that is done."""

    known = Signal()

    def __init__(self, controller: Controller, parent: QObject) -> None:
        super().__init__(parent)
        self._controller = controller
        self._key: _Key | None = None
        self._networks: tuple[Network, ...] = ()

    def forecast(self, request: PictureRequest, dtype: DType, made: Iterable[Made]) -> Forecast | None:
        """Of the next picture; None where nothing is known of its model or its device."""
        model, state = self._controller.model, self._controller.state
        if model is None or state.device is None:
            return None
        self._follow(request)
        return forecast(self._networks, Next(request, model, dtype, state.device.backend), state.memory, made)

    def _follow(self, request: PictureRequest) -> None:
        model = self._controller.model
        assert model is not None
        key = model.id, model.fingerprint, files_in(request.extras, model)
        if key == self._key:
            return
        self._key, self._networks = key, ()
        read = partial(known_networks, model, request.extras)
        self._controller.background.run(read, partial(self._read, key), receiver=self)

    def _read(self, key: _Key, networks: tuple[Network, ...]) -> None:
        if key == self._key:
            self._networks = networks
            self.known.emit()


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


def shortage(shape: Shape, found: Forecast | None) -> str:
    """What is missing; "" where the picture fits, or where that is not known."""
    if found is None or found.fit != "no" or found.free is None:
        return ""
    least = tr(
        "{0} needs about {1} of memory; {2} is free.",
        size_words(shape),
        figures.size(found.peak),
        figures.size(found.free),
    )
    if found.largest is None:
        return least
    return sentences(least, tr("Largest that fits: {0}.", size_words(Shape(*found.largest, shape.steps))))


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
