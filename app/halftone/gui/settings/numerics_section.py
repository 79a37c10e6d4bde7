"""Settings > Numerics: every switch with what it costs and gains on this very device."""

import msgspec
from PySide6.QtWidgets import QWidget

from halftone.contract.request import Numerics
from halftone.gui import theme
from halftone.gui.charts.effect_cell import EffectCell
from halftone.gui.controller import Controller
from halftone.gui.i18n import say, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import button, column, label, row
from halftone.gui.settings import setting_effects
from halftone.gui.settings.abilities import abilities
from halftone.gui.settings.setting_rows import Control, GroupCard, SettingRow, choices_of
from halftone.health.planning.usable_settings import choice_refusal, refusal
from halftone.settings.declared import DECLARED, Setting


class NumericsSection(QWidget):
    """Changes apply at once, from the next picture on."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._before: Numerics | None = None
        self.rows: dict[str, SettingRow] = {}
        self._sub = label("", "small", "secondary", wrap=True)
        self.measure = button(tr("Measure again"), "", "refresh-cw", size="large", clicked=self._measure)
        self.measure.setToolTip(tr("Pictures wait meanwhile."))
        self.reset = button(tr("Reset to defaults"), "quiet", size="large", clicked=self.reset_all)
        self.reset.setToolTip(sentences(tr("Affects this page only."), tr("You can undo.")))
        words = column(label(tr("Numerics"), "heading-m"), self._sub, spacing=0)
        buttons = row(self.measure, self.reset, spacing=8)
        head = column(words, row(buttons, -1), spacing=8) if theme.has_large_text() else row(words, buttons, spacing=8, stretch=0)
        body = column(head, spacing=9)
        self._cards: list[GroupCard] = []
        declared = [one for one in DECLARED if one.page == "Numerics"]
        for section in dict.fromkeys(one.section for one in declared):
            rows = [self._row(one) for one in declared if one.section == section]
            card = GroupCard(tr(section), rows, heads=True)
            self._cards.append(card)
            body.addWidget(card)
        body.addStretch(1)
        self.setLayout(body)
        self.refresh()

    def _row(self, setting: Setting) -> SettingRow:
        control = Control(setting, choices_of(setting))
        made = SettingRow(setting, control, EffectCell())
        control.changed.connect(lambda value, field=setting.field: self.change(field, value))
        made.reset.connect(lambda field=setting.field, value=setting.default: self.change(field, value))
        self.rows[setting.field] = made
        return made

    def set_narrow(self, *, narrow: bool) -> None:
        for card in self._cards:
            card.set_narrow(narrow=narrow)
        for one in self.rows.values():
            one.set_narrow(narrow=narrow)

    def change(self, field: str, value: object) -> None:
        """One setting, applied and written at once."""
        self._before = None
        self._controller.update_numerics(msgspec.structs.replace(self._controller.settings.numerics, **{field: value}))
        self.refresh()

    def reset_all(self) -> None:
        """Reset to the defaults; pressed again, undo that."""
        if self._before is not None:
            before, self._before = self._before, None
            self._controller.update_numerics(before)
        else:
            self._before = self._controller.settings.numerics
            self._controller.update_numerics(Numerics())
        self.refresh()

    def _measure(self) -> None:
        self._controller.session.devices.measure()

    def refresh(self) -> None:
        """Values, changed marks and effects as they are now."""
        numerics, report = self._controller.settings.numerics, self._controller.state.self_test
        device, here = self._controller.state.device, abilities()
        used = msgspec.structs.replace(numerics, precision=self._controller.numerics.precision)
        for field, one in self.rows.items():
            value = getattr(numerics, field)
            control = one.control
            if isinstance(control, Control):
                for choice in one.setting.choices:
                    lacking = choice_refusal(field, choice.value, device, here)
                    found = setting_effects.refusal_of(report, field, choice.value, used)
                    control.refuse(choice.value, found if lacking is None else say(lacking))
                control.set_value(value)
            one.set_refused(refusal(field, device, here, numerics, report))
            one.set_changed(changed=value != one.setting.default)
            one.set_effect(setting_effects.effect(one.setting, numerics if field == "precision" else used, report))
        self._show_head(numerics)

    def _show_head(self, numerics: Numerics) -> None:
        state = self._controller.state
        report = state.self_test
        if report is None:
            name = state.device.name if state.device is not None else tr("this device")
            measured = tr("{0} is not measured yet.", name)
        else:
            when = figures.moment(report.measured_at)
            measured = tr("Effects measured on {0}, {1}.", report.device.name, when)
        self._sub.setText(sentences(tr("Auto suits almost everyone."), measured))
        words = tr("Measure again") if report is not None else tr("Measure now")
        self.measure.set_words(words if report is None else f"{words} · {figures.duration(report.seconds)}")
        if state.measuring:
            self.measure.set_words(tr("Measuring…"))
        self.measure.setEnabled(not state.measuring and state.device is not None)
        self.reset.setText(tr("Undo reset") if self._before is not None else tr("Reset to defaults"))
        self.reset.setEnabled(self._before is not None or numerics != Numerics())
