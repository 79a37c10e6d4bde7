"""Settings that are not about numbers: device, language, theme, folders; and About."""

import platform
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import qVersion
from PySide6.QtWidgets import QWidget

from halftone import __version__
from halftone.gui.controller import Controller
from halftone.gui.i18n import say, tr
from halftone.gui.kit.stock_widgets import Card, ElidedLabel, FactGrid, button, column, label, row
from halftone.gui.settings.abilities import abilities
from halftone.gui.settings.folder_list import FoldersControl, PathControl, show_place
from halftone.gui.settings.setting_rows import AnyControl, Control, GroupCard, SettingRow, Shown, choices_of
from halftone.gui.settings.typed_controls import NumberControl, PatternControl
from halftone.health.planning.usable_settings import choice_refusal, no_cards, refusal
from halftone.settings import places
from halftone.settings.declared import DECLARED, Setting


class ProgramSection(QWidget):
    """One page of declared settings: General, Appearance, Notifications or Folders."""

    def __init__(self, controller: Controller, page: str) -> None:
        super().__init__()
        self.controller = controller
        declared = [one for one in DECLARED if one.page == page]
        self.rows = {one.field: self._row(one) for one in declared}
        sections = tuple(dict.fromkeys(one.section for one in declared))
        body = column(label(tr(page), "heading-m"), spacing=10)
        for section in sections:
            rows = [self.rows[one.field] for one in declared if one.section == section]
            body.addWidget(GroupCard(tr(section) if len(sections) > 1 else "", rows, heads=False))
        body.addStretch(1)
        self.setLayout(body)
        self.refresh()

    def _row(self, setting: Setting) -> SettingRow:
        control = self._control(setting)
        control.changed.connect(partial(self.change, setting.field))
        made = SettingRow(setting, control)
        usual = None if setting.field == "pictures_folder" else setting.default
        made.reset.connect(lambda: self.change(setting.field, usual))
        return made

    def _control(self, setting: Setting) -> AnyControl:
        if setting.kind == "file" or setting.field == "pictures_folder":
            return PathControl(folder=setting.kind != "file")
        if setting.kind == "folders":
            return FoldersControl()
        if setting.kind == "number":
            return NumberControl(setting)
        if setting.kind == "pattern":
            return PatternControl(setting, lambda: f".{self.controller.settings.picture_format}")
        if setting.field == "device":
            return Control(setting, self._devices(), dropdown=True)
        return Control(setting, choices_of(setting))

    def _devices(self) -> list[Shown]:
        found = [("auto", tr("Auto"), ""), *((one.id, one.name, one.id) for one in self.controller.state.devices)]
        wanted = self.controller.settings.device
        return found if any(value == wanted for value, _, _ in found) else [*found, (wanted, tr("{0} (not found)", wanted), "")]

    def set_narrow(self, *, narrow: bool) -> None:
        del narrow

    def change(self, field: str, value: object) -> None:
        """One setting, applied and written at once."""
        control = self.controller
        chosen = next((one for one in control.state.devices if one.id == value), None)
        if field == "device" and chosen is not None:
            control.session.devices.use(chosen)
        else:
            control.session.settings.update(msgspec.structs.replace(control.settings, **{field: value}))
        self.refresh()

    def refresh(self) -> None:
        device = self.controller.state.device
        here = msgspec.structs.replace(abilities(), no_cards=no_cards(device, self.controller.state.devices))
        for field, one in self.rows.items():
            value = getattr(self.controller.settings, field)
            usual = one.setting.default
            if field == "pictures_folder":
                usual, value = str(places.pictures_dir()), value or str(places.pictures_dir())
            if field == "device" and isinstance(one.control, Control):
                one.control.set_choices(self._devices())
            for choice in one.setting.choices:
                if isinstance(one.control, Control):
                    reason = choice_refusal(field, choice.value, device, here)
                    one.control.refuse(choice.value, None if reason is None else say(reason))
            one.control.set_value(value)
            one.set_refused(refusal(field, device, here))
            one.set_changed(changed=value != usual and field != "model_folders")  # no click empties the list


_NAMES = 180
_BUTTONS = 84
"""Widths that the cards of About share, so that what belongs together stands in one column."""


class AboutSection(QWidget):
    """Version, licences, where things are."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self.rows: dict[str, SettingRow] = {}
        self._torch = label("", "small", numbers=True)
        known = (
            (tr("Version"), label(__version__, "small", numbers=True)),
            ("PyTorch", self._torch),
            ("Qt", label(qVersion(), "small", numbers=True)),
            ("Python", label(platform.python_version(), "small", numbers=True)),
            (tr("Licence"), label("Apache-2.0", "small")),
        )
        facts = FactGrid(across=12, down=8, names=_NAMES)
        facts.fill([(label(name, "small", "secondary"), value) for name, value in known])
        about = label(tr("Makes pictures and explains every black one."), "body", "secondary", wrap=True)
        head = label("Halftone", "heading-s")
        card = Card(layout=column(head, about, 4, facts, spacing=4, margins=(16, 14, 16, 16)))
        self.setLayout(column(label(tr("About"), "heading-m"), card, self._folders(), self._licences(), -1, spacing=10))

    def _folders(self) -> QWidget:
        known = (
            (tr("Logs"), places.log_dir()),
            (tr("Checks and measurements"), places.checks_dir()),
            (tr("Settings file"), places.settings_file().parent),
        )
        return _listing(
            tr("Locations"),
            [
                (name, ElidedLabel(str(folder), "small", "secondary"), tr("Show"), "folder-open", tr("Show: {0}", name), folder)
                for name, folder in known
            ],
        )

    def _licences(self) -> QWidget:
        base = places.resources()
        known = (
            ("Inter", "SIL Open Font License 1.1", base / "fonts" / "Inter-OFL.txt"),
            ("Halftone Sans SC", "SIL Open Font License 1.1", base / "fonts" / "HalftoneSansSC-OFL.txt"),
            ("JetBrains Mono", "SIL Open Font License 1.1", base / "fonts" / "JetBrainsMono-OFL.txt"),
            ("Lucide", "ISC", base / "icons" / "lucide" / "LICENSE"),
        )
        return _listing(
            tr("Bundled licences"),
            [
                (name, label(licence, "small", "secondary"), tr("Read"), "file-text", tr("Licence of {0}", name), file)
                for name, licence, file in known
            ],
        )

    def set_narrow(self, *, narrow: bool) -> None:
        del narrow

    def refresh(self) -> None:
        device = self._controller.state.device
        self._torch.setText(device.torch_version if device is not None and device.torch_version else tr("starting"))


def _listing(title: str, lines: Sequence[tuple[str, QWidget, str, str, str, Path]]) -> Card:
    """A card with a line for each place: name, what it is, and a button (words, icon, spoken name) that opens it."""
    body = column(label(title, "heading-s"), spacing=6, margins=(16, 12, 16, 12))
    for name, what, words, icon, spoken, place in lines:
        show = button(words, "", icon, clicked=partial(show_place, place))
        show.setMinimumWidth(_BUTTONS)
        show.setAccessibleName(spoken)
        head = label(name, "body")
        head.setMinimumWidth(_NAMES)
        body.addLayout(row(head, what, show, spacing=12, stretch=1))
    return Card(layout=body)
