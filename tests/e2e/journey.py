"""What a person does in the window, with the real worker and the bundled model. Run by `test_journey.py` on a virtual screen.

Each test leaves a picture of the window in the folder that HALFTONE_SHOTS names.
"""

import collections
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
from PIL import Image
from pytestqt.qtbot import QtBot
from tests.helpers import samples
from tests.helpers.interrupted import stopped
from tests.helpers.read_back import parse_parameters, read_picture

from halftone.contract.messages import PictureReady, StepDone
from halftone.contract.request import Numerics
from halftone.engine.checks.fragile import make_fragile
from halftone.engine.service import DiffusersEngine
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.i18n import set_language
from halftone.gui.process import WorkerLink
from halftone.gui.shell.window import MainWindow
from halftone.gui.shell.workspace import Workspace
from halftone.health.pictures.unfinished_pictures import read_kept
from halftone.library import models, records
from halftone.measure.devices import find_device
from halftone.session.pictures.draft import Seed
from halftone.session.pictures.picture_list import unsaved
from halftone.settings import store
from halftone.settings.places import resources
from halftone.settings.store import Settings

PATIENCE = 240_000
PROMPT = "a red sun over green hills"
TITLE_M1 = "This picture came out black. Halftone recovered it."
TITLE_M2 = "NaN"
TITLE_BOTH = "Recovered after 2 repairs."


