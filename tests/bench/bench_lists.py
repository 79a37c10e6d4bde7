"""Milliseconds and memory of the window's lists with many entries: history, queue and menu of models. No screen.

    QT_QPA_PLATFORM=offscreen python tests/bench/bench_lists.py [--entries 10000]

Of the processor, as the machine may have other work. fill: until the list is laid out and painted; frame: one paint while it is
scrolled from one end to the other (median and slowest); change: one more picture, one more step, one model less.
"""

# ruff: noqa: E402 - the path must be set before Halftone is imported

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "app")]

import psutil
from msgspec import structs
from PySide6.QtCore import QThreadPool
from PySide6.QtWidgets import QApplication
from tests.bench.common import machine
from tests.gui.shots import Stage, landscape
from tests.helpers import samples

from halftone.contract.messages import Generate
from halftone.contract.request import PictureRequest
from halftone.gui.create.form.model_menu import ModelMenu
from halftone.gui.create.history_panel import HistoryPanel
from halftone.gui.main import make_app
from halftone.gui.views.card_list import CardList
from halftone.gui.views.thumbnails import Thumbnails
from halftone.session.events import Replaced
from halftone.session.pictures.history import Made
from halftone.session.state import Job


def spent(action: Callable[[], object]) -> float:
    begun = time.process_time()
    action()
    QApplication.processEvents()
    return (time.process_time() - begun) * 1e3


def told(name: str, view: CardList[Any], fill: Callable[[], object], change: Callable[[], object]) -> None:
    memory = psutil.Process().memory_info().rss
    filled = spent(lambda: (fill(), view.grab()))
    bar, frames = view.verticalScrollBar(), list[float]()
    for part in range(200):
        begun = time.process_time()
        bar.setValue(bar.maximum() * part // 200)
        view.viewport().repaint()
        frames.append((time.process_time() - begun) * 1e3)
        QApplication.processEvents()
    QThreadPool.globalInstance().waitForDone()
    QApplication.processEvents()
    grown = (psutil.Process().memory_info().rss - memory) / 1e6
    sys.stdout.write(
        f"{name:8} fill {filled:6.1f} ms  frame {statistics.median(frames):5.2f} ms ({max(frames):.1f})  "
        f"change {spent(change):6.1f} ms  memory {grown:+.0f} MB\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000)
    count = parser.parse_args().entries
    app = make_app(sys.argv[:1])
    stage = Stage()
    controller, now = stage.controller, datetime.now(UTC)

    image = landscape(256, 256, 1)
    thumbnails = Thumbnails(controller.background, lambda keys: {key: image.copy() for key in keys}, controller)
    history = HistoryPanel(thumbnails)
    history.resize(208, 800)
    history.show()
    request = PictureRequest(prompt="a sun")
    pictures = [
        Made(facts=samples.picture_facts(f"/{number}.png"), request=request, made_at=now - timedelta(minutes=20 * number))
        for number in range(count)
    ]
    new = Made(facts=samples.picture_facts("/new.png"), request=request, made_at=now)
    told("history", history.list, lambda: history.set_pictures(pictures), lambda: history.set_pictures([new, *pictures]))

    queue, command = stage.page.queue, Generate(job="a", request=PictureRequest(prompt="a sun", width=512, height=512))
    jobs = tuple(Job(id=str(number), command=command, title="a sun") for number in range(count))
    queue.show()
    queue.list.setFixedHeight(412)
    told("queue", queue.list, lambda: queue.model.show(jobs), lambda: queue.model.show((replace(jobs[0], done=1), *jobs[1:])))

    paths = [f"/models/{number % 50}/{number}.safetensors" for number in range(count)]
    found = {path: structs.replace(samples.POCKET, id=path, path=path, name=path) for path in paths}
    settings = structs.replace(controller.settings, model_folders=("/models",))
    take = controller.session.store.take
    take(Replaced(part=settings))
    stage.settle()
    take(Replaced(part=controller.state.models._replace(models=found)))
    session = controller.session
    menu = ModelMenu(stage.page, session.models, (), session.checks.badge, stage.page.form.model_part.picture_of)
    told(
        "models",
        menu.list,
        lambda: menu.show_under(stage.page.form.model_part.row),
        lambda: menu.choices.show(menu.choices.items[1:]),
    )
    sys.stdout.write(f"{count} entries. {machine()}\n")
    app.quit()


if __name__ == "__main__":
    main()
