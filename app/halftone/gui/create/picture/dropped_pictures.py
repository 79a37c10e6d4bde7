"""Pictures that are dropped on Create or pasted: the user chooses what to take from them, and can take it back."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

from PySide6.QtCore import QEvent, QMimeData, QObject, QTimer, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QImage, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QWidget

from halftone.contract.errors import HalftoneError
from halftone.gui.controller import Controller
from halftone.gui.create.form.settings_from_pictures import settings_words
from halftone.gui.create.kept_pictures import keep
from halftone.gui.create.picture.drop_targets import DropTargets, Use
from halftone.gui.create.picture.import_strip import ImportStrip
from halftone.gui.create.rows.start_picture_fields import picture_in
from halftone.gui.i18n import tr
from halftone.gui.text import problem
from halftone.health.pictures.setting_names import SettingNames, setting_names
from halftone.library.tasks import takes_picture
from halftone.metadata.picture_settings import said_by
from halftone.metadata.start_images import picture_size
from halftone.session.events import Noted
from halftone.session.pictures.draft import Draft, masks, undone

_AWAY_MS: Final = 80
"""The pointer leaves the page when it goes over a target; only then has it left."""


class Glance(NamedTuple):
    """What a picture file holds: its size, None where it cannot be read, and its settings, None without any."""

    size: tuple[int, int] | None
    settings: SettingNames | None


def glance(path: str) -> Glance:
    """Look into a file, on another thread."""
    try:
        size = picture_size(path)
    except HalftoneError:
        return Glance(None, None)
    try:
        return Glance(size, setting_names(said_by(Path(path))))
    except HalftoneError:
        return Glance(size, None)


class Uses(NamedTuple):
    """What can be done with a picture file."""

    settings: Callable[[str], object]
    start: Callable[[str], object]
    inpaint: Callable[[str, tuple[int, int]], object]


class DroppedPictures(QObject):
    """Watches a page for pictures. What is dropped beside the targets fills the form, as long as it says how it was made."""

    def __init__(self, page: QWidget, controller: Controller, parts: tuple[QWidget, ImportStrip], uses: Uses) -> None:
        """parts: what the targets lie over, and the strip; uses: what is done with a picture."""
        super().__init__(page)
        self._controller, self._uses = controller, uses
        self._over, self.strip = parts
        self._before, self._after = controller.state.draft, controller.state.draft
        self._model = ""
        self._path, self._seen, self._turn = "", Glance(None, None), 0
        self._reading = False
        self._wanted: Use | Literal[""] = ""
        """What was chosen for a picture that is still being read or written."""
        self.targets = DropTargets(page)
        self.targets.chosen.connect(self._choose)
        self.targets.left.connect(self._leave)
        self.strip.undone.connect(self._undo)
        self._away = QTimer(self, singleShot=True, interval=_AWAY_MS)
        self._away.timeout.connect(self._leave)
        self._page = page
        page.setAcceptDrops(True)
        page.installEventFilter(self)
        for card in self.targets.cards.values():
            card.over.connect(lambda on: self._away.stop() if on else self._away.start())

    def watch_paste(self, *fields: QWidget) -> None:
        """Offer a picture that is pasted into these too."""
        for field in fields:
            field.installEventFilter(self)

    def offer_file(self, path: str) -> None:
        """Ask what to do with a picture, as if it were pasted."""
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(path)])
        self._offer(data, pasted=True)

    # --- what comes -------------------------------------------------------------------------------------------------

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent):
            pasted = event.type() == QEvent.Type.KeyPress and event.matches(QKeySequence.StandardKey.Paste)
            return pasted and self._offer(QGuiApplication.clipboard().mimeData(), pasted=True)
        if watched is not self._page:
            return super().eventFilter(watched, event)
        if isinstance(event, QDropEvent) and _is_picture(event.mimeData()):
            event.acceptProposedAction()
            if isinstance(event, QDragEnterEvent):
                again = self._away.isActive()
                self._away.stop()
                if not again:  # from a target back to the page
                    self._offer(event.mimeData(), pasted=False)
            elif event.type() == QEvent.Type.Drop:
                self._choose("settings")
            return True
        if isinstance(event, QDropEvent) and _is_web_address(event.mimeData()):
            event.acceptProposedAction()
            if event.type() == QEvent.Type.Drop:
                self._controller.take(Noted(kind="web-picture"))
            return True
        if event.type() == QEvent.Type.DragLeave:
            self._away.start()
        return super().eventFilter(watched, event)

    def _offer(self, data: QMimeData, *, pasted: bool) -> bool:
        """Show the targets. False for what is no picture, or is also a text to paste."""
        if not _is_picture(data) or (pasted and data.hasText() and not picture_in(data)):
            return False
        path = picture_in(data)
        self._turn += 1
        self._wanted = ""
        if path:
            self._look(path)
        else:
            image = QImage(data.imageData())
            self._path, self._seen, self._reading = "", Glance((image.width(), image.height()), None), False
            self._controller.background.run(partial(keep, image), partial(self._kept, self._turn), self._not_kept, receiver=self)
        self._show(reading=bool(path))
        corner = self._over.mapTo(self._page, self._over.rect().topLeft())
        self.targets.setGeometry(corner.x(), corner.y(), self._over.width(), self._over.height())
        self.targets.offer(Path(path).name or tr("Picture"), pasted=pasted)
        return True

    def _kept(self, turn: int, path: str) -> None:
        if turn == self._turn:
            self._path = path
            if self._wanted:
                self._choose(self._wanted)

    def _not_kept(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error
        self._leave()
        self._controller.take(Noted(kind="not-written", facts=(problem(error),)))

    def _look(self, path: str) -> None:
        self._path, self._seen, self._reading = path, Glance(None, None), True
        self._controller.background.run(partial(glance, path), partial(self._looked, self._turn), receiver=self)

    def _looked(self, turn: int, seen: Glance) -> None:
        if turn != self._turn:
            return
        self._seen, self._reading = seen, False
        self._show(reading=False)
        if self._wanted and self.targets.can(self._wanted):
            self._choose(self._wanted)
        elif self._wanted:  # its card says why it cannot be used
            self.targets.offer(Path(self._path).name, pasted=True)

    def _show(self, *, reading: bool) -> None:
        """Tell what each target would take, as far as it is known."""
        model, (size, found) = self._controller.model, self._seen
        cards = self.targets.cards
        cards["inpaint"].setVisible(masks(model))
        if reading:
            for card in cards.values():
                card.say(tr("Reading…"))
            return
        cards["settings"].say(
            settings_words(found) if found else tr("This picture contains no settings."), usable=found is not None
        )
        taken = "" if size is None else f"{size[0]} × {size[1]}"
        usable = size is not None and (model is None or takes_picture(model.pipeline))
        refusal = tr("This is not a readable picture.") if size is None else tr("Not supported by this model.")
        cards["start"].say(taken if usable else refusal, usable=usable)
        cards["inpaint"].say(tr("Paint the area to regenerate.") if usable else refusal, usable=usable)

    # --- what is taken ----------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        self._away.stop()
        self.targets.hide()

    def _choose(self, use: Use) -> None:
        self._leave()
        path, size = self._path, self._seen.size
        if not path or (self._reading and use != "settings"):
            self._wanted = use
        elif use == "settings":
            self._uses.settings(path)
        elif use == "start":
            self.begin()
            self._uses.start(path)
            self.finish(tr("Image to image: {0}.", Path(path).name))
        elif size is not None:
            self.begin()
            self._uses.inpaint(path, size)
            self.finish(tr("Inpaint: {0}.", Path(path).name))

    # --- taking it back ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Remember the draft before something is taken."""
        self._before, self._model = self._controller.state.draft, self._controller.settings.last_model

    def finish(self, words: str, whole: bool = True) -> None:
        """Say what was imported. whole: all of it was found here."""
        self._after = self._controller.state.draft
        self.strip.say(words, whole=whole)

    def _undo(self) -> None:
        """Restore the draft from before, but for what was changed since; the model too."""
        controller = self._controller
        draft: Draft = undone(self._before, self._after, controller.state.draft)
        controller.session.drafting.put(draft)
        if self._model != controller.settings.last_model and any(one.id == self._model for one in controller.models):
            controller.session.models.select(self._model)


def _is_picture(data: QMimeData) -> bool:
    return bool(picture_in(data)) or data.hasImage()


def _is_web_address(data: QMimeData) -> bool:
    return any(url.scheme() in ("http", "https") for url in data.urls())
