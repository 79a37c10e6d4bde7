"""The bar under a finished picture: its size, seed, time and numerics receipt; a click opens the whole receipt."""

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from halftone.contract.facts import PictureFacts
from halftone.contract.parameters import OPTION_PARAMETERS, option_numbers
from halftone.contract.request import PictureRequest
from halftone.contract.wording import Words
from halftone.gui import text, theme
from halftone.gui.create.picture import picture_details, picture_text
from halftone.gui.create.picture.picture_details import pass_rows
from halftone.gui.create.rows.hires_row import hires_line
from halftone.gui.create.rows.replaced_row import refiner_line
from halftone.gui.i18n import catalogue, listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.dots import RoomGauge
from halftone.gui.kit.stock_widgets import (
    FactGrid,
    HoverButton,
    IconLabel,
    boxed,
    button,
    clear,
    column,
    label,
    row,
    scrolling,
    set_tone,
    surface,
)
from halftone.health.pictures.frame_lists import frame_list, video_seconds
from halftone.library.add_ons.vaes import vae_name
from halftone.library.prompts.drawn_prompts import as_made
from halftone.session.pictures.grid import variables


def receipt_rows(picture: PictureFacts, request: PictureRequest) -> list[tuple[str, str]]:
    """The whole receipt: what was asked for, what ran in which type, what was found, what was done."""
    rows = _asked_rows(picture, request)
    if picture.sheet is None:
        rows += [*_found_rows(picture), *_made_rows(picture)]
    else:
        labels = {one.name: one.label for one in variables(request)}
        axes = [(_spoken(labels.get(name, name)), values) for name, values in picture.sheet.axes]
        varied = {name for name, _ in axes}
        whole = [(tr("Pictures"), str(picture.sheet.pictures)), (tr("File"), picture.path)]
        rows = [*(row for row in rows if row[0] not in varied), *axes, *whole]
    return [(name, value) for name, value in rows if value]


def _spoken(label: Words | str) -> str:
    return label.text(catalogue()) if isinstance(label, Words) else label


def _asked_rows(picture: PictureFacts, request: PictureRequest) -> list[tuple[str, str]]:
    said, left_out = (picture.prompt or request.prompt), (picture.negative or request.negative)
    varied = "" if picture.variation_seed is None else figures.group(picture.variation_seed)
    return [
        (tr("Prompt"), said),
        (tr("Written as"), request.prompt if said != request.prompt else ""),
        (tr("Negative prompt"), left_out),
        (tr("Seed"), str(picture.seed)),
        (tr("Size"), f"{picture.width} × {picture.height}"),
        (tr("Model"), request.model),
        (tr("Styles"), listed(*(style.name for style in request.styles)) if request.styles else ""),
        (tr("Variation"), varied and f"{varied} · {request.variation_strength:g}"),
        (tr("Transformer"), "" if request.transformer is None else vae_name(request.transformer)),
        (tr("VAE"), "" if request.vae is None else vae_name(request.vae)),
        (tr("Guidance"), "" if request.guidance is None else figures.decimal(request.guidance)),
        (tr("Sampler"), request.sampler or ""),
        *option_rows(request),
        (tr("ControlNet"), text.net_list(request.controls)),
        (tr("IP-Adapter"), text.adapter_list(request.ip_adapters)),
        (tr("Hires. fix"), hires_line(request.hires)),
        (tr("Refiner"), refiner_line(request.refiner)),
        (tr("LoRA"), text.net_list(as_made(request, picture).loras)),
        *start_rows(request),
    ]


def option_rows(request: PictureRequest) -> list[tuple[str, str]]:
    """Options of the pipeline: those with a name of their own, then the others."""
    own = option_numbers(request)
    others = ", ".join(f"{name} {value}" for name, value in request.options.items() if name not in own)
    known = ((OPTION_PARAMETERS[name], number) for name, number in own.items())
    named = [(one.label.text(catalogue()), one.text(number) or f"{number:g}") for one, number in known]
    return [*named, (tr("Other options"), others)]


