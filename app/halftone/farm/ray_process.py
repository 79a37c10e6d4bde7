"""Ray's own processes on this machine. They end with the process that started them, however that ends."""

import contextlib
import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec
import psutil

from halftone.client.command import worker_environment
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.farm.tokens import environment
from halftone.settings.atomic import write_atomically

RESOURCE: Final = "halftone"
"""Ray's name for a place where one node of the farm may run."""
THREADS: Final = "HALFTONE_FARM_OMP_NUM_THREADS"
"""OMP_NUM_THREADS as the user set it: Ray sets its own in every process that it starts."""
FOLDER: Final = "halftone-farm-"
"""How the names of the folders with Ray's sockets begin."""
_BEGIN: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes a command that gets a signal when its parent ends (PR_SET_PDEATHSIG of include/uapi/linux/prctl.h is 1)."""
_STORE_BYTES: Final = 200_000_000
"""Ray's memory for results that are on their way."""
_LEAVE_SECONDS: Final = 40.0
_UP: Final = b"Ray runtime started"
"""What it prints then."""
_LAST_CHARACTERS: Final = 800
_OPTIONS: Final = (
    "--num-cpus=1",
    "--num-gpus=0",
    f"--object-store-memory={_STORE_BYTES}",
    "--disable-usage-stats",
    "--block",
    "--min-worker-port=0",
    "--max-worker-port=0",
    "--dashboard-agent-listen-port=0",
    "--dashboard-agent-grpc-port=0",
    "--metrics-export-port=0",
    "--runtime-env-agent-port=0",
)
"""Any ports, as several nodes may run on one machine."""

log = logging.getLogger(__name__)


def check_ray() -> Path:
    """Ray's command line. Raises HalftoneError farm-no-ray where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:  # not imported yet: it reads its environment when it is
        raise HalftoneError("farm-no-ray", detail=Words("there is no module named {0}", ("ray",)))
    command = Path(sys.executable).with_name("ray")
    if not command.exists():
        raise HalftoneError("farm-no-ray", detail=Words("{0} is missing", (str(command),)))
    return command


def _ending_with_this(command: list[str]) -> list[str]:
    """A command that is asked to end when the process that starts it is killed; only Linux knows how."""
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-c", _BEGIN, str(os.getpid()), *command]


class FormerRay:
    """Ray of a head that ended without ending it. note: the file that names its folder, which each of its processes has among
    its arguments.
    """

    def __init__(self, note: Path) -> None:
        self._note = note

    def keep(self, folder: Path) -> None:
        write_atomically(self._note, str(folder).encode())

    def forget(self) -> None:
        self._note.unlink(missing_ok=True)

    def end(self) -> None:
        """End what is left of it. Call it only while no head of this user runs."""
        try:
            folder = self._note.read_text()
        except (OSError, UnicodeDecodeError):
            return
        if Path(folder).name.startswith(FOLDER):
            found = [one for one in psutil.process_iter(["cmdline"]) if any(folder in word for word in one.info["cmdline"] or ())]
            for one in found:
                log.info("ending process %s of a head that ended", one.pid)
                with contextlib.suppress(psutil.Error):
                    one.kill()
            psutil.wait_procs(found, _LEAVE_SECONDS)
            shutil.rmtree(folder, ignore_errors=True)
        self.forget()


class RayProcess:
    """`ray start --block` in a process of its own, which takes all that it started with it. log: what it prints."""

    def __init__(self, arguments: tuple[str, ...], token: Path, *, loopback: bool, works: bool) -> None:
        command = check_ray()
        descriptor, log_file = tempfile.mkstemp(prefix="halftone-farm-", suffix=".log")
        self.log = Path(log_file)
        resources = ("--resources", msgspec.json.encode({RESOURCE: 1}).decode()) if works else ()
        base = worker_environment(environment(token, loopback=loopback))
        base[THREADS] = os.environ.get("OMP_NUM_THREADS", "")
        with os.fdopen(descriptor, "wb") as output:
            self._process = subprocess.Popen(
                _ending_with_this([str(command), "start", *arguments, *_OPTIONS, *resources]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=base,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        return self._process.wait()

    def said(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-_LAST_CHARACTERS:].strip()

    def is_up(self) -> bool:
        """Whether it came up, and found its head."""
        return _UP in self.log.read_bytes()

    def end(self) -> None:
        """Ask it to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def leave(self, *, keep_log: bool = False) -> None:
        """End it with all its processes. keep_log: an error names it."""
        self.end()
        try:
            self._process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("Ray did not leave in time; killing it")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # its own session: only what it started
        self._process.wait()
        if not keep_log:
            self.log.unlink(missing_ok=True)
