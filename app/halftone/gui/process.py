"""The worker over QProcess: bytes go through its protocol, events come out; a lost worker is started again."""

import logging
import signal
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import shiboken6
from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from halftone.contract.messages import AnyCommand, AnyEvent, Quit
from halftone.session import ports
from halftone.session.workers.process import Launch, WorkerSupervisor, command

_LEAVE_MS: Final = 3000
_KILL_MS: Final = 3000
_WATCH_MS: Final = 250
_TURN_SECONDS: Final = 0.01

log = logging.getLogger(__name__)


class Link(QObject, ports.WorkerLink):
    """A link whose events come as a signal."""

    arrived = Signal(object, object)


class WorkerLink(Link):
    """One worker process at a time. options, environment, grace: see `WorkerSupervisor`."""

    def __init__(
        self,
        *options: str,
        environment: dict[str, str] | None = None,
        grace: float | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._worker = WorkerSupervisor(*options, environment=environment, grace=grace)
        self.protocol = self._worker.protocol
        self._process: QProcess | None = None
        self._stopping = False
        self._events: deque[tuple[AnyEvent, bytes]] = deque()
        self._rest = QTimer(self, singleShot=True, interval=0)
        self._rest.timeout.connect(self._pass_on)
        self._watch = QTimer(self)
        self._watch.setInterval(_WATCH_MS)
        self._watch.timeout.connect(self._kill_if_overdue)

    @property
    def gone(self) -> bool:
        return self._process is None

    @property
    def hopeless(self) -> bool:
        return self._process is None and not self.protocol.may_restart

    @property
    def pid(self) -> int | None:
        """Process id of the worker, None without one."""
        return None if self._process is None else int(self._process.processId())

    def start(self) -> None:
        """Start a worker and send it what waits."""
        if self._process is not None:
            return
        self._stopping = False
        launch = self._worker.launch()
        process = _process(launch, self)
        if launch.log is None:
            process.setStandardErrorFile(QProcess.nullDevice())
        else:
            process.setStandardErrorFile(str(launch.log), QProcess.OpenModeFlag.Append)
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._finished)
        process.errorOccurred.connect(self._error)
        self._process = process
        hello = self.protocol.start()
        process.start()
        if self._process is process:  # a start that fails at once has already made way for the next
            self._write(hello)

    def restart(self) -> None:
        self.protocol.forgive()
        if self._process is None:
            self.start()
        elif self.protocol.ready is None:
            self._process.kill()  # its end starts the next

    def send(self, command: AnyCommand) -> None:
        """Send a command; while no worker runs, a job waits for the next one."""
        self._write(self.protocol.command(command))
        if self.protocol.deadline is not None:
            self._watch.start()

    def stop(self) -> None:
        """Ask the worker to leave, kill it if it does not, and stay down."""
        self._stopping = True
        self._watch.stop()
        process = self._process
        if process is None:
            return
        busy = bool(self.protocol.open_jobs)
        self.send(Quit())
        process.closeWriteChannel()
        if busy or not process.waitForFinished(_LEAVE_MS):
            process.kill()
            process.waitForFinished(_KILL_MS)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        if self._process is not None and data:
            self._process.write(data)

    def _read(self) -> None:
        if self._process is None:
            return
        self._events.extend(self.protocol.feed(bytes(self._process.readAllStandardOutput().data())))
        if self.protocol.broken is not None:
            self._process.kill()
        self._pass_on()

    def _pass_on(self) -> None:
        """Pass on what came, in turns of the event loop: a hundred events at once would make the window wait."""
        end = time.monotonic() + _TURN_SECONDS
        while self._events:
            self.arrived.emit(*self._events.popleft())
            if time.monotonic() >= end:
                self._rest.start()
                return

    def _pass_on_all(self) -> None:
        self._rest.stop()
        while self._events:
            self.arrived.emit(*self._events.popleft())

    def _kill_if_overdue(self) -> None:
        if self.protocol.deadline is None:
            self._watch.stop()
        elif self._process is not None and self.protocol.overdue():
            log.warning("the worker did not stop in time; killing it")
            self._process.kill()

    def _error(self, error: QProcess.ProcessError) -> None:
        """Only a failed start ends without `finished`."""
        if error == QProcess.ProcessError.FailedToStart and self._process is not None:
            self._bury(None, None, self._process.errorString())

    def _finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._read()
        if status == QProcess.ExitStatus.CrashExit:
            self._bury(None, _signal_name(code))
        else:
            self._bury(code, None)

    def _bury(self, code: int | None, signal_name: str | None, details: str = "") -> None:
        self._pass_on_all()
        process, self._process = self._process, None
        if process is None:
            return
        process.deleteLater()
        owed = self._worker.ended(code, signal_name, details)
        may_restart = self.protocol.may_restart and not self._stopping
        for event in owed:
            self.arrived.emit(event, b"")
        if may_restart:
            self.start()


class HalftoneProcesses(QObject):
    """Runs `halftone …` in processes of their own: `ports.Commands`."""

    def start(
        self, *arguments: str, ended: Callable[[ports.Finished], object], heard: Callable[[bytes], object] | None = None
    ) -> Callable[[], object]:
        process = _process(command(*arguments), self)
        errors = bytearray()
        over = False

        def read() -> None:
            errors.extend(process.readAllStandardError().data())
            if heard is not None and not over:
                heard(bytes(errors))

        def end(code: int) -> None:
            nonlocal over
            process.deleteLater()
            if over:
                return
            read()
            over = True
            ended(ports.Finished(code, bytes(process.readAllStandardOutput().data()), bytes(errors)))

        def kill() -> None:
            nonlocal over
            over = True
            if shiboken6.isValid(process):
                process.kill()

        def fail(error: QProcess.ProcessError) -> None:
            if error != QProcess.ProcessError.FailedToStart:
                end(-1)
                return
            errors.extend(process.errorString().encode())
            # It can come while `start` runs, whose caller does not yet know what it started.
            QTimer.singleShot(0, process, lambda: end(-1))

        process.finished.connect(lambda code, _status: end(code))
        process.errorOccurred.connect(fail)
        process.readyReadStandardError.connect(read)
        process.start()
        return kill

    def finish(self) -> None:
        for process in self.findChildren(QProcess):
            process.waitForFinished(_KILL_MS)


def _process(launch: Launch, owner: QObject) -> QProcess:
    process, environment = QProcess(owner), QProcessEnvironment()
    for name, value in launch.environment.items():
        environment.insert(name, value)
    process.setProcessEnvironment(environment)
    process.setProgram(launch.program)
    process.setArguments(launch.arguments)
    return process


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
