"""Entries of a navigation at the left: of Settings and of the help window."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QSizePolicy, QToolButton

from halftone.gui import icons, theme
from halftone.gui.kit import actions
from halftone.gui.kit.stock_widgets import icon_button


def guide_button() -> QToolButton:
    """The question mark of a page, which opens its chapter of the guide."""
    return icon_button("circle-question-mark", actions.tip("guide"))


class NavButton(QToolButton):
    """An entry of the navigation; up and down move between the entries of one list.

    icon: "" for an entry that belongs to the one above it.
    """

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
            self.setIconSize(QSize(theme.grown(16), theme.grown(16)))
            self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            forward = event.key() == Qt.Key.Key_Down
            if (neighbour := self._neighbour(forward=forward)) is not None:
                neighbour.setFocus(Qt.FocusReason.ShortcutFocusReason)  # Qt counts it as moved by a key
                neighbour.click()
            return
        super().keyPressEvent(event)

    def _neighbour(self, *, forward: bool) -> "NavButton | None":
        """Find the entry below or above this one in the same layout, None at the end."""
        parent = self.parentWidget()
        layout = parent.layout() if parent is not None else None
        if layout is None:
            return None
        held = [item.widget() for at in range(layout.count()) if (item := layout.itemAt(at)) is not None]
        listed = [one for one in held if isinstance(one, NavButton)]
        at = listed.index(self) + (1 if forward else -1)
        return listed[at] if 0 <= at < len(listed) else None
