"""The middle of Create: one picture, made or in the making, with its banner, its receipt and how far the work is."""

import logging
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFrame, QWidget

from halftone.contract.facts import PictureFacts
from halftone.contract.messages import Generate, PreviewReady
from halftone.contract.vocabulary import DType
from halftone.gui.controller import Controller
from halftone.gui.create.form.prompt_fields import examples
from halftone.gui.create.picture import picture_text
from halftone.gui.create.picture.canvas_notes import NextSteps, UnwatchedNote
from halftone.gui.create.picture.empty_canvas import EmptyCanvas
from halftone.gui.create.picture.full_screen import FullScreen
from halftone.gui.create.picture.picture_images import decoded, read_later
from halftone.gui.create.picture.picture_model import about_model, model_name, model_now, without_memory
from halftone.gui.create.picture.picture_receipt import ReceiptBar, ReceiptSheet
from halftone.gui.create.picture.picture_toolbar import CanvasToolbar
from halftone.gui.create.picture.progress_panel import TransportPanel
from halftone.gui.create.picture.recovery_banner import PictureBanner
from halftone.gui.create.picture.video_player import Player
from halftone.gui.kit.message_bars import Message
from halftone.gui.kit.picture_canvas import CanvasView
from halftone.gui.kit.stock_widgets import column
from halftone.gui.views.thumbnails import Thumbnails
from halftone.session.pictures.history import Made
from halftone.session.state import Ended, Job

PICTURE_SHARE: Final = 0.4
"""The share of the column's height that the picture keeps, whatever is opened above and below it."""
_LEAST: Final = 80
"""Pixels that a banner or a receipt is high at least."""

_log = logging.getLogger(__name__)


