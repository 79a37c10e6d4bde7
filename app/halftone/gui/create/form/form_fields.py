"""Fields of the Create form: slider with its number, size with presets, seed with dice and lock."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QPaintEvent, QValidator
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QLabel,
    QLineEdit,
    QSlider,
    QSpinBox,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QWidget,
)

from halftone.contract.limits import RANDOM_SEED, SEED_RANGE, SIZE_MULTIPLE, SIZE_RANGE
from halftone.gui import theme
from halftone.gui.i18n import say, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import column, icon_button, label, repolish, row
from halftone.gui.kit.switches import Segmented
from halftone.gui.kit.wheel import guard_wheel
from halftone.session.pictures.draft import Seed
from halftone.session.pictures.draft_problems import size_problem

SEED_MAX: Final = 2**32 - 1
_DIGITS: Final = 9
RATIOS: Final[dict[str, tuple[int, int]]] = {"1:1": (1, 1), "3:2": (3, 2), "2:3": (2, 3), "16:9": (16, 9)}


def preset_size(ratio: str, native: tuple[int, int]) -> tuple[int, int]:
    """Width and height of a ratio with about as many pixels as the native size, in multiples of 8 (64 for large models)."""
    across, down = RATIOS[ratio]
    if across == down and native[0] == native[1]:
        return native
    unit = 64 if min(native) >= 512 else SIZE_MULTIPLE
    pixels = native[0] * native[1]
    width = (pixels * across / down) ** 0.5
    height = width * down / across
    return max(unit, round(width / unit) * unit), max(unit, round(height / unit) * unit)


class SliderField(QWidget):
    """A label, a slider over what is usual, and its number, which takes all that is allowed. Values are multiples of `step`."""

    changed = Signal(float)

    def __init__(self, name: str, tip: str, usual: tuple[float, float], allowed: tuple[float, float], step: float = 1.0) -> None:
        super().__init__()
        self._step = step
        self.slider = guard_wheel(QSlider(Qt.Orientation.Horizontal))
        self.slider.setRange(round(usual[0] / step), round(usual[1] / step))
        self.slider.setPageStep(max(1, round((usual[1] - usual[0]) / step / 10)))
        self.spin = NumberBox(allowed, 0 if step >= 1 else 1 if step >= 0.1 else 2)
        self.spin.setSingleStep(step)
        self.spin.setFont(theme.current().font("body", numbers=True))
        self.spin.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.spin.setFixedWidth(theme.grown(68))
        words = label(name, "small", "secondary")
        words.setMinimumWidth(62)
        self.slider.setMinimumWidth(40)
        words.setBuddy(self.spin)
        for part in (self.slider, self.spin, words):
            part.setToolTip(tip)
            part.setAccessibleName(name)
        self.note = limit_note(self.spin, name)
        self.slider.valueChanged.connect(lambda value: self.spin.setValue(value * step))
        self.spin.valueChanged.connect(self._spun)
        layout = row(words, self.slider, self.spin, spacing=8)
        layout.setStretch(1, 1)
        self.setLayout(column(layout, self.note, spacing=2))

    def _spun(self, value: float) -> None:
        self.slider.blockSignals(True)
        self.slider.setValue(round(value / self._step))
        self.slider.blockSignals(False)
        self.changed.emit(value)

    def value(self) -> float:
        return self.spin.number()

    def set_value(self, value: float) -> None:
        self.spin.setValue(value)


class NumberBox(QDoubleSpinBox):
    """A number in its limits. What is typed beyond them stays to be read, and gives way to the limit when the field is left.

    beyond: the limit that was taken instead.
    """

    beyond = Signal(float)

    def __init__(self, allowed: tuple[float, float], places: int = 0) -> None:
        super().__init__()
        guard_wheel(self)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setDecimals(places)
        self.setRange(*allowed)

    def number(self) -> float:
        """The value, whole where it has no decimal places."""
        return round(self.value(), self.decimals()) if self.decimals() else round(self.value())

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        typed = self._typed(text)
        if typed is not None and not self.minimum() <= typed <= self.maximum():
            return QValidator.State.Intermediate, text, position
        return super().validate(text, position)

    def fixup(self, text: str) -> str:
        """Qt asks for a number that is allowed."""
        typed = self._typed(text)
        if typed is None:
            return super().fixup(text)
        nearest = min(self.maximum(), max(self.minimum(), typed))
        QTimer.singleShot(0, self, lambda: self.beyond.emit(nearest))  # after the value has changed
        return self.textFromValue(nearest)

    def _typed(self, text: str) -> float | None:
        value, known = self.locale().toDouble(text)
        return value if known and len(text) < _DIGITS else None


def limit_note(box: NumberBox, name: str) -> QLabel:
    """Says which number was taken instead of one beyond the limits, until the number is touched again."""
    note = label("", "caption", "warn", wrap=True)
    note.hide()

    def tell(taken: float) -> None:
        low, high, nearest = (figures.group(round(value)) for value in (box.minimum(), box.maximum(), taken))
        note.setText(tr("{0}: {1} to {2}. Using {3}.", name, low, high, nearest))
        note.show()

    box.lineEdit().textEdited.connect(note.hide)
    box.valueChanged.connect(note.hide)
    box.beyond.connect(tell)
    return note


class SizeBox(QSpinBox):
    """One edge in pixels; any number may be typed, the form says which can be used."""

    def __init__(self, name: str) -> None:
        super().__init__()
        guard_wheel(self)
        self.setRange(1, 99999)
        self.setMinimumWidth(64)
        self.setSingleStep(SIZE_MULTIPLE)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setFont(theme.current().font("body", numbers=True))
        self.setToolTip(tr("Multiple of 8, {0} to {1}.", figures.group(SIZE_RANGE[0]), figures.group(SIZE_RANGE[1])))
        self.setAccessibleName(name)

    def stepBy(self, steps: int) -> None:
        """Arrows go to the next multiple, also from a number between."""
        unit = self.singleStep()
        value = self.value()
        below = value // unit * unit
        start = value if below == value else below if steps > 0 else below + unit
        self.setValue(max(SIZE_RANGE[0], min(SIZE_RANGE[1], start + steps * unit)))


class SizeField(QWidget):
    """Presets with about the same number of pixels, width, height, swap, and a sentence when a size cannot be used."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._native = (512, 512)
        self.presets = Segmented([*((ratio, ratio) for ratio in RATIOS), ("custom", tr("Custom"))])
        self.width_box = SizeBox(tr("Width"))
        self.height_box = SizeBox(tr("Height"))
        swap = icon_button("arrow-left-right", tr("Swap width and height"), clicked=self.swap)
        self.problem_label = label("", "caption", "danger", wrap=True)
        self.problem_label.hide()
        edges = row(
            label(tr("W"), "small", "secondary"),
            self.width_box,
            swap,
            label(tr("H"), "small", "secondary"),
            self.height_box,
            spacing=6,
        )
        edges.setStretch(1, 1)
        edges.setStretch(4, 1)
        self.setLayout(column(self.presets, edges, self.problem_label, spacing=8))
        self.presets.chosen.connect(self._preset)
        self.width_box.valueChanged.connect(self._typed)
        self.height_box.valueChanged.connect(self._typed)

    def set_native(self, width: int, height: int) -> None:
        """The size that the model was made for; presets follow it."""
        self._native = (width, height)
        self._name_preset()

    def value(self) -> tuple[int, int]:
        return self.width_box.value(), self.height_box.value()

    def set_value(self, size: tuple[int, int]) -> None:
        self._set(*size)
        self._name_preset()
        self._validate()

    def swap(self) -> None:
        width, height = self.value()
        self.set_value((height, width))

    def problem(self) -> str:
        """Why this size cannot be used, "" when it can."""
        return say(next(filter(None, map(size_problem, self.value())), None))

    def wrong(self) -> SizeBox | None:
        """The box that has the `problem`."""
        return next((box for box in (self.width_box, self.height_box) if size_problem(box.value())), None)

    def _set(self, width: int, height: int) -> None:
        for box, value in ((self.width_box, width), (self.height_box, height)):
            box.blockSignals(True)
            box.setValue(value)
            box.blockSignals(False)
        self.changed.emit()

    def _preset(self, ratio: str) -> None:
        if ratio in RATIOS:
            self._set(*preset_size(ratio, self._native))
        else:
            self.width_box.setFocus(Qt.FocusReason.OtherFocusReason)
            self.width_box.selectAll()
        self._validate()

    def _typed(self) -> None:
        self._name_preset()
        self._validate()
        self.changed.emit()

    def _name_preset(self) -> None:
        size = self.value()
        match = next((ratio for ratio in RATIOS if preset_size(ratio, self._native) == size), "custom")
        self.presets.set_value(match)

    def _validate(self) -> None:
        for box in (self.width_box, self.height_box):
            bad = size_problem(box.value()) is not None
            if bool(box.property("invalid")) != bad:
                box.setProperty("invalid", bad)
                repolish(box)
        problem = self.problem()
        self.problem_label.setText(problem)
        self.problem_label.setVisible(bool(problem))