class Person:
    """Sits before a real window over a real worker."""

    def __init__(self, qtbot: QtBot, settings: Settings) -> None:
        set_language("en")
        theme.set_theme("dark")
        device = find_device("auto")
        report = samples.self_test_report()
        records.save_selftest(msgspec.structs.replace(report, device=device))
        self.qtbot = qtbot
        self.link = WorkerLink()
        self.controller = Controller(self.link, settings)
        self.window = MainWindow()
        self.workspace = Workspace(self.window, self.controller)
        collections.deque(self.workspace.move_in(), maxlen=0)
        self.page = self.workspace.create_page
        self.pictures: list[PictureReady] = []
        self.steps: list[StepDone] = []
        self.controller.worker_event.connect(self._seen)
        qtbot.addWidget(self.window, before_close_func=lambda _window: self.leave())
        self.window.show()
        self.controller.session.start()
        self.wait(lambda: self.controller.state.worker == "ready" and self.controller.state.device is not None)
        self.wait(lambda: self.controller.model is not None)

    def _seen(self, event: object, _blob: object) -> None:
        if isinstance(event, PictureReady):
            self.pictures.append(event)
        if isinstance(event, StepDone):
            self.steps.append(event)

    def wait(self, condition: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(condition, timeout=PATIENCE)

    def idle(self) -> None:
        self.wait(lambda: not self.controller.state.jobs and not self.controller.background.busy)

    def generate(self, seed: int) -> None:
        self.page.form.edit(prompt=PROMPT, seed=Seed(seed, locked=True))
        self.page.generate()

    def shot(self, name: str) -> None:
        self.qtbot.wait(50)
        folder = os.environ.get("HALFTONE_SHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            assert self.window.grab().save(str(Path(folder) / f"{name}.png"))

    def leave(self) -> None:
        self.controller.session.queue.clear_waiting()
        self.link.stop()
        self.qtbot.waitUntil(lambda: not self.controller.background.busy, timeout=PATIENCE)


def settings(**numerics: object) -> Settings:
    return Settings(first_run_done=True, numerics=msgspec.convert(numerics, Numerics))


def test_type_and_generate_gives_a_png_with_its_settings_inside(qtbot: QtBot) -> None:
    person = Person(qtbot, settings(precision="float32"))
    person.shot("1-empty")
    person.generate(3)
    person.idle()
    person.wait(person.page.centre.receipt.isVisible)
    person.shot("2-done")
    (ready,) = person.pictures
    path = Path(ready.facts.path)
    with Image.open(path) as picture:
        assert picture.size == (ready.facts.width, ready.facts.height)
    text = read_picture(path).parameters
    assert text is not None
    assert parse_parameters(text).prompt == PROMPT
    assert ready.facts.seed == 3
    assert person.page.centre.receipt.word.text() == "Clean"
    person.leave()


def test_the_fragile_model_is_told_recovered_and_fixed(qtbot: QtBot, tmp_path: Path) -> None:
    fragile = str(make_fragile(resources() / "pocket", tmp_path / "fragile"))
    person = Person(qtbot, settings(precision="float16"))
    person.controller.session.models.select(fragile)
    person.wait(lambda: person.controller.model is not None and person.controller.model.id == fragile)
    model = person.controller.model
    assert model is not None
    assert person.controller.session.checks.badge(model).state == "unchecked"
    person.shot("3-fragile-unchecked")

    person.generate(3)
    person.idle()
    person.wait(person.page.centre.banner.isVisible)
    person.shot("4-recovered")
    (ready,) = person.pictures
    assert ready.facts.state == "recovered"
    assert not ready.facts.black
    message = person.page.centre.banner.message
    assert message is not None
    assert message.title in (TITLE_M1, TITLE_BOTH) or message.title.startswith(TITLE_M2)
    decoded_again = "The VAE decoder overflowed in half precision. Halftone ran it again with values rescaled by powers of two."
    for event in ready.facts.events:
        assert ("Halftone repeated the step." if event.action == "went-back-one-step" else decoded_again) in message.text

    person.controller.session.checks.check(model)
    person.idle()
    assert person.controller.session.checks.badge(model).state == "overflows"
    person.shot("5-badge-overflows")
    person.workspace.top.tabs["health"].click()
    person.shot("6-health-overflows")
    person.workspace.top.tabs["create"].click()

    person.page._banner_act("fix")
    person.idle()
    assert "cure-applied" in [notice.kind for notice in person.controller.state.notices]
    assert person.controller.session.checks.badge(model).state == "cured"
    person.shot("7-cured")

    person.generate(4)
    person.idle()
    person.wait(lambda: len(person.pictures) == 2)
    assert person.pictures[1].facts.state == "clean"
    person.shot("8-clean-after-the-cure")
    person.leave()


def test_an_unfinished_picture_goes_on_with_a_click(qtbot: QtBot) -> None:
    kept = stopped(DiffusersEngine(), resources() / "pocket", on_black="ask", prompt=PROMPT)
    file = Path(str(kept.latents))
    asked = read_kept(file).asked
    assert asked is not None
    assert (kept.state, kept.kept_step) == ("asking", 3)
    person = Person(qtbot, settings(precision="float16", on_black="ask"))
    person.page.centre.show_picture(unsaved(kept, asked, b""))
    person.wait(person.page.centre.banner.isVisible)
    message = person.page.centre.banner.message
    assert message is not None
    assert message.title == "NaN at step 4."
    assert message.text == "Halftone can go back one step and finish with a cure."
    person.shot("9-unfinished")
    recover = person.page.centre.banner.first_button()
    assert recover is not None
    assert recover.text().strip() == "Recover"
    recover.click()
    person.wait(lambda: len(person.pictures) == 1)
    person.idle()
    (ready,) = person.pictures
    assert [event.step for event in person.steps] == [4, 5, 6]
    assert (ready.facts.state, ready.facts.seed) == ("clean", kept.seed)
    assert Path(ready.facts.path).exists()
    assert not file.exists()
    assert person.page.centre.receipt.word.text() == "Clean"
    person.shot("10-went-on")
    person.leave()


def test_a_killed_worker_costs_one_job(qtbot: QtBot) -> None:
    person = Person(qtbot, settings(precision="float32"))
    person.page.form.steps.set_value(60)
    person.generate(5)
    person.wait(lambda: len(person.steps) >= 2)
    pid = person.link.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    person.wait(lambda: any(notice.kind == "failed" for notice in person.controller.state.notices))
    person.shot("11-worker-lost")
    person.idle()
    assert person.pictures == []
    person.page.form.steps.set_value(4)
    person.generate(6)
    person.wait(lambda: len(person.pictures) == 1)
    person.idle()
    person.shot("12-goes-on")
    person.leave()


def test_cancel_ends_within_one_step(qtbot: QtBot) -> None:
    person = Person(qtbot, settings(precision="float32"))
    person.page.form.steps.set_value(100)
    person.generate(7)
    person.wait(lambda: len(person.steps) >= 2)
    asked_at = person.steps[-1].step
    person.page.centre.transport.cancel.click()
    person.idle()
    ended = person.controller.state.ended
    assert ended is not None
    assert ended.outcome == "cancelled"
    # One step may have been told before the click arrived, and one may have been under way.
    assert person.steps[-1].step <= asked_at + 2
    person.shot("13-cancelled")
    person.leave()


def test_settings_are_kept(qtbot: QtBot) -> None:
    person = Person(qtbot, settings(precision="float32"))
    numerics = msgspec.structs.replace(person.controller.settings.numerics, nan_check="at-end")
    person.controller.update_numerics(numerics)
    person.wait(lambda: store.load().numerics.nan_check == "at-end")
    assert person.controller.model is not None
    assert person.controller.model.id == models.POCKET
    person.leave()
