"""Rows of a settings page, made from the declarations: name, sentence, control, and for Numerics the measured effect."""

from collections.abc import Sequence
from typing import cast

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontMetricsF, QStandardItemModel
from PySide6.QtWidgets import QComboBox, QFrame, QGridLayout, QHBoxLayout, QSizePolicy, QWidget

from halftone.contract.wording import Words
from halftone.gui import theme
from halftone.gui.charts.effect_cell import CLOSENESS, TIME, Effect, EffectCell
from halftone.gui.create.form.form_fields import combo
from halftone.gui.i18n import say, tr
from halftone.gui.kit.stock_widgets import Card, boxed, column, hline, icon_button, label, repolish, row, set_tone
from halftone.gui.kit.switches import Segmented, Switch
from halftone.gui.settings.folder_list import FoldersControl, PathControl
from halftone.gui.settings.typed_controls import KeysControl, NumberControl, PatternControl, SourceControl
from halftone.settings.declared import Setting

CONTROL = 248
"""Width of a control at the usual text size."""
MOST_SEGMENTS = 4
Shown = tuple[str, str, str]
"""Value, label and tooltip of a choice."""


def _fit(words: Sequence[str]) -> bool:
    """Whether these words stand side by side in one control."""
    metrics = QFontMetricsF(theme.current().font("small-strong"))
    width = theme.grown(CONTROL)
    return max(metrics.horizontalAdvance(one) for one in words) + 18 <= width / len(words) or (
        sum(metrics.horizontalAdvance(one) + 20 for one in words) <= width - 4
    )


def choices_of(setting: Setting) -> list[Shown]:
    return [(one.value, tr(one.label), tr(one.sentence) if one.sentence else "") for one in setting.choices]


class Control(QWidget):
    """Segments for a few short choices, a drop-down for others, a switch with its word."""

    changed = Signal(object)

    def __init__(self, setting: Setting, choices: Sequence[Shown], *, dropdown: bool = False) -> None:
        """dropdown: even for few choices."""
        super().__init__()
        self._setting = setting
        self._choices: list[Shown] = []
        self._word = label("", "small", "secondary")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setFixedWidth(theme.grown(CONTROL))
        if setting.kind == "switch":
            self.field = self._made_switch()
            self.setLayout(row(self.field, self._word, -1, spacing=8))
        else:
            few = not dropdown and len(choices) <= MOST_SEGMENTS and _fit([words for _, words, _ in choices])
            self.field = self._made_segments(choices) if few else self._made_combo()
            self.setLayout(row(self.field))
        self.field.setAccessibleName(tr(setting.title))
        self.set_choices(choices)

    def _made_switch(self) -> Switch:
        made = Switch()
        made.toggled.connect(lambda on: self._word.setText(tr("On") if on else tr("Off")))
        made.clicked.connect(lambda: self.changed.emit(made.isChecked()))
        self._word.setText(tr("Off"))
        return made

    def _made_segments(self, choices: Sequence[Shown]) -> Segmented:
        made = Segmented([(value, words) for value, words, _ in choices])
        for value, words, tip in choices:
            made.set_tip(value, tip)
            made.button(value).setAccessibleName(f"{tr(self._setting.title)}: {words}")
        made.chosen.connect(self.changed.emit)
        return made

    def _made_combo(self) -> QComboBox:
        made = combo("", "")
        made.setFixedWidth(theme.grown(CONTROL))
        made.activated.connect(lambda index: self.changed.emit(made.itemData(index)))
        return made

    def set_choices(self, choices: Sequence[Shown]) -> None:
        """Refill the drop-down."""
        if not isinstance(self.field, QComboBox) or self._choices == list(choices):
            return
        self._choices = list(choices)
        self.field.clear()
        for place, (value, words, tip) in enumerate(choices):
            self.field.addItem(words, value)
            self.field.setItemData(place, tip, Qt.ItemDataRole.ToolTipRole)

    def refuse(self, value: str, reason: str | None) -> None:
        """A choice that fails here stays visible but cannot be taken; reason None lifts that."""
        if isinstance(self.field, Segmented):
            self.field.button(value).setEnabled(reason is None)
            self.field.set_tip(value, reason or next(tip for one, _, tip in choices_of(self._setting) if one == value))
        elif isinstance(self.field, QComboBox):
            model, place = cast("QStandardItemModel", self.field.model()), self.field.findData(value)
            if place >= 0:
                model.item(place).setEnabled(reason is None)
                choice = next(tr(one.label) for one in self._setting.choices if one.value == value)
                self.field.setItemText(place, f"{choice} ({reason.rstrip('.')})" if reason else choice)

    def set_value(self, value: object) -> None:
        """Show a value without telling."""
        match self.field:
            case Switch():
                self.field.setChecked(bool(value))
            case Segmented():
                self.field.set_value(str(value))
            case _:
                self.field.setCurrentIndex(max(0, self.field.findData(value)))


AnyControl = Control | NumberControl | PatternControl | PathControl | FoldersControl | KeysControl | SourceControl


