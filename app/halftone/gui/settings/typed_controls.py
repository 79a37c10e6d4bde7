"""Settings that are typed: a number, and the pattern of file names with a live example."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QKeySequenceEdit, QLineEdit, QWidget

from halftone.gui import theme
from halftone.gui.create.form.form_fields import NumberBox
from halftone.gui.health import file_dialogs
from halftone.gui.i18n import say, tr
from halftone.gui.kit.stock_widgets import button, column, label, row, set_tone, show_clear
from halftone.gui.settings.folder_list import WIDTH
from halftone.settings.declared import Setting
from halftone.settings.file_names import example, pattern_problem

_CONTROL = 248
_BOX = 84
_STEP = 10


class NumberControl(QWidget):
    """`changed`: the number, once it is entered."""

    changed = Signal(object)

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.field = NumberBox(setting.limits)
        self.field.setSingleStep(_STEP if setting.unit == "%" else 1)
        self.field.setFont(theme.current().font("body", numbers=True))
        self.field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.field.setKeyboardTracking(False)
        self.field.setFixedWidth(theme.grown(_BOX))
        self.field.setAccessibleName(tr(setting.title))
        self.field.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.field.valueChanged.connect(lambda _value: self.changed.emit(self.field.number()))
        self.setFixedWidth(max(_CONTROL, theme.grown(_BOX) + 40))
        self.setLayout(row(self.field, label(setting.unit, "small", "secondary"), -1, spacing=8))

    def set_value(self, value: object) -> None:
        """Show a value without telling."""
        with QSignalBlocker(self.field):
            self.field.setValue(float(str(value)))


class KeysControl(QWidget):
    """`changed`: the combination that was pressed, as Qt writes it for files; "" for none."""

    changed = Signal(str)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.field = QKeySequenceEdit()
        self.field.setMaximumSequenceLength(1)
        show_clear(self.field)
        self.field.setFont(theme.current().font("body"))
        self.field.setAccessibleName(name)
        self.field.editingFinished.connect(self._enter)
        self._value = ""
        self.setFixedWidth(theme.grown(_CONTROL))
        self.setLayout(row(self.field))

    def set_value(self, value: object) -> None:
        """Show a combination without telling."""
        self._value = str(value)
        if not self.field.hasFocus() or self._pressed() != self._value:
            self.field.setKeySequence(QKeySequence(self._value))

    def _pressed(self) -> str:
        """Both Enter keys are one."""
        return self.field.keySequence().toString(QKeySequence.SequenceFormat.PortableText).replace("Return", "Enter")

    def _enter(self) -> None:
        if self._pressed() != self._value:
            self.changed.emit(self._pressed())


class PatternControl(QWidget):
    """`changed`: the pattern, once it is entered and can name files. ending: of the example."""

    changed = Signal(str)

    def __init__(self, setting: Setting, ending: Callable[[], str]) -> None:
        super().__init__()
        self._ending = ending
        self._value = ""
        self.field = QLineEdit()
        self.field.setFont(theme.current().font("mono"))
        self.field.setAccessibleName(tr(setting.title))
        self.field.textChanged.connect(self._show)
        self.field.editingFinished.connect(self._enter)
        self.note = label("", "caption", "secondary", wrap=True)
        self.setFixedWidth(theme.grown(WIDTH))
        self.setLayout(column(self.field, self.note, spacing=3))

    def set_value(self, value: object) -> None:
        """Show a value; what is being typed stays."""
        if str(value) != self._value:
            self._value = str(value)
            self.field.setText(self._value)
        self._show()

    def _show(self) -> None:
        problem = pattern_problem(self.field.text())
        words = tr("Example: {0}", example(self.field.text(), self._ending())) if problem is None else say(problem)
        self.note.setText(words)
        set_tone(self.note, "secondary" if problem is None else "danger")

    def _enter(self) -> None:
        if self.field.text() != self._value and pattern_problem(self.field.text()) is None:
            self._value = self.field.text()
            self.changed.emit(self._value)


class SourceControl(QWidget):
    """A folder that is chosen, or an address that is typed. `changed`: the one that was entered."""

    changed = Signal(str)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._value = ""
        self.field = QLineEdit()
        self.field.setFont(theme.current().font("body"))
        self.field.setPlaceholderText(tr("Folder or https://…"))
        self.field.setAccessibleName(name)
        show_clear(self.field)
        self.field.editingFinished.connect(self._enter)
        self.choose = button(tr("Choose…"), "", "folder-open", clicked=self._ask)
        self.setFixedWidth(theme.grown(WIDTH))
        self.setLayout(row(self.field, self.choose, spacing=8, stretch=0))

    def set_value(self, value: object) -> None:
        """Show a source without telling."""
        self._value = str(value)
        if not self.field.hasFocus() or self.field.text().strip() != self._value:
            self.field.setText(self._value)

    def _enter(self) -> None:
        if (text := self.field.text().strip()) != self._value:
            self.changed.emit(text)

    def _ask(self) -> None:
        here = Path(self._value) if self._value and "://" not in self._value else Path.home()
        file_dialogs.ask_folder(self, here, self.changed.emit)
