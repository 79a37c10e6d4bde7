"""Create: from words to picture, with the numbers behind it in sight."""

import logging
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QWidget

from halftone.contract.facts import PictureFacts
from halftone.contract.messages import AnyEvent, Generate, PictureReady, PreviewReady
from halftone.contract.request import PictureRequest
from halftone.contract.words import DType
from halftone.gui import picture_text, stopping, theme
from halftone.gui.controller import Controller
from halftone.gui.pages import create_actions
from halftone.gui.pages.create_banner import PictureBanner
from halftone.gui.pages.create_empty import EmptyCanvas
from halftone.gui.pages.create_form import CreateForm, examples
from halftone.gui.pages.create_full import FullScreen
from halftone.gui.pages.create_history import Made, Shelf, request_of, unsaved
from halftone.gui.pages.create_model import ask_model
from halftone.gui.pages.create_notes import NextSteps, UnwatchedNote
from halftone.gui.pages.create_queue import QueuePanel
from halftone.gui.pages.create_receipt import ReceiptBar, ReceiptSheet
from halftone.gui.pages.create_side import HistoryPanel
from halftone.gui.pages.create_toolbar import CanvasToolbar
from halftone.gui.pages.create_transport import TransportPanel
from halftone.gui.state import Ended, Noted
from halftone.gui.widgets.canvas import CanvasView
from halftone.gui.widgets.common import column, surface
from halftone.gui.widgets.splitter import LineSplitter
from halftone.settings.glance import widths

_log = logging.getLogger(__name__)


