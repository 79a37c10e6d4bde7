"""Settings that are not about numbers: device, language, theme, folders; and About."""

import platform
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import QUrl, qVersion
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QGridLayout, QWidget

from halftone import __version__
from halftone.gui.controller import Controller
from halftone.gui.health import file_dialogs
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import Card, ElidedLabel, button, column, label, row
from halftone.gui.settings.folder_list import FileControl, FoldersControl
from halftone.gui.settings.setting_rows import Control, GroupCard, SettingRow
from halftone.settings import places
from halftone.settings.declared import DECLARED, Setting


class FolderControl(QWidget):
    """A folder with Choose… and a way back to the usual one."""

    def __init__(self, owner: "ProgramSection") -> None:
        super().__init__()
        self._owner = owner
        self.path = ElidedLabel("", "small", "secondary")
        self.choose = button(tr("Choose…"), "", "folder-open", clicked=self.ask)
        self.show_folder = button(tr("Show"), "quiet", clicked=self._open)
        self.setFixedWidth(420)
        self.setLayout(row(self.path, self.show_folder, self.choose, spacing=8, stretch=0))

    def folder(self) -> Path:
        chosen = self._owner.controller.settings.pictures_folder
        return Path(chosen) if chosen else places.pictures_dir()

    def refresh(self) -> None:
        self.path.set_text(str(self.folder()))

    def ask(self) -> None:
        file_dialogs.ask_folder(self, self.folder(), lambda path: self._owner.change("pictures_folder", path))

    def _open(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self.folder())))


class ProgramSection(QWidget):
    """One page of declared settings: General, Appearance or Folders."""

    def __init__(self, controller: Controller, page: str) -> None:
        super().__init__()
        self.controller = controller
        self.rows: dict[str, SettingRow] = {}
        body = column(label(tr(page), "heading-m"), spacing=10)
        declared = [one for one in DECLARED if one.page == page]
        body.addWidget(GroupCard("", [self._row(one) for one in declared], heads=False))
        body.addStretch(1)
        self.setLayout(body)
        self.refresh()

    def _row(self, setting: Setting) -> SettingRow:
        control = self._control(setting)
        made = SettingRow(setting, control)
        made.reset.connect(
            lambda field=setting.field: self.change(field, None if field == "pictures_folder" else setting.default)
        )
        self.rows[setting.field] = made
        return made

    def _control(self, setting: Setting) -> QWidget:
        if setting.field == "pictures_folder":
            return FolderControl(self)
        if setting.kind == "file":
            file = FileControl()
            file.changed.connect(partial(self.change, setting.field))
            return file
        if setting.kind == "folders":
            folders = FoldersControl()
            folders.changed.connect(partial(self.change, setting.field))
            return folders
        return self._choice(setting)

    def _choice(self, setting: Setting) -> Control:
        if setting.field == "device":
            control = Control(setting, self._devices(), dropdown=True)
        else:
            control = Control(
                setting, [(one.value, tr(one.label), tr(one.sentence) if one.sentence else "") for one in setting.choices]
            )
        control.changed.connect(lambda value, field=setting.field: self.change(field, value))
        return control

    def _devices(self) -> list[tuple[str, str, str]]:
        found = [("auto", tr("Auto"), "")]
        found += [(one.id, one.name, one.id) for one in self.controller.state.devices]
        wanted = self.controller.settings.device
        if all(value != wanted for value, _, _ in found):
            found.append((wanted, tr("{0} (not found)", wanted), ""))
        return found

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
        settings = self.controller.settings
        for field, one in self.rows.items():
            value = getattr(settings, field)
            if isinstance(one.control, FolderControl):
                one.control.refresh()
                one.set_changed(changed=value is not None)
                continue
            if isinstance(one.control, FileControl):
                one.control.set_file(value)
            if isinstance(one.control, FoldersControl):
                one.control.set_folders(value)
            if isinstance(one.control, Control):
                if field == "device":
                    one.control.set_choices(self._devices())
                one.control.set_value(value)
            one.set_changed(changed=value != one.setting.default and field != "model_folders")  # no click empties the list


_NAMES = 180
_BUTTONS = 84
"""Widths that the cards of About share, so that what belongs together stands in one column."""


class AboutSection(QWidget):
    """Version, licences, where things are."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._facts = QGridLayout()
        self._facts.setHorizontalSpacing(12)
        self._facts.setVerticalSpacing(8)
        self._facts.setColumnMinimumWidth(0, _NAMES)
        self._facts.setColumnStretch(1, 1)
        self._torch = label("", "small", numbers=True)
        known = (
            (tr("Version"), label(__version__, "small", numbers=True)),
            ("PyTorch", self._torch),
            ("Qt", label(qVersion(), "small", numbers=True)),
            ("Python", label(platform.python_version(), "small", numbers=True)),
            (tr("Licence"), label("Apache-2.0", "small")),
        )
        for index, (name, value) in enumerate(known):
            self._facts.addWidget(label(name, "small", "secondary"), index, 0)
            self._facts.addWidget(value, index, 1)
        about = label(
            tr("Makes pictures and explains every black one."),
            "body",
            "secondary",
            wrap=True,
        )
        facts = Card(layout=column(label("Halftone", "heading-s"), about, 4, self._facts, spacing=4, margins=(16, 14, 16, 16)))
        self.setLayout(column(label(tr("About"), "heading-m"), facts, self._folders(), self._licences(), -1, spacing=10))

    def _folders(self) -> QWidget:
        body = column(label(tr("Locations"), "heading-s"), spacing=6, margins=(16, 12, 16, 12))
        self.folder_buttons = {}
        for name, folder in (
            (tr("Logs"), places.log_dir()),
            (tr("Checks and measurements"), places.checks_dir()),
            (tr("Settings file"), places.settings_file().parent),
        ):
            show = button(tr("Show"), "", "folder-open", clicked=lambda place=folder: _show(place))
            show.setMinimumWidth(_BUTTONS)
            show.setAccessibleName(tr("Show: {0}", name))
            title = label(name, "body")
            title.setMinimumWidth(_NAMES)
            line = row(title, ElidedLabel(str(folder), "small", "secondary"), show, spacing=12, stretch=1)
            body.addLayout(line)
        return Card(layout=body)

    def _licences(self) -> QWidget:
        body = column(label(tr("Bundled licences"), "heading-s"), spacing=6, margins=(16, 12, 16, 12))
        base = places.resources()
        for name, licence, file in (
            ("Inter", "SIL Open Font License 1.1", base / "fonts" / "Inter-OFL.txt"),
            ("JetBrains Mono", "SIL Open Font License 1.1", base / "fonts" / "JetBrainsMono-OFL.txt"),
            ("Lucide", "ISC", base / "icons" / "lucide" / "LICENSE"),
        ):
            read = button(tr("Read"), "", "file-text", clicked=lambda place=file: _show(place))
            read.setMinimumWidth(_BUTTONS)
            read.setAccessibleName(tr("Licence of {0}", name))
            title = label(name, "body")
            title.setMinimumWidth(_NAMES)
            line = row(title, label(licence, "small", "secondary"), -1, read, spacing=12)
            body.addLayout(line)
        return Card(layout=body)

    def set_narrow(self, *, narrow: bool) -> None:
        del narrow

    def refresh(self) -> None:
        device = self._controller.state.device
        self._torch.setText(device.torch_version if device is not None and device.torch_version else tr("starting"))


def _show(place: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(place)))
