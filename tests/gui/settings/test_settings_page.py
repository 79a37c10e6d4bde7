"""The Settings page: every declared setting has a row, every row changes its setting, effects are measured or said to be not."""

from pathlib import Path
from typing import Literal

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetricsF, QStandardItemModel
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QComboBox, QFileDialog, QLabel
from pytestqt.qtbot import QtBot
from tests.gui.health import kit
from tests.gui.windows import windows_shown

from halftone.contract.facts import SelfTestReport, SettingEffect
from halftone.contract.messages import SelfTest
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DType, Precision
from halftone.contract.wording import Words
from halftone.gui import theme
from halftone.gui.charts.effect_cell import TIME, TIME_WORDS, EffectCell
from halftone.gui.i18n import set_language, tr
from halftone.gui.kit.switches import Segmented, Switch
from halftone.gui.settings import setting_effects
from halftone.gui.settings.folder_list import FoldersControl, PathControl
from halftone.gui.settings.program_section import ProgramSection
from halftone.gui.settings.setting_rows import Control, GroupCard, SettingRow
from halftone.gui.settings.settings_page import SettingsPage
from halftone.gui.settings.shortcuts_section import ShortcutsSection
from halftone.gui.settings.typed_controls import KeysControl, NumberControl, PatternControl
from halftone.settings import store
from halftone.settings.declared import DECLARED, declared
from halftone.settings.picture_files import has_jpeg_xl

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support propagateSizeHints")


def open_page(qtbot: QtBot, *, measured: bool = True) -> tuple[SettingsPage, kit.NotingLink]:
    controller, link = kit.desk(self_test=kit.measured() if measured else None)
    page = SettingsPage(controller)
    qtbot.addWidget(page)
    page.resize(1440, 830)
    page.show()
    page.refresh()
    return page, link


def program(page: SettingsPage, name: str) -> ProgramSection:
    section = page.section(name)
    assert isinstance(section, ProgramSection)
    return section


def choose(control: Control, value: str | bool) -> None:
    """Choose as the user would."""
    match control.field:
        case Switch():
            control.field.click()
        case Segmented():
            control.field.button(str(value)).click()
        case _:
            control.field.setCurrentIndex(control.field.findData(value))
            control.field.activated.emit(control.field.currentIndex())


def chosen(control: Control) -> str | bool:
    match control.field:
        case Switch():
            return control.field.isChecked()
        case Segmented():
            return control.field.value()
        case _:
            return str(control.field.currentData())


def take_back(one: SettingRow) -> QAbstractButton | None:
    """The button that a changed row shows, None while it does not."""
    shown = [made for made in one.findChildren(QAbstractButton) if made.accessibleName().startswith("Back to the default")]
    words = [made for made in one.findChildren(QLabel) if made.text() == "Changed"]
    assert [made.isHidden() for made in shown] == [made.isHidden() for made in words]
    return next((made for made in shown if not made.isHidden()), None)


def test_no_part_of_the_page_is_ever_a_window_of_its_own(qtbot: QtBot) -> None:
    with windows_shown() as seen:
        page, _ = open_page(qtbot)
        page.show_section("Numerics")
    assert seen == [page]


