"""Small shared widgets: what they show and how they behave."""

from datetime import date

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QAbstractButton, QLineEdit, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import samples

from halftone.contract.error_sentences import WORDS
from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import MemoryFacts
from halftone.gui import text, theme
from halftone.gui.create.form.form_fields import combo
from halftone.gui.create.form.model_picker import ModelCard, ModelRow, model_line
from halftone.gui.create.form.prompt_fields import examples
from halftone.gui.create.history_panel import day_name
from halftone.gui.create.picture.empty_canvas import EmptyCanvas
from halftone.gui.i18n import set_language, tr
from halftone.gui.kit.dots import PeakStrip, RoomGauge, StepDots, room_tone
from halftone.gui.kit.message_bars import Message, Toasts, rich
from halftone.gui.kit.meters import MemoryMeter
from halftone.gui.kit.stock_widgets import ElidedLabel, label
from halftone.gui.kit.switches import Segmented, Switch


@pytest.mark.parametrize(("bits", "tone"), [(None, "unknown"), (-0.1, "danger"), (0.0, "warn"), (1.9, "warn"), (2.0, "ok")])
def test_the_tone_of_room(bits: float | None, tone: str) -> None:
    assert room_tone(bits) == tone


@pytest.mark.parametrize(("bits", "filled"), [(0.0, 0), (0.4, 0), (3.6, 4), (5.9, 6), (40.0, 6)])
def test_the_gauge_fills_one_dot_per_bit(qtbot: QtBot, bits: float, filled: int) -> None:
    theme.set_theme("dark")
    gauge = RoomGauge()
    gauge.set_bits(bits)
    qtbot.addWidget(gauge)
    gauge.resize(64, 12)
    image = gauge.grab().toImage()
    ink = theme.current().color(room_tone(bits)).name()
    centres = [image.pixelColor(round(4 + index * 10.4), 6).name() for index in range(6)]
    assert centres.count(ink) == filled


def test_a_segment_tells_only_what_the_user_chose(qtbot: QtBot) -> None:
    field = Segmented([("a", "A"), ("b", "B")])
    qtbot.addWidget(field)
    told: list[str] = []
    field.chosen.connect(told.append)
    field.set_value("b")
    assert (field.value(), told) == ("b", [])
    field.button("a").click()
    assert (field.value(), told) == ("a", ["a"])


def test_a_switch_is_a_check_box(qtbot: QtBot) -> None:
    switch = Switch("On")
    qtbot.addWidget(switch)
    switch.show()
    qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
    assert switch.isChecked()
    assert not switch.grab().isNull()


def test_the_memory_meter_shows_the_others_first(qtbot: QtBot) -> None:
    theme.set_theme("dark")
    meter = MemoryMeter()
    qtbot.addWidget(meter)
    meter.set_memory(MemoryFacts(total=100, own=40, others=20))
    image = meter.grab().toImage()
    colours = theme.current()
    found = [QColor(image.pixelColor(x, 5)).name() for x in (10, 40, 80)]
    assert found == [colours.color(token).name() for token in ("text-muted", "accent", "border-strong")]


