"""The Train page: from its empty state over a running training, what is stopped in it and the answers to that, to its end."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtWidgets import QComboBox, QFileDialog, QFrame, QLabel, QMenu, QMessageBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.health import kit
from tests.helpers import samples
from tests.unit.library.test_training_runs import broken_run

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import MemoryFacts, ModelFacts
from halftone.contract.messages import (
    AnyEvent,
    Cancel,
    Decide,
    Hold,
    JobEnded,
    JobStarted,
    Keep,
    MemoryChanged,
    PhaseChanged,
    TestPicture,
    Train,
    TrainBegins,
    TrainCaught,
    TrainHeld,
    TrainSaved,
    TrainStep,
    TrainUnsaved,
)
from halftone.contract.training import Omen, TrainConfig, TrainPicture, WiderType
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.form.request_form import CreateForm
from halftone.gui.train.caught_card import filled_lines
from halftone.gui.train.picture_check import found_words
from halftone.gui.train.setup_form import TrainForm
from halftone.gui.train.train_page import TrainPage
from halftone.library.models import describe
from halftone.session.state import Preparation
from halftone.session.training import kept_training
from halftone.settings.store import Settings

CONFIG = TrainConfig(model=kit.MODEL.id, pictures="/pictures/paper", output="/loras", name="Paper cut", steps=20)
PICTURES = tuple(TrainPicture(name=f"{n}.png", caption="a hill") for n in range(4))


class Desk:
    """A page whose worker is played."""

    def __init__(self, qtbot: QtBot, settings: Settings | None = None, model: ModelFacts = kit.MODEL) -> None:
        self.controller: Controller
        self.controller, self.link = kit.desk(self_test=kit.measured(), settings=settings, models=(model,))
        self.page = TrainPage(self.controller)
        qtbot.addWidget(self.page)
        self.page.resize(1440, 830)
        self.page.show()

    def begin(self, config: TrainConfig = CONFIG, first: int = 1) -> None:
        self.choose(config)
        self.page.setup.start_button.click()
        job = self.controller.session.training.job
        assert job is not None
        self.job = job.id
        self.tell(JobStarted(kind="train"))
        self.tell(TrainBegins(config=config, pictures=PICTURES, omens=(), dtype="float16", folder="/loras/run", first=first))

    @property
    def known(self) -> Preparation:
        return self.controller.state.preparation

    def choose(self, config: TrainConfig = CONFIG, pictures: tuple[TrainPicture, ...] = PICTURES) -> None:
        """As if the folder had been read."""
        self.page.form.take(config)
        self.page.refresh()
        check = self.controller.session.training_pictures
        check._quiet.stop()
        check._answer(check._key, pictures, None)
        self.page.refresh()

    def tell(self, *events: AnyEvent) -> None:
        for event in events:
            self.link.tell(msgspec.structs.replace(event, job=self.job))
        self.page.refresh()
        QCoreApplication.processEvents()  # what was added to a layout is shown

    def step(self, *numbers: int, seconds: float = 0.5) -> None:
        self.tell(*(step(number, seconds) for number in numbers))

    def end(self, steps: int = 20) -> None:
        report = msgspec.structs.replace(samples.train_report(CONFIG), steps=steps)
        self.tell(JobEnded(outcome="done", report=report))

    def words(self, widget: QWidget) -> list[str]:
        return [found.text() for found in widget.findChildren(QLabel) if found.isVisibleTo(self.page)]

    def button(self, words: str) -> QPushButton:
        found = [
            made for made in self.page.findChildren(QPushButton) if made.text().strip() == words and made.isVisibleTo(self.page)
        ]
        return found[0]

    def sent(self, kind: type) -> list[object]:
        return [command for command in self.link.sent if isinstance(command, kind)]


def step(number: int, seconds: float = 0.5) -> TrainStep:
    return TrainStep(step=number, steps=20, loss=0.1, norm=0.2, rate=1e-4, scale=32768.0, seconds=seconds)


@pytest.fixture
def desk(qtbot: QtBot, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """Its model has no files, where the test names none that has."""
    theme.begin("dark")
    made = Desk(qtbot, model=describe(request.param) if hasattr(request, "param") else kit.MODEL)
    yield made
    made.controller.session.stop()
    qtbot.waitUntil(lambda: not made.controller.background.busy)


def test_until_the_first_step_its_parts_are_told_with_their_progress(desk: Desk) -> None:
    desk.choose()
    desk.page.setup.start_button.click()
    job = desk.controller.session.training.job
    assert job is not None
    desk.job = job.id
    desk.tell(JobStarted(kind="train"))
    header, page = desk.page.header, desk.page
    assert header.title.text() == "Reading the folder"
    assert page.prepare.isVisibleTo(page)
    assert not page.chart.isVisibleTo(page)
    desk.tell(PhaseChanged(phase="load", done=5_000_000, total=20_000_000))
    assert (header.title.text(), header.left.text()) == ("Loading the model", "5\u00a0MB of 20\u00a0MB")
    assert (header.bar.value(), header.bar.maximum()) == (250, 1000)
    desk.tell(PhaseChanged(phase="encode", done=3, total=12))
    assert (header.title.text(), header.left.text()) == ("Encoding captions and pictures", "3 of 12")
    assert [line.accessibleName() for line in page.prepare._lines.values()] == [
        "Reading the folder: done",
        "Loading the model: done",
        "Encoding captions and pictures: 3 of 12",
        "Preparing the first step: waiting",
    ]
    desk.tell(PhaseChanged(phase="encode", done=12, total=12))
    assert header.title.text() == "Preparing the first step"
    assert page.setup.keep_button.words() == "Cancel"
    assert not page.setup.hold_button.isVisibleTo(page)
    page.setup.keep_button.click()
    page.refresh()
    assert page.setup.keep_button.words() == "Cancelling…"
    desk.tell(JobEnded(outcome="cancelled"))
    assert page.centre.currentWidget() is page.checked


def test_one_that_could_not_begin_says_why_above_the_pictures(desk: Desk) -> None:
    desk.choose()
    desk.page.setup.start_button.click()
    job = desk.controller.session.training.job
    assert job is not None
    desk.job = job.id
    desk.tell(JobStarted(kind="train"))
    desk.tell(JobEnded(outcome="failed", error=ErrorFacts(code="train-no-optimizer", facts={"name": "a", "package": "b"})))
    assert desk.page.centre.currentWidget() is desk.page.checked
    assert any(
        words.startswith("Training could not start. The optimizer a needs the package b, which is missing or does not run here.")
        for words in desk.words(desk.page)
    )
    desk.page.setup.start_button.click()
    desk.page.refresh()
    assert not desk.page.offers.isVisibleTo(desk.page)


@pytest.mark.parametrize("desk", ["pocket"], indirect=True)
def test_the_memory_is_told_before_the_start_with_what_would_save_most(desk: Desk, qtbot: QtBot) -> None:
    page, setup = desk.page, desk.page.setup
    desk.choose(msgspec.structs.replace(CONFIG, model="pocket"))
    qtbot.waitUntil(lambda: desk.known.forecast is not None)
    page.refresh()
    assert setup.memory.words.text().startswith("Fits, about ")
    free = desk.known.forecast
    assert free is not None
    desk.job = ""
    desk.link.tell(MemoryChanged(memory=MemoryFacts(total=free.room.peak, own=0, others=free.room.peak // 10)))
    qtbot.waitUntil(lambda: desk.known.forecast is not None and desk.known.forecast.fit == "no")
    page.refresh()
    assert setup.memory.words.text().startswith("Does not fit, about ")
    assert "80\u00a0MB free." in setup.memory.accessibleName()
    assert setup.memory.saving.text().startswith("Save memory: about ")
    setup.memory.saving.click()
    assert page.form.config().checkpointing
    qtbot.waitUntil(lambda: desk.known.forecast is not None and desk.known.forecast.room.peak < free.room.peak)


@pytest.mark.parametrize("desk", ["pocket"], indirect=True)
def test_what_does_not_fit_is_asked_about_before_it_begins(desk: Desk, qtbot: QtBot) -> None:
    desk.choose(msgspec.structs.replace(CONFIG, model="pocket"))
    desk.job = ""
    desk.link.tell(MemoryChanged(memory=MemoryFacts(total=2 * 10**7, own=0, others=0)))
    desk.page.refresh()
    qtbot.waitUntil(lambda: desk.known.forecast is not None and desk.known.forecast.fit == "no")
    desk.page.start()
    (box,) = desk.page.findChildren(QMessageBox)
    assert "of memory; 20\u00a0MB is free." in box.text()
    assert desk.controller.session.training.job is None
    next(button for button in box.buttons() if button.text() == "Try anyway").click()
    assert desk.controller.session.training.job is not None


def test_without_pictures_there_is_an_invitation_and_no_start(desk: Desk) -> None:
    assert desk.page.centre.currentWidget() is desk.page.empty
    assert not desk.page.setup.start_button.isEnabled()
    assert desk.page.setup.reason.text() == "Choose a folder with pictures."


def test_what_stands_in_the_form_is_what_is_trained(desk: Desk) -> None:
    config = msgspec.structs.replace(
        CONFIG, rank=8, alpha=4.5, learning_rate=2e-5, optimizer="prodigy", precision="bfloat16", flip=True, word="sks", size=768
    )
    desk.begin(config)
    assert [cast("Train", command).config for command in desk.sent(Train)] == [config]


def test_every_field_of_a_training_can_be_set(desk: Desk) -> None:
    keys = {row.key for row in desk.page.form.rows}
    assert keys | {"left_out", "device"} == set(TrainConfig.__struct_fields__)


def test_a_learning_rate_that_is_none_stops_the_start(desk: Desk) -> None:
    desk.choose()
    rate = desk.page.form.row("learning_rate").editor
    desk.page.refresh()
    assert desk.page.setup.start_button.isEnabled()
    cast("object", rate).setText("fast")  # pyright: ignore[reportAttributeAccessIssue]
    desk.page.refresh()
    assert not desk.page.setup.start_button.isEnabled()
    assert "learning rate" in desk.page.setup.reason.text()


def test_fields_are_locked_while_it_runs_and_tell_what_was_found(desk: Desk) -> None:
    desk.begin()
    desk.step(1)
    form = desk.page.form
    assert desk.page.setup.fixed.isVisibleTo(desk.page)
    assert form.row("rank").locked == "16"
    assert form.row("pictures").locked == "4, all captioned"
    assert form.row("precision").locked == "FP16, LoRA in FP32"
    assert form.row("loss_scale").locked == "Auto, 32\u202f768"
    desk.end()
    assert not form.row("rank").locked


def test_the_header_tells_how_far_it_is(desk: Desk) -> None:
    desk.begin()
    header = desk.page.header
    assert header.title.text() == "Step 0 of 20"
    desk.step(1, 2)
    assert (header.title.text(), header.left.text(), header.pace.text()) == ("Step 2 of 20", "estimating", "")
    desk.step(3)
    assert header.left.text() == "about 9\u00a0s left"
    assert header.pace.text() == "2.00 steps/s"
    desk.tell(TrainSaved(step=3, path="/loras/3.safetensors"))
    assert header.saved.text() == "Last saved at step 3"
    assert (header.bar.value(), header.bar.maximum()) == (3, 20)
    state = desk.controller.state.running
    assert state is not None
    assert state.fraction == pytest.approx(3 / 20)


def test_a_slow_pace_is_told_by_step(desk: Desk) -> None:
    desk.begin()
    desk.step(1, 2, 3, seconds=2.5)
    assert desk.page.header.pace.text() == "2.5 s per step"


def test_pause_and_continue(desk: Desk) -> None:
    desk.begin()
    desk.step(1)
    desk.page.setup.hold_button.click()
    desk.page.refresh()
    assert desk.page.setup.hold_button.words() == "Pausing…"
    assert not desk.page.setup.hold_button.isEnabled()
    desk.tell(TrainHeld(on=True, step=1))
    assert desk.page.header.left.text() == "paused"
    assert desk.page.setup.hold_button.words() == "Continue"
    desk.page.setup.hold_button.click()
    assert [cast("Hold", command).on for command in desk.sent(Hold)] == [True, False]


def test_stop_and_keep_is_asked_for_once(desk: Desk) -> None:
    desk.begin()
    desk.step(1)
    desk.page.setup.keep_button.click()
    desk.page.refresh()
    assert desk.page.setup.keep_button.words() == "Saving…"
    assert not desk.page.setup.keep_button.isEnabled()
    assert len(desk.sent(Keep)) == 1
    desk.end(steps=1)
    assert "Training stopped at step 1 of 20, 1 NaN stopped. Saved as Paper cut.safetensors." in desk.words(desk.page)
    desk.button("Resume").click()
    assert desk.controller.session.training.job is not None


def test_cancelling_it_in_the_queue_keeps_what_it_learnt(desk: Desk) -> None:
    desk.begin()
    desk.step(1)
    desk.controller.session.queue.cancel(desk.job)
    assert len(desk.sent(Keep)) == 1


def test_one_that_waits_can_be_taken_out_of_the_queue(desk: Desk) -> None:
    desk.controller.session.checks.check(kit.MODEL)
    desk.choose()
    desk.page.start()
    desk.page.refresh()
    assert desk.page.header.title.text() == "Waiting"
    assert "the current job" in desk.page.setup.reason.text()
    desk.page.setup.wait_button.click()
    desk.page.refresh()
    assert desk.controller.session.training.job is None


def test_a_bad_number_is_told_and_its_cure_kept(desk: Desk) -> None:
    desk.begin()
    desk.step(1, 2)
    desk.tell(TrainCaught(caught=samples.caught(3)), step(3))
    card = desk.page.card
    assert card.isVisibleTo(desk.page)
    assert "A NaN was stopped at step 3. Nothing was lost." in card.accessibleName()
    assert "Cost: +0.6\u00a0% time" in card.accessibleName()
    desk.button("Keep the cure").click()
    desk.page.refresh()
    assert not card.isVisibleTo(desk.page)
    assert [cast("Decide", command).choice for command in desk.sent(Decide)] == ["keep-cure"]


def test_the_picture_of_the_step_is_left_out(desk: Desk) -> None:
    desk.begin()
    desk.step(1, 2)
    desk.tell(TrainCaught(caught=samples.caught(3)))
    desk.button("Exclude this picture").click()
    assert [(cast("Decide", one).choice, cast("Decide", one).picture) for one in desk.sent(Decide)] == [
        ("leave-out", "IMG_0193.png")
    ]


def test_a_bad_number_that_came_back_waits_for_an_answer(desk: Desk) -> None:
    desk.begin()
    desk.step(1, 2)
    desk.tell(TrainSaved(step=2, path="/2"))
    desk.tell(TrainCaught(caught=msgspec.structs.replace(samples.caught(3), did="stopped", tries=3), asks=True))
    card = desk.page.card
    assert "Training paused at step 3: the same NaN came back." in card.accessibleName()
    assert "The LoRA from step 2 is safe." in card.accessibleName()
    assert desk.page.header.left.text() == "waits for your answer"
    assert not desk.page.setup.hold_button.isEnabled()
    desk.button("Continue with this block in FP32").click()
    desk.page.refresh()
    assert not card.isVisibleTo(desk.page)
    assert [cast("Decide", command).choice for command in desk.sent(Decide)] == ["float32-block"]


def test_where_no_block_can_be_widened_none_is_offered(desk: Desk) -> None:
    desk.begin()
    again = msgspec.structs.replace(samples.caught(3), did="stopped", watched="gradients", cause="gradient-nonfinite", tries=0)
    desk.tell(step(1), TrainCaught(caught=again, asks=True))
    assert "Halftone stopped before it touched the LoRA." in desk.page.card.accessibleName()
    desk.button("Continue with the next step").click()
    assert [cast("Decide", command).choice for command in desk.sent(Decide)] == ["keep-cure"]


def test_what_is_asked_after_an_answer_is_asked_all_the_same(desk: Desk) -> None:
    desk.begin()
    desk.tell(step(1), TrainCaught(caught=samples.caught(2)))
    desk.button("Keep the cure").click()
    desk.tell(TrainCaught(caught=msgspec.structs.replace(samples.caught(2), did="stopped"), asks=True))
    assert desk.controller.session.training.run.asking


def test_the_card_is_no_wider_than_a_narrow_window(desk: Desk, qtbot: QtBot) -> None:
    desk.begin()
    desk.page.resize(1024, 570)
    several = msgspec.structs.replace(samples.caught(3), did="stopped", tries=3, items=("a.png", "b.png"))
    desk.tell(step(1), TrainCaught(caught=several, asks=True))
    card, room = desk.page.card, desk.page._scroll.viewport().width()
    assert card.minimumSizeHint().width() <= room - 32

    def fits() -> bool:
        """All buttons are whole, and inside of the card."""
        buttons = [one for one in card.findChildren(QPushButton) if one.isVisibleTo(card)]
        ends = [one.mapTo(card, one.rect().topRight()).x() for one in buttons]
        return len(buttons) == 5 and max(ends) < card.width() and all(one.width() >= one.sizeHint().width() for one in buttons)

    qtbot.waitUntil(fits)
    desk.page.resize(1440, 830)
    qtbot.waitUntil(fits)
    assert filled_lines([100, 100, 100], 300) == (3,)
    assert filled_lines([100, 100, 100], 299) == (2, 1)
    assert filled_lines([400, 100, 100], 300) == (1, 2)


def test_details_can_be_copied_without_prompt_and_pictures(desk: Desk) -> None:
    desk.begin()
    desk.tell(TrainCaught(caught=samples.caught(1)))
    desk.button("Copy details").click()
    said = QGuiApplication.clipboard().text()
    assert "Limit: 65\u202f504" in said
    assert "mid_block.attentions.0" in said
    assert "IMG_0193" not in said


def test_events_are_listed_and_come_back_when_chosen(desk: Desk) -> None:
    desk.begin()
    desk.tell(TrainCaught(caught=samples.caught(1)), step(1))
    desk.page.card.acted.emit("close")
    desk.page.refresh()
    assert not desk.page.card.isVisibleTo(desk.page)
    desk.button("Step 1").click()
    desk.page.refresh()
    assert desk.page.card.isVisibleTo(desk.page)


def test_test_pictures_stand_in_their_column_the_newest_first(desk: Desk) -> None:
    desk.begin()
    for number in (10, 20):
        desk.tell(TestPicture(step=number, path=f"/{number}.png", prompt="a hill", seed=7, black=number == 20))
    buttons = desk.page.pictures.buttons()
    assert [made.accessibleName() for made in buttons] == ["Step 20, black: a hill", "Step 10: a hill"]


def test_in_a_narrow_window_they_are_a_view_of_the_centre(desk: Desk) -> None:
    desk.begin()
    desk.page.resize(1024, 570)
    views = desk.page.header.views
    assert views.isVisibleTo(desk.page)
    views.button("pictures").click()
    assert desk.page.pictures.isVisibleTo(desk.page)
    desk.page.resize(1440, 830)
    assert not views.isVisibleTo(desk.page)
    assert desk.page.pictures.isVisibleTo(desk.page)
    assert desk.page.chart.isVisibleTo(desk.page)


def test_the_end_offers_the_lora_to_create(desk: Desk, qtbot: QtBot) -> None:
    desk.begin()
    desk.step(*range(1, 21))
    desk.end()
    assert "Training finished, 20 steps, 1 NaN stopped. Saved as Paper cut.safetensors." in desk.words(desk.page)
    with qtbot.waitSignal(desk.page.try_wanted) as wanted:
        desk.button("Try it in Create").click()
    assert wanted.args == ["loras/Paper cut.safetensors"]


def test_one_that_failed_goes_on_from_what_was_saved(desk: Desk) -> None:
    desk.begin()
    desk.step(1, 2)
    desk.tell(TrainSaved(step=2, path="/2"))
    desk.tell(JobEnded(outcome="failed", error=ErrorFacts(code="worker-lost", facts={"cause": "9", "log": "a"})))
    desk.button("Resume").click()
    assert cast("Train", desk.sent(Train)[-1]).resume == "/loras/run"


@pytest.mark.parametrize("begun", [False, True])
def test_one_that_was_gone_on_with_and_failed_goes_on_from_there_again(desk: Desk, begun: bool) -> None:
    training = desk.controller.session.training
    training.start(CONFIG, "/loras/run")
    job = training.job
    assert job is not None
    desk.job = job.id
    desk.tell(JobStarted(kind="train"))
    if begun:
        desk.tell(TrainBegins(config=CONFIG, pictures=PICTURES, omens=(), dtype="float16", folder="/loras/run", first=201))
        desk.tell(step(201))
    desk.tell(JobEnded(outcome="failed", error=ErrorFacts(code="out-of-memory", facts={"detail": "full"})))
    training.go_on()
    assert cast("Train", desk.sent(Train)[-1]).resume == "/loras/run"


def test_one_that_failed_before_anything_was_saved_begins_anew(desk: Desk) -> None:
    desk.begin()
    desk.tell(JobEnded(outcome="failed", error=ErrorFacts(code="internal", facts={"detail": "x", "log": "a"})))
    desk.button("Resume").click()
    assert cast("Train", desk.sent(Train)[-1]).resume is None


def test_the_run_is_exported_as_a_page(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    desk.begin()
    desk.step(1, 2, 3)
    desk.page.acts.export(str(tmp_path / "run.html"))
    qtbot.waitUntil(lambda: (tmp_path / "run.html").is_file() and not desk.controller.background.busy)
    assert "Step 3 of 20" in (tmp_path / "run.html").read_text("utf-8")


def test_a_folder_is_dropped(desk: Desk, tmp_path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path))])
    none, left = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton
    desk.page.dropEvent(QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, data, left, none))
    assert desk.page.form.pictures.value() == str(tmp_path)


def test_what_stood_in_the_setup_comes_back(qtbot: QtBot, desk: Desk) -> None:
    desk.page.form.take(CONFIG)
    kept = kept_training(desk.controller.state.training_draft)
    again = Desk(qtbot, Settings(last_model=kit.MODEL.id, train=kept))
    assert again.page.form.config() == CONFIG
    again.controller.session.stop()


@pytest.mark.parametrize("kept", ["", "{", '{"model": 5}', '{"model":"a","pictures":"b","output":"c","future":1}'])
def test_what_cannot_be_read_back_changes_nothing(qtbot: QtBot, kept: str) -> None:
    theme.begin("dark")
    made = Desk(qtbot, Settings(last_model=kit.MODEL.id, train=kept))
    assert made.page.form.config().steps == 1600
    made.controller.session.stop()


@pytest.mark.parametrize(
    ("count", "captioned", "said"), [(42, 42, "42, all captioned"), (42, 0, "42, no captions"), (42, 40, "42, 40 captioned")]
)
def test_words_of_pictures(count: int, captioned: int, said: str) -> None:
    pictures = [TrainPicture(name=str(n), caption="a" if n < captioned else "") for n in range(count)]
    assert found_words(pictures) == said


def test_a_window_that_closes_waits_for_what_is_saved(desk: Desk) -> None:
    desk.begin()
    desk.step(1)
    left: list[bool] = []
    desk.controller.session.training.finish(lambda: left.append(True))
    assert len(desk.sent(Keep)) == 1
    assert not left
    desk.end(steps=1)
    assert left == [True]


def folder_of(place: Path) -> Path:
    """A sound picture, a white one without a caption, and a file that is none."""
    place.mkdir()
    (place / "a.png").write_bytes(samples.png(64, 64))
    (place / "a.txt").write_text("a hill", "utf-8")
    (place / "b.png").write_bytes(samples.png(64, 64, (255, 255, 255)))
    (place / "c.png").write_bytes(b"no picture")
    return place


def test_the_folder_is_read_before_the_start_and_pictures_left_out(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "pictures")
    desk.page.form.take(msgspec.structs.replace(CONFIG, pictures=str(folder), size=64))
    desk.page.refresh()
    assert not desk.page.setup.start_button.isEnabled()
    qtbot.waitUntil(lambda: desk.known.pictures is not None)
    desk.page.refresh()
    assert desk.page.centre.currentWidget() is desk.page.checked
    assert desk.page.form.pictures.words() == "3, 1 captioned"
    assert "2 pictures used." in desk.page.checked.words.text()
    listed = desk.page.checked.list
    items = [item for place in range(listed.topLevelItemCount()) if (item := listed.topLevelItem(place)) is not None]
    assert [(item.text(0), item.text(1)) for item in items] == [("b.png", "all white"), ("c.png", "unreadable")]
    items[0].setCheckState(0, Qt.CheckState.Unchecked)
    desk.page.refresh()
    assert desk.page.form.config().left_out == ("b.png",)
    assert "1 picture used." in desk.page.checked.words.text()
    desk.page.setup.start_button.click()
    assert cast("Train", desk.sent(Train)[-1]).config.left_out == ("b.png",)


def test_a_folder_without_pictures_says_so(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    desk.page.form.take(msgspec.structs.replace(CONFIG, pictures=str(tmp_path)))
    desk.page.refresh()
    qtbot.waitUntil(lambda: desk.known.error is not None)
    desk.page.refresh()
    assert not desk.page.setup.start_button.isEnabled()
    assert str(tmp_path) in desk.page.checked.title.text()


def test_when_every_picture_is_left_out_there_is_nothing_to_train_on(desk: Desk) -> None:
    desk.choose(msgspec.structs.replace(CONFIG, left_out=tuple(picture.name for picture in PICTURES)))
    assert desk.page.setup.reason.text() == "No usable pictures."


def test_what_is_foreseen_is_told_with_what_helps(desk: Desk) -> None:
    omen = Omen(code="no-clipping", certain=False, remedies=("clip-1",))
    desk.choose()
    desk.page.start()
    job = desk.controller.session.training.job
    assert job is not None
    desk.job = job.id
    desk.tell(
        JobStarted(kind="train"),
        TrainBegins(config=CONFIG, pictures=PICTURES, omens=(omen,), dtype="float16", folder="/loras/run"),
    )
    said = " ".join(desk.words(desk.page))
    assert "Warning: Without gradient clipping" in said
    assert "Try gradient clipping at 1.0." in said


def test_what_could_not_be_saved_is_told_until_it_was(desk: Desk) -> None:
    desk.begin()
    full = ErrorFacts(code="disk-full", facts={"need": "1 MB", "free": "0 MB", "folder": "/loras"})
    desk.tell(step(1), TrainUnsaved(step=1, error=full))
    assert any("Step 1 was not saved" in words for words in desk.words(desk.page))
    desk.tell(TrainSaved(step=1, path="/1"))
    assert not any("was not saved" in words for words in desk.words(desk.page))


def test_another_folder_is_given_while_it_runs(desk: Desk) -> None:
    desk.begin()
    full = ErrorFacts(code="disk-full", facts={"need": "1 MB", "free": "0 MB", "folder": "/loras"})
    desk.tell(step(1), TrainUnsaved(step=1, error=full))
    desk.button("Choose folder…").click()
    dialog = desk.page.findChild(QFileDialog)
    assert dialog is not None
    dialog.fileSelected.emit("/elsewhere")
    dialog.close()
    (sent,) = desk.sent(Decide)
    assert (cast("Decide", sent).choice, cast("Decide", sent).folder) == ("save-in", "/elsewhere")
    desk.tell(TrainSaved(step=1, path="/elsewhere/run/1", folder="/elsewhere/run"))
    desk.tell(JobEnded(outcome="failed", error=ErrorFacts(code="worker-lost", facts={"cause": "9", "log": "a"})))
    desk.button("Resume").click()
    assert cast("Train", desk.sent(Train)[-1]).resume == "/elsewhere/run"


def test_a_type_that_was_not_asked_for_is_explained_before_the_first_step(desk: Desk) -> None:
    desk.begin(CONFIG)
    layer = "unet.mid_block.attentions.0"
    wider = WiderType(asked="float16", used="float32", name=layer, source="check", peak=91_300.0, limit=65_504.0)
    desk.tell(TrainBegins(config=CONFIG, pictures=PICTURES, omens=(), dtype="float32", folder="/loras/run", wider=wider))
    shown = [one.accessibleName() for one in desk.page.notes.findChildren(QFrame) if one.accessibleName()]
    assert any(name.startswith("Trains in FP32, not FP16: UNet,") for name in shown)


def test_a_remedy_of_what_is_foreseen_begins_again_with_it(desk: Desk) -> None:
    config = msgspec.structs.replace(CONFIG, learning_rate=0.1)
    omen = Omen(code="rate-too-high", certain=False, value=0.1, limit=0.0005, remedies=("lower-rate", "warm-up"))
    desk.begin(config)
    desk.tell(TrainBegins(config=config, pictures=PICTURES, omens=(omen,), dtype="float16", folder="/loras/run"))
    desk.button("Restart with a lower learning rate").click()
    assert len(desk.sent(Cancel)) == 1
    desk.tell(JobEnded(outcome="cancelled"))
    assert cast("Train", desk.sent(Train)[-1]).config == msgspec.structs.replace(config, learning_rate=0.0005)
    assert desk.page.form.config().learning_rate == 0.0005


def test_the_steps_stand_in_a_table_too(desk: Desk) -> None:
    desk.begin()
    desk.step(1, 2)
    desk.tell(TrainCaught(caught=samples.caught(3)), step(3))
    desk.page.header.as_table.click()
    table = desk.page.chart.table
    assert table.isVisibleTo(desk.page)
    model = table.model()

    def line(row: int) -> list[str]:
        return [model.data(model.index(row, column)) for column in range(4)]

    assert line(0) == ["3", "0.100", "0.100", "0.200"]
    assert "first attention" in model.data(model.index(0, 4)) or "attention" in model.data(model.index(0, 4))
    table.setCurrentIndex(model.index(0, 0))
    desk.step(4)
    assert (model.rowCount(), table.currentIndex().row()) == (4, 1)
    desk.page.header.as_table.click()
    assert desk.page.chart.chart.isVisibleTo(desk.page)


def test_prodigy_is_given_a_rate_of_its_own_unless_one_was_chosen(desk: Desk) -> None:
    form = desk.page.form
    form.row("optimizer").set_value("prodigy")
    assert form.config().learning_rate == 1.0
    form.row("optimizer").set_value("adamw")
    assert form.config().learning_rate == 1e-4
    form.row("learning_rate").set_value(0.5)
    form.row("optimizer").set_value("prodigy")
    assert form.config().learning_rate == 0.5
    own = msgspec.structs.replace(CONFIG, optimizer="prodigy", learning_rate=1e-4)
    form.take(own)
    assert form.config() == own


def test_settings_that_a_model_learns_well_with_are_taken_where_none_were_chosen(qtbot: QtBot) -> None:
    form = TrainForm(lambda: "/out")
    qtbot.addWidget(form)
    plain, noted = kit.MODEL, msgspec.structs.replace(kit.MODEL, id="noted", training={"learning_rate": 3e-3, "rank": 4})
    other = msgspec.structs.replace(kit.MODEL, id="other", training={"learning_rate": 2e-3})

    def shown() -> tuple[float, int]:
        return form.config().learning_rate, form.config().rank

    form.suit(noted)
    assert shown() == (3e-3, 4)
    form.suit(other)
    assert shown() == (2e-3, 16)
    form.row("learning_rate").set_value(5e-3)
    form.suit(noted)
    assert shown() == (5e-3, 4)
    form.take(msgspec.structs.replace(CONFIG, learning_rate=1e-4, rank=4))
    form.suit(plain)
    assert shown() == (1e-4, 4), "what is taken over was chosen"
    form.suit(noted)
    assert shown() == (3e-3, 4)


def test_an_optimiser_that_is_not_installed_is_not_offered(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bitsandbytes.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for there in (True, False):
        if not there:
            monkeypatch.setitem(sys.modules, "bitsandbytes", None)  # a package that cannot be found
        form = TrainForm(lambda: "/out")
        qtbot.addWidget(form)
        box = cast("QComboBox", form.row("optimizer").editor)
        assert (box.findData("adamw8bit") >= 0) is there
    form.row("optimizer").set_value("adamw8bit")
    assert form.config().optimizer == "adamw8bit", "what a run was begun with is shown"


@pytest.mark.parametrize("name", ["a/b", "../a", ".hidden"])
def test_a_name_that_is_no_file_s_stops_the_start(desk: Desk, name: str) -> None:
    desk.choose(msgspec.structs.replace(CONFIG, name=name))
    assert "The name cannot contain slashes or start with a dot." in desk.page.setup.reason.text()


def test_a_page_that_made_way_for_one_in_another_language_hears_of_no_job(desk: Desk) -> None:
    before = TrainPage(desk.controller)
    before.deleteLater()
    QCoreApplication.sendPostedEvents(before, QEvent.Type.DeferredDelete)
    desk.begin()
    desk.end()
    assert desk.controller.session.training.run.end is not None


def test_runs_that_were_stopped_are_not_offered_but_listed(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    config = msgspec.structs.replace(CONFIG, output=str(tmp_path))
    broken_run(tmp_path, config, step=8)
    (tmp_path / f"{config.name}.safetensors").touch()
    desk.page.form.take(config)
    desk.page._look_for_broken()
    qtbot.waitUntil(lambda: bool(desk.known.earlier))
    desk.page.refresh()
    QCoreApplication.processEvents()
    assert not desk.page.offers.isVisibleTo(desk.page)
    desk.page.setup.earlier_button.click()
    (menu,) = desk.page.findChildren(QMenu)
    (action,) = [one for one in menu.actions() if one.text() == "Paper cut, step 8 of 20"]
    action.trigger()
    menu.close()
    assert cast("Train", desk.sent(Train)[-1]).resume == str(tmp_path / "Paper cut")


def test_a_run_that_was_broken_off_is_offered(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    config = msgspec.structs.replace(CONFIG, output=str(tmp_path))
    broken_run(tmp_path, config, step=8)
    desk.page.form.take(config)
    desk.page._look_for_broken()
    qtbot.waitUntil(lambda: bool(desk.known.broken))
    desk.page.refresh()
    QCoreApplication.processEvents()
    assert any("“Paper cut” stopped early, saved at step 8 of 20." in words for words in desk.words(desk.page))
    desk.button("Resume").click()
    command = cast("Train", desk.sent(Train)[-1])
    assert (command.config, command.resume) == (config, str(tmp_path / "Paper cut"))


def test_create_says_why_its_pictures_wait(desk: Desk, qtbot: QtBot) -> None:
    form = CreateForm(desk.controller)
    qtbot.addWidget(form)
    words = "Pictures wait until training ends."
    desk.begin()
    assert form.size_note.text() == words
    desk.end()
    assert form.size_note.text() != words


def test_settings_of_a_training_that_goes_on_stand_in_the_form(desk: Desk) -> None:
    config = msgspec.structs.replace(CONFIG, steps=77)
    desk.controller.session.training.start(config, "/loras/run")
    desk.page.refresh()
    assert desk.page.form.row("steps").locked == "77"
