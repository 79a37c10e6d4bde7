"""Settings > Shortcuts: the keys of every action and page, each of which the user may change."""

from functools import partial

import msgspec
from PySide6.QtWidgets import QWidget

from halftone.contract.wording import Words
from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.gui.kit.actions import ACTIONS
from halftone.gui.kit.stock_widgets import button, column, label, row
from halftone.gui.settings.setting_rows import GroupCard, SettingRow
from halftone.gui.settings.typed_controls import KeysControl
from halftone.gui.shell.pages import PAGES, key_name
from halftone.session.shortcuts import chosen, in_force, user_of
from halftone.settings.declared import Setting

Shortcut = tuple[str, str, tuple[str, ...]]
"""Name, English words and usual keys."""


def all_shortcuts() -> tuple[Shortcut, ...]:
    """Pages and actions, those without usual keys last."""
    pages = [(key_name(name), page.name.template, (page.key,)) for name, page in PAGES.items()]
    acts = [(str(name), action.text.template, action.keys) for name, action in ACTIONS.items()]
    return tuple(sorted((*pages, *acts), key=lambda one: not one[2]))


class ShortcutsSection(QWidget):
    """Changes apply at once. A combination that something else has is refused by name."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._usual = {name: keys for name, _, keys in all_shortcuts()}
        self._titles = {name: words for name, words, _ in all_shortcuts()}
        self.rows = {name: self._row(name) for name in self._titles}
        self.reset = button(tr("Reset to defaults"), "quiet", size="large", clicked=lambda: self._put({}))
        words = column(
            label(tr("Shortcuts"), "heading-m"),
            label(tr("Click a field, then press the new keys."), "small", "secondary", wrap=True),
            spacing=0,
        )
        head = row(words, self.reset, spacing=8, stretch=0)
        self.setLayout(column(head, GroupCard("", [*self.rows.values()], heads=False), -1, spacing=9))
        self.refresh()

    def _row(self, name: str) -> SettingRow:
        title = self._titles[name]
        setting = Setting(
            name=name, field=name, page="Shortcuts", section="", title=title, sentence="", tooltip="", kind="text", default=""
        )
        control = KeysControl(tr(title))
        made = SettingRow(setting, control)
        control.changed.connect(partial(self.change, name))
        made.reset.connect(lambda: self.change(name, ", ".join(self._usual[name])))
        return made

    def change(self, name: str, keys: str) -> None:
        """Give an action other keys, unless another has them."""
        kept = self._controller.settings.shortcuts
        other = next((user for key in keys.split(", ") if (user := user_of(key, name, in_force(self._usual, kept)))), None)
        if other is not None:
            self.rows[name].say_below(Words("{0} belongs to “{1}”.", (keys, Words(self._titles[other]))))
            self.rows[name].control.set_value(", ".join(in_force(self._usual, kept)[name]))
            return
        self._put(chosen(self._usual, kept, name, keys))

    def _put(self, shortcuts: dict[str, str]) -> None:
        self._controller.session.settings.update(msgspec.structs.replace(self._controller.settings, shortcuts=shortcuts))
        self.refresh()

    def set_narrow(self, *, narrow: bool) -> None:
        del narrow

    def refresh(self) -> None:
        kept = self._controller.settings.shortcuts
        now = in_force(self._usual, kept)
        for name, one in self.rows.items():
            one.control.set_value(", ".join(now[name][:1]))
            one.set_changed(changed=now[name] != self._usual[name])
            shared = next((user for key in now[name] if (user := user_of(key, name, now))), None)
            one.say_below(None if shared is None else Words("“{0}” has the same keys.", (Words(self._titles[shared]),)))
        self.reset.setEnabled(any(now[name] != self._usual[name] for name in self.rows))