def test_every_declared_setting_has_a_row(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    shown = set(page.numerics.rows)
    for name in ("General", "Appearance", "Notifications", "Folders"):
        shown |= set(program(page, name).rows)
    shown |= set(page.section("Updates").rows)
    assert shown == {one.field for one in DECLARED}


@pytest.mark.parametrize("field", Numerics.__struct_fields__)
def test_every_numerics_row_changes_its_setting_and_takes_it_back(qtbot: QtBot, field: str) -> None:
    page, _ = open_page(qtbot)
    page.nav["Numerics"].click()
    one = page.numerics.rows[field]
    control = one.control
    assert isinstance(control, Control)
    setting = declared(field)
    refused = {"cudnn"}
    values = [choice.value for choice in setting.choices if choice.value != setting.default and choice.value not in refused]
    wanted = values[0] if values else not setting.default
    choose(control, wanted)
    assert getattr(page._controller.settings.numerics, field) == wanted
    qtbot.waitUntil(lambda: getattr(store.load().numerics, field) == wanted)
    assert chosen(control) == wanted
    undo = take_back(one)
    assert undo is not None
    QTest.mouseClick(undo, Qt.MouseButton.LeftButton)
    assert page._controller.settings.numerics == Numerics()
    assert take_back(one) is None


def test_effects_are_those_of_the_self_test(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    told = {field: one.effect.effect for field, one in page.numerics.rows.items() if one.effect is not None}
    assert all(effect is not None for effect in told.values())
    words = {field: effect.time_words or effect.note for field, effect in told.items() if effect is not None}
    assert words["precision"] == "≈2.4\u00a0× as fast"
    assert words["vae_float32"] == "Always: 61\u00a0% slower"
    assert words["fp16_reduction"] == "No change"
    assert words["bf16_reduction"] == "Changes nothing on this device."
    assert words["fp16_accumulation"] == "≈1.7\u00a0× as fast", "FP16 sums 4.1 times against FP16 2.4, as on the Device page"
    assert words["tf32"] == "≈20\u00a0% faster"
    assert words["attention_backend"] == "1.6\u00a0× as fast"
    assert words["nan_check"] == "0.3\u00a0% slower"
    accumulation = told["fp16_accumulation"]
    assert accumulation is not None
    assert accumulation.warn


def in_each_precision() -> SelfTestReport:
    """A device on which what a setting does differs with the precision."""

    def one(setting: str, value: str, dtype: DType, ratio: float) -> SettingEffect:
        if dtype == "float32" and ratio == 0:
            return SettingEffect(setting=setting, value=value, dtype=dtype, note=Words("Everything runs in FP32 here."))
        return SettingEffect(setting=setting, value=value, dtype=dtype, time_ratio=ratio, closeness_db=57.0)

    times: dict[DType, tuple[float, float]] = {"float16": (1.5, 0.5), "bfloat16": (1.2, 0.25), "float32": (0, 0.98)}
    effects = [one("vae_float32", "always", dtype, always) for dtype, (always, _) in times.items()]
    effects += [one("nan_check", "off", dtype, off) for dtype, (_, off) in times.items()]
    effects += [one("fp16_reduction", "true", "float16", 0.9), one("tf32", "true", "float32", 0.8)]
    return kit.measured(effects=tuple(effects), speeds=(), auto="float32")


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        ("auto", ("Everything runs in FP32 here.", "2.0\u00a0% slower", "FP16: 11\u00a0% faster", "25\u00a0% faster")),
        (
            "float32",
            ("Everything runs in FP32 here.", "2.0\u00a0% slower", "FP16: 11\u00a0% faster", "25\u00a0% faster"),
        ),
        ("float16", ("Always: 50\u00a0% slower", "2.0\u00a0× as long", "11\u00a0% faster", "FP32: 25\u00a0% faster")),
        (
            "bfloat16",
            ("Always: 20\u00a0% slower", "4.0\u00a0× as long", "FP16: 11\u00a0% faster", "FP32: 25\u00a0% faster"),
        ),
    ],
)
def test_effects_are_those_of_the_precision_in_force(precision: Precision, words: tuple[str, ...]) -> None:
    numerics, report = Numerics(precision=precision), in_each_precision()
    fields = ("vae_float32", "nan_check", "fp16_reduction", "tf32")
    found = [setting_effects.effect(declared(field), numerics, report) for field in fields]
    assert tuple(one.note or one.time_words for one in found) == words


def test_effects_follow_the_precision_that_was_chosen_for_the_picture(qtbot: QtBot) -> None:
    controller, _ = kit.desk(self_test=in_each_precision())
    page = SettingsPage(controller)
    qtbot.addWidget(page)
    page.show()
    page.refresh()
    cell = page.numerics.rows["vae_float32"].effect
    assert cell is not None
    assert cell.effect is not None
    assert cell.effect.note == "Everything runs in FP32 here."
    controller.session.settings.choose_precision("float16")
    page.refresh()
    assert cell.effect.time_words == "Always: 50\u00a0% slower"


def test_nothing_is_guessed_before_the_self_test(qtbot: QtBot) -> None:
    page, link = open_page(qtbot, measured=False)
    for field, one in page.numerics.rows.items():
        assert one.effect is not None
        assert one.effect.effect is not None
        if field != "on_black":
            assert one.effect.effect.time_words == "Not measured"
    assert isinstance(link.last(SelfTest), SelfTest)


