"""The Device page: verdicts, cards, the matrix, the first run; every control does what it says."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetricsF
from PySide6.QtTest import QSignalSpy, QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QFileDialog, QLabel, QRadioButton
from pytestqt.qtbot import QtBot
from tests.gui.health import kit
from tests.helpers import model_files, samples

from halftone.contract.facts import DeviceFacts, DTypeReport
from halftone.contract.messages import Cancel, Generate, JobEnded, PhaseChanged, Ready, SelfTest, TestDone
from halftone.contract.request import Numerics, PictureRequest
from halftone.contract.vocabulary import AttentionBackend, Precision
from halftone.contract.wording import Words
from halftone.gui import theme
from halftone.gui.charts.device_charts import BitsRow, Mark, MatrixRow, SpeedBar, TestMatrix, speed_words
from halftone.gui.charts.headroom_chart_text import type_name
from halftone.gui.create.job_list import JobModel, gpu_names
from halftone.gui.device import device_verdict, device_view
from halftone.gui.device.device_page import DevicePage
from halftone.gui.device.measurement_cards import number_words
from halftone.gui.device_names import short_name
from halftone.gui.i18n import set_language
from halftone.gui.kit import figures
from halftone.gui.text import activity, notice_message
from halftone.measure.cases import cases_for
from halftone.session.events import CardChanged, CardsChosen, Queued, Sent
from halftone.session.state import AppState, Card, Job

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support propagateSizeHints")


FAULT = msgspec.structs.replace(kit.known_answers()[0], operation="attention-backend", outcome="wrong")


def open_page(qtbot: QtBot, *, measured: bool = True, **more: object) -> tuple[DevicePage, kit.NotingLink]:
    controller, link = kit.desk(self_test=kit.measured(**more) if measured else None)  # pyright: ignore[reportArgumentType]
    page = DevicePage(controller)
    qtbot.addWidget(page)
    page.resize(1440, 830)
    page.show()
    page.refresh()
    return page, link


def types(half: str, brain: str, **more: object) -> tuple[DTypeReport, ...]:
    base = kit.measured().dtypes
    return (
        base[0],
        msgspec.convert({**msgspec.to_builtins(base[1]), "state": half, **more}, DTypeReport),
        msgspec.convert({**msgspec.to_builtins(base[2]), "state": brain}, DTypeReport),
    )


def test_the_sample_holds_every_operation_that_is_measured() -> None:
    measured = {one.operation for one in cases_for("cuda")}
    assert {*measured, "casting", "random-numbers", "copies", "memory"} == set(kit.OPERATIONS)


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_nothing_is_wider_than_a_small_window(qtbot: QtBot, language: Literal["en", "zh_CN"]) -> None:
    set_language(language)
    bad = [("float16", "attention-backend"), ("float16", "copies"), ("float16", "memory")]
    longest = {"size": Words("3 × 3, 1 × 128 × 512 × 512"), "outcome": "zeros", "expected": -1.2345e-5, "got": -1.2345e-5}
    wide = msgspec.structs.replace(kit.known_answers()[0], operation="convolution", mode="float16", **longest)
    page, _ = open_page(qtbot, tests=(*kit.known_answers(bad), wide))
    page.resize(1024, 570)
    inner, view = page._scroll.widget(), page._scroll.viewport()
    assert inner is not None
    qtbot.waitUntil(lambda: inner.width() == view.width())
    for column in range(len(kit.OPERATIONS)):
        page.tests.matrix.select(2, column)
        QApplication.processEvents()
        assert inner.minimumSizeHint().width() <= view.width(), kit.OPERATIONS[column]
    set_language("en")


@pytest.mark.parametrize("language", ["en", "zh_CN"])
@pytest.mark.parametrize("width", [637, 720, 1040])
def test_no_head_of_the_matrix_is_cut(qtbot: QtBot, language: Literal["en", "zh_CN"], width: int) -> None:
    set_language(language)
    rows = [MatrixRow("float16", "FP16", tuple(Mark("right", "") for _ in kit.OPERATIONS), "20 of 20")]
    made = TestMatrix()
    qtbot.addWidget(made)
    made.set_tests(
        [device_view.operation_name(one) for one in kit.OPERATIONS],
        rows,
        [device_view.short_name(one) for one in kit.OPERATIONS],
    )
    made.resize(width, made.height())
    made.show()
    metrics = QFontMetricsF(theme.current().font("caption"))
    pitch = made.cell_centre(0, 1).x() - made.cell_centre(0, 0).x()
    longest = max(metrics.horizontalAdvance(word) for name in made.heads() for word in re.findall(r"[A-Za-z.,]+|.", name))
    assert longest <= pitch or made.slanted()
    head = made.cell_centre(0, 0).y() - made.LINE / 2
    if made.slanted():
        assert max(metrics.horizontalAdvance(name) for name in made.heads()) * math.sin(math.radians(40)) < head - 8
    assert head + made.LINE == made.height()
    set_language("en")


def test_half_precision_works(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    assert page.verdict.title() == "Half precision works on this GPU"
    assert "FP16 and BF16 passed every test." in page.verdict.text()
    assert page.verdict.property("card") == "ok"
    bars = page.speed.findChildren(SpeedBar)
    assert [one.accessibleName() for one in bars] == [
        "FP32, The reference: 9.6\u00a0TFLOPS",
        "TF32, ≈20\u00a0% faster: 11.5\u00a0TFLOPS",
        "FP16, ≈2.4\u00a0× as fast: 23.0\u00a0TFLOPS",
        "FP16, FP16 sums, ≈4.1\u00a0× as fast: 39.4\u00a0TFLOPS",
        "BF16, ≈2.3\u00a0× as fast: 22.1\u00a0TFLOPS",
    ], "one figure for each, against FP32, the one that the verdict and the settings tell too"
    auto = "Halftone uses FP16, or BF16 for models that need its range. FP16 is about 2.4\u00a0× as fast as FP32."
    assert auto in page.verdict.text()
    assert bars[2].toolTip().startswith("UNet step: 25.0\u00a0TFLOPS\nTransformer step: ")
    assert page.speed._caption.text().startswith("UNet step + Transformer step")
    assert len(page.bits.findChildren(BitsRow)) == 5
    assert page.tests._summary.text() == "153 of 155 passed. The rest use settings that are off."


@pytest.mark.parametrize(
    ("half", "brain", "auto", "title", "text"),
    [
        (
            "wrong",
            "missing",
            "float32",
            "FP16 is faulty on this device",
            "Halftone uses FP32. Pictures take about 2.4\u00a0× as long.",
        ),
        ("wrong", "works", "bfloat16", "FP16 is faulty on this device", "Halftone uses BF16."),
        ("works", "slow", "float16", "Half precision works on this GPU", "BF16 is slow here."),
        ("slow", "slow", "float32", "Half precision works, but is not faster", "Halftone uses FP32."),
        ("missing", "missing", "float32", "This GPU has no half precision", "Halftone uses FP32"),
    ],
)
def test_verdicts(half: str, brain: str, auto: str, title: str, text: str) -> None:
    said = device_verdict.verdict(kit.measured(dtypes=types(half, brain), auto=auto), kit.GPU, None, 0.0)
    assert said.title == title
    assert text in said.text


@pytest.mark.parametrize("half", ["works", "wrong", "slow", "missing"])
@pytest.mark.parametrize("device", [kit.GPU, kit.CPU])
def test_the_verdict_follows_a_precision_that_is_set(half: str, device: DeviceFacts) -> None:
    report = kit.measured(device, dtypes=types(half, half), auto="float32")
    said = device_verdict.verdict(report, device, None, 0.0, "float16").text
    assert "FP16 is set. Auto would use FP32." in said
    assert not re.search("Halftone (will use|uses)", said), "nothing else is said to be used"
    assert "FP32 is set, the same as Auto." in device_verdict.verdict(report, device, None, 0.0, "float32").text


@pytest.mark.parametrize("chosen", ["float16", "bfloat16", "float32"])
def test_a_set_precision_stands_beside_what_auto_takes_by_the_model(chosen: Precision) -> None:
    said = device_verdict.verdict(kit.measured(), kit.GPU, None, 0.0, chosen).text
    assert f"{type_name(chosen)} is set. Auto would use FP16, or BF16 for models that need its range." in said


def test_without_a_device_it_waits() -> None:
    assert device_verdict.verdict(None, None, None, 0.0).title == "Looking for a GPU…"


def test_a_processor_is_called_one_and_help_opens(qtbot: QtBot) -> None:
    controller, _ = kit.desk(kit.CPU, self_test=kit.measured(kit.CPU))
    page = DevicePage(controller)
    qtbot.addWidget(page)
    assert page.verdict.title() == "No supported GPU found"
    assert page.verdict._help_text.isHidden()
    page.verdict._help.click()
    assert not page.verdict._help_text.isHidden()
    assert "GPU" not in page.speed._caption.text()


def test_measuring_counts_tests_and_can_be_skipped(qtbot: QtBot) -> None:
    page, link = open_page(qtbot, measured=False)
    job = link.last(SelfTest)
    assert isinstance(job, SelfTest)
    page.set_first_run(True)
    for done, result in enumerate(kit.known_answers()[:4], start=1):
        link.tell(TestDone(job=job.job, result=result, done=done, total=100))
    page.refresh()
    assert page.verdict.title() == "Measuring your device"
    assert page.verdict.text().startswith("Test 5 of 100, about")
    assert page.verdict._skip.text() == "Skip, use FP32"
    assert page.tests.matrix._rows[0].passed == "4 of 4"
    page.verdict._skip.click()
    assert link.last(Cancel) == Cancel(job=job.job)
    kit.end(link, job.job, "cancelled")
    page.refresh()
    assert page.verdict.title() == "Not measured yet"
    page.verdict._measure.click()
    again = link.last(SelfTest)
    assert again != job


def test_the_first_picture_waits_for_the_measurement_and_says_why(qtbot: QtBot) -> None:
    page, link = open_page(qtbot, measured=False)
    page.set_first_run(True)
    assert not page.first_picture.isEnabled()
    assert page.wait_words.text().startswith("Waiting for the measurement.")
    assert page.first_picture.toolTip() == page.wait_words.text()
    job = link.last(SelfTest)
    assert isinstance(job, SelfTest)
    kit.end(link, job.job, report=kit.measured())
    page.refresh()
    assert page.first_picture.isEnabled()
    assert page.wait_words.text() == ""
    assert page.focusWidget() is page.first_picture
    page.measure()
    page.refresh()
    assert page.first_picture.isEnabled(), "measuring again, what the picture runs in is known"


@pytest.mark.parametrize("outcome", ["cancelled", "failed"])
def test_the_first_picture_can_be_made_after_a_skip_or_a_failure(qtbot: QtBot, outcome: str) -> None:
    page, link = open_page(qtbot, measured=False)
    page.set_first_run(True)
    job = link.last(SelfTest)
    assert isinstance(job, SelfTest)
    kit.end(link, job.job, outcome)
    page.refresh()
    assert page.first_picture.isEnabled()


def test_the_first_picture_waits_for_the_start_and_not_for_a_lost_worker() -> None:
    assert device_view.wait_words(AppState()) == "Starting…"
    assert device_view.wait_words(AppState(worker="ready")) == "Starting…"
    assert device_view.wait_words(AppState(worker="lost")) == ""


def test_cards_without_measurements_explain_no_marks(qtbot: QtBot) -> None:
    page, link = open_page(qtbot, measured=False)
    assert page.tests.matrix.isHidden()
    assert page.tests._legend_row.isHidden()
    assert page.speed._hint.text() == ""
    job = link.last(SelfTest)
    assert isinstance(job, SelfTest)
    link.tell(TestDone(job=job.job, result=kit.known_answers()[0], done=1, total=100))
    page.refresh()
    assert page.tests.matrix.isVisible()
    assert page.tests._legend_row.isVisible()


def test_no_estimate_before_three_tests(qtbot: QtBot) -> None:
    page, link = open_page(qtbot, measured=False)
    job = link.last(SelfTest)
    assert isinstance(job, SelfTest)
    link.tell(TestDone(job=job.job, result=kit.known_answers()[0], done=1, total=100))
    page.refresh()
    assert page.verdict.text() == "Test 2 of 100, estimating."


def test_a_mark_shows_the_numbers_behind_it(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    matrix = page.tests.matrix
    spy = QSignalSpy(matrix.selected)
    at = matrix.cell_centre(3, 9)
    QTest.mouseClick(matrix, Qt.MouseButton.LeftButton, pos=QPoint(round(at.x()), round(at.y())))
    assert spy.at(0) == [3, 9]
    assert page.tests.detail.isVisible()
    assert page.tests._detail_title.text() == "FP16, FP16 sums · Long sums"
    words = {made.text() for made in page.tests.detail.findChildren(QLabel)}
    assert {"4096 x 1024 x 1024", "992", "0.002", "Wrong"} <= words
    assert "1 of 2 tests failed" in matrix.accessibleDescription()


def test_backends_of_attention_stand_beside_it_and_show_their_cases(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    names = device_view.matrix(kit.known_answers()).columns
    assert names[names.index("Attention") + 1] == "Attention backends"
    page.tests.matrix.select(2, names.index("Attention backends"))
    words = {made.text() for made in page.tests.detail.findChildren(QLabel)}
    assert {"Case", "flash, large scores"} <= words


def test_arrow_keys_move_in_the_matrix(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    matrix = page.tests.matrix
    QTest.keyClick(matrix, Qt.Key.Key_Right)
    assert matrix.cell == (0, 0)
    QTest.keyClick(matrix, Qt.Key.Key_Right)
    QTest.keyClick(matrix, Qt.Key.Key_Down)
    assert matrix.cell == (1, 1)
    QTest.keyClick(matrix, Qt.Key.Key_Up)
    QTest.keyClick(matrix, Qt.Key.Key_Up)
    assert matrix.cell == (0, 1)
    assert matrix.accessibleDescription().startswith("FP32, Convolution: 2 of 2 tests passed")


def test_what_halftone_will_do_follows_the_settings(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    lines = device_view.promises(kit.measured(), Numerics(), ("float16", Words("because")))
    assert [one.text for one in lines] == [
        "Compute in FP16 or BF16",
        "Accumulate in FP32",
        "Use Auto attention",
        "Check every step",
    ]
    one_kind = kit.measured(dtypes=types("works", "slow"))
    assert device_view.promises(one_kind, Numerics(), ("float16", Words("measured")))[0].text == "Compute in FP16"
    assert lines[1].reason == "FP16 sums: 2 of 31 tests failed"
    assert lines[2].reason == "about 1.6\u00a0× as fast as Math"
    assert lines[3].reason == "costs 0.3\u00a0%"
    changed = Numerics(fp16_accumulation=True, attention_backend="math", nan_check="off", precision="float16")
    lines = device_view.promises(kit.measured(), changed, ("float16", Words("measured")))
    assert [one.text for one in lines[1:]] == ["Accumulate in FP16", "Use Math attention", "Skip the NaN check"]
    sound = kit.measured(tests=kit.known_answers(()))
    assert device_view.promises(sound, Numerics(), ("float16", Words("measured")))[1].reason == "your setting", (
        "no reason against FP16 sums"
    )
    assert device_view.promises(sound, changed, ("float16", Words("measured")))[1].reason == "FP16 sums: 31 of 31 tests passed"
    spy = QSignalSpy(page._controller.page_requested)
    page.promises.change.emit()
    assert spy.at(0) == ["numerics"]


def test_a_precision_chosen_for_the_next_pictures_is_the_users_own(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    page._controller.session.settings.choose_precision("float32")
    page.refresh()
    words = [made.text() for made in page.promises.findChildren(QLabel)]
    assert any("your setting" in one for one in words), words


@pytest.mark.parametrize(
    ("faulty", "backend", "told"),
    [
        (("flash",), "auto", [("Use attention without Flash", "Flash failed here")]),
        (("flash", "cudnn"), "auto", [("Use attention without Flash, cuDNN", "Flash, cuDNN failed here")]),
        (("flash",), "flash", [("Use Flash attention", "Flash failed here")]),
        (("flash",), "math", [("Use Math attention", "")]),
        (
            ("flash", "efficient", "cudnn", "math"),
            "auto",
            [("Use Auto attention", "Flash, Efficient, cuDNN, Math failed here")],
        ),
        ((), "math", [("Use Math attention", "")]),
    ],
)
def test_faulty_backends_are_told(faulty: tuple[str, ...], backend: AttentionBackend, told: list[tuple[str, str]]) -> None:
    tests = tuple(msgspec.structs.replace(FAULT, size=Words("{0}, 64 tokens", (name,)), backend=name) for name in faulty)
    report = kit.measured(tests=(*kit.known_answers(()), *tests))
    lines = device_view.promises(report, Numerics(attention_backend=backend), ("float16", Words("measured")))
    assert [(one.text, one.reason) for one in lines if "ttention" in one.text] == told


def test_faulty_copies_are_told_in_both_languages() -> None:
    report = kit.measured(tests=kit.known_answers((("float16", "copies"), ("float16", "attention-backend"))))
    lines = device_view.promises(report, Numerics(), ("float16", Words("measured")))
    assert [(one.text, one.reason) for one in lines if "cop" in one.text] == [("Use synchronous copies", "others failed here")]
    set_language("zh_CN")
    said = {one.text: one.reason for one in device_view.promises(report, Numerics(), ("float16", Words("measured")))}
    set_language("en")
    assert said["使用 Flash 以外的注意力"] == "Flash 在此出错"
    assert said["使用同步复制"] == "其他方式在此出错"


@pytest.mark.parametrize("faults", [(), ("flash",), ("flash", "efficient", "cudnn")])
@pytest.mark.parametrize("width", [1440, 1024])
def test_no_promise_and_no_reason_is_cut_off(qtbot: QtBot, width: int, faults: tuple[str, ...]) -> None:
    wrong = tuple(msgspec.structs.replace(FAULT, size=Words("{0}, 64 tokens", (name,)), backend=name) for name in faults)
    tests = (*kit.known_answers(), *wrong, *(msgspec.structs.replace(FAULT, operation="copies") for _ in faults))
    page, _ = open_page(qtbot, tests=tests)
    page.resize(width, 570)
    promises = device_view.promises(
        kit.measured(tests=tests), page._controller.settings.numerics, page._controller.state.device_precision
    )
    words = {said for one in promises for said in (one.text, one.reason) if said}

    def shown() -> list[QLabel]:
        return [one for one in page.promises.findChildren(QLabel) if one.isVisible() and one.text() in words]

    assert len(words) == 2 * len(promises) == (10 if faults else 8)
    qtbot.waitUntil(lambda: len(shown()) == len(words))
    for one in shown():
        room = one.heightForWidth(one.width()) if one.wordWrap() else one.sizeHint().height()
        assert one.height() >= room
        assert one.wordWrap() or one.width() >= one.sizeHint().width()
        assert page.promises.rect().contains(one.mapTo(page.promises, one.rect().bottomRight()))


def test_first_run_strip_and_footer(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    assert page.header.isVisible()
    assert not page.footer.isVisible()
    page.set_first_run(True)
    assert page.tour.isVisible()
    assert not page.header.isVisible()
    go, skip = QSignalSpy(page.make_first_picture), QSignalSpy(page.skip_tour)
    page.first_picture.click()
    page.skip_button.click()
    assert (go.count(), skip.count()) == (1, 1)


def test_the_first_picture_has_the_focus_on_arrival(qtbot: QtBot) -> None:
    controller, _ = kit.desk(self_test=kit.measured())
    page = DevicePage(controller)
    qtbot.addWidget(page)
    page.set_first_run(True)
    page.show()
    assert page.focusWidget() is page.first_picture


def test_measure_again(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    assert page.measure_button.words() == "Measure again · 41\u00a0s"
    page.measure_button.click()
    assert isinstance(link.last(SelfTest), SelfTest)
    page.refresh()
    assert not page.measure_button.isEnabled()


def test_export_writes_every_number(qtbot: QtBot, tmp_path: Path) -> None:
    page, _ = open_page(qtbot)
    page.export_button.click()
    dialog = page.findChild(QFileDialog)
    assert dialog is not None
    dialog.fileSelected.emit(str(tmp_path / "device.json"))
    dialog.close()
    qtbot.waitUntil(lambda: [notice.kind for notice in page._controller.state.notices] == ["saved"])
    assert "device.json" in notice_message(page._controller.state.notices[0]).spoken
    assert len(json.loads((tmp_path / "device.json").read_text())["tests"]) == 155
    page.export(str(tmp_path / "none" / "device.json"))
    qtbot.waitUntil(lambda: page._controller.state.notices[-1].kind == "not-written")


def test_add_my_models_selects_what_was_chosen(qtbot: QtBot, tmp_path: Path) -> None:
    page, _ = open_page(qtbot)
    page.set_first_run(True)
    page.ask_model()
    dialog = page.findChild(QFileDialog)
    assert dialog is not None
    spy = QSignalSpy(page.skip_tour)
    model_files.write_folder(tmp_path / "mine")
    dialog.fileSelected.emit(str(tmp_path / "mine" / "model_index.json"))
    dialog.close()
    assert spy.count() == 1
    qtbot.waitUntil(lambda: page._controller.settings.last_model == str(tmp_path / "mine"))
    qtbot.waitUntil(lambda: not page._controller.background.busy)


def test_a_choice_of_devices_only_where_there_is_one(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    assert not page.choice.isVisible()
    second = msgspec.structs.replace(kit.GPU, id="cuda:1", name="Second card")
    link.tell(Ready(version="0.1.0", protocol=1, pid=1, devices=(kit.GPU, second)))
    page.refresh()
    second_button = next(made for made in page.choice.findChildren(QRadioButton) if made.text() == "Second card · 12.0\u00a0GB")
    second_button.click()
    assert page._controller.settings.device == "cuda:1"


def test_other_gpus_say_what_they_do_for_the_queue(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    take, state = page._controller.take, lambda: page._controller.state
    second = msgspec.structs.replace(kit.GPU, id="cuda:1", name="Second card")
    link.tell(Ready(version="0.1.0", protocol=1, pid=1, devices=(kit.GPU, second)))
    page.refresh()
    assert page.all_cards.isVisible()
    page.all_cards.click()
    assert state().settings.all_cards
    card = Card(device=second)
    take(CardsChosen(cards=(card,)))
    page.refresh()
    words = page._card_words["cuda:1"]
    assert words.isVisible()
    assert words.text() == "Starts when pictures wait"
    assert not page._card_words[kit.GPU.id].isVisible()
    take(CardChanged(card=replace(card, worker="ready")))
    page.refresh()
    assert words.text() == "Not measured, so it takes no pictures"
    take(CardChanged(card=replace(card, worker="ready", measured=True)))
    command = Generate(job="j", request=PictureRequest(prompt="a", model="m"))
    take(Queued(job=Job(id="j", command=command, title="a")))
    take(Sent(job="j", card="cuda:1"))
    link.tell(PhaseChanged(job="j", phase="denoise", done=3, total=12))
    page.refresh()
    assert words.text() == "Denoising, step 3 of 12"
    assert activity(state(), "")[0] == "Denoising, step 3 of 12, Second card"
    model = samples.POCKET
    take(CardChanged(card=replace(card, worker="ready", measured=True, loaded=model)))
    page.refresh()
    assert not page.device.free.isEnabled()
    take(Queued(job=Job(id="k", command=command, title="b")))
    take(Sent(job="k"))
    assert activity(state(), "")[0].endswith(", 2 GPUs at work")
    jobs = JobModel()
    jobs.gpus = gpu_names(state())
    assert {job.id: jobs.gpu(job) for job in state().jobs} == {"j": "Second card", "k": short_name(kit.GPU)}
    take(Queued(job=Job(id="w", command=command, title="c")))
    assert jobs.gpu(state().jobs[-1]) == "", "it may go to any"
    link.tell(JobEnded(job="j", outcome="done"))
    page.refresh()
    assert page.device.free.isEnabled()
    page.all_cards.click()
    assert not state().settings.all_cards


def test_device_rows_are_only_what_was_read(qtbot: QtBot) -> None:
    assert device_view.device_rows(kit.GPU) == [
        ("Driver", "572.16"),
        ("PyTorch", "2.13.0"),
        ("CUDA", "12.8"),
        ("Multiprocessors", "28"),
    ]
    processor = msgspec.structs.replace(kit.GPU, driver=None, torch_version="", threads=2, details={"cores": "4", "threads": "8"})
    assert device_view.device_rows(processor) == [("Threads", "2 of 8"), ("Cores", "4")]
    page, _ = open_page(qtbot)
    assert page.device._memory_words.text() == "1.5\u00a0GB of 12.0\u00a0GB in use"


def test_every_visible_button_has_a_name(qtbot: QtBot) -> None:
    page, _ = open_page(qtbot)
    page.set_first_run(True)
    assert [
        one for one in page.findChildren(QAbstractButton) if one.isVisible() and not (one.text() or one.accessibleName())
    ] == []


def test_numbers_as_people_read_them() -> None:
    assert number_words(1024.5) == "1\u202f024.5"
    assert number_words(0.000244) == "0.000244"
    assert number_words(None) == "–"
    assert number_words(0.0) == "0"
    assert figures.duration(111.2) == "1\u00a0min\u00a052\u00a0s"
    assert figures.duration(0.0) == "1\u00a0s"
    assert figures.change(1.011) == "+1.1\u00a0%"
    assert figures.change(0.9) == "\u221210\u00a0%"
    assert figures.size_change(-6_500_000_000) == "\u22126.5\u00a0GB"
    assert figures.peak(3.4e38) == "3.40\u00a0×\u00a010³⁸"


def test_speeds_of_one_column_have_one_unit() -> None:
    assert speed_words([46.8, 10.4, 0.4]) == ["46.8\u00a0TFLOPS", "10.4\u00a0TFLOPS", "0.40\u00a0TFLOPS"]
    assert speed_words([0.15, 0.0008]) == ["150\u00a0GFLOPS", "0.8\u00a0GFLOPS"]
    assert speed_words([]) == []


def test_bits_of_a_long_sum_are_judged_fairly() -> None:
    judged = {one.mode: device_view.bits_fine(one) for one in kit.measured().bits}
    assert judged == {"float32": True, "tf32": True, "float16": True, "float16-sums": False, "bfloat16": True}


def test_what_others_met_on_the_card_is_shown_with_its_source(qtbot: QtBot) -> None:
    card = msgspec.structs.replace(kit.GPU, name="NVIDIA GeForce GTX 1660 Ti", capability="7.5")
    page = DevicePage(kit.desk(card, self_test=kit.measured(card))[0])
    qtbot.addWidget(page)
    page.show()
    said = " ".join(one.text() for one in page.findChildren(QLabel))
    assert "FP16 gives green or black pictures on these cards. (pytorch #58123" in said
