"""A fix in words: its two steps, what it gave and cost, and why it failed."""

import math
from typing import Final

from halftone.contract.facts import CheckReport
from halftone.gui import text
from halftone.gui.i18n import catalogue, listed, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.message_bars import Act, Message
from halftone.health.forecasts.timing import is_measurable
from halftone.session.pictures.fix import Fix
from halftone.session.pictures.fix_progress import seconds_left
from halftone.session.state import Job

CANCEL: Final = "fix-cancel"
UNDO: Final = "fix-undo"
CLOSE: Final = "fix-close"
_SAME: Final = 40.0
"""Decibels from which two pictures are called the same."""


def fix_message(fix: Fix) -> Message | None:
    """The banner of the two pictures of a fix; None where there is none."""
    match fix.state:
        case "running":
            cancel = (Act(CANCEL, tr("Cancel"), "x", ""),)
            return Message("info", tr("Fixing, step {0} of 2", fix.step), _step_words(fix), actions=cancel)
        case "fixed":
            title = tr("Fixed. The same seed, made clean.")
            close = Act(CLOSE, tr("Close"), "", "quiet")
            return Message("ok", title, result_words(fix), actions=(Act(UNDO, tr("Undo the fix"), "undo-2", ""), close))
        case "failed":
            return _failed(fix)
        case "":
            return None


def _step_words(fix: Fix) -> str:
    return tr("Checking the model") if fix.step == 1 else tr("Making the same picture again")


def _failed(fix: Fix) -> Message:
    """What happened, what Halftone did, what you can do."""
    why, remedy = "" if fix.why is None else fix.why.text(catalogue()), ""
    if fix.error is not None:
        why, remedy = text.error_sentence(fix.error), text.error_remedy(fix.error)
    actions = (
        Act("fix", tr("Try again"), "rotate-ccw", "primary"),
        Act("health", tr("See model health"), "activity", ""),
        Act(CLOSE, tr("Close"), "", "quiet"),
    )
    title = tr("The fix stopped at step {0} of 2.", fix.step)
    return Message("danger", title, sentences(why, remedy), tr("The model and the picture are as before."), actions)


def left_words(fix: Fix, job: Job | None, now: float) -> str:
    """What stands beside the bar. job: the one of its step; now: seconds of the clock of the job's times."""
    if job is None or job.started is None:
        return tr("Waiting for the running job")
    left = seconds_left(fix, job, now)
    return tr("estimating") if left is None else tr("about {0} left", figures.duration(left))


def result_words(fix: Fix) -> str:
    """What the cure costs, and how alike the two pictures are, as measured."""
    return listed(*_price(fix.report), _likeness(fix.likeness))


def _price(report: CheckReport | None) -> tuple[str, ...]:
    """The measured price of the cure in use."""
    cure = next((cure for cure in report.cures if cure.suggested), None) if report is not None else None
    if cure is None:
        return ()
    time = ""
    if cure.time_ratio is not None:
        shown = cure.time_ratio if is_measurable(cure.time_ratio, cure.time_spread) else 1.0
        time = tr("{0} time", figures.change(shown))
    memory = "" if not cure.memory_bytes else tr("{0} memory", figures.size_change(cure.memory_bytes))
    return tuple(filter(None, (time, memory)))


def _likeness(decibels: float | None) -> str:
    if decibels is None:
        return ""
    if math.isinf(decibels) and decibels > 0:
        return tr("the same pixels")
    shown = tr("{0} dB", figures.decimal(decibels, 0)).replace(" ", figures.HARD)
    return tr("same picture ({0})", shown) if decibels >= _SAME else tr("similar picture ({0})", shown)
