"""A worker or a command of Halftone as a process of its own: what is to be started, and what is owed once a worker has ended."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from halftone.client.command import worker_command, worker_environment
from halftone.client.logs import last_lines, worker_log
from halftone.client.protocol import WorkerProtocol
from halftone.contract.messages import AnyEvent
from halftone.settings.streams import NO_LOG


class Launch(NamedTuple):
    """log: the file that stderr is appended to, None for nowhere."""

    program: str
    arguments: list[str]
    environment: dict[str, str]
    log: Path | None = None


def command(*arguments: str) -> Launch:
    """Return what runs `halftone …`."""
    return Launch(sys.executable, ["-P", "-m", "halftone", *arguments], worker_environment())


class WorkerSupervisor:
    """One worker process after another, whoever runs them.

    options: of the worker, such as `--engine`; environment: base of the worker's environment, None for that of this process;
    grace: seconds that a cancelled job may take to end before the worker is killed, None for the usual ones.
    """

    def __init__(self, *options: str, environment: Mapping[str, str] | None = None, grace: float | None = None) -> None:
        self.protocol = WorkerProtocol() if grace is None else WorkerProtocol(grace=grace)
        self._options = options
        self._environment = environment
        self._log: Path | None = None

    def launch(self) -> Launch:
        """Return the next worker to start; `protocol.start` gives the first bytes for it."""
        self._log = worker_log()
        program, *arguments = worker_command(self._log or NO_LOG, "--give-way", *self._options)
        return Launch(program, arguments, worker_environment(self._environment), self._log)

    def ended(self, code: int | None, signal: str | None, details: str = "") -> list[AnyEvent]:
        """Return the events that are owed once the process is gone. details: left out, the end of its log."""
        end = details or ("" if self._log is None else last_lines(self._log))
        return self.protocol.died(code, signal, str(self._log or NO_LOG), end)
