"""The headroom chart: what it shows, how it is moved, what it says."""

import math
from collections.abc import Sequence
from xml.etree import ElementTree

import msgspec
import pytest
from PySide6.QtCore import QBuffer, QEvent, QIODevice, QPoint, QPointF, Qt
from PySide6.QtGui import QAccessible, QFontMetricsF, QImage, QMouseEvent, QPainter, QWheelEvent
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtTest import QSignalSpy, QTest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot
from tests.gui.health import kit
from tests.helpers import samples

from halftone.contract.facts import LayerPeak
from halftone.contract.vocabulary import DType
from halftone.gui import theme
from halftone.gui.charts import headroom_chart_text
from halftone.gui.charts.headroom_chart import HeadroomChart
from halftone.gui.charts.headroom_chart_frame import Frame, bar_top, frame_for
from halftone.gui.charts.headroom_chart_paint import paint_base, place_discs
from halftone.gui.create.picture.recovery_banner import Evidence
from halftone.health.headroom import (
    PartBox,
    axis_range,
    block_name,
    build,
    build_blocks,
    lay_out,
    part_key,
    room_bits,
    room_state,
    share_columns,
    ticks,
)

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support propagateSizeHints")


@pytest.fixture
def chart(qtbot: QtBot) -> HeadroomChart:
    made = HeadroomChart()
    qtbot.addWidget(made)
    made.resize(1200, 300)
    report = kit.report()
    made.set_layers(report.layers, "float16", report.findings, report.plan)
    made.show()
    made.flush()
    made.grab()
    return made