@pytest.mark.parametrize("steps", [0, 1, 28, 1000])
def test_step_dots_and_peaks_paint_any_number_of_steps(qtbot: QtBot, steps: int) -> None:
    dots, strip = StepDots(), PeakStrip()
    for widget in (dots, strip):
        qtbot.addWidget(widget)
        widget.resize(300, 44)
    dots.set_steps(steps // 2, steps)
    peaks = [3.0, None, float("inf"), 1e9, 0.0, 70000.0][: steps // 2]
    strip.set_peaks(peaks, steps, 65504.0)
    assert not dots.grab().isNull()
    assert not strip.grab().isNull()


def test_words_are_escaped_and_stand_in_order() -> None:
    words = rich(Message("ok", "<b>What</b>", "happened.", "At last."))
    assert "&lt;b&gt;" in words
    assert words.index("What") < words.index("happened") < words.index("At last")


def test_every_error_has_words_without_a_hole_when_its_facts_are_there() -> None:
    for code in WORDS:
        error = ErrorFacts(code=code)
        assert text.error_sentence(error)
        assert text.error_remedy(error)
    full = ErrorFacts(code="model-incomplete", facts={"path": "/m", "missing": "vae"})
    assert text.error_sentence(full) == "The model /m lacks vae."


def test_names_of_days() -> None:
    today = date(2026, 5, 12)
    assert day_name(today, today) == "Today"
    assert day_name(date(2026, 5, 11), today) == "Yesterday"
    assert day_name(date(2026, 4, 30), today) == "2026-04-30"


def test_every_button_has_a_name(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.picture()
    nameless = [
        button
        for button in stage.window.findChildren(QAbstractButton)
        if not button.accessibleName() and not button.text() and not button.objectName().startswith("qt_")
    ]
    assert not nameless
    stage.close()


def test_the_zone_above_the_limit_warns_only_of_what_was_measured(qtbot: QtBot) -> None:
    strip = PeakStrip()
    qtbot.addWidget(strip)
    assert strip.zone_tone == "border-control"
    strip.set_peaks([None, None], 20, 65504.0)
    assert strip.zone_tone == "border-control"
    strip.set_peaks([None, 3.0], 20, 65504.0)
    assert strip.zone_tone == "chart.limit"


def test_the_model_row_has_everything_in_its_tooltip(qtbot: QtBot) -> None:
    row = ModelRow()
    qtbot.addWidget(row)
    row.show_model(ModelCard("A model", "SDXL · FP16 · 6.9 GB", "healthy", "Every layer has room."))
    assert row.toolTip() == "A model\nSDXL · FP16 · 6.9 GB\nHealthy\nEvery layer has room."
    assert model_line(samples.POCKET).count("·") == 1, "its name says that it is the demo model"


def test_words_without_room_end_in_an_ellipsis(qtbot: QtBot) -> None:
    box = combo("Schedule", "")
    qtbot.addWidget(box)
    box.addItem("SGM Uniform")
    box.resize(240, 34)
    wide = box.grab().toImage()
    box.resize(80, 34)
    narrow = box.grab().toImage()
    assert narrow.copy(0, 0, 60, 34) != wide.copy(0, 0, 60, 34)
    long = ElidedLabel("Time not measured yet for this size")
    qtbot.addWidget(long)
    long.set_text("Time not measured yet for this size", "Measured with the first picture")
    long.show()
    long.resize(60, 20)
    assert long.text().endswith("…")
    assert long.toolTip() == "Time not measured yet for this size\nMeasured with the first picture"


def test_examples_say_in_chinese_what_they_ask_for(qtbot: QtBot) -> None:
    set_language("zh_CN")
    empty = EmptyCanvas(examples())
    qtbot.addWidget(empty)
    set_language("en")
    plain = EmptyCanvas(examples())
    qtbot.addWidget(plain)
    assert empty.cards[0].caption == "绿色山丘上的红太阳"
    assert [card.prompt for card in empty.cards] == list(examples()), "the model understands English only"
    assert not empty.english_only.isHidden()
    assert {card.caption for card in plain.cards} == {""}
    assert plain.english_only.isHidden()


def test_a_failure_stays_until_something_later_goes_well(qtbot: QtBot) -> None:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(800, 600)
    host.show()
    toasts = Toasts(host, QWidget(host))
    toasts.began()
    toasts.show(Message("danger", "Stopped"), lambda _key: None)
    toasts.went_well()
    assert toasts.shown is not None, "it failed in what ended now"
    toasts.began()
    toasts.went_well()
    assert toasts.shown is None


def test_a_message_about_what_goes_on_stays_until_the_next_one(qtbot: QtBot) -> None:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(800, 600)
    host.show()
    toasts = Toasts(host, QWidget(host))
    toasts.show(Message("info", "Making"), lambda _key: None)
    assert toasts._timer.isActive()
    toasts.show(Message("info", "Making", lasting=True), lambda _key: None)
    assert not toasts._timer.isActive()
    toasts.show(Message("ok", "Made"), lambda _key: None)
    assert toasts.shown is not None
    assert toasts.shown.message.title == "Made"


def test_a_toast_lies_over_nothing_that_is_used(qtbot: QtBot) -> None:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(900, 600)
    low, high = QPushButton("Apply", host), QLineEdit(host)
    low.setGeometry(0, 460, 900, 60)
    high.setGeometry(0, 400, 900, 40)
    host.show()
    toasts = Toasts(host, QWidget(host))
    toasts.show(Message("info", "A cure was applied, and this is a rather long message about it"), lambda _key: None)
    bar = toasts.shown
    assert bar is not None
    assert not bar.geometry().intersects(low.geometry())
    assert not bar.geometry().intersects(high.geometry())
    low.setGeometry(100, 0, 200, 600)
    toasts.place()
    assert not bar.geometry().intersects(low.geometry()), "beside what goes from top to bottom"
    for widget in (low, high):
        widget.hide()
    toasts.place()
    assert bar.geometry().bottom() == host.height() - 87, "where nothing is used it lies low"


def test_names_from_outside_are_shown_without_control_characters_and_tags(qtbot: QtBot) -> None:
    evil = "\x1b[2J\u202egnp<img src='/etc/hostname'>"
    plain = "\ufffd[2J\ufffdgnp<img src='/etc/hostname'>"
    line = ElidedLabel()
    qtbot.addWidget(line)
    line.resize(20, 20)
    line.set_text(evil)
    made = label(evil)
    qtbot.addWidget(made)
    assert (line.accessibleName(), made.text()) == (plain, plain)
    assert "&lt;img" in line.toolTip()
    assert tr("{0} in use", evil) == f"{plain} in use"
    assert text.short(evil)[:6] == plain[:6]
    error = ErrorFacts(code="model-missing", facts={"path": evil})
    assert text.error_sentence(error) == f"There is no model at {plain}."
