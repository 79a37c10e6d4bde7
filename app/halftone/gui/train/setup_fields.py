"""Rows of the setup of a training: a name, a field, and while training runs the value with a lock instead."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QFrame, QLineEdit, QStackedLayout, QWidget

from halftone.gui import theme
from halftone.gui.create.form.binding import access
from halftone.gui.create.form.form_fields import NumberBox, combo
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import ElidedLabel, IconLabel, WordButton, button, fill_combo, label, repolish, row
from halftone.gui.kit.switches import Switch

_NAME_WIDTH = 96
_HEIGHT = 30
_RATE_RANGE = (1e-9, 10.0)


class TrainRow(QWidget):
    """`key` is the field of TrainConfig that it fills. `problem` says why no training can begin."""

    changed = Signal()

    def __init__(self, key: str, name: str, tip: str, editor: QWidget) -> None:
        super().__init__()
        self.key, self.name = key, name
        self.editor = editor
        words = label(name, "small", "secondary", wrap=True)
        words.setFixedWidth(_NAME_WIDTH)
        words.setBuddy(editor)
        words.setToolTip(tip)
        editor.setToolTip(tip)
        editor.setAccessibleName(name)
        self._locked: _Locked | None = None
        places = QWidget()
        self._places = QStackedLayout(places)
        self._places.addWidget(editor)
        editor.setMinimumWidth(60)
        if not isinstance(editor, WordButton):
            edited, self._read, self._write = access(editor)
            edited.connect(lambda *_: self.changed.emit())
        self.setLayout(row(words, places, spacing=8, stretch=1))
        self.setFixedHeight(theme.grown(_HEIGHT))

    def lock(self, on: bool, words: str = "") -> None:
        """words: shown instead of the field's own value."""
        if on:
            if self._locked is None:
                self._locked = _Locked(self.name, self.editor.toolTip())
                self._places.addWidget(self._locked)
            self._locked.words.set_text(words or self.words())
            self._locked.setAccessibleName(f"{self.name}: {words or self.words()}")
        self._places.setCurrentIndex(1 if on else 0)

    @property
    def locked(self) -> str:
        """What stands beside the lock, "" while the field can be changed."""
        return self._locked.words.accessibleName() if self._locked is not None and self._places.currentIndex() else ""

    def value(self) -> Any:
        return self._read()

    def set_value(self, value: Any) -> None:
        self._write(value)

    def words(self) -> str:
        """The value as it is read."""
        raise NotImplementedError

    def problem(self) -> str:
        return ""


class _Locked(QFrame):
    def __init__(self, name: str, tip: str) -> None:
        super().__init__()
        self.setProperty("tag", True)
        self.setFixedHeight(theme.grown(28))
        self.setToolTip(tip)
        self.setAccessibleName(name)
        self.words = ElidedLabel("", numbers=True)
        self.setLayout(row(self.words, IconLabel("lock", "text-muted", 14), spacing=4, margins=(8, 0, 7, 0), stretch=0))


class _Box(NumberBox):
    """A number box without trailing zeros: 16, not 16.00."""

    def __init__(self, allowed: tuple[float, float], places: int) -> None:
        super().__init__(allowed, places)
        self.setFont(theme.current().font("body", numbers=True))
        self.lineEdit().setTextMargins(7, 0, 0, 0)

    def textFromValue(self, value: float) -> str:
        shown = super().textFromValue(value)
        mark = self.locale().decimalPoint()
        return shown.rstrip("0").removesuffix(mark) if mark in shown else shown


class _Edit(QLineEdit):
    """A line of text, without the spaces around it."""

    def __init__(self) -> None:
        super().__init__()
        self.changed, self.set_value = self.textChanged, self.setText

    def value(self) -> str:
        return self.text().strip()


class NumberRow(TrainRow):
    """unit: what follows the number, as "steps"."""

    def __init__(self, key: str, name: str, tip: str, allowed: tuple[float, float], places: int = 0, unit: str = "") -> None:
        self._box = _Box(allowed, places)
        self._unit = unit
        if unit:
            self._box.setSuffix(f"{figures.HARD}{unit}")
        limits = tr("{0} to {1}.", *map(self._box.textFromValue, allowed))
        super().__init__(key, name, sentences(tip, limits), self._box)

    def words(self) -> str:
        value = self.value()
        shown = figures.group(value) if isinstance(value, int) else self._box.textFromValue(value)
        return f"{shown}{figures.HARD}{self._unit}" if self._unit else shown


