"""What the Gallery page costs with a hundred thousand pictures. No screen; the database is real, and so are the thumbnails in it.

    QT_QPA_PLATFORM=offscreen python tests/bench/bench_gallery.py [--pictures 100000]

open: from the click on the tab until the first pictures are painted, and until all are listed (the page is made too); search:
from the query until its first rows are painted, for a word in a few pictures and for one in many (the fastest of five); frame:
one paint with the events that came meanwhile, while the page is scrolled by the wheel, and by its bar from one end to the other
(median, 99th percentile); memory: what the page added. By the clock, as the work is shared with other threads; frames
by the processor time of the window's thread, as the machine may have other work.
"""

# ruff: noqa: E402 - the path must be set before Halftone is imported

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "app")]

import psutil
from PySide6.QtCore import QThreadPool
from PySide6.QtWidgets import QApplication
from tests.bench.common import machine
from tests.gui.shots import Stage, landscape, png

from halftone.gallery.catalogue import Catalogue
from halftone.gallery.facts import Query, Shown
from halftone.gui import background
from halftone.gui.gallery.gallery_page import GalleryPage
from halftone.gui.main import make_app

OPEN, SEARCH, FRAME, MEMORY = 500.0, 50.0, 16.0, 300.0
_PATIENCE = 30.0
"""Seconds that work in the background may take to end."""
_SHAPES = ((1, 1), (1, 1), (3, 2), (2, 3), (16, 9))


def pictures(count: int) -> list[str]:
    """Fill the database. Returns three words: in few pictures, in one of twenty, and in two of three."""
    dice = random.Random(7)
    vocabulary = ["".join(dice.choice("bcdfgklmnprstvaeiou") for _ in range(dice.randint(4, 9))) for _ in range(3000)]
    small = [png(landscape(256 * wide // max(wide, high), 256 * high // max(wide, high), seed)) for seed, (wide, high) in
             enumerate(_SHAPES * 8)]  # fmt: skip
    now = time.time()

    def one(number: int) -> Shown:
        wide, high = _SHAPES[number % len(_SHAPES)]
        words = dice.choices(vocabulary, k=25)
        words += [word for word, share in (("lighthouse", 0.05), ("photograph", 0.66)) if dice.random() < share]
        return Shown(
            path=f"/pictures/{number // 1000}/{number}.png", made=now - 700 * number, width=wide * 512, height=high * 512,
            model=f"model {number % 12}", text=" ".join(words), recovered=number % 50 == 0,
            thumbnail=small[number % len(small)],
        )  # fmt: skip

    with Catalogue() as catalogue:
        for first in range(0, count, 5000):
            catalogue.add(one(number) for number in range(first, min(count, first + 5000)))
    return [vocabulary[0], "lighthouse", "photograph"]


def until(condition: Callable[[], bool]) -> float:
    """Milliseconds until it holds, with the events that come."""
    begun = time.perf_counter()
    while not condition():
        QApplication.processEvents()
        if time.perf_counter() - begun > 60:
            raise TimeoutError
    return (time.perf_counter() - begun) * 1e3


def frames(page: GalleryPage, places: list[int]) -> list[float]:
    found: list[float] = []
    for place in places:
        begun = time.thread_time()
        page.grid.verticalScrollBar().setValue(place)
        QApplication.processEvents()
        found.append((time.thread_time() - begun) * 1e3)
        time.sleep(0.004)  # the other threads have their turn, as on a screen of 60 Hz
    return found


def report(name: str, times: list[float]) -> float:
    late = statistics.quantiles(times, n=100)[98]
    sys.stdout.write(f"{name:28} {statistics.median(times):6.1f} ms, 99 %: {late:.1f} ms, slowest {max(times):.1f} ms\n")
    return late


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=100_000)
    count = parser.parse_args().pictures
    app = make_app(sys.argv[:1])
    stage = Stage()
    few, some, many = pictures(count)
    stage.settle()
    before = psutil.Process().memory_info().rss
    begun = time.perf_counter()
    stage.controller.go("gallery")
    page = cast("GalleryPage", stage.workspace.page("gallery"))
    until(lambda: len(page.grid.rows) > 0)
    page.grid.viewport().repaint()
    first = (time.perf_counter() - begun) * 1e3
    until(lambda: len(page.grid.rows) == count)
    opened = (time.perf_counter() - begun) * 1e3
    until(lambda: not page.grid.thumbnails.busy)
    thumbnails = (time.perf_counter() - begun) * 1e3
    sys.stdout.write(f"open: first pictures {first:.0f} ms, all {count} {opened:.0f} ms, thumbnails {thumbnails:.0f} ms\n")

    worst = 0.0
    for name, words in (("few", few), ("one in twenty", some), ("two in three", many), ("everything", "")):
        times: list[float] = []
        for _ in range(5):
            stage.controller.session.gallery.show(Query(model="model 1"))
            until(lambda: not stage.controller.background.busy)
            rows = page.grid.rows
            begun = time.perf_counter()
            stage.controller.session.gallery.show(Query(words=words))
            until(lambda rows=rows: page.grid.rows is not rows)
            page.grid.viewport().repaint()
            times.append((time.perf_counter() - begun) * 1e3)
        until(lambda: not stage.controller.background.busy)
        sys.stdout.write(f"search {name:14} {min(times):6.1f} ms, {len(page.grid.rows)} pictures\n")
        worst = max(worst, min(times))

    until(lambda: not stage.controller.background.busy)
    bar = page.grid.verticalScrollBar()
    late = report("frame, by the wheel", frames(page, [60 * number for number in range(600)]))
    late = max(late, report("frame, from end to end", frames(page, [bar.maximum() * number // 300 for number in range(300)])))
    QThreadPool.globalInstance().waitForDone()
    QApplication.processEvents()
    memory = (psutil.Process().memory_info().rss - before) / 1e6
    sys.stdout.write(f"memory {memory:+.0f} MB\n{machine()}\n")
    goals = (("open", first, OPEN), ("search", worst, SEARCH), ("frame", late, FRAME), ("memory", memory, MEMORY))
    for name, value, goal in goals:
        sys.stdout.write(f"{name:7} {value:7.1f} of {goal:.0f}: {'ok' if value <= goal else 'MISSED'}\n")
    app.quit()
    stage.controller.session.stop()
    background.end(_PATIENCE)  # what still looks for changes would outlive its window


if __name__ == "__main__":
    main()
