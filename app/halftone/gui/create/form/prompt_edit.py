"""The prompt fields: plain text with weights, completion and the earlier prompts at the keys."""

from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import QFocusEvent, QInputMethodEvent, QKeyEvent, QPainter, QPaintEvent, QTextBlockFormat, QTextCursor
from PySide6.QtWidgets import QTextEdit

from halftone.gui import theme
from halftone.gui.create.form.completion_popup import CompletionPopup
from halftone.gui.kit.actions import ActionName, pressed
from halftone.library.prompts.completion import Known, Offer, offers
from halftone.library.prompts.weights import STEP, weighted
from halftone.metadata.reading import holds_parameters

_MARGIN = 4
_WEIGHING: Final[dict[ActionName, float]] = {"weigh-more": STEP, "weigh-less": -STEP}
_BY_ARROW: Final = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}
_CTRL, _ALT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier
_OTHERS: Final = Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.MetaModifier | _CTRL | _ALT


class PromptEdit(QTextEdit):
    """Plain text in lines of 20; Tab leaves the field, Ctrl+Enter is left to the window. `settings_pasted`: a text that is more
    than a prompt, as A1111 writes them. Files that are dropped are left to the page.

    Ctrl and an arrow weigh the words under the cursor, Alt and an arrow lead through `earlier` prompts. What could be meant is
    offered while it is typed.
    """

    settings_pasted = Signal(str)

    def __init__(self, name: str, tip: str, placeholder: str) -> None:
        super().__init__()
        self.setAcceptRichText(False)
        self.setTabChangesFocus(True)
        self.setAccessibleName(name)
        self.setToolTip(tip)
        self.setAccessibleDescription(placeholder)
        self._placeholder = placeholder
        self._tight = False
        self.known: Callable[[], Known] = Known
        """What can be offered."""
        self.earlier: Callable[[], Sequence[str]] = tuple
        """Prompts of finished pictures, newest first."""
        self._back, self._draft, self._stepping = 0, "", False
        self.popup = CompletionPopup(self)
        self.popup.taken.connect(self._take)
        self.textChanged.connect(self._changed)
        self.setFont(theme.current().font("body"))
        self.document().setDocumentMargin(_MARGIN)
        self.setPlainText("")

    def setPlainText(self, text: str) -> None:
        """Qt forgets the line height and the margins with each new text."""
        super().setPlainText(text)
        shape = QTextBlockFormat()
        shape.setLineHeight(theme.current().line("body"), QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.mergeBlockFormat(shape)
        self.set_tight(self._tight)
        self.document().clearUndoRedoStacks()

    def set_tight(self, tight: bool) -> None:
        """Without space above and below the text, for a low window."""
        self._tight = tight
        shape = self.document().rootFrame().frameFormat()
        shape.setTopMargin(0 if tight else _MARGIN)
        shape.setBottomMargin(0 if tight else _MARGIN)
        self.document().rootFrame().setFrameFormat(shape)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Qt cuts a placeholder off after the first line where lines have a fixed height, so it is painted here."""
        super().paintEvent(event)
        if self.toPlainText():
            return
        painter = QPainter(self.viewport())
        painter.setPen(theme.current().color("text-muted"))
        painter.setFont(self.font())
        box = self.viewport().rect().adjusted(_MARGIN, _MARGIN + 1, -_MARGIN, 0)
        painter.drawText(box, int(Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap), self._placeholder)
        painter.end()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return not any(url.isLocalFile() for url in source.urls()) and super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        if source.hasText() and holds_parameters(source.text()):
            self.settings_pasted.emit(source.text())
        else:
            super().insertFromMimeData(source)

    # --- keys -------------------------------------------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Keep the keys that act here from being a shortcut of the window."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and self._acts(event):
            event.accept()
            return True
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent) and self.popup.takes(event):
            self.popup.press(event)  # before Tab moves the focus
            return True
        return super().event(event)

    def _acts(self, event: QKeyEvent) -> bool:
        back = event.key() in _BY_ARROW and _held(event) == _ALT
        return self.popup.takes(event) or back or pressed(event, *_WEIGHING) is not None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and event.modifiers() & _CTRL:
            event.ignore()
            return
        if (weighing := pressed(event, *_WEIGHING)) is not None:
            self.weigh(_WEIGHING[weighing])
        elif (step := _BY_ARROW.get(Qt.Key(event.key()))) is not None and _held(event) == _ALT:
            self.step_back(step)
        else:
            before = self.toPlainText()
            super().keyPressEvent(event)
            if self.toPlainText() != before:
                self._offer()
            else:
                self.popup.hide()

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        super().inputMethodEvent(event)
        if event.commitString():
            self._offer()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.popup.hide()
        super().focusOutEvent(event)

    # --- the text ---------------------------------------------------------------------------------------------------

    def _selected(self, text: str) -> tuple[int, int]:
        """From which to which letter is selected. Qt counts in units of UTF-16."""
        cursor, units = self.textCursor(), text.encode("utf-16-le")
        start, end = cursor.selectionStart(), cursor.selectionEnd()
        return len(units[: 2 * start].decode("utf-16-le", "ignore")), len(units[: 2 * end].decode("utf-16-le", "ignore"))

    def _replace(self, start: int, end: int, new: str, selected: tuple[int, int] | None = None) -> None:
        """One step that can be undone. selected: afterwards, in letters of the new text; None: the cursor stands behind `new`."""
        text = self.toPlainText()
        after = text[:start] + new + text[end:]
        cursor = self.textCursor()
        cursor.beginEditBlock()
        cursor.setPosition(_units(text, start))
        cursor.setPosition(_units(text, end), QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText(new)
        cursor.endEditBlock()
        first, last = selected or (start + len(new),) * 2
        cursor.setPosition(_units(after, first))
        cursor.setPosition(_units(after, last), QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)

    def weigh(self, step: float) -> None:
        """Change the weight of what is selected, or stands under the cursor."""
        text = self.toPlainText()
        edit = weighted(text, *self._selected(text), step)
        if edit is not None:
            self._replace(edit.start, edit.end, edit.new, edit.selected)

    # --- completion -------------------------------------------------------------------------------------------------

    def _offer(self) -> None:
        text = self.toPlainText()
        start, end = self._selected(text)
        self.popup.offer(offers(text, end, self.known()) if start == end else ())

    def _take(self, offer: Offer) -> None:
        _, end = self._selected(self.toPlainText())
        self._replace(offer.start, end, offer.text)

    # --- earlier prompts --------------------------------------------------------------------------------------------

    def step_back(self, by: int) -> None:
        """Show an earlier prompt, or with a negative number a later one; at the end of them what was written here before."""
        if not self._back:
            self._draft = self.toPlainText()
        shown = [self._draft, *(one for one in self.earlier() if one != self._draft)]
        place = min(max(self._back + by, 0), len(shown) - 1)
        if place != self._back:
            self._stepping = True
            self.use(shown[place])
            self._stepping = False
            self._back = place

    def _changed(self) -> None:
        """What is changed is a new draft."""
        if not self._stepping:
            self._back = 0

    def use(self, prompt: str) -> None:
        """Take a prompt in place of this one; it can be undone."""
        self._replace(0, len(self.toPlainText()), prompt)


def _held(event: QKeyEvent) -> Qt.KeyboardModifier:
    return event.modifiers() & _OTHERS


def _units(text: str, place: int) -> int:
    return len(text[:place].encode("utf-16-le")) // 2