def _found_rows(picture: PictureFacts) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, dtype in picture.dtypes.items():
        cure = picture_details.cure_name(picture.cures.get(name, ""))
        rows.append((text.part_name(name), ", ".join(filter(None, [text.TYPE_NAMES[dtype], cure]))))
    watched = picture.state != "unwatched"
    rows.append((tr("NaN"), tr("{0} found", len(picture.events)) if watched else tr("not checked")))
    if picture.room_bits is not None:
        rows.append((tr("Latent headroom"), figures.bits(picture.room_bits)))
    for event in picture.events:
        where = f"{event.component}.{event.module}" if event.module else text.part_name(event.component)
        done = picture_details.cure_name(event.cure)
        rows.append((where, f"{done}, {picture_details.elapsed(event.seconds)}" if event.seconds else done))
        if event.lora is not None:
            rows.append((tr("Cause"), tr("LoRA: {0}", listed(*event.lora.names))))
    return rows


def _made_rows(picture: PictureFacts) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if picture.stopped_of is not None:
        rows.append((tr("Steps"), tr("stopped at step {0} of {1}", picture.steps, picture.stopped_of)))
    elif picture.upscaled is not None:
        how = picture.upscaled
        rows += [(tr("Upscaled"), tr("{0} ×", how.scale)), (tr("Upscaler"), how.upscaler), (tr("Source"), how.source)]
    elif not picture.passes:
        rows.append((tr("Steps"), str(picture.steps)))
    rows += pass_rows(picture)
    if picture.frames > 1:
        length = figures.decimal(video_seconds(picture))
        rows.append((tr("Video"), tr("{0} frames, {1} fps, {2} s", picture.frames, picture.fps or 0, length)))
    if picture.broken_frames:
        rows.append((tr("Frames with NaN"), frame_list(picture.broken_frames)))
    elif picture.flat_frames:
        rows.append((tr("Flat frames"), frame_list(picture.flat_frames)))
    if picture.peak_memory is not None:
        tiled = tr("decoded in tiles") if picture.tiled else ""
        rows.append((tr("Peak memory"), listed(figures.size(picture.peak_memory), tiled)))
    rows.append((tr("Notes"), "\n".join(note.text(catalogue()) for note in picture.ran)))
    rows.append((tr("File"), picture.path))
    return rows


def start_rows(request: PictureRequest) -> list[tuple[str, str]]:
    """Rows of a picture that was made from another one."""
    start = request.start
    if request.image is None:
        return []
    strength = "" if start.strength is None else tr("strength {0}", figures.decimal(start.strength, 2))
    sides = ", ".join(map(str, start.outpaint)) if start.extends else ""
    return [
        (tr("Image to image"), listed(request.image, strength)),
        (tr("Mask"), request.mask or ""),
        (tr("Outpaint"), sides and tr("{0} (left, top, right, bottom)", sides)),
    ]


