"""The styles of the next pictures, and whether their prompts are drawn: a folded row of the Create form."""

from collections.abc import Callable
from functools import partial

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QInputDialog, QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.request import PictureRequest, Style
from halftone.gui.controller import Controller
from halftone.gui.create.rows.folded_row import FoldedPart, below
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit.stock_widgets import ElidedLabel, button, clear, column, icon_button, label, row
from halftone.gui.text import error_remedy, error_sentence, problem
from halftone.library.add_ons.loras import has_tags
from halftone.library.prompts.styles import StyleBook, known_styles, save_style, styled

_SHOWN = 3
_LETTERS = 18
"""Of names that the folded row has room for."""


class StylePart(FoldedPart):
    """The chosen styles with what each adds, a menu of all, and a way to keep the present prompt as one."""

    def __init__(self, controller: Controller) -> None:
        tip = tr("Prompt styles from a styles.csv.")
        super().__init__(tr("Styles and wildcards"), tip)
        self._controller = controller
        self._styles: tuple[Style, ...] = ()
        self._words = ("", "")
        self._list = column(spacing=6)
        self.add_button = button(tr("Add style"), tip=tip, clicked=self._look)
        self.save_button = button(tr("Save as style…"), "quiet", clicked=self._ask_name)
        self.result = label("", "caption", "muted", wrap=True)
        self.draws = QCheckBox(tr("Expand wildcards"))
        self.draws.setToolTip(tr("{a|b} and __name__, chosen by the seed."))
        self.draws.setChecked(True)
        self.draws.toggled.connect(self.changed)
        buttons = column(row(self.add_button, -1), row(self.save_button, -1), spacing=4)
        self.setLayout(column(self._list, self.result, buttons, self.draws, self.note, spacing=8, margins=(14, 10, 14, 12)))
        self._show()

    # --- the request --------------------------------------------------------------------------------------------------

    def put(self, request: PictureRequest) -> PictureRequest:
        folders = self._controller.settings.wildcard_folders
        return msgspec.structs.replace(request, styles=self._styles, draws=self.draws.isChecked(), wildcards=folders)

    def take(self, request: PictureRequest) -> None:
        self.draws.setChecked(request.draws)
        self._take(request.styles)

    def follow(self, prompt: str, negative: str) -> None:
        """The prompts as they stand, for what the styles make of them."""
        self._words = prompt, negative
        self._show_result()

    def said(self) -> tuple[str, str]:
        """Return what the prompts come to with the styles; the prompts alone where that would be too long."""
        try:
            return styled(*self._words, self._styles)
        except HalftoneError:
            return self._words

    def take_tags(self, take: Callable[[str], str | None]) -> bool:
        """Hand the LoRAs that styles name on; False where one is not known. take: the text without them, or None."""
        if not any(has_tags(style.prompt) for style in self._styles):
            return True
        texts = [take(style.prompt) for style in self._styles]
        if None in texts:
            return False
        kept = zip(self._styles, texts, strict=True)
        self._take(tuple(msgspec.structs.replace(style, prompt=text or "") for style, text in kept))
        return True

    def _take(self, styles: tuple[Style, ...]) -> None:
        self._styles = styles
        self._show()
        self.say("")

    # --- the list -----------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        clear(self._list)
        for index, style in enumerate(self._styles):
            self._list.addWidget(self._line(index, style))
        names = listed(*(style.name for style in self._styles)) if self._styles else ""
        self.row.value.setText(names if len(names) <= _LETTERS else tr("{0} chosen", len(self._styles)))
        self._show_result()

    def _line(self, index: int, style: Style) -> QWidget:
        name = ElidedLabel(style.name)
        remove = icon_button("x", tr("Remove {0}", style.name), size=14, clicked=partial(self._remove, index))
        made = QWidget()
        made.setToolTip(_told(style))
        line = row(name, remove, spacing=6)
        line.setStretch(0, 1)
        made.setLayout(line)
        return made

    def _show_result(self) -> None:
        """What the prompt comes to."""
        self.result.setText(self._result())
        self.result.setVisible(bool(self._styles))

    def _result(self) -> str:
        try:
            prompt, negative = styled(*self._words, self._styles)
        except HalftoneError as error:
            return sentences(error_sentence(error.as_facts()), error_remedy(error.as_facts()))
        told = (tr("Becomes: {0}", prompt), tr("Negative prompt: {0}", negative) if negative else "")
        return "\n".join(filter(None, told))

    def _remove(self, index: int) -> None:
        self._take((*self._styles[:index], *self._styles[index + 1 :]))
        self.add_button.setFocus(Qt.FocusReason.OtherFocusReason)

    # --- choosing -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        chosen = self._controller.settings.styles_file or None
        self._controller.background.run(lambda: known_styles(chosen), self._open_menu, self.refused, receiver=self)

    def _open_menu(self, book: StyleBook) -> None:
        menu = self.menu()
        taken = {style.name for style in self._styles}
        for style in book.styles:
            if style.name not in taken:
                menu.addAction(style.name.replace("&", "&&"), partial(self.add, style)).setToolTip(_told(style))
        if menu.isEmpty():
            menu.addAction(tr("Choose a styles.csv in Settings > Folders")).setEnabled(False)
        if book.broken:
            numbers = listed(*map(str, book.broken[:_SHOWN])) + (" …" if len(book.broken) > _SHOWN else "")
            self.say(tr("Unreadable lines in the styles file: {0}", numbers))
        below(menu, self.add_button)

    def add(self, style: Style) -> None:
        self._take((*self._styles, style))

    # --- keeping ------------------------------------------------------------------------------------------------------

    def _ask_name(self) -> None:
        if not any(text.strip() for text in self._words):
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
        style = Style(name=name.strip(), prompt=self._words[0], negative=self._words[1])
        if style.name:
            self._controller.background.run(lambda: save_style(style), partial(self._saved, style), self._failed, receiver=self)

    def _saved(self, style: Style, _none: None) -> None:
        self.say(tr("Saved style {0}.", style.name))

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            self.refused(error)
            return
        self.say(sentences(tr("Could not save the style: {0}.", problem(error))))


def _told(style: Style) -> str:
    """What a style adds."""
    parts = [style.prompt, tr("Negative prompt: {0}", style.negative) if style.negative else ""]
    return "\n".join(part for part in parts if part)