class RateRow(TrainRow):
    """A learning rate, as 0.0001 or 1e-4."""

    def __init__(self, key: str, name: str, tip: str) -> None:
        self._edit = _Edit()
        self._edit.setFont(theme.current().font("body", numbers=True))
        super().__init__(key, name, tip, self._edit)
        self.changed.connect(self._judge)

    def _judge(self) -> None:
        self._edit.setProperty("invalid", bool(self.problem()))
        repolish(self._edit)

    def value(self) -> float:
        try:
            value = float(self.words().replace(",", "."))
        except ValueError:
            return math.nan
        return value if _RATE_RANGE[0] <= value <= _RATE_RANGE[1] else math.nan

    def set_value(self, value: float) -> None:
        self._edit.setText(f"{value:.10f}".rstrip("0").rstrip("."))

    def words(self) -> str:
        return self._edit.value()

    def problem(self) -> str:
        return tr("Use a learning rate such as 0.0001 or 1e-4.") if math.isnan(self.value()) else ""


class ChoiceRow(TrainRow):
    """choices: value and words."""

    def __init__(self, key: str, name: str, tip: str, choices: Sequence[tuple[Any, str]] = ()) -> None:
        self._combo: QComboBox = combo(name, tip)
        super().__init__(key, name, tip, self._combo)
        self.fill(choices)

    def fill(self, choices: Sequence[tuple[Any, str]]) -> None:
        """Other choices; the chosen one stays where it still is among them."""
        now = self.value()
        self._combo.blockSignals(True)
        self._combo.clear()
        fill_combo(self._combo, choices)
        self.set_value(now)
        self._combo.blockSignals(False)

    def set_value(self, value: Any) -> None:
        """What is not among the choices becomes one of them."""
        if value is None:
            return
        place = self._combo.findData(value)
        if place < 0:
            self._combo.addItem(str(value), value)
            place = self._combo.count() - 1
        self._combo.setCurrentIndex(place)

    def words(self) -> str:
        return self._combo.currentText()


class TextRow(TrainRow):
    def __init__(self, key: str, name: str, tip: str, hint: str = "") -> None:
        edit = _Edit()
        edit.setPlaceholderText(hint)
        super().__init__(key, name, tip, edit)

    def words(self) -> str:
        return self.value() or tr("none")


class SwitchRow(TrainRow):
    def __init__(self, key: str, name: str, tip: str) -> None:
        switch = Switch(tr("Off"))
        switch.toggled.connect(lambda on: switch.setText(tr("On") if on else tr("Off")))
        super().__init__(key, name, tip, switch)

    def words(self) -> str:
        return tr("On") if self.value() else tr("Off")


class FolderRow(TrainRow):
    """A button with the name of the folder. `show_words` tells what was found in it."""

    def __init__(self, key: str, name: str, tip: str, ask: Callable[[], object]) -> None:
        self._path, self._found = "", ""
        self._button: WordButton = button(tr("Choose…"), clicked=ask)
        self._button.setProperty("align", "left")
        super().__init__(key, name, tip, self._button)
        self._tip = tip

    def value(self) -> str:
        return self._path

    def set_value(self, value: str) -> None:
        if value == self._path:
            return
        self._path, self._found = value, ""
        self._show()
        self.changed.emit()

    def show_words(self, words: str) -> None:
        self._found = words
        self._show()

    def _show(self) -> None:
        room = max(60, self._button.width() - 24)
        shown = self._button.fontMetrics().elidedText(self.words(), Qt.TextElideMode.ElideRight, room)
        self._button.set_words(shown)
        self._button.setToolTip("\n".join(filter(None, (self._path, self._tip))))
        self._button.setAccessibleName(f"{self.name}: {self.words()}")

    def words(self) -> str:
        from pathlib import Path

        return self._found or Path(self._path).name or tr("Choose…")
