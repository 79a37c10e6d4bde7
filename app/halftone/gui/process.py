"""The worker over QProcess: bytes go through the client's protocol, events come out; a lost worker is started again."""

import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import shiboken6
from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from halftone.client.command import worker_command, worker_environment
from halftone.client.logs import last_lines, worker_log
from halftone.client.protocol import GRACE_SECONDS, WorkerProtocol
from halftone.contract.messages import AnyCommand, Quit
from halftone.session import ports
from halftone.settings.streams import NO_LOG

_LEAVE_MS: Final = 3000
_KILL_MS: Final = 3000
_WATCH_MS: Final = 250

log = logging.getLogger(__name__)


class Link(QObject, ports.WorkerLink):
    """A link whose events come as a signal."""

    arrived = Signal(object, object)


class WorkerLink(Link):
    """One worker process at a time.

    options: of the worker, such as `--engine`; environment: base of the worker's environment, this process' own if not given;
    grace: seconds that a cancelled job may take to end before the worker is killed.
    """

    def __init__(
        self,
        *options: str,
        environment: dict[str, str] | None = None,
        grace: float = GRACE_SECONDS,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.protocol = WorkerProtocol(grace=grace)
        self._options = options
        self._environment = environment
        self._log: Path | None = None
        self._process: QProcess | None = None
        self._stopping = False
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
        self._log = worker_log()
        program, *arguments = worker_command(self._log or NO_LOG, "--give-way", *self._options)
        process = QProcess(self)
        process.setProcessEnvironment(to_qt(worker_environment(self._environment)))
        if self._log is None:
            process.setStandardErrorFile(QProcess.nullDevice())
        else:
            process.setStandardErrorFile(str(self._log), QProcess.OpenModeFlag.Append)
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._finished)
        process.errorOccurred.connect(self._error)
        self._process = process
        process.start(program, arguments)
        self._write(self.protocol.start())

    def restart(self) -> None:
        self.protocol.forgive()
        self.start()

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
        for event, blob in self.protocol.feed(bytes(self._process.readAllStandardOutput().data())):
            self.arrived.emit(event, blob)
        if self.protocol.broken is not None:
            self._process.kill()

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
        process, self._process = self._process, None
        if process is None:
            return
        process.deleteLater()
        end = details or ("" if self._log is None else last_lines(self._log))
        owed = self.protocol.died(code, signal_name, str(self._log or NO_LOG), end)
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
        process = QProcess(self)
        process.setProcessEnvironment(to_qt(worker_environment()))
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

        process.finished.connect(lambda code, _status: end(code))
        process.errorOccurred.connect(lambda _error: end(-1))
        process.readyReadStandardError.connect(read)
        process.start(sys.executable, ["-P", "-m", "halftone", *arguments])
        return kill

    def finish(self) -> None:
        for process in self.findChildren(QProcess):
            process.waitForFinished(_KILL_MS)


def to_qt(values: dict[str, str]) -> QProcessEnvironment:
    """An environment as Qt wants it."""
    environment = QProcessEnvironment()
    for name, value in values.items():
        environment.insert(name, value)
    return environment


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
