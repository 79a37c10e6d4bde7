"""A job whose memory ends somewhere, the job after it, and whether both did what they should."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from PIL import Image
from tests.helpers.apart import apart
from tests.helpers.memory import Allocations, Chain, passes

from halftone.contract.facts import CheckReport, PictureFacts
from halftone.contract.messages import (
    AnyEvent,
    Generate,
    JobCommand,
    JobEnded,
    PictureReady,
    Repair,
    StepDone,
    Train,
    TrainSaved,
    TrainStep,
)
from halftone.contract.training import TrainReport
from halftone.library.records import set_applied
from halftone.measure.pictures import psnr
from halftone.training.service import TrainingEngine
from halftone.worker.runner import JobRunner

SENTENCES: Final = {"out-of-memory", "model-too-large", "train-no-memory", "check-no-memory"}
"""Codes of errors that say that the memory ended."""
ALIKE: Final = 30.0
"""dB from which two pictures count as the same."""


@dataclass(frozen=True)
class Scene:
    """before: jobs that are done undisturbed, the plan of a check applied; apart: the processor stands for a device with memory
    of its own.
    """

    name: str
    job: JobCommand
    before: tuple[JobCommand, ...] = ()
    apart: bool = False


@dataclass
class Told:
    """Holds what one job said."""

    events: list[AnyEvent] = field(default_factory=list[AnyEvent])

    def of(self, kind: Any) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def end(self) -> JobEnded:
        return self.of(JobEnded)[-1]

    @property
    def pictures(self) -> list[PictureFacts]:
        return [event.facts for event in self.of(PictureReady)]


class Bench:
    """An engine that does one job after another."""

    def __init__(self) -> None:
        self.engine = TrainingEngine()
        self._events: list[AnyEvent] = []
        self._runner = JobRunner(self.engine, lambda event, _blob: self._events.append(event))
        self._number = 0

    def run(self, job: JobCommand) -> Told:
        self._events.clear()
        self._number += 1
        self._runner.submit(_placed(msgspec.structs.replace(job, job=str(self._number)), self._number))
        self._runner.run_until_idle()
        return Told(list(self._events))


def _placed(job: JobCommand, number: int) -> JobCommand:
    """Give it a folder of its own for what it writes."""
    folder = str(Path(os.environ["HALFTONE_DATA"]) / f"made-{number}")
    if isinstance(job, Train) and job.resume is None:
        return msgspec.structs.replace(job, config=msgspec.structs.replace(job.config, output=folder))
    return msgspec.structs.replace(job, output=folder) if isinstance(job, Repair) else job


@dataclass(frozen=True)
class Undisturbed:
    """chains: where the job asks for memory, and how often from each place; pixels: of its pictures, and of those of the job
    after it.
    """

    told: Told
    chains: Counter[Chain]
    pixels: list[Any]
    after: Told
    pixels_after: list[Any]


@contextmanager
def fresh_data() -> Generator[Path]:
    """A folder that nothing was learned into yet."""
    before = os.environ.get("HALFTONE_DATA")
    folder = tempfile.mkdtemp(prefix="halftone-memory-")
    os.environ["HALFTONE_DATA"] = folder
    try:
        yield Path(folder)
    finally:
        if before is not None:
            os.environ["HALFTONE_DATA"] = before
        shutil.rmtree(folder, ignore_errors=True)


def begun(scene: Scene) -> Bench:
    bench = Bench()
    for job in scene.before:
        end = bench.run(job).end
        assert end.outcome == "done"
        if isinstance(end.report, CheckReport):
            set_applied(end.report, True)
    if scene.apart:
        apart(bench.engine)
    return bench


def undisturbed(scene: Scene) -> Undisturbed:
    with fresh_data():
        bench = begun(scene)
        with Allocations() as looking:
            told = bench.run(scene.job)
        assert told.end.outcome == "done", told.end
        after = bench.run(scene.job)
        return Undisturbed(told, looking.seen, _pixels(told), after, _pixels(after))


@dataclass
class Shortage:
    """The memory ends at the n-th allocation (from 0) from a place, and at so many that follow."""

    chain: Chain
    nth: int = 0
    lasting: int = 1
    _left: int = field(init=False, default=0)
    _over: bool = field(init=False, default=False)

    def __call__(self, chain: Chain, nth: int) -> bool:
        if not self._over and (chain, nth) == (self.chain, self.nth):
            self._over, self._left = True, self.lasting
        self._left -= 1
        return self._left >= 0


def shortages(chains: Mapping[Chain, int], each: int = 3, lasting: int = 1) -> list[Shortage]:
    """Take of each place the first allocation, the last and some between."""
    found: list[Shortage] = []
    for chain, count in chains.items():
        chosen = {round(step * (count - 1) / max(1, each - 1)) for step in range(each)}
        found += [Shortage(chain, nth, lasting) for nth in sorted(chosen)]
    return found


def place(chains: Iterable[Chain], *functions: str) -> Shortage:
    """The first allocation inside these functions."""
    return Shortage(next(chain for chain in chains if passes(chain, *functions)))


def disturbed(scene: Scene, normal: Undisturbed, fails: Callable[[Chain, int], bool]) -> tuple[str, str]:
    """(what became of the job, what is wrong with that: "" where nothing is)."""
    with fresh_data():
        bench = begun(scene)
        injector = Allocations(fails)
        with injector:
            told = bench.run(scene.job)
        if not injector.raised:
            return "not reached", ""
        ended = _ended(told)
        wrong = [*_job_faults(told, normal), *_going_on(bench, scene, told, normal), *_next_faults(bench, scene, normal)]
        return ended, "; ".join(wrong)


def _ended(told: Told) -> str:
    if told.end.error is not None:
        return f"{told.end.error.code}"
    states = {picture.state for picture in told.pictures}
    ways = [shortage.then for picture in told.pictures for shortage in picture.shortages]
    ways += ["first pass" for picture in told.pictures if picture.cut_short is not None]
    return " ".join([told.end.outcome, *sorted(states), *ways])


def _job_faults(told: Told, normal: Undisturbed) -> Iterable[str]:
    end = told.end
    if end.error is not None:
        if end.error.code not in SENTENCES:
            lines = end.error.details.strip().splitlines()
            yield f"ended as {end.error.code}: {lines[-1] if lines else end.error.facts}"
        elif _is_lost(told):
            yield f"{end.error.code} after steps, and nothing kept"
        return
    if end.outcome != "done":
        yield end.outcome
        return
    for picture, pixels, steps in zip(told.pictures, normal.pixels, _sound_steps(told), strict=False):
        yield from _picture_faults(picture, pixels, steps)
    if isinstance(end.report, CheckReport):
        yield from _check_faults(end.report, normal.told.end.report)


def _picture_faults(picture: PictureFacts, pixels: Any, steps: int) -> Iterable[str]:
    """steps: that were made of it and are sound."""
    if picture.cut_short is not None:  # the first of two passes is saved, and says why
        if picture.cut_short.code not in SENTENCES:
            yield f"cut short as {picture.cut_short.code}"
    elif picture.state in ("clean", "recovered"):
        alike = _alike(picture, pixels)
        if alike < ALIKE and not picture.tiled:
            yield f"another picture: {alike:.0f} dB"
    elif not any(shortage.then == "stopped" for shortage in picture.shortages):
        yield f"{picture.state} without a word of the memory"
    elif picture.latents is None and steps:
        yield f"nothing kept after {steps} steps"


def _is_lost(told: Told) -> bool:
    """Whether steps were made of a picture or a training of which nothing is kept."""
    if told.of(TrainStep):
        return not told.of(TrainSaved)
    pictures = told.of(PictureReady)
    return bool(told.of(StepDone)) and not pictures


def _sound_steps(told: Told) -> list[int]:
    """Count the steps of each picture's last pass; a step whose numbers are bad leaves nothing to keep."""
    found, sound = list[int](), 0
    for event in told.events:
        if isinstance(event, StepDone):
            sound = (0 if event.step == 1 else sound) + (event.finite is not False)
        elif isinstance(event, PictureReady):
            found.append(sound)
            sound = 0
    return found


