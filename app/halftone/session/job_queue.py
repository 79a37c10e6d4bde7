"""The queue: each worker has one job at a time, the others wait in the state."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from halftone.contract.facts import PictureFacts
from halftone.contract.messages import Cancel, Generate, JobCommand, Keep, Train, Upscale
from halftone.contract.request import PictureRequest, UpscaleRequest
from halftone.library.prompts.shown_prompts import shown_prompt
from halftone.session import events
from halftone.session.cards import Cards, for_card
from halftone.session.job_ids import new_job_id
from halftone.session.pictures.grid import Grid
from halftone.session.state import Ended, Endless, Job, renewed
from halftone.session.store import Store


class JobQueue:
    """Sends waiting jobs to the workers that have none, unless something holds the queue."""

    def __init__(self, store: Store, cards: Cards) -> None:
        self._store = store
        self._cards = cards
        cards.changed = self.pump
        self._afterwards: dict[str, Callable[[Ended], None]] = {}
        self._holds = 0
        self._sent: set[str] = set()
        self._cleared: tuple[Job, ...] = ()

    # --- in ---------------------------------------------------------------------------------------------------------

    def submit(
        self,
        command: JobCommand,
        title: str = "",
        *,
        first: bool = False,
        then: Callable[[Ended], None] | None = None,
        upscaler: str = "",
        chained: bool = False,
        endless: bool = False,
    ) -> str:
        """Queue a job; `then` is called once it ended. Returns its id."""
        if then is not None:
            self._afterwards[command.job] = then
        job = Job(id=command.job, command=command, title=title, upscaler=upscaler, chained=chained, endless=endless)
        self._store.take(events.Queued(job=job, first=first))
        self.pump()
        return command.job

    def generate(self, request: PictureRequest, *, endless: bool = False, upscaler: str = "") -> str:
        """Queue a picture with the settings in force.

        endless: queue it again, with a new seed, until cancelled. upscaler: the upscale model for what is made, "" for none.
        """
        if endless:
            self._repeat_with(request, upscaler)
        command = Generate(job=new_job_id(), request=request)
        return self.submit(command, shown_prompt(request.prompt), upscaler=upscaler, endless=endless)

    def make_grid(self, grid: Grid, title: str, *, upscaler: str = "") -> str:
        """Queue all pictures of a grid as one entry. upscaler: the upscale model for each of them, "" for none."""
        name, request = new_job_id(), grid.next
        assert request is not None
        job = Job(id=name, command=Generate(job=name, request=request), title=title, grid=grid, upscaler=upscaler)
        self._store.take(events.Queued(job=job))
        self.pump()
        return name

    def upscale(self, picture: str, upscaler: str, *, chained: bool = False) -> str:
        """Queue a finished picture that is to become larger. picture, upscaler: files; chained: as the job has it."""
        settings = self._store.state.settings
        request = UpscaleRequest(
            pictures=(picture,),
            upscaler=upscaler,
            device=settings.device,
            precision=self._store.state.numerics.precision,
            saving=settings.saving,
        )
        return self.submit(Upscale(job=new_job_id(), request=request), Path(picture).name, chained=chained)

    def upscale_made(self, job_id: str | None, picture: PictureFacts) -> None:
        """Queue a picture that was made for its upscale model, if the form asked for one."""
        job = self._store.state.job(job_id or "")
        if job is not None and job.upscaler and picture.path and picture.frames == 1:
            self.upscale(picture.path, job.upscaler, chained=True)

    def retry(self, job: Job) -> str:
        """Queue the same command again under a new name."""
        return self.submit(msgspec.structs.replace(job.command, job=new_job_id()), job.title, upscaler=job.upscaler)

    def recover(self, picture: PictureFacts, request: PictureRequest) -> str:
        """Finish a picture, this time without asking: decoded again from what was kept, or made again from its seed."""
        numerics = msgspec.structs.replace(request.numerics, on_black="recover")
        again = msgspec.structs.replace(request, resume_latents=picture.latents, numerics=numerics, seed=picture.seed, batch=1)
        return self.submit(Generate(job=new_job_id(), request=again), request.prompt, first=True)

    def requeue(self, jobs: tuple[Job, ...]) -> None:
        """Put removed jobs back, but none that was put back and sent before."""
        for job in jobs:
            if job.id in self._sent:
                continue
            self._store.take(events.Queued(job=replace(job, held=False, leaving=False)))
            if job.endless and isinstance(job.command, Generate):
                self._repeat_with(job.command.request, job.upscaler)
        self.pump()

    # --- order and pace ---------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Give each worker that has no job its next one, unless something holds the queue."""
        while not self._store.state.paused and not self._holds and (job := self._cards.next()) is not None:
            self._sent.add(job.id)
            self._store.take(events.Sent(job=job.id, card=job.card))
            self._cards.send(for_card(job.command, job.card), job.card)

    def hold(self) -> None:
        """Send no job until `release` was called as often."""
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        self.pump()

    def move(self, job_id: str, by: int = 0, to: int | None = None) -> None:
        if (job := self._store.state.job(job_id)) is not None:
            self._store.take(events.Moved(job=job.id, by=by, to=to))

    def edit(self, job_id: str, on: bool) -> None:
        """Let a waiting entry wait while the user edits it, or no longer."""
        job = self._store.state.job(job_id)
        if job is not None and not job.running and not job.leaving:
            self._store.take(events.Continued(job=job.id, by=replace(job, held=on)))
            self.pump()

    def set_leaving(self, job_id: str, on: bool) -> None:
        """Let a waiting entry wait while it is handed to the farm, or no longer."""
        job = self._store.state.job(job_id)
        if job is not None and not job.running:
            self._store.take(events.Continued(job=job.id, by=replace(job, leaving=on)))
            self.pump()

    def left(self, job_id: str) -> bool:
        """Drop an entry that the farm makes now; False where it is not waiting any more."""
        job = self._store.state.job(job_id)
        if job is None or job.running:
            return False
        self._store.take(events.Removed(job=job.id))
        return True

    def replace(self, job_id: str, request: PictureRequest, *, upscaler: str = "") -> bool:
        """Give a waiting entry another request; False where it is not waiting any more."""
        job = self._store.state.job(job_id)
        if job is None or job.running or job.leaving:
            return False
        by = renewed(
            replace(job, title=shown_prompt(request.prompt), grid=None, upscaler=upscaler), Generate(job=job.id, request=request)
        )
        self._store.take(events.Continued(job=job.id, by=by))
        if job.endless:
            self._repeat_with(request, upscaler)
        self.pump()
        return True

    def go_on(self, job: Job, left: Job | None) -> None:
        """Continue an entry whose worker died with what is left of it; None where only the end was missing."""
        if left is not None:
            if (then := self._afterwards.pop(job.id, None)) is not None:
                self._afterwards[left.id] = then
            self._store.take(events.Continued(job=job.id, by=left))
        self.pump()

    def pause(self, on: bool) -> None:
        """Pause after the running job, or go on."""
        self._store.take(events.Paused(on=on))
        self.pump()

    def _repeat_with(self, request: PictureRequest, upscaler: str) -> None:
        """Follow each picture of the endless row by one like this, with a new seed."""
        again = Endless(request=msgspec.structs.replace(request, seed=None), upscaler=upscaler)
        self._store.take(events.Repeating(endless=again))

    def stop_repeating(self) -> None:
        """Queue nothing more by itself."""
        if self._store.state.endless is not None:
            self._store.take(events.Repeating(endless=None))

    # --- out --------------------------------------------------------------------------------------------------------

    def cancel(self, job_id: str) -> None:
        """Stop a running job within a step, or take a waiting one out of the queue. What a training has learnt is kept."""
        job = self._store.state.job(job_id)
        if job is None:
            return
        if job.endless:
            self.stop_repeating()
        if not job.running:
            self._take_out(job)
        elif isinstance(job.command, Train):
            self.keep(job.id)
        else:
            self.give_way(job.id)

    def give_way(self, job_id: str) -> None:
        """Cancel the running job."""
        self._store.take(events.Stopping(job=job_id, how="cancel"))
        self._send(Cancel(job=job_id))

    def keep(self, job_id: str) -> None:
        """Stop denoising after this step and decode what there is."""
        job = self._store.state.job(job_id)
        if job is not None and job.endless:
            self.stop_repeating()
        self._store.take(events.Stopping(job=job_id, how="keep"))
        self._send(Keep(job=job_id))

    def _send(self, command: Cancel | Keep) -> None:
        """Send a command about a job to the worker that has it."""
        job = self._store.state.job(command.job)
        self._cards.send(command, "" if job is None else job.card)

    def remove_with_undo(self, job_id: str) -> None:
        """Cancel a running job; take a waiting one out and offer to put it back."""
        job = self._store.state.job(job_id)
        self.cancel(job_id)
        if job is not None and not job.running:
            self._store.take(events.Noted(kind="removed", facts=(job.title or job.kind,), job=job))

    def clear_with_undo(self) -> None:
        """Take everything that waits out, and offer to put it back."""
        waiting = self.clear_waiting()
        if waiting:
            self._cleared = waiting
            self._store.take(events.Noted(kind="queue-cleared", facts=(str(len(waiting)),)))

    def restore_cleared(self) -> None:
        """Put back what was cleared last."""
        cleared, self._cleared = self._cleared, ()
        self.requeue(cleared)

    def clear_waiting(self) -> tuple[Job, ...]:
        """Take everything that waits out of the queue; returns it, for an undo."""
        waiting = tuple(job for job in self._store.state.jobs if not job.running)
        for job in waiting:
            self._take_out(job)
        return waiting

    def _take_out(self, job: Job) -> None:
        """Drop a waiting job, and report its end."""
        if job.endless:
            self.stop_repeating()
        self._store.take(events.Removed(job=job.id))
        self.tell(Ended(job=job, outcome="cancelled", error=None, report=None))

    # --- ends -------------------------------------------------------------------------------------------------------

    def awaited(self, job_id: str) -> bool:
        """Whether somebody waits for this job's end."""
        return job_id in self._afterwards

    def tell(self, ended: Ended) -> None:
        """Call who waits for the end of this job."""
        then = self._afterwards.pop(ended.job.id, None)
        if then is not None:
            then(ended)

    def repeat(self, ended: Ended) -> None:
        """After a picture of an endless row: the next one."""
        endless = self._store.state.endless
        if endless is None or not ended.job.endless:
            return
        if ended.outcome == "done":
            self.generate(endless.request, endless=True, upscaler=endless.upscaler)
        else:
            self.stop_repeating()
