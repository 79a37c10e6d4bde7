"""The middle of Create: one picture, made or in the making, with its banner, its receipt and how far the work is."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
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
from halftone.gui.create.picture import fix_text, picture_text
from halftone.gui.create.picture.canvas_notes import NextSteps, UnwatchedNote
from halftone.gui.create.picture.empty_canvas import EmptyCanvas
from halftone.gui.create.picture.full_screen import FullScreen
from halftone.gui.create.picture.import_strip import ImportStrip
from halftone.gui.create.picture.picture_editor import PictureEditor
from halftone.gui.create.picture.picture_images import decoded, read_later
from halftone.gui.create.picture.picture_model import FIXES, about_model, model_name, model_now, without_memory
from halftone.gui.create.picture.picture_receipt import ReceiptBar, ReceiptSheet
from halftone.gui.create.picture.picture_toolbar import CanvasToolbar
from halftone.gui.create.picture.progress_panel import TransportPanel
from halftone.gui.create.picture.recovery_banner import PictureBanner
from halftone.gui.create.picture.video_player import Player
from halftone.gui.kit.message_bars import Message
from halftone.gui.kit.picture_canvas import CanvasView
from halftone.gui.kit.stock_widgets import column
from halftone.gui.views.thumbnails import Thumbnails
from halftone.session.pictures.draft import masks
from halftone.session.pictures.fix import Fix
from halftone.session.pictures.history import Made
from halftone.session.pictures.in_sight import Hand, Sight, in_sight, watches
from halftone.session.state import Ended, Job

PICTURE_SHARE: Final = 0.4
"""The share of the column's height that the picture keeps, whatever is opened above and below it."""
_LEAST: Final = 80
"""Pixels that a banner or a receipt is high at least."""

_log = logging.getLogger(__name__)


