"""Smaller parts of the Health page: the header with the model menu, the findings card and the cure card."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from halftone.contract.facts import CheckReport, ModelFacts
from halftone.contract.plan import is_epsilon
from halftone.contract.vocabulary import DTYPE_NAMES, DType
from halftone.gui import icons, theme
from halftone.gui.charts.headroom_chart_text import type_name
from halftone.gui.health import health_text, health_view
from halftone.gui.health.cure_rows import CureHead, CureList
from halftone.gui.health.finding_list import FindingsView, cured_row, finding_row, fine_row
from halftone.gui.health.health_view import HealthView
from halftone.gui.i18n import catalogue, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.navigation import guide_button
from halftone.gui.kit.stock_widgets import (
    HEALTH_LOOK,
    Card,
    ElidedLabel,
    button,
    clear,
    column,
    health_word,
    hline,
    icon_button,
    label,
    row,
)
from halftone.health.judge import why_broken


class Tag(QFrame):
    """A small outlined word."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.setProperty("tag", True)
        self.setLayout(row(label(words, "caption", "secondary"), margins=(6, 0, 6, 0)))
        self.setFixedHeight(theme.grown(18))


class SplitButton(QWidget):
    """A button joined with a small one that opens a menu."""

    clicked = Signal()

    def __init__(self, text: str, icon: str, menu_name: str) -> None:
        super().__init__()
        self.main = button(text, "", icon, clicked=self.clicked.emit)
        self.main.setProperty("joined", "left")
        self.more = QPushButton()
        self.more.setIcon(icons.icon("chevron-down"))
        self.more.setFixedWidth(26)
        self.more.setProperty("joined", "right")
        self.more.setAccessibleName(menu_name)
        self.more.setToolTip(menu_name)
        self.menu = QMenu(self)
        self.more.setMenu(self.menu)
        self.setLayout(row(self.main, self.more, spacing=0))


class HealthHeader(QWidget):
    """Model menu, tags, when it was checked, and Check again with its menu: how thorough, and in which precision."""

    picked = Signal(str)
    check = Signal(str)
    precision = Signal(object)
    """The one to look at, None for the one that pictures run in."""
    open_folder = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.model = QPushButton()
        self.model.setProperty("kind", "title")
        self.model.setIcon(icons.icon("chevron-down"))
        self.model.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self.model.setToolTip(tr("Choose a model"))
        self.menu = QMenu(self)
        self.model.setMenu(self.menu)
        self._tags = QHBoxLayout()
        self._tags.setSpacing(8)
        self._checked = ElidedLabel("", "small", "secondary")
        self._checked.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.again = SplitButton(tr("Check again"), "refresh-cw", tr("Check options"))
        self.again.clicked.connect(lambda: self.check.emit("quick"))
        for depth, words, tip in (
            ("quick", tr("Quick"), tr("Each part once, at three noise levels.")),
            ("thorough", tr("Thorough"), tr("Full pictures, several prompts and sizes. Much slower.")),
        ):
            action = self.again.menu.addAction(words)
            action.setToolTip(tip)
            action.triggered.connect(lambda _on=False, d=depth: self.check.emit(d))
        self.again.menu.setToolTipsVisible(True)
        self.again.menu.addSeparator()
        self._precisions = QActionGroup(self.again.menu)
        self._in_use = self._precision("", None)
        for dtype, words in DTYPE_NAMES.items():
            self._precision(words, dtype).setToolTip(tr("Affects this page only."))
        self.guide_button = guide_button()
        self.setLayout(row(self.model, self._tags, self._checked, self.again, self.guide_button, spacing=12, stretch=2))
        self.setFixedHeight(theme.grown(36))

    def _precision(self, words: str, dtype: DType | None) -> QAction:
        action = self.again.menu.addAction(words)
        action.setCheckable(True)
        action.setData(dtype)
        action.triggered.connect(lambda _on=False: self.precision.emit(dtype))
        self._precisions.addAction(action)
        return action

    def set_precision(self, looked_at: DType | None, in_use: DType) -> None:
        """looked_at: None for the one in use."""
        self._in_use.setText(tr("Same as pictures: {0}", type_name(in_use)))
        for action in self._precisions.actions():
            action.setChecked(action.data() == looked_at)

    def set_models(self, models: Sequence[ModelFacts], states: Sequence[str], current: str) -> None:
        """The menu: every known model with its health, then how to open another one."""
        self.menu.clear()
        group = QActionGroup(self.menu)
        for facts, state in zip(models, states, strict=True):
            icon, tone = HEALTH_LOOK.get(state, HEALTH_LOOK["unchecked"])
            action = QAction(icons.icon(icon, tone), f"{facts.name}  ·  {health_word(state)}", self.menu)
            action.setCheckable(True)
            action.setChecked(facts.id == current)
            action.triggered.connect(lambda _on=False, m=facts.id: self.picked.emit(m))
            group.addAction(action)
            self.menu.addAction(action)
        self.menu.addSeparator()
        self.menu.addAction(icons.icon("folder-open"), tr("Open a model…")).triggered.connect(self.open_folder.emit)

    def set_model(self, name: str, tags: Sequence[str], *, narrow: bool) -> None:
        self.model.setText(f"{name} ")
        self.model.setAccessibleName(tr("Model: {0}", name))
        clear(self._tags)
        for words in tags[: 1 if narrow else 3]:
            if words:
                self._tags.addWidget(Tag(words))

    def set_checked(self, words: str, *, can_check: bool, again: bool, tip: str) -> None:
        self._checked.set_text(words)
        self.again.main.set_words(tr("Check again") if again else tr("Check"))
        self.again.setVisible(can_check)
        self.again.main.setToolTip(tip)


