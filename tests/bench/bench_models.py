"""Milliseconds of the Models page with many models, and the longest wait of the window's event loop. No screen.

    QT_QPA_PLATFORM=offscreen python tests/bench/bench_models.py [--entries 10000]

wait: the longest time between two turns of the event loop while it happens; work: the longest that the window's thread
computed between two turns, which other work on the machine does not lengthen. frame: one paint while the cards are scrolled from
one end to the other (median and slowest), of the processor, as the machine may have other work.
"""

# ruff: noqa: E402 - the path must be set before Halftone is imported

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "app")]

from PySide6.QtCore import QThreadPool, QTimer
from PySide6.QtWidgets import QApplication
from tests.bench.common import machine
from tests.gui.shots import Stage
from tests.gui.shots_models import page as page_of

from halftone.gui.garbage import Collector
from halftone.gui.main import make_app
from halftone.gui.models.models_page import ModelsPage
from halftone.library.families.recognise import Kind
from halftone.library.index.descriptions import Description
from halftone.library.index.entries import Entry
from halftone.library.index.marks import Mark
from halftone.session.events import Replaced
from halftone.session.models.watched import Library, Watched

_KINDS: Final[tuple[tuple[Kind, str], ...]] = (
    ("checkpoint", "SDXL"),
    ("LoRA", "SDXL"),
    ("LoRA", "Stable Diffusion 1.x"),
    ("checkpoint", "FLUX"),
)
_NOTES: Final = "Trained on pictures of cut paper. Works best with plain backgrounds and a weight of 0.8. " * 6


def library(count: int) -> Library:
    entries = tuple(
        Entry(
            path=f"/models/{number % 90}/model {number * 7919 % count}.safetensors",
            name=f"model {number * 7919 % count}",
            size=number * 1_000_003,
            fingerprint=str(number),
            kind=_KINDS[number % 4][0],
            family=_KINDS[number % 4][1],
            dtype="float16",
            description=Description(triggers=("paper", "cut"), notes=_NOTES),
        )
        for number in range(count)
    )
    marks = {entry.path: Mark(used=float(number)) for number, entry in enumerate(entries[::7])}
    return Library(entries=entries, marks=marks, watched=(Watched(root="/models", files=count),), read=True)


class Loop:
    """Measures how long the event loop is away."""

    def __init__(self) -> None:
        self._timer = QTimer()
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._turn)
        self._last = (0.0, 0.0)
        self.longest = self.work = 0.0

    def _turn(self) -> None:
        now = (time.perf_counter(), time.thread_time())
        self.longest = max(self.longest, now[0] - self._last[0])
        self.work = max(self.work, now[1] - self._last[1])
        self._last = now

    def during(self, begin: Callable[[], object], until: Callable[[], bool]) -> tuple[float, float, float]:
        """Milliseconds in all, of the longest wait and of the longest work."""
        self.longest, self.work, self._last = 0.0, 0.0, (time.perf_counter(), time.thread_time())
        self._timer.start()
        started = time.perf_counter()
        begin()
        self._turn()
        while not until():
            QApplication.processEvents()
        for _ in range(20):
            QApplication.processEvents()
        self._timer.stop()
        return (time.perf_counter() - started) * 1e3, self.longest * 1e3, self.work * 1e3


def told(name: str, found: tuple[float, float, float]) -> None:
    sys.stdout.write(f"{name:26} {found[0]:7.1f} ms  wait {found[1]:5.1f} ms  work {found[2]:5.1f} ms\n")


def scrolled(page: ModelsPage) -> None:
    bar, frames = page.grid.verticalScrollBar(), list[float]()
    for part in range(300):
        begun = time.process_time()
        bar.setValue(bar.maximum() * part // 300)
        page.grid.viewport().repaint()
        frames.append((time.process_time() - begun) * 1e3)
        QApplication.processEvents()
    sys.stdout.write(f"{'scroll':26} frame {statistics.median(frames):5.2f} ms ({max(frames):.1f})\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000)
    count = parser.parse_args().entries
    app = make_app(sys.argv[:1])
    Collector(app)
    stage = Stage()
    page, loop, known = page_of(stage), Loop(), library(count)
    rows = page.rows

    def settled() -> bool:
        return not rows.busy

    take = stage.controller.take
    told("first listing", loop.during(lambda: take(Replaced(part=known)), settled))
    told("another shelf", loop.during(lambda: page.choose("place", "LoRA"), settled))
    told("search", loop.during(lambda: page.search.setText("77 sdxl"), lambda: rows.query.words == "77 sdxl" and settled()))
    told("search cleared", loop.during(page.clear.click, lambda: not rows.query.words and settled()))
    told("sort by name", loop.during(lambda: page.sort.setCurrentIndex(1), settled))
    told("sort by size", loop.during(lambda: page.sort.setCurrentIndex(3), settled))
    marked = {**known.marks, known.entries[5].path: Mark(favourite=True)}
    more = Library(entries=known.entries, marks=marked, watched=known.watched, read=True)
    told("a favourite", loop.during(lambda: take(Replaced(part=more)), settled))
    grown = Library(entries=known.entries[:-100], marks=marked, watched=known.watched, read=True)
    told("100 models gone", loop.during(lambda: take(Replaced(part=grown)), settled))
    told("table", loop.during(page.as_table.click, settled))
    told("cards", loop.during(page.as_cards.click, settled))
    told("resize", loop.during(lambda: stage.window.resize(1100, 800), settled))
    scrolled(page)
    QThreadPool.globalInstance().waitForDone()
    sys.stdout.write(f"{count} entries. {machine()}\n")
    app.quit()


if __name__ == "__main__":
    main()