class SettingRow(QFrame):
    """Name and sentence, control, effect; below 1180 the effect stands on a second line. A setting that cannot act here is
    disabled and says why.
    """

    reset = Signal()

    def __init__(self, setting: Setting, control: AnyControl, effect: EffectCell | None = None) -> None:
        super().__init__()
        self.setting = setting
        self.control = control
        self.effect = effect
        self._title = label(tr(setting.title), "body-strong")
        self._changed = label(tr("Changed"), "caption", "accent")
        self._undo = icon_button("undo-2", tr("Back to the default: {0}", tr(setting.title)), size=14, clicked=self.reset.emit)
        self._undo.setFixedSize(24, 20)
        self._sentence = label(tr(setting.sentence), "caption", "secondary", wrap=True)
        self._reason = label("", "caption", "muted", wrap=True)
        self._reason.hide()
        head: QHBoxLayout = row(self._title, self._changed, self._undo, -1, spacing=8)
        self._words = boxed(column(head, self._sentence, self._reason, spacing=0))
        self._words.setToolTip(_tip(setting))
        self.control.setToolTip(_tip(setting))
        self._grid = QGridLayout()
        self._grid.setContentsMargins(14, 5, 14, 6)
        self._grid.setHorizontalSpacing(16)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        self.setLayout(self._grid)
        self.setMinimumHeight(theme.grown(47))
        self._narrow: bool | None = None
        self.set_narrow(narrow=False)
        self.set_changed(changed=False)

    def set_narrow(self, *, narrow: bool) -> None:
        if narrow == self._narrow:
            return
        self._narrow = narrow
        for widget in (self._words, self.control, self.effect):
            if widget is not None:
                self._grid.removeWidget(widget)
        self._grid.addWidget(self._words, 0, 0, Qt.AlignmentFlag.AlignVCenter)
        if theme.has_large_text():
            self._grid.addWidget(self.control, 1, 0, 1, 2)
        else:
            self._grid.addWidget(self.control, 0, 1, Qt.AlignmentFlag.AlignVCenter)
        if self.effect is not None:
            if narrow or theme.has_large_text():
                self._grid.addWidget(self.effect, 2, 0, 1, 2)
            else:
                self._grid.addWidget(self.effect, 0, 2, Qt.AlignmentFlag.AlignVCenter)

    def set_changed(self, *, changed: bool) -> None:
        self._changed.setVisible(changed)
        self._undo.setVisible(changed)

    def set_found(self, *, found: bool) -> None:
        """Mark the row as the one that was looked for."""
        self.setProperty("found", found)
        repolish(self)

    def focus_control(self) -> None:
        control = self.control
        first = control.field if isinstance(control, Control | NumberControl | PatternControl | KeysControl) else control
        first.setFocus(Qt.FocusReason.OtherFocusReason)

    def set_refused(self, reason: Words | None) -> None:
        """reason: why the setting cannot act here, None where it can."""
        self.control.setEnabled(reason is None)
        self.say_below(reason, "muted")

    def say_below(self, words: Words | None, tone: str = "warn") -> None:
        """Say something below the sentence; None takes it away."""
        set_tone(self._reason, tone)
        self._reason.setText("" if words is None else say(words))
        self._reason.setVisible(words is not None)

    def set_effect(self, effect: Effect) -> None:
        if self.effect is not None:
            self.effect.set_effect(effect)
            self.effect.setToolTip(effect.sentence)


def _tip(setting: Setting) -> str:
    flags = "  ".join(setting.flags)
    words = tr(setting.tooltip) if setting.tooltip else ""
    return f"{words}\n{flags}" if flags else words


class GroupCard(Card):
    """A section: its title, the heads of the effect columns beside it (below it on a narrow page), and its rows."""

    def __init__(self, title: str, rows: Sequence[QWidget], *, heads: bool) -> None:
        super().__init__()
        line = row(spacing=0)
        for words, width in ((tr("Time"), TIME), (tr("Closeness to FP32"), CLOSENESS)):
            made = label(words, "caption", "secondary")
            made.setFixedWidth(theme.grown(width))
            line.addWidget(made)
        self._heads = boxed(line)
        self._heads.setParent(self)
        self._heads.setVisible(heads)  # only now: without a parent they would open as a window
        body = column(spacing=0, margins=(1, 10 if title else 2, 1, 1 if title else 2))
        self._head = QGridLayout()
        if title:
            self._head.setContentsMargins(14, 0, 14, 9)
            self._head.setColumnStretch(0, 1)
            self._head.setVerticalSpacing(4)
            self._head.addWidget(label(title, "small-strong"), 0, 0)
            body.addLayout(self._head)
            self.set_narrow(narrow=False)
        for index, one in enumerate(rows):
            if title or index:
                body.addWidget(hline())
            body.addWidget(one)
        self.setLayout(body)

    def set_narrow(self, *, narrow: bool) -> None:
        self._head.removeWidget(self._heads)
        self._head.addWidget(self._heads, int(narrow), int(not narrow), Qt.AlignmentFlag.AlignLeft)
