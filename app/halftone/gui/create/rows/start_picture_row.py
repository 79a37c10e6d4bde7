"""The picture that the next ones are made of: a folded row of the Create form, with its mask and room at its sides."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from PySide6.QtCore import Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.limits import STRENGTH_RANGE
from halftone.contract.request import PictureRequest, Start
from halftone.contract.vocabulary import Resize
from halftone.gui.controller import Controller
from halftone.gui.create.form.file_choosers import ask_picture
from halftone.gui.create.form.form_fields import SliderField, combo
from halftone.gui.create.rows.folded_row import FoldedPart, below
from halftone.gui.create.rows.mask_editor import MaskEditor, png
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
from halftone.library.tasks import needs_mask, needs_picture, takes_mask, takes_picture, takes_strength
from halftone.metadata.start_images import check_mask, check_shape
from halftone.settings.atomic import write_atomically
from halftone.settings.places import masks_dir

STRENGTH: Final = 0.75
"""What A1111 begins with."""
_PRESET: Final = 4
"""An extension is this part of the side it is added to."""


class StartPart(FoldedPart):
    """Picture, strength, mask and sides. `size_wanted`: the picture's own size is to be taken over. All of it is only put into a
    request where there is a picture.
    """

    size_wanted = Signal(int, int)
    grows = False

    def __init__(self, controller: Controller) -> None:
        super().__init__(tr("Image to image"), tr("Change, inpaint or outpaint a picture."))
        self._controller = controller
        self._model: ModelFacts | None = None
        self._image: str | None = None
        self._mask: str | None = None
        self._seen: Seen | None = None
        self._mask_small = QImage()
        self._trouble = ""
        self._build()
        self._connect()
        self._show()

    # --- building ---------------------------------------------------------------------------------------------------

    def _build(self) -> None:
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
        tip = tr("How much to change the picture. {0} to {1}.", *STRENGTH_RANGE)
        self.strength = SliderField(tr("Denoising strength"), tip, (0.05, 1), STRENGTH_RANGE, 0.05)
        self.strength.set_value(STRENGTH)
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
        self.mask_button = button(tr("Choose…"), tip=tr("A picture, white where to regenerate"))
        self.mask_remove = icon_button("x", tr("Remove mask"), size=14, clicked=lambda: self.choose_mask(None))
        self.mask_fields, self.side_fields = MaskFields(), SideFields()
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

    def _connect(self) -> None:
        self.well.clicked.connect(self._ask)
        self.size_button.clicked.connect(self._take_size)
        self.paint_button.clicked.connect(self._paint)
        self.mask_button.clicked.connect(lambda: ask_picture(self, self.choose_mask))
        self.side_fields.presets.clicked.connect(self._open_presets)
        self.strength.changed.connect(self._show)
        self.resize_mode.currentIndexChanged.connect(self._show)
        for part in (self.mask_fields, self.side_fields):
            part.changed.connect(self._show)
        self.drop = PictureDrop(self, self.row)
        self.drop.dropped.connect(self.use)

    # --- the picture ------------------------------------------------------------------------------------------------

    def use(self, path: str) -> None:
        """Take a picture and show that it was taken."""
        self.choose(path)
        self.row.setChecked(True)

    def choose(self, path: str | None) -> None:
        """None: no picture, and no mask."""
        self._image, self._seen, self._trouble = path, None, ""
        if path is None:
            self._mask, self._mask_small = None, QImage()
        else:
            self._controller.background.run(partial(look_at, path), self._looked, partial(self._not_looked, path), receiver=self)
        self._show()

    def _looked(self, seen: Seen) -> None:
        if seen.path != self._image:
            return
        self._seen = seen
        if self._mask is not None and not self._mask_small.isNull():
            size = self._mask_small.size()
            try:
                check_shape(self._mask, (size.width(), size.height()), seen.size)
            except HalftoneError:
                self._mask, self._mask_small = None, QImage()
                self._trouble = tr("The mask did not fit and was removed.")
        self._show()

    def _not_looked(self, path: str, error: Exception) -> None:
        if path == self._image:
            self._trouble = _words(error)
            self.row.setChecked(True)
            self._show()

    def _ask(self) -> None:
        ask_picture(self, self.choose)

    def _take_size(self) -> None:
        if self._seen is not None:
            self.size_wanted.emit(*(max(8, edge // 8 * 8) for edge in self._seen.size))

    # --- the mask ---------------------------------------------------------------------------------------------------

    def choose_mask(self, path: str | None) -> None:
        """A file, if it shows the same places as the picture; None: no mask."""
        if path is None or self._image is None:
            self._mask, self._mask_small = None, QImage()
            self._show()
            return
        image = self._image

        def look() -> QImage:
            check_mask(path, image)
            return read_whole(path)

        self._controller.background.run(look, partial(self._take_mask, image, path), self._mask_refused, receiver=self)

    def _take_mask(self, image: str, path: str, whole: QImage) -> None:
        if image == self._image:
            self._mask, self._trouble = path, ""
            self._mask_small = whole
            self._show()

    def _mask_refused(self, error: Exception) -> None:
        self._trouble = _words(error)
        self._show()

    def _paint(self) -> None:
        if self._image is None:
            return
        mask = self._mask_small.copy()
        self._controller.background.run(partial(read_whole, self._image), partial(self._edit, mask), receiver=self)

    def _edit(self, mask: QImage, picture: QImage) -> None:
        if picture.isNull():
            return
        editor = MaskEditor(picture, mask, self)
        editor.painted.connect(self.take_painted)
        editor.open()

    def take_painted(self, mask: QImage) -> None:
        """Keep what was painted in a file of ours, named by what it holds."""
        if mask.isNull() or self._image is None:
            self.choose_mask(None)
            return
        whole = mask.copy()
        image = self._image
        self._controller.background.run(
            lambda: _kept(whole), lambda path: self._take_mask(image, path, whole), self._mask_refused, receiver=self
        )

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
            menu.addAction(words, partial(self.side_fields.set_sides, sides))
        below(menu, self.side_fields.presets)

    def sets_size(self) -> bool:
        """Whether the size comes from the start picture, and not from the form."""
        return self._usable and self._masks and any(self.side_fields.sides()) and not self._only

    def computed(self, size: tuple[int, int]) -> tuple[int, int]:
        """(width, height) that will be computed. size: that the form asks for."""
        if not self.sets_size() or self._seen is None:
            return size
        left, top, right, bottom = self.side_fields.sides()
        return _up(self._seen.size[0] + left + right), _up(self._seen.size[1] + top + bottom)

    # --- the request ------------------------------------------------------------------------------------------------

    def put(self, request: PictureRequest) -> PictureRequest:
        if self._image is None:
            return request
        start = self.start()
        changes = {"width": None, "height": None} if self.sets_size() else {}
        return msgspec.structs.replace(
            request, image=self._image, mask=self._mask if self._masks else None, start=start, **changes
        )

    def start(self) -> Start:
        """As it stands; what has no effect is left out, so that equal requests are equal."""
        mode = self.resize_mode.currentData()
        resize: Resize = mode if mode in ("crop", "fill") else "stretch"
        masked, sides = self._mask is not None and self._masks, self.side_fields.sides() if self._masks else (0, 0, 0, 0)
        has_strength = self._model is None or takes_strength(self._model.pipeline, mask=masked or any(sides))
        start = Start(strength=round(self.strength.value(), 2) if has_strength else None, resize=resize, outpaint=sides)
        if not masked and not any(sides):
            return start
        blur, only = round(self.mask_fields.blur.value()), self.mask_fields.only_masked()
        return msgspec.structs.replace(
            start, mask_blur=blur, only_masked=only, masked_content=self.mask_fields.masked_content() if masked else "original"
        )

    def take(self, request: PictureRequest) -> None:
        start = request.start
        self.strength.set_value(STRENGTH if start.strength is None else start.strength)
        self.resize_mode.setCurrentIndex(max(0, self.resize_mode.findData(start.resize)))
        self.mask_fields.show_start(start)
        self.side_fields.set_sides(start.outpaint)
        self._mask, self._mask_small = None, QImage()
        self.choose(request.image)
        if request.mask is not None and request.image is not None:
            self.choose_mask(request.mask)

    # --- what is shown ----------------------------------------------------------------------------------------------

    def follow(self, model: ModelFacts | None) -> None:
        self._model = model
        self._show()

    @property
    def _usable(self) -> bool:
        """There is a picture, and the model starts from one."""
        return self._image is not None and self._model is not None and takes_picture(self._model.pipeline)

    @property
    def _masks(self) -> bool:
        return self._model is None or takes_mask(self._model.pipeline)

    @property
    def _only(self) -> bool:
        return self.mask_fields.only.isChecked()

    def problem(self) -> str:
        model = self._model
        if model is None:
            return ""
        if self._image is None:
            return tr("This model needs a picture under Image to image.") if needs_picture(model.pipeline) else ""
        if not takes_picture(model.pipeline):
            return _said("start-no-picture", model)
        if self._mask is not None and not self._masks:
            return _said("start-no-mask", model)
        if needs_mask(model.pipeline) and self._mask is None and not any(self.side_fields.sides()):
            return tr("This model needs a mask under Image to image.")
        return self._trouble if self._seen is None else ""

    def _show(self) -> None:
        model = self._model
        there = model is None or takes_picture(model.pipeline)
        masked = self._mask is not None
        extends = self._masks and any(self.side_fields.sides())
        self.well.show_picture(QImage() if self._seen is None else self._seen.small, self._mask_small if masked else QImage())
        self.name.set_text("" if self._image is None else Path(self._image).name)
        self.name.setToolTip(self._image or "")
        self.remove_button.setVisible(self._image is not None)
        self.size_button.setVisible(self._seen is not None)
        self._rest.setVisible(self._image is not None and there)
        has_strength = model is None or takes_strength(model.pipeline, mask=masked or extends)
        self.strength.setVisible(has_strength)
        self._resizing.setVisible(not self.sets_size() and not (self._only and (masked or extends)))
        self._masking.setVisible(self._masks)
        self.side_fields.setVisible(self._masks)
        self.mask_fields.setVisible(self._masks and (masked or extends))
        self.mask_fields.drawn.setVisible(masked)
        self.mask_remove.setVisible(masked)
        self.caption.setText(self._caption(there))
        self.caption.setVisible(bool(self.caption.text()))
        self.row.value.setText(self._value(there, masked, extends))
        self.say(self.problem() or self._trouble)

    def _caption(self, there: bool) -> str:
        if self._image is None:
            return "" if there else tr("This model has no image to image.")
        if self._seen is None:
            return ""
        size = _size(self._seen.size)
        if self._masks and any(self.side_fields.sides()):
            left, top, right, bottom = self.side_fields.sides()
            made = _size((self._seen.size[0] + left + right, self._seen.size[1] + top + bottom))
            return tr("Input {0}, result {1}.", size, made)
        return tr("Input {0}.", size)

    def _value(self, there: bool, masked: bool, extends: bool) -> str:
        if self._image is None:
            return tr("None")
        if not there:
            return tr("Not supported")
        strength = figures.decimal(self.strength.value(), 2) if not self.strength.isHidden() else ""
        return listed(strength, tr("mask") if masked and self._masks else "", tr("extended") if extends else "") or tr("Chosen")


def _said(code: str, model: ModelFacts) -> str:
    error = msgspec.convert({"code": code, "facts": {"model": model.name}}, ErrorFacts)
    return sentences(error_sentence(error), error_remedy(error))


def _up(edge: int) -> int:
    """To the next multiple of 8."""
    return -(-edge // 8) * 8


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]} × {size[1]}"


def _words(error: Exception) -> str:
    """What is said of it. Raises what is no error of the user's files."""
    if isinstance(error, OSError):
        return tr("Could not save the mask: {0}.", problem(error))
    if not isinstance(error, HalftoneError):
        raise error
    facts = error.as_facts()
    return sentences(error_sentence(facts), error_remedy(facts))


def _kept(mask: QImage) -> str:
    """The file of a painted mask, whole or not at all. Raises OSError."""
    content = png(mask)
    path = masks_dir() / f"{hashlib.sha256(content).hexdigest()[:16]}.png"
    write_atomically(path, content)  # also where it is there already: an old one is young again, see forget_painted_masks
    return str(path)
