"""Updates of a package: where they come from, what the offered one would change, how far it is, and how it ended."""

import msgspec
from PySide6.QtWidgets import QWidget

from halftone import __version__
from halftone.contract.wording import Words
from halftone.gui.controller import Controller
from halftone.gui.i18n import language, say, tr
from halftone.gui.kit.stock_widgets import Card, FactGrid, boxed, button, column, label, progress_bar, row, set_tone
from halftone.gui.settings.setting_rows import GroupCard, SettingRow
from halftone.gui.settings.typed_controls import SourceControl
from halftone.session.update_state import Offer, Updating
from halftone.settings.declared import declared
from halftone.settings.disk import size_text
from halftone.settings.places import is_packaged

_NAMES = 180
_PARTS = 1000
"""Of the progress bar."""
_SOURCES = Words("Only an installed package can be updated here.")


def step_words(updating: Updating) -> str:
    """What an update does now."""
    match updating.step:
        case "download" | "":
            return _fetching(updating)
        case "unpack":
            return tr("Unpacking…")
        case "environment":
            return tr("Building the new environment…")
        case "self-check":
            return tr("Checking the new version…")
        case "switch":
            return tr("Switching to the new version…")


def _fetching(updating: Updating) -> str:
    """An archive in a folder of this computer is only copied."""
    remote = updating.offer is not None and "://" in updating.offer.source
    if not updating.total:
        return tr("Downloading the update…") if remote else tr("Copying the update…")
    sizes = size_text(updating.done), size_text(updating.total)
    return tr("Downloading the update: {0} of {1}", *sizes) if remote else tr("Copying the update: {0} of {1}", *sizes)


def notes_of(offer: Offer) -> str:
    """What is new, in the language of the window where the update has it."""
    return offer.notes.get(language()) or offer.notes.get("en", "")


class UpdatesSection(QWidget):
    """packaged: whether updates apply. Without a package nothing can be pressed, and the section says why."""

    def __init__(self, controller: Controller, *, packaged: bool | None = None) -> None:
        super().__init__()
        self._packaged = is_packaged() if packaged is None else packaged
        self._controller = controller
        self._updates = controller.session.updates
        setting = declared("update_source")
        source = SourceControl(tr(setting.title))
        source.changed.connect(self._set_source)
        self.rows = {setting.field: SettingRow(setting, source)}
        self.rows[setting.field].set_refused(None if self._packaged else _SOURCES)
        self.rows[setting.field].reset.connect(lambda: source.changed.emit(""))
        self.check = button(tr("Check for updates"), "", "refresh-cw", clicked=self._updates.check)
        self.install = button(tr("Install"), "primary", clicked=self._updates.install)
        self.cancel = button(tr("Cancel"), "", clicked=self._updates.cancel)
        self.state = label("", "body", wrap=True)
        self.facts = FactGrid(across=12, down=8, names=_NAMES)
        self._facts_box = boxed(self.facts)
        self.notes = label("", "small", "secondary", wrap=True)
        self.bar = progress_bar(tr("Progress of the update"))
        self.line = label("", "caption", "muted", wrap=True)
        buttons = row(self.check, self.install, self.cancel, -1, spacing=8)
        inside = (self.state, self._facts_box, self.notes, self.bar, self.line, buttons)
        card = Card(layout=column(*inside, spacing=10, margins=(16, 14, 16, 16)))
        head = label(tr("Updates"), "heading-m")
        self.setLayout(column(head, GroupCard("", list(self.rows.values()), heads=False), card, -1, spacing=10))
        self._shown: Updating | None = None
        self.refresh()

    def _set_source(self, source: str) -> None:
        settings = msgspec.structs.replace(self._controller.settings, update_source=source)
        self._controller.session.settings.update(settings)
        self.refresh()

    def set_narrow(self, *, narrow: bool) -> None:
        del narrow

    def refresh(self) -> None:
        source = self._controller.settings.update_source
        one = self.rows["update_source"]
        one.control.set_value(source)
        one.set_changed(changed=bool(source))
        updating = self._controller.state.updating
        if updating != self._shown:
            self._shown = updating
            self._show(updating)

    def _show(self, updating: Updating) -> None:
        running = updating.stage in ("checking", "installing")
        self.state.setText(self._words(updating))
        set_tone(self.state, "danger" if updating.stage == "failed" else "")
        offered = updating.offer is not None and updating.stage != "done"
        self._facts_box.setVisible(offered)
        self.notes.setVisible(offered)
        if updating.offer is not None:
            self._show_offer(updating.offer)
        self.bar.setVisible(running)
        self.bar.setRange(0, _PARTS if updating.total else 0)  # without an end, Qt shows that something runs
        self.bar.setValue(_PARTS * updating.done // updating.total if updating.total else 0)
        self.line.setVisible(bool(updating.line) and running)
        self.line.setText(updating.line)
        self.check.setVisible(not running and self._packaged)
        self.install.setVisible(updating.stage in ("found", "failed") and updating.offer is not None)
        self.cancel.setVisible(running and updating.step != "switch")

    def _words(self, updating: Updating) -> str:
        match updating.stage:
            case "idle" if not self._packaged:
                return tr("Halftone {0} runs from its source code. To update it, run “git pull” in its folder.", __version__)
            case "idle":
                return tr("This is version {0}. Halftone looks for updates only when you ask it to.", __version__)
            case "checking":
                return tr("Reading the manifest…")
            case "up-to-date":
                return tr("You have the newest version.")
            case "found":
                assert updating.offer is not None
                return tr("Version {0} is available.", updating.offer.version)
            case "installing":
                return step_words(updating)
            case "done":
                version = "" if updating.offer is None else updating.offer.version
                return tr("Version {0} is installed and will start next time. The current version is kept.", version)
            case "failed":
                return say(updating.error)

    def _show_offer(self, offer: Offer) -> None:
        environment = tr("A new one will be built; this downloads packages") if offer.environment else tr("Stays as it is")
        facts = [
            (tr("Version"), tr("{0} of {1}; current: {2}", offer.version, offer.date, offer.current)),
            (tr("Source"), offer.source),
            (tr("Download"), tr("{0}; on the disk {1}", size_text(offer.size), size_text(offer.unpacked))),
            (tr("Environment"), environment),
        ]
        if offer.damaged:
            facts.append((tr("Current version"), tr("Damaged: {0}", offer.damaged)))
        self.facts.fill([(label(name, "small", "secondary"), label(value, "small", wrap=True)) for name, value in facts])
        self.notes.setText(notes_of(offer))
