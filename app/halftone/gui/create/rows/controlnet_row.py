"""The ControlNets of the next pictures: a folded row of the Create form."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QAbstractButton, QBoxLayout, QLabel, QLayout, QPushButton, QWidget

from halftone.contract.limits import CONTROL_RANGE
from halftone.contract.preprocessors import DEPTH, NONE, NORMAL, POSE, PREPROCESSORS, RESOLUTIONS, Threshold
from halftone.contract.request import Control, model_stem
from halftone.contract.vocabulary import ControlMode, Resize
from halftone.gui import theme
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.file_choosers import ask_folder, ask_picture
from halftone.gui.create.form.form_fields import NumberBox, combo
from halftone.gui.create.rows.list_row import Listed, ListRow
from halftone.gui.i18n import say, tr
from halftone.gui.kit.stock_widgets import button, column, fill_combo, icon_button, label, row
from halftone.gui.text import net_words, short
from halftone.library.add_ons.controlnets import check_fit, kinds_in, takes_modes
from halftone.library.add_ons.vaes import vae_name
from halftone.session.pictures.control_preview import drawn_control

_LEVELS: Final = 64
"""Ranges beyond this are levels of a pixel, which are whole."""
_PREVIEW: Final = 160
"""The longer edge of a preview."""


class _Preview(NamedTuple):
    ask: QAbstractButton
    shown: QLabel


class _ModelWords(NamedTuple):
    """What the button of a preprocessor's model says."""

    ask: str
    tip: str
    title: str
    name: str


def _model_words(net: str) -> dict[str, _ModelWords]:
    """By the name of the preprocessor. net: the ControlNet's name."""
    return {
        DEPTH: _ModelWords(
            tr("Choose a depth model…"),
            tr("A folder with a depth model of transformers, such as Depth Anything"),
            tr("Choose a depth model"),
            tr("Depth model of {0}", net),
        ),
        NORMAL: _ModelWords(
            tr("Choose a depth model…"),
            tr("A folder with a DPT model of transformers, such as MiDaS's DPT-Hybrid"),
            tr("Choose a depth model"),
            tr("Depth model of {0}", net),
        ),
        POSE: _ModelWords(
            tr("Choose a pose model…"),
            tr("A folder with a ViTPose model of transformers. Its subfolder detector may hold a detector, such as RT-DETR"),
            tr("Choose a pose model"),
            tr("Pose model of {0}", net),
        ),
    }


def _mode_misfits(control: Control) -> bool:
    """Whether it has a control mode that its ControlNet does not take, and that one must be able to take back."""
    return control.mode != "balanced" and not takes_modes(control.path)


