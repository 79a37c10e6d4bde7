"""The styles of the next pictures, and whether their prompts are drawn: a folded row of the Create form."""

from collections.abc import Callable
from functools import partial

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QInputDialog, QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Style
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.rows.folded_row import FoldedPart, below
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit.stock_widgets import ElidedLabel, button, clear, column, icon_button, label, row
from halftone.gui.text import error_remedy, error_sentence, problem
from halftone.library.add_ons.loras import has_tags
from halftone.library.prompts.styles import StyleBook, known_styles, save_style, styled

_SHOWN = 3
_LETTERS = 18
"""The letters of style names that fit in the folded row."""


class StylePart(FoldedPart):
    """The chosen styles with what each adds, a menu of all, and a way to keep the present prompt as one."""

    part_name = "styles"

    def __init__(self, binding: Binding) -> None:
        super().__init__(binding, tr("Styles and wildcards"), tr("Prompt styles from a styles.csv."))
        binding.watch(self._show_value, "styles")

    def build(self) -> None:
        binding, tip = self._binding, self.row.toolTip()
        self._list = column(spacing=6)
        self.add_button = button(tr("Add style"), tip=tip, clicked=self._look)
        self.save_button = button(tr("Save as style…"), "quiet", clicked=self._ask_name)
        self.result = label("", "caption", "muted", wrap=True)
        self.draws = QCheckBox(tr("Expand wildcards"))
        self.draws.setToolTip(tr("{a|b} and __name__, chosen by the seed."))
        buttons = column(row(self.add_button, -1), row(self.save_button, -1), spacing=4)
        self.setLayout(column(self._list, self.result, buttons, self.draws, self.note, spacing=8, margins=(14, 10, 14, 12)))
        binding.bind("draws", self.draws)
        binding.watch(self._show_list, "styles")
        binding.watch(self._show_result, "prompt", "negative", "styles")

    def take_tags(self, take: Callable[[str], str | None]) -> bool:
        """Move the LoRAs that styles name into their list; False where one is not known. take: the text without them, or None."""
        styles = self._binding.draft.styles
        if not any(has_tags(style.prompt) for style in styles):
            return True
        texts = [take(style.prompt) for style in styles]
        if None in texts:
            return False
        kept = zip(styles, texts, strict=True)
        self._binding.set("styles", tuple(msgspec.structs.replace(style, prompt=text or "") for style, text in kept))
        return True

    def _show_list(self, styles: tuple[Style, ...]) -> None:
        clear(self._list)
        for index, style in enumerate(styles):
            self._list.addWidget(self._line(index, style))

    def _show_value(self, styles: tuple[Style, ...]) -> None:
        names = listed(*(style.name for style in styles))
        self.row.value.setText(names if len(names) <= _LETTERS else tr("{0} chosen", len(styles)))
        self.say("")

    def _line(self, index: int, style: Style) -> QWidget:
        name = ElidedLabel(style.name)
        remove = icon_button("x", tr("Remove {0}", style.name), size=14, clicked=partial(self._remove, index))
        made = QWidget()
        made.setToolTip(_added(style))
        made.setLayout(row(name, remove, spacing=6, stretch=0))
        return made

    def _show_result(self, prompt: str, negative: str, styles: tuple[Style, ...]) -> None:
        """What the prompt comes to."""
        self.result.setVisible(bool(styles))
        try:
            prompt, negative = styled(prompt.strip(), negative.strip(), styles)
        except HalftoneError as error:
            self.result.setText(sentences(error_sentence(error.as_facts()), error_remedy(error.as_facts())))
            return
        lines = (tr("Becomes: {0}", prompt), tr("Negative prompt: {0}", negative) if negative else "")
        self.result.setText("\n".join(filter(None, lines)))

    def _remove(self, index: int) -> None:
        styles = self._binding.draft.styles
        self._binding.set("styles", (*styles[:index], *styles[index + 1 :]))
        self.add_button.setFocus(Qt.FocusReason.OtherFocusReason)

    # --- choosing -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        chosen = self._controller.settings.styles_file or None
        self._controller.background.run(lambda: known_styles(chosen), self._open_menu, self.refused, receiver=self)

    def _open_menu(self, book: StyleBook) -> None:
        menu = self.menu()
        taken = {style.name for style in self._binding.draft.styles}
        for style in book.styles:
            if style.name not in taken:
                menu.addAction(style.name.replace("&", "&&"), partial(self.add, style)).setToolTip(_added(style))
        if menu.isEmpty():
            menu.addAction(tr("Choose a styles.csv in Settings > Folders")).setEnabled(False)
        if book.broken:
            numbers = listed(*map(str, book.broken[:_SHOWN])) + (" …" if len(book.broken) > _SHOWN else "")
            self.say(tr("Unreadable lines in the styles file: {0}", numbers))
        below(menu, self.add_button)

    def add(self, style: Style) -> None:
        self._binding.set("styles", (*self._binding.draft.styles, style))

    # --- keeping ------------------------------------------------------------------------------------------------------

    def _ask_name(self) -> None:
        draft = self._binding.draft
        if not (draft.prompt.strip() or draft.negative.strip()):
            self.say(tr("Write a prompt first."))
            return
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(tr("Save as style"))
        dialog.setLabelText(tr("Style name"))
        dialog.textValueSelected.connect(self.save)
        dialog.open()

    def save(self, name: str) -> None:
        """Keep the present prompts under a name."""
        draft = self._binding.draft
        style = Style(name=name.strip(), prompt=draft.prompt.strip(), negative=draft.negative.strip())
        if style.name:
            self._controller.background.run(lambda: save_style(style), partial(self._saved, style), self._failed, receiver=self)

    def _saved(self, style: Style, _none: None) -> None:
        self.say(tr("Saved style {0}.", style.name))

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            self.refused(error)
            return
        self.say(tr("Could not save: {0}.", problem(error)))


def _added(style: Style) -> str:
    """Return what a style adds to the prompts."""
    parts = [style.prompt, tr("Negative prompt: {0}", style.negative) if style.negative else ""]
    return "\n".join(part for part in parts if part)
