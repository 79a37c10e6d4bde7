"""The card of a bad number that was stopped (M13), or that came back (M12): why, what Halftone did, what you can do."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QMenu, QPushButton, QSizePolicy

from halftone.contract.training import Caught
from halftone.gui.i18n import catalogue, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.message_bars import Act, announce
from halftone.gui.kit.stock_widgets import (
    Card,
    FactGrid,
    IconLabel,
    boxed,
    button,
    clear,
    column,
    detail_labels,
    icon_button,
    label,
    row,
    set_icon,
)
from halftone.health.training.training_sentences import (
    caught_title,
    cost_words,
    detail_words,
    did_words,
    safe_words,
    why_words,
)

_EDGES = 60
"""Pixels of the card beside its buttons: the margins and the icon."""
_ABREAST = 620
"""Narrower cards put the two reasons below each other."""


class CaughtCard(Card):
    """`acted` carries the key of the action: "keep-cure", "leave-out", "float32-block", "stop", "copy" or "close"."""

    acted = Signal(str)
    left_out = Signal(str)
    """This picture is not to be used any more."""

    def __init__(self) -> None:
        super().__init__("")
        self.caught: Caught | None = None
        self._said = ""
        self._asks = False
        self._icon = IconLabel("triangle-alert", "warn", 20)
        self._title = label("", "heading-s", wrap=True, numbers=True)
        self._ago = label("", "small", "muted", numbers=True)
        self._close = icon_button("x", tr("Close"), size=14, clicked=lambda: self.acted.emit("close"))
        self._why, self._did = label("", "body", "secondary", wrap=True), label("", "body", "secondary", wrap=True)
        self._why_head = label(tr("Why it happened"), "body-strong")
        self._did_head = label(tr("What Halftone did"), "body-strong")
        self._made: list[QPushButton] = []
        self._lines: tuple[int, ...] = ()
        self._buttons = column()
        self.fold = button(tr("Technical details"), "quiet", "chevron-right")
        self.fold.setCheckable(True)
        self.fold.toggled.connect(self._folded)
        self._grid = FactGrid(margins=(0, 4, 0, 0))
        self._details = boxed(self._grid)
        self._details.hide()
        self._build()
        self.hide()

    def _build(self) -> None:
        head = row(self._title, self._ago, self._close, spacing=10, stretch=0)
        self._reasons = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._reasons.setSpacing(20)
        for made in (column(self._why_head, self._why, -1, spacing=4), column(self._did_head, self._did, -1, spacing=4)):
            self._reasons.addLayout(made, 1)
        self._acts = boxed(self._buttons)
        self._acts.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)  # it does not make the card wider
        self._foot = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._foot.setSpacing(8)
        self._foot.addWidget(self._acts, 1)
        self._foot.addWidget(self.fold)
        self._foot.setAlignment(self.fold, Qt.AlignmentFlag.AlignLeft)
        words = column(head, self._reasons, 2, self._foot, self._details)
        layout = row(self._icon, words, spacing=10, margins=(14, 12, 12, 10), stretch=1)
        layout.setAlignment(self._icon, Qt.AlignmentFlag.AlignTop)
        self.setLayout(layout)

    # --- content ----------------------------------------------------------------------------------------------------

    def show_caught(self, caught: Caught, *, asks: bool, saved: int | None, seconds: float | None, running: bool) -> None:
        """asks: the training waits. saved: the step it was last saved at. seconds: since then, None where that is not known."""
        self.show()
        self._ago.setText(tr("{0} ago", figures.duration(seconds)) if seconds is not None else "")
        if (caught, asks, running) == (self.caught, self._asks, self.property("running")):
            return
        self.caught, self._asks = caught, asks
        self.setProperty("running", running)
        self.set_kind("danger" if asks or caught.did == "stopped" else "warn")
        self._icon.set(*(("octagon-alert", "danger") if self.property("card") == "danger" else ("triangle-alert", "warn")))
        self._title.setText(caught_title(caught, asks=asks).text(catalogue()))
        self._why.setText(sentences(*(words.text(catalogue()) for words in why_words(caught))))
        tried = [did_words(caught).text(catalogue())] if caught.did == "stopped" else []
        did = (
            [*tried, safe_words(saved).text(catalogue())]
            if asks
            else [did_words(caught).text(catalogue()), tr("Cost: {0}", cost_words(caught).text(catalogue()))]
        )
        self._did.setText(sentences(*did))
        self._close.setVisible(not asks)
        self._fill_buttons(caught, asks=asks, running=running)
        self._grid.fill(detail_labels((name.text(catalogue()), value.text(catalogue())) for name, value in detail_words(caught)))
        said = sentences(self._title.text(), self._why.text(), self._did.text())
        self.setAccessibleName(said)
        if said != self._said:
            announce(self, said, urgent=asks)
        self._said = said

    def _fill_buttons(self, caught: Caught, *, asks: bool, running: bool) -> None:
        clear(self._buttons)
        self._made, self._lines = [], ()
        for act in actions(caught, asks=asks, running=running):
            made = button(act.label, act.kind, act.icon, tip=act.tip)
            made.clicked.connect(lambda _on=False, key=act.key: self._act(key))
            self._made.append(made)
        self._fit_buttons()

    def _act(self, key: str) -> None:
        if key != "leave-out" or self.caught is None:
            self.acted.emit(key)
        elif len(self.caught.items) == 1:
            self.left_out.emit(self.caught.items[0])
        else:
            self._ask_which(self.caught.items)

    def _ask_which(self, items: tuple[str, ...]) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for name in items:
            menu.addAction(name.replace("&", "&&"), lambda name=name: self.left_out.emit(name))
        menu.popup(self.mapToGlobal(self.rect().bottomLeft()))

    def _folded(self, on: bool) -> None:
        set_icon(self.fold, "chevron-down" if on else "chevron-right", "text-secondary")
        self._details.setVisible(on)

    def _fit_buttons(self) -> None:
        """Lay the buttons out in as many lines as they need; technical details get a line of their own if need be."""
        across, down = QBoxLayout.Direction.LeftToRight, QBoxLayout.Direction.TopToBottom
        hints, room = [made.sizeHint().width() + 8 for made in self._made], self.width() - _EDGES
        lines = filled_lines(hints, room)
        abreast = len(lines) == 1 and sum(hints) + self.fold.sizeHint().width() <= room
        self._foot.setDirection(across if abreast else down)
        if lines == self._lines:
            return
        self._lines, made = lines, iter(self._made)
        while (item := self._buttons.takeAt(0)) is not None:
            if (line := item.layout()) is not None:
                line.deleteLater()
        for count in lines:
            self._buttons.addLayout(row(*(next(made) for _ in range(count)), -1, spacing=8))

    def event(self, event: QEvent) -> bool:
        """What is wanted changes with the font, which comes late."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit_buttons()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_buttons()
        abreast = self.width() >= _ABREAST
        way = QBoxLayout.Direction.LeftToRight if abreast else QBoxLayout.Direction.TopToBottom
        if self._reasons.direction() != way:
            self._reasons.setDirection(way)
            self._reasons.setSpacing(20 if abreast else 8)


