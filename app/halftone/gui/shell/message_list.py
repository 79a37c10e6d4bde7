"""The message list: everything Halftone said in this session, newest first, with its actions."""

from collections.abc import Callable, Sequence

from PySide6.QtWidgets import QScrollArea, QVBoxLayout, QWidget

from halftone.gui import text
from halftone.gui.i18n import tr
from halftone.gui.kit.message_bars import MessageBar
from halftone.gui.kit.stock_widgets import button, clear, column, label, row
from halftone.gui.kit.tab_order import OrderedDialog
from halftone.session.state import Notice


class MessagesWindow(OrderedDialog):
    """A plain window beside the main one."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Messages"))
        self.resize(640, 420)
        inside = QWidget()
        inside.setObjectName("scrolled")
        self._list = QVBoxLayout(inside)
        self._list.setContentsMargins(0, 0, 0, 0)
        self._list.setSpacing(8)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setWidget(inside)
        area.setAccessibleName(tr("Messages"))
        self.setLayout(
            column(
                label(tr("Messages"), "heading-s"),
                area,
                row(-1, button(tr("Close"), clicked=self.close)),
                spacing=12,
                margins=(20, 16, 20, 16),
            )
        )

    def show_notices(self, notices: Sequence[Notice], act: Callable[[Notice, str], None]) -> None:
        """act: called with the notice and the key of the action that was taken."""
        clear(self._list)
        for notice in reversed(notices):
            bar = MessageBar(text.notice_message(notice), closable=False)
            bar.acted.connect(lambda key, notice=notice: act(notice, key))
            self._list.addWidget(bar)
        if not notices:
            self._list.addWidget(label(tr("No messages."), tone="muted"))
        self._list.addStretch(1)
