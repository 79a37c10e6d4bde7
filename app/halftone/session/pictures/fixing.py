"""Fixing a model from a picture that overflowed: check the model, use its cheapest cure, make the same picture again."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import CheckReport
from halftone.contract.messages import Generate
from halftone.contract.request import PictureRequest
from halftone.contract.wording import Words
from halftone.health.judge import tried
from halftone.session.checks import Checks, has_cure
from halftone.session.events import Replaced
from halftone.session.job_ids import new_job_id
from halftone.session.job_queue import JobQueue
from halftone.session.pictures.fix import Fix
from halftone.session.pictures.fix_progress import advanced
from halftone.session.pictures.history import Made
from halftone.session.ports import Executor
from halftone.session.state import AppState, Ended, Job
from halftone.session.store import Store
from halftone.settings.picture_files import opened_picture

_VIDEO: Final = ".mp4"

_log = logging.getLogger(__name__)


def likeness(before: str, after: str) -> float | None:
    """Decibels between two picture files; None where they cannot be compared. Runs on another thread."""
    import numpy as np

    from halftone.measure.pictures import psnr

    if not before or Path(before).suffix.lower() == _VIDEO:
        return None
    try:
        with opened_picture(before) as one, opened_picture(after) as other:
            return psnr(np.asarray(one.convert("RGB")), np.asarray(other.convert("RGB")))
    except (HalftoneError, OSError, ValueError) as error:
        _log.info("two pictures cannot be compared: %s", error)
        return None


class Fixing:
    """One at a time. Each of its jobs comes before all that wait."""

    def __init__(self, store: Store, queue: JobQueue, checks: Checks, executor: Executor) -> None:
        self._store = store
        self._queue = queue
        self._checks = checks
        self._executor = executor
        self._made: Made | None = None
        self._again = PictureRequest(prompt="")
        store.subscribe(self._job, self._went_on)

    @property
    def _fix(self) -> Fix:
        return self._store.state.fix

    def _show(self, fix: Fix) -> None:
        self._store.take(Replaced(part=fix))

    @staticmethod
    def _job(state: AppState) -> Job | None:
        return state.job(state.fix.job) if state.fix.running else None

    def _went_on(self, job: Job | None) -> None:
        if job is not None and (fix := advanced(self._fix, job)) != self._fix:
            self._show(fix)

    # --- two steps --------------------------------------------------------------------------------------------------

    def begin(self, made: Made) -> None:
        """Fix the selected model, which made this picture, in the precision and with the add-ons that are chosen."""
        model = self._store.state.model
        if model is None or self._fix.running:
            return
        self._made, self._again = made, self._same(made)
        self._show(Fix(state="running", key=made.key, facts=made.facts))
        report = self._checks.report(model)
        if report is not None and has_cure(report) and self._checks.badge(model).state in ("overflows", "tight"):
            job = self._checks.try_plan(report, lambda ended: self._checked(ended, report))
        else:
            job = self._checks.check(model, then=lambda ended: self._checked(ended, None))
        if self._fix.running:
            self._show(replace(self._fix, job=job))

    def _checked(self, ended: Ended, before: CheckReport | None) -> None:
        """Use the cure that the check found, or the one of an earlier check that held. before: that check."""
        found = ended.report
        if ended.outcome != "done" or not isinstance(found, CheckReport):
            self._stop(ended)
            return
        report = found if before is None else tried(before, found)
        held = before is None or not any(cure.refusal for cure in found.cures)
        if has_cure(report) and held:
            self._checks.use(report)
        elif not self._learned(found):
            if before is not None:
                self._checks.undo(report, quiet=True)
            self._fail(why=self._checks.badge(found.model, found.precision).reason)
            return
        self._show(replace(self._fix, report=report))
        self._make()

    def _learned(self, found: CheckReport) -> bool:
        """Whether the check finds nothing, and a cure was found while the picture was made, which the next one begins with."""
        made = self._made
        return found.verdict == "healthy" and made is not None and any(event.remembered for event in made.facts.events)

    def _same(self, made: Made) -> PictureRequest:
        """The request of the same picture with the numerics of the check; one that was not finished resumes from its latents."""
        facts, numerics = made.facts, msgspec.structs.replace(self._store.state.numerics, on_black="recover")
        kept = None if facts.path else facts.latents
        return msgspec.structs.replace(made.request, numerics=numerics, seed=facts.seed, batch=1, resume_latents=kept)

    def _make(self) -> None:
        command = Generate(job=new_job_id(), request=self._again)
        self._show(replace(self._fix, step=2, job=command.job, share=0.0))
        self._queue.submit(command, self._again.prompt, first=True, then=self._made_again)

    def _made_again(self, ended: Ended) -> None:
        fix, clean = self._fix, ended.job.pictures[-1] if ended.job.pictures else None
        if ended.outcome != "done" or clean is None:
            self._stop(ended)
        elif clean.state != "clean" or not clean.path:
            self._fail(why=Words("The same picture overflowed with the cure too."))
        else:
            before = fix.facts.path if fix.facts is not None else ""
            self._executor.run(lambda: likeness(before, clean.path), self._compared, self._not_compared)

    def _compared(self, decibels: float | None) -> None:
        self._made = None
        if self._fix.running:
            self._show(replace(self._fix, state="fixed", share=1.0, likeness=decibels))

    def _not_compared(self, error: Exception) -> None:
        _log.warning("two pictures cannot be compared: %s", error)
        self._compared(None)

    # --- other ends -------------------------------------------------------------------------------------------------

    def _stop(self, ended: Ended) -> None:
        """A job did not come to its end."""
        if ended.outcome == "cancelled":
            self._take_back()
            self.close()
        else:
            self._fail(error=ended.error)

    def _fail(self, why: Words | None = None, error: ErrorFacts | None = None) -> None:
        self._take_back()
        self._show(replace(self._fix, state="failed", why=why, error=error, report=None, clean=None))

    def _take_back(self) -> None:
        self._made = None
        if self._fix.report is not None:
            self._checks.undo(self._fix.report, quiet=True)

    def cancel(self) -> None:
        """Stop it; the model is as before."""
        if self._fix.running:
            self._queue.cancel(self._fix.job)

    def undo(self) -> None:
        """Use the cure no longer, and nothing that cured pictures of this model before; the pictures stay."""
        if self._fix.report is not None and not self._fix.running:
            self._checks.undo(self._fix.report)
        self.close()

    def close(self) -> None:
        """It is no news any more."""
        self._show(Fix())
