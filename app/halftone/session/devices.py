"""The device in use: chosen when the worker is ready, measured when nothing is known of it and nothing else is to be done."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from halftone.contract.facts import DeviceFacts, SelfTestReport
from halftone.contract.messages import SelfTest
from halftone.gallery.timed import names_of
from halftone.library import records
from halftone.session.events import DeviceChosen, Replaced
from halftone.session.job_ids import new_job_id
from halftone.session.job_queue import JobQueue
from halftone.session.ports import Clock, Delay
from halftone.session.state import AppState, Ended
from halftone.session.store import Store

_Measured = TypeVar("_Measured")


def device_named(devices: Sequence[DeviceFacts], wanted: str) -> DeviceFacts | None:
    """The device that a request or the settings call so: by its id, "auto" for the first, "cuda" for the first of CUDA."""
    return next((device for device in devices if wanted in names_of(device, devices)), None)


def self_test_of(device: DeviceFacts, measure: Callable[[], _Measured], *, again: bool = False) -> SelfTestReport | _Measured:
    """The stored self-test of a device as long as it holds, else what `measure` gives. again: measure in any case."""
    return (None if again else records.load_selftest(device)) or measure()


class DeviceChoice:
    def __init__(self, store: Store, queue: JobQueue) -> None:
        self._store = store
        self._queue = queue
        self._tried: set[str] = set()
        self._self_tests = records.SelfTests()

    def worker_ready(self) -> None:
        """A worker begins: it knows what is stored, and so does this process."""
        self._self_tests = records.SelfTests()
        self.choose()

    def measured(self, report: SelfTestReport) -> None:
        """A self-test ended. The worker goes by it even where it could not be stored, and so does this process."""
        self._self_tests.take(report)

    def choose(self) -> None:
        """Take the device of the settings, or the preferred one, with what was measured on it before.

        A device that is not known is measured by itself once: what ended that, a crash or the user, would end it again.
        """
        wanted, devices = self._store.state.settings.device, self._store.state.devices
        device = device_named(devices, wanted) or next(iter(devices), None)
        if device is None:
            return
        known = self._self_tests.of(device)
        self._store.take(DeviceChosen(device=device, self_test=known))
        if known is None and device.id not in self._tried and self._store.state.running is None:
            self._tried.add(device.id)
            self.measure()

    def use(self, device: DeviceFacts) -> None:
        """Compute on another device from the next job on."""
        self._store.take(Replaced(part=msgspec.structs.replace(self._store.state.settings, device=device.id)))
        self.choose()

    def measure(self) -> str:
        """Queue the self-test of the device in use."""
        return self._queue.submit(SelfTest(job=new_job_id(), device=self._store.state.device_id), first=True)


QUIET_SECONDS = 60.0
"""The idle time before the measurement starts: a user who skipped it is about to make a picture."""


def is_idle(state: AppState) -> bool:
    """Whether the worker is there with nothing to do, on a device of which nothing is known."""
    return state.worker == "ready" and not state.jobs and not state.warming and state.self_test is None


class IdleMeasuring:
    """Skipping puts the measurement off; a job that comes meanwhile goes first; a second refusal holds for this session."""

    def __init__(self, store: Store, queue: JobQueue, devices: DeviceChoice, clock: Clock) -> None:
        self._store = store
        self._queue = queue
        self._devices = devices
        self._due = False
        self._own = ""
        self._gave_way = False
        self._quiet = Delay(clock, QUIET_SECONDS, self._measure)
        store.subscribe(lambda state: state, lambda _state: self._look())

    def ended(self, ended: Ended) -> None:
        """A measurement came to its end."""
        if ended.outcome != "cancelled":
            self._due = False
        elif ended.job.id != self._own:
            self._due = self._own == ""
        else:
            self._due = self._gave_way
        self._gave_way = False
        self._look()

    def _measure(self) -> None:
        """Make up for what was skipped, if it still is to be done."""
        if self._due and is_idle(self._store.state):
            self._due = False
            self._own = self._devices.measure()

    def _look(self) -> None:
        state = self._store.state
        running = state.running
        if running is not None and running.id == self._own and len(state.jobs) > 1 and not running.stopping:
            self._gave_way = True
            self._queue.give_way(self._own)
        elif not (self._due and is_idle(state)):
            self._quiet.stop()
        elif not self._quiet.active:
            self._quiet.start()
