"""Create in the smallest window: what is cut off, what stays readable."""

from typing import Literal

import msgspec
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QApplication, QMenu, QStyle, QStyleOptionComboBox
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage, opened
from tests.helpers import samples, scripted

from halftone.contract.messages import Generate, JobStarted, PhaseChanged, StepDone
from halftone.contract.request import PictureRequest
from halftone.gui import theme
from halftone.gui.create.create_page import QUEUE_WIDTH
from halftone.gui.create.form.form_footer import WhyNot
from halftone.gui.create.form.model_picker import ModelCard, shortened
from halftone.gui.create.form.prompt_edit import PromptEdit
from halftone.gui.create.picture.progress_panel import TransportPanel
from halftone.gui.i18n import set_language
from halftone.gui.kit.stock_widgets import ElidedLabel
from halftone.gui.shell.topbar import TopBar
from halftone.session.state import Job

NEVER = (
    scripted.Say(event=JobStarted(kind="generate", plan=samples.PLAIN)),
    scripted.Say(event=PhaseChanged(phase="denoise", total=4)),
    scripted.Wait(path="/nowhere"),
)


def test_three_lines_fit_the_low_prompt_whether_typed_or_filled_in(qtbot: QtBot) -> None:
    theme.set_theme("dark")
    prompt = PromptEdit("Prompt", "", "")
    qtbot.addWidget(prompt)
    prompt.setFixedSize(252, 66)
    prompt.set_tight(True)
    prompt.show()
    for _ in range(2):
        prompt.setPlainText("one\ntwo\nthree")
        assert prompt.verticalScrollBar().maximum() == 0


@pytest.mark.parametrize(("line", "word"), [("FP16 · 20 MB", "Cured"), ("SDXL · FP16 · 6.9 GB", "")])
def test_a_compact_badge_has_its_word_where_there_is_room(qtbot: QtBot, line: str, word: str) -> None:
    theme.set_theme("dark")
    card = ModelCard("Pocket (demo)", line, "cured", "Headroom 2.1 bits.")
    assert card.badge_words(170, compact=True) == word
    assert not card.badge_below(170, compact=True), "it would be squeezed below the name"
    assert "Cured" in card.tooltip
    assert "cured" in card.spoken.lower()


@pytest.mark.parametrize(("name", "below"), [("Pocket (demo)", False), ("Fragile Pocket (demo)", True)])
def test_a_badge_gives_way_to_a_long_name(qtbot: QtBot, name: str, below: bool) -> None:
    theme.set_theme("dark")
    card = ModelCard(name, "Stable Diffusion 1.x · FP16 · 20 MB")
    assert card.badge_words(218) == "Not checked"
    assert card.badge_below(218) == below


@pytest.mark.parametrize(("width", "shown"), [(300, "Stable Diffusion 1.x · FP16 · 20 MB"), (107, "FP16 · 20 MB"), (50, "20 MB")])
def test_a_line_that_is_too_long_loses_whole_parts(qtbot: QtBot, width: int, shown: str) -> None:
    metrics = QFontMetrics(theme.current().font("caption"))
    assert shortened("Stable Diffusion 1.x · FP16 · 20 MB", metrics, width) == shown