def _check_faults(found: CheckReport, wanted: Any) -> Iterable[str]:
    if found.verdict != wanted.verdict:
        yield f"verdict {found.verdict} instead of {wanted.verdict}"
    said, meant = [{one.code for one in report.findings} for report in (found, wanted)]
    if said != meant:
        yield f"findings {said} instead of {meant}"


def _going_on(bench: Bench, scene: Scene, told: Told, normal: Undisturbed) -> Iterable[str]:
    """Check that what was kept can be made into the picture, and a training that was saved ends as it would have ended."""
    if isinstance(scene.job, Train):
        yield from _training_on(bench, scene.job, told, normal.told.end.report)
    if not isinstance(scene.job, Generate):
        return
    for picture in told.pictures:
        if picture.latents is None:
            continue
        request = msgspec.structs.replace(scene.job.request, resume_latents=picture.latents, batch=1)
        again = bench.run(Generate(job="", request=request))
        if again.end.outcome != "done" or not again.pictures:
            yield f"cannot be gone on with: {again.end.error}"
        elif (alike := _alike(again.pictures[0], normal.pixels[picture.index])) < ALIKE:
            yield f"gone on with, it is another picture: {alike:.0f} dB, {again.pictures[0].state}"


def _training_on(bench: Bench, job: Train, told: Told, wanted: Any) -> Iterable[str]:
    saved = told.of(TrainSaved)
    if told.end.outcome == "done" or not saved or saved[-1].step >= job.config.steps:
        return
    config = msgspec.structs.replace(job.config, output=str(Path(saved[-1].folder).parent))
    again = bench.run(msgspec.structs.replace(job, config=config, resume=saved[-1].folder)).end
    if not isinstance(again.report, TrainReport):
        yield f"cannot be resumed: {again.error}"
    else:
        yield from _loss_faults("resumed", again.report, wanted)


