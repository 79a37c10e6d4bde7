"""`apply`, the pure step from what the program knows to what it knows after an event. Recorded events replay as a test."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from msgspec.structs import replace as changed

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import ModelFacts, PictureFacts, SelfTestReport
from halftone.contract.messages import (
    AnyEvent,
    FindingMade,
    Generate,
    JobEnded,
    JobStarted,
    LayersMeasured,
    MemoryChanged,
    ModelChanged,
    PhaseChanged,
    PictureReady,
    PlanChanged,
    PreviewReady,
    Ready,
    Refused,
    StepDone,
    TestDone,
    TrainBegins,
    TrainStep,
    Upscale,
    WorkerLost,
)
from halftone.contract.training import TrainConfig
from halftone.contract.wording import Words
from halftone.session import events
from halftone.session.models.healths import Healths
from halftone.session.models.watched import Library
from halftone.session.pictures.fix import Fix
from halftone.session.pictures.gallery_state import GalleryState
from halftone.session.pictures.grid import Cell, Grid
from halftone.session.pictures.history import PictureHistory, with_times
from halftone.session.pictures.memory_estimate import Networks
from halftone.session.state import (
    AppState,
    Embeddings,
    Ended,
    Found,
    Job,
    Lacking,
    Loras,
    Notice,
    NoticeKind,
    Preparation,
    Sheet,
    TrainingRun,
    WorkerState,
    renewed,
    report_key,
)
from halftone.session.update_state import Updating
from halftone.settings.store import Settings

_PARTS: Final = {
    Settings: "settings",
    Found: "models",
    Lacking: "lacking",
    Embeddings: "embeddings",
    Loras: "loras",
    TrainingRun: "training",
    Preparation: "preparation",
    TrainConfig: "training_draft",
    PictureHistory: "history",
    Fix: "fix",
    Networks: "networks",
    Library: "library",
    Healths: "healths",
    GalleryState: "gallery",
    Updating: "updating",
}
"""The field of the state that holds each part."""


def apply(state: AppState, event: AnyEvent | events.OwnEvent, now: float = 0.0) -> AppState:
    """The state after an event of the worker or of the user. now: seconds of a monotonic clock."""
    if isinstance(event, events.OwnEvent):
        return _apply_own(state, event, now)
    match event:
        case Ready():
            known = replace(state, worker="ready", version=event.version, devices=event.devices, loaded=None, warming="")
            return replace(known, notices=tuple(one for one in state.notices if one.kind != "worker-late"))
        case ModelChanged():
            return replace(state, loaded=event.model, loaded_device=event.device, warming="")
        case MemoryChanged():
            return replace(state, memory=event.memory)
        case Refused():
            return _refused(state, event)
        case WorkerLost():
            worker: WorkerState = "refused" if state.worker == "refused" else "lost"
            return replace(state, worker=worker, loaded=None, warming="", memory=None, log=event.log)
        case JobEnded():
            return _end(state, event)
        case _:
            return _apply_progress(state, event)


def _apply_own(state: AppState, event: events.OwnEvent, now: float) -> AppState:
    if isinstance(event, events.QueueEvent):
        return _apply_queue(state, event, now)
    if isinstance(event, events.ModelEvent):
        return _apply_models(state, event)
    if isinstance(event, events.CheckEvent):
        return _apply_check(state, event)
    if isinstance(event, events.NextPictures):
        return _apply_next(state, event)
    if isinstance(event, events.CardEvent):
        return _apply_cards(state, event)
    match event:
        case events.DeviceChosen():
            return replace(state, device=event.device, self_test=event.self_test)
        case events.Noted():
            return note(
                state,
                event.kind,
                facts=event.facts,
                error=event.error,
                job=event.job,
                why=event.why,
                refused=event.refused,
            )
        case events.Making():
            return replace(state, making=event.on)
        case events.Starting():
            return replace(state, worker="starting")
        case events.Warming():
            return replace(state, warming=event.model)
        case events.Replaced():
            return replace(state, **{_PARTS[type(event.part)]: event.part})


def _apply_next(state: AppState, event: events.NextPictures) -> AppState:
    match event:
        case events.Drafted():
            return state if event.draft == state.draft else replace(state, draft=event.draft)
        case events.PrecisionChosen():
            return replace(state, once=event.precision)
        case events.RowFolded():
            rows = state.open_rows - {event.row}
            return replace(state, open_rows=rows | {event.row} if event.open else rows)


def _apply_cards(state: AppState, event: events.CardEvent) -> AppState:
    match event:
        case events.CardsChosen():
            return replace(state, cards=event.cards)
        case events.CardChanged():
            return replace(state, cards=tuple(event.card if card.id == event.card.id else card for card in state.cards))


def _apply_check(state: AppState, event: events.CheckEvent) -> AppState:
    match event:
        case events.Reported(report=report):
            key = report_key(report.model, report.device, report.precision, report.extras)
            return replace(state, reports={**state.reports, key: report})
        case events.CheckUnclear():
            return replace(state, unclear=state.unclear + 1)


def _without(known: dict[str, ModelFacts], names: tuple[str, ...]) -> dict[str, ModelFacts]:
    return {name: facts for name, facts in known.items() if name not in names}


def _apply_models(state: AppState, event: events.ModelEvent) -> AppState:
    known = state.models
    match event:
        case events.ModelUsed(found=found):
            models = known._replace(
                models=known.models | found.models,
                waiting=known.waiting | found.waiting,
                parts=known.parts | found.parts,
                loras={**known.loras, **found.loras},
            )
            settings = changed(state.settings, model_folders=event.folders, last_model=event.model)
            count = state.selections + 1
            hosted = (count, event.part) if event.part else state.hosted
            return replace(state, models=models, settings=settings, selections=count, hosted=hosted)
        case events.ModelsForgotten():
            left, waiting, parts = (_without(part, event.names) for part in (known.models, known.waiting, known.parts))
            models = known._replace(models=left, waiting=waiting, parts=parts)
            settings = changed(state.settings, model_folders=event.folders, last_model=event.in_use)
            return replace(state, models=models, settings=settings, selections=state.selections + 1)


def _refused(state: AppState, event: Refused) -> AppState:
    """Ignore a model that cannot be loaded early: the picture that needs it says why."""
    if event.command == "Hello":
        return note(replace(state, worker="refused"), "worker-refused", error=event.error)
    return replace(state, warming="") if event.command == "Load" else state


def note(
    state: AppState,
    kind: NoticeKind,
    *,
    facts: tuple[str, ...] = (),
    error: ErrorFacts | None = None,
    job: Job | None = None,
    why: Words | None = None,
    refused: tuple[tuple[str, ErrorFacts], ...] = (),
) -> AppState:
    """The state with one more message; only the newest fifty are kept."""
    notice = Notice(number=state.next_notice, kind=kind, facts=facts, error=error, job=job, why=why, refused=refused)
    return replace(state, notices=(*state.notices[-49:], notice), next_notice=notice.number + 1)


def _apply_queue(state: AppState, event: events.QueueEvent, now: float) -> AppState:
    match event:
        case events.Queued() if state.job(event.job.id) is not None:
            return state  # it was put back twice
        case events.Queued():
            job = replace(event.job, queued=now)
            place = len(state.begun) if event.first else len(state.jobs)
            return replace(state, jobs=(*state.jobs[:place], job, *state.jobs[place:]))
        case events.Removed():
            return replace(state, jobs=tuple(job for job in state.jobs if job.id != event.job or job.running))
        case events.Moved():
            return replace(state, jobs=_moved(state, event))
        case events.Sent():
            return _sent(state, event, now)
        case events.Stopping():
            return _change(state, event.job, stopping=event.how)
        case events.Paused():
            return replace(state, paused=event.on)
        case _:
            return _apply_rest(state, event)


def _apply_rest(state: AppState, event: events.Continued | events.Repeating | events.Composed | events.Left) -> AppState:
    match event:
        case events.Continued():
            jobs = tuple(event.by if job.id == event.job else job for job in state.jobs)
            return replace(state, jobs=jobs)
        case events.Repeating():
            return replace(state, endless=event.endless)
        case events.Composed():
            return _composed(state, event)
        case events.Left():
            return replace(state, left=event.queue, sheets=(*state.sheets, *event.sheets))


def _composed(state: AppState, event: events.Composed) -> AppState:
    sheet = next((one for one in state.sheets if one.key == event.key), None)
    if sheet is None:
        return state
    left = replace(state, sheets=tuple(one for one in state.sheets if one is not sheet))
    if event.error is not None:
        kept = sheet.grid.failed < sheet.grid.count
        return note(state if kept else left, "grid-failed", facts=(sheet.key,) if kept else (), error=event.error)
    if not event.path:
        return left
    return note(left, "grid-made", facts=(Path(event.path).name, event.path, str(sheet.grid.count), str(sheet.grid.failed)))


def _sent(state: AppState, event: events.Sent, now: float) -> AppState:
    """It stands before all that wait, also where one before it is held."""
    jobs = (replace(job, started=now, card=event.card) if job.id == event.job else job for job in state.jobs)
    return replace(state, jobs=_in_order(jobs))


def _in_order(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """That of the device in use first, then those of other cards, then those that wait in their order."""
    return tuple(sorted(jobs, key=lambda job: (not job.running, job.running and bool(job.card))))


def _moved(state: AppState, event: events.Moved) -> tuple[Job, ...]:
    head = state.begun
    waiting = list(state.jobs[len(head) :])
    place = next((index for index, job in enumerate(waiting) if job.id == event.job), None)
    if place is None:
        return state.jobs
    job = waiting.pop(place)
    wanted = place + event.by if event.to is None else event.to
    waiting.insert(max(0, min(len(waiting), wanted)), job)
    return (*head, *waiting)


def _change(state: AppState, job_id: str | None, **changes: object) -> AppState:
    jobs = tuple(replace(job, **changes) if job.id == job_id else job for job in state.jobs)
    return replace(state, jobs=jobs)


def _apply_progress(state: AppState, event: AnyEvent) -> AppState:
    """Events of a running job; those of a job that is not in the queue (any more) change nothing."""
    job = state.job(event.job) if event.job is not None else None
    if job is None:
        return state
    match event:
        case JobStarted():
            return _change(state, job.id, plan=event.plan)
        case PlanChanged():
            return _change(state, job.id, plan=event.after)
        case PhaseChanged():
            return _change(state, job.id, **_phase(job, event))
        case StepDone():
            steps, mended = _with_step(job.steps, event), _mended(job, event)
            return _change(state, job.id, steps=steps, mended=mended, done=event.step, total=event.steps)
        case TrainBegins():
            return _change(state, job.id, done=event.first - 1, total=event.config.steps, phase=None)
        case TrainStep():
            return _change(state, job.id, done=event.step, total=event.steps)
        case LayersMeasured():
            return _change(state, job.id, layers=event.layers)
        case FindingMade():
            return _change(state, job.id, findings=(*job.findings, event.finding))
        case TestDone():
            return _change(state, job.id, tests=(*job.tests, event.result), done=event.done, total=event.total)
        case PictureReady():
            return _with_picture(_change(state, job.id, pictures=(*job.pictures, event.facts)), job, event.facts)
        case PreviewReady() | _:
            return state


def _with_picture(state: AppState, job: Job, facts: PictureFacts) -> AppState:
    history = state.history
    if isinstance(job.command, Generate):
        history = with_times(history, (facts, job.command.request))
    state = _change(state, job.id, deaths=0)
    return replace(state, history=history)


def _phase(job: Job, event: PhaseChanged) -> dict[str, object]:
    changes: dict[str, object] = {"phase": event.phase, "done": event.done, "total": event.total, "detail": event.detail}
    if job.phase != event.phase:
        if job.phase is not None:
            changes["phases_done"] = (*job.phases_done, job.phase)
        if event.phase == "encode" or (event.phase == "denoise" and event.done == 0):
            changes |= {"steps": (), "mended": ()}
    return changes


def _with_step(steps: tuple[StepDone, ...], event: StepDone) -> tuple[StepDone, ...]:
    """Steps in order; a step that was repeated after a repair replaces its first try and all after it."""
    return (*(step for step in steps if step.step < event.step), event)


def _mended(job: Job, event: StepDone) -> tuple[int, ...]:
    """The steps that were bad and are finite now, with the one at hand."""
    bad = any(step.step == event.step and step.finite is False for step in job.steps)
    return (*job.mended, event.step) if bad and event.finite and event.step not in job.mended else job.mended


MOST_DEATHS: Final = 3
"""So many workers in a row that died at one picture: what kills them is the picture."""


def goes_on(job: Job, event: JobEnded) -> bool:
    """Whether a job whose worker died is continued at the picture at which it was."""
    died = event.error is not None and event.error.code in ("worker-lost", "worker-given-up") and not job.stopping
    return died and isinstance(job.command, Generate | Upscale) and job.deaths + 1 < MOST_DEATHS


def _end_cell(left: AppState, job: Job, grid: Grid, event: JobEnded) -> AppState:
    """A picture of a grid is over: the entry goes on with the next one, in the first place; after the last one it is done."""
    facts = job.pictures[-1] if job.pictures else None
    grid = grid.with_cell(Cell(facts, event.error if facts is None else None))
    if grid.next is None:
        return replace(left, sheets=(*left.sheets, Sheet(key=job.key, title=job.title, grid=grid)))
    following = renewed(replace(job, grid=grid, deaths=0), Generate(job=job.id, request=grid.next))
    return replace(left, jobs=_in_order((following, *left.jobs)))


def _end(state: AppState, event: JobEnded) -> AppState:
    job = state.job(event.job) if event.job is not None else None
    if job is None:
        return state
    if goes_on(job, event):
        died = _change(state, job.id, started=None, card="", deaths=job.deaths + 1)
        return replace(died, jobs=_in_order(died.jobs))
    ended = Ended(job=job, outcome=event.outcome, error=event.error, report=event.report)
    left = replace(state, jobs=tuple(other for other in state.jobs if other.id != job.id), ended=ended)
    if job.grid is not None and event.outcome != "cancelled":
        return _end_cell(left, job, job.grid, event)
    if isinstance(event.report, SelfTestReport):
        if not job.card:
            left = replace(left, self_test=event.report)
        if event.report.not_kept:
            return note(left, "not-kept", facts=(event.report.device.name,), why=event.report.not_kept)
    if event.outcome == "failed" and event.error is not None:
        kind: NoticeKind = "disk-full" if event.error.code == "disk-full" else "failed"
        return note(left, kind, error=event.error, job=job)
    return left
