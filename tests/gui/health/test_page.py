"""The Health page, state by state; every control does what it says."""

import json
import math
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QFileDialog, QLabel, QToolButton
from pytestqt.qtbot import QtBot
from tests.gui.health import kit

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import CheckReport, Finding, FurtherLayer, LayerPeak, RepairReport
from halftone.contract.messages import Cancel, Examine, FindingMade, LayersMeasured, PhaseChanged, Repair
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import FLOAT_LIMITS
from halftone.gui import theme
from halftone.gui.create.form.model_part import ModelPart
from halftone.gui.device.device_page import DevicePage
from halftone.gui.health import file_dialogs, health_text, health_view
from halftone.gui.health.finding_and_cure_cards import _no_cure_words, copy_refusal
from halftone.gui.health.health_page import HealthPage
from halftone.gui.health.verdict_and_chart_cards import FigureLabel
from halftone.gui.i18n import set_language
from halftone.gui.kit import figures
from halftone.gui.settings.settings_page import SettingsPage
from halftone.gui.text import notice_message
from halftone.library import records
from halftone.session.state import Found
from halftone.settings.store import Settings

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support propagateSizeHints")
"""What the offscreen platform says of every window with a minimum size."""


def open_page(
    qtbot: QtBot, report: CheckReport | None = None, size: tuple[int, int] = (1440, 830), **more: object
) -> tuple[HealthPage, kit.NotingLink]:
    controller, link = kit.desk(report=report, self_test=kit.measured(), **more)  # pyright: ignore[reportArgumentType]
    page = HealthPage(controller)
    qtbot.addWidget(page)
    page.resize(*size)
    page.show()
    page.refresh()
    return page, link


def test_the_report_is_named_by_the_words_of_the_model() -> None:
    report = kit.report()
    for name, file in (
        ("Fragile Pocket (demo)", "fragile-pocket-demo-health"),
        ("日本 v1.5", "日本-v1-5-health"),
        ("()", "health"),
    ):
        named = msgspec.structs.replace(report, model=msgspec.structs.replace(report.model, name=name))
        assert file_dialogs.report_name(named) == file


def test_the_distance_of_a_cures_picture_is_one_figure_wherever_it_is_read() -> None:
    cure = next(cure for cure in kit.report().cures if cure.kind == "rescale")
    visible, hardly, none = "possibly visible difference", "barely visible difference", "no visible difference"
    for psnr, words, seen in (
        (39.6, "40\u00a0dB", visible),
        (40.4, "40\u00a0dB", visible),
        (59.0, "59\u00a0dB", hardly),
        (82.1, "82\u00a0dB", none),
    ):
        made = msgspec.structs.replace(cure, psnr=psnr)
        assert health_text.price_picture(made) == words
        told = f"{words.replace(chr(0xA0), ' ')} against FP32: {seen}."
        assert told in health_text.cure_tooltip(made).replace("\u00a0", " ")
        assert health_text.cure_spoken(made, "FP16").endswith(f"{words}, {seen}")


def test_a_part_that_is_only_tight_is_said_to_be() -> None:
    name, limit = kit.report().layers[0], FLOAT_LIMITS["float16"]

    def layer(component: str, peak: float) -> LayerPeak:
        return msgspec.structs.replace(name, component=component, module=f"{component}.a", peak=peak, peak_after=None)

    over, tight, fine = layer("vae", limit * 3), layer("unet", limit * 0.9), layer("text_encoder", 2.0)
    shown = ((over, tight, fine), (over, fine), (tight, fine))
    captions = [health_view.figures_of(layers, "float16")[3].caption for layers in shown]
    assert captions == ["parts affected, 1 only tight", "parts affected", "parts affected"]


def test_the_check_in_another_precision_is_shown_and_repeated_on_request(qtbot: QtBot) -> None:
    settings = Settings(last_model=kit.MODEL.id, numerics=Numerics(precision="float32"))
    page, link = open_page(qtbot, kit.report(), settings=settings)
    assert page.verdict.show_other.text().strip() == "Show the FP16 check"
    page.verdict.show_other.click()
    assert page.view.report == kit.report()
    assert page.verdict.show_other.isHidden()
    assert page._controller.precision[0] == "float32", "pictures run as before"
    page.header.again.main.click()
    sent = link.sent[-1]
    assert isinstance(sent, Examine)
    assert sent.numerics.precision == "float16"
    as_used = next(action for action in page.header.again.menu.actions() if action.text() == "Same as pictures: FP32")
    as_used.trigger()
    assert page.view.report is None


