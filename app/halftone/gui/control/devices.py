"""The device in use: chosen when the worker is ready, measured when nothing is known of it."""

import msgspec
from PySide6.QtCore import QObject, Signal

from halftone.contract.facts import DeviceFacts, SelfTestReport
from halftone.contract.messages import SelfTest
from halftone.contract.vocabulary import DTYPE_NAMES, DType
from halftone.contract.wording import Words
from halftone.gui.control.job_queue import JobQueue, new_job_id
from halftone.gui.control.writing import SettingsKeeper
from halftone.health.precision import AS_SET, resolve_precision
from halftone.library import records
from halftone.session.events import DeviceChosen
from halftone.session.store import Store


class DeviceChoice(QObject):
    """`changed`: another device, or more is known of it."""

    changed = Signal()

    def __init__(self, holder: Store, queue: JobQueue, keeper: SettingsKeeper, parent: QObject) -> None:
        super().__init__(parent)
        self._holder = holder
        self._queue = queue
        self._keeper = keeper
        self._tried: set[str] = set()
        self._self_tests = records.SelfTests()

    @property
    def id(self) -> str:
        """The device in use, or the wanted one while the worker is not ready."""
        device = self._holder.state.device
        return device.id if device is not None else self._keeper.settings.device

    @property
    def precision(self) -> tuple[DType, Words]:
        """The dtype that runs where no model says otherwise, and why."""
        state, wanted = self._holder.state, self._keeper.numerics.precision
        if state.device is None:
            unmeasured = Words("FP32, because nothing else was measured.")
            return ("float32", unmeasured) if wanted == "auto" else (wanted, Words(AS_SET, (DTYPE_NAMES[wanted],)))
        return resolve_precision(wanted, state.self_test, state.device)

    def worker_ready(self) -> None:
        """A worker begins: it knows what is stored, and so does the window."""
        self._self_tests = records.SelfTests()
        self.choose()

    def measured(self, report: SelfTestReport) -> None:
        """A self-test ended. The worker goes by it even where it could not be stored, and so does the window."""
        self._self_tests.take(report)
        self.changed.emit()

    def choose(self) -> None:
        """Take the device of the settings, or the preferred one, with what was measured on it before.

        A device that is not known is measured by itself once: what ended that, a crash or the user, would end it again.
        """
        wanted = self._keeper.settings.device
        devices = self._holder.state.devices
        device = next((d for d in devices if d.id == wanted), devices[0] if devices else None)
        if device is None:
            return
        known = self._self_tests.of(device)
        self._holder.take(DeviceChosen(device=device, self_test=known))
        self.changed.emit()
        if known is None and device.id not in self._tried and self._holder.state.running is None:
            self._tried.add(device.id)
            self.measure()

    def use(self, device: DeviceFacts) -> None:
        """Compute on another device from the next job on."""
        self._keeper.update(msgspec.structs.replace(self._keeper.settings, device=device.id))
        self.choose()

    def measure(self) -> str:
        """Queue the self-test of the device in use."""
        return self._queue.submit(SelfTest(job=new_job_id(), device=self.id), first=True)
