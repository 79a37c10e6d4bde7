"""The picture that the next ones are made of: a folded row of the Create form, with its mask and room at its sides."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace
from PySide6.QtCore import Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.limits import STRENGTH_RANGE
from halftone.contract.vocabulary import Resize
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.file_choosers import ask_picture
from halftone.gui.create.form.form_fields import combo
from halftone.gui.create.rows.folded_row import FoldedPart, below
from halftone.gui.create.rows.start_picture_fields import (
    MaskFields,
    PictureDrop,
    PictureWell,
    Seen,
    SideFields,
    look_at,
    read_whole,
)
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import ElidedLabel, button, column, icon_button, label, row
from halftone.gui.text import error_remedy, error_sentence, problem
from halftone.library.tasks import takes_picture
from halftone.metadata.start_images import check_mask, check_shape
from halftone.session.pictures.draft import Draft, computed_edges, extends, has_strength, masks, sets_size

_PRESET: Final = 4
"""An extension is this part of the side it is added to."""


class StartPart(FoldedPart):
    """Picture, strength, mask and sides. `paint_wanted`: the mask is to be painted on the canvas."""

    paint_wanted = Signal()
    grows = False
    part_name = field = "image"

    def __init__(self, binding: Binding) -> None:
        tip = tr("Change, inpaint or outpaint a picture.")
        super().__init__(binding, tr("Image to image"), tip)
        self._seen: Seen | None = None
        self._mask_seen: str | None = None
        self._mask_small = QImage()
        self._trouble = ""
        self.drop = PictureDrop(self, self.row)
        self.drop.dropped.connect(self.use)
        binding.watch(self._look, "image")
        binding.watch(self._look_at_mask, "image", "mask")
        binding.watch(self._show, "image", "mask", "start", "only_masked")

    # --- building ---------------------------------------------------------------------------------------------------

    def build(self) -> None:
        self.well = PictureWell()
        self.name = ElidedLabel("")
        self.remove_button = icon_button("x", tr("Remove picture"), size=14, clicked=lambda: self.choose(None))
        self.choose_button = button(tr("Choose…"), icon="image", clicked=self._ask)
        self.size_button = button(tr("Use its size"))
        head = row(self.name, self.remove_button, spacing=4)
        head.setStretch(0, 1)
        beside = column(head, self.choose_button, self.size_button, -1, spacing=6)
        top = row(self.well, beside, spacing=10)
        top.setStretch(1, 1)
        tip = sentences(tr("How much to change the picture."), tr("{0} to {1}.", *STRENGTH_RANGE))
        self.strength = self._binding.slider("start.strength", tr("Denoising strength"), tip, (0.05, 1), 0.05)
        self.resize_words = label(tr("Resize mode"), "small", "secondary")
        self.resize_mode = combo(tr("Resize mode"), tr("Used when the aspect ratios differ."))
        modes: dict[Resize, str] = {
            "stretch": tr("Just resize"),
            "crop": tr("Crop and resize"),
            "fill": tr("Resize and fill"),
        }
        for value, words in modes.items():
            self.resize_mode.addItem(words, value)
        self.paint_button = button(tr("Paint…"), tip=tr("Paint the area to regenerate."))
        self.mask_button = button(tr("Choose…"), tip=tr("Mask picture: white is regenerated"))
        self.mask_remove = icon_button("x", tr("Remove mask"), size=14, clicked=lambda: self.choose_mask(None))
        self.mask_fields, self.side_fields = MaskFields(self._binding), SideFields()
        self.caption = label("", "caption", "muted", wrap=True)
        self._resizing, self._masking = QWidget(), QWidget()
        resizing = row(self.resize_words, self.resize_mode, spacing=8)
        resizing.setStretch(1, 1)
        self._resizing.setLayout(resizing)
        self._masking.setLayout(
            row(label(tr("Mask"), "small", "secondary"), self.paint_button, self.mask_button, self.mask_remove, -1, spacing=6)
        )
        self._rest = QWidget()
        parts = (self.strength, self._resizing, self._masking, self.mask_fields, self.side_fields)
        self._rest.setLayout(column(*parts, spacing=10))
        self.setLayout(column(top, self._rest, self.caption, self.note, spacing=10, margins=(14, 10, 14, 12)))
        self._connect()
        self._binding.quietly(self._show_inside)

    def _connect(self) -> None:
        self.well.clicked.connect(self._ask)
        self.size_button.clicked.connect(self._take_size)
        self.paint_button.clicked.connect(self.paint)
        self.mask_button.clicked.connect(lambda: ask_picture(self, self.choose_mask))
        self.side_fields.presets.clicked.connect(self._open_presets)
        self._binding.bind("start.resize", self.resize_mode)
        self._binding.bind("start.outpaint", self.side_fields)

    # --- the picture ------------------------------------------------------------------------------------------------

    def use(self, path: str) -> None:
        """Take a picture and show that it was taken."""
        self.choose(path)
        self.open()

    def choose(self, path: str | None) -> None:
        """None: no picture, and no mask."""
        if path == self._draft.image:
            self._look(path)
        self._binding.put(replace(self._draft, image=path, mask=None if path is None else self._draft.mask))

    @property
    def _draft(self) -> Draft:
        return self._binding.draft

    def _look(self, path: str | None) -> None:
        self._seen, self._trouble = None, ""
        if path is not None:
            self._controller.background.run(partial(look_at, path), self._looked, partial(self._not_looked, path), receiver=self)

    def _looked(self, seen: Seen) -> None:
        if seen.path != self._draft.image:
            return
        self._seen = seen
        if self._draft.mask is not None and not self._mask_small.isNull():
            size = self._mask_small.size()
            try:
                check_shape(self._draft.mask, (size.width(), size.height()), seen.size)
            except HalftoneError:
                self._trouble = tr("The mask did not fit and was removed.")
                self._binding.set("mask", None)
        self._show()

    def _not_looked(self, path: str, error: Exception) -> None:
        if path == self._draft.image:
            self._trouble = _words(error)
            self.open()
            self._show()

    def _ask(self) -> None:
        ask_picture(self, self.choose)

    def _take_size(self) -> None:
        if self._seen is not None:
            self._binding.set("size", tuple(max(8, edge // 8 * 8) for edge in self._seen.size))

    # --- the mask ---------------------------------------------------------------------------------------------------

    def choose_mask(self, path: str | None) -> None:
        """A file, if it shows the same places as the picture; None: no mask."""
        image = self._draft.image
        if path is None or image is None:
            self._binding.set("mask", None)
        else:
            self._read_mask(image, path, partial(self._take_mask, image, path), self._mask_refused)

    def _look_at_mask(self, image: str | None, mask: str | None) -> None:
        """A mask that came with the settings of a picture is removed where it cannot be used."""
        if mask is None or image is None:
            self._mask_seen, self._mask_small = None, QImage()
        elif mask != self._mask_seen:
            self._mask_small = QImage()
            self._read_mask(image, mask, partial(self._mask_fits, image, mask), partial(self._mask_unfit, mask))

    def _read_mask(self, image: str, path: str, ready: Callable[[QImage], None], refused: Callable[[Exception], None]) -> None:
        def look() -> QImage:
            check_mask(path, image)
            return read_whole(path)

        self._controller.background.run(look, ready, refused, receiver=self)

    def _take_mask(self, image: str, path: str, whole: QImage) -> None:
        if image == self._draft.image:
            self._mask_seen, self._mask_small, self._trouble = path, whole, ""
            self._binding.set("mask", path)
            self._show()

    def _mask_fits(self, image: str, path: str, whole: QImage) -> None:
        if path == self._draft.mask:
            self._take_mask(image, path, whole)

    def _mask_unfit(self, path: str, error: Exception) -> None:
        if path == self._draft.mask:
            self._binding.set("mask", None)
            self._mask_refused(error)

    def _mask_refused(self, error: Exception) -> None:
        self._trouble = _words(error)
        self._show()

    def paint(self) -> None:
        """Paint the mask on the canvas."""
        self.paint_wanted.emit()

    # --- sides ------------------------------------------------------------------------------------------------------

    def _open_presets(self) -> None:
        width, height = self._seen.size if self._seen is not None else (512, 512)
        across, down = (max(8, edge // _PRESET // 8 * 8) for edge in (width, height))
        menu = self.menu()
        for words, sides in (
            (tr("Left and right"), (across, 0, across, 0)),
            (tr("Top and bottom"), (0, down, 0, down)),
            (tr("All around"), (across, down, across, down)),
            (tr("None"), (0, 0, 0, 0)),
        ):
            menu.addAction(words, partial(self._binding.set, "start.outpaint", sides))
        below(menu, self.side_fields.presets)

    def computed(self) -> tuple[int, int]:
        """(width, height) that will be computed."""
        return computed_edges(self._draft, self._model, None if self._seen is None else self._seen.size)

    # --- what is shown ----------------------------------------------------------------------------------------------

    def follow(self, model: ModelFacts | None) -> None:
        super().follow(model)
        self._show()

    def problem(self) -> str:
        return super().problem() or (self._trouble if self._seen is None else "")

    def say(self, words: str) -> None:
        super().say(words or self._trouble)

    def _show(self, *_: object) -> None:
        draft, model = self._draft, self._model
        there, masked = model is None or takes_picture(model.pipeline), draft.mask is not None and masks(model)
        self.row.value.setText(self._value(there, masked, extends(draft, model)))
        if self.built:
            self._show_inside()
        self.say(self.problem())

    def _show_inside(self) -> None:
        draft, model = self._draft, self._model
        there, masks_ = model is None or takes_picture(model.pipeline), masks(model)
        masked, extended = draft.mask is not None, extends(draft, model)
        self.well.show_picture(QImage() if self._seen is None else self._seen.small, self._mask_small if masked else QImage())
        self.name.set_text("" if draft.image is None else Path(draft.image).name)
        self.name.setToolTip(draft.image or "")
        self.remove_button.setVisible(draft.image is not None)
        self.size_button.setVisible(self._seen is not None)
        self._rest.setVisible(draft.image is not None and there)
        self.strength.setVisible(has_strength(draft, model))
        self._resizing.setVisible(not sets_size(draft, model) and not (draft.only_masked and (masked or extended)))
        self._masking.setVisible(masks_)
        self.side_fields.setVisible(masks_)
        self.mask_fields.setVisible(masks_ and (masked or extended))
        self.mask_fields.drawn.setVisible(masked)
        self.mask_remove.setVisible(masked)
        self.caption.setText(self._caption(there, extended))
        self.caption.setVisible(bool(self.caption.text()))

    def _caption(self, there: bool, extended: bool) -> str:
        if self._draft.image is None:
            return "" if there else tr("Not supported by this model.")
        if self._seen is None:
            return ""
        wide, high = self._seen.size
        if extended:
            left, top, right, bottom = self._draft.start.outpaint
            made = _size((wide + left + right, high + top + bottom))
            return sentences(tr("Input: {0}.", _size(self._seen.size)), tr("Result: {0}.", made))
        return tr("Input: {0}.", _size(self._seen.size))

    def _value(self, there: bool, masked: bool, extended: bool) -> str:
        if self._draft.image is None:
            return tr("None")
        if not there:
            return tr("Not supported")
        strength = figures.decimal(self._draft.start.strength or 0.0, 2) if has_strength(self._draft, self._model) else ""
        return listed(strength, tr("mask") if masked else "", tr("extended") if extended else "") or tr("Chosen")


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]} × {size[1]}"


def _words(error: Exception) -> str:
    """Describe an error of the user's files. Raises any other."""
    if isinstance(error, OSError):
        return tr("Could not save: {0}.", problem(error))
    if not isinstance(error, HalftoneError):
        raise error
    facts = error.as_facts()
    return sentences(error_sentence(facts), error_remedy(facts))