def test_a_check_after_which_auto_takes_another_precision_stays_in_sight(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    assert page._controller.precision[0] == "float16"
    page.start_check()
    found = kit.report()
    cures = tuple(msgspec.structs.replace(cure, suggested=cure.kind == "float32-component") for cure in found.cures)
    found = msgspec.structs.replace(found, cures=cures, applied=False)
    kit.end(link, kit.examine_of(link).job, report=found)
    assert page._controller.precision[0] == "bfloat16", "no cure keeps all of it in FP16"
    page.refresh()
    assert page.view.report == found


def test_a_check_in_another_precision_is_not_denied(qtbot: QtBot) -> None:
    settings = Settings(last_model=kit.MODEL.id, numerics=Numerics(precision="float32"))
    page, _ = open_page(qtbot, kit.report(), settings=settings)
    assert page.verdict.title() == "Checked in FP16, not in FP32 yet"
    badge = page._controller.session.checks.badge(kit.MODEL)
    assert (badge.state, str(badge.reason)) == ("unchecked", "Checked in FP16, not in FP32 yet.")
    part = ModelPart(page._controller)
    qtbot.addWidget(part)
    assert part.note.text() == "Checked in FP16, not in FP32 yet."
    set_language("zh_CN")
    part.refresh()
    set_language("en")
    assert part.note.text() == "已在 FP16 中检查，尚未在 FP32 中检查。"


def test_unchecked_offers_the_check(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    assert page.view.state == "unchecked"
    assert page.verdict.title() == "Not checked on this GPU yet"
    assert page.verdict._check.isVisible()
    assert not page.cure.apply.isVisible()
    assert not page.cure.export.isEnabled()
    page.verdict._check.click()
    command = kit.examine_of(link)
    assert (command.model, command.depth, command.device, command.plan) == (kit.MODEL.id, "quick", "cuda:0", None)


def test_what_others_met_is_a_quiet_row_that_opens_before_and_after_a_check(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    assert page.known.isVisible()
    assert page.known.head.words() == "2 reports from other users"
    assert not page.known.body.isVisible()
    page.known.head.click()
    said = [one.text() for one in page.known.body.findChildren(QLabel)]
    assert said[0].startswith("The SDXL VAE decoder overflows in FP16")
    assert "diffusers #4325" in said[1]
    assert said[1].endswith("cause found")
    page.known.head.click()
    assert not page.known.body.isVisible()
    after, _ = open_page(qtbot, kit.report())
    assert after.known.isVisible()
    assert "#4325" not in "".join(row.title for row in after.findings.view.rows._rows), "it is no finding"


def test_where_nothing_is_known_there_is_no_row(qtbot: QtBot) -> None:
    model = msgspec.structs.replace(kit.MODEL, family="Stable Diffusion 1.x", components=("unet",))
    page, _ = open_page(qtbot, models=(model,))
    assert not page.known.isVisible()


def test_on_a_processor_the_words_say_so(qtbot: QtBot) -> None:
    controller, _ = kit.desk(kit.CPU, self_test=kit.measured(kit.CPU))
    page = HealthPage(controller)
    qtbot.addWidget(page)
    assert page.verdict.title() == "Not checked on this processor yet"


def test_overflow_shows_verdict_figures_findings_and_cures(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report())
    assert page.view.state == "overflows"
    assert page.verdict.title() == "FP16 turns some pictures black on this GPU"
    assert page.verdict.property("card") == "danger"
    captions = [figure.caption for figure in page.view.figures]
    assert captions[0] == "layers overflow"
    assert page.view.figures[2].value.startswith("\u2212")
    rows = page.findings.view.rows
    assert rows.rowCount() == 5
    assert rows.row(0).badge == "Overflows"
    assert rows.row(3).badge == "Tight"
    assert rows.row(4).badge == "Fine"
    assert [row.isEnabled() for row in page.cure.cures.rows] == [True, True, True, False]
    assert page.cure.cures.rows[0].isChecked()
    assert "Rescale in memory" in page.cure.cures.rows[0].accessibleName()
    assert "Memory is calculated, not measured." in page.cure.cures.rows[1].toolTip()
    assert page.header._checked.accessibleName().startswith("Checked 12\u00a0May")


def test_a_refused_cure_says_why(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report())
    refused = page.cure.cures.rows[3]
    assert not refused.isEnabled()
    assert "NaN or infinity" in refused.toolTip()
    assert "NaN or infinity" in refused.accessibleName()


def test_prices_that_were_not_measured_say_so(qtbot: QtBot) -> None:
    report = kit.report()
    unpriced = [msgspec.structs.replace(cure, time_ratio=None, psnr=None) for cure in report.cures[1:]]
    first = msgspec.structs.replace(report.cures[0], time_ratio=1.0)
    page, _ = open_page(qtbot, msgspec.structs.replace(report, cures=(first, *unpriced)))
    assert "not measured" in page.cure.legend.text()
    assert page.cure.legend.isVisibleTo(page)
    assert "Time Not measured" in page.cure.cures.rows[1].accessibleName()
    assert "Time ≈" in page.cure.cures.rows[0].accessibleName()
    page, _ = open_page(qtbot, msgspec.structs.replace(report, cures=(first,)))
    assert not page.cure.legend.isVisibleTo(page)


def test_apply_stores_the_chosen_plan_and_checks_again(qtbot: QtBot) -> None:
    report = kit.report()
    page, link = open_page(qtbot, report)
    page.cure.cures.rows[1].click()
    page.cure.apply.click()
    qtbot.waitUntil(lambda: not page._controller.background.busy)
    command = kit.examine_of(link)
    assert command.plan == report.cures[1].plan
    stored = records.load_report(kit.MODEL, kit.GPU, "float16")
    assert stored is not None
    assert stored.applied
    assert stored.plan == report.cures[1].plan
    page.refresh()
    assert page.view.state == "checking"
    assert page.verdict.title() == "Checking the cure"
    kit.end(link, command.job, report=msgspec.structs.replace(report, verdict="healthy", plan=report.cures[1].plan, cures=()))
    page.refresh()
    assert page.view.state == "cured"
    assert page.verdict.title() == "Cured: no layer overflows"
    assert page.cure.apply.words() == "Cure in use"
    assert not page.cure.apply.isEnabled()
    assert page.chart.when.value() == "after"


def test_undo_takes_the_cure_back(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report(applied=True))
    assert page.view.state == "cured"
    page.verdict._undo.click()
    qtbot.waitUntil(lambda: not page._controller.background.busy)
    page.refresh()
    assert page.view.state == "overflows"
    stored = records.load_report(kit.MODEL, kit.GPU, "float16")
    assert stored is not None
    assert not stored.applied


def test_cured_figures_are_those_under_the_cure(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report(applied=True))
    assert page.view.figures[0].value.startswith("0 of")


def test_findings_of_a_cured_model_are_history(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report(applied=True))
    rows = page.findings.view.rows
    first = rows.row(0)
    assert (first.badge, first.tone) == ("Cured", "unknown")
    assert (first.peak, first.peak_caption) == ("17\u202f240", "was 275\u202f800")
    assert (first.room, first.room_caption, first.room_tone) == ("1.9 bits", "was \u22122.1 bits", "warn")
    assert first.details[0].startswith("Before the cure: VAE decoder")
    assert first.details[-1] == "Fixed by the cure in use."
    assert not any("Apply the cure" in line or "becomes infinity" in line for line in first.details)
    assert rows.row(3).badge == "Tight", "the cure did not touch it"
    assert rows.row(3).details[-1] != first.details[-1]
    assert page.findings._count.text() == "Before the cure: 3 overflow · 1 tight"
    image = page.findings.view.grab().toImage()
    pixels = {image.pixelColor(x, y).rgb() for x in range(0, image.width(), 2) for y in range(0, 3 * 53, 2)}
    assert theme.current().color("danger").rgb() not in pixels
    assert theme.current().color("chart.limit").rgb() not in pixels


def test_a_finding_that_no_cure_reaches_keeps_its_own_words_beside_a_cure(qtbot: QtBot) -> None:
    unread = Finding(
        code="weights-nonfinite",
        component="vae",
        module="encoder.conv_in",
        dtype="float16",
        peak=None,
        limit=None,
        facts={"file": "m.safetensors", "tensor": "encoder.conv_in.weight", "count": 1, "read": False},
    )
    page, _ = open_page(qtbot, kit.report(applied=True, findings=(unread, *kit.report().findings)))
    rows = page.findings.view.rows
    assert (rows.row(0).badge, rows.row(0).past) == ("Damaged", False)
    assert rows.row(1).badge == "Cured"


def test_a_finding_that_the_cure_left_unmeasured_shows_only_what_was(qtbot: QtBot) -> None:
    layers = [msgspec.structs.replace(one, peak_after=1.0 if one.component == "unet" else None) for one in kit.layers()]
    page, _ = open_page(qtbot, kit.report(applied=True, layers=tuple(layers)))
    first = page.findings.view.rows.row(0)
    assert (first.badge, first.peak, first.peak_caption) == ("Cured", "275\u202f800", "before the cure")


def test_a_smaller_window_keeps_the_place_and_scrolls_only_once(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report(applied=True, findings=kit.report().findings * 4))
    page.cure.export.setFocus()
    page.resize(1024, 570)
    bar = page._scroll.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    assert bar.value() == 0, "the verdict stays in sight"
    assert page.focusWidget() is page.cure.export
    inner = page.findings.view.verticalScrollBar()
    qtbot.waitUntil(lambda: inner.maximum() == 0)
    page.findings.view.toggle(0)
    qtbot.waitUntil(lambda: page.findings.height() > page.findings.view.rows.rowCount() * 53 + 60)
    qtbot.waitUntil(lambda: inner.maximum() == 0)


def test_the_chart_fills_while_a_check_runs_and_cancel_stops_it(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    page.start_check("thorough")
    command = kit.examine_of(link)
    assert command.depth == "thorough"
    link.tell(PhaseChanged(job=command.job, phase="range", done=900, total=1818))
    link.tell(LayersMeasured(job=command.job, layers=kit.layers()[:900], done=900, total=1818))
    link.tell(FindingMade(job=command.job, finding=kit.report().findings[3]))
    page.refresh()
    assert page.view.state == "checking"
    assert page.view.share == pytest.approx(900 / 1818)
    assert len(page.chart.chart.data.layers) == 900
    assert page.findings.view.rows.rowCount() == 1
    assert page.verdict._bar.isVisible()
    assert not page.header.again.isVisible()
    page.verdict._cancel.click()
    assert link.last(Cancel) == Cancel(job=command.job)
    kit.end(link, command.job, "cancelled")
    page.refresh()
    assert page.view.state == "stopped"
    assert page.verdict.property("card") == "unknown", "to stop a check is no error"
    assert page.verdict.title() == "Check stopped"
    assert len(page.view.layers) == 900
    assert page.header._checked.accessibleName() == "Not finished"


def test_a_check_that_the_user_stopped_leaves_the_last_report_and_its_cure(qtbot: QtBot) -> None:
    page, link = open_page(qtbot, kit.report(applied=True))
    assert page.view.state == "cured"
    page.start_check()
    job = kit.examine_of(link).job
    link.tell(LayersMeasured(job=job, layers=kit.layers()[:900], done=900, total=1818))
    kit.end(link, job, "cancelled")
    page.refresh()
    assert page.view.state == "cured"
    assert page.view.cures
    assert page.view.figures[0].value.startswith("0 of")


@pytest.mark.parametrize("louder", [False, True])
def test_every_place_counts_the_same_layers(qtbot: QtBot, louder: bool) -> None:
    """A block that hands on what a layer in it made passes the limit because of that: one layer. One whose own sum is larger
    counts, and its finding names the peak that the verdict tells.
    """
    report = kit.report()
    over = [layer for layer in report.layers if layer.peak > 65504]
    inside = max(layer.peak for layer in over if layer.module.startswith("decoder.up_blocks.2."))
    peak = 4 * inside if louder else inside
    block = LayerPeak(component="vae", module="decoder.up_blocks.2", kind="UpDecoderBlock2D", peak=peak)
    findings = [msgspec.structs.replace(report.findings[0], module=layer.module, peak=layer.peak) for layer in over]
    if louder:
        further = (FurtherLayer(module=block.module, peak=block.peak),)
        findings[-1] = msgspec.structs.replace(findings[-1], further=further)
    counted = msgspec.structs.replace(report, layers=(*report.layers, block), findings=tuple(findings))
    page, _ = open_page(qtbot, counted)
    count = len(over) + louder
    assert page.view.figures[0].value.startswith(f"{count} of")
    assert page.view.text.startswith(f"{count} layers of the VAE decoder")
    assert page.findings._count.text() == f"{count} overflow"
    assert page.view.figures[1].value == figures.peak(max(layer.peak for layer in counted.layers))


def test_a_failed_check_keeps_what_was_measured_and_can_be_repeated(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    page.start_check()
    job = kit.examine_of(link).job
    link.tell(LayersMeasured(job=job, layers=kit.layers()[:50], done=50, total=1818))
    kit.end(link, job, "failed", error=ErrorFacts(code="device-lost", facts={"device": "cuda:0", "detail": "reset"}))
    page.refresh()
    assert page.verdict.title() == "Check failed"
    assert "cuda:0 stopped responding" in page.verdict.text()
    assert page.chart._mark.text() == "Not finished"
    page.verdict._copy.click()
    assert "RTX 3060" in QGuiApplication.clipboard().text()
    assert "/models" not in QGuiApplication.clipboard().text()
    page.verdict._again.click()
    assert kit.examine_of(link).job != job


def test_stale_says_what_changed_and_offers_no_cure(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report(numerics=Numerics(fp16_accumulation=True)))
    assert page.view.state == "stale"
    assert "FP16 accumulation" in page.verdict.text()
    assert not page.cure.apply.isEnabled()
    assert not page.cure.copy.isEnabled()
    assert page.verdict._check.words().startswith("Check again")


def test_broken_names_the_tensors_and_offers_nothing(qtbot: QtBot) -> None:
    finding = Finding(
        code="weights-nonfinite", component="unet", module="down_blocks.0.conv", dtype="float16", peak=None, limit=None
    )
    page, _ = open_page(qtbot, kit.report(verdict="broken", findings=(finding,)))
    assert page.view.state == "broken"
    assert "unet.down_blocks.0.conv" in page.verdict.text()
    assert not page.cure.apply.isVisible()
    assert page.findings.view.rows.row(0).badge == "Damaged"


def test_a_damaged_lora_is_told_as_that_and_not_as_a_damaged_model(qtbot: QtBot) -> None:
    facts: dict[str, str | int | float | bool] = {"lora": "glow", "file": "glow.safetensors", "tensor": "up", "read": True}
    finding = Finding(code="weights-nonfinite", component="unet", module="m", dtype="float16", peak=None, limit=None, facts=facts)
    page, _ = open_page(qtbot, kit.report(verdict="broken", findings=(finding,), cures=()))
    assert page.verdict.title() == "The LoRA glow is damaged"
    assert "the LoRA is damaged" in _no_cure_words(page.view)
    assert "Download the file again" not in page.verdict.text() + _no_cure_words(page.view)


def test_healthy_and_tight(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.healthy())
    assert page.verdict.title() == "Healthy in FP16 on this GPU"
    assert page.cure._empty.text() == "No cure is needed."
    tight = kit.report(verdict="tight", findings=kit.report().findings[3:], layers=kit.layers(over=False))
    page, _ = open_page(qtbot, tight)
    assert page.verdict.title() == "Works in FP16, with little headroom"
    assert page.cure.apply.isEnabled()


def test_a_check_in_float32_tells_what_float16_would_meet() -> None:
    def said(*exponents: float) -> str:
        measured = [LayerPeak(component="vae", module=f"m{n}", kind="Conv2d", peak=2.0**exp) for n, exp in enumerate(exponents)]
        return health_view.of_report(kit.in_float32(measured), None).text.replace("\u202f", "")

    assert said(3, 10).endswith(" of headroom in every layer. In FP16, no layer would overflow.")
    assert said(3, 17).endswith("In FP16, 1 layer would overflow.")
    assert said(3, 17, 18, 16.1).endswith("In FP16, 3 layers would overflow.")
    assert "would" not in health_view.of_report(kit.healthy(), None).text


def test_a_missing_model_says_so(qtbot: QtBot) -> None:
    controller, _ = kit.desk(settings=Settings(last_model="/gone"))
    controller.session.models.show(Found({}, {"/gone": ErrorFacts(code="model-missing", facts={"path": "/gone"})}, {}, {}))
    page = HealthPage(controller)
    qtbot.addWidget(page)
    assert page.verdict.title() == "There is no model at /gone."


def test_findings_and_chart_select_each_other(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report())
    view = page.findings.view
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Down)
    assert page.chart.chart._selected == 2
    page.chart.chart.finding_selected.emit(3)
    assert view.selected_number() == 3


def test_enter_opens_the_details_of_a_finding(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report())
    view = page.findings.view
    before = view.sizeHintForRow(0)
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert view.sizeHintForRow(0) > before
    row = view.rows.row(0)
    assert any("the FP16 limit" in line for line in row.details)


def test_after_the_cure_zoom_and_table(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report())
    page.chart.when.button("after").click()
    assert ", 0 above the" in page.chart.chart.summary()
    page.chart.chart.grab()
    page.chart.zoom.click()
    assert page.chart.chart.zoom > 1.0
    page.chart.as_table.click()
    assert page.chart._stack.currentWidget() is page.chart.table
    table = page.chart.table
    model = table.model()
    assert model.rowCount() == 1818
    table.sortByColumn(4, Qt.SortOrder.DescendingOrder)
    assert str(model.index(0, 1).data()) == "vae"


def test_the_model_menu_looks_at_another_model_without_changing_create(qtbot: QtBot) -> None:
    other = msgspec.structs.replace(kit.MODEL, id="/models/other", name="Other", path="/models/other", fingerprint="beef")
    page, _ = open_page(qtbot, kit.report(), models=(kit.MODEL, other))
    page.header.menu.aboutToShow.emit()
    words = [action.text() for action in page.header.menu.actions() if action.isCheckable()]
    assert words == ["Meridian XL 2.1  ·  Overflows", "Other  ·  Not checked"]
    page.header.menu.actions()[1].trigger()
    assert page.model == other
    assert page.view.state == "unchecked"
    assert page._controller.settings.last_model == kit.MODEL.id


def test_check_again_and_its_menu(qtbot: QtBot) -> None:
    page, link = open_page(qtbot, kit.report())
    page.header.again.main.click()
    assert kit.examine_of(link).depth == "quick"
    page.cancel_check()
    kit.end(link, kit.examine_of(link).job, "cancelled")
    page.header.again.menu.actions()[1].trigger()
    assert kit.examine_of(link).depth == "thorough"


def test_save_repaired_copy_asks_where_and_reports(qtbot: QtBot) -> None:
    page, link = open_page(qtbot, kit.report())
    page.cure.copy.click()
    dialog = page.findChild(QFileDialog)
    assert dialog is not None
    assert dialog.selectedFiles()[0].endswith("meridian-rescaled-fp16")
    dialog.fileSelected.emit("/models/meridian-rescaled-fp16")
    dialog.close()
    command = link.last(Repair)
    assert isinstance(command, Repair)
    assert command.output == "/models/meridian-rescaled-fp16"
    page.refresh()
    assert page.cure.note.text().startswith("Writing the repaired copy")
    assert not page.cure.apply.isEnabled()
    done = RepairReport(path=command.output, changed_tensors=70, float32_error=0.0, float16_finite=True, seconds=3.0)
    kit.end(link, command.job, report=done)
    page.refresh()
    assert "70 tensors changed" in page.cure.note.text()
    assert "No NaN in FP16." in page.cure.note.text()
    said = notice_message(page._controller.state.notices[-1])
    assert said.title == "Saved as meridian-rescaled-fp16."
    assert "No NaN in FP16." in said.text
    assert [act.key for act in said.actions] == ["show-file"]


def test_no_copy_without_an_exact_rescaling() -> None:
    from halftone.gui.health import health_view

    report = kit.report()
    view = health_view.of_report(msgspec.structs.replace(report, cures=report.cures[1:]), None)
    assert copy_refusal(view).startswith("Only a rescaling can be saved")


def test_a_model_of_several_files_is_not_copied() -> None:
    assert copy_refusal(health_view.of_report(kit.report(), None)) == ""
    several = msgspec.structs.replace(kit.MODEL, parts={"vae": "/m/vae.safetensors"})
    assert copy_refusal(health_view.of_report(kit.report(several), None)) == "The model consists of several files."


def test_numbers_of_an_exported_report_are_finite_or_null() -> None:
    from halftone.health.reports.report_page import as_json

    report = kit.report()
    cures = tuple(msgspec.structs.replace(cure, psnr=math.inf) for cure in report.cures)
    layers = (msgspec.structs.replace(report.layers[0], peak=math.inf), *report.layers[1:])
    data = json.loads(as_json(msgspec.structs.replace(report, cures=cures, layers=layers)), parse_constant=pytest.fail)
    assert all(cure.get("psnr") is None for cure in data["cures"])


def test_export_writes_json_and_a_page_without_paths(qtbot: QtBot, tmp_path: Path) -> None:
    page, _ = open_page(qtbot, kit.report())
    page.cure.export.click()
    dialog = page.findChild(QFileDialog)
    assert dialog is not None
    dialog.fileSelected.emit(str(tmp_path / "out.html"))
    dialog.close()
    qtbot.waitUntil(lambda: page.cure.note.text() != "")
    html, data = (tmp_path / "out.html").read_text("utf-8"), json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert "<svg " in html
    assert "What this device can do" in html
    assert "vae.decoder" in html
    assert "/models" not in html
    assert data["model"]["path"] == "meridian"
    assert page.cure.note.text().startswith("Report saved")
    assert [notice.kind for notice in page._controller.state.notices] == ["saved"], "the note may be out of sight"


@pytest.mark.parametrize(("asked", "beside"), [("notes.html", "notes.json"), ("notes.json", "notes.html")])
def test_an_export_replaces_only_the_file_that_was_asked_about(qtbot: QtBot, tmp_path: Path, asked: str, beside: str) -> None:
    page, _ = open_page(qtbot, kit.report())
    (tmp_path / asked).write_text("OLD")
    (tmp_path / beside).write_text("MINE")
    page.writing.export(str(tmp_path / asked))
    qtbot.waitUntil(lambda: page.cure.note.text() != "")
    assert (tmp_path / beside).read_text() == "MINE"
    assert (tmp_path / asked).read_text("utf-8") != "OLD"
    free = (tmp_path / beside).with_stem("notes-2")
    assert free.stat().st_size > 1000
    assert free.name in page.cure.note.text()


def test_an_export_that_cannot_be_written_says_so(qtbot: QtBot, tmp_path: Path) -> None:
    page, _ = open_page(qtbot, kit.report())
    page.writing.export(str(tmp_path / "none" / "out.html"))
    qtbot.waitUntil(lambda: page.cure.note.text() != "")
    assert page.cure.note.text().startswith("Could not save: ")


def test_narrow_stacks_and_pins_the_buttons(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report(), size=(1024, 570))
    assert page.cure.buttons.parent() is page
    page.resize(1440, 830)
    assert page.cure.buttons.parent() is page.cure


def test_a_tall_narrow_page_leaves_its_spare_room_below_the_cards(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report(), size=(1024, 1500))
    rows = page.cure.cures.rows
    last = rows[-1].mapTo(page.cure, rows[-1].rect().bottomLeft()).y()
    assert page.cure.height() - last < 30


def test_where_no_cure_is_listed_the_words_stand_in_the_middle(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.healthy())
    words = page.cure._empty
    assert words.isVisible()
    assert abs(words.geometry().center().y() - page.cure.height() / 2) < page.cure.height() / 10


def test_the_figures_of_the_verdict_stand_in_one_line_in_chinese_too(qtbot: QtBot) -> None:
    set_language("zh_CN")
    try:
        page, _ = open_page(qtbot, kit.report())
        captions = [one._caption for one in page.verdict.findChildren(FigureLabel)]
        assert len(captions) == 4
        assert len({one.mapTo(page, QPoint()).y() for one in captions}) == 1
    finally:
        set_language("en")


CLIPPED = Finding(
    code="weights-clipped", component="unet", module="conv_in", dtype="float16", peak=65504.0, limit=65504.0,
    facts={"file": "m.safetensors", "tensor": "conv_in.weight", "count": 3, "read": True},
)  # fmt: skip


@pytest.mark.parametrize(
    ("applied", "state", "title"),
    [
        (False, "overflows", "FP16 turns some pictures black on this GPU; weights sit at the FP16 limit"),
        (True, "cured", "Cured: no layer overflows; weights sit at the FP16 limit"),
    ],
)
def test_a_cure_does_not_hide_numbers_at_the_limit(qtbot: QtBot, *, applied: bool, state: str, title: str) -> None:
    plain, _ = open_page(qtbot, kit.report(applied=applied))
    page, _ = open_page(qtbot, kit.report(applied=applied, findings=(*kit.report().findings, CLIPPED)))
    assert (page.view.state, page.view.title) == (state, title)
    assert plain.view.title == title.removesuffix("; weights sit at the FP16 limit")
    assert "probably clipped" in page.view.text
    assert page.view.text.endswith("Look for this model in BF16 or FP32.")


def test_a_file_with_numbers_at_the_limit_warns_and_says_what_to_do(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, msgspec.structs.replace(kit.healthy(), findings=(CLIPPED,)))
    assert page.view.state == "tight"
    assert page.view.title == "Works in FP16; weights sit at the FP16 limit"
    assert "probably clipped" in page.view.text
    assert page.view.text.endswith("Look for this model in BF16 or FP32.")
    page, _ = open_page(qtbot, msgspec.structs.replace(kit.healthy(), verdict="tight", findings=(CLIPPED,)))
    assert page.view.title == "Works in FP16, with little headroom"
    assert "close to the limit" in page.view.text
    assert page.view.text.endswith("Look for this model in BF16 or FP32.")


def test_trouble_that_is_not_the_models_warns_and_says_what_it_was() -> None:
    damage = Finding(code="memory-damage", component="vae", module="", dtype="float16", peak=None, limit=None)
    once = msgspec.structs.replace(damage, facts={"once": True})
    assert [health_text.finding_badge(one) for one in (damage, once)] == [
        ("Damaged", "warn", "triangle-alert"),
        ("One-off", "warn", "triangle-alert"),
    ]
    assert health_text.finding_title(damage).endswith(": weights damaged in memory")
    assert health_text.finding_title(once).endswith(": one wrong result")
    assert health_view.summary_of_findings([damage, once]) == "1 damaged · 1 other"


def test_what_is_cut_off_of_a_finding_stands_in_its_tooltip(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report())
    rows = page.findings.view.rows
    tip = rows.data(rows.index(0), Qt.ItemDataRole.ToolTipRole)
    assert tip == f"{rows.row(0).title}\n{rows.row(0).module}"


def test_every_button_has_a_name(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report())
    nameless = [made for made in page.findChildren(QAbstractButton) if not (made.text() or made.accessibleName())]
    assert [made for made in nameless if made.isVisibleTo(page)] == []
    assert "above the FP16 limit" in page.chart.chart.accessibleDescription()


def test_pages_that_are_gone_hear_nothing_more(qtbot: QtBot) -> None:
    controller, link = kit.desk(report=kit.report(), self_test=kit.measured())
    for kind in (HealthPage, DevicePage, SettingsPage):
        page = kind(controller)
        page.show()
        page.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    theme.set_theme("light")
    controller.session.devices.measure()
    job = controller.state.jobs[0].id
    kit.end(link, job, report=kit.measured())
    theme.set_theme("dark")
    assert job not in [left.id for left in controller.state.jobs], "the job ended, and no page that is gone stood in its way"


def test_progress_without_known_length_and_waiting(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    page.start_check()
    link.tell(PhaseChanged(job=kit.examine_of(link).job, phase="load", total=None, detail="unet"))
    page.refresh()
    assert page.verdict.text().startswith("Loading the model")
    assert isinstance(link.last(Examine), Examine)


def test_the_line_above_the_chart_says_what_the_cure_gives(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report())
    assert page.chart._sub.text() == "Layer peaks in running order, log scale"
    page.chart.when.button("after").click()
    assert page.chart._sub.text().startswith("0 of 1\u202f818 layers overflow, ")
    assert page.chart._sub.text().endswith(" bits headroom")
    page.chart.when.button("now").click()
    assert page.chart._sub.text() == "Layer peaks in running order, log scale"


def test_what_to_set_in_another_program_is_copied(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report())
    assert page.elsewhere.head.words() == "Use in another program…"
    assert not page.elsewhere.body.isVisible()
    page.elsewhere.head.click()
    qtbot.waitUntil(lambda: not page.elsewhere.body.visibleRegion().isEmpty())
    page.elsewhere.programs.button("a1111").click()
    first = page.elsewhere._rows.itemAt(0)
    entry = None if first is None else first.widget()
    assert entry is not None
    assert [one.text() for one in entry.findChildren(QLabel)] == ["A1111, Launch options: VAE decoder", "--no-half-vae"]
    entry.findChildren(QToolButton)[0].click()
    assert QGuiApplication.clipboard().text() == "--no-half-vae"


@pytest.mark.parametrize(("program", "layout", "name"), [("comfyui", "file", "x.safetensors"), ("diffusers", "folder", "x")])
def test_the_repaired_file_has_the_layout_of_the_program(qtbot: QtBot, program: str, layout: str, name: str) -> None:
    page, link = open_page(qtbot, kit.report())
    page.elsewhere.head.click()
    page.elsewhere.programs.button(program).click()
    page.elsewhere.file.click()
    dialog = page.findChild(QFileDialog)
    assert dialog is not None
    dialog.fileSelected.emit(f"/models/{name}")
    command = link.last(Repair)
    assert isinstance(command, Repair)
    assert (command.output, command.layout) == (f"/models/{name}", layout)
    page.refresh()
    assert not page.elsewhere.file.isEnabled(), "one at a time"
    dialog.close()


def test_no_file_is_offered_where_the_headers_do_not_allow_it(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot, kit.report())
    model = msgspec.structs.replace(kit.MODEL, format="diffusers", path="/nowhere")
    page.elsewhere.set_view(replace(page._view, report=kit.report(model)), busy=False)
    page.elsewhere.programs.button("comfyui").click()
    assert page.elsewhere.file.isHidden()
    page.elsewhere.programs.button("diffusers").click()
    assert not page.elsewhere.file.isHidden()


def test_another_program_waits_for_the_check(qtbot: QtBot) -> None:
    assert not open_page(qtbot)[0].elsewhere.isVisible()
