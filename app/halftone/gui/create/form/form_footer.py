"""The pinned foot of the Create form: how long the pictures take, whether the model fits, and Generate with its other ways."""

import math

from PySide6.QtCore import QPoint, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent, QTextLayout, QTextOption
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from halftone.gui import theme
from halftone.gui.create.form.form_parts import GenerateButton
from halftone.gui.create.form.memory_estimate import MARKS, fit_word, peak_words
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.actions import add_entry, keys_shown
from halftone.gui.kit.stock_widgets import (
    ElidedLabel,
    HoverButton,
    IconLabel,
    button,
    column,
    label,
    repolish,
    row,
    set_icon,
    set_tone,
    surface,
)
from halftone.health.forecasts.picture_memory import Forecast

_SEVERAL = 4


_ANYWHERE = QTextOption()
_ANYWHERE.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)


class WhyNot(HoverButton):
    """Why nothing can be made, in as many lines as that takes; a click leads to the field."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.say("")

    def sizeHint(self) -> QSize:
        return QSize(200, self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _laid_out(self) -> QTextLayout:
        """The words in lines; a path breaks anywhere."""
        layout = QTextLayout(self.text(), theme.current().font("small"))
        layout.setTextOption(_ANYWHERE)
        layout.beginLayout()
        height = 0.0
        while (line := layout.createLine()).isValid():
            line.setLineWidth(self.width())
            line.setPosition(QPointF(0, height))
            height += line.height()
        layout.endLayout()
        return layout

    def _fit(self) -> None:
        """Take the height of all lines."""
        self.setFixedHeight(max(theme.grown(18), math.ceil(self._laid_out().boundingRect().height())))

    def say(self, words: str) -> None:
        """ "" for nothing to say."""
        self.setText(words)
        self.setAccessibleName(words or tr("Generate is disabled"))
        self.setToolTip(words)
        self.setVisible(bool(words))
        self._fit()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        layout = self._laid_out()
        underlined = QTextLayout.FormatRange()
        underlined.length = len(self.text())
        underlined.format.setFontUnderline(self.hovered or self.hasFocus())
        painter = QPainter(self)
        painter.setPen(colours.color("warn"))
        layout.draw(painter, QPointF(0, (self.height() - layout.boundingRect().height()) / 2), [underlined])
        painter.end()


class Footer(QWidget):
    """88 high, higher for a long reason. `generate`, `several` (how many), `endless`, `in_float32` and `grid`: what was asked
    for; `why`: show what forbids it; `remove`: remove what forbids it.
    """

    generate = Signal()
    several = Signal(int)
    endless = Signal()
    in_float32 = Signal()
    grid = Signal()
    why = Signal()
    remove = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.clock = IconLabel("clock", "text-muted", 14)
        self.why_not = WhyNot()
        self.remove_link = button(tr("Remove"), "link", clicked=self.remove.emit)
        self.remove_link.setFont(theme.current().font("small"))
        self.remove_link.hide()
        self.estimate = ElidedLabel("", "small", "secondary", numbers=True)
        self.fits_icon = IconLabel("", "danger", 14)
        self.fits = label("", "small", "secondary", numbers=True)
        self.generate_button = GenerateButton()
        self.more = button("", "primary", tip=tr("Generate options"))
        self.more.setAccessibleName(tr("Generate options"))
        self.more.setFixedSize(theme.grown(34), theme.grown(40))
        set_icon(self.more, "chevron-down", "on-accent")
        self.more.setProperty("size", "hero")
        self.more.setProperty("icon-only", "true")
        buttons = row(self.generate_button, self.more, spacing=8)
        line = row(self.clock, self.why_not, self.remove_link, self.estimate, self.fits_icon, self.fits, spacing=6)
        line.setStretch(1, 1)
        line.setStretch(3, 1)
        made = surface("plain")
        made.setMinimumHeight(theme.grown(88))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        made.setLayout(column(line, buttons, spacing=8, margins=(14, 10, 14, 12)))
        self.setLayout(column(made, spacing=0))
        self.generate_button.clicked.connect(lambda _on=False: self.generate.emit())
        self.more.clicked.connect(self._open_menu)
        self.why_not.clicked.connect(lambda _on=False: self.why.emit())

    def show_estimate(self, words: str, tip: str) -> None:
        self.estimate.set_text(words, tip)

    def show_memory(self, found: Forecast | None) -> None:
        """The peak and whether it fits; nothing where it is not known."""
        if found is None or found.fit is None:
            self.fits.setText("")
            self.fits.setToolTip("")
            self.fits_icon.set("", "ok")
            return
        icon, tone = MARKS[found.fit]
        self.fits.setText(fit_word(found.fit) if found.fit == "no" else listed(fit_word(found.fit), figures.size(found.peak)))
        set_tone(self.fits, tone if found.fit != "fits" else "secondary")
        self.fits_icon.set(icon, tone)
        for part in (self.fits, self.fits_icon):
            part.setToolTip(peak_words(found))

    def show_usable(self, problem: str, *, queueing: bool, removable: bool = False) -> None:
        """problem: why nothing can be made, "" when it can; removable: it goes when something is removed."""
        self.generate_button.setEnabled(not problem)
        self.more.setEnabled(not problem)
        self.why_not.say(problem)
        self.remove_link.setVisible(removable)
        self.clock.set("triangle-alert" if problem else "clock", "warn" if problem else "text-muted")
        for part in (self.estimate, self.fits_icon, self.fits):
            part.setVisible(not problem)
        self.generate_button.setToolTip(problem or keys_shown("generate"))
        self._dress_more(queueing=queueing, usable=not problem)

    def _dress_more(self, *, queueing: bool, usable: bool) -> None:
        """The arrow looks like the button that it stands beside."""
        kind = "" if queueing else "primary"
        if self.more.property("kind") != kind:
            self.more.setProperty("kind", kind)
            repolish(self.more)
        set_icon(self.more, "chevron-down", "text-disabled" if not usable else "text-secondary" if queueing else "on-accent")

    def _open_menu(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(tr("Generate 4"), lambda: self.several.emit(_SEVERAL))
        menu.addAction(tr("Generate forever"), self.endless.emit)
        menu.addAction(tr("Generate in FP32 once"), self.in_float32.emit)
        add_entry(menu, "grid", self.grid.emit)
        corner = self.more.mapToGlobal(QPoint(self.more.width(), 0))
        size = menu.sizeHint()
        menu.popup(corner - QPoint(size.width(), size.height() + 4))
