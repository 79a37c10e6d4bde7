"""How far a fix is, from the phases of its jobs, and the time left."""

from dataclasses import replace
from typing import Final

from halftone.contract.messages import Examine
from halftone.contract.vocabulary import Phase
from halftone.session.pictures.fix import Fix
from halftone.session.state import Job

_CHECK: Final[dict[Phase, tuple[float, float]]] = {
    "load": (0.0, 0.1),
    "scan": (0.1, 0.2),
    "range": (0.2, 0.5),
    "target": (0.5, 0.6),
    "plan": (0.6, 0.75),
    "verify": (0.75, 1.0),
}
_PICTURE: Final[dict[Phase, tuple[float, float]]] = {
    "load": (0.0, 0.1),
    "encode": (0.1, 0.15),
    "denoise": (0.15, 0.9),
    "upscale": (0.5, 0.6),
    "decode": (0.9, 0.97),
    "save": (0.97, 1.0),
}
"""The part of a job that each phase is, from and to."""
_ENOUGH: Final = 0.1
"""The share of a job from which the time left is shown."""


def share(job: Job) -> float:
    """How much of a check or a picture is done, by its phase: 0 to 1."""
    phases = _CHECK if isinstance(job.command, Examine) else _PICTURE
    begin, end = phases.get(job.phase or "load", (0.0, 0.0))
    return begin + (end - begin) * (job.fraction or 0.0)


def advanced(fix: Fix, job: Job) -> Fix:
    """The fix once its job went on. It never goes back: phases repeat, and their lengths grow while they run."""
    clean = job.pictures[-1] if job.pictures else fix.clean
    return replace(fix, share=max(fix.share, share(job)), clean=clean)


def seconds_left(fix: Fix, job: Job, now: float) -> float | None:
    """Seconds until the fix ends, from the time so far and that of the first picture; None before enough is known."""
    if job.started is None or fix.share < _ENOUGH:
        return None
    left = (now - job.started) * (1 - fix.share) / fix.share
    return left + (fix.facts.seconds if fix.step == 1 and fix.facts is not None else 0.0)