class Centre(QFrame):
    """`picked`: another picture is shown (its path). shown: that picture; following: the one in the making takes its place."""

    picked = Signal(str)

    def __init__(self, controller: Controller, thumbnails: Thumbnails) -> None:
        super().__init__()
        self._controller = controller
        self._thumbnails = thumbnails
        self.shown: Made | None = None
        self.following = True
        self.player = Player(controller.background, self)
        self._folded: set[str] = set()
        self._preview = QImage()
        self._preview_step = 0
        self._build()
        self._connect()

    def _build(self) -> None:
        self.setProperty("surface", "canvas")
        self.setMinimumWidth(360)
        self.toolbar = CanvasToolbar()
        self.unwatched = UnwatchedNote(self._controller, self)
        self.banner = PictureBanner()
        self.empty = EmptyCanvas(examples())
        self.canvas = CanvasView()
        self.next_steps = NextSteps(self._controller)
        self.sheet = ReceiptSheet()
        self.receipt = ReceiptBar()
        self.transport = TransportPanel()
        above = (self.toolbar, self.unwatched, self.banner)
        below = (self.next_steps, self.sheet, self.receipt, self.transport)
        lines = column(*above, self.empty, self.canvas, *below, spacing=0)
        lines.setStretch(len(above), 1)
        lines.setStretch(len(above) + 1, 1)
        self.setLayout(lines)

    def _connect(self) -> None:
        controller = self._controller
        self.toolbar.live_requested.connect(self.follow)
        self.canvas.zoomed.connect(self.toolbar.set_zoom)
        self.player.framed.connect(self._show_frame)
        self.receipt.toggled.connect(self._open_sheet)
        self.banner.reshaped.connect(self._share)
        self.sheet.reshaped.connect(self._share)
        self.sheet.message_requested.connect(self._unfold)
        for signal in (controller.badges_changed, controller.model_selected, controller.models_changed):
            signal.connect(self._model_changed)

    # --- what the worker makes --------------------------------------------------------------------------------------

    def take_preview(self, event: PreviewReady, blob: bytes) -> QImage:
        """The preview as a picture; a null one when it is not whole."""
        if len(blob) != event.width * event.height * 3:
            _log.warning("a preview of %d bytes cannot be %d x %d", len(blob), event.width, event.height)
            return QImage()
        self._preview = QImage(blob, event.width, event.height, event.width * 3, QImage.Format.Format_RGB888).copy()
        self._preview_step = event.step
        if self.following:
            self._show_preview()
        return self._preview

    def _show_preview(self) -> None:
        job = self._job()
        if job is None or self._preview.isNull() or not isinstance(job.command, Generate):
            return
        request = job.command.request
        nominal = (request.width, request.height) if request.width and request.height else None
        self.player.stop()
        self.canvas.set_image(self._preview, nominal)
        self._show_canvas(True)
        self.toolbar.set_live(running=True, following=True, preview=True, step=self._preview_step)

    def take_picture(self, made: Made) -> None:
        """A picture came to its end."""
        if self.following:
            self._preview = QImage()
            self.show_picture(made)

    def job_ended(self, ended: Ended) -> None:
        """A job that made pictures, or none, came to its end."""
        self._preview = QImage()
        if self.following and not ended.job.pictures:
            self.show_picture(self.shown) if self.shown is not None else self._show_canvas(False)
        elif self.following and self.shown is not None:
            self._show_banner(self.shown)
        self.following = True

    def follow(self) -> None:
        """Show the picture that is being made."""
        self.following = True
        self._show_preview()
        self.refresh()

    # --- one picture ------------------------------------------------------------------------------------------------

    def pick(self, made: Made) -> None:
        """Show a picture that the user chose, also while another is being made."""
        self.following = self._job() is None
        self.show_picture(made)

    def show_picture(self, made: Made) -> None:
        """Show a finished picture with all that is known of it."""
        self.shown, background = made, self._controller.background
        self._controller.session.history.look_at(made)
        self.picked.emit(made.facts.path)
        self.receipt.show_picture(made.facts)
        self.sheet.show_picture(made.facts, made.request, has_message=picture_text.picture_message(made.facts) is not None)
        self.canvas.set_before(decoded(made.failed))
        self.player.stop()
        if made.facts.upscaled is not None:
            read_later(background, self, made.facts.upscaled.source, partial(self._source_read, made))
        if made.is_file:
            read_later(background, self, made.facts.path, partial(self._image_read, made))
        else:
            self._image_read(made, QImage())
        self._show_banner(made)
        self.refresh()

    def show_nothing(self) -> None:
        """The picture is gone, and no other is there."""
        self.shown = None
        self.player.stop()
        self.canvas.clear()
        self.banner.hide()
        self.refresh()

    def _image_read(self, made: Made, image: QImage) -> None:
        if self.shown is not made or (self.following and not self._preview.isNull()):
            return
        if image.isNull():
            image = self._thumbnails.get(made.facts.path) if made.is_file else decoded(made.failed)
        self.canvas.set_image(image, (made.facts.width, made.facts.height))
        if self.banner.built:
            self.banner.evidence.recovered.show_image(image)
        self._show_canvas(True)
        if made.is_file and made.facts.frames > 1:
            self.player.play(Path(made.facts.path))

    def _source_read(self, made: Made, image: QImage) -> None:
        """What a picture was before it was made larger; it may be gone by now."""
        if self.shown is made and not image.isNull():
            self.canvas.set_before(image)

    def _show_frame(self, image: QImage) -> None:
        """The next one of the video that is shown."""
        if self.shown is not None:
            self.canvas.set_image(image, (self.shown.facts.width, self.shown.facts.height))

    def showEvent(self, event: object) -> None:
        self.player.set_running(True)

    def hideEvent(self, event: object) -> None:
        self.player.set_running(False)

    def _show_canvas(self, there: bool) -> None:
        self.canvas.setVisible(there)
        self.empty.setVisible(not there)
        shown = self.shown
        has_file = shown is not None and shown.is_file
        self.toolbar.set_picture(there, has_file=has_file, moves=shown is not None and shown.facts.frames > 1)

    # --- banner -----------------------------------------------------------------------------------------------------

    def _show_banner(self, made: Made, *, asked: bool = False) -> None:
        """asked: the user wants to read it, whatever was set or folded."""
        facts = made.facts
        message = self._message(made)
        quiet = made.request.numerics.on_black == "quiet" and facts.state == "recovered"
        if message is None or ((quiet or made.key in self._folded) and not asked):
            self.banner.hide()
            return
        recovered = self._thumbnails.get(facts.path) if made.is_file else QImage()
        self.banner.show_message(message, picture_text.main_event(facts), _failing_dtype(facts), decoded(made.failed), recovered)
        self._share()

    def _message(self, made: Made) -> Message | None:
        """What there is to say of a picture, as its model stands now."""
        controller, facts = self._controller, made.facts
        now = model_now(controller, made.request.model)
        price = picture_text.price_line(controller.session.checks.report(controller.model)) if now == "in-use" else ""
        message = picture_text.picture_message(without_memory(facts) if now == "cured" else facts, price, facts.steps)
        return about_model(message, model_name(controller, made.request.model), now) if message is not None else None

    def _model_changed(self) -> None:
        """Another model, or a cure that was applied or taken back: the banner speaks of what is."""
        if self.shown is not None and not self.banner.isHidden() and self._message(self.shown) != self.banner.message:
            self._show_banner(self.shown, asked=True)

    def fold(self) -> None:
        """Put the banner away; the receipt keeps what it said."""
        if self.shown is not None:
            self._folded.add(self.shown.key)
        self.banner.hide()

    def _unfold(self) -> None:
        if self.shown is not None:
            self._folded.discard(self.shown.key)
            self.receipt.setChecked(False)
            self._show_banner(self.shown, asked=True)

    def focus_banner(self) -> bool:
        """True if there is a banner to jump to."""
        first = self.banner.first_button()
        if self.banner.isHidden() or first is None:
            return False
        first.setFocus(Qt.FocusReason.ShortcutFocusReason)
        return True

    # --- looks ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Follow the state: what is being made, and what may be shown beside it."""
        job = self._job()
        following = job is not None and self.following
        self.transport.setVisible(job is not None)
        self.empty.set_working(job is not None)
        if job is not None:
            self.transport.show_job(job, self._controller.state.device)
        done = self.shown is not None and job is None
        self.receipt.setVisible(done)
        self.sheet.setVisible(done and self.receipt.isChecked())
        if following:
            self.banner.hide()
        draws = job is not None and job.kind == "Generate"  # what is made larger has no preview, and stays as it is
        there = not self._preview.isNull()
        self.toolbar.set_live(running=draws, following=self.following, preview=there, step=self._preview_step)
        if self.shown is None and (job is None or self._preview.isNull()):
            self._show_canvas(False)
        self._share()

    def _job(self) -> Job | None:
        return self._controller.state.running_kind("Generate", "Upscale")

    @property
    def strip_height(self) -> int:
        """Pixels that the strip below the first picture takes."""
        return self.next_steps.sizeHint().height() if self.next_steps.isVisible() else 0

    def full_screen(self) -> None:
        if not self.canvas.image().isNull():
            full = FullScreen(self.canvas.image(), self.window())
            self.player.framed.connect(full.canvas.set_image)
            full.showFullScreen()

    def set_narrow(self, narrow: bool) -> None:
        for part in (self.receipt, self.transport):
            part.set_narrow(narrow)

    def _open_sheet(self, on: bool) -> None:
        self.sheet.setVisible(on and self.shown is not None)
        self._share()

    def _share(self) -> None:
        """Banner and receipt are as high as they want while the picture keeps its share; beyond, they scroll."""
        if self.banner.isHidden() and self.sheet.isHidden():
            return
        others = (self.toolbar, self.unwatched, self.next_steps, self.receipt, self.transport)
        taken = sum(_height(part, self.width()) for part in others if not part.isHidden())
        room = self.height() - taken - max(self.canvas.minimumHeight(), round(self.height() * PICTURE_SHARE))
        banner = 0 if self.banner.isHidden() else min(self.banner.wanted_height(), self.height() // 2)
        sheet = 0 if self.sheet.isHidden() else self.sheet.wanted_height()
        sheet = max(_LEAST, min(sheet, max(room - banner, room // 2))) if sheet else 0
        self.sheet.setFixedHeight(sheet)
        self.banner.setFixedHeight(max(_LEAST, min(banner, room - sheet)))

    def resizeEvent(self, event: object) -> None:
        self._share()


def _height(part: QWidget, width: int) -> int:
    """Pixels that a part of this width takes."""
    wanted = part.heightForWidth(width) if part.hasHeightForWidth() else part.sizeHint().height()
    return min(part.maximumHeight(), max(part.minimumHeight(), wanted))


def _failing_dtype(picture: PictureFacts) -> DType:
    """The type in which the numbers went bad."""
    event = picture_text.main_event(picture)
    limit = event.limit if event is not None else None
    return "bfloat16" if limit is not None and limit > 1e9 else "float16"