class ReceiptBar(HoverButton):
    """44 high."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(theme.grown(44))
        self.setCheckable(True)
        self.setToolTip(tr("Show receipt"))
        self._narrow = False
        self.size_words = label("", "small", "secondary", numbers=True)
        self.seed_words = label("", "small", "secondary", numbers=True)
        self.time_words = label("", "small", "secondary", numbers=True)
        self.state_icon = IconLabel("circle-check", "ok", 16)
        self.word = label("", "small-strong", "ok")
        self.sentence = label("", "small", "secondary")
        self.gauge = RoomGauge()
        self.room = label("", "small", "secondary", numbers=True)
        of_what = tr("Layers may have less.")
        self.gauge.setToolTip(of_what)
        self.room.setToolTip(of_what)
        self.chevron = IconLabel("chevron-up", "text-secondary", 16)
        self._line = row(
            self.size_words,
            self.seed_words,
            self.time_words,
            -1,
            self.state_icon,
            self.word,
            self.sentence,
            4,
            self.gauge,
            self.room,
            8,
            self.chevron,
            spacing=8,
            margins=(16, 0, 20, 0),
        )
        frame = surface("plain", "top", layout=self._line)
        for part in frame.findChildren(QWidget):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        frame.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setLayout(column(frame, spacing=0))
        self.toggled.connect(lambda on: self.chevron.set("chevron-down" if on else "chevron-up", "text-secondary"))

    def show_picture(self, picture: PictureFacts) -> None:
        icon, tone, word, sentence = picture_text.receipt(picture)
        if picture.stopped_of is not None:
            sentence = listed(sentence, tr("stopped at step {0} of {1}", picture.steps, picture.stopped_of))
        frames = tr("{0} frames", picture.frames) if picture.frames > 1 else ""
        self.size_words.setText("  ".join(filter(None, (f"{picture.width} × {picture.height}", frames))))
        self.seed_words.setText("  " + tr("Seed {0}", figures.group(picture.seed)))
        self.time_words.setText("  " + picture_details.elapsed(picture.seconds))
        self.state_icon.set(icon, tone)
        self.word.setText(word)
        set_tone(self.word, tone)
        self.sentence.setText(sentence)
        room = picture.room_bits if picture.state == "clean" else None
        self.gauge.set_bits(room)
        self.gauge.setVisible(room is not None)
        self.room.setText("" if room is None else tr("{0} headroom", figures.bits(room)))
        self.setAccessibleName(f"{word}. {sentence}")
        self._fit()

    def set_narrow(self, narrow: bool) -> None:
        self._narrow = narrow
        self._fit()

    def _fit(self) -> None:
        self.size_words.show()
        self.seed_words.setVisible(not self._narrow)
        self.time_words.setVisible(not self._narrow)
        self.sentence.setVisible(not (self._narrow and not self.gauge.isHidden()))
        self.room.setVisible(not self.gauge.isHidden())
        for words in (self.sentence, self.room, self.size_words):  # the word of the state stays
            if self._line.sizeHint().width() > self.width() > 0:
                words.hide()
        self._line.invalidate()  # it took its size as settled when it was asked

    def minimumSizeHint(self) -> QSize:
        """What is shown now holds nobody back: narrower, it gives way."""
        return QSize(0, self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()


class ReceiptSheet(QWidget):
    """The whole receipt, between picture and bar; scrolls inside. `reshaped`: it wants another height."""

    message_requested = Signal()
    undo_requested = Signal()
    reshaped = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._grid = FactGrid(across=24, down=5)
        self._message = button(tr("What happened"), "link", clicked=self.message_requested.emit)
        self.undo = button(tr("Undo the fix"), "link", clicked=self.undo_requested.emit)
        self.undo.hide()
        head = row(label(tr("Receipt"), "body-strong"), -1, self.undo, self._message, spacing=16)
        self._inside = boxed(column(head, self._grid, -1, spacing=8, margins=(16, 12, 16, 12)))
        self._area = scrolling(self._inside)
        frame = surface("raised", "top", layout=column(self._area, spacing=0))
        self.setLayout(column(frame, spacing=0))
        self._rows: list[tuple[str, str]] = []
        self.hide()

    def wanted_height(self) -> int:
        """Pixels that show everything without scrolling."""
        layout = self._inside.layout()
        width = max(200, self._area.viewport().width())
        return (layout.totalHeightForWidth(width) if layout is not None else 0) + 2

    def show_picture(self, picture: PictureFacts, request: PictureRequest, *, has_message: bool) -> None:
        """has_message: there is a banner that can be opened again."""
        self._message.setVisible(has_message)
        self._rows = receipt_rows(picture, request)
        clear(self._grid)
        if self.isVisible():
            self._fill()

    def showEvent(self, event: object) -> None:
        """Filled only when it is opened: twenty labels cost as much as all else that a finished picture changes."""
        if not self._grid.count():
            self._fill()

    def _fill(self) -> None:
        lines = ((label(name, "small", "muted"), label(value, "small", numbers=True, wrap=True)) for name, value in self._rows)
        self._grid.fill(lines)
        QTimer.singleShot(0, self, self.reshaped.emit)  # labels have no height before they are shown
