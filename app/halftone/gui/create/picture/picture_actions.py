"""What there is to do with a picture: from the row above the canvas, and from the menu of one in the history."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QMenu, QWidget

from halftone.gui.controller import Controller
from halftone.gui.create.form.request_form import CreateForm
from halftone.gui.create.history_panel import HistoryPanel
from halftone.gui.create.picture import picture_files
from halftone.gui.create.picture.picture_centre import Centre
from halftone.gui.create.picture.picture_images import read_later
from halftone.gui.create.picture.upscale_dialog import UpscaleMenu
from halftone.gui.i18n import tr
from halftone.gui.kit.actions import add_entry
from halftone.library.prompts.drawn_prompts import variations
from halftone.session.events import Noted
from halftone.session.pictures.draft import inpainting, masks
from halftone.session.pictures.history import Made


class PictureActs(QObject):
    """Actions on the shown picture, or on one of the history."""

    def __init__(
        self,
        page: QWidget,
        controller: Controller,
        parts: tuple[CreateForm, Centre, HistoryPanel],
        reuse: Callable[[Made], None],
        show_form: Callable[[], None],
    ) -> None:
        """reuse: fills the form with the settings of a picture; show_form: makes the form visible."""
        super().__init__(page)
        self._page, self._controller = page, controller
        self._form, self._centre, self._history = parts
        self._reuse, self._show_form = reuse, show_form
        self.upscaling = UpscaleMenu(page, controller, self._follow)

    def _follow(self) -> None:
        """What is made next is shown as soon as it is there."""
        self._centre.following = True

    def from_toolbar(self, key: str) -> None:
        match key:
            case "fit":
                self._centre.canvas.fit()
            case "vary" if self._centre.shown is not None:
                self.vary(self._centre.shown)
            case "upscale" if self._centre.shown is not None:
                self.upscaling.offer(self._centre.shown, below=self._centre.toolbar.upscale)
            case "start" if self._centre.shown is not None:
                self.start_from(self._centre.shown)
            case "inpaint" if self._centre.shown is not None:
                self.inpaint(self._centre.shown)
            case "save":
                self.save_as()
            case "copy":
                self._copy(self._centre.canvas.image())
            case "show":
                if self._centre.shown is not None:
                    picture_files.show_folder(self._centre.shown.facts.path)
            case _:
                self.delete()

    def open_menu(self, path: str, at: QPoint) -> None:
        """What there is to do with one picture of the history: with that one, whatever is shown when it is chosen."""
        made = self._controller.state.history.known.get(path)
        if made is None:
            return
        self._centre.pick(made)
        background = self._controller.background
        menu = QMenu(self._page)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        add_entry(menu, "open", lambda: picture_files.open_file(path))
        add_entry(menu, "show", lambda: picture_files.show_folder(path))
        add_entry(menu, "copy", lambda: read_later(background, self, path, self._copy))  # the canvas may not have it yet
        add_entry(menu, "reuse", lambda: self._reuse(made))
        if made.facts.upscaled is None and made.facts.sheet is None:
            menu.addAction(tr("Repeat"), lambda: self._repeat(made))
        if made.facts.sheet is None:  # its request is that of its first picture
            add_entry(menu, "vary", lambda: self.vary(made))
        add_entry(menu, "start", lambda: self.start_from(made))
        if made.facts.frames == 1:
            add_entry(menu, "inpaint", lambda: self.inpaint(made), enabled=masks(self._controller.model))
            add_entry(menu, "upscale", lambda: self.upscaling.offer(made, at=at))
        add_entry(menu, "save", lambda: self._save(made))
        add_entry(menu, "delete", lambda: self._move_to_bin(made))
        menu.popup(at)

    def _copy(self, image: QImage) -> None:
        QGuiApplication.clipboard().setImage(image)
        self._controller.take(Noted(kind="copied"))

    def start_from(self, made: Made) -> None:
        """Send a picture to image to image; an unsaved one cannot be used, nor a video."""
        self._show_form()
        if made.facts.frames > 1:
            self._form.taken.say(tr("{0} is a video. Use a picture, such as a saved frame.", Path(made.facts.path).name))
        elif made.is_file:
            self._form.start_part.use(made.facts.path)

    def inpaint(self, made: Made) -> None:
        """Paint on a picture, on the canvas itself; the next picture is made from it."""
        if made.is_file:
            self.inpaint_file(made.facts.path, (made.facts.width, made.facts.height), made.request.prompt)

    def inpaint_file(self, path: str, size: tuple[int, int], prompt: str = "") -> None:
        """Paint on a picture file. prompt: for a form without one."""
        self._show_form()
        self._controller.session.drafting.put(inpainting(self._controller.state.draft, path, size, prompt))
        self._centre.editor.open_editor()

    def _repeat(self, made: Made) -> None:
        """Queue what makes the picture again, with its seed."""
        self._follow()
        self._controller.session.queue.generate(made.request)

    def vary(self, made: Made) -> None:
        """Make variations of a picture, and show them as they are made."""
        self._follow()
        self._controller.session.queue.generate(variations(made.request, made.facts))

    def save_as(self) -> None:
        """Copy the shown picture, with its settings inside, wherever the user likes."""
        if self._centre.shown is not None and self._centre.toolbar.save.isEnabled():
            self._save(self._centre.shown)

    def _save(self, made: Made) -> None:
        picture_files.save_as(self._page, self._controller, Path(made.facts.path))

    def delete(self) -> None:
        """Move the shown picture to the system's bin; the message offers to undo it."""
        if self._centre.shown is not None and self._centre.toolbar.delete.isEnabled():
            self._move_to_bin(self._centre.shown)

    def delete_listed(self, path: str) -> None:
        """Move a picture of the history to the bin."""
        if (made := self._controller.state.history.known.get(path)) is not None:
            self._move_to_bin(made)

    def _move_to_bin(self, made: Made) -> None:
        """The next picture takes its place if it is the shown one."""
        path = made.facts.path
        after = self._history.neighbour(path, 1) or self._history.neighbour(path, -1)
        if not picture_files.move_to_bin(self._controller, path):
            return
        if self._centre.shown is None or self._centre.shown.facts.path != path:
            return
        if after and (next_one := self._controller.state.history.known.get(after)) is not None:
            self._centre.pick(next_one)
        else:
            self._centre.show_nothing()
