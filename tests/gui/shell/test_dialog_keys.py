"""The keyboard in every dialog: Esc changes nothing, Enter does the default action, Tab visits all in order, with a ring."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.gallery.test_gallery_page import chosen, click, gallery, made
from tests.gui.models.test_models_page import LORA, library, scanned
from tests.gui.models.test_models_page import chosen as models_chosen
from tests.gui.models.test_models_page import opened as models_opened
from tests.gui.shell.test_keyboard import goes_back, missed, name_of, place, shown
from tests.gui.stage import Stage, opened
from tests.helpers import scripted
from tests.helpers.headers import write_sparse

from halftone.gui.create.form import memory_estimate
from halftone.gui.kit.meters import FocusRing, has_own_ring
from halftone.gui.shell import stopping
from halftone.session.events import Noted
from halftone.session.pictures.presets import Preset, presets_file, read_presets, save_preset

_MOST = 60
"""Stops of one dialog; more means that Tab is caught."""


@dataclass(frozen=True)
class Case:
    """show: opens the dialog. done: whether what Enter is for has happened. typed: where the focus is, before Enter or Esc."""

    show: Callable[[Stage, Path], object]
    done: Callable[[Stage], bool]
    typed: str = ""
    script: tuple[scripted.AnyAction, ...] = ()


def show_grid(stage: Stage, _folder: Path) -> None:
    stage.controller.session.queue.pause(True)
    stage.page.open_grid()


def show_preset(stage: Stage, _folder: Path) -> None:
    stage.page.form.edit(steps=11)
    stage.page.form.prompts.presets.ask([])


def show_rename(stage: Stage, _folder: Path) -> None:
    save_preset(Preset(name="Quick", values={"steps": 7}), presets_file())
    stage.page.form.prompts.presets.ask_name(read_presets(presets_file())[0])


def show_style(stage: Stage, _folder: Path) -> None:
    stage.page.form.edit(prompt="a sea")
    opened(stage.page.form.style_part).save_button.click()


def show_collection(stage: Stage, folder: Path) -> None:
    made(folder)
    page = gallery(stage, 4)
    click(page, 0)
    chosen(stage, page)
    page._ask_collection()


def show_messages(stage: Stage, _folder: Path) -> None:
    stage.controller.take(Noted(kind="copied"))
    stage.controller.take(Noted(kind="worker-late"))
    stage.workspace.show_messages()


def show_help(stage: Stage, _folder: Path) -> None:
    stage.workspace.show_guide()


def show_stop(stage: Stage, _folder: Path) -> None:
    stage.page.generate()
    stage.wait(lambda: stage.controller.state.running is not None and stage.controller.state.running.started is not None)
    running = stage.controller.state.running
    assert running is not None
    stopping.stop(stage.window, stage.controller, replace(running, started=time.monotonic() - stopping.ASK_AFTER - 1))


def show_close(stage: Stage, _folder: Path) -> None:
    stage.page.generate()
    stage.wait(lambda: stage.controller.state.running is not None)
    assert not stage.window.close()


def show_delete(stage: Stage, folder: Path) -> None:
    root = library(folder / "models")
    write_sparse(root / "second.safetensors", LORA)
    page = models_opened(stage, scanned(root))
    assert len(models_chosen(stage, page, "LoRA")) == 2
    page.grid.selectAll()
    page.delete()


def show_shortage(stage: Stage, _folder: Path) -> None:
    memory_estimate.ask(
        stage.page.form, "It needs more memory than is free.", lambda: stage.controller.take(Noted(kind="copied"))
    )


def running(stage: Stage) -> str:
    job = stage.controller.state.running
    return "" if job is None else job.stopping or "runs"


def dialogs() -> list[QDialog]:
    return [one for one in QApplication.topLevelWidgets() if isinstance(one, QDialog) and one.isVisible()]


def focused() -> QWidget:
    widget = QApplication.focusWidget()
    assert widget is not None
    return widget


CASES = {
    "grid": Case(show_grid, lambda stage: len(stage.controller.state.jobs) == 1),
    "preset": Case(show_preset, lambda _stage: [one.name for one in read_presets(presets_file())] == ["Quick"], "Quick"),
    "rename a preset": Case(show_rename, lambda _stage: [one.name for one in read_presets(presets_file())] == ["Slow"], "Slow"),
    "style": Case(show_style, lambda stage: stage.page.form.taken.text() == "" and not dialogs(), "Ink"),
    "collection": Case(show_collection, lambda stage: "Seas" in stage.controller.state.gallery.details[0].marks, "Seas"),
    "messages": Case(show_messages, lambda _stage: not dialogs()),
    "help": Case(show_help, lambda _stage: len(dialogs()) == 1),
    "stop": Case(show_stop, lambda stage: running(stage) == "runs", script=(scripted.Hang(),)),
    "close": Case(show_close, lambda stage: stage.workspace._closing.waiting, script=(scripted.Hang(),)),
    "delete models": Case(show_delete, lambda stage: stage.controller.state.notices[-1].kind == "models-deleted"),
    "shortage": Case(show_shortage, lambda stage: not stage.controller.state.notices),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def dialog(case: Case, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Stage, QDialog]:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    stage = Stage(qtbot, {"generate": case.script} if case.script else None, grace=0.1)
    stage.window.resize(1024, 640)
    case.show(stage, tmp_path)
    (found,) = dialogs()
    found.activateWindow()
    stage.wait(lambda: QApplication.focusWidget() is not None and focused().window() is found)
    QTest.keyClicks(focused(), case.typed)
    return stage, found


def known(stage: Stage) -> tuple[object, ...]:
    state = stage.controller.state
    jobs = [(job.id, job.stopping) for job in state.jobs]
    marks = [one.marks for one in state.gallery.details]
    presets = [one.name for one in read_presets(presets_file())]
    return stage.controller.settings, state.draft, jobs, marks, presets, state.library.entries, len(state.notices)


def test_escape_changes_nothing(dialog: tuple[Stage, QDialog]) -> None:
    stage, _ = dialog
    before = known(stage)
    QTest.keyClick(focused(), Qt.Key.Key_Escape)
    stage.wait(lambda: not dialogs())
    stage.wait(lambda: not stage.controller.background.busy)
    assert known(stage) == before
    stage.close()


def test_enter_does_the_default_action(case: Case, dialog: tuple[Stage, QDialog]) -> None:
    stage, _ = dialog
    QTest.keyClick(focused(), Qt.Key.Key_Return)
    stage.wait(lambda: not stage.controller.background.busy)
    stage.wait(lambda: case.done(stage))
    stage.close()


def test_tab_visits_everything_in_reading_order(dialog: tuple[Stage, QDialog]) -> None:
    stage, window = dialog
    stops: list[QWidget] = []
    QTest.keyClick(focused(), Qt.Key.Key_Tab)
    for _ in range(_MOST):
        now = focused()
        if now in stops[:-1] or [now] == stops:
            break
        if now not in stops:  # else Tab came to the next link in a text
            assert name_of(now).strip(), shown(now)
            assert has_own_ring(now) or ring_is_whole(stage, window), shown(now)
            stops.append(now)
        QTest.keyClick(now, Qt.Key.Key_Tab)
    assert focused() is stops[0]
    first = min(range(len(stops)), key=lambda at: (place(stops[at], window).top() // 16, place(stops[at], window).left()))
    stops = [*stops[first:], *stops[:first]]
    back = [(shown(a), shown(b)) for a, b in pairwise(stops) if goes_back(place(a, window), place(b, window))]
    assert not back
    assert not (left := missed(window, stops)), [shown(one) for one in left]
    assert window.minimumSizeHint().height() <= 640, "it fits into a small window"
    assert window.minimumSizeHint().width() <= 1024
    stage.close()


def ring_is_whole(stage: Stage, window: QDialog) -> bool:
    """Whether the one visible ring of a dialog is nowhere cut."""
    (ring,) = (one for one in window.findChildren(FocusRing) if one.isVisible())
    stage.wait(lambda: not ring.visibleRegion().isEmpty())
    return ring.visibleRegion().boundingRect().contains(ring._room())
