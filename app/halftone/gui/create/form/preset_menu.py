"""Presets of the Create form: a menu that applies, saves, renames and deletes them, and a dialog that asks what to keep."""

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QGridLayout, QInputDialog, QLineEdit, QMenu, QWidget

from halftone.contract.facts import ModelFacts
from halftone.gui import theme
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.rows.folded_row import said_of
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit.stock_widgets import WordButton, button, column, label, row
from halftone.gui.kit.tab_order import OrderedDialog
from halftone.gui.text import problem
from halftone.session.pictures.draft import Draft, undone
from halftone.session.pictures.draft_parts import takes
from halftone.session.pictures.presets import FIELDS, Preset, delete_preset, proposed, put_back, rename_preset, save_preset

_ACROSS = 2


def tick_words() -> dict[str, str]:
    """What can be kept, as the form calls it."""
    return {
        "model": tr("Model"),
        "prompt": tr("Prompt"),
        "negative": tr("Negative prompt"),
        "styles": tr("Styles and wildcards"),
        "size": tr("Size"),
        "steps": tr("Steps"),
        "guidance": tr("Guidance"),
        "sampler": tr("Sampler"),
        "seed": tr("Seed"),
        "batch": tr("Batch"),
        "image": tr("Image to image"),
        "loras": tr("LoRA"),
        "controls": tr("ControlNet"),
        "ip_adapters": tr("IP-Adapter"),
        "hires": tr("Hires. fix"),
        "refiner": tr("Refiner"),
        "upscaler": tr("Upscale"),
        "variation": tr("Variation"),
        "vae": tr("VAE"),
        "transformer": tr("Transformer"),
        "video": tr("Video"),
        "options": tr("Options"),
    }


