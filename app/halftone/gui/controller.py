"""The one object between the pages and everything else: holds the state, the queue, the settings, the models and their badges."""

import logging
import os
import sys
import time
import uuid
from collections.abc import Callable
from typing import Literal

import msgspec
from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from halftone.client.command import worker_environment
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import CheckReport, DeviceFacts, ModelFacts, PictureFacts, SelfTestReport
from halftone.contract.messages import (
    AnyCommand,
    AnyEvent,
    Cancel,
    Examine,
    Generate,
    JobCommand,
    JobEnded,
    Keep,
    Quit,
    Ready,
    Repair,
    SelfTest,
    WorkerLost,
)
from halftone.contract.plan import Cure
from halftone.contract.request import Numerics, PictureRequest
from halftone.contract.words import Depth, DType
from halftone.gui import state as words
from halftone.gui.background import Background
from halftone.gui.process import Link, to_qt
from halftone.gui.state import AppState, Ended, Job, apply
from halftone.health.judge import Badge, badge, still_applied
from halftone.health.precision import resolve_precision
from halftone.library import models, records
from halftone.settings import places, store
from halftone.settings.store import Settings

PageName = Literal["create", "health", "device", "settings"]

_LEAVE_SECONDS = 2.0
_LOOK_MS = 20

_log = logging.getLogger(__name__)


