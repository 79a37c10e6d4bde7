"""The right panel of the Models page: everything about one entry, and what can be done with it."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QImage, QPainter
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QSizePolicy, QWidget

from halftone.contract.vocabulary import DTYPE_NAMES, DType
from halftone.gui import icons, text, theme
from halftone.gui.i18n import listed, say, sentences, tr
from halftone.gui.kit import actions, figures
from halftone.gui.kit.dots import RoomGauge
from halftone.gui.kit.painting import Painted, plate
from halftone.gui.kit.stock_widgets import (
    HEALTH_LOOK,
    Card,
    ElidedLabel,
    FactGrid,
    IconLabel,
    boxed,
    button,
    clear,
    column,
    health_word,
    hline,
    icon_button,
    label,
    row,
    scrolling,
    set_icon,
    surface,
)
from halftone.gui.models.flow_layout import FlowLayout
from halftone.gui.models.model_words import dtype_words, problem_words, stored_words, use_words
from halftone.gui.views.thumbnails import paint_thumbnail
from halftone.library.index.entries import Entry, PartFile
from halftone.session.models.healths import Health
from halftone.session.models.listing import Row, short_family

_CARD: Final = {"healthy": "ok", "cured": "ok", "tight": "warn", "overflows": "danger", "broken": "danger"}
Facts = Sequence[tuple[str, str]]


class Preview(Painted):
    """A picture made with the model, or the sign of its kind."""

    def __init__(self) -> None:
        super().__init__()
        self._image, self._icon = QImage(), "boxes"
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_image(self, image: QImage, icon: str) -> None:
        self._image, self._icon = image, icon
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(260, 148)

    def draw(self, painter: QPainter) -> None:
        box = QRectF(self.rect())
        if not self._image.isNull():
            paint_thumbnail(painter, box, self._image)
            return
        plate(painter, box, 3, "surface-sunken")
        sign = QRectF(box.center().x() - 18, box.center().y() - 18, 36, 36)
        icons.paint(painter, self._icon, sign, theme.current().color("border-control"))


class NoteField(QPlainTextEdit):
    """Saves what was typed once the field is left, or after a pause. edited: the note."""

    edited = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._saved = ""
        self.setAccessibleName(tr("Note"))
        self.setPlaceholderText(tr("Add a note"))
        self.setTabChangesFocus(True)
        self.setFixedHeight(theme.grown(58))

    def show_note(self, note: str) -> None:
        """Show another one; what is being typed stays."""
        if note != self._saved or not self.hasFocus():
            self._saved = note
            if self.toPlainText() != note:
                self.setPlainText(note)

    def save(self) -> None:
        if (note := self.toPlainText().strip()) != self._saved:
            self._saved = note
            self.edited.emit(note)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.save()


class HealthCard(Card):
    """How the numbers of a model behave here, in each precision in which it was checked."""

    opened = Signal()
    checked = Signal()

    def __init__(self) -> None:
        super().__init__("unknown")
        self._icon = IconLabel("circle-dashed", "unknown", 18)
        self._title = label("", "body-strong", wrap=True)
        self.open = button(tr("Open"), "link", tip=tr("See model health"), clicked=self.opened.emit)
        self.check = button(tr("Check"), "link", clicked=self.checked.emit)
        self._text = label("", "small", "secondary", wrap=True)
        self._gauge = RoomGauge()
        self._bits = label("", "small", "", numbers=True)
        self._room = boxed(row(self._gauge, self._bits, -1, spacing=8))
        self._others = column(spacing=2)
        head = row(self._icon, self._title, self.check, self.open, spacing=8, stretch=1)
        self.setLayout(column(head, self._text, self._room, self._others, spacing=6, margins=(12, 10, 10, 12)))

    def show_health(self, row_: Row, health: Health | None, where: str, busy: bool) -> None:
        """where: on this GPU; busy: a check of it is queued."""
        badge = row_.badge
        self.setVisible(badge is not None)
        if badge is None:
            return
        icon, tone = HEALTH_LOOK[badge.state]
        self.set_kind(_CARD.get(badge.state, "unknown"))
        self._icon.set(icon, tone)
        word = health_word(badge.state)
        self._title.setText(word if badge.state == "unchecked" else tr("{1} {0}", where, word))
        self._text.setText(say(badge.reason))
        self._room.setVisible(badge.room_bits is not None)
        if badge.room_bits is not None:
            self._gauge.set_bits(badge.room_bits)
            self._bits.setText(tr("{0} of headroom", figures.bits(badge.room_bits)))
        self.check.setVisible(badge.state == "unchecked")
        self.check.setEnabled(not busy)
        self.check.set_words(tr("Queued") if busy else tr("Check"))
        self.open.setVisible(badge.state != "unchecked" or badge.elsewhere)
        clear(self._others)
        if health is not None and health.fingerprint == row_.entry.fingerprint:
            for dtype in DTYPE_NAMES:
                if dtype in health.checks and (len(health.checks) > 1 or dtype != health.precision):
                    self._others.addWidget(_precision_line(dtype, health))
        self.setAccessibleName(sentences(tr("{0}.", self._title.text()), self._text.text()))


def _precision_line(dtype: DType, health: Health) -> QWidget:
    """FP16, its state, its headroom."""
    badge = health.checks[dtype].badge
    icon, tone = HEALTH_LOOK[badge.state]
    words = health_word(badge.state)
    if badge.room_bits is not None:
        words = listed(words, figures.bits(badge.room_bits))
    name = label(DTYPE_NAMES[dtype], "small", "" if dtype == health.precision else "muted")
    name.setFixedWidth(theme.grown(40))
    return boxed(row(name, IconLabel(icon, tone, 14), label(words, "small", "secondary", numbers=True), -1, spacing=6))


class FileCard(QWidget):
    """What a scan of the weights found: NaN, truncation, values that a cast to FP16 would lose."""

    wanted = Signal()
    stopped = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._icon = IconLabel("circle-dashed", "unknown", 14)
        self._words = label("", "small", "secondary", wrap=True)
        tip = tr("Reads every weight: NaN, truncation, FP16 range.")
        self.check = button(tr("Check the file"), "link", tip=tip, clicked=self.wanted.emit)
        self.stop = button(tr("Stop"), "link", clicked=self.stopped.emit)
        self.setLayout(row(self._icon, self._words, self.check, self.stop, spacing=8, stretch=1))

    def show_state(self, icon: str, tone: str, words: str, *, can_check: bool, can_stop: bool) -> None:
        self._icon.set(icon, tone)
        self._words.setText(words)
        self.check.setVisible(can_check)
        self.stop.setVisible(can_stop)


class Inspector(QWidget):
    """Shows the row that it was given last; every signal is about that row."""

    used = Signal()
    health_wanted = Signal()
    check_wanted = Signal()
    file_check_wanted = Signal()
    file_stop_wanted = Signal()
    favoured = Signal(bool)
    noted = Signal(str)
    word_chosen = Signal(str)
    menu_wanted = Signal(object)
    convert_wanted = Signal()
    collapse = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.row: Row | None = None
        self._words: tuple[str, ...] = ()
        self.title = ElidedLabel("", "heading-s")
        self.star = icon_button("star", tr("Add to favourites"), clicked=self._favour)
        self.fold = icon_button("panel-right-close", actions.tip("right-panel", tr("Hide panel")), clicked=self.collapse.emit)
        head = surface("plain", "bottom")
        head.setFixedHeight(theme.grown(48))
        head.setLayout(row(self.title, self.star, self.fold, spacing=4, margins=(16, 0, 10, 0), stretch=0))
        self._build_body()
        self._build_foot()
        self.none = label(tr("Select a model."), "small", "muted")
        self.none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        frame = surface("plain")
        frame.setLayout(column(head, self.none, self.body, self.foot, spacing=0, stretch=(1, 2)))
        self.setLayout(column(frame, spacing=0))
        self.show_row(None, "", "", None, busy=False)

    def _build_body(self) -> None:
        self.preview = Preview()
        self.problem = Card("warn")
        self._problem_title, self._problem_text = label("", "body-strong", wrap=True), label("", "small", "secondary", wrap=True)
        self.convert = button(tr("Convert to safetensors"), "", "file-down", clicked=self.convert_wanted.emit)
        words = column(self._problem_title, self._problem_text, row(self.convert, -1), spacing=6, margins=(12, 10, 12, 12))
        self.problem.setLayout(words)
        self.health = HealthCard()
        self.health.opened.connect(self.health_wanted)
        self.health.checked.connect(self.check_wanted)
        self.facts = FactGrid(across=10, down=5, names=72)
        self.file = FileCard()
        self.file.wanted.connect(self.file_check_wanted)
        self.file.stopped.connect(self.file_stop_wanted)
        self.triggers = FlowLayout(spacing=4)
        self._trigger_part = boxed(column(label(tr("Trigger words"), "small", "muted"), boxed(self.triggers), spacing=6))
        self.notes = label("", "small", "secondary", wrap=True)
        self.notes.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._notes_part = boxed(column(label(tr("Description"), "small", "muted"), self.notes, spacing=4))
        self.note = NoteField()
        self.note.edited.connect(self.noted)
        self._note_part = boxed(column(label(tr("Note"), "small", "muted"), self.note, spacing=4))
        inside = column(
            self.preview,
            self.problem,
            self.health,
            self.facts,
            self.file,
            self._trigger_part,
            hline(),
            self._note_part,
            self._notes_part,
            -1,
            spacing=12,
            margins=(16, 14, 16, 14),
        )
        self.body = scrolling(boxed(inside))

    def _build_foot(self) -> None:
        self.use = button(tr("Use in Create"), "primary", size="large", clicked=self.used.emit)
        self.see = button(tr("Health"), "", "activity", size="large", clicked=self.health_wanted.emit)
        self.more = icon_button("ellipsis", tr("More actions"), kind="framed", clicked=lambda: self.menu_wanted.emit(self.more))
        self.more.setFixedSize(32, 32)
        self.foot = surface("plain", "top")
        self.foot.setFixedHeight(theme.grown(57))
        self.foot.setLayout(row(self.use, self.see, self.more, spacing=8, margins=(16, 0, 16, 0), stretch=0))

    def show_row(
        self, shown: Row | None, folder: str, where: str, health: Health | None, *, busy: bool, sha256: str = ""
    ) -> None:
        """folder: as it is shown; where: on this GPU; busy: a check of it is queued."""
        if self.row is not None and (shown is None or shown.entry.path != self.row.entry.path):
            self.note.save()
        self.row = shown
        there = shown is not None
        for part in (self.body, self.foot, self.star):
            part.setVisible(there)
        self.none.setVisible(not there)
        if shown is None:
            self.title.set_text("")
            return
        entry, mark = shown.entry, shown.mark
        self.title.set_text(entry.name, entry.path)
        tip = tr("Remove from favourites") if mark.favourite else tr("Add to favourites")
        self.star.setToolTip(tip)
        self.star.setAccessibleName(tip)
        set_icon(self.star, "star", "warn" if mark.favourite else "text-secondary")
        what, remedy = problem_words(shown)
        self.problem.setVisible(bool(what))
        self.problem.set_kind("danger" if entry.error is not None else "warn")
        self._problem_title.setText(what)
        self._problem_text.setText(remedy)
        self.convert.setVisible(entry.pickle)
        self.health.show_health(shown, health, where, busy)
        self._show_facts(facts_of(shown, folder, health, sha256))
        self._show_triggers(entry.description.triggers)
        self.notes.setText(entry.description.notes)
        self._notes_part.setVisible(bool(entry.description.notes))
        self.note.show_note(mark.note)
        words = use_words(shown)
        self.use.setEnabled(bool(words))
        self.use.setToolTip("" if words else tr("Create cannot use this file."))
        self.see.setVisible(shown.badge is not None)

    def show_converting(self, words: str) -> None:
        """words: how far the conversion is; "" where none runs."""
        self.convert.setText(words or tr("Convert to safetensors"))
        self.convert.setEnabled(not words)

    def _favour(self) -> None:
        if self.row is not None:
            self.favoured.emit(not self.row.mark.favourite)

    def _show_facts(self, facts: Facts) -> None:
        self.facts.fill((label(name, "small", "muted"), _value(value)) for name, value in facts)

    def _show_triggers(self, words: tuple[str, ...]) -> None:
        self._trigger_part.setVisible(bool(words))
        if words == self._words:
            return
        self._words = words
        clear(self.triggers)
        for word in words:
            made = button(word, size="compact", tip=tr("Add to the prompt"), clicked=partial(self.word_chosen.emit, word))
            made.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
            self.triggers.addWidget(made)


def _value(words: str) -> QLabel:
    made = label(words, "small", wrap=True, numbers=True)
    made.setMinimumWidth(10)
    return made


def facts_of(shown: Row, folder: str, health: Health | None, sha256: str) -> Facts:
    """Names and values of what is known of a file."""
    entry = shown.entry
    check = health.checks.get(health.precision) if health is not None else None
    lora = listed(*filter(None, (entry.lora, tr("rank {0}", entry.rank) if entry.rank else "")))
    title = entry.description.title
    found = (
        (tr("Title"), title if title != entry.name else ""),
        (tr("Kind"), lora or ("" if entry.kind in ("checkpoint", "unknown") else entry.kind)),
        (tr("Family"), short_family(entry.base or entry.family) if entry.base or entry.family else ""),
        (tr("Weight"), f"{entry.description.weight:g}" if entry.description.weight else ""),
        (tr("Stored as"), listed(*filter(None, (stored_words(entry), _format(entry))))),
        *((_part_name(part.component), _part_words(part)) for part in entry.parts),
        (tr("Runs as"), DTYPE_NAMES[health.precision] if health is not None else ""),
        (tr("File size"), tr("{0} on disk", figures.size(entry.size))),
        (tr("Checked"), figures.moment(check.checked_at) if check is not None else ""),
        (tr("AutoV2"), sha256[:10].upper()),
        (tr("Folder"), folder),
    )
    return [(name, value) for name, value in found if value]


def _part_name(component: str) -> str:
    known = {
        "unet": tr("UNet"),
        "transformer": tr("Transformer"),
        "transformer_2": tr("Transformer 2"),
        "text_encoder": tr("Text encoder"),
        "text_encoder_2": tr("Text encoder 2"),
        "text_encoder_3": tr("Text encoder 3"),
        "vae": tr("VAE"),
    }
    return known.get(component) or text.part_name(component)


def _part_words(part: PartFile) -> str:
    """The file, the type of its weights and its size. Names of files have few places where a line can end."""
    dtype = "" if part.dtype in ("", "none") else dtype_words(part.dtype)
    name = re.sub(r"(?<=[-_.])", "\u200b", Path(part.path).name)
    return listed(*filter(None, (name, dtype, figures.size(part.size))))


def _format(entry: Entry) -> str:
    return tr("diffusers folder") if entry.whole else Path(entry.path).suffix.removeprefix(".")