class FindingsCard(Card):
    """Findings in the order of running; the selected one is ringed in the chart."""

    def __init__(self) -> None:
        super().__init__()
        self.view = FindingsView()
        self._count = label("", "small", "secondary")
        self._empty = label("", "body", "secondary", wrap=True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setContentsMargins(24, 24, 24, 24)
        head = row(label(tr("Findings"), "heading-s"), -1, self._count, margins=(14, 0, 14, 0))
        self.setLayout(column(head, 8, hline(), self.view, self._empty, spacing=0, margins=(1, 9, 1, 4), stretch=(3, 4)))

    def set_view(self, view: HealthView, count: str) -> None:
        rows = [finding_row(number, one) for number, one in enumerate(view.findings, start=1)]
        if view.state == "cured" and view.report is not None:
            plan, now = view.report.plan, health_view.layers_after(view)
            found = enumerate(view.findings, start=1)
            rows = [cured_row(number, one, now.get((one.component, one.module)), plan) for number, one in found]
            count = tr("Before the cure: {0}", count)
        if view.fine is not None:
            rows.append(fine_row(view.fine, view.dtype))
        self.view.set_rows(rows)
        self.view.setVisible(bool(rows))
        self._empty.setVisible(not rows)
        self._empty.setText(_empty_words(view))
        self._count.setText(count)


def _empty_words(view: HealthView) -> str:
    if view.state == "checking":
        return tr("No findings yet.")
    if view.state in ("unchecked", "stale", "failed", "stopped", "missing"):
        return tr("Not measured yet.")
    return tr("No findings.")


class CureCard(Card):
    """Cures with their prices; Apply cure, Save repaired copy…, Export report."""

    def __init__(self) -> None:
        super().__init__()
        self.head = CureHead()
        self.cures = CureList()
        self._empty = label("", "body", "secondary", wrap=True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setContentsMargins(28, 20, 28, 20)
        self.legend = label("", "caption", "muted", wrap=True)
        self.legend.setContentsMargins(34, 0, 0, 0)
        self.note = label("", "small", "secondary", wrap=True)
        self.note.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.cancel_copy = icon_button("x", tr("Cancel"))
        self.apply = button(tr("Apply cure"), "primary", "bandage", size="large")
        self.copy = button(tr("Save repaired copy…"), "", "save", size="large")
        self.export = button(tr("Export report"), "quiet", "file-down", size="large")
        self.apply.setToolTip(sentences(tr("For this model and device, until you undo it."), tr("The file is unchanged.")))
        self.export.setToolTip(tr("Saves HTML and JSON, without your prompts."))
        note = row(self.note, self.cancel_copy, spacing=8, margins=(14, 4, 14, 0), stretch=0)
        self.buttons = QWidget()
        self.buttons.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.buttons.setLayout(row(self.apply, self.copy, -1, self.export, margins=(12, 8, 12, 12)))
        body = column(self.head, self.cures, self.legend, spacing=4, margins=(12, 9, 12, 0))
        self._layout: QVBoxLayout = column(body, -1, self._empty, -1, note, self.buttons, spacing=0)
        self.setLayout(self._layout)
        self.setMinimumWidth(440)

    def take_buttons(self) -> None:
        """Put the buttons back below the cures."""
        self._layout.addWidget(self.buttons)

    def set_view(self, view: HealthView, *, busy: bool) -> None:
        """busy: a check or a copy of this model is under way."""
        chosen = health_view.suggested(view)
        in_use = chosen if view.applied else None
        self.cures.set_cures(view.cures, type_name(view.dtype), chosen, in_use)
        self.legend.setText(tr("–: not measured. Run a thorough check."))
        self.legend.setVisible(any(cure.time_ratio is None and not cure.refusal for cure in view.cures))
        self._empty.setText(_no_cure_words(view))
        self._empty.setVisible(not view.cures)
        self.head.show_columns(bool(view.cures))
        self.refresh_buttons(view, busy=busy)

    def refresh_buttons(self, view: HealthView, *, busy: bool) -> None:
        cure = self.cures.chosen()
        curable = view.state in ("overflows", "tight", "cured") and cure is not None
        in_use = view.applied and cure is not None and health_text.same_plan(cure.plan, view.plan)
        self.apply.setVisible(bool(view.cures))
        self.apply.setEnabled(curable and not in_use and not busy)
        self.apply.set_words(tr("Cure in use") if in_use else tr("Apply cure"))
        refusal = copy_refusal(view)
        self.copy.setVisible(bool(view.cures))
        self.copy.setEnabled(not refusal and not busy)
        self.copy.setToolTip(refusal or _copy_tip(view))
        self.export.setEnabled(view.report is not None)

    def set_note(self, words: str, *, cancel: bool) -> None:
        self.note.setText(words)
        self.note.setVisible(bool(words))
        self.cancel_copy.setVisible(cancel)


def _copy_tip(view: HealthView) -> str:
    words = tr("Writes a new file. The original is unchanged.")
    if any(is_epsilon(name) for cure in view.cures for own in cure.plan.rescale.values() for name in own):
        words = sentences(words, tr("Norm epsilons cannot be saved; the copy is compared with the original."))
    needed = next((cure.disk_bytes for cure in view.cures if cure.kind == "rescale" and cure.disk_bytes), None)
    return words if needed is None else sentences(words, tr("Needs {0} of disk space.", figures.size(needed)))


def copy_refusal(view: HealthView) -> str:
    """Why no repaired copy can be saved, "" if it can."""
    if view.state in ("stale", "unchecked", "checking"):
        return tr("Check the model first.")
    exact = [cure for cure in view.cures if cure.kind == "rescale"]
    if not exact:
        return tr("Only a rescaling can be saved.")
    report = view.report
    if report is not None and report.model.parts:
        return tr("The model consists of several files.")
    if report is not None and (part := next((name for name, used in _replaceable(report) if used), "")):
        return tr("A copy contains only the model. Reset {0} on Create and check again.", part)
    reason = exact[0].refusal
    return reason.text(catalogue()) if reason else ""


def _replaceable(report: CheckReport) -> tuple[tuple[str, bool], ...]:
    """Rows of the page Create that a copy cannot contain, and whether the check used them."""
    return (
        (tr("VAE"), report.vae is not None),
        (tr("Transformer"), report.transformer is not None),
        (tr("ControlNet"), bool(report.controls)),
        (tr("IP-Adapter"), bool(report.ip_adapters)),
    )


def _no_cure_words(view: HealthView) -> str:
    if view.state == "checking":
        return tr("Cures follow after the check.")
    if view.state == "ok":
        return tr("No cure is needed.")
    if view.state == "broken" and view.report is not None and why_broken(view.report) == "file":
        return tr("No cure: the file is damaged.")
    if view.state == "broken" and view.report is not None and why_broken(view.report) == "lora":
        return tr("No cure: the LoRA is damaged. Replace or remove it.")
    if view.state in ("unchecked", "stale", "missing", "failed", "stopped"):
        return tr("A check finds the cheapest cure and its cost.")
    return tr("{0}.", tr("The check found no cure"))
