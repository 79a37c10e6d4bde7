"""What a person does in the window, with the real worker and the bundled model. Run by `test_journey.py` on a virtual screen.

Each test leaves a picture of the window in the folder that HALFTONE_SHOTS names.
"""

import os
import signal
from pathlib import Path

import msgspec
from PIL import Image
from pytestqt.qtbot import QtBot
from tests.e2e.person import PROMPT, Person, settings
from tests.helpers.interrupted import stopped
from tests.helpers.read_back import parse_parameters, read_picture

from halftone.engine.checks.fragile import make_fragile
from halftone.engine.service import DiffusersEngine
from halftone.health.pictures.unfinished_pictures import read_kept
from halftone.library import models
from halftone.session.pictures.picture_list import unsaved
from halftone.settings import store
from halftone.settings.places import resources

TITLE_M1 = "This picture came out black. Halftone recovered it."
TITLE_M2 = "NaN"
TITLE_BOTH = "Recovered after 2 repairs."


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
    told = dict(message.details)["What happened"]
    for event in ready.facts.events:
        assert ("Halftone repeated the step." if event.action == "went-back-one-step" else decoded_again) in told

    person.controller.session.checks.check(model)
    person.idle()
    assert person.controller.session.checks.badge(model).state == "overflows"
    person.shot("5-badge-overflows")
    person.workspace.top.tabs["health"].click()
    person.shot("6-health-overflows")
    person.workspace.top.tabs["create"].click()

    person.leave()


def test_one_click_makes_the_same_seed_clean(qtbot: QtBot, tmp_path: Path) -> None:
    fragile = str(make_fragile(resources() / "pocket", tmp_path / "fragile"))
    person = Person(qtbot, settings(precision="float16"))
    session, centre = person.controller.session, person.page.centre
    session.models.select(fragile)
    person.wait(lambda: person.controller.model is not None and person.controller.model.id == fragile)
    person.generate(3)
    person.idle()
    person.wait(centre.banner.isVisible)
    fix = centre.banner.first_button()
    assert fix is not None
    assert fix.text().strip() == "Fix this model"
    shown: list[tuple[str, int]] = []

    def look() -> None:
        message = centre.banner.message
        if person.controller.state.fix.running and message is not None and centre.banner.isVisible():
            shown.append((message.title, centre.banner.progress))

    person.controller.changed.connect(look)
    person.click(fix)
    person.wait(lambda: session.state.fix.state == "fixed")
    person.idle()
    assert person.clicks == 1
    assert list(dict.fromkeys(title for title, _ in shown)) == ["Fixing, step 1 of 2", "Fixing, step 2 of 2"]
    progress = [share for _, share in shown]
    assert progress == sorted(progress)
    assert len(set(progress)) > 5
    first, second = (ready.facts for ready in person.pictures)
    assert (first.state, second.state, second.seed) == ("recovered", "clean", first.seed)
    person.wait(lambda: centre.shown is not None and centre.shown.key == second.path)
    message = centre.banner.message
    assert message is not None
    assert message.title == "Fixed. The same seed, made clean."
    likeness = session.state.fix.likeness
    assert likeness is not None
    assert likeness >= 40
    person.wait(lambda: not centre.banner.evidence.before.image.isNull() and not centre.banner.evidence.after.image.isNull())
    assert session.checks.badge(person.controller.model).state == "cured"
    person.window.resize(1024, 640)
    for picture in (centre.banner.evidence.before, centre.banner.evidence.after):
        person.wait(lambda one=picture: one.visibleRegion().boundingRect() == one.rect())
    person.shot("7-fixed")
    centre.receipt.click()
    assert centre.sheet.undo.isVisible()
    centre.sheet.undo.click()
    assert session.checks.badge(person.controller.model).state == "overflows"
    assert centre.banner.isHidden()
    person.shot("8-undone")
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


def test_a_killed_worker_costs_no_picture(qtbot: QtBot) -> None:
    person = Person(qtbot, settings(precision="float32"))
    person.draw_small()
    person.page.form.steps.set_value(60)
    person.generate(5)
    person.wait(lambda: len(person.steps) >= 2)
    pid = person.link.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    person.wait(lambda: any(notice.kind == "went-on" for notice in person.controller.state.notices))
    person.shot("11-worker-lost")
    person.idle()
    assert [ready.facts.seed for ready in person.pictures] == [5]
    person.page.form.steps.set_value(4)
    person.generate(6)
    person.wait(lambda: len(person.pictures) == 2)
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