def test_a_scroll_bar_moves_nothing(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    stage.window.resize(1440, 1500)
    bar = form.area.verticalScrollBar()
    stage.wait(lambda: bar.maximum() == 0)
    width, edge = form.width(), form.prompt.mapTo(form, QPoint(form.prompt.width(), 0)).x()
    stage.window.resize(1440, 730)
    stage.wait(lambda: bar.isVisible() and bar.maximum() > 0)
    assert form.width() == width
    assert form.prompt.mapTo(form, QPoint(form.prompt.width(), 0)).x() == edge
    assert bar.mapTo(form, QPoint(bar.width(), 0)).x() <= width, "it lies over the margin, inside the panel"
    assert bar.mapTo(form, QPoint()).x() >= edge, "and over nothing else"
    stage.close()


def test_the_narrow_queue_says_what_it_is_and_how_many_pictures_a_waiting_job_makes(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": list(NEVER)})
    page = stage.page
    stage.window.resize(1024, 640)
    page.form.batch.setValue(3)
    page.generate()
    stage.wait(lambda: stage.controller.state.running is not None)
    stage.wait(page.queue.pause.isHidden)
    stage.wait(lambda: page.queue.name.text() == "Queue")
    page.queue.more.click()
    menu = page.queue.findChild(QMenu)
    assert menu is not None
    menu.actions()[0].trigger()
    assert stage.controller.state.paused
    menu.close()
    page.generate()
    stage.wait(lambda: page.right.width() >= QUEUE_WIDTH)
    assert not page.queue.pause.isHidden(), "what waits can be read, so there is room for the button"
    assert page.queue.model.index(1).data(Qt.ItemDataRole.AccessibleTextRole).endswith("batch 3, random seed")
    assert page.form.more.property("kind") == "", "the arrow is no louder than Add to queue"
    stage.close()


def test_the_columns_come_back_when_the_window_is_wide_again(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    page, window = stage.page, stage.window

    def resize(width: int) -> None:
        window.resize(width, 900)
        stage.wait(lambda: page.width() == width)

    resize(1440)
    stage.wait(lambda: page.splitter.sizes()[0] == 336)
    wide = page.splitter.sizes()
    for chosen in (wide, [400, wide[1] - 64, wide[2]]):
        page.splitter.setSizes(chosen)
        kept = page.splitter.sizes()
        resize(1024)
        stage.wait(lambda: page.splitter.sizes()[0] == 280)
        left, _, right = page.splitter_state()["create"].split(",")
        assert (int(left), int(right)) == (kept[0], kept[2]), "a narrow window is not what the next start begins with"
        resize(1440)
        stage.wait(lambda kept=kept: page.splitter.sizes() == kept)
    stage.close()


def test_what_disables_generate_stands_beside_it_and_leads_to_the_field(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    stage.window.resize(1024, 640)
    assert form.footer.why_not.isHidden()
    form.size_field.width_box.setValue(1001)
    assert form.footer.why_not.text() == form.refusal() == "Use a multiple of 8, for example 1000."
    assert form.estimate.isHidden()
    bar = form.area.verticalScrollBar()
    opened(form.options_part)
    opened(form.variation_part)
    QApplication.processEvents()
    stage.wait(lambda: bar.maximum() > 0)
    bar.setValue(bar.maximum())
    stage.wait(lambda: form.size_field.width_box.visibleRegion().isEmpty())
    form.footer.why_not.click()
    stage.wait(lambda: not form.size_field.width_box.visibleRegion().isEmpty())
    assert form.size_field.width_box.hasFocus() or form.focusWidget() is form.size_field.width_box
    form.size_field.width_box.setValue(1000)
    assert form.footer.why_not.isHidden()
    assert not form.estimate.isHidden()
    stage.close()


def test_a_long_path_in_a_reason_is_not_cut(qtbot: QtBot) -> None:
    theme.set_theme("dark")
    why = WhyNot()
    qtbot.addWidget(why)
    why.resize(240, 18)
    why.say("/a/very/long/folder/without/any/blank/in/it/which/is/wider/than/the/panel/that/names/it.safetensors is not a LoRA.")
    assert why.height() >= 3 * QFontMetrics(theme.current().font("small")).height()
    shot = why.grab().toImage()
    lowest = {shot.pixel(x, y) for x in range(shot.width()) for y in range(shot.height() - 14, shot.height())}
    assert len(lowest) > 1, "the last line is painted"


def test_what_was_repaired_fits_above_the_peaks(qtbot: QtBot) -> None:
    theme.set_theme("dark")
    panel = TransportPanel()
    qtbot.addWidget(panel)
    panel.resize(894, 134)
    panel.show()
    steps = tuple(StepDone(step=number, steps=28, peak=1.0, finite=True, seconds=0.1) for number in range(1, 18))
    command = Generate(job="a", request=PictureRequest(prompt="a"))
    job = Job(id="a", command=command, title="a", phase="denoise", total=28, done=17, steps=steps, mended=(12,))
    panel.show_job(job, None)
    QApplication.processEvents()
    assert panel.finite.text() == "17 of 17 steps finite, step 12 repaired"
    panel.finite.setFixedWidth(80)
    QApplication.processEvents()
    assert panel.finite.text().endswith("…")
    assert panel.finite.toolTip() == "17 of 17 steps finite, step 12 repaired"


@pytest.mark.parametrize(("text_size", "width"), [(100, 1024), (150, 1024), (150, 1440), (200, 1440)])
def test_enlarged_words_are_not_cut(qtbot: QtBot, text_size: int, width: int) -> None:
    theme.set_text_size(text_size)
    try:
        stage = Stage(qtbot)
        page = stage.page
        stage.window.resize(width, 900)
        stage.wait(lambda: page.width() == width)
        title = next(made for made in page.history.findChildren(ElidedLabel) if made.accessibleName() == "History")
        stage.wait(lambda: title.text() == "History")
        metrics = QFontMetrics(theme.current().font("small"))
        assert all(part.row.height() > metrics.height() for part in page.form.parts)
        boxes = (page.form.batch, page.form.steps.spin)
        assert all(box.width() > QFontMetrics(box.font()).horizontalAdvance("100") for box in boxes)
        stage.close()
    finally:
        theme.set_text_size(100)


def test_the_form_never_scrolls_sideways(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    stage.window.resize(1024, 640)
    form.edit(hires_on=True)
    for part in (form.hires_part, form.variation_part, form.start_part, form.options_part, form.upscale_part):
        opened(part)
        QApplication.processEvents()
        assert form.area.horizontalScrollBar().maximum() == 0, part
    method = form.sampler.method
    assert method.currentText() == "Model default"
    needed = QFontMetrics(method.font()).horizontalAdvance("Model default")
    option = QStyleOptionComboBox()
    method.initStyleOption(option)
    field = QStyle.SubControl.SC_ComboBoxEditField
    given = method.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, field, method)
    assert given.width() >= needed, "it is not cut"
    stage.close()


@pytest.mark.parametrize("language", ["en", "zh_CN"])
@pytest.mark.parametrize("width", [1024, 1100, 1440])
def test_the_device_chip_is_never_cut(qtbot: QtBot, language: Literal["en", "zh_CN"], width: int) -> None:
    set_language(language)
    try:
        bar = TopBar()
        qtbot.addWidget(bar)
        bar.setFixedWidth(width)
        bar.show()
        bar.set_narrow(width < 1200)
        bar.chip.show_device(msgspec.structs.replace(samples.CPU, name="AMD Ryzen Threadripper PRO 7995WX"), None, "float32")
        QApplication.processEvents()
        assert bar.chip.width() >= bar.chip.sizeHint().width()
        assert bar.settings.geometry().right() <= bar.width()
        assert all(tab.width() >= tab.minimumSizeHint().width() for tab in bar.tabs.values())
    finally:
        set_language("en")