def wheel(chart: HeadroomChart, x: float, turn: int) -> None:
    at = QPointF(x, 100)
    event = QWheelEvent(
        at,
        chart.mapToGlobal(at),
        QPoint(),
        QPoint(0, turn),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    chart.wheelEvent(event)
    chart.grab()


def test_room_is_measured_against_the_limit_of_the_type() -> None:
    assert room_bits(16.0, "float16") == pytest.approx(-0.0007, abs=1e-3)
    assert room_state(math.inf, "float16") == "over"
    assert room_state(15.0, "float16") == "tight"
    assert room_state(15.0, "bfloat16") == "fine"
    assert room_state(-math.inf, "float16") == "fine"


def test_a_vae_is_shown_as_two_halves() -> None:
    assert part_key("vae", "encoder.conv_in") == "vae.encoder"
    assert part_key("vae", "decoder.conv_in") == "vae.decoder"
    assert part_key("unet", "conv_in") == "unet"


def test_every_layer_is_in_exactly_one_column() -> None:
    data = build(kit.layers(), "float16")
    for width in (120.0, 500.0, 1300.0, 20_000.0):
        boxes = lay_out(data, 32.0, width, 5.4, 11.0, after=False)
        seen = [layer.index for box in boxes for column in box.columns for layer in column.members]
        assert seen == list(range(1818))
        assert boxes[-1].x + boxes[-1].width <= 32.0 + width + 0.01 or width < 200


def test_a_column_shows_its_largest_peak() -> None:
    data = build(kit.layers(), "float16")
    for box in lay_out(data, 0.0, 400.0, 5.4, 11.0, after=False):
        for column in box.columns:
            assert column.top.exp == max(layer.exp for layer in column.members)


def test_columns_are_shared_so_that_no_part_vanishes() -> None:
    assert share_columns([3, 4], 100) == [3, 4]
    shares = share_columns([100, 260, 1388, 70], 230, [False, False, False, True])
    assert sum(shares) <= 230
    assert min(shares) >= 8
    assert shares[3] >= 46


def test_axis_reaches_above_the_limit_and_the_highest_peak() -> None:
    low, high = axis_range(build(kit.layers(scale=2.0**20), "float16"), compact=False)
    assert low == -2.0
    assert high > 37
    assert len(ticks(low, high, 7)) <= 8
    assert axis_range(build(kit.layers(), "bfloat16"), compact=False)[1] < 30


def test_findings_stand_on_their_layers_and_changes_are_marked(chart: HeadroomChart) -> None:
    data = chart.data
    assert [mark.number for mark in data.marks] == [1, 2, 3, 4]
    assert data.marks[3].tight
    said = {part.key: headroom_chart_text.cure_label(part, data.dtype) for part in data.parts}
    assert {key: words for key, words in said.items() if words} == {"vae.decoder": "cure: 70 layers rescaled"}
    assert {layer.component for layer in data.layers if layer.changed} == {"vae"}


def test_compact_groups_the_decoder_into_blocks(qtbot: QtBot) -> None:
    layers = [layer for layer in kit.layers() if layer.component == "vae"]
    assert [part.name for part in build_blocks(layers, "float16").parts] == ["mid", "up.0", "up.1", "up.2", "up.3"]
    assert block_name("decoder.conv_out") == ""
    made = HeadroomChart(compact=True)
    qtbot.addWidget(made)
    made.set_layers(layers, "float16")
    made.resize(318, 128)
    assert not made.grab().isNull()


@pytest.mark.parametrize("named", ["decoder.up_blocks.1.resnets.0.conv1", "decoder.up_blocks.3.resnets.2.conv2"])
def test_the_compact_chart_rings_the_layer_that_the_words_name(qtbot: QtBot, named: str) -> None:
    names = [f"decoder.up_blocks.{block}.resnets.{unit}.conv{conv}" for block in range(4) for unit in range(3) for conv in (1, 2)]
    layers = tuple(
        LayerPeak(component="vae", module=name, kind="Conv2d", peak=2.0 ** (10 - abs(index - 15)))
        for index, name in enumerate(names)
    )
    place = next(index for index, one in enumerate(layers) if one.module == named)
    evidence = Evidence()
    qtbot.addWidget(evidence)
    event = msgspec.structs.replace(samples.GUARDED, component="vae", module=named, layers=layers)
    evidence.show_event(event, "float16", QImage(), QImage())
    chart = evidence.chart
    chart.resize(318, 118)
    chart.grab()
    ring, frame = chart.marker(), chart._frame
    assert ring is not None
    assert ring.y() + 1 == bar_top(frame, chart.data.layers[place], after=False)
    assert abs((ring.x() - frame.plot.left()) / frame.plot.width() - (place + 0.5) / len(layers)) < 0.06
    evidence.show_event(msgspec.structs.replace(event, module="", step=1), "float16", QImage(), QImage())
    chart.grab()
    assert chart.marker() is None, "no layer is named"


def test_wheel_zooms_around_the_pointer_and_back(chart: HeadroomChart) -> None:
    wheel(chart, 1000, 480)
    assert chart.zoom > 1.9
    wheel(chart, 1000, -960)
    assert chart.zoom == 1.0


def test_drag_pans_only_when_zoomed(chart: HeadroomChart) -> None:
    wheel(chart, 100, 480)
    before = chart._pan
    QTest.mousePress(chart, Qt.MouseButton.LeftButton, pos=QPoint(600, 150))
    at = QPointF(400, 150)
    chart.mouseMoveEvent(
        QMouseEvent(
            QEvent.Type.MouseMove,
            at,
            chart.mapToGlobal(at),
            Qt.MouseButton.NoButton,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
    )
    assert chart._pan > before


def test_the_disc_of_a_healed_block_is_not_red_after_the_cure() -> None:
    block = LayerPeak(
        component="vae", module="decoder.mid_block.resnets.0", kind="ResnetBlock2D", peak=70_000.0, peak_after=900.0
    )
    plan = kit.report().plan
    finding = msgspec.structs.replace(kit.report().findings[0], module=block.module, peak=block.peak)
    data = build((block,), "float16", (finding,), plan)
    frame = frame_for(data, 900.0, 300.0, compact=False)
    boxes = lay_out(data, 32.0, 800.0, 5.4, 11.0, after=True)
    assert [disc.tone for disc in place_discs(frame, data, boxes, after=True)] == ["unknown"]
    assert [disc.tone for disc in place_discs(frame, data, boxes, after=False)] == ["chart.limit"]


def test_a_click_on_a_disc_selects_the_finding(chart: HeadroomChart) -> None:
    spy = QSignalSpy(chart.finding_selected)
    disc = next(disc for disc in chart._discs if disc.number == 4)
    QTest.mouseClick(chart, Qt.MouseButton.LeftButton, pos=QPoint(round(disc.x), round(disc.y)))
    assert spy.count() == 1
    assert spy.at(0) == [4]


def test_arrow_keys_go_layer_by_layer_and_say_so(chart: HeadroomChart) -> None:
    QTest.keyClick(chart, Qt.Key.Key_Right)
    assert "text_encoder.text_model.encoder.layers.0.mlp.fc1" in chart.accessibleDescription()
    QTest.keyClick(chart, Qt.Key.Key_End)
    assert "vae.decoder.conv_out" in chart.accessibleDescription()
    QTest.keyClick(chart, Qt.Key.Key_Home)
    assert "layers.0.mlp.fc1" in chart.accessibleDescription()
    QTest.keyClick(chart, Qt.Key.Key_Escape)
    assert chart.accessibleDescription() == chart.summary()


def test_enter_on_a_layer_with_a_finding_selects_it(chart: HeadroomChart) -> None:
    spy = QSignalSpy(chart.finding_selected)
    chart._go_to(chart.data.marks[0].layer)
    QTest.keyClick(chart, Qt.Key.Key_Return)
    assert spy.at(0) == [1]


def test_a_screen_reader_meets_a_chart_with_its_finding_in_words(chart: HeadroomChart) -> None:
    met = QAccessible.queryAccessibleInterface(chart)
    assert met is not None
    assert met.role() == QAccessible.Role.Chart
    assert met.text(QAccessible.Text.Name) == "Headroom by layer"
    said = met.text(QAccessible.Text.Description)
    assert said == chart.summary()
    assert "above the FP16 limit, in VAE decoder" in said
    QTest.keyClick(chart, Qt.Key.Key_End)
    assert "vae.decoder.conv_out" in met.text(QAccessible.Text.Description)
    other = QLabel("no chart")
    plain = QAccessible.queryAccessibleInterface(other)
    assert plain is not None
    assert plain.role() == QAccessible.Role.StaticText


def test_the_summary_says_how_many_are_above_and_where(chart: HeadroomChart) -> None:
    over = sum(1 for layer in chart.data.layers if layer.exp > math.log2(65504))
    assert chart.accessibleName() == "Headroom by layer"
    summary = f"1\u202f818 layers, {over} above the FP16 limit, in VAE decoder"
    assert chart.summary().startswith(summary)
    chart.set_after(True)
    assert ", 0 above the FP16 limit" in chart.summary()


def test_after_an_upcast_the_limit_is_that_of_the_new_type() -> None:
    upcast = kit.report().cures[1].plan
    data = build(kit.layers(), "float16", plan=upcast)
    inside = [layer for layer in data.layers if layer.module.startswith("decoder.up_blocks.2")]
    assert {layer.dtype_after for layer in inside} == {"float32"}
    before, after = headroom_chart_text.summary(data, after=False), headroom_chart_text.summary(data, after=True)
    assert "above the FP16 limit" in before
    assert before != after
    said = [headroom_chart_text.cure_label(part, "float16") for part in data.parts]
    changed = sum(1 for layer in data.layers if layer.changed)
    assert [words for words in said if words] == [f"cure: {changed} layers in FP32"]


def test_what_was_not_measured_under_the_cure_is_not_taken_for_it() -> None:
    report = kit.report()
    layers = [LayerPeak(component="vae", module="decoder", kind="Decoder", peak=200_000.0), *report.layers]
    data = build(layers, "float16", plan=report.plan)
    layer = next(one for one in data.layers if one.module == "decoder")
    assert layer.exp_after == -math.inf
    assert headroom_chart_text.room_text(layer, "float16", after=True) == "not measured"
    assert ", 0 above the" in headroom_chart_text.summary(data, after=True)


def test_hover_names_layer_peak_and_room(chart: HeadroomChart) -> None:
    disc = next(disc for disc in chart._discs if disc.number == 1)
    column = chart._column_at(disc.x)
    assert column is not None
    title, numbers = chart._hover_lines(column)[:2]
    assert title.startswith("vae.decoder.up_blocks")
    assert "room \u2212" in numbers


def test_a_far_limit_is_named_and_not_drawn(qtbot: QtBot) -> None:
    made = HeadroomChart()
    qtbot.addWidget(made)
    made.set_layers(kit.layers(), "bfloat16")
    made.resize(900, 300)
    assert not made.grab().isNull()
    assert ", 0 above the BF16 limit, 0 tight" in made.summary()


def painted(layers: Sequence[LayerPeak], dtype: DType) -> tuple[list[tuple[str, float, float]], Frame, Sequence[PartBox]]:
    """(what a chart writes, in pieces, with left end and base line of each; where the bars stand; the bars)."""
    data = build(layers, dtype)
    frame = frame_for(data, 900, 300, compact=False)
    boxes = lay_out(data, frame.plot.left(), frame.plot.width(), 5.4, 11.0, after=False)
    file = QBuffer()
    file.open(QIODevice.OpenModeFlag.WriteOnly)
    page = QSvgGenerator()
    page.setOutputDevice(file)
    painter = QPainter(page)
    paint_base(painter, frame, data, boxes, after=False, share=1.0)
    painter.end()
    texts = ElementTree.fromstring(bytes(file.data().data()).decode()).iter("{http://www.w3.org/2000/svg}text")
    return [(one.text or "", float(one.attrib["x"]), float(one.attrib["y"])) for one in texts], frame, boxes


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_limit_that_is_not_on_the_chart_is_told_and_not_drawn_on_it(qapp: QApplication, dtype: DType) -> None:
    said = "".join(piece for piece, _, _ in painted(kit.layers(over=False), dtype)[0])
    name, bits = ("FP32", 24) if dtype == "float32" else ("BF16", 8)
    assert f"{name} reaches 2\u00b9\u00b2\u2078 and keeps {bits} bits (FP16: 11)." in said
    assert "limit" not in said


def test_the_words_where_fp16_would_end_stand_beside_the_bars_that_pass_it(qapp: QApplication) -> None:
    tall = [LayerPeak(component="text_encoder", module=f"a{n}", kind="Linear", peak=2.0**18) for n in range(40)]
    low = [LayerPeak(component="unet", module=f"b{n}", kind="Linear", peak=2.0**5) for n in range(300)]
    said, frame, boxes = painted([*tall, *low], "float32")
    ((left, base),) = [(left, base) for piece, left, base in said if piece.startswith("FP16 ends at ")]
    bars = [column.x + column.width for box in boxes for column in box.columns if column.top.exp > 16]
    assert left > max(bars)
    assert abs(base - frame.y(16)) < 20


def test_peaks_that_are_no_numbers_are_drawn_and_said(qtbot: QtBot) -> None:
    made = HeadroomChart()
    qtbot.addWidget(made)
    layers = [
        LayerPeak(component="unet", module=name, kind="Linear", peak=peak)
        for name, peak in (("a", math.inf), ("b", math.nan), ("c", 0.0))
    ]
    made.set_layers(layers)
    made.resize(400, 240)
    assert not made.grab().isNull()
    assert "2 above the FP16 limit" in made.summary()


def test_it_waits_before_it_repaints(chart: HeadroomChart) -> None:
    chart.set_layers(kit.layers()[:10], "float16", share=0.1)
    assert chart._cache is not None
    assert chart._timer.isActive()
    chart.flush()
    assert chart._cache is None


@pytest.mark.parametrize("size", [100, 150, 200])
def test_the_words_below_the_bars_have_their_height_in_every_text_size(qapp: QApplication, size: int) -> None:
    report = kit.report()
    theme.set_text_size(size)
    try:
        frame = frame_for(build(report.layers, "float16", report.findings, report.plan), 900.0, 360.0, compact=False)
        line = QFontMetricsF(theme.current().font("caption")).height()
        assert frame.plot.bottom() + 7 + theme.grown(18) + line <= 361.0
    finally:
        theme.set_text_size(100)