class CreatePage(QWidget):
    """Form, canvas with its panels, queue and history."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._shelf = Shelf(controller.background)
        self._shown: Made | None = None
        self._folded: set[str] = set()
        self._following = True
        self._first_time = False
        self._compact = (False, False)
        self._preview = QImage()
        self._build()
        self._connect()
        self._shelf.load(self._history_read)
        self._refresh()

    # --- building ---------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.form = CreateForm(self._controller)
        self.toolbar = CanvasToolbar()
        self.banner = PictureBanner()
        self.canvas = CanvasView()
        self.empty = EmptyCanvas(examples())
        self.sheet = ReceiptSheet()
        self.receipt = ReceiptBar()
        self.transport = TransportPanel()
        self.unwatched = UnwatchedNote(self._controller)
        self.next_steps = NextSteps(self._controller)
        centre = surface("canvas")
        lines = column(
            self.toolbar,
            self.unwatched,
            self.banner,
            self.empty,
            self.canvas,
            self.next_steps,
            self.sheet,
            self.receipt,
            self.transport,
            spacing=0,
        )
        lines.setStretch(3, 1)
        lines.setStretch(4, 1)
        centre.setLayout(lines)
        self.centre = centre
        self.queue = QueuePanel(self._controller)
        self.history = HistoryPanel()
        self.right = surface("plain")
        sides = column(self.queue, self.history, spacing=0)
        sides.setStretch(1, 1)
        self.right.setLayout(sides)
        self.splitter = LineSplitter()
        for part in (self.form, centre, self.right):
            self.splitter.addWidget(part)
        self.splitter.setStretchFactor(0, 0)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setStretchFactor(2, 0)
        centre.setMinimumWidth(360)
        self.setLayout(column(self.splitter, spacing=0))
        self.splitter.set_defaults([336, 896, 208])
        self._restore_splitter()

    def _connect(self) -> None:
        controller = self._controller
        controller.changed.connect(self._refresh)
        controller.worker_event.connect(self._worker_event)
        controller.job_ended.connect(self._job_ended)
        self.form.submitted.connect(self._submitted)
        self.form.fix_requested.connect(self._fix)
        self.form.check_requested.connect(self._check)
        self.form.fragile_requested.connect(controller.make_fragile)
        self.toolbar.acted.connect(self._toolbar_act)
        self.toolbar.live_requested.connect(self._follow)
        self.toolbar.left_panel.clicked.connect(self.toggle_left)
        self.toolbar.right_panel.clicked.connect(self.toggle_right)
        self.banner.acted.connect(self._banner_act)
        self.canvas.zoomed.connect(self.toolbar.set_zoom)
        self.canvas.step_requested.connect(self._step)
        self.canvas.delete_requested.connect(self.delete)
        self.empty.example_chosen.connect(self._example)
        self.empty.models_wanted.connect(lambda: ask_model(self, controller))
        self.receipt.toggled.connect(self._toggle_sheet)
        self.sheet.message_requested.connect(self._unfold)
        self.transport.cancel_requested.connect(self._cancel)
        self.transport.keep_requested.connect(self._keep)
        self.history.picked.connect(self.pick)
        self.history.collapse.connect(self.toggle_right)

    def request(self) -> PictureRequest:
        return self.form.request()

    def set_request(self, request: PictureRequest) -> None:
        self.form.set_request(request)

    def generate(self) -> None:
        """What Ctrl+Enter does."""
        self.form.submit()

    def _submitted(self, request: PictureRequest, endless: bool) -> None:
        self._following = True
        self._controller.generate(request, endless=endless)

    def _example(self, prompt: str) -> None:
        self.form.prompt.setPlainText(prompt)
        self.form.submit()

    def _keep(self) -> None:
        job = self._controller.state.running_kind("Generate")
        if job is not None:
            self._controller.keep(job.id)

    def _cancel(self) -> None:
        job = self._controller.state.running_kind("Generate")
        if job is not None:
            stopping.stop(self, self._controller, job)

    def _fix(self) -> None:
        model = self._controller.model
        if model is not None:
            self._controller.fix_model(model)

    def _check(self) -> None:
        model = self._controller.model
        if model is not None:
            self._controller.check(model)

    # --- what the worker says ---------------------------------------------------------------------------------------

    def _worker_event(self, event: AnyEvent, blob: bytes) -> None:
        if isinstance(event, PreviewReady):
            self._take_preview(event, blob)
        elif isinstance(event, PictureReady):
            self._take_picture(event, blob)

    def _take_preview(self, event: PreviewReady, blob: bytes) -> None:
        if len(blob) != event.width * event.height * 3:
            _log.warning("a preview of %d bytes cannot be %d x %d", len(blob), event.width, event.height)
            return
        stride = event.width * 3
        self._preview = QImage(blob, event.width, event.height, stride, QImage.Format.Format_RGB888).copy()
        self.queue.set_preview(self._preview)
        if self._following:
            self._show_preview()

    def _show_preview(self) -> None:
        job = self._controller.state.running_kind("Generate")
        if job is None or self._preview.isNull() or not isinstance(job.command, Generate):
            return
        request = job.command.request
        nominal = (request.width, request.height) if request.width and request.height else None
        self.canvas.set_image(self._preview, nominal)
        self._show_canvas(True)

    def _take_picture(self, event: PictureReady, blob: bytes) -> None:
        job = self._controller.state.job(event.job or "")
        if job is None or not isinstance(job.command, Generate):
            return
        request = request_of(job.command.request, event.facts)
        self.form.learn(event.facts, request.model)
        self.form.seed.show_seed(event.facts.seed)
        end = event.thumbnail_size + event.failed_size
        thumbnail, failed = blob[: event.thumbnail_size], blob[event.thumbnail_size : end]
        if event.facts.path:
            self._shelf.add(event.facts, request, thumbnail, failed, self._made)
        else:
            self._show_made(unsaved(event.facts, request, failed))

    def _made(self, made: Made) -> None:
        self.history.add(made.thumb)
        self.form.model_row.set_thumbnail(made.thumb.image)
        self._show_made(made)
        self.next_steps.hide()
        if self._first_time:
            self._first_time = False
            self.next_steps.show()

    def _show_made(self, made: Made) -> None:
        if self._following:
            self._preview = QImage()
            self._show(made)

    @property
    def strip_height(self) -> int:
        """Pixels that the strip below the first picture takes."""
        return self.next_steps.sizeHint().height() if self.next_steps.isVisible() else 0

    def _job_ended(self, ended: Ended) -> None:
        if ended.job.kind != "Generate":
            return
        self._preview = QImage()
        if self._following and not ended.job.pictures:
            self._show(self._shown) if self._shown is not None else self._show_canvas(False)
        elif self._following and self._shown is not None:
            self._show_banner(self._shown)
        self._following = True

    # --- what is shown ----------------------------------------------------------------------------------------------

    def _history_read(self, found: list[Made]) -> None:
        shown = [made for made in found if made.is_file]
        self.history.set_thumbs([made.thumb for made in shown])
        self._first_time = not found
        for made in reversed(found):
            self.form.learn(made.facts, made.request.model)
        if shown:
            self.form.model_row.set_thumbnail(shown[0].thumb.image)
            if self._shown is None and self._controller.state.running_kind("Generate") is None:
                self._show(shown[0])

    def pick(self, path: str) -> None:
        """Show a picture of the history."""
        made = self._shelf.get(path)
        if made is not None:
            self._following = self._controller.state.running_kind("Generate") is None
            self._show(made)

    def _follow(self) -> None:
        self._following = True
        self._show_preview()
        self._refresh()

    def _show(self, made: Made) -> None:
        self._shown = made
        self.history.select(made.facts.path)
        self.receipt.show_picture(made.facts)
        self.sheet.show_picture(made.facts, has_message=picture_text.picture_message(made.facts) is not None)
        self.canvas.set_before(made.failed)
        if made.is_file:
            self._shelf.image(made.facts.path, partial(self._image_read, made))
        else:
            self._image_read(made, QImage())
        self._show_banner(made)
        self._refresh()

    def _image_read(self, made: Made, image: QImage) -> None:
        if self._shown is not made or (self._following and not self._preview.isNull()):
            return
        if image.isNull():
            image = made.thumb.image if made.is_file else made.failed
        self.canvas.set_image(image, (made.facts.width, made.facts.height))
        self.banner.evidence.recovered.show_image(image)
        self._show_canvas(True)

    def _show_canvas(self, there: bool) -> None:
        self.canvas.setVisible(there)
        self.empty.setVisible(not there)
        file = self._shown is not None and self._shown.is_file
        self.toolbar.set_picture(there, has_file=file)

    def _show_banner(self, made: Made) -> None:
        facts = made.facts
        message = picture_text.picture_message(
            facts,
            picture_text.price_line(self._controller.report(self._controller.model)),
            facts.steps,
        )
        quiet = made.request.numerics.on_black == "quiet" and facts.state == "recovered"
        if message is None or made.key in self._folded or quiet:
            self.banner.hide()
            return
        self.banner.show_message(message, picture_text.main_event(facts), _failing_dtype(facts), made.failed, made.thumb.image)

    def _unfold(self) -> None:
        if self._shown is not None:
            self._folded.discard(self._shown.key)
            self.receipt.setChecked(False)
            made = self._shown
            loud = msgspec.structs.replace(made.request.numerics, on_black="recover")
            request = msgspec.structs.replace(made.request, numerics=loud)
            self._show_banner(Made(made.facts, request, made.thumb, made.failed))

    def _toggle_sheet(self, open_: bool) -> None:
        self.sheet.setVisible(open_ and self._shown is not None)

    def _refresh(self) -> None:
        state = self._controller.state
        job = state.running_kind("Generate")
        following = job is not None and self._following
        self.transport.setVisible(job is not None)
        self.empty.set_working(job is not None)
        if job is not None:
            self.transport.show_job(job, state.device)
        shown = self._shown is not None and not following
        self.receipt.setVisible(shown and job is None)
        self.sheet.setVisible(shown and job is None and self.receipt.isChecked())
        if following:
            self.banner.hide()
        self.toolbar.set_live(job is not None, self._following)
        self._fit_right()
        if self._shown is None and (job is None or self._preview.isNull()):
            self._show_canvas(False)

    # --- actions ----------------------------------------------------------------------------------------------------

    def _banner_act(self, key: str) -> None:
        controller, made = self._controller, self._shown
        match key:
            case "fix":
                self._as_made()
                self._fix()
                self._fold()
            case "health" | "check":
                self._as_made()
                controller.go("health")
                if key == "check":
                    self._check()
            case "copy":
                facts = made.facts if made is not None else None
                QGuiApplication.clipboard().setText(picture_text.copy_details(facts, controller.model, controller.state.device))
                controller.take(Noted(kind="copied"))
            case "recover" | "recover-fix" if made is not None:
                controller.recover(made.facts, made.request)
                self._fold()
                if key == "recover-fix":
                    self._fix()
            case _:
                self._fold()

    def _as_made(self) -> None:
        """What follows is about the shown picture: in the precision that it was asked for in."""
        if self._shown is not None:
            self.form.take_precision(self._shown.request.numerics.precision)

    def _fold(self) -> None:
        if self._shown is not None:
            self._folded.add(self._shown.key)
        self.banner.hide()

    def _toolbar_act(self, key: str) -> None:
        match key:
            case "fit":
                self.canvas.fit()
            case "vary":
                self._vary()
            case "save":
                self.save_as()
            case "copy":
                QGuiApplication.clipboard().setImage(self.canvas.image())
                self._controller.take(Noted(kind="copied"))
            case "show":
                if self._shown is not None:
                    create_actions.show_folder(self._shown.facts.path)
            case _:
                self.delete()

    def _vary(self) -> None:
        made = self._shown
        if made is not None:
            self._following = True
            request = msgspec.structs.replace(made.request, seed=made.facts.seed + 1, batch=4)
            self._controller.generate(request)

    def save_as(self) -> None:
        """Copy the picture, with its settings inside, wherever the user likes."""
        made = self._shown
        if made is None or not self.toolbar.save.isEnabled():
            return
        create_actions.save_as(self, self._controller, Path(made.facts.path))

    def delete(self) -> None:
        """Move the picture to the system's bin; the message offers to undo it."""
        made = self._shown
        if made is None or not self.toolbar.delete.isEnabled():
            return
        path = made.facts.path
        if not create_actions.move_to_bin(self._controller, path):
            return
        after = self.history.neighbour(path, 1) or self.history.neighbour(path, -1)
        self.history.remove(path)
        self._shown = None
        if after:
            self.pick(after)
        else:
            self.canvas.clear()
            self.banner.hide()
            self._refresh()

    def picture_restored(self, path: str) -> None:
        """A picture came back from the bin."""
        made = self._shelf.get(path)
        if made is not None:
            self._shelf.load(self._history_read)
            self._show(made)

    def reuse_settings(self) -> None:
        """Copy everything of the shown picture into the form, the seed too."""
        made = self._shown
        if made is None:
            return
        controller = self._controller
        if made.request.model != controller.settings.last_model:
            known = any(model.id == made.request.model for model in controller.models)
            if known:
                controller.select_model(made.request.model)
            else:
                current = controller.model.name if controller.model is not None else ""
                controller.take(Noted(kind="other-model", facts=(made.request.model.rpartition("/")[2], current)))
        self.form.set_request(made.request)

    def new_seed(self) -> None:
        self.form.seed.roll()

    def focus_prompt(self) -> None:
        self.form.prompt.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def focus_banner(self) -> bool:
        """True if there is a banner to jump to."""
        first = self.banner.first_button()
        if self.banner.isHidden() or first is None:
            return False
        first.setFocus(Qt.FocusReason.ShortcutFocusReason)
        return True

    def full_screen(self) -> None:
        if not self.canvas.image().isNull():
            FullScreen(self.canvas.image(), self.window()).showFullScreen()

    def _step(self, by: int) -> None:
        if self._shown is not None and (path := self.history.neighbour(self._shown.facts.path, by)):
            self.pick(path)

    # --- panels -----------------------------------------------------------------------------------------------------

    def show_queue(self) -> None:
        if self.right.isHidden():
            self.toggle_right()
        self.queue.more.setFocus(Qt.FocusReason.OtherFocusReason)

    def toggle_left(self) -> None:
        self.form.setVisible(self.form.isHidden())
        self.toolbar.left_panel.setVisible(self.form.isHidden())

    def toggle_right(self) -> None:
        self.right.setVisible(self.right.isHidden())
        self.toolbar.right_panel.setVisible(self.right.isHidden())

    def set_compact(self, *, narrow: bool, low: bool) -> None:
        """Narrow: less than 1180 wide; low: less than 720 high."""
        if (narrow, low) == self._compact:
            return
        changed = narrow != self._compact[0]
        self._compact = (narrow, low)
        self.form.set_low(low)
        for part in (self.form, self.toolbar, self.receipt, self.transport, self.banner):
            part.set_narrow(narrow)
        if changed:
            self._fit_right()
            self.splitter.set_defaults([280, 632, 112] if narrow else [336, 896, 208])
            self.splitter.restore_defaults()

    def _fit_right(self) -> None:
        narrow = self._compact[0]
        queue = bool(self._controller.state.jobs)
        colours = theme.current()
        self.form.setMinimumWidth(colours.px("layout.panel-left.min"))
        self.form.setMaximumWidth(colours.px("layout.panel-left.max"))
        least = 232 if queue and narrow else 256 if queue else 112 if narrow else 160
        self.right.setMinimumWidth(least)
        self.right.setMaximumWidth(colours.px("layout.panel-right.max"))

    def splitter_state(self) -> dict[str, str]:
        """Positions to be kept for the next start."""
        return {"create": ",".join(str(size) for size in self.splitter.sizes())}

    def _restore_splitter(self) -> None:
        stored = self._controller.settings.splitters.get("create", "")
        if sizes := widths(stored):
            self.splitter.setSizes(sizes)
        else:
            self.splitter.restore_defaults()

    def resizeEvent(self, event: object) -> None:
        if not self.banner.isHidden():
            self.banner.fit()


def _failing_dtype(picture: PictureFacts) -> DType:
    """The type in which the numbers went bad."""
    event = picture_text.main_event(picture)
    limit = event.limit if event is not None else None
    return "bfloat16" if limit is not None and limit > 1e9 else "float16"
