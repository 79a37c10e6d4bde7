"""The queue as a file: what is left of each job is known from the pictures that it has finished."""

from collections.abc import Callable, Iterable
from dataclasses import replace as changed
from typing import TypeVar

import msgspec
from msgspec.structs import asdict, replace

from halftone.contract.facts import PictureFacts
from halftone.contract.messages import Generate, JobCommand, Upscale
from halftone.contract.parameters import seed_after
from halftone.contract.request import PictureRequest
from halftone.session.pictures.grid import Cell, Grid
from halftone.session.state import AppState, Endless, Job, LeftQueue, Sheet, renewed

T = TypeVar("T")
Last = Callable[[str], PictureFacts | None]
"""The last picture that a job finished, by the job's id; None for none."""


class KeptJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of the queue, as `session.state.Job` has it."""

    id: str
    command: Generate | Upscale
    title: str
    root: str = ""
    life: int = 0
    grid: Grid | None = None
    upscaler: str = ""
    chained: bool = False
    endless: bool = False


class KeptQueue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Entries are decoded one by one, so that one that is not understood costs no other. upscaler: for the endless request."""

    jobs: tuple[msgspec.Raw, ...] = ()
    sheets: tuple[msgspec.Raw, ...] = ()
    endless: PictureRequest | None = None
    upscaler: str = ""


def kept_queue(state: AppState) -> bytes:
    """The file of the queue; empty where there is nothing to keep."""
    entries = (*state.left.jobs, *state.jobs)
    jobs = tuple(_encoded(job) for job in entries if isinstance(job.command, Generate | Upscale) and job.stopping != "cancel")
    sheets = tuple(msgspec.Raw(msgspec.json.encode((sheet.key, sheet.title, sheet.grid))) for sheet in state.sheets)
    endless = state.endless or state.left.endless
    if endless is None:
        return msgspec.json.encode(KeptQueue(jobs=jobs, sheets=sheets)) if jobs or sheets else b""
    return msgspec.json.encode(KeptQueue(jobs=jobs, sheets=sheets, endless=endless.request, upscaler=endless.upscaler))


def _encoded(job: Job) -> msgspec.Raw:
    assert isinstance(job.command, Generate | Upscale)
    kept = KeptJob(**{name: getattr(job, name) for name in KeptJob.__struct_fields__})
    return msgspec.Raw(msgspec.json.encode(kept))


def restored_queue(data: bytes, last: Last) -> tuple[LeftQueue, tuple[Sheet, ...]]:
    """What a window left, without the pictures that it finished, and the grids that were made but not put together. last: tells
    which pictures there are.
    """
    try:
        kept = msgspec.json.decode(data, type=KeptQueue)
    except msgspec.MsgspecError:
        return LeftQueue(), ()
    jobs = [left for one in _decoded(kept.jobs, KeptJob) if (left := left_of(_job(one), last)) is not None]
    sheets = [Sheet(key=key, title=title, grid=grid) for key, title, grid in _decoded(kept.sheets, tuple[str, str, Grid])]
    made = [one for one in jobs if isinstance(one, Sheet)]
    waiting = tuple(one for one in jobs if isinstance(one, Job))
    endless = None if kept.endless is None else Endless(request=kept.endless, upscaler=kept.upscaler)
    return LeftQueue(jobs=waiting, endless=endless), (*sheets, *made)


def _decoded(raws: Iterable[msgspec.Raw], kind: type[T]) -> list[T]:
    found: list[T] = []
    for raw in raws:
        try:
            found.append(msgspec.json.decode(raw, type=kind))
        except msgspec.MsgspecError:
            continue
    return found


def _job(kept: KeptJob) -> Job:
    return Job(**asdict(kept))


def left_of(job: Job, last: Last) -> Job | Sheet | None:
    """What is left of an entry of the queue whose worker or window died: None where it is done, its sheet where only that is
    missing. An id under which pictures were made is not used again.
    """
    while (facts := last(job.id)) is not None:
        command = rest(job.command, facts)
        if command is None and job.grid is not None:
            grid = job.grid.with_cell(Cell(facts))
            if grid.next is None:
                return Sheet(key=job.key, title=job.title, grid=grid)
            job = renewed(changed(job, grid=grid), Generate(job=job.id, request=grid.next))
        elif command is None:
            return None
        else:
            job = renewed(job, command)
    return job


def rest(command: JobCommand, last: PictureFacts) -> JobCommand | None:
    """What a command has left to do after a picture of it; None where that was its last one."""
    done = last.index + 1
    if isinstance(command, Upscale):
        pictures = command.request.pictures[done:]
        return replace(command, request=replace(command.request, pictures=pictures)) if pictures else None
    if not isinstance(command, Generate) or done >= command.request.batch:
        return None
    request = replace(command.request, batch=command.request.batch - done)
    if request.variation_strength > 0:
        other = None if last.variation_seed is None else seed_after(last.variation_seed, 1)
        return replace(command, request=replace(request, seed=last.seed, variation_seed=other))
    return replace(command, request=replace(request, seed=seed_after(last.seed, 1)))