class _SeedEdit(QLineEdit):
    """Digits in groups of three while nobody types in it; empty means random, and so does -1, as A1111's users write it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFont(theme.current().font("body", numbers=True))
        self.setPlaceholderText(tr("Random"))
        self.setToolTip(tr("Same seed and settings, same picture."))
        self.setAccessibleName(tr("Seed"))
        self.setValidator(_SeedValidator(self))
        self.editingFinished.connect(self._group)

    def seed(self) -> int | None:
        if self.text().lstrip().startswith("-"):
            return None
        digits = "".join(character for character in self.text() if character.isdigit())
        return min(int(digits), SEED_RANGE[1]) if digits else None

    def set_seed(self, seed: int | None) -> None:
        self.setText("" if seed is None else figures.group(seed))
        self.setCursorPosition(0)

    def _group(self) -> None:
        self.set_seed(self.seed())

    def focusInEvent(self, event: QFocusEvent) -> None:
        seed = self.seed()
        self.setText("" if seed is None else str(seed))
        super().focusInEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._group()


class _SeedValidator(QValidator):
    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        longest = len(figures.group(SEED_RANGE[1]))
        digits = all(character.isdigit() or character.isspace() for character in text) and len(text) <= longest
        fine = digits or text.strip() in ("-", str(RANDOM_SEED))
        return (QValidator.State.Acceptable if fine else QValidator.State.Invalid), text, position


class SeedField(QWidget):
    """Seed, dice and lock. Unlocked, every picture takes a new random seed; a seed that was typed is locked."""

    changed = Signal()

    def __init__(self, newest: Callable[[], int | None] = lambda: None) -> None:
        """newest: the seed of the newest picture, so that locking keeps it."""
        super().__init__()
        self._newest = newest
        self.edit = _SeedEdit()
        self.dice = icon_button("dices", tr("New random seed"), kind="framed", clicked=self.roll)
        self.lock = icon_button("lock", tr("Reuse this seed"), kind="framed", checkable=True)
        for made in (self.dice, self.lock):
            made.setFixedSize(QSize(theme.grown(28), theme.grown(28)))
        self.lock.toggled.connect(self._locked)
        self.edit.textEdited.connect(self._typed)
        layout = row(self.edit, self.dice, self.lock, spacing=5)
        layout.setStretch(0, 1)
        self.setLayout(layout)

    def roll(self) -> None:
        """A new random seed, kept for the next picture."""
        self.edit.set_seed(random.randint(0, SEED_MAX))
        self.changed.emit()

    def value(self) -> Seed:
        """The seed of the next picture."""
        return Seed(self.edit.seed(), self.lock.isChecked())

    def set_value(self, seed: Seed) -> None:
        self.edit.set_seed(seed.number)
        self.lock.blockSignals(True)
        self.lock.setChecked(seed.locked)
        self.lock.blockSignals(False)

    def _locked(self, on: bool) -> None:
        if on and self.edit.seed() is None:
            newest = self._newest()
            self.edit.set_seed(random.randint(0, SEED_MAX) if newest is None else newest)
        self.changed.emit()

    def _typed(self) -> None:
        """Who types a seed wants to see what it makes, and then change something else: it stays."""
        self.lock.setChecked(self.edit.seed() is not None)
        self.changed.emit()


def combo(name: str, tip: str) -> QComboBox:
    """A plain drop-down."""
    made = guard_wheel(_ElidedCombo())
    made.setAccessibleName(name)
    made.setToolTip(tip)
    made.setMinimumContentsLength(6)
    made.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    return made


class ChoiceBox(QComboBox):
    """One of several names, as its number."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        guard_wheel(self)
        self.addItems(names)

    def value(self) -> float:
        return float(self.currentIndex())

    def setValue(self, number: float) -> None:
        self.setCurrentIndex(round(number))


class _ElidedCombo(QComboBox):
    def paintEvent(self, event: QPaintEvent) -> None:
        """As ever, but words without room end in an ellipsis."""
        painter = QStylePainter(self)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        room = (
            self.style()
            .subControlRect(QStyle.ComplexControl.CC_ComboBox, option, QStyle.SubControl.SC_ComboBoxEditField, self)
            .width()
        )
        words = cast("Any", option)
        words.currentText = self.fontMetrics().elidedText(words.currentText, Qt.TextElideMode.ElideRight, room)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
