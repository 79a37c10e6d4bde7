"""The centre of Train until the first step: which part of getting ready is at work, and how far it is."""

from typing import Final, Literal

from PySide6.QtWidgets import QWidget

from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import Card, IconLabel, column, label, progress_bar, row, set_tone
from halftone.session.state import Job

Part = Literal["folder", "load", "encode", "ready"]
PARTS: Final[tuple[Part, ...]] = ("folder", "load", "encode", "ready")


def part_of(job: Job) -> Part:
    """The part that is at work."""
    if job.phase == "load":
        return "load"
    if job.phase == "encode":
        return "encode" if job.done < (job.total or 0) or not job.total else "ready"
    return "folder"


def part_words(part: Part) -> str:
    """What is done in a part, as the title of the header has it."""
    return {
        "folder": tr("Reading the folder"),
        "load": tr("Loading the model"),
        "encode": tr("Encoding captions and pictures"),
        "ready": tr("Preparing the first step"),
    }[part]


def progress_words(job: Job) -> str:
    """How far the part at work is, "" where that is not known."""
    if not job.total:
        return ""
    match part_of(job):
        case "load":
            return tr("{0} of {1}", figures.size(job.done), figures.size(job.total))
        case "encode":
            return tr("{0} of {1}", figures.group(job.done), figures.group(job.total))
        case _:
            return ""


class PrepareView(QWidget):
    """A line for each part, done ones ticked, with a bar below the one at work."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = {part: _Line(part_words(part)) for part in PARTS}
        title = label(tr("Preparing"), "heading-s")
        note = label(tr("Done once, before the first step."), "small", "muted", wrap=True)
        frame = Card(layout=column(title, *self._lines.values(), 2, note, spacing=8, margins=(16, 14, 16, 14)))
        self.setLayout(column(frame, -1))

    def show_job(self, job: Job) -> None:
        """job: a training that has not made a step yet."""
        at = PARTS.index(part_of(job)) if job.running else -1
        for index, part in enumerate(PARTS):
            state = "done" if index < at else "now" if index == at else "later"
            known = state == "now" and bool(job.total) and part in ("load", "encode")
            self._lines[part].show_state(state, progress_words(job) if known else "", job.fraction if known else None)


class _Line(QWidget):
    def __init__(self, words: str) -> None:
        super().__init__()
        self._icon = IconLabel("circle", "text-disabled", 16)
        self._words = label(words, "body")
        self._said = words
        self._figure = label("", "small", "muted", numbers=True)
        self._bar = progress_bar(words)
        self._bar.setFixedHeight(4)
        line = row(self._icon, self._words, self._figure, spacing=10, stretch=1)
        self.setLayout(column(line, self._bar, spacing=6))

    def show_state(self, state: Literal["done", "now", "later"], figure: str, share: float | None) -> None:
        """share: of this part that is done, None where that is not known."""
        icon, token = {
            "done": ("circle-check", "ok"),
            "now": ("loader-circle", "accent-text"),
            "later": ("circle", "text-disabled"),
        }[state]
        self._icon.set(icon, token)
        set_tone(self._words, "" if state == "now" else "muted")
        self._figure.setText(figure)
        self._bar.setVisible(state == "now")
        self._bar.setRange(0, 1000 if share is not None else 0)
        self._bar.setValue(round(1000 * share) if share is not None else 0)
        state_word = {"done": tr("done"), "now": tr("running"), "later": tr("waiting")}[state]
        self.setAccessibleName(f"{self._said}: {figure or state_word}")
