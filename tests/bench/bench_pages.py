"""Processor time of the window's own work: a page opened for the first time, another theme, another language, a letter typed, a
wheel's notch over the form and over the history. 2 cores, no screen; the worker is played, the widgets are real.

    QT_QPA_PLATFORM=offscreen python tests/bench/bench_pages.py [--runs 7] [--pictures 24]

Milliseconds of this process (medians) and, so that two machines can be compared, their ratio to a bare window of 500 labels
shown in the same run. Theme and language change with Create, Health and Settings open.
"""

# ruff: noqa: E402 - the path must be set before Halftone is imported

import argparse
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "app")]

import msgspec
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QGridLayout, QLabel, QWidget
from tests.bench.common import machine
from tests.gui.shots import Stage

from halftone.gui.controller import PageName

GOALS: Final = {"theme": 100.0, "language": 100.0, "first opening": 150.0}
PAGES: Final[tuple[PageName, ...]] = ("health", "device", "train", "settings")


def spent(action: Callable[[], object]) -> float:
    """Milliseconds of the processor until nothing is left to do for the event loop."""
    begun = time.process_time()
    action()
    for _ in range(20):
        QApplication.processEvents()
    return (time.process_time() - begun) * 1e3


def bare() -> float:
    window = QWidget()
    layout = QGridLayout(window)
    for number in range(500):
        layout.addWidget(QLabel(str(number)), number // 20, number % 20)
    taken = spent(window.show)
    window.close()
    window.deleteLater()
    return taken


def turned(widget: QWidget) -> None:
    """Turn the wheel by one notch in the middle of a widget."""
    middle = QPointF(widget.rect().center())
    event = QWheelEvent(
        middle,
        QPointF(widget.mapToGlobal(middle.toPoint())),
        QPoint(0, -60),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(widget, event)


def measure(found: dict[str, list[float]], pictures: int) -> None:
    stage = Stage()
    stage.history(pictures)
    controller = stage.controller
    for page in ("health", "settings"):
        found[f"first opening: {page}"].append(spent(lambda page=page: controller.go(page)))
    controller.go("create")
    stage.settle()
    prompt = stage.page.form.prompt
    prompt.setFocus()
    found["a letter typed"].append(spent(lambda: QTest.keyClicks(prompt, "a lighthouse at dusk")) / 20)
    area = stage.page.form.area.viewport()
    found["a notch over the form"].append(spent(lambda: turned(area)))
    for theme in ("light", "dark"):
        changed = msgspec.structs.replace(controller.settings, theme=theme)
        found["theme"].append(spent(lambda changed=changed: controller.session.settings.update(changed)))
    for language in ("zh_CN", "en"):
        changed = msgspec.structs.replace(controller.settings, language=language)
        found["language"].append(spent(lambda changed=changed: controller.session.settings.update(changed)))
    for page in ("device", "train"):
        found[f"first opening: {page}"].append(spent(lambda page=page: controller.go(page)))
    for page in PAGES:
        controller.go(page)  # new since the language changed
    for page in PAGES:
        found[f"opening again: {page}"].append(spent(lambda page=page: controller.go(page)))
    found["500 bare labels shown"].append(bare())
    stage.window.close()
    controller.background.deleteLater()
    stage.window.deleteLater()
    stage.settle(20)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--pictures", type=int, default=24)
    options = parser.parse_args()
    cast("QApplication", QApplication.instance() or QApplication([])).setStyle("Fusion")
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(options.runs):
        measure(found, options.pictures)
    unit = statistics.median(found["500 bare labels shown"])
    met = True
    for what, values in found.items():
        # the first opening is the first one: later ones of the process find the modules imported
        taken = values[0] if what.startswith("first opening") else statistics.median(values)
        goal = next((goal for name, goal in GOALS.items() if what.startswith(name)), None)
        met &= goal is None or taken <= goal
        sys.stdout.write(
            f"{what:24} {taken:8.1f} ms  {taken / unit:6.2f} of bare{'' if goal is None else f'  (goal {goal:.0f} ms)'}\n"
        )
    sys.stdout.write(f"{machine()}\n")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