def filled_lines(widths: Sequence[int], room: int) -> tuple[int, ...]:
    """How many stand in each line of that many pixels."""
    lines, left = list[int](), 0
    for width in widths:
        if not lines or width > left:
            lines.append(0)
            left = room
        lines[-1] += 1
        left -= width
    return tuple(lines)


def actions(caught: Caught, *, asks: bool, running: bool) -> tuple[Act, ...]:
    """What can be done about it; of a training that is over, nothing but to read on."""
    if not running:
        return (Act("copy", tr("Copy details"), kind=""),)
    copy = Act("copy", tr("Copy details"), kind="quiet")
    out = Act("leave-out", tr("Exclude this picture"), "image-off", kind="") if len(caught.items) == 1 else None
    if len(caught.items) > 1:
        out = Act("leave-out", tr("Exclude a picture…"), "image-off", kind="")
    others = (out, copy) if out is not None else (copy,)
    if asks:
        return (_way_on(caught), *others[:-1], Act("stop", tr("Stop and keep"), kind=""), copy)
    if caught.cure in ("none", "put-back"):
        return others
    return (Act("keep-cure", tr("Keep the cure"), kind="primary", tip=tr("Later steps use it too.")), *others)


def _way_on(caught: Caught) -> Act:
    """How to go on with all pictures; a block is widened where it is what overflowed, and is narrow."""
    if caught.watched == "activations" and caught.dtype != "float32":
        return Act("float32-block", tr("Continue with this block in FP32"), kind="primary")
    return Act("keep-cure", tr("Continue with the next step"), kind="primary", tip=tr("Training stops again if it returns."))


def details_text(caught: Caught, versions: str) -> str:
    """What Copy details yields: plain text without a path or a prompt. versions: of Halftone and the device."""
    lines = [versions, caught_title(caught).text()]
    lines += [words.text() for words in why_words(caught)[:1]]
    lines += [did_words(caught).text(), f"Cost: {cost_words(caught).text()}"]
    lines += [f"{name.text()}: {value.text()}" for name, value in detail_words(caught) if name.text() != "Pictures"]
    return "\n".join(filter(None, lines))