class Controller(QObject):
    """`changed` follows every step of the state; `worker_event` passes on what the worker says, with its blob, afterwards."""

    changed = Signal()
    worker_event = Signal(object, object)
    job_ended = Signal(object)
    noticed = Signal(object)
    settings_changed = Signal()
    models_changed = Signal()
    model_selected = Signal()
    badges_changed = Signal()
    page_requested = Signal(str)

    def __init__(self, link: Link, settings: Settings | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = AppState()
        self.settings = store.load() if settings is None else settings
        self.background = Background(self)
        self._link = link
        self._models: dict[str, ModelFacts] = {}
        self._model_errors: dict[str, ErrorFacts] = {}
        self._reports: dict[tuple[str, str, DType], CheckReport | None] = {}
        self._afterwards: dict[str, Callable[[Ended], None]] = {}
        self._endless: PictureRequest | None = None
        self._writer = QTimer(self)
        self._writer.setSingleShot(True)
        self._writer.setInterval(300)
        self._writer.timeout.connect(self._write_settings)
        self._maker: QProcess | None = None
        self._records_owed = 0
        link.arrived.connect(self._arrived)

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the worker and read the models; called after the first paint."""
        self._link.start()
        self.refresh_models()

    def finish(self) -> None:
        """Let the queue come to its end: go on when paused, and queue nothing more by itself."""
        self._endless = None
        self.pause(False)

    def leave(self, then: Callable[[], object]) -> None:
        """Ask the worker to leave, with a little time for it; `then` is called when it is gone or the time is over."""
        self._endless = None
        self.clear_waiting()
        self._link.send(Quit())
        deadline = time.monotonic() + _LEAVE_SECONDS
        watch = QTimer(self)
        watch.setInterval(_LOOK_MS)

        def look() -> None:
            if self._link.gone or time.monotonic() >= deadline:
                watch.stop()
                then()

        watch.timeout.connect(look)
        watch.start()

    def stop(self) -> None:
        """End the worker; the window is about to close."""
        self.background.finish_in_order()
        if self._writer.isActive():
            self._writer.stop()
            self._quietly(lambda: store.save(self.settings))
        if self._maker is not None:
            maker, self._maker = self._maker, None
            maker.kill()
            maker.waitForFinished(3000)
        self._link.stop()

    # --- state ------------------------------------------------------------------------------------------------------

    def take(self, event: AnyEvent | words.OwnEvent) -> None:
        """One step of the state."""
        before = self.state
        self.state = apply(before, event, time.monotonic())
        if self.state.notices and self.state.next_notice != before.next_notice:
            self.noticed.emit(self.state.notices[-1])
        if self.state is not before:
            self.changed.emit()

    def _arrived(self, event: AnyEvent, blob: bytes) -> None:
        if isinstance(event, Ready):
            self._greet(event)
        self.take(event)
        self.worker_event.emit(event, blob)
        if isinstance(event, Ready):
            self._choose_device()
        if isinstance(event, WorkerLost):
            self.later(self._tell_if_hopeless)
        if isinstance(event, JobEnded) and self.state.ended is not None and self.state.ended.job.id == event.job:
            self._ended(self.state.ended)
        self._pump()

    def _tell_if_hopeless(self) -> None:
        if self._link.hopeless and self.state.worker != "refused":
            self.take(words.Noted(kind="worker-lost", facts=(self.state.log,)))

    def _greet(self, event: Ready) -> None:
        _log.info("worker %s, protocol %s, %s devices", event.version, event.protocol, len(event.devices))

    def _choose_device(self) -> None:
        """Take the device of the settings, or the preferred one, with what was measured on it before."""
        wanted = self.settings.device
        devices = self.state.devices
        device = next((d for d in devices if d.id == wanted), devices[0] if devices else None)
        if device is None:
            return
        known = records.load_selftest(device)
        self.take(words.DeviceChosen(device=device, self_test=known))
        self.badges_changed.emit()
        if known is None and self.state.running is None:
            self.measure()

    # --- queue ------------------------------------------------------------------------------------------------------

    def new_job_id(self) -> str:
        return uuid.uuid4().hex[:12]

    def send(self, command: AnyCommand) -> None:
        """Send a command that is no job at once; put a job into the queue."""
        if isinstance(command, Generate | Examine | SelfTest | Repair):
            self.submit(command)
        else:
            self._link.send(command)

    def submit(
        self, command: JobCommand, title: str = "", *, first: bool = False, then: Callable[[Ended], None] | None = None
    ) -> str:
        """Queue a job; `then` is called once it ended. Returns its id."""
        if then is not None:
            self._afterwards[command.job] = then
        self.take(words.Queued(job=Job(id=command.job, command=command, title=title), first=first))
        self._pump()
        return command.job

    def _pump(self) -> None:
        """Give the worker its next job when it has none, and what the job is to read of the last one is on disk."""
        state = self.state
        if state.worker != "ready" or state.running or state.paused or not state.jobs or self._records_owed:
            return
        job = state.jobs[0]
        self.take(words.Sent(job=job.id))
        self._link.send(job.command)

    def cancel(self, job_id: str) -> None:
        """Stop a running job within a step, or take a waiting one out of the queue."""
        job = self.state.job(job_id)
        if job is None:
            return
        self._endless = None
        if not job.running:
            self._take_out(job)
            return
        self.take(words.Stopping(job=job_id, how="cancel"))
        self._link.send(Cancel(job=job_id))

    def keep(self, job_id: str) -> None:
        """Stop denoising after this step and decode what there is."""
        self._endless = None
        self.take(words.Stopping(job=job_id, how="keep"))
        self._link.send(Keep(job=job_id))

    def remove_with_undo(self, job_id: str) -> None:
        """Cancel a running job; take a waiting one out and offer to put it back."""
        job = self.state.job(job_id)
        self.cancel(job_id)
        if job is not None and not job.running:
            self.take(words.Noted(kind="removed", facts=(job.title or job.kind,), job=job))

    def clear_waiting(self) -> tuple[Job, ...]:
        """Take everything that waits out of the queue; returns it, for an undo."""
        waiting = tuple(job for job in self.state.jobs if not job.running)
        for job in waiting:
            self._take_out(job)
        return waiting

    def _take_out(self, job: Job) -> None:
        """A waiting job that will not run; who waits for its end is told."""
        self.take(words.Removed(job=job.id))
        then = self._afterwards.pop(job.id, None)
        if then is not None:
            then(Ended(job=job, outcome="cancelled", error=None, report=None))

    def requeue(self, jobs: tuple[Job, ...]) -> None:
        """Put removed jobs back."""
        for job in jobs:
            self.take(words.Queued(job=job))
        self._pump()

    def move(self, job_id: str, by: int = 0, to: int | None = None) -> None:
        self.take(words.Moved(job=job_id, by=by, to=to))

    def pause(self, on: bool) -> None:
        """Pause after the running job, or go on."""
        self.take(words.Paused(on=on))
        self._pump()

    def _ended(self, ended: Ended) -> None:
        if isinstance(ended.report, SelfTestReport):
            self._measured(ended.report)
        if isinstance(ended.report, CheckReport):
            self._checked(ended)
        then = self._afterwards.pop(ended.job.id, None)
        if then is not None:
            then(ended)
        self.job_ended.emit(ended)
        if self._endless is not None and isinstance(ended.job.command, Generate) and ended.outcome == "done":
            self.generate(self._endless)

    # --- pictures ---------------------------------------------------------------------------------------------------

    def generate(self, request: PictureRequest, *, endless: bool = False) -> str:
        """Queue a picture with the settings in force. endless: queue it again, with a new seed, until cancelled."""
        if endless:
            self._endless = msgspec.structs.replace(request, seed=None)
        return self.submit(Generate(job=self.new_job_id(), request=request), request.prompt)

    def retry(self, job: Job) -> str:
        """Queue the same command again under a new name."""
        return self.submit(msgspec.structs.replace(job.command, job=self.new_job_id()), job.title)

    def recover(self, picture: PictureFacts, request: PictureRequest) -> str:
        """Finish a picture, this time without asking: decoded again from what was kept, or made again from its seed."""
        numerics = msgspec.structs.replace(request.numerics, on_black="recover")
        again = msgspec.structs.replace(request, resume_latents=picture.latents, numerics=numerics, seed=picture.seed, batch=1)
        return self.submit(Generate(job=self.new_job_id(), request=again), request.prompt, first=True)

    # --- device -----------------------------------------------------------------------------------------------------

    def measure(self) -> str:
        """Queue the self-test of the device in use."""
        return self.submit(SelfTest(job=self.new_job_id(), device=self.device_id), first=True)

    @property
    def device_id(self) -> str:
        return self.state.device.id if self.state.device is not None else self.settings.device

    def use_device(self, device: DeviceFacts) -> None:
        """Compute on another device from the next job on."""
        self.update_settings(msgspec.structs.replace(self.settings, device=device.id))
        self._choose_device()

    @property
    def precision(self) -> tuple[DType, str]:
        """The dtype that the next picture runs in, and why."""
        device = self.state.device
        if device is None:
            wanted = self.settings.numerics.precision
            return ("float32" if wanted == "auto" else wanted), ""
        return resolve_precision(self.settings.numerics.precision, self.state.self_test, device)

    def _measured(self, report: SelfTestReport) -> None:
        if report.complete:
            self._write_record(lambda: records.save_selftest(report))
        self.badges_changed.emit()
        pocket = self._models.get(models.POCKET)
        if report.complete and not self.settings.first_run_done and pocket is not None and self.report(pocket) is None:
            self.check(pocket)

    # --- models -----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> ModelFacts | None:
        """Facts of the selected model, None while they are being read or when its file is missing."""
        return self._models.get(self.settings.last_model)

    @property
    def model_error(self) -> ErrorFacts | None:
        """Why the selected model cannot be used, None when it can."""
        return self._model_errors.get(self.settings.last_model)

    @property
    def models(self) -> tuple[ModelFacts, ...]:
        """Pocket first, then what was used before."""
        return tuple(self._models.values())

    def refresh_models(self) -> None:
        """Read the headers of all known models again, off the UI thread."""
        wanted = tuple(dict.fromkeys((models.POCKET, *self.settings.model_folders, self.settings.last_model)))
        self.background.run(lambda: _describe_all(wanted), self._models_read)

    def _models_read(self, found: tuple[dict[str, ModelFacts], dict[str, ErrorFacts]]) -> None:
        self._models, self._model_errors = found
        self.models_changed.emit()
        self.badges_changed.emit()

    def select_model(self, model: str) -> None:
        """Make a model the one in use, and remember it. A folder of models is remembered too, and its first one used."""
        known = self.settings.model_folders
        folders = known if model == models.POCKET or model in known else (*known, model)
        self.update_settings(msgspec.structs.replace(self.settings, last_model=model, model_folders=folders))
        if model in self._models:
            self.model_selected.emit()
        else:
            self.background.run(lambda: _describe_all((model,)), self._model_opened)

    def _model_opened(self, found: tuple[dict[str, ModelFacts], dict[str, ErrorFacts]]) -> None:
        self._models |= found[0]
        self._model_errors |= found[1]
        if self.settings.last_model not in self._models and found[0]:
            self.update_settings(msgspec.structs.replace(self.settings, last_model=next(iter(found[0]))))
        self.models_changed.emit()
        self.model_selected.emit()

    def make_fragile(self) -> None:
        """Write the fragile twin of the demo model into the data folder, and use it."""
        if self._maker is not None:
            return
        folder = places.data_dir() / "models" / "pocket-fragile"
        if folder.is_dir():
            self.select_model(str(folder))
            return
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.take(words.Noted(kind="fragile-failed", facts=(str(error),)))
            return
        self.take(words.Noted(kind="fragile-begun"))
        process = QProcess(self)
        process.setProcessEnvironment(to_qt(worker_environment()))
        process.finished.connect(lambda code, _status: self._fragile_made(code, str(folder)))
        process.errorOccurred.connect(lambda _error: self._fragile_made(-1, str(folder)))
        self._maker = process
        process.start(sys.executable, ["-P", "-m", "halftone", "demo", "fragile", "--output", str(folder)])

    def _fragile_made(self, code: int, folder: str) -> None:
        process, self._maker = self._maker, None
        if process is None:
            return
        if code == 0:
            self.select_model(folder)
            self.take(words.Noted(kind="fragile-made"))
        else:
            said = bytes(process.readAllStandardError().data()).decode("utf-8", "replace").strip()
            _log.error("The fragile demo model could not be made: %s", said)
            self.take(words.Noted(kind="fragile-failed", facts=(said.rpartition("\n")[2],)))
        process.deleteLater()

    # --- health -----------------------------------------------------------------------------------------------------

    def report(self, model: ModelFacts | None) -> CheckReport | None:
        """The stored check of a model on this device in the precision in use."""
        device = self.state.device
        if model is None or device is None:
            return None
        return self._report(model, device, self.precision[0])

    def _report(self, model: ModelFacts, device: DeviceFacts, precision: DType) -> CheckReport | None:
        key = (model.fingerprint, device.id, precision)
        if key not in self._reports:
            self._reports[key] = records.load_report(model, device, precision)
        return self._reports[key]

    def badge(self, model: ModelFacts | None) -> Badge:
        """How the model's numbers behave on this device."""
        device = self.state.device
        if model is None or device is None:
            return Badge(state="unchecked", room_bits=None, reason="")
        return badge(self.report(model), model, device, self.settings.numerics)

    def check(self, model: ModelFacts, depth: Depth = "quick", then: Callable[[Ended], None] | None = None) -> str:
        """Queue a check of a model."""
        command = Examine(
            job=self.new_job_id(), model=model.id, device=self.device_id, depth=depth, numerics=self.settings.numerics
        )
        return self.submit(command, model.name, first=True, then=then)

    def _checked(self, ended: Ended) -> None:
        """Keep the report of a check, and the cure in force if it confirms it; the check after a cure has its own way."""
        report, command = ended.report, ended.job.command
        if not isinstance(report, CheckReport) or not isinstance(command, Examine) or command.plan is not None:
            return
        before = self._report(report.model, report.device, report.precision)
        kept = msgspec.structs.replace(report, applied=still_applied(before, report))
        self._remember(kept)
        self._write_record(lambda: records.save_report(kept))
        if before is not None and before.applied and not kept.applied and ended.job.id not in self._afterwards:
            self.take(words.Noted(kind="cure-dropped", facts=(report.model.name, report.model.id)))

    def _set_applied(self, report: CheckReport, applied: bool) -> None:
        """Whether the next pictures use the report's plan: known here at once, on disk before the next job is sent."""
        changed = msgspec.structs.replace(report, applied=applied)
        self._remember(changed)
        self._write_record(lambda: records.save_report(changed))

    def _write_record(self, write: Callable[[], None]) -> None:
        """Write what the worker may read. Records are written in order, and no job is sent before they are."""
        self._records_owed += 1
        self.background.run_in_order(write, lambda _done: self._record_done(), self._record_failed)

    def _record_done(self) -> None:
        self._records_owed -= 1
        self._pump()

    def _record_failed(self, error: Exception) -> None:
        self._not_written(error)
        self._record_done()

    def _remember(self, report: CheckReport) -> None:
        self._reports[(report.model.fingerprint, report.device.id, report.precision)] = report
        self.badges_changed.emit()

    def fix_model(self, model: ModelFacts) -> str:
        """Cure a model: apply the plan of its check, or check it first. Returns the job's id."""
        report = self.report(model)
        if report is not None and report.verdict in ("fixable", "tight") and report.plan.verified and not report.plan.is_plain:
            return self.apply_cure(report)

        def then(ended: Ended) -> None:
            found = ended.report
            if isinstance(found, CheckReport) and ended.outcome == "done":
                if found.verdict == "broken" or found.plan.is_plain:
                    self.go("health")
                else:
                    self.apply_cure(found)

        return self.check(model, then=then)

    def apply_cure(self, report: CheckReport, cure: Cure | None = None) -> str:
        """Store the plan for this model on this device, and repeat the check with it. Returns the check's id."""
        chosen = report if cure is None else msgspec.structs.replace(report, plan=cure.plan)
        self._set_applied(chosen, True)
        command = Examine(
            job=self.new_job_id(),
            model=chosen.model.id,
            device=self.device_id,
            depth=chosen.depth,
            numerics=self.settings.numerics,
            plan=chosen.plan,
        )
        return self.submit(command, chosen.model.name, first=True, then=lambda ended: self._cured(ended, chosen))

    def _cured(self, ended: Ended, report: CheckReport) -> None:
        """The check after a cure: say so, or take the cure back when it did not hold. The first report stays, whole."""
        found = ended.report
        facts = (report.model.name, report.model.id)
        if ended.outcome != "done" or not isinstance(found, CheckReport):
            self.undo_cure(report, quiet=True)
            self.take(words.Noted(kind="cure-unchecked", facts=facts))
        elif found.plan.verified and not any(cure.refusal for cure in found.cures):
            self.take(words.Noted(kind="cure-applied", facts=facts))
        else:
            self.undo_cure(report, quiet=True)
            self.take(words.Noted(kind="cure-failed", facts=facts))

    def undo_cure(self, report: CheckReport, *, quiet: bool = False) -> None:
        """Stop using the stored plan; the check's findings stay."""
        self._set_applied(report, False)
        if not quiet:
            self.take(words.Noted(kind="cure-undone", facts=(report.model.name, report.model.id)))

    def repair(self, model: ModelFacts, output: str, then: Callable[[Ended], None] | None = None) -> str:
        """Queue writing a rescaled copy of the model."""
        command = Repair(
            job=self.new_job_id(), model=model.id, output=output, device=self.device_id, numerics=self.settings.numerics
        )
        return self.submit(command, model.name, first=True, then=then)

    # --- settings and pages -----------------------------------------------------------------------------------------

    def update_settings(self, settings: Settings) -> None:
        """Take new settings at once and write them."""
        if settings == self.settings:
            return
        numerics_changed = settings.numerics != self.settings.numerics
        self.settings = settings
        self._writer.start()
        self.settings_changed.emit()
        if numerics_changed:
            self.badges_changed.emit()

    def _write_settings(self) -> None:
        settings = self.settings
        self.background.run_in_order(lambda: store.save(settings), lambda _done: None, self._not_written)

    def update_numerics(self, numerics: Numerics) -> None:
        self.update_settings(msgspec.structs.replace(self.settings, numerics=numerics))

    def go(self, page: PageName) -> None:
        """Show a page."""
        self.page_requested.emit(page)

    def later(self, call: Callable[[], object]) -> None:
        """Call once the events at hand are done."""
        QTimer.singleShot(0, self, call)

    def _quietly(self, work: Callable[[], object]) -> None:
        """Write a small file; a full or read-only disk is logged and told, and the window goes on."""
        try:
            work()
        except (OSError, HalftoneError) as error:
            self._not_written(error)

    def _not_written(self, error: Exception) -> None:
        _log.error("Could not write: %s", error)
        facts = error.as_facts() if isinstance(error, HalftoneError) else None
        self.take(words.Noted(kind="not-written", facts=(str(error),), error=facts))


def _describe_all(wanted: tuple[str, ...]) -> tuple[dict[str, ModelFacts], dict[str, ErrorFacts]]:
    """Models by their names; a folder that is no model itself stands for the models in it. Runs on another thread."""
    found: dict[str, ModelFacts] = {}
    errors: dict[str, ErrorFacts] = {}
    for model in wanted:
        try:
            facts = models.describe(model)
            models.runnable(facts)
            found[model] = facts
        except HalftoneError as error:
            inside = _models_inside(model) if os.path.isdir(model) else []
            found |= {facts.id: facts for facts in inside}
            if not inside:
                errors[model] = error.as_facts()
    return found, errors


def _models_inside(folder: str) -> list[ModelFacts]:
    """The models below a folder that can make a picture by themselves."""
    found: list[ModelFacts] = []
    for facts in models.list_models((folder,)):
        if facts.id == models.POCKET:
            continue
        try:
            models.runnable(facts)
        except HalftoneError:
            continue
        found.append(facts)
    return found
