"""Create: from words to picture, with the numbers behind it in sight."""

import logging

import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QWidget

from halftone.contract.messages import AnyEvent, PreviewReady
from halftone.contract.request import ALONE, PictureRequest
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.form.model_picker import ask_model
from halftone.gui.create.form.request_form import CreateForm
from halftone.gui.create.form.settings_from_pictures import FormFiller
from halftone.gui.create.history_panel import HistoryPanel
from halftone.gui.create.job_list import QueuePanel
from halftone.gui.create.picture.picture_actions import PictureActs
from halftone.gui.create.picture.picture_centre import Centre
from halftone.gui.create.picture.picture_images import HistoryWatch, decoded
from halftone.gui.create.picture.picture_report import copy_details
from halftone.gui.i18n import tr
from halftone.gui.kit.splitter import LineSplitter
from halftone.gui.kit.stock_widgets import column, surface
from halftone.gui.shell import stopping
from halftone.gui.views.thumbnails import small
from halftone.library.prompts.drawn_prompts import as_made
from halftone.session.events import Noted
from halftone.session.pictures.history import Made
from halftone.session.state import Ended
from halftone.settings.glance import widths

_log = logging.getLogger(__name__)


class CreatePage(QWidget):
    """Form, canvas with its panels, queue and history."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._pictures: tuple[Made, ...] = ()
        self._latest = controller.state.history.latest
        self._compact = (False, False)
        self._wide = [336, 896, 208]
        """Sizes of the columns before the window became narrow."""
        self._build()
        self._filler = FormFiller(self, controller, self.form)
        parts = self.form, self.centre, self.history
        self.acts = PictureActs(self, controller, parts, self._filler.reuse, self._show_left)
        self._connect()
        self._watch = HistoryWatch(self)
        self._watch.changed.connect(controller.session.history.read_new)
        if not controller.state.history.read:
            controller.session.history.read()
        self._show_history()
        self._refresh()

    # --- building ---------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.form = CreateForm(self._controller)
        self.thumbnails = self._controller.thumbnails
        self.thumbnails.arrived.connect(self.form.model_part.refresh_picture)
        self.form.model_part.picture_of = self._picture_of
        self.centre = Centre(self._controller, self.thumbnails)
        self.queue = QueuePanel(self._controller)
        self.history = HistoryPanel(self.thumbnails)
        self.right = surface("plain")
        sides = column(self.queue, self.history, spacing=0)
        sides.setStretch(1, 1)
        self.right.setLayout(sides)
        self.splitter = LineSplitter()
        for part in (self.form, self.centre, self.right):
            self.splitter.addWidget(part)
        self.splitter.setStretchFactor(0, 0)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setStretchFactor(2, 0)
        self.setLayout(column(self.splitter, spacing=0))
        self.splitter.set_defaults([336, 896, 208])
        self._fit_sides()
        self._restore_splitter()

    def _connect(self) -> None:
        controller = self._controller
        controller.changed.connect(self._refresh)
        controller.history_changed.connect(self._show_history)
        controller.worker_event.connect(self._worker_event)
        controller.job_ended.connect(self._job_ended)
        self.form.submitted.connect(self._submitted)
        self.form.model_part.fix_requested.connect(self._fix)
        self.form.model_part.check_requested.connect(self._check)
        centre = self.centre
        centre.picked.connect(self.history.select)
        centre.toolbar.acted.connect(self.acts.from_toolbar)
        centre.toolbar.left_panel.clicked.connect(self.toggle_left)
        centre.toolbar.right_panel.clicked.connect(self.toggle_right)
        centre.banner.acted.connect(self._banner_act)
        centre.canvas.step_requested.connect(self._step)
        centre.canvas.delete_requested.connect(self.acts.delete)
        centre.empty.example_chosen.connect(self._example)
        centre.empty.models_wanted.connect(lambda: ask_model(self, controller))
        centre.transport.cancel_requested.connect(self._cancel)
        centre.transport.keep_requested.connect(self._keep)
        self.history.picked.connect(self.pick)
        self.history.removed.connect(self.acts.delete_listed)
        self.history.menu_requested.connect(self.acts.open_menu)
        self.history.collapse.connect(self.toggle_right)

    def generate(self) -> None:
        """What Ctrl+Enter does."""
        self.form.submit()

    def _submitted(self, request: PictureRequest, endless: bool) -> None:
        self.centre.following = True
        self._controller.session.queue.generate(request, endless=endless)

    def _example(self, prompt: str) -> None:
        self.form.edit(prompt=prompt)
        self.form.submit()

    def _keep(self) -> None:
        job = self._controller.state.running_kind("Generate")
        if job is not None:
            self._controller.session.queue.keep(job.id)

    def _cancel(self) -> None:
        job = self._controller.state.running_kind("Generate", "Upscale")
        if job is not None:
            stopping.stop(self, self._controller, job)

    def _fix(self) -> None:
        model = self._controller.model
        if model is not None:
            self._controller.session.checks.fix(model)

    def _check(self) -> None:
        model = self._controller.model
        if model is not None:
            self._controller.session.checks.check(model)

    # --- what the worker says ---------------------------------------------------------------------------------------

    def _worker_event(self, event: AnyEvent, blob: bytes) -> None:
        if isinstance(event, PreviewReady):
            preview = self.centre.take_preview(event, blob)
            if not preview.isNull():
                self.queue.set_preview(preview)

    def _job_ended(self, ended: Ended) -> None:
        if ended.job.kind in ("Generate", "Upscale"):
            self.centre.job_ended(ended)

    # --- history ----------------------------------------------------------------------------------------------

    def _show_history(self) -> None:
        """Thumbnails of all, and the one that was just made in the centre. What other programs make goes on top: what is shown
        and has the focus stays.
        """
        history, state = self._controller.state.history, self._controller.state
        none = tr("No pictures yet.") if history.read else tr("The history cannot be read.") if history.unread else ""
        if history.pictures != self._pictures:
            begins = not self._pictures
            self._pictures = history.pictures
            self.history.set_pictures(self._pictures, none=none)
            self.form.model_part.refresh()
            if begins and self.centre.shown is None and state.running_kind("Generate", "Upscale") is None:
                self.centre.show_picture(history.looked_at or self._pictures[0])
        elif not self._pictures:
            self.history.set_pictures((), none=none)
        if history.latest is not None and history.latest is not self._latest:
            self._latest = history.latest
            if history.latest.thumbnail:
                self.thumbnails.put(history.latest.facts.path, small(decoded(history.latest.thumbnail)))
            self.centre.take_picture(history.latest)
            self.centre.next_steps.setVisible(history.latest.is_file and len(history.known) == 1)

    def _picture_of(self, model: str) -> QImage:
        """The newest picture that a model made, small; a null image where there is none, or until it is read."""
        path = self._controller.state.history.newest_by.get(model, "")
        return self.thumbnails.get(path) if path else QImage()

    def pick(self, path: str) -> None:
        """Show a picture of the history."""
        made = self._controller.state.history.known.get(path)
        if made is not None:
            self.centre.pick(made)

    def _refresh(self) -> None:
        self.centre.refresh()

    # --- actions ----------------------------------------------------------------------------------------------------

    def _banner_act(self, key: str) -> None:
        controller, made = self._controller, self.centre.shown
        match key:
            case "fix":
                self._as_made()
                self._fix()
                self.centre.fold()
            case "health" | "check":
                self._as_made()
                controller.go("health")
                if key == "check":
                    self._check()
            case "copy":
                facts, extras = (made.facts, as_made(made.request, made.facts).extras) if made is not None else (None, ALONE)
                said = copy_details(facts, controller.model, controller.state.device, extras=extras)
                QGuiApplication.clipboard().setText(said)
                controller.take(Noted(kind="copied"))
            case "use-size" if made is not None and made.facts.shortages and made.facts.shortages[-1].fits is not None:
                self.form.edit(size=made.facts.shortages[-1].fits)
                self.centre.fold()
            case "use-model" if made is not None:
                controller.session.models.select(made.request.model)
            case "recover" | "recover-fix" if made is not None:
                controller.session.queue.recover(made.facts, made.request)
                self.centre.fold()
                if key == "recover-fix":
                    self._fix()
            case _:
                self.centre.fold()

    def _as_made(self) -> None:
        """What follows is about the shown picture: in the precision and with what it was asked for with."""
        if self.centre.shown is not None:
            self.form.take_extras(as_made(self.centre.shown.request, self.centre.shown.facts))

    def picture_restored(self, path: str) -> None:
        """A picture came back from the bin."""
        self._controller.session.history.read(lambda: self._show_restored(path))

    def _show_restored(self, path: str) -> None:
        made = self._controller.state.history.known.get(path)
        if made is not None and shiboken6.isValid(self):
            self.centre.show_picture(made)

    def reuse_settings(self) -> None:
        """Copy everything of the shown picture into the form, the seed too."""
        if self.centre.shown is not None:
            self._filler.reuse(self.centre.shown)

    def new_seed(self) -> None:
        self.form.seed.roll()

    def focus_prompt(self) -> None:
        self.form.prompt.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _step(self, by: int) -> None:
        if self.centre.shown is not None and (path := self.history.neighbour(self.centre.shown.facts.path, by)):
            self.pick(path)

    # --- panels -----------------------------------------------------------------------------------------------------

    def show_queue(self) -> None:
        if self.right.isHidden():
            self.toggle_right()
        self.queue.more.setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_left(self) -> None:
        if self.form.isHidden():
            self.toggle_left()

    def toggle_left(self) -> None:
        self.form.setVisible(self.form.isHidden())
        self.centre.toolbar.left_panel.setVisible(self.form.isHidden())

    def toggle_right(self) -> None:
        self.right.setVisible(self.right.isHidden())
        self.centre.toolbar.right_panel.setVisible(self.right.isHidden())

    def set_compact(self, *, narrow: bool, low: bool) -> None:
        """Narrow: less than 1180 wide; low: less than 720 high."""
        if (narrow, low) == self._compact:
            return
        changed = narrow != self._compact[0]
        self._compact = (narrow, low)
        self.form.set_low(low)
        for part in (self.form, self.centre):
            part.set_narrow(narrow)
        if changed:
            if narrow and self.isVisible():
                self._wide = self._wide_sizes()
            self._fit_sides()
            self.splitter.set_defaults([280, 632, 112] if narrow else [336, 896, 208])
            self.splitter.setSizes([280, 632, 112] if narrow else self._wide)

    def _fit_sides(self) -> None:
        """The same limits whether something is made or not: what moves when a job begins draws the eye off the picture."""
        colours = theme.current()
        self.form.setMinimumWidth(colours.px("layout.panel-left.min"))
        self.form.setMaximumWidth(colours.px("layout.panel-left.max"))
        self.right.setMinimumWidth(112 if self._compact[0] else 160)
        self.right.setMaximumWidth(colours.px("layout.panel-right.max"))

    def splitter_state(self) -> dict[str, str]:
        """Positions to be kept for the next start: those of a wide window."""
        sizes = self._wide if self._compact[0] else self._wide_sizes()
        return {"create": ",".join(str(size) for size in sizes)}

    def _wide_sizes(self) -> list[int]:
        """Return the current sizes; a hidden panel keeps its last one."""
        return [now or before for now, before in zip(self.splitter.sizes(), self._wide, strict=True)]

    def _restore_splitter(self) -> None:
        stored = self._controller.settings.splitters.get("create", "")
        if sizes := widths(stored):
            self._wide = list(sizes)
            self.splitter.setSizes(sizes)
        else:
            self.splitter.restore_defaults()
