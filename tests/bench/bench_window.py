"""How soon the window is there, against a bare PySide6 window; and how long the event loop is ever kept waiting.

    python tests/bench/bench_window.py [--runs 9] [--model pocket]

Ratios within one run; medians. Start: from the start of the process to the first paint. Event loop: a 5 ms timer while a
picture is made, with a thousand in the history; the longest gap by the clock, and the most processor time that one turn took.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

APP = Path(__file__).parents[2] / "app"

FIRST_PAINT = """
import os, sys, time
from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication

class Watch(QObject):
    def __init__(self, app, then):
        super().__init__(app)
        self.then = then
        app.installEventFilter(self)

    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint:
            QApplication.instance().removeEventFilter(self)
            QTimer.singleShot(0, self.tell)
        return False

    def tell(self):
        print(time.monotonic(), time.process_time(), flush=True)
        self.then()

def leave():
    from halftone.settings.places import window_mark
    window_mark().unlink(missing_ok=True)  # as a window that is closed
    os._exit(0)
"""

BARE = (
    FIRST_PAINT
    + """
def leave():
    os._exit(0)

from PySide6.QtWidgets import QLabel, QMainWindow
app = QApplication(sys.argv)
window = QMainWindow()
window.setCentralWidget(QLabel("Halftone"))
window.resize(1440, 900)
watch = Watch(app, leave)
window.show()
app.exec()
"""
)

HALFTONE = (
    FIRST_PAINT
    + """
from halftone.gui import main
real = main.make_app
def watched(argv):
    app = real(argv)
    app.watch = Watch(app, until_ready)
    return app
def until_ready():
    opening = next(w.findChild(main.Opening) for w in QApplication.topLevelWidgets() if w.findChild(main.Opening))
    opening.ready.connect(lambda: Watch(QApplication.instance(), leave))
main.make_app = watched
main.main([])
"""
)

LOOP = """
import sys, time
from PySide6.QtCore import QTimer
from halftone.contract.messages import JobEnded, PictureReady
from halftone.contract.request import PictureRequest
from halftone.gui import main, theme
from halftone.gui.controller import Controller
from halftone.gui.process import WorkerLink
from halftone.gui.shell.window import MainWindow
from halftone.gui.shell.workspace import Workspace
from halftone.settings import store
import msgspec
app = main.make_app(sys.argv)
main.Collector(app)
theme.set_theme("dark")
settings = msgspec.structs.replace(store.load(), first_run_done=True)
controller = Controller(WorkerLink(), settings)
window = MainWindow()
for _ in Workspace(window, controller).move_in():
    pass
main.keep()
window.show()
gaps, turns, state = [], [], {"on": False, "last": 0.0, "cpu": 0.0}
def beat():
    now, cpu = time.perf_counter(), time.thread_time()
    if state["on"]:
        gaps.append(now - state["last"])
        turns.append(cpu - state["cpu"])
    state["last"], state["cpu"] = now, cpu
timer = QTimer()
timer.setInterval(5)
timer.timeout.connect(beat)
timer.start()
def seen(event, blob):
    if isinstance(event, PictureReady):
        QTimer.singleShot(1000, finish)
    if isinstance(event, JobEnded) and event.outcome == "failed":
        print("failed", event.error, flush=True)
        app.exit(1)
def finish():
    print(max(gaps), statistics_p99(gaps), max(turns), len(gaps), flush=True)
    controller.session.stop()
    app.exit(0)
def statistics_p99(values):
    return sorted(values)[int(len(values) * 0.99)]
controller.worker_event.connect(seen)
def go():
    state["on"] = True
    controller.session.queue.generate(PictureRequest(prompt="a red sun over green hills", model=sys.argv[1], seed=7))
controller.session.start()
QTimer.singleShot(1500, go)
sys.exit(app.exec())
"""


FILL = """
import io, sys
from pathlib import Path
from PIL import Image
from tests.helpers import samples
from halftone.contract.request import PictureRequest
from halftone.gallery.history import History
file = io.BytesIO()
Image.linear_gradient("L").convert("RGB").resize((160, 160)).save(file, "PNG")
with History() as history:
    for number in range(int(sys.argv[1])):
        path = Path(sys.argv[2], f"{number}.png")
        path.write_bytes(file.getvalue())
        facts = samples.picture_facts(str(path), seed=number)
        history.add(facts, PictureRequest(prompt=f"a red sun over hill {number}"), file.getvalue())
"""
PICTURES = 1000


def environment(data: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HALFTONE_")}
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(APP), str(APP.parent)]),
        "HALFTONE_DATA": data,
        "QT_QPA_PLATFORM": os.environ.get("QT_QPA_PLATFORM", "offscreen"),
    }


def seconds_to_paint(code: str, data: str) -> tuple[float, ...]:
    """From the start of the process to each time that it tells: by the clock, and of the processor, in turns."""
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], env=environment(data), capture_output=True, text=True, check=True)
    told = [float(figure) for figure in done.stdout.split()]
    return tuple(figure - start if place % 2 == 0 else figure for place, figure in enumerate(told))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--model", default="pocket")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        told = [seconds_to_paint(BARE, data) + seconds_to_paint(HALFTONE, data) for _ in range(arguments.runs + 1)][1:]
        columns = [statistics.median(column) for column in zip(*told, strict=True)]
        for what, (bare, ours, ready) in (("by the clock", columns[::2]), ("processor time", columns[1::2])):
            print(
                f"window visible, {what}: bare {bare:.3f} s, Halftone {ours:.3f} s, ratio {ours / bare:.2f} (goal 1.3); "
                f"page ready to type in {ready:.3f} s, ratio {ready / bare:.2f}"
            )
        subprocess.run([sys.executable, "-c", FILL, str(PICTURES), data], env=environment(data), check=True)
        done = subprocess.run(
            [sys.executable, "-c", LOOP, arguments.model], env=environment(data), capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"the loop run failed: {done.stdout}{done.stderr[-2000:]}")
        worst, p99, busiest, count = done.stdout.split()[-4:]
        print(
            f"event loop during a picture, {PICTURES} in the history, {count} turns: longest gap {float(worst) * 1000:.1f} ms, "
            f"99 % below {float(p99) * 1000:.1f} ms, "
            f"most processor time in one turn {float(busiest) * 1000:.1f} ms (goal 50)"
        )


if __name__ == "__main__":
    main()
