"""Create: from words to picture, with the numbers behind it in sight."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage, QResizeEvent
from PySide6.QtWidgets import QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import AnyEvent, Generate, PreviewReady
from halftone.contract.request import ALONE, PictureRequest
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.farm_panel import FarmPanel
from halftone.gui.create.form.model_picker import ask_model
from halftone.gui.create.form.request_form import CreateForm
from halftone.gui.create.form.settings_from_pictures import FormFiller
from halftone.gui.create.grid_dialog import GridDialog
from halftone.gui.create.history_panel import HistoryPanel
from halftone.gui.create.job_list import QueuePanel
from halftone.gui.create.picture import fix_text
from halftone.gui.create.picture.dropped_pictures import DroppedPictures, Uses
from halftone.gui.create.picture.picture_actions import PictureActs
from halftone.gui.create.picture.picture_centre import Centre
from halftone.gui.create.picture.picture_images import HistoryWatch, decoded
from halftone.gui.create.picture.picture_report import copy_details
from halftone.gui.i18n import tr
from halftone.gui.kit.splitter import LineSplitter
from halftone.gui.kit.stock_widgets import column, surface
from halftone.gui.shell import stopping
from halftone.gui.text import error_sentence
from halftone.gui.views.thumbnails import small
from halftone.library.index.entries import Entry
from halftone.library.prompts.drawn_prompts import as_made
from halftone.session.events import Noted
from halftone.session.pictures.draft import Draft, Seed, with_word
from halftone.session.pictures.grid import Axis, Grid, fitted, planned
from halftone.session.pictures.history import Made
from halftone.session.state import Ended, Job
from halftone.settings.glance import widths

_log = logging.getLogger(__name__)

_CANVAS: Final = 360
"""Pixels that the canvas keeps before the history gets more."""
QUEUE_WIDTH: Final = 256
"""Pixels in which a waiting job can be read."""


class CreatePage(QWidget):
    """Form, canvas with its panels, queue and history."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._pictures: tuple[Made, ...] = ()
        self._latest = controller.state.history.latest
        self._compact = (False, False)
        self._reads = False
        """Whether the queue is wide enough to be read."""
        self._lent = 0
        """Pixels that the canvas lent it."""
        self._before: Draft | None = None
        """The draft, while a waiting job is edited."""
        self._wide = [336, 896, 208]
        """Sizes of the columns before the window became narrow."""
        self._build()
        self._filler = FormFiller(self, controller, self.form)
        parts = self.form, self.centre, self.history
        self.acts = PictureActs(self, controller, parts, self._filler.reuse, self._show_left)
        centre = self.centre
        uses = Uses(self._filler.take_picture, self.form.start_part.use, self.acts.inpaint_file)
        self.dropped = DroppedPictures(self, controller, (centre, centre.imported), uses)
        self.dropped.watch_paste(self.form.prompt, self.form.negative)
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
        self.farm = FarmPanel(self._controller)
        sides = column(self.queue, self.farm, self.history, spacing=0)
        sides.setStretch(2, 1)
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
        self.queue.refresh()  # jobs may wait already, as after a change of language

    def _connect(self) -> None:
        controller = self._controller
        controller.changed.connect(self._refresh)
        controller.history_changed.connect(self._show_history)
        controller.worker_event.connect(self._worker_event)
        controller.job_ended.connect(self._job_ended)
        self.form.submitted.connect(self._submitted)
        self.form.submitting.connect(self.centre.editor.flush)
        self.form.start_part.paint_wanted.connect(self.centre.editor.open_editor)
        self.form.footer.grid.connect(self.open_grid)
        self.queue.edit_wanted.connect(self._edit)
        self.queue.edit_cancelled.connect(self.end_editing)
        self.queue.farm_wanted.connect(self.farm.jobs.send)
        self.form.model_part.fix_requested.connect(self._fix)
        self.form.model_part.check_requested.connect(self._check)
        centre = self.centre
        self._filler.begun.connect(self.dropped.begin)
        self._filler.filled.connect(self.dropped.finish)
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

    def try_in_fp16(self) -> None:
        """Make a picture in FP16, as the form stands."""
        self.form.numerics_part.take_precision("float16")
        self.form.submit()

    def _submitted(self, request: PictureRequest, endless: bool) -> None:
        self._watch_next()
        edited = self.queue.editing
        if edited and self._controller.session.queue.replace(edited, request, upscaler=self.form.upscaler):
            self.queue.show_editing("")
            self._controller.later(self._restore_draft)  # the form has yet to roll its seed
            return
        self._controller.session.queue.generate(request, endless=endless, upscaler=self.form.upscaler)

    def _watch_next(self) -> None:
        """Show what is made next as soon as it is there."""
        self.centre.following = True
        self.centre.editor.close_editor()
        self.centre.imported.hide()

    def open_grid(self) -> None:
        """Choose the axes of a grid, where the form can be sent."""
        if self.form.refusal():
            return
        dialog = GridDialog(self, self._controller, self.form.request(), self.form.upscaler)
        dialog.chosen.connect(self._make_grid)
        dialog.open()

    def _make_grid(self, axes: tuple[Axis, ...]) -> None:
        """The form is sent as for one picture, so its checks are the same, but the largest picture has to fit into memory."""
        if (grid := self._planned(axes, self.form.request())) is not None:
            self.form.submit(count=1, send=partial(self._queue_grid, axes), checked=grid.requests)

    def _queue_grid(self, axes: tuple[Axis, ...], request: PictureRequest) -> None:
        if (grid := self._planned(axes, request)) is not None:
            self._watch_next()
            self._controller.session.queue.make_grid(grid, request.prompt, upscaler=self.form.upscaler)

    def _planned(self, axes: tuple[Axis, ...], request: PictureRequest) -> Grid | None:
        """The grid; None where the form says why there is none."""
        models = self._controller.state.models.models
        try:
            return planned(request, axes, lambda one: fitted(one, models.get(one.model)))
        except HalftoneError as error:
            self.form.tell(error_sentence(error.as_facts()), "danger")
            return None

    # --- editing what waits -----------------------------------------------------------------------------------------

    def _edit(self, job: Job) -> None:
        """Show the request of a waiting job in the form; Generate puts it back."""
        command = job.command
        if not isinstance(command, Generate):
            return
        if not self.queue.editing:
            self._before = self._controller.state.draft
        self.end_editing(restore=False)
        self._controller.session.queue.edit(job.key, True)
        self.queue.show_editing(job.key)
        self._filler.reuse_request(command.request)
        self.form.edit(upscaler=job.upscaler or None)

    def end_editing(self, *, restore: bool = True) -> None:
        """The job waits again, and the form shows what it showed before."""
        if not self.queue.editing:
            return
        self._controller.session.queue.edit(self.queue.editing, False)
        self.queue.show_editing("")
        if restore:
            self._restore_draft()

    def _restore_draft(self) -> None:
        """Show what the form showed before a job was edited."""
        before, self._before = self._before, None
        if before is not None:
            self._controller.session.drafting.put(before)

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
                self.queue.set_preview(event.job or "", preview)

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
        self._fit_queue()

    def _fit_queue(self) -> None:
        """Give the queue room to be read as soon as something waits in it, and take it back afterwards."""
        reads = len(self._controller.state.jobs) > 1
        if reads == self._reads:
            return
        self._reads = reads
        left, centre, right = self.splitter.sizes()
        self._fit_sides()
        if reads and 0 < right < QUEUE_WIDTH:
            self._lent = QUEUE_WIDTH - right
            self.splitter.setSizes([left, centre - self._lent, QUEUE_WIDTH])
        elif not reads and self._lent:
            if right == QUEUE_WIDTH:  # else the user moved it
                self.splitter.setSizes([left, centre + self._lent, right - self._lent])
            self._lent = 0

    # --- actions ----------------------------------------------------------------------------------------------------

    def _banner_act(self, key: str) -> None:
        controller, made = self._controller, self.centre.shown
        match key:
            case "fix" if made is not None:
                self._as_made()
                controller.session.fixing.begin(made)
            case fix_text.CANCEL:
                controller.session.fixing.cancel()
            case fix_text.UNDO:
                controller.session.fixing.undo()
            case fix_text.CLOSE:
                controller.session.fixing.close()
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
            case "recover-fix" if made is not None:
                self._as_made()
                controller.session.fixing.begin(made)
            case "recover" if made is not None:
                controller.session.queue.recover(made.facts, made.request)
                self.centre.fold()
            case _:
                self.centre.fold()

    def _as_made(self) -> None:
        """What follows is about the shown picture: in the precision and with what it was asked for with."""
        if self.centre.shown is not None:
            self.form.take_extras(as_made(self.centre.shown.request, self.centre.shown.facts))

    def pictures_restored(self, paths: Sequence[str]) -> None:
        """List pictures that came back from the bin, and show the first; other files are of no concern here."""
        known = self._controller.state.history.known
        if first := next((path for path in paths if path in known), ""):
            self._controller.session.history.read(lambda: self._show_restored(first))

    def _show_restored(self, path: str) -> None:
        made = self._controller.state.history.known.get(path)
        if made is not None and shiboken6.isValid(self):
            self.centre.show_picture(made)

    def reuse_settings(self) -> None:
        """Copy everything of the shown picture into the form, the seed too."""
        if self.centre.shown is not None:
            self._filler.reuse(self.centre.shown)

    def inpaint(self) -> None:
        """Paint on the shown picture, as the button does."""
        self.centre.toolbar.inpaint.click()

    def reuse(self, made: Made) -> None:
        """Copy everything of a picture into the form, the seed too."""
        self._filler.reuse(made)

    def take_picture(self, path: str) -> None:
        """Copy what a picture of any program says into the form."""
        self._filler.take_picture(path)

    def take_seed(self, seed: int) -> None:
        """Use this seed for the next pictures."""
        self.form.edit(seed=Seed(seed, locked=True))

    def start_from(self, path: str) -> None:
        """Send a picture to image to image."""
        self._show_left()
        self.form.start_part.use(path)

    def new_seed(self) -> None:
        self.form.seed.roll()

    def focus_prompt(self) -> None:
        self.form.prompt.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _step(self, by: int) -> None:
        if self.centre.shown is not None and (path := self.history.neighbour(self.centre.shown.facts.path, by)):
            self.pick(path)

    # --- models and what is used beside them ------------------------------------------------------------------------

    def use(self, entry: Entry) -> None:
        """Take a model, or a file that is used beside one, into the form."""
        form, path = self.form, entry.path
        match entry.shelf:
            case "LoRA":
                form.lora_part.take(path)
            case "VAE":
                form.vae_part.take(path)
            case "ControlNet" if entry.kind == "IP-Adapter":
                form.ip_adapter_part.take(path)
            case "ControlNet":
                form.control_part.take(path)
            case "Upscalers":
                form.edit(hires_on=True)
                form.hires_part.row.setChecked(True)
                form.hires_part.choose(path)
            case "Embeddings":
                self._add_word(entry.name)
            case _:
                self._controller.session.models.select(path)

    def use_word(self, word: str, entry: Entry) -> None:
        """Add a trigger word to the prompt, and the LoRA that it belongs to."""
        self._add_word(word)
        if entry.shelf == "LoRA" and entry.path not in {lora.path for lora in self.form.lora_part.items()}:
            self.form.lora_part.take(entry.path)

    def _add_word(self, word: str) -> None:
        self.form.edit(prompt=with_word(self._controller.state.draft.prompt, word))

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

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_sides()

    def _fit_sides(self) -> None:
        """The same limits whether something is made or not: what moves when a job begins draws the eye off the picture. Only a
        queue in which something waits gets more.
        """
        colours = theme.current()
        self.form.setMinimumWidth(colours.px("layout.panel-left.min"))
        self.form.setMaximumWidth(colours.px("layout.panel-left.max"))
        spare = self.width() - self.form.minimumWidth() - _CANVAS
        narrowest = max(min(self.history.least_width, spare), 112 if self._compact[0] else 160)
        self.right.setMinimumWidth(QUEUE_WIDTH if self._reads else narrowest)
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