class ControlPart(ListRow[Control]):
    """The list, each with its picture and how much of it, and a button to add one."""

    part_name = field = "controls"

    def __init__(self, binding: Binding) -> None:
        kind = Listed[Control](
            title=tr("ControlNet"),
            tip=tr("Guide with edges, depth or a pose."),
            adding=tr("Add ControlNet"),
            kinds=tr("ControlNet files"),
            folders=True,
            new=lambda path: Control(path=path, image=""),
            check=check_fit,
            kind="ControlNet",
            words=net_words,
            shape=lambda control: (
                control.path,
                control.image,
                control.preprocessor,
                control.preprocessor_model,
                _mode_misfits(control),
            ),
        )
        self._previews: list[QLabel] = []
        super().__init__(binding, kind)

    def _fill(self) -> None:
        self._previews.clear()
        super()._fill()

    def look(self) -> None:
        self._controller.session.files.parts("ControlNet", self.found)

    def inside(self, index: int, item: Control, head: QBoxLayout) -> QLayout:
        middle = column(self._picture(index, item), self._drawn(index, item), spacing=6)
        several = kinds_in(item.path)
        kinds = self._kinds(index, several) if several else ()
        low, high = (f"{value:g}" for value in CONTROL_RANGE)
        strength = self._number(index, "scale", tr("Strength"), tr("{0} to {1}.", low, high))
        begins = self._number(index, "start", tr("From"), tr("Starting control step (0 to 1)"))
        ends = self._number(index, "end", tr("To"), tr("Ending control step (0 to 1)"))
        numbers = row(*strength, *kinds, -1, spacing=6)
        modes = [self._mode(index)] if takes_modes(item.path) or _mode_misfits(item) else []
        return column(head, middle, numbers, row(*begins, *ends, -1, spacing=6), *modes, self._resize(index), spacing=6)

    def _mode(self, index: int) -> QLayout:
        modes: dict[ControlMode, str] = {
            "balanced": tr("Balanced"),
            "prompt": tr("My prompt is more important"),
            "control": tr("ControlNet is more important"),
        }
        return self._choice(
            index, "mode", tr("Control mode"), tr("What counts more where the prompt and the picture disagree."), modes
        )

    def _resize(self, index: int) -> QLayout:
        modes: dict[Resize, str] = {
            "stretch": tr("Just resize"),
            "crop": tr("Crop and resize"),
            "fill": tr("Resize and fill"),
        }
        return self._choice(index, "resize", tr("Resize mode"), tr("Used when the aspect ratios differ."), modes)

    def _choice(self, index: int, field: str, name: str, tip: str, choices: Mapping[Any, str]) -> QLayout:
        """A field with few values, its name beside it."""
        box = combo(f"{self.items()[index].name}: {name}", tip)
        for value, words in choices.items():
            box.addItem(words, value)
        self.tie(index, field, box)
        made = row(label(name, "small", "secondary"), box, spacing=8)
        made.setStretch(1, 1)
        return made

    def _kinds(self, index: int, kinds: Sequence[str]) -> tuple[QWidget, QWidget]:
        """What the picture shows, for a ControlNet that was trained for several kinds."""
        words = {
            "openpose": tr("Pose"),
            "depth": tr("Depth"),
            "scribble": tr("Scribble, soft edges"),
            "canny": tr("Edges, line art"),
            "normal": tr("Normal map"),
            "segment": tr("Segmentation"),
            "tile": tr("Tile"),
            "repaint": tr("Repaint"),
            "blur": tr("Blur"),
            "gray": tr("Grey"),
            "low quality": tr("Low quality"),
        }
        box = combo(f"{self.items()[index].name}: {tr('Kind of picture')}", tr("What the control picture shows."))
        fill_combo(box, [("", tr("Choose…")), *((kind, words[kind]) for kind in kinds)])
        self.tie(index, "kind", box)
        return label(tr("Kind of picture"), "small", "secondary"), box

    def _number(self, index: int, field: str, words: str, tip: str) -> tuple[QWidget, QWidget]:
        name = f"{self.items()[index].name}: {words}"
        return label(words, "small", "secondary"), self.number(index, field, name, tip)

    def change(self, index: int, **changes: Any) -> None:
        """Give one entry other values. Numbers and models are those of one preprocessor alone."""
        if "preprocessor" in changes:
            changes |= dict.fromkeys(("threshold_a", "threshold_b", "resolution", "preprocessor_model"))
        super().change(index, **changes)
        for shown in self._previews:
            shown.hide()  # it was drawn with other numbers

    def _drawn(self, index: int, control: Control) -> QLayout:
        """The preprocessor, its numbers, and its model where it runs one."""
        choice = combo(tr("Preprocessor of {0}", control.name), tr("What is drawn of the picture for the ControlNet"))
        for name, known in PREPROCESSORS.items():
            choice.addItem(say(known.title), name)
        self.tie(index, "preprocessor", choice)
        preview = self._preview(control)
        head = row(label(tr("Preprocessor"), "small", "secondary"), choice, preview.ask, spacing=8)
        head.setStretch(1, 1)
        preview.ask.clicked.connect(lambda _on=False: self._draw(index, preview))
        known = PREPROCESSORS[control.preprocessor]
        named = zip(("threshold_a", "threshold_b"), known.thresholds, strict=False)
        numbers = [self._threshold(index, field, threshold) for field, threshold in named]
        models = [self._model_button(index, control)] if known.has_model else []
        numbers += [self._resolution(index)] if known.scaled else []
        rows = [row(*widgets, -1, spacing=6) for widgets in numbers]  # two beside each other are too wide in English
        return column(head, *rows, *models, preview.shown, spacing=6)

    def _resolution(self, index: int) -> tuple[QWidget, QWidget]:
        """The shorter edge that the preprocessor works at; left alone, that of the result."""
        words = tr("Resolution")
        box = NumberBox((0, RESOLUTIONS[1]))
        box.setSpecialValueText(tr("Auto"))
        box.setSingleStep(RESOLUTIONS[0])
        box.setAccessibleName(f"{self.items()[index].name}: {words}")
        box.setToolTip(tr("Shorter edge of the drawn picture, {0} to {1}. Auto: same as the result.", *map(str, RESOLUTIONS)))
        box.setMinimumWidth(68)
        box.setMaximumWidth(theme.grown(80))
        box.setValue(self.items()[index].resolution or 0)
        box.valueChanged.connect(
            lambda value: self.change(index, resolution=max(RESOLUTIONS[0], round(value)) if value else None)
        )
        self.show_too(index, "resolution", lambda value: box.setValue(value or 0))
        return label(words, "small", "secondary"), box

    def _preview(self, control: Control) -> "_Preview":
        """A button that shows what the preprocessor draws, and the place where it stands."""
        ask = icon_button("scan", tr("Preview"), size=16)
        ask.setToolTip(tr("Show what the preprocessor draws"))
        ask.setAccessibleName(tr("Preview of {0}", control.name))
        ask.setEnabled(bool(control.image))
        if control.preprocessor == NONE:
            ask.hide()
        shown = QLabel()
        shown.setAccessibleName(tr("What the preprocessor draws for {0}", control.name))
        shown.hide()
        self._previews.append(shown)
        return _Preview(ask, shown)

    def _draw(self, index: int, preview: "_Preview") -> None:
        """Draw in a process of its own; the answer of an entry that has changed since is dropped."""
        control = self.items()[index]
        size = self._controller.state.draft.size

        def unchanged() -> bool:
            preview.ask.setEnabled(True)
            return control in self.items()

        def drawn(file: bytes) -> None:
            if unchanged():
                picture = QPixmap()
                picture.loadFromData(file)
                edge = theme.grown(_PREVIEW)
                ratio = self.devicePixelRatioF()
                fitted = picture.scaled(
                    round(edge * ratio),
                    round(edge * ratio),
                    Qt.AspectRatioMode.KeepAspectRatio,
                    Qt.TransformationMode.SmoothTransformation,
                )
                fitted.setDevicePixelRatio(ratio)
                preview.shown.setPixmap(fitted)
                preview.shown.show()

        def failed(error: Exception) -> None:
            if unchanged():
                self.refused(error)

        preview.ask.setEnabled(False)
        self._controller.background.run(lambda: drawn_control(control, size), drawn, failed, receiver=preview.shown)

    def _threshold(self, index: int, field: str, threshold: Threshold) -> tuple[QWidget, QWidget]:
        words = say(threshold.name)
        box = NumberBox((threshold.low, threshold.high), 0 if threshold.high > _LEVELS else 2)
        box.setAccessibleName(f"{self.items()[index].name}: {words}")
        box.setToolTip(tr("{0} to {1}.", f"{threshold.low:g}", f"{threshold.high:g}"))
        box.setFont(theme.current().font("body", numbers=True))
        box.setMinimumWidth(theme.grown(72))
        box.setMaximumWidth(theme.grown(72))
        given = getattr(self.items()[index], field)
        box.setValue(threshold.usual if given is None else given)
        box.valueChanged.connect(lambda _value: self.change(index, **{field: float(box.number())}))
        self.show_too(index, field, lambda value: box.setValue(threshold.usual if value is None else value))
        return label(words, "small", "secondary"), box

    def _model_button(self, index: int, control: Control) -> QPushButton:
        """A button that chooses the folder of the model that the preprocessor runs."""
        words = _model_words(control.name)[control.preprocessor]
        folder = control.preprocessor_model
        made = button(short(model_stem(folder)) if folder else words.ask, icon="folder-open")
        made.setToolTip(folder or words.tip)
        made.setAccessibleName(words.name)
        made.clicked.connect(
            lambda _on=False: ask_folder(self, words.title, lambda path: self.change(index, preprocessor_model=path))
        )
        return made

    def _picture(self, index: int, control: Control) -> QPushButton:
        made = button(short(vae_name(control.image)) if control.image else tr("Choose a picture…"), icon="image")
        made.setToolTip(control.image or tr("Reference picture"))
        made.setAccessibleName(tr("Picture of {0}", control.name))
        made.setMinimumWidth(40)
        made.clicked.connect(lambda _on=False: ask_picture(self, partial(self.give, index)))
        return made

    def give(self, index: int, picture: str) -> None:
        """The picture that one of them goes by."""
        self.change(index, image=picture)