def test_words_of_times_and_errors() -> None:
    assert setting_effects.time_words(1.0) == "No change"
    assert setting_effects.time_words(0.79) == "27\u00a0% faster"
    assert setting_effects.time_words(0.4) == "2.5\u00a0× as fast"
    assert setting_effects.time_words(1.5) == "50\u00a0% slower", "it is slower, and a plus alone may be read as faster"
    assert setting_effects.time_words(2.34) == "2.3\u00a0× as long"
    assert setting_effects.time_words(1.034) == "3.4\u00a0% slower"
    assert setting_effects.time_words(1.234, 0.05) == "≈23\u00a0% slower"
    assert setting_effects.time_words(1.234, 0.3) == "≈0\u00a0%", "the runs differ by more among themselves"
    never = setting_effects.effect(declared("vae_float32"), Numerics(vae_float32="never"), kit.measured())
    assert never.note.startswith("Costs and saves nothing")
    full = setting_effects.effect(declared("precision"), Numerics(precision="float32"), kit.measured())
    assert (full.time_words, full.close_words) == ("The reference", "FP32 itself")


def test_a_backend_that_fails_here_cannot_be_chosen_and_says_why(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    control = page.numerics.rows["attention_backend"].control
    assert isinstance(control, Control)
    assert isinstance(control.field, QComboBox)
    model = control.field.model()
    assert isinstance(model, QStandardItemModel)
    item = model.item(control.field.findData("cudnn"))
    assert not item.isEnabled()
    assert item.text() == "cuDNN (Gives wrong results on this device)"
    assert model.item(control.field.findData("flash")).isEnabled()


def test_reset_and_its_undo(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    assert not page.numerics.reset.isEnabled()
    page.numerics.change("tf32", True)
    page.numerics.change("nan_check", "off")
    page.numerics.reset.click()
    assert page._controller.settings.numerics == Numerics()
    assert page.numerics.reset.text() == "Undo reset"
    page.numerics.reset.click()
    assert page._controller.settings.numerics == Numerics(tf32=True, nan_check="off")


def test_measure_again(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    page.numerics.measure.click()
    assert isinstance(link.last(SelfTest), SelfTest)
    page.refresh()
    assert page.numerics.measure.words() == "Measuring…"
    assert not page.numerics.measure.isEnabled()


def test_theme_language_and_device(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    for name, field, value in (
        ("Appearance", "theme", "light"),
        ("General", "language", "zh_CN"),
        ("General", "device", "cuda:0"),
    ):
        control = program(page, name).rows[field].control
        assert isinstance(control, Control)
        choose(control, value)
        assert getattr(page._controller.settings, field) == value
        program(page, name).rows[field].reset.emit()
        assert getattr(page._controller.settings, field) == declared(field).default


def test_a_device_that_is_not_here_stays_visible(qtbot: QtBot) -> None:
    controller, _ = kit.desk(settings=store.Settings(device="cuda:7"))
    section = ProgramSection(controller, "General")
    qtbot.addWidget(section)
    control = section.rows["device"].control
    assert isinstance(control, Control)
    assert isinstance(control.field, QComboBox)
    assert control.field.currentText() == "cuda:7 (not found)"


def test_the_pictures_folder(qtbot: QtBot, tmp_path: Path) -> None:
    page, _ = open_page(qtbot)
    page.show_section("Folders")
    one = program(page, "Folders").rows["pictures_folder"]
    assert isinstance(one.control, PathControl)
    one.control.choose.click()
    dialog = page.findChild(QFileDialog)
    assert dialog is not None
    dialog.fileSelected.emit(str(tmp_path))
    dialog.close()
    assert page._controller.settings.pictures_folder == str(tmp_path)
    assert one.control.path.accessibleName() == str(tmp_path)
    assert take_back(one) is not None
    one.reset.emit()
    assert page._controller.settings.pictures_folder is None


def test_the_folders_of_loras(qtbot: QtBot, tmp_path: Path) -> None:
    page, _ = open_page(qtbot)
    page.show_section("Folders")
    one = program(page, "Folders").rows["lora_folders"]
    assert isinstance(one.control, FoldersControl)
    for name in ("a", "b", "a"):
        one.control.add.click()
        dialog = page.findChild(QFileDialog)
        assert dialog is not None
        dialog.fileSelected.emit(str(tmp_path / name))
        dialog.close()
        dialog.setParent(None)
    assert page._controller.settings.lora_folders == (str(tmp_path / "a"), str(tmp_path / "b"))

    def removing() -> list[QAbstractButton]:
        buttons = one.control.findChildren(QAbstractButton)
        return [made for made in buttons if made.accessibleName() == f"Remove {tmp_path / 'a'}"]

    qtbot.waitUntil(lambda: len(removing()) == 1)
    removing()[0].click()
    assert page._controller.settings.lora_folders == (str(tmp_path / "b"),)
    assert take_back(one) is not None
    one.reset.emit()
    assert page._controller.settings.lora_folders == ()
    assert take_back(one) is None


def test_navigation_by_mouse_and_keys(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    assert page.nav["General"].isChecked()
    page.nav["About"].click()
    assert page._stack.currentWidget() is page._scrolls["About"]
    page.nav["General"].setFocus()
    QTest.keyClick(page.nav["General"], Qt.Key.Key_Down)
    assert page._stack.currentWidget() is page._scrolls["Appearance"]


@pytest.mark.parametrize("width", [1440, 1024])
def test_every_column_of_effects_has_its_head_above_it(qtbot: QtBot, width: int) -> None:
    page, _ = open_page(qtbot)
    page.show_section("Numerics")
    page.resize(width, 1400)
    page.grab()  # lays out
    cards = page.numerics.findChildren(GroupCard)
    assert len(cards) > 3
    for card in cards:
        heads = {one.text(): one.mapTo(card, QPoint(0, 0)) for one in card.findChildren(QLabel) if one.isVisibleTo(card)}
        for effect in card.findChildren(EffectCell):
            left = effect.mapTo(card, QPoint(0, 0))
            assert (heads["Time"].x(), heads["Closeness to FP32"].x()) == (left.x(), left.x() + TIME)
            assert heads["Time"].y() < left.y()


def test_narrow_puts_effects_on_a_second_line(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    one = page.numerics.rows["precision"]
    wide = one.sizeHint().height()
    measured = "Auto suits almost everyone. Effects measured on NVIDIA GeForce RTX 3060, 12\u00a0May\u00a019:14."
    assert page.numerics._sub.text() == measured
    page.resize(1024, 570)
    assert one.sizeHint().height() > wide
    assert page.numerics._sub.text() == measured


def test_every_control_has_a_name(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    for name in page.nav:
        page.show_section(name)
        buttons = [one for one in page.findChildren(QAbstractButton) if one.isVisible()]
        assert [one for one in buttons if not (one.text() or one.accessibleName())] == []


@pytest.mark.parametrize("language", ["en", "zh_CN"])
@pytest.mark.parametrize("frame", ["Always: {0}", "Off: {0}", "{0}: {1}"])
def test_what_a_setting_costs_is_not_cut_off(qtbot: QtBot, language: Literal["en", "zh_CN"], frame: str) -> None:
    set_language(language)
    words = tr(frame, "{0}") if frame != "{0}: {1}" else tr(frame, "BF16", "{0}")
    metrics = QFontMetricsF(theme.current().font("small", numbers=True))
    wide = [words.format(setting_effects.time_words(ratio)) for ratio in (0.9, 0.998, 0.042, 1.234, 12.5)]
    wide += [words.format(setting_effects.time_words(ratio, 0.05)) for ratio in (0.9, 0.998, 0.042, 1.234, 12.5)]
    set_language("en")
    assert [one for one in wide if metrics.horizontalAdvance(one) > TIME_WORDS] == []


def test_the_pattern_of_file_names_shows_an_example_and_refuses_what_names_nothing(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    control = program(page, "General").rows["file_names"].control
    assert isinstance(control, PatternControl)
    assert control.note.text() == "Example: 00042-1234567.png"
    for pattern, note in (
        ("{date}/{seed}", "Example: 2026-03-14/1234567.png"),
        ("{seed}:{nothing}", "{nothing} is not known. Known: {number}"),
    ):
        control.field.setFocus()
        control.field.selectAll()
        QTest.keyClicks(control.field, pattern)
        assert control.note.text().startswith(note)
        QTest.keyClick(control.field, Qt.Key.Key_Return)
    assert page._controller.settings.file_names == "{date}/{seed}"
    assert page._controller.settings.saving.file_names == "{date}/{seed}"
    control.set_value("{seed}")
    assert control.note.text() == "Example: 1234567.png"


def test_the_example_has_the_ending_of_the_format(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    rows = program(page, "General").rows
    control, pattern = rows["picture_format"].control, rows["file_names"].control
    assert isinstance(control, Control)
    assert isinstance(pattern, PatternControl)
    choose(control, "webp")
    assert page._controller.settings.picture_format == "webp"
    assert pattern.note.text() == "Example: 00042-1234567.webp"


@pytest.mark.skipif(has_jpeg_xl(), reason="JPEG XL can be written here")
def test_a_format_that_cannot_be_written_here_is_disabled_and_says_why(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    control = program(page, "General").rows["picture_format"].control
    assert isinstance(control, Control)
    assert isinstance(control.field, Segmented)
    made = control.field.button("jxl")
    assert (made.isEnabled(), made.toolTip()) == (False, "Needs the Python package pillow-jxl-plugin.")


def test_numbers_stay_within_their_limits(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    one = program(page, "Appearance").rows["text_size"]
    assert isinstance(one.control, NumberControl)
    one.control.field.setValue(900)
    assert page._controller.settings.text_size == 200
    undo = take_back(one)
    assert undo is not None
    undo.click()
    assert page._controller.settings.text_size == 100


def test_switches_that_cannot_act_here_are_disabled_and_say_why(qtbot: QtBot) -> None:
    controller, _ = kit.desk(kit.CPU)
    page = SettingsPage(controller)
    qtbot.addWidget(page)
    page.show()
    for field, reason in (("fp16_accumulation", "Only NVIDIA GPUs have this switch."), ("tf32", "")):
        one = page.numerics.rows[field]
        words = [made.text() for made in one.findChildren(QLabel) if not made.isHidden()]
        assert one.control.isEnabled() is (not reason)
        assert reason in ("", *words)
    for field in ("notify", "taskbar_progress"):
        one = program(page, "Notifications").rows[field]
        assert not one.control.isEnabled()
        assert "There is no desktop." in [made.text() for made in one.findChildren(QLabel)]


def press(control: KeysControl, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    """Press a combination in the field, and leave it."""
    control.field.setFocus()
    QTest.keyClick(control.field, key, modifiers)
    control.field.editingFinished.emit()


def test_shortcuts_are_changed_refused_and_reset(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    page.show_section("Shortcuts")
    section = page.section("Shortcuts")
    assert isinstance(section, ShortcutsSection)
    save = section.rows["save"]
    assert isinstance(save.control, KeysControl)
    press(save.control, Qt.Key.Key_F4)
    assert page._controller.settings.shortcuts == {"save": "F4"}
    assert take_back(save) is not None
    press(save.control, Qt.Key.Key_D, Qt.KeyboardModifier.ControlModifier)
    assert page._controller.settings.shortcuts == {"save": "F4"}
    words = [made.text() for made in save.findChildren(QLabel) if not made.isHidden()]
    assert "Ctrl+D belongs to “New random seed”." in words
    assert save.control.field.keySequence().toString() == "F4"
    save.reset.emit()
    assert page._controller.settings.shortcuts == {}
    section.change("page-create", "F3")
    section.change("fit", "A")
    assert section.reset.isEnabled()
    section.reset.click()
    assert page._controller.settings.shortcuts == {}
    assert not section.reset.isEnabled()


def test_the_search_jumps_to_a_row_and_marks_it(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    page.focus_search()
    QTest.keyClicks(page.search, "--medvram")
    assert all(made.isHidden() for made in page.nav.values())
    QTest.keyClick(page.search, Qt.Key.Key_Return)
    assert page._stack.currentWidget() is page._scrolls["Numerics"]
    assert [field for field, one in page.numerics.rows.items() if one.property("found")] == ["offload"]
    page.search.setText("random seed")
    page._open_first()
    assert page._stack.currentWidget() is page._scrolls["Shortcuts"]
    page.search.setText("nothing at all like this")
    assert "Nothing found" in [made.text() for made in page._results.findChildren(QLabel)]
    page.search.clear()
    assert not any(made.isHidden() for made in page.nav.values())


def test_a_choice_in_chinese_is_found_in_both_languages(qtbot: QtBot) -> None:
    set_language("zh_CN")
    try:
        page, _ = open_page(qtbot)
        for text in ("text size", tr("Text size")):
            page.search.setText(text)
            assert page._hits[0].field == "text_size"
    finally:
        set_language("en")
