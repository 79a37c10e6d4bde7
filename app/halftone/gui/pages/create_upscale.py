"""Making a finished picture larger: which upscale model, asked where the wish was told."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtWidgets import QAbstractButton, QMenu, QWidget

from halftone.contract.request import UpscaleRequest
from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.gui.pages.create_choosing import add_choosing, add_known
from halftone.gui.pages.create_history import Made


class UpscaleMenu(QObject):
    """follow: called when a picture was asked for."""

    def __init__(self, page: QWidget, controller: Controller, follow: Callable[[], None]) -> None:
        super().__init__(page)
        self._page = page
        self._controller = controller
        self._follow = follow

    def offer(self, made: Made, *, below: QAbstractButton | None = None, at: QPoint | None = None) -> None:
        """Let the user choose a model for this picture, in a menu under a button or at a place of the screen."""
        if not made.is_file or made.facts.frames > 1:
            return
        place = at if below is None else below.mapToGlobal(QPoint(0, below.height() + 2))
        self._controller.look_for_upscalers(partial(self._open, made.facts.path, place or QPoint()))

    def _open(self, picture: str, place: QPoint, known: dict[str, str]) -> None:
        menu = QMenu(self._page)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        chosen = partial(self.start, picture)
        add_known(menu, known, chosen)
        add_choosing(menu, tr("Choose an upscale model"), tr("Upscale models"), chosen, folders=False)
        menu.popup(place)

    def start(self, picture: str, upscaler: str) -> None:
        """Queue it; whether the file is an upscale model is told by the job."""
        controller = self._controller
        device, precision = controller.settings.device, controller.numerics.precision
        request = UpscaleRequest(pictures=(picture,), upscaler=upscaler, device=device, precision=precision)
        self._follow()
        controller.upscale(request, Path(picture).name)
