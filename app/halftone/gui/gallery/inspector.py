"""The right panel of the gallery: what is known of the selected pictures, and what there is to do with them."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF, Qt, Signal
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from halftone.gui import theme
from halftone.gui.background import Background
from halftone.gui.create.picture import picture_text
from halftone.gui.create.picture.picture_images import read_later
from halftone.gui.create.picture.video_player import Player
from halftone.gui.gallery import gallery_text
from halftone.gui.gallery.gallery_text import Namer
from halftone.gui.gallery.grid import pictures_words
from halftone.gui.i18n import tr
from halftone.gui.kit import actions
from halftone.gui.kit.actions import ActionName
from halftone.gui.kit.dots import RoomGauge
from halftone.gui.kit.stock_widgets import (
    Card,
    FactGrid,
    HoverButton,
    IconLabel,
    boxed,
    button,
    clear,
    column,
    hline,
    icon_button,
    label,
    row,
    scrolling,
    set_icon,
    surface,
)
from halftone.gui.views.thumbnails import paint_sign
from halftone.session.pictures.gallery_state import DESCRIBED, Detail

_NAMES: Final = 66
TILES: Final = 4
"""How many of several pictures are shown."""
COMPARED: Final = (2, 4)
"""How many pictures can be compared."""


class Preview(HoverButton):
    """The selected picture; a click shows it large. A video plays."""

    def __init__(self) -> None:
        super().__init__()
        self._images: list[QImage] = []
        self._gone = False
        self.setFixedHeight(236)
        self.setAccessibleName(actions.words("large"))
        self.setToolTip(actions.with_keys(actions.words("large"), tr("Space")))
        policy = self.sizePolicy()
        policy.setHorizontalPolicy(QSizePolicy.Policy.Expanding)
        self.setSizePolicy(policy)

    @property
    def empty(self) -> bool:
        """Whether a picture is still to come."""
        return not self._images and not self._gone

    def show_images(self, *images: QImage, gone: bool = False) -> None:
        """One picture, or the first of several."""
        self._images, self._gone = [image for image in images if not image.isNull()], gone
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, 236)

    def draw(self, painter: QPainter) -> None:
        painter.fillRect(self.rect(), theme.current().color("canvas"))
        if self._gone and not self._images:
            paint_sign(painter, QRectF(self.rect()), "image-off")
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        for image, tile in zip(self._images, _tiles(QRectF(self.rect()), len(self._images)), strict=True):
            size = QSizeF(image.size()).scaled(tile.size(), Qt.AspectRatioMode.KeepAspectRatio)
            place = QRectF(QPointF(), size)
            place.moveCenter(tile.center())
            painter.drawImage(place, image)


def _tiles(whole: QRectF, count: int) -> list[QRectF]:
    """Places of up to four pictures: one, two side by side, or in two lines."""
    gap = 4.0
    wide = (whole.width() - gap) / 2 if count > 1 else whole.width()
    high = (whole.height() - gap) / 2 if count > 2 else whole.height()
    return [QRectF(place % 2 * (wide + gap), place // 2 * (high + gap), wide, high) for place in range(count)]


class Inspector(QWidget):
    """`acted`: an action on the selected pictures; `drop_wanted`: the missing picture is to be listed no more; `favourite_set`;
    `folded`: the panel is to be hidden.
    """

    acted = Signal(str)
    drop_wanted = Signal()
    favourite_set = Signal(bool)
    folded = Signal()

    def __init__(self, background: Background, name: Namer, fill_collections: Callable[[QMenu], None]) -> None:
        """name: gives a model's name for its id; fill_collections: fills the menu of collections."""
        super().__init__()
        self._background, self._name, self._fill_collections = background, name, fill_collections
        self._details: tuple[Detail, ...] = ()
        self._turn = 0
        self.player = Player(background, self)
        self._build()
        self.player.framed.connect(self._frame)
        self.player.failed.connect(self._say_unplayed)

    def _act(self, name: ActionName) -> Callable[[], None]:
        return lambda: self.acted.emit(name)

    # --- building ---------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.title = label(tr("Picture"), "heading-s")
        self.favourite = icon_button("star", tr("Favourite"), checkable=True)
        self.favourite.clicked.connect(self.favourite_set)
        self.large = icon_button("maximize", actions.with_keys(actions.words("large"), tr("Space")), clicked=self._act("large"))
        fold = icon_button("panel-right-close", actions.tip("right-panel", tr("Hide panel")), clicked=self.folded.emit)
        head = surface("plain", "bottom")
        head.setFixedHeight(theme.grown(48))
        head.setLayout(row(self.title, -1, self.favourite, self.large, fold, spacing=6, margins=(16, 0, 10, 0)))
        self.setLayout(column(head, self._body(), self._footer(), spacing=0, stretch=1))

    def _body(self) -> QWidget:
        self.preview = Preview()
        self.preview.clicked.connect(self._act("large"))
        drop = button(tr("Remove from gallery"), "link", clicked=self.drop_wanted.emit)
        self.missing = Card("warn", column(label(tr("The file is missing."), wrap=True), drop, spacing=2, margins=(12, 8, 12, 6)))
        self.unplayed = label("", "small", "warn", wrap=True)
        self.silent = label("", "small", "muted", wrap=True)
        copy = icon_button("copy", tr("Copy prompt"), size=14, clicked=lambda: self.acted.emit("copy-prompt"))
        self.prompt, self.negative = label("", wrap=True), label("", "small", "secondary", wrap=True)
        for part in (self.prompt, self.negative):
            part.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        title = row(label(tr("Prompt"), "small", "muted"), -1, copy)
        self.prompt_part = boxed(column(title, self.prompt, spacing=2))
        self.negative_part = boxed(column(label(tr("Negative prompt"), "small", "muted"), self.negative, spacing=2))
        self.facts = FactGrid(across=12, down=5, names=_NAMES)
        self.numerics = FactGrid(across=12, down=5, names=_NAMES)
        self.state_icon, self.state_word, self.gauge = IconLabel("", "ok", 16), label("", "body-strong"), RoomGauge()
        state = row(self.state_icon, self.state_word, -1, self.gauge, spacing=8)
        self.receipt = boxed(column(hline(), 4, state, self.numerics, spacing=6))
        self.compare = button(actions.words("compare"), "", "square-split-horizontal", clicked=self._act("compare"))
        self.hint = label("", "small", "muted", wrap=True)
        parts = (
            self.preview,
            self.unplayed,
            self.missing,
            self.compare,
            self.hint,
            self.silent,
            self.prompt_part,
            self.negative_part,
        )
        self.rule = hline()
        inside = column(*parts, self.rule, self.facts, self.receipt, -1, spacing=10, margins=(16, 14, 16, 14))
        self.area = scrolling(boxed(inside))
        return self.area

    def _footer(self) -> QWidget:
        reuse = (actions.words("reuse"), "undo-2")
        self.reuse = button(reuse[0], "primary", reuse[1], size="large", tip=actions.tip("reuse"), clicked=self._act("reuse"))
        tip = tr("Copies only the seed into Create")
        self.seed_only = button(actions.words("seed-only"), size="large", tip=tip, clicked=self._act("seed-only"))
        self.send = button(tr("Send to"), "quiet", size="compact")
        self.send.setMenu(self._send_menu())
        self.vary = button(tr("Vary"), "quiet", "shuffle", size="compact", tip=actions.tip("vary"), clicked=self._act("vary"))
        self.collect = button(tr("Collections"), "quiet", size="compact")
        menu = QMenu(self.collect)
        menu.aboutToShow.connect(partial(self._fill, menu))
        self.collect.setMenu(menu)
        for opener in (self.send, self.collect):
            opener.setProperty("menu", True)  # the arrow
        self.show_file = button(actions.words("show"), "quiet", "folder-open", size="compact", clicked=self._act("show"))
        self.save = button(actions.words("save"), "quiet", "save", size="compact", clicked=self._act("save"))
        self.delete = icon_button("trash-2", actions.tip("delete"), clicked=self._act("delete"))
        main = row(self.reuse, self.seed_only, spacing=8, stretch=0)
        first = row(self.vary, self.send, self.collect, -1, spacing=4)
        second = row(self.show_file, self.save, -1, self.delete, spacing=4)
        self.foot = surface("plain", "top", column(main, first, second, spacing=6, margins=(16, 12, 16, 10)))
        return self.foot

    def _send_menu(self) -> QMenu:
        menu = QMenu(self)
        self.to_start = menu.addAction(tr("Image to image"), self._act("start"))
        self.to_inpaint = menu.addAction(tr("Inpaint"), self._act("inpaint"))
        self.to_upscale = menu.addAction(actions.words("upscale"), self._act("upscale"))
        return menu

    def _fill(self, menu: QMenu) -> None:
        menu.clear()
        self._fill_collections(menu)

    # --- what is shown ----------------------------------------------------------------------------------------------

    def show_details(self, details: Sequence[Detail], selected: int) -> None:
        """Show the selected pictures. details: what is known of them, fewer than `selected` while they are being read."""
        before, self._details = self._details, tuple(details)
        if selected == 1 and len(details) == 1:
            self._show_one(details[0], again=len(before) == 1 and before[0].id == details[0].id)
        else:
            self._show_several(details, selected)

    def _show_one(self, one: Detail, *, again: bool) -> None:
        self.title.setText(tr("Video") if one.frames > 1 else tr("Picture"))
        self.large.setVisible(True)
        self.foot.setVisible(True)
        self.preview.setVisible(True)
        self.compare.setVisible(False)
        self.hint.setVisible(False)
        self.missing.setVisible(one.gone)
        prompt, negative = gallery_text.prompts(one)
        self.prompt.setText(prompt)
        self.prompt_part.setVisible(bool(prompt))
        self.negative.setText(negative)
        self.negative_part.setVisible(bool(negative))
        self.silent.setText(_silent_words(one))
        self.silent.setVisible(bool(self.silent.text()))
        self._fill_facts(self.facts, gallery_text.facts(one, self._name))
        self._show_receipt(one)
        self._show_favourite((one,))
        can = not one.gone
        self.reuse.setEnabled(one.made is not None or (can and one.said is not None))
        self.vary.setEnabled(one.made is not None and one.made.facts.sheet is None)
        self.seed_only.setEnabled(one.seed is not None)
        for part in (self.send, self.show_file, self.save, self.delete):
            part.setEnabled(can)
        for part in (self.to_start, self.to_inpaint, self.to_upscale):
            part.setEnabled(one.frames == 1)
        if not again:
            self._read(one)
            self.area.verticalScrollBar().setValue(0)

    def _show_several(self, details: Sequence[Detail], selected: int) -> None:
        self._turn += 1
        self.player.stop()
        self.title.setText(pictures_words(selected) if selected else tr("Picture"))
        self.preview.setVisible(selected > 1)
        for part in (self.missing, self.unplayed, self.silent, self.prompt_part, self.negative_part, self.receipt, self.large):
            part.setVisible(False)
        known = selected > 0 and len(details) == selected
        self.foot.setVisible(selected > 0)
        self.compare.setVisible(selected in COMPARED and known and all(one.frames == 1 for one in details))
        too_many = tr("Select up to {0} pictures to see what they share.", DESCRIBED) if selected > DESCRIBED else ""
        self.hint.setText(too_many or ("" if selected else tr("Select a picture to see how it was made.")))
        self.hint.setVisible(bool(self.hint.text()))
        self.rule.setVisible(selected > 0)
        self._fill_facts(self.facts, gallery_text.shared(details, self._name) if known and selected > 1 else [])
        self._show_favourite(details)
        self.reuse.setEnabled(False)
        self.vary.setEnabled(False)
        self.seed_only.setEnabled(False)
        self.send.setEnabled(False)
        self.show_file.setEnabled(False)
        self.save.setEnabled(selected > 0)
        self.delete.setEnabled(selected > 0)

    def _show_receipt(self, one: Detail) -> None:
        self.receipt.setVisible(one.made is not None)
        if one.made is None:
            return
        icon, tone, word, sentence = picture_text.receipt(one.made.facts)
        self.state_icon.set(icon, tone)
        self.state_word.setText(tr("Numerics: {0}", word))
        self.state_word.setToolTip(sentence)
        bits = one.made.facts.room_bits if one.made.facts.state == "clean" else None
        self.gauge.set_bits(bits)
        self.gauge.setVisible(bits is not None)
        self._fill_facts(self.numerics, gallery_text.numerics(one.made.facts))

    def _show_favourite(self, details: Sequence[Detail]) -> None:
        on = bool(details) and all(one.favourite for one in details)
        self.favourite.setEnabled(bool(details))
        self.favourite.setChecked(on)
        set_icon(self.favourite, "star", "accent-text" if on else "text-secondary")

    def _fill_facts(self, grid: FactGrid, rows: Sequence[tuple[str, str]]) -> None:
        clear(grid)
        grid.fill((label(name, "small", "muted"), label(value, "small", numbers=True, wrap=True)) for name, value in rows)

    # --- the picture ------------------------------------------------------------------------------------------------

    def show_thumbnails(self, images: Sequence[QImage]) -> None:
        """What the grid has of the picture, until it is read, or of several."""
        if any(not image.isNull() for image in images):
            self.preview.show_images(*images)

    def _read(self, one: Detail) -> None:
        self._say_unplayed("")
        self._turn += 1
        turn = self._turn
        self.player.stop()
        self.preview.show_images(QImage(), gone=one.gone)
        if not one.gone:
            read_later(self._background, self, one.path, lambda image: self._take(turn, one, image))

    def _take(self, turn: int, one: Detail, image: QImage) -> None:
        if turn == self._turn:
            if not image.isNull():
                fit, kept = self.preview.size() * self.devicePixelRatioF(), Qt.AspectRatioMode.KeepAspectRatio
                image = image.scaled(fit, kept, Qt.TransformationMode.SmoothTransformation)
            self.preview.show_images(image, gone=image.isNull())
            if one.frames > 1:
                self.player.play(Path(one.path))

    def _say_unplayed(self, why: str) -> None:
        self.unplayed.setText(why)
        self.unplayed.setVisible(bool(why))

    def _frame(self, image: QImage) -> None:
        self.preview.show_images(image)

    def showEvent(self, event: object) -> None:
        self.player.set_running(True)

    def hideEvent(self, event: object) -> None:
        self.player.set_running(False)


def _silent_words(one: Detail) -> str:
    """Why nothing is known of a picture, "" where something is."""
    if one.made is not None or one.said is not None or one.gone:
        return ""
    if one.silent is not None and one.silent.code == "image-unreadable":
        return tr("This file cannot be read.")
    if one.silent is not None and one.silent.code == "picture-graph":
        return tr("Its workflow is too complex to read settings from.")
    return tr("This file has no settings inside.")
