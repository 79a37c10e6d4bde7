"""A chapter of the guide as a page to read: Qt lays the Markdown out, the theme dresses it."""

from collections.abc import Iterator
from typing import Final

from PySide6.QtCore import QRegularExpression, QSize, Qt, QUrl
from PySide6.QtGui import (
    QBrush,
    QFont,
    QImageReader,
    QResizeEvent,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFrameFormat,
    QTextImageFormat,
    QTextLength,
    QTextTable,
)
from PySide6.QtWidgets import QTextBrowser, QTextEdit, QWidget

from halftone.gui import theme
from halftone.settings.guide import Chapter

_COLUMN: Final = 700
"""Pixels of a line of text at most: longer ones are hard to read."""
_SIDE: Final = 28
_LINE: Final = 140
"""Per cent of the letters' height from line to line."""
_ROLES: Final = {1: "heading-l", 2: "heading-m"}
_SPACES: Final = {1: (8, 12), 2: (26, 8)}
"""Pixels above and below headings, by level."""
_HANGING: Final = 24
_CODE: Final = QTextFormat.Property.BlockCodeFence


class GuideView(QTextBrowser):
    """Shows one chapter. A click on a link only emits `anchorClicked`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("guide")
        self.setOpenLinks(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setLineWrapMode(QTextEdit.LineWrapMode.FixedPixelWidth)
        self._marks: tuple[QTextCursor, ...] = ()

    # --- the text ---------------------------------------------------------------------------------------------------

    def show_chapter(self, chapter: Chapter, words: tuple[str, ...] = ()) -> None:
        """Lay a chapter out in the colours of the theme, from its beginning. words: what is marked in it."""
        self.setSearchPaths([chapter.folder])
        self.setAccessibleName(chapter.title)
        document = self.document()
        document.setDefaultFont(_body())
        document.setDocumentMargin(_SIDE)
        document.setIndentWidth(22)
        document.setMarkdown(chapter.markdown, QTextDocument.MarkdownFeature.MarkdownDialectGitHub)
        changes = QTextCursor(document)
        changes.beginEditBlock()  # laid out once, not for each change
        for block in _blocks(document):
            self._dress_block(block)
        for frame in document.rootFrame().childFrames():
            if isinstance(frame, QTextTable):
                _dress_table(frame)
        _frame_code(document)
        changes.endEditBlock()
        self._fit()
        self._find(words)
        self.moveCursor(QTextCursor.MoveOperation.Start)

    def show_chapter_again(self, chapter: Chapter, words: tuple[str, ...]) -> None:
        """Show the same chapter in the colours of another theme. The place and the marked place that was gone to last stay."""
        scrolled, here = self.verticalScrollBar().value(), self.textCursor().position()
        self.show_chapter(chapter, words)
        cursor = self.textCursor()
        cursor.setPosition(here)
        self.setTextCursor(cursor)
        self._paint_marks(next((mark for mark in self._marks if mark.selectionEnd() == here), None))
        self.verticalScrollBar().setValue(scrolled)

    def _dress_block(self, block: QTextBlock) -> None:
        shape = block.blockFormat()
        level = shape.headingLevel()
        cursor = QTextCursor(block)
        if shape.hasProperty(_CODE):
            _dress_code(cursor)
            return
        if level:
            shape.setTopMargin(_SPACES.get(level, (18, 4))[0])
            shape.setBottomMargin(_SPACES.get(level, (18, 4))[1])
        elif block.textList():
            shape.setTopMargin(0)
            shape.setBottomMargin(4 if block.next().textList() else 10)
        elif not cursor.currentTable():
            shape.setTopMargin(0)
            shape.setBottomMargin(10)
        if not level and not _has_picture(block):
            shape.setLineHeight(_LINE, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        cursor.setBlockFormat(shape)
        if level:
            cursor.select(QTextCursor.SelectionType.BlockUnderCursor)
            cursor.mergeCharFormat(_letters(theme.current().font(_ROLES.get(level, "heading-s")), "text"))
        else:
            _dress_words(block)

    def _fit(self) -> None:
        """The column is as wide as its place, up to where lines become hard to read; pictures are no wider than it."""
        width = max(240, min(_COLUMN + 2 * _SIDE, self.viewport().width()))
        if self.lineWrapColumnOrWidth() != width:
            self.setLineWrapColumnOrWidth(width)
        for block in _blocks(self.document()):
            if _has_picture(block):
                self._fit_pictures(block, width - 2 * _SIDE)

    def _fit_pictures(self, block: QTextBlock, most: int) -> None:
        for start, length, letters in fragments(block):
            if letters.isImageFormat():
                image: QTextImageFormat = letters.toImageFormat()
                size = QImageReader(self._file(image.name())).size()
                width = min(most, size.width())
                if size.isValid() and image.width() != width:
                    image.setWidth(width)
                    image.setHeight(round(size.height() * width / size.width()))
                    cursor = _over(block, start, length)
                    cursor.setCharFormat(image)

    def _file(self, name: str) -> str:
        return f"{self.searchPaths()[0]}/{name}"

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 240)

    # --- search -----------------------------------------------------------------------------------------------------

    def _find(self, words: tuple[str, ...]) -> None:
        """Mark every place where one of the words stands, in any case of letters."""
        found: list[QTextCursor] = []
        for word in words:
            pattern = QRegularExpression(QRegularExpression.escape(word), QRegularExpression.PatternOption.CaseInsensitiveOption)
            at = self.document().find(pattern, 0)
            while not at.isNull():
                found.append(at)
                at = self.document().find(pattern, at)
        self._marks = tuple(sorted(found, key=QTextCursor.selectionStart))
        self._paint_marks(None)

    def go_to_mark(self, *, forward: bool = True) -> bool:
        """Go to the next marked place, or to the one before; False where there is none on that side."""
        here = self.textCursor().position()  # the end of the mark that was gone to last
        found = [mark for mark in self._marks if (mark.selectionEnd() > here if forward else mark.selectionEnd() < here)]
        if found:
            self._show_mark(found[0] if forward else found[-1])
        return bool(found)

    def go_to_heading(self, index: int) -> None:
        """Go to the heading of that number, and to the first marked place below it if there is one."""
        headings = [block for block in _blocks(self.document()) if block.blockFormat().headingLevel()]
        if not 0 <= index < len(headings):
            return
        cursor = QTextCursor(headings[index])
        self.setTextCursor(cursor)
        end = headings[index + 1].position() if index + 1 < len(headings) else self.document().characterCount()
        inside = [mark for mark in self._marks if cursor.position() <= mark.selectionStart() < end]
        if inside:
            self._show_mark(inside[0])
        self._scroll_to(cursor)

    def go_to_end(self) -> None:
        """Move the cursor to the end, so that going backwards begins at the last marked place."""
        self.moveCursor(QTextCursor.MoveOperation.End)

    def _show_mark(self, mark: QTextCursor) -> None:
        self.setTextCursor(mark)
        self._paint_marks(mark)
        rect = self.cursorRect(mark)
        if not 40 <= rect.top() <= self.viewport().height() - 60:
            bar = self.verticalScrollBar()
            bar.setValue(bar.value() + rect.top() - self.viewport().height() // 3)

    def _scroll_to(self, cursor: QTextCursor) -> None:
        """The heading to the top, unless what is marked below it would leave the view."""
        bar = self.verticalScrollBar()
        top = self.cursorRect(cursor).top()
        marked = self.cursorRect(self.textCursor()).bottom()
        if marked - top < self.viewport().height() - 60:
            bar.setValue(bar.value() + top - 24)

    def _paint_marks(self, current: QTextCursor | None) -> None:
        style = theme.current()
        selections: list[QTextEdit.ExtraSelection] = []
        for mark in self._marks:
            one = QTextEdit.ExtraSelection()
            one.cursor = mark
            now = current is not None and mark.selectionStart() == current.selectionStart()
            one.format.setBackground(style.color("warn" if now else "warn-subtle"))
            one.format.setForeground(style.color("on-warn" if now else "warn"))
            selections.append(one)
        self.setExtraSelections(selections)
        cursor = self.textCursor()
        if cursor.hasSelection() and current is not None:  # the mark shows the place; a selection would hide its colour
            cursor.setPosition(cursor.selectionEnd())
            self.setTextCursor(cursor)


def _body() -> QFont:
    font = theme.current().font("body")
    font.setPixelSize(14)
    return font


def _letters(font: QFont, token: str) -> QTextCharFormat:
    made = QTextCharFormat()
    made.setFont(font)
    made.setForeground(QBrush(theme.current().color(token)))
    return made


def _dress_words(block: QTextBlock) -> None:
    style = theme.current()
    for start, length, letters in fragments(block):
        if letters.isImageFormat():
            continue
        piece = _over(block, start, length)
        if letters.isAnchor():
            look = QTextCharFormat()
            look.setForeground(QBrush(style.color("text-link")))
            look.setFontUnderline(False)
        elif letters.fontFixedPitch():
            look = _letters(_mono(), "text")
            look.setBackground(QBrush(style.color("hover")))
        else:
            strong = letters.fontWeight() > QFont.Weight.Normal
            look = _letters(_body(), "text" if strong else "text-secondary")
            look.setFontWeight(QFont.Weight.DemiBold if strong else QFont.Weight.Normal)
        piece.mergeCharFormat(look)


def _mono() -> QFont:
    font = theme.current().font("mono")
    font.setPixelSize(13)
    return font


def _dress_code(cursor: QTextCursor) -> None:
    shape = cursor.blockFormat()
    shape.setTopMargin(0)
    shape.setBottomMargin(0)
    shape.setLeftMargin(_HANGING)  # the rest of a long line stands a little to the right
    shape.setTextIndent(-_HANGING)
    shape.setNonBreakableLines(False)
    shape.setLineHeight(_LINE, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    shape.clearBackground()
    cursor.setBlockFormat(shape)
    cursor.select(QTextCursor.SelectionType.BlockUnderCursor)
    cursor.mergeCharFormat(_letters(_mono(), "text"))


def _frame_code(document: QTextDocument) -> None:
    """Put each run of lines of code into a frame of its own."""
    style = theme.current()
    shape = QTextFrameFormat()
    shape.setBackground(QBrush(style.color("surface-sunken")))
    shape.setBorder(1)
    shape.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    shape.setBorderBrush(QBrush(style.color("border")))
    shape.setPadding(10)
    shape.setTopMargin(2)
    shape.setBottomMargin(14)
    for first, last in reversed(list(_runs_of_code(document))):
        cursor = QTextCursor(document)
        cursor.setPosition(first.position())
        cursor.setPosition(last.position() + last.length() - 1, QTextCursor.MoveMode.KeepAnchor)
        start = cursor.insertFrame(shape).firstPosition()
        _dress_code(QTextCursor(document.findBlock(start)))  # it took on the look of what was before the frame
    for block in _blocks(document):
        if not block.text() and QTextCursor(block).currentFrame() is document.rootFrame():
            _flatten(block)


def _flatten(block: QTextBlock) -> None:
    """Qt leaves an empty line before and after a frame."""
    shape = QTextBlockFormat()
    shape.setLineHeight(1, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
    QTextCursor(block).setBlockFormat(shape)


def _runs_of_code(document: QTextDocument) -> Iterator[tuple[QTextBlock, QTextBlock]]:
    first: QTextBlock | None = None
    last: QTextBlock | None = None
    for block in _blocks(document):
        if block.blockFormat().hasProperty(_CODE):
            first, last = first or block, block
        elif first is not None and last is not None:
            yield first, last
            first = None
    if first is not None and last is not None:
        yield first, last


def _dress_table(table: QTextTable) -> None:
    style = theme.current()
    shape = table.format()
    shape.setBorder(1)
    shape.setBorderCollapse(True)
    shape.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    shape.setBorderBrush(QBrush(style.color("border")))
    shape.setCellPadding(6)
    shape.setCellSpacing(0)
    shape.setTopMargin(4)
    shape.setBottomMargin(14)
    shape.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
    table.setFormat(shape)
    for column in range(table.columns()):
        cell = table.cellAt(0, column)
        look = cell.format()
        look.setBackground(QBrush(style.color("surface-raised")))
        cell.setFormat(look)


def _blocks(document: QTextDocument) -> Iterator[QTextBlock]:
    block = document.begin()
    while block.isValid():
        yield block
        block = block.next()


def fragments(block: QTextBlock) -> list[tuple[int, int, QTextCharFormat]]:
    """(position in the document, length, format) of each run of letters that look alike."""
    found: list[tuple[int, int, QTextCharFormat]] = []
    at = block.begin()
    while not at.atEnd():
        fragment = at.fragment()
        found.append((fragment.position(), fragment.length(), fragment.charFormat()))
        at += 1
    return found


def _has_picture(block: QTextBlock) -> bool:
    return any(letters.isImageFormat() for _start, _length, letters in fragments(block))


def _over(block: QTextBlock, start: int, length: int) -> QTextCursor:
    cursor = QTextCursor(block)
    cursor.setPosition(start)
    cursor.setPosition(start + length, QTextCursor.MoveMode.KeepAnchor)
    return cursor


def url_is_outside(url: QUrl) -> bool:
    """Whether a link leads out of the guide: to a web page or a folder."""
    return url.scheme() in ("https", "http", "file")
