"""The lists of painted items: what changes in them, and what keys and the mouse do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest
from PySide6.QtCore import QObject, QPersistentModelIndex, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QAccessible, QColor, QImage, QPainter
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot
from tests.gui import lists

from halftone.gui import theme
from halftone.gui.background import Background
from halftone.gui.views.card_list import CardDelegate, CardList
from halftone.gui.views.list_model import ListModel
from halftone.gui.views.thumbnails import Thumbnails, paint_thumbnail


@dataclass(frozen=True)
class Card:
    name: str
    kept: bool = False
    heading: bool = False


class Cards(ListModel[Card]):
    def key(self, item: Card) -> str:
        return item.name

    def name(self, item: Card) -> str:
        return f"card {item.name}"

    def tip(self, item: Card) -> str:
        return f"this is {item.name}"

    def state(self, item: Card) -> Qt.ItemFlag:
        return Qt.ItemFlag.NoItemFlags if item.heading else super().state(item)


class Painted(CardDelegate[Card]):
    def size(self, item: Card) -> QSize:
        return QSize(100, 40)

    def has_cross(self, item: Card) -> bool:
        return not (item.kept or item.heading)

    def paint_card(self, painter: QPainter, rect: QRect, item: Card, *, hovered: bool, selected: bool) -> None:
        painter.fillRect(rect, theme.current().color("selected" if selected else "surface"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "abc"),
        ("abc", ""),
        ("abcde", "bd"),
        ("bd", "abcde"),
        ("abcde", "edcba"),
        ("abcd", "xbya"),
        ("abc", "xyz"),
        ("abcdef", "fabcde"),
    ],
)
def test_the_model_reaches_any_list_from_any_other(qtbot: QtBot, before: str, after: str) -> None:
    model = Cards()
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal, model)
    model.show([Card(name) for name in before])
    marks = {name: QPersistentModelIndex(model.index_of(name)) for name in before}
    model.show([Card(name) for name in after])
    assert "".join(item.name for item in model.items) == after
    for name, mark in marks.items():
        assert mark.row() == after.find(name), "what stays is followed, what goes is known to be gone"


def test_only_what_changed_is_painted_again(qtbot: QtBot) -> None:
    model, changed = Cards(), list[int]()
    one, two = Card("one"), Card("two")
    model.show([one, two])
    model.dataChanged.connect(lambda first, _last: changed.append(first.row()))
    model.show([one, replace(two, kept=True)])
    assert changed == [1]


@pytest.fixture
def view(qtbot: QtBot) -> CardList[Card]:
    theme.begin("dark")
    view, model = CardList("Cards", Painted()), Cards()
    model.setParent(view)
    model.show([Card("day", heading=True), Card("one", kept=True), Card("two"), Card("three")])
    view.setModel(model)
    qtbot.addWidget(view)
    view.resize(200, 300)
    view.show()
    qtbot.waitExposed(view)
    return view


def told(view: CardList[Card]) -> list[tuple[str, str]]:
    """What the view tells, in its order."""
    heard: list[tuple[str, str]] = []
    for name in ("chosen", "reached", "removed"):
        getattr(view, name).connect(lambda card, name=name: heard.append((name, card.name)))
    view.menu_requested.connect(lambda card, _at: heard.append(("menu", card.name)))
    return heard


def press(key: Qt.Key) -> Callable[[QtBot, CardList[Card]], None]:
    return lambda qtbot, view: qtbot.keyClick(view, key)


def on(act: Callable[[CardList[Card], str], None], name: str) -> Callable[[QtBot, CardList[Card]], None]:
    return lambda _qtbot, view: act(view, name)


@pytest.mark.parametrize(
    ("act", "heard"),
    [
        (press(Qt.Key.Key_Down), [("reached", "three")]),
        (press(Qt.Key.Key_Up), [("reached", "one")]),
        (press(Qt.Key.Key_Return), [("chosen", "two")]),
        (press(Qt.Key.Key_Space), [("chosen", "two")]),
        (press(Qt.Key.Key_Delete), [("removed", "two")]),
        (press(Qt.Key.Key_A), []),
        (on(lists.click, "three"), [("chosen", "three")]),
        (on(lists.click, "two"), [("chosen", "two")]),
        (on(lists.click, "day"), []),
        (on(lists.click_cross, "three"), [("removed", "three")]),
        (on(lists.right_click, "one"), [("menu", "one")]),
        (on(lists.right_click, "day"), []),
    ],
)
def test_what_a_person_does_is_told(
    qtbot: QtBot, view: CardList[Card], act: Callable[[QtBot, CardList[Card]], None], heard: list[tuple[str, str]]
) -> None:
    model = view.model()
    assert isinstance(model, Cards)
    view.select(model.index_of("two"))
    found = told(view)
    act(qtbot, view)
    assert found == heard


@pytest.mark.parametrize("left", [["one", "three"], ["one"]])
def test_a_cross_that_is_pressed_removes_no_other_item(qtbot: QtBot, view: CardList[Card], left: list[str]) -> None:
    model = view.model()
    assert isinstance(model, Cards)
    found, at = told(view), view.cross_of(model.index_of("two")).center()
    qtbot.mousePress(view.viewport(), Qt.MouseButton.LeftButton, pos=at)
    model.show([model.items[0], *(Card(name) for name in left)])
    qtbot.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert found == []


def test_equal_items_are_not_painted_again(qtbot: QtBot) -> None:
    model, changed = Cards(), list[int]()
    model.show([Card("one"), Card("two")])
    model.dataChanged.connect(lambda first, _last: changed.append(first.row()))
    model.show([Card("one"), Card("two", kept=True)])
    assert changed == [1]


def test_the_keys_skip_a_heading(qtbot: QtBot, view: CardList[Card]) -> None:
    model = view.model()
    assert isinstance(model, Cards)
    view.select(model.index_of("one"))
    found = told(view)
    qtbot.keyClick(view, Qt.Key.Key_Up)
    assert (found, view.currentIndex()) == ([], model.index_of("one"))


def test_the_item_with_the_keyboard_wears_a_ring_and_a_clicked_one_does_not(qtbot: QtBot, view: CardList[Card]) -> None:
    ring = theme.current().color("focus").rgb()
    view.activateWindow()
    view.setFocus(Qt.FocusReason.MouseFocusReason)
    qtbot.waitUntil(view.hasFocus)

    def ringed() -> bool:
        image = view.grab().toImage()
        box = view.visualRect(view.currentIndex())
        return image.pixelColor(box.center().x(), box.top() + 1).rgb() == ring

    lists.click(view, "two")
    assert not ringed()
    qtbot.keyClick(view, Qt.Key.Key_Down)
    assert ringed()


def test_a_screen_reader_hears_name_and_tooltip(view: CardList[Card]) -> None:
    reader = QAccessible.queryAccessibleInterface(view)
    assert reader is not None
    assert reader.text(QAccessible.Text.Name) == "Cards"
    item = reader.child(2)
    assert (item.text(QAccessible.Text.Name), item.text(QAccessible.Text.Description)) == ("card two", "this is two")


class Shelf:
    """Counts how often it is read."""

    def __init__(self) -> None:
        self.read: list[tuple[str, ...]] = []

    def __call__(self, keys: tuple[str, ...]) -> Mapping[str, QImage]:
        self.read.append(keys)
        image = QImage(8, 8, QImage.Format.Format_RGB32)
        image.fill(QColor("red"))
        return dict.fromkeys((key for key in keys if key != "none"), image)


def test_thumbnails_are_read_once_and_the_last_wanted_first(qtbot: QtBot) -> None:
    owner, shelf = QObject(), Shelf()
    background = Background(owner)
    thumbnails = Thumbnails(background, shelf, owner)
    wanted = [f"{number}" for number in range(40)] + ["none"]
    assert all(thumbnails.get(key).isNull() for key in wanted)
    qtbot.waitUntil(lambda: sum(map(len, shelf.read)) == len(wanted) and not background.busy)
    assert shelf.read[0] == ("0",), "the first one is begun at once"
    assert shelf.read[1][0] == "none"
    assert not thumbnails.get("39").isNull()
    assert thumbnails.get("none").isNull()
    assert sum(map(len, shelf.read)) == len(wanted), "what is not there is not looked for again"


def test_thumbnails_in_memory_have_an_end(qtbot: QtBot) -> None:
    owner = QObject()
    thumbnails = Thumbnails(Background(owner), Shelf(), owner)
    for number in range(1000):
        thumbnails.put(str(number), QImage(1, 1, QImage.Format.Format_RGB32))
    assert len(thumbnails._images) < 200
    assert not thumbnails.get("999").isNull()


@pytest.mark.parametrize("size", [(40, 40), (40, 60), (60, 40)])
def test_a_thumbnail_is_cut_from_the_middle_and_keeps_its_shape(qtbot: QtBot, size: tuple[int, int]) -> None:
    theme.begin("dark")
    picture = QImage(300, 100, QImage.Format.Format_RGB32)
    picture.fill(QColor("blue"))
    for x in range(145, 155):
        for y in range(45, 55):
            picture.setPixelColor(x, y, QColor("red"))
    canvas = QImage(*size, QImage.Format.Format_RGB32)
    canvas.fill(QColor("black"))
    painter = QPainter(canvas)
    paint_thumbnail(painter, canvas.rect().toRectF(), picture)
    painter.end()
    middle = QPoint(size[0] // 2, size[1] // 2)
    assert canvas.pixelColor(middle) == QColor("red")
    assert canvas.pixelColor(middle.x(), 2) == QColor("blue")
    red = [canvas.pixelColor(x, middle.y()) == QColor("red") for x in range(size[0])]
    down = [canvas.pixelColor(middle.x(), y) == QColor("red") for y in range(size[1])]
    assert abs(sum(red) - sum(down)) <= 1, "a square stays one"
