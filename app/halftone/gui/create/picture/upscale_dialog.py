"""The choice of an upscale model for a finished picture."""

from collections.abc import Callable
from functools import partial

import shiboken6
from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QMenu, QWidget

from halftone.gui.controller import Controller
from halftone.gui.create.form.file_choosers import Chosen, add_choosing, add_known
from halftone.gui.i18n import tr
from halftone.gui.models.picker import pick
from halftone.session.pictures.history import Made


class UpscaleMenu(QObject):
    """follow: called when a picture was asked for."""

    def __init__(self, page: QWidget, controller: Controller, follow: Callable[[], None]) -> None:
        super().__init__(page)
        self._page = page
        self._controller = controller
        self._follow = follow
        self._known: dict[str, str] | None = None

    def offer(self, made: Made, *, below: QAbstractButton | None = None, at: QPoint | None = None) -> None:
        """Let the user choose a model for this picture, in a menu under a button or at a place of the screen."""
        if made.is_file and made.facts.frames == 1:
            self.offer_for(made.facts.path, below=below, at=at)

    def offer_for(self, path: str, *, below: QAbstractButton | None = None, at: QPoint | None = None) -> None:
        """The same for a file. The folders may hold hundreds of models: those known from the last look are offered at once, the
        others when they are found.
        """
        menu = QMenu(self._page)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        chosen = partial(self.start, path)
        anchor = below or self._page
        self._fill(menu, anchor, chosen)
        place = at if below is None else below.mapToGlobal(QPoint(0, below.height() + 2))
        menu.popup(place or QPoint())
        self._controller.session.files.upscalers(partial(self._found, menu, anchor, chosen))

    def _found(self, menu: QMenu, anchor: QWidget, chosen: Chosen, known: dict[str, str]) -> None:
        if known == self._known:
            return
        self._known = known
        if shiboken6.isValid(menu):
            menu.clear()
            self._fill(menu, anchor, chosen)

    def _fill(self, menu: QMenu, anchor: QWidget, chosen: Chosen) -> None:
        """anchor: where the library opens."""
        if self._known is None:
            menu.addAction(tr("Looking for upscale models…")).setEnabled(False)
        add_known(menu, self._known or {}, chosen)
        add_choosing(menu, tr("Choose an upscale model"), tr("Upscale models"), chosen, folders=False)
        library = QAction(tr("Choose from your models"), menu)
        library.triggered.connect(lambda _on=False: pick(anchor, self._controller, "upscaler", chosen))
        menu.insertAction(menu.actions()[-1], library)

    def start(self, picture: str, upscaler: str) -> None:
        """Queue it; the job finds out whether the file is an upscale model."""
        self._follow()
        self._controller.session.queue.upscale(picture, upscaler)
