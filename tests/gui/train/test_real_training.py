"""The Train page over the real worker and the real trainer: a person trains Pocket, stops, goes on, and tries what was learnt."""

import collections
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from PySide6.QtWidgets import QFileDialog, QLabel, QPushButton
from pytestqt.qtbot import QtBot
from tests.helpers import samples
from tests.helpers.trainings import draw_pictures

from halftone.contract.training import TrainReport
from halftone.engine.checks.fragile import make_fragile
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.i18n import set_language
from halftone.gui.process import WorkerLink
from halftone.gui.shell.window import MainWindow
from halftone.gui.shell.workspace import Workspace
from halftone.gui.train.train_page import TrainPage
from halftone.library import records
from halftone.settings.places import resources
from halftone.settings.store import Settings

pytestmark = pytest.mark.timeout(300)
PATIENCE = 120_000


class Person:
    """Sits before the Train page of a real window over a real worker."""

    def __init__(self, qtbot: QtBot, folder: Path, pictures: int = 3) -> None:
        set_language("en")
        theme.begin("dark")
        records.save_selftest(msgspec.structs.replace(samples.self_test_report(), device=samples.CPU))
        self.qtbot = qtbot
        self.link = WorkerLink()
        self.controller = Controller(self.link, Settings(first_run_done=True))
        self.window = MainWindow()
        self.workspace = Workspace(self.window, self.controller)
        collections.deque(self.workspace.move_in(), maxlen=0)
        qtbot.addWidget(self.window, before_close_func=lambda _window: self.leave())
        self.window.show()
        self.controller.session.start()
        self.wait(lambda: self.controller.state.worker == "ready" and self.controller.model is not None)
        self.controller.go("train")
        page = self.workspace.page("train")
        assert isinstance(page, TrainPage)
        self.page, self.training = page, self.controller.session.training
        self.folder = folder
        page.form.choose_pictures(str(draw_pictures(folder / "pictures", pictures)))

    def set_up(self, **changes: object) -> None:
        """These settings, and the folder read."""
        fields = {
            "steps": 6,
            "batch": 1,
            "rank": 2,
            "size": 64,
            "save_every": 2,
            "test_every": 0,
            "precision": "float32",
            **changes,
        }
        config = msgspec.structs.replace(self.page.form.config(), output=str(self.folder / "out"), name="hills", **fields)
        self.page.form.take(config)
        self.page.refresh()
        self.wait(self.page.setup.start_button.isEnabled)

    def wait(self, condition: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(condition, timeout=PATIENCE)

    def press(self, words: str) -> None:
        """The button that says so, as soon as it is there and can be pressed."""

        def found() -> QPushButton | None:
            buttons = self.page.findChildren(QPushButton)
            return next((one for one in buttons if one.text().strip() == words and one.isVisible() and one.isEnabled()), None)

        self.wait(lambda: found() is not None)
        button = found()
        assert button is not None
        button.click()

    def report(self) -> TrainReport:
        """What the training left, when it is over."""
        self.wait(lambda: self.training.job is None and self.training.run.end is not None)
        end = self.training.run.end
        assert end is not None
        assert isinstance(end.report, TrainReport), end
        return end.report

    @property
    def step(self) -> int:
        return self.training.run.record.step if self.training.run.record is not None else 0

    def leave(self) -> None:
        self.controller.session.queue.clear_waiting()
        self.link.stop()
        self.qtbot.waitUntil(lambda: not self.controller.background.busy, timeout=PATIENCE)

    def words(self) -> str:
        """All that is read on the page."""
        return " ".join(one.text() for one in self.page.findChildren(QLabel) if one.isVisible())


@pytest.fixture
def person(qtbot: QtBot, tmp_path: Path) -> Iterator[Person]:
    made = Person(qtbot, tmp_path)
    yield made
    made.leave()


def test_a_training_is_refused_paused_stopped_gone_on_with_and_tried(person: Person, tmp_path: Path) -> None:
    page, out = person.page, tmp_path / "out"
    out.write_text("a file where the folder is to be", encoding="utf-8")
    person.set_up(steps=8, test_every=2, test_prompt="a hill")
    person.wait(page.setup.memory.isVisible)
    person.press("Start training")
    person.wait(lambda: person.training.run.refused and page.offers.isVisible())
    assert f"Training could not start. {out} is a file, not a folder." in person.words()
    out.unlink()

    person.press("Start training")
    person.wait(lambda: person.step >= 2)
    person.press("Pause")
    person.wait(lambda: page.header.left.text() == "paused")
    held = person.step
    person.press("Continue")
    person.wait(lambda: person.step > held)
    person.press("Stop and keep")
    stopped = person.report()
    assert 2 < stopped.steps < 8
    assert Path(stopped.path).is_file()
    before = person.training.run.record
    assert before is not None

    person.press("Resume")
    person.wait(lambda: person.step > stopped.steps)
    record = person.training.run.record
    assert record is not None
    assert list(record.losses[: stopped.steps]) == pytest.approx(before.losses[: stopped.steps])
    done = person.report()
    assert (done.steps, done.not_kept) == (8, None)
    person.wait(lambda: "Training finished, 8 steps, no NaN." in person.words())
    pictures = [made.accessibleName() for made in page.pictures.buttons()]
    assert (pictures[0], pictures[-1]) == ("Step 8: a hill", "Step 2: a hill")
    page.acts.export(str(tmp_path / "run.html"))
    person.wait((tmp_path / "run.html").is_file)
    person.press("Try it in Create")
    person.wait(lambda: [lora.path for lora in person.workspace.create_page.form.request().loras] == [done.path])


def test_an_overflow_is_cured_a_picture_left_out_and_what_cannot_be_saved_goes_elsewhere(person: Person, tmp_path: Path) -> None:
    fragile = str(make_fragile(resources() / "pocket", tmp_path / "fragile"))
    person.controller.session.models.select(fragile)
    person.wait(lambda: any(model.id == fragile for model in person.controller.models))
    person.set_up(model=fragile, precision="float16", steps=60)
    person.press("Start training")
    person.wait(lambda: bool(person.training.run.open))
    caught = person.training.run.open[-1]
    assert (caught.cause, caught.did) == ("activation-overflow", "repeated")
    person.press("Exclude this picture")
    person.wait(lambda: person.training.run.record is not None and person.training.run.record.saved is not None)
    person.press("Pause")
    person.wait(lambda: person.page.header.left.text() == "paused")
    run = Path(person.training.run.folder)
    shutil.rmtree(run)  # while it pauses, the training saves nothing there
    run.write_text("", encoding="utf-8")
    person.press("Continue")
    person.press("Choose folder…")
    dialog = person.page.findChild(QFileDialog)
    assert dialog is not None
    dialog.fileSelected.emit(str(tmp_path / "there"))
    dialog.close()
    person.wait(lambda: person.training.run.folder == str(tmp_path / "there" / "hills"))
    person.press("Stop and keep")
    report = person.report()
    assert (Path(report.path).parent, report.not_kept, len(report.caught)) == (tmp_path / "there", None, 1)
    assert caught.items[0] in (Path(report.folder) / "state.safetensors").read_bytes()[:100_000].decode("utf-8", "replace")
