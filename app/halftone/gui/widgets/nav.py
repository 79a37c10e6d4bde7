"""Entries of a navigation at the left: of Settings and of the help window."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QSizePolicy, QToolButton

from halftone.gui import icons, theme
from halftone.gui.i18n import tr
from halftone.gui.widgets.common import icon_button


def guide_button() -> QToolButton:
    """The question mark of a page, which opens its chapter of the guide."""
    return icon_button("circle-question-mark", tr("Guide to this page (F1)"))


class NavButton(QToolButton):
    """An entry of the navigation; up and down move between entries. icon: "" for an entry that belongs to the one above it."""

    def __init__(self, words: str, icon: str = "") -> None:
        super().__init__()
        self.setText(("  " if icon else "") + words.replace("&", "&&"))
        self.setAccessibleName(words)
        self.setProperty("kind", "nav")
        self.setCheckable(True)
        self.setFont(theme.current().font("body" if icon else "small"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        if icon:
            self.setIcon(icons.icon(icon))
            self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            forward = event.key() == Qt.Key.Key_Down
            neighbour = self.nextInFocusChain() if forward else self.previousInFocusChain()
            if isinstance(neighbour, NavButton):
                neighbour.setFocus(Qt.FocusReason.TabFocusReason)
                neighbour.click()
            return
        super().keyPressEvent(event)
