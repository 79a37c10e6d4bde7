"""Work on other threads: its answers, its order, and that nothing of it ends on a thread that is not its own."""

import gc
import threading
import weakref
from collections.abc import Callable

import pytest
import shiboken6
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from halftone.gui import background
from halftone.gui.background import Background, QtClock

PATIENCE = 30_000


class Witness(QObject):
    """Notes the thread on which it ended."""

    def __init__(self, ends: list[int]) -> None:
        super().__init__()
        weakref.finalize(self, lambda: ends.append(threading.get_ident()))


def capturing(witness: Witness, fail: bool) -> Callable[[], str]:
    def work() -> str:
        if fail:
            raise RuntimeError(witness.objectName())
        return witness.objectName()

    return work


@pytest.mark.parametrize("fail", [False, True])
def test_what_work_caught_ends_on_the_ui_thread(qtbot: QtBot, fail: bool) -> None:
    parent = QObject()
    owner = Background(parent)
    ends: list[int] = []
    answers: list[object] = []
    for _ in range(600):
        owner.run(capturing(Witness(ends), fail), answers.append, answers.append)
    qtbot.waitUntil(lambda: len(answers) == 600, timeout=PATIENCE)
    answers.clear()
    gc.collect()
    assert shiboken6.isValid(parent)
    assert len(ends) == 600
    assert set(ends) == {threading.get_ident()}


def test_an_answer_for_a_page_that_is_gone_is_dropped(qtbot: QtBot) -> None:
    parent, page = QObject(), QObject()
    owner = Background(parent)
    held = threading.Event()
    answers: list[object] = []
    owner.run(held.wait, answers.append, receiver=page)
    shiboken6.delete(page)
    held.set()
    qtbot.waitUntil(lambda: not owner.busy, timeout=PATIENCE)
    assert answers == []


def test_work_of_an_owner_that_is_gone_is_let_go(qtbot: QtBot) -> None:
    ends: list[int] = []
    answers: list[object] = []
    held = threading.Event()
    for _ in range(50):
        parent = QObject()
        owner = Background(parent)
        caught = Witness(ends)
        owner.run(lambda caught=caught: (held.wait(), caught.objectName()), answers.append)
        del caught
        shiboken6.delete(parent)
        del owner, parent
    held.set()
    qtbot.waitUntil(lambda: not background._tasks, timeout=PATIENCE)
    gc.collect()
    assert answers == []
    assert len(ends) == 50
    assert set(ends) == {threading.get_ident()}


def test_in_order_means_in_order(qtbot: QtBot) -> None:
    owner = Background(parent := QObject())
    done: list[int] = []
    for number in range(200):
        owner.run_in_order(lambda number=number: done.append(number), lambda _: None)
    owner.finish_in_order()
    assert done == list(range(200))
    qtbot.waitUntil(lambda: not owner.busy, timeout=PATIENCE)
    del parent


def test_the_end_waits_as_long_as_it_may_and_drops_the_answers(qtbot: QtBot) -> None:
    parent = QObject()
    owner = Background(parent)
    held = threading.Event()
    answers: list[object] = []
    owner.run(held.wait, answers.append)
    owner.run_in_order(held.wait, answers.append)
    assert not background.end(0.05)
    held.set()
    assert background.end(PATIENCE / 1000)
    assert not owner.busy
    qtbot.wait(20)
    assert answers == []
    del parent


@pytest.mark.logs("Work in the background failed")
def test_a_failure_that_nobody_takes_is_logged(qtbot: QtBot, caplog: pytest.LogCaptureFixture) -> None:
    owner = Background(parent := QObject())

    def work() -> None:
        raise ValueError("torn")

    owner.run(work, lambda _: None)
    qtbot.waitUntil(lambda: not owner.busy, timeout=PATIENCE)
    assert "Work in the background failed" in caplog.text
    del parent


def test_the_clock_calls_once_and_not_what_was_cancelled(qtbot: QtBot) -> None:
    owner = QObject()
    clock, called = QtClock(owner), list[str]()
    cancel = clock.later(0, lambda: called.append("cancelled"))
    over = clock.later(0, lambda: called.append("over"))
    cancel()
    cancel()
    qtbot.waitUntil(lambda: called == ["over"])
    qtbot.waitUntil(lambda: not clock.children())
    over()
    assert called == ["over"]