def _loss_faults(what: str, report: TrainReport, wanted: TrainReport) -> Iterable[str]:
    if abs(report.loss - wanted.loss) > 1e-6 * abs(wanted.loss):
        yield f"{what}: it ends at a loss of {report.loss}, not {wanted.loss}"


def _next_faults(bench: Bench, scene: Scene, normal: Undisturbed) -> Iterable[str]:
    told = bench.run(scene.job)
    if told.end.outcome != "done":
        error = told.end.error
        yield f"the next job ended as {error and error.code}: {error and error.details.strip().splitlines()[-1:]}"
        return
    for picture, pixels in zip(told.pictures, normal.pixels_after, strict=True):
        alike = _alike(picture, pixels)
        if alike < ALIKE or picture.state not in ("clean", "recovered"):
            yield f"the next picture is another one: {picture.state}, {alike:.0f} dB"
    report, wanted = told.end.report, normal.after.end.report
    if isinstance(report, CheckReport):
        yield from (f"next: {fault}" for fault in _check_faults(report, wanted))
    if isinstance(report, TrainReport):
        assert isinstance(wanted, TrainReport)
        yield from _loss_faults("next", report, wanted)


def _alike(picture: PictureFacts, pixels: Any) -> float:
    """In dB; below 0 where there is no picture."""
    if not picture.path or not Path(picture.path).is_file():
        return -1.0
    found = _read(picture)
    return psnr(found, pixels) if found.shape == pixels.shape else -1.0


def _pixels(told: Told) -> list[Any]:
    return [_read(picture) for picture in told.pictures]


def _read(picture: PictureFacts) -> Any:
    with Image.open(picture.path) as image:
        return np.asarray(image.convert("RGB"))
