"""A measurement that was skipped is made up for while nothing else is to be done."""

from halftone.session.devices import DeviceChoice
from halftone.session.job_queue import JobQueue
from halftone.session.ports import Clock, Delay
from halftone.session.state import AppState, Ended
from halftone.session.store import Store

QUIET_SECONDS = 60.0
"""So long nothing must have run: who skipped the measurement is about to make a picture."""


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