class Centre(QFrame):
    """`picked`: another picture is marked in the history (its path), "" for none. shown: the picture in the centre; following:
    the one in the making takes its place; marked: the path of the shown one, "" while another is made in its place.
    """

    picked = Signal(str)

    def __init__(self, controller: Controller, thumbnails: Thumbnails) -> None:
        super().__init__()
        self._controller = controller
        self._thumbnails = thumbnails
        self.shown: Made | None = None
        self.marked = ""
        self.following = True
        self.player = Player(controller.background, self)
        self._folded: set[str] = set()
        self._fix = Fix()
        self._image = QImage()
        self._before = QImage()
        self._preview = QImage()
        self._preview_step = 0
        self._failed = False
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
        self.editor = PictureEditor(self._controller)
        self.next_steps = NextSteps(self._controller)
        self.sheet = ReceiptSheet()
        self.receipt = ReceiptBar()
        self.transport = TransportPanel()
        self.imported = ImportStrip()
        above = (self.toolbar, self.unwatched, self.imported, self.banner)
        below = (self.next_steps, self.sheet, self.receipt, self.transport)
        middle = (self.empty, self.canvas, self.editor)
        stretched = tuple(range(len(above), len(above) + len(middle)))
        lines = column(*above, *middle, *below, spacing=0, stretch=stretched)
        self.setLayout(lines)

    def tab_order(self) -> Sequence[QWidget]:
        """Return the rows in the order of Tab: the picture comes before the banner that explains it."""
        canvas, banner = (self.empty, self.canvas, self.editor), self.banner
        below = (self.next_steps, self.sheet, self.receipt, self.transport)
        return (self.toolbar, self.unwatched, self.imported, *canvas, banner, *below)

    def _connect(self) -> None:
        controller = self._controller
        self.toolbar.live_requested.connect(self.follow)
        self.canvas.zoomed.connect(self.toolbar.set_zoom)
        self.editor.changed.connect(self.refresh)
        self.player.framed.connect(self._show_frame)
        self.receipt.toggled.connect(self._open_sheet)
        self.banner.reshaped.connect(self._share)
        self.sheet.reshaped.connect(self._share)
        self.sheet.message_requested.connect(self._unfold)
        self.sheet.undo_requested.connect(self._undo_fix)
        self._thumbnails.arrived.connect(self._thumbnails_came)
        for signal in (controller.badges_changed, controller.model_selected, controller.models_changed):
            signal.connect(self._model_changed)

    # --- what the worker makes --------------------------------------------------------------------------------------

    def take_preview(self, event: PreviewReady, blob: bytes) -> QImage:
        """The preview as a picture; a null one when it is not whole."""
        if len(blob) != event.width * event.height * 3:
            _log.warning("a preview of %d bytes cannot be %d x %d", len(blob), event.width, event.height)
            return QImage()
        preview = QImage(blob, event.width, event.height, event.width * 3, QImage.Format.Format_RGB888).copy()
        job = self._job()
        if job is None or job.id != event.job:
            return preview  # of a fix, whose banner shows how far it is, or of another GPU
        self._preview, self._preview_step = preview, event.step
        self.refresh()
        return preview

    def take_picture(self, made: Made) -> None:
        """A picture came to its end. The clean one of a fix waits until the fix is done."""
        if self._controller.state.fix.is_clean(made.key):
            self._show_clean()
        elif self.following:
            self._preview = QImage()
            self.show_picture(made)

    def job_ended(self, ended: Ended) -> None:
        """A job that made pictures, or none, came to its end."""
        if ended.job.key == self._controller.state.fix.job:
            return
        self._preview = QImage()
        if self.following and not ended.job.pictures:
            if ended.outcome == "failed" and ended.job.kind == "Generate":
                self.show_nothing(failed=True)
            elif self.shown is not None:
                self.show_picture(self.shown)
        elif self.following and self.shown is not None:
            self._show_banner(self.shown)
        self.following = True
        self.refresh()

    def follow(self) -> None:
        """Show the picture that is being made."""
        self.following = True
        self.refresh()

    # --- one picture ------------------------------------------------------------------------------------------------

    def pick(self, made: Made) -> None:
        """Show a picture that the user chose, also while another is being made or edited."""
        self.editor.close_editor()
        self.following = self._making() is None and self._job() is None
        self.show_picture(made)

    def show_picture(self, made: Made) -> None:
        """Show a finished picture with all that is known of it: what is small of it until the file is read."""
        self.shown, background = made, self._controller.background
        self._failed = False
        self._controller.session.history.look_at(made)
        self._mark(anew=True)
        self.receipt.show_picture(made.facts)
        self.sheet.show_picture(made.facts, made.request, has_message=picture_text.picture_message(made.facts) is not None)
        self._show_undo(made)
        self._image, self._before = self._small(made), decoded(made.failed)
        self.player.stop()
        if made.facts.upscaled is not None:
            read_later(background, self, made.facts.upscaled.source, partial(self._source_read, made))
        if made.is_file:
            read_later(background, self, made.facts.path, partial(self._image_read, made))
        self._show_banner(made)
        self.refresh()

    def show_nothing(self, *, failed: bool = False) -> None:
        """The picture is gone and no other is there, or a job failed and made none."""
        self.shown, self._failed = None, failed
        self._image, self._before = QImage(), QImage()
        self.player.stop()
        self._mark(anew=True)
        self.banner.hide()
        self.refresh()

    def _small(self, made: Made) -> QImage:
        """What is in memory of a picture; a null image where there is nothing."""
        listed = self._thumbnails.get(made.facts.path) if made.is_file else decoded(made.failed)
        return decoded(made.thumbnail) if listed.isNull() and made.is_file else listed

    def _image_read(self, made: Made, image: QImage) -> None:
        if self.shown is not made:
            return
        if not image.isNull():
            self._image = image
        if self.banner.built and not self._controller.state.fix.is_clean(made.key):
            self.banner.show_recovered(self._image)
        self._settle()
        if made.is_file and made.facts.frames > 1 and self.sight == "picture":
            self.player.play(Path(made.facts.path))

    def _source_read(self, made: Made, image: QImage) -> None:
        """What a picture was before it was made larger; it may be gone by now."""
        if self.shown is made and not image.isNull():
            self._before = image
            self._settle()

    def _show_frame(self, image: QImage) -> None:
        """The next one of the video that is shown."""
        if self.shown is not None:
            self._image = image
            self._settle()

    # --- what is in sight -------------------------------------------------------------------------------------------

    def _hand(self) -> Hand:
        job, history, shown = self._making(), self._controller.state.history, self.shown
        return Hand(
            selected="none" if shown is None else "unread" if self._image.isNull() else "read",
            making=job is not None,
            following=self.following,
            preview=not self._preview.isNull(),
            own=job is not None and shown is not None and shown.facts in job.pictures,
            failed=self._failed and bool(history.pictures),
            editing=self.editor.active,
        )

    @property
    def sight(self) -> Sight:
        """What the canvas shows."""
        return in_sight(self._hand())

    def _mark(self, *, anew: bool = False) -> None:
        """Mark the shown picture in the history, and none while another is made in its place. anew: also where it is the same."""
        before, self.marked = self.marked, "" if self.shown is None or watches(self._hand()) else self.shown.facts.path
        if anew or self.marked != before:
            self.picked.emit(self.marked)

    def _settle(self) -> None:
        """Bring into sight what is at hand, and nothing else."""
        self._mark()
        sight, made, job = self.sight, self.shown, self._making()
        if sight == "preview" and job is not None and isinstance(job.command, Generate):
            request = job.command.request
            nominal = (request.width, request.height) if request.width and request.height else None
            self.canvas.set_image(self._preview, nominal)
        elif sight == "picture" and made is not None:
            self.canvas.set_image(self._image, (made.facts.width, made.facts.height))
        else:
            self.canvas.clear()
        if sight != "picture":
            self.player.stop()
        self.canvas.set_before(self._before if sight == "picture" else QImage())
        seen = sight in ("picture", "preview")
        self.canvas.setVisible(seen)
        self.empty.setVisible(sight in ("examples", "dots"))
        self.empty.set_working(sight == "dots")
        self.editor.setVisible(sight == "editing")
        self.toolbar.setVisible(sight != "editing")
        is_file = sight == "picture" and made is not None and made.is_file
        moves = made is not None and made.facts.frames > 1
        sheet = made is not None and made.facts.sheet is not None
        self.toolbar.set_picture(seen, has_file=is_file, moves=moves, sheet=sheet, masks=masks(self._controller.model))

    def showEvent(self, event: object) -> None:
        self.player.set_running(True)

    def hideEvent(self, event: object) -> None:
        self.player.set_running(False)

    # --- banner -----------------------------------------------------------------------------------------------------

    def _show_banner(self, made: Made, *, asked: bool = False) -> None:
        """asked: the user wants to read it, whatever was set or folded."""
        facts, fix = made.facts, self._controller.state.fix
        message = self._message(made)
        quiet = made.request.numerics.on_black == "quiet" and facts.state == "recovered"
        asked = asked or fix.concerns(made.key)
        if message is None or ((quiet or made.key in self._folded) and not asked):
            self.banner.hide()
            return
        recovered = self._thumbnails.get(facts.path) if made.is_file else QImage()
        event = None if fix.is_clean(made.key) else picture_text.main_event(facts)
        self.banner.show_message(message, event, _failing_dtype(facts), decoded(made.failed), recovered)
        if fix.state == "fixed" and fix.concerns(made.key):
            self._show_pair(fix)
        self._show_progress()
        self._share()

    def _show_pair(self, fix: Fix) -> None:
        """The recovered picture and the one made clean, of the same seed."""
        if fix.clean is not None:
            before, after = self._thumbnails.get(fix.key), self._thumbnails.get(fix.clean.path)
            self.banner.show_fixed(before, after)

    def _show_progress(self) -> None:
        state = self._controller.state
        if state.fix.running and self.shown is not None and state.fix.concerns(self.shown.key) and not self.banner.isHidden():
            self.banner.set_progress(
                state.fix.progress, fix_text.left_words(state.fix, state.job(state.fix.job), time.monotonic())
            )

    def _fix_changed(self) -> None:
        """A fix went on: its banner says how far it is, and at its end the clean picture stands where the recovered one did."""
        before, fix = self._fix, self._controller.state.fix
        self._fix, shown = fix, self.shown
        if shown is None:
            return
        if (fix.state, fix.step, fix.key) == (before.state, before.step, before.key):
            self._show_progress()
        elif fix.state == "fixed":
            self._show_clean()
        elif fix.concerns(shown.key) or before.concerns(shown.key):
            self._show_banner(shown)

    def _show_clean(self) -> None:
        """Show what a fix made, once it is done and listed, unless the user looks at another picture by now."""
        fix, known = self._controller.state.fix, self._controller.state.history.known
        made = known.get(fix.clean.path) if fix.state == "fixed" and fix.clean is not None else None
        if made is None or self.shown is None or not fix.concerns(self.shown.key):
            return
        self.show_picture(made)
        if fix.facts is not None and fix.facts.path:
            read_later(self._controller.background, self, fix.facts.path, partial(self._source_read, made))

    def _message(self, made: Made) -> Message | None:
        """What there is to say of a picture, as its model stands now."""
        controller, facts, fix = self._controller, made.facts, self._controller.state.fix
        if fix.concerns(made.key) and (words := fix_text.fix_message(fix)) is not None:
            return words
        now = model_now(controller, made.request.model)
        price = picture_text.price_line(controller.session.checks.report(controller.model)) if now == "in-use" else ""
        message = picture_text.picture_message(without_memory(facts) if now == "cured" else facts, price, facts.steps)
        if message is None:
            return None
        if fix.running:  # one at a time
            message = replace(message, actions=tuple(act for act in message.actions if act.key not in FIXES))
        return about_model(message, model_name(controller, made.request.model), now)

    def _model_changed(self) -> None:
        """Another model, or a cure that was applied or taken back: the banner speaks of what is."""
        if self.shown is not None:
            self._show_undo(self.shown)
        if self.shown is not None and not self.banner.isHidden() and self._message(self.shown) != self.banner.message:
            self._show_banner(self.shown, asked=True)
        self._settle()

    def _thumbnails_came(self) -> None:
        fix = self._controller.state.fix
        if fix.state == "fixed" and self.shown is not None and fix.concerns(self.shown.key) and not self.banner.isHidden():
            self._show_pair(fix)

    def _show_undo(self, made: Made) -> None:
        """The receipt takes the cure back, as long as it is in use."""
        self.sheet.undo.setVisible(model_now(self._controller, made.request.model) == "cured")

    def _undo_fix(self) -> None:
        session, model = self._controller.session, self._controller.model
        if session.state.fix.state == "fixed":
            session.fixing.undo()
        elif (report := session.checks.report(model)) is not None:
            session.checks.undo(report)

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
        if self._controller.state.fix is not self._fix:
            self._fix_changed()
        job = self._job()
        following = job is not None and self.following
        self.transport.setVisible(job is not None)
        if job is not None:
            self.transport.show_job(job, self._controller.state.device)
        self._settle()
        sight = self.sight
        without_file = sight == "dots" and self._making() is None  # its receipt says why
        done = self.shown is not None and job is None and (sight == "picture" or without_file)
        self.receipt.setVisible(done)
        self.sheet.setVisible(done and self.receipt.isChecked())
        if following or sight == "editing":
            self.banner.hide()
        draws = job is not None and job.kind == "Generate"  # what is made larger has no preview, and stays as it is
        there = not self._preview.isNull()
        self.toolbar.set_live(running=draws, following=self.following, preview=there, step=self._preview_step)
        self._share()

    def _making(self) -> Job | None:
        """The picture that is being made, or is made next; that of a fix has its place in the banner."""
        state = self._controller.state
        first = state.jobs[0] if state.jobs else None
        if first is None or first.kind != "Generate" or first.key == state.fix.job:
            return None
        return first if first.running or not state.paused else None

    def _job(self) -> Job | None:
        """The job whose picture stands in the centre while it is made; that of a fix has its place in the banner."""
        state = self._controller.state
        job = state.running_kind("Generate", "Upscale")
        return None if job is not None and job.key == state.fix.job else job

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
        others = (self.toolbar, self.unwatched, self.imported, self.next_steps, self.receipt, self.transport)
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
