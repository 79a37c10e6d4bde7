"""The chart of a training: what it reads out, how it is moved through, and that a long run is drawn from few points."""

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from tests.helpers import samples

from halftone.contract.messages import TrainCaught, TrainStep
from halftone.contract.training import TrainConfig
from halftone.gui import theme
from halftone.gui.charts import training_chart_paint
from halftone.gui.charts.training_chart import TrainChart
from halftone.health.training.training_record import RunRecord


def record(done: int, total: int, bad: tuple[int, ...] = ()) -> RunRecord:
    made = RunRecord(TrainConfig(model="a", pictures="b", output="c", steps=total))
    for number in range(1, done + 1):
        if number in bad:
            made.take(TrainCaught(caught=samples.caught(number)))
        made.take(TrainStep(step=number, steps=total, loss=0.1, norm=0.3, rate=1e-4, scale=None, seconds=0.5))
    return made


def chart(qtbot: QtBot, shown: RunRecord) -> TrainChart:
    theme.begin("dark")
    made = TrainChart()
    qtbot.addWidget(made)
    made.resize(900, 560)
    made.follow(shown)
    made.show()
    made.flush()
    made.grab()
    return made


def test_it_says_what_it_shows(qtbot: QtBot) -> None:
    made = chart(qtbot, record(912, 1600, bad=(742,)))
    assert made.accessibleDescription() == "Step 912 of 1\u202f600, loss 0.100, 1 NaN."
    assert chart(qtbot, record(0, 1600)).accessibleDescription() == "No steps yet."


def test_the_pointer_reads_the_values_of_a_step(qtbot: QtBot) -> None:
    made = chart(qtbot, record(912, 1600, bad=(742,)))
    x = round(made._frame.x(500))
    QTest.mouseMove(made, QPoint(x, 100))
    assert made.at is not None
    assert abs(made.at - 500) <= 2
    assert made.reading(500) == ("Step 500", "Loss 0.100, smoothed 0.100", "Gradient norm 0.300")
    assert made.reading(1200) == ("Step 1\u202f200", "not reached yet")
    QTest.mouseMove(made, QPoint(round(made._frame.x(743)), 100))
    assert made.at == 742
    assert "A NaN was stopped at step 742" in made.reading(742)[-1]


def test_an_event_is_chosen_with_a_click_and_with_enter(qtbot: QtBot) -> None:
    made = chart(qtbot, record(912, 1600, bad=(300, 742)))
    chosen: list[int] = []
    made.event_chosen.connect(lambda caught: chosen.append(caught.step))
    QTest.mouseClick(made, Qt.MouseButton.LeftButton, pos=QPoint(round(made._frame.x(742)), 100))
    QTest.keyClick(made, Qt.Key.Key_Home)
    QTest.keyClick(made, Qt.Key.Key_PageDown)
    assert made.at == 300
    QTest.keyClick(made, Qt.Key.Key_Return)
    assert chosen == [742, 300]


def test_arrow_keys_move_and_escape_leaves(qtbot: QtBot) -> None:
    made = chart(qtbot, record(100, 100))
    QTest.keyClick(made, Qt.Key.Key_End)
    QTest.keyClick(made, Qt.Key.Key_Left)
    assert made.at == 99
    assert made.accessibleDescription().startswith("Step 99")
    QTest.keyClick(made, Qt.Key.Key_Escape)
    assert made.at is None


def test_a_long_training_is_drawn_from_few_points() -> None:
    drawn = training_chart_paint.gather(record(20_000, 100_000), 800)
    assert max(len(drawn.loss), len(drawn.smooth), len(drawn.norm)) <= 800
    assert drawn.strip.dots <= 100


def test_large_and_small_powers_are_told_as_such() -> None:
    said = [training_chart_paint.power_words(power) for power in (-5, -1, 0, 4, 14)]
    assert said == ["10⁻⁵", "0.1", "1", "10\u202f000", "10¹⁴"]


def test_without_a_guard_no_dot_is_green(qtbot: QtBot) -> None:
    shown = RunRecord(TrainConfig(model="a", pictures="b", output="c", guard="off"))
    assert not training_chart_paint.gather(shown, 800).watched
    chart(qtbot, shown)