class PresetDialog(OrderedDialog):
    """A name, and a tick for each field that is to be kept. `accepted_as`: the name and the ticks."""

    accepted_as = Signal(str, object)

    def __init__(self, parent: QWidget, draft: Draft, model: ModelFacts | None, names: Sequence[str]) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Save as preset"))
        self._names = names
        self.name = QLineEdit()
        self.name.setPlaceholderText(tr("Preset name"))
        self.name.setAccessibleName(tr("Preset name"))
        self.replaces = label("", "caption", "muted")
        there = [name for name in FIELDS if takes(model, name)]
        self.ticks = {name: QCheckBox(tick_words()[name]) for name in there}
        grid = QGridLayout()
        grid.setHorizontalSpacing(24)
        deep = -(-len(there) // _ACROSS)
        for place, (name, tick) in enumerate(self.ticks.items()):
            tick.setChecked(name in proposed(draft))
            tick.toggled.connect(self._judge)
            grid.addWidget(tick, place % deep, place // deep)
        self.save = button(tr("Save"), "primary", clicked=self.accept)
        self.save.setDefault(True)
        buttons = row(-1, button(tr("Cancel"), clicked=self.reject), self.save)
        self.setLayout(column(self.name, self.replaces, grid, buttons, spacing=10, margins=(16, 16, 16, 16)))
        self.name.textChanged.connect(self._judge)
        self.accepted.connect(lambda: self.accepted_as.emit(self.name.text().strip(), self._ticked()))
        self._judge()

    def _ticked(self) -> frozenset[str]:
        return frozenset(name for name, tick in self.ticks.items() if tick.isChecked())

    def _judge(self, *_: object) -> None:
        name = self.name.text().strip()
        self.save.setEnabled(bool(name and self._ticked()))
        self.replaces.setText(tr("Replaces the preset of this name.") if name in self._names else "")


class PresetButton(WordButton):
    """Opens the menu. `said`: what became of it, and in which tone."""

    said = Signal(str, str)

    def __init__(self, binding: Binding) -> None:
        super().__init__(tr("Presets"), "", "")
        self.setProperty("kind", "link")
        self.setFont(theme.current().font("small"))
        self.setToolTip(tr("Saved settings."))
        self._binding, self._book = binding, binding.controller.session.presets
        self._undo: tuple[str, Callable[[], object]] | None = None
        self.clicked.connect(lambda _on=False: self._book.read(self._open, self._failed))

    # --- the menu ---------------------------------------------------------------------------------------------------

    def _open(self, presets: tuple[Preset, ...]) -> None:
        menu = self.menu_of(presets)
        menu.popup(self.mapToGlobal(QPoint(0, self.height() + 2)))

    def menu_of(self, presets: Sequence[Preset]) -> QMenu:
        """Those that there are, then what can be done with them."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        words = tick_words()
        for preset in presets:
            kept = listed(*(words[tick] for tick in preset.ticked))
            menu.addAction(_plain(preset.name), partial(self.apply, preset)).setToolTip(kept)
        if presets:
            menu.addSeparator()
        if self._undo is not None:
            menu.addAction(_plain(tr("Undo: {0}", self._undo[0])), self.undo)
        menu.addAction(tr("Save as preset…"), partial(self.ask, [one.name for one in presets]))
        for title, act in ((tr("Rename"), self.ask_name), (tr("Delete"), self.delete)):
            inner = menu.addMenu(title)
            inner.setEnabled(bool(presets))
            for preset in presets:
                inner.addAction(_plain(preset.name), partial(act, preset))
        return menu

    # --- what it does -----------------------------------------------------------------------------------------------

    def apply(self, preset: Preset) -> None:
        """Fill the form, and say what of it is not here."""
        before, model = self._binding.draft, self._binding.controller.settings.last_model
        self._book.apply(preset, partial(self._applied, preset))
        self._undo = preset.name, partial(self._back_to, before, self._binding.draft, model)

    def _applied(self, preset: Preset, gone: tuple[str, ...]) -> None:
        missing = tr("Not found: {0}.", listed(*gone)) if gone else ""
        self.said.emit(sentences(tr("Preset {0} applied.", preset.name), missing), "warn" if gone else "muted")

    def _back_to(self, before: Draft, after: Draft, model: str) -> None:
        """Restore the draft from before, but for what was changed since; the model too."""
        self._binding.put(undone(before, after, self._binding.draft))
        if model != self._binding.controller.settings.last_model:
            self._binding.controller.session.models.select(model)

    def ask(self, names: Sequence[str]) -> None:
        dialog = PresetDialog(self.window(), self._binding.draft, self._binding.controller.model, names)
        dialog.accepted_as.connect(self.save)
        dialog.open()
        dialog.name.setFocus()

    def save(self, name: str, ticked: frozenset[str]) -> None:
        preset = self._book.made(name, ticked)
        self._change(partial(save_preset, preset), tr("Preset {0} saved.", name))

    def ask_name(self, preset: Preset) -> None:
        dialog = QInputDialog(self.window())
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(tr("Rename"))
        dialog.setLabelText(tr("Preset name"))
        dialog.setTextValue(preset.name)
        dialog.textValueSelected.connect(partial(self.rename, preset))
        dialog.open()

    def rename(self, preset: Preset, name: str) -> None:
        new = name.strip()
        if new and new != preset.name:
            back = partial(self._change, partial(rename_preset, new, preset.name), tr("Preset {0} renamed.", new))
            self._change(partial(rename_preset, preset.name, new), tr("Preset {0} renamed.", preset.name), (new, back))

    def delete(self, preset: Preset) -> None:
        back = partial(self._change, partial(put_back, preset), tr("Preset {0} saved.", preset.name))
        self._change(partial(delete_preset, preset.name), tr("Preset {0} deleted.", preset.name), (preset.name, back))

    def undo(self) -> None:
        """Take back what was done last."""
        done, self._undo = self._undo, None
        if done is not None:
            done[1]()

    def _change(self, change: Callable[..., object], words: str, undo: tuple[str, Callable[[], object]] | None = None) -> None:
        """undo: what takes the change back, once it is made."""
        self._undo = None

        def changed(_presets: object) -> None:
            self._undo = undo
            self.said.emit(words, "muted")

        self._book.change(change, changed, self._failed)

    def _failed(self, error: Exception) -> None:
        words = tr("Could not save: {0}.", problem(error)) if isinstance(error, OSError) else said_of(error)
        self.said.emit(words, "warn")


def _plain(name: str) -> str:
    return name.replace("&", "&&")
