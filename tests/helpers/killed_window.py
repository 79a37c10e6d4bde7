"""A window that queues jobs once and continues them after it was killed: `python -m tests.helpers.killed_window JOBS [engine]`.

It makes the file `queued` in the data folder once the jobs are on the disk, and ends when all of them are done.
"""

import collections
import sys
from pathlib import Path

from msgspec.structs import replace

from halftone.contract.request import PictureRequest
from halftone.gui import main as gui_main
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.process import WorkerLink
from halftone.gui.shell.window import MainWindow
from halftone.gui.shell.workspace import Workspace
from halftone.session.state import Notice
from halftone.settings import store
from halftone.settings.places import data_dir
from halftone.settings.slots import take_slot

LOOK_MS = 20


def batch_of(job: int) -> int:
    return 1 + job % 3


def expected_seeds(jobs: int) -> list[int]:
    """The seed of every picture that is to be made."""
    return [100 * job + index for job in range(jobs) for index in range(batch_of(job))]


def _requests(jobs: int) -> list[PictureRequest]:
    common = PictureRequest(prompt="a red sun", steps=2, width=64, height=64)
    return [replace(common, seed=100 * job, batch=batch_of(job)) for job in range(jobs)]


def main() -> int:
    from PySide6.QtCore import QTimer

    jobs, engine = int(sys.argv[1]), sys.argv[2:]
    app = gui_main.make_app(["halftone"])
    gui_main.start_log()
    slot = take_slot()
    assert slot is not None
    theme.begin("dark")
    settings = replace(store.load(), first_run_done=True)
    link = WorkerLink("--alive", str(slot.worker_lock), *(["--engine", engine[0]] if engine else []))
    controller = Controller(link, settings, slot=slot)
    window = MainWindow()
    collections.deque(Workspace(window, controller).move_in(), maxlen=0)
    window.show()
    queued = data_dir() / "queued"
    session = controller.session

    def continue_left(notice: Notice) -> None:
        if notice.kind == "queue-left":
            session.kept.go_on()

    def look() -> None:
        state = controller.state
        if controller.background.busy or state.jobs or state.left.jobs or slot.queue():
            if not queued.exists() and state.jobs and slot.queue() and not controller.background.busy:
                queued.touch()
            return
        if not queued.exists():
            for request in _requests(jobs):
                session.queue.generate(request)
            return
        window.close()
        app.exit(0)

    controller.noticed.connect(continue_left)
    timer = QTimer(app)
    timer.timeout.connect(look)
    session.start()
    timer.start(LOOK_MS)
    code = app.exec()
    session.stop()
    return code


def worker_pids(data: Path) -> list[int]:
    """Of the workers whose locks lie there, the newest last."""
    return sorted(int(path.name.rpartition("-")[2]) for path in (data / "data" / "windows").glob("*.worker-*"))


if __name__ == "__main__":
    raise SystemExit(main())
