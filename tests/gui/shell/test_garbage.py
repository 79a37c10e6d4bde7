"""Garbage in cycles goes on the UI thread, and only there."""

import gc
import weakref

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from halftone.gui.garbage import Collector


class _Knot:
    def __init__(self) -> None:
        self.myself = self


def test_cycles_are_collected_by_the_look_and_not_before(qtbot: QtBot) -> None:
    owner = QObject()
    collector = Collector(owner)
    assert not gc.isenabled()
    knot = _Knot()
    gone = weakref.ref(knot)
    del knot
    kept = [_Knot() for _ in range(gc.get_threshold()[0] + 100)]
    assert gone() is not None
    collector.look()
    assert gone() is None
    del kept
