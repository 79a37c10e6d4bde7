"""The draft in the window: what widgets show of it, that showing it changes nothing, and what becomes of it with the language,
the theme and the next start.
"""

import random
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage, opened
from tests.gui.windows import windows_shown
from tests.helpers import samples
from tests.helpers.drafts import random_draft

from halftone.contract.request import Hires, Numerics, PictureRequest
from halftone.contract.vocabulary import NanCheck
from halftone.gui.create.form.binding import access
from halftone.gui.create.form.request_form import CreateForm
from halftone.gui.i18n import tr
from halftone.session.pictures.draft import Draft, Seed, from_request, kept
from halftone.session.pictures.picture_list import unsaved
from halftone.settings.store import Settings

BOUND: dict[str, Callable[[CreateForm], QWidget]] = {
    "prompt": lambda form: form.prompt,
    "negative": lambda form: form.negative,
    "size": lambda form: form.size_field,
    "steps": lambda form: form.steps,
    "guidance": lambda form: form.guidance,
    "seed": lambda form: form.seed,
    "batch": lambda form: form.batch,
    "start.strength": lambda form: opened(form.start_part).strength,
    "start.resize": lambda form: opened(form.start_part).resize_mode,
    "start.mask_blur": lambda form: opened(form.start_part).mask_fields.blur,
    "start.masked_content": lambda form: opened(form.start_part).mask_fields.content,
    "start.outpaint": lambda form: opened(form.start_part).side_fields,
    "only_masked": lambda form: opened(form.start_part).mask_fields.only,
    "padding": lambda form: opened(form.start_part).mask_fields.padding,
    "video": lambda form: opened(form.video_part).kind,
    "hires_on": lambda form: opened(form.hires_part).on,
    "hires.scale": lambda form: opened(form.hires_part).scale,
    "hires.upscaler": lambda form: opened(form.hires_part).upscaler,
    "refiner_at": lambda form: opened(form.refiner_part).at,
    "refiner_by_steps": lambda form: opened(form.refiner_part).by_steps,
    "variation_strength": lambda form: opened(form.variation_part).strength,
    "variation_seed": lambda form: opened(form.variation_part).seed,
    "draws": lambda form: opened(form.style_part).draws,
}
"""Fields of the draft that a widget shows as they are."""


def shown(stage: Stage, draft: Draft) -> None:
    """Let the page show a draft."""
    stage.controller.session.drafting.put(draft)


def changed_look(stage: Stage, **changes: str) -> None:
    form = stage.workspace.create_page
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, **changes))
    if "language" in changes:
        stage.wait(lambda: stage.workspace.create_page is not form)


def random_one(number: int) -> Draft:
    """A draft whose files are not looked at: those that are not there are taken out of it by and by."""
    return random_draft(random.Random(number), image=None, mask=None, model="pocket")


def test_showing_a_draft_changes_nothing_of_it(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.idle()
    for number in range(40):
        draft = random_one(number)
        shown(stage, draft)
        assert stage.controller.state.draft == draft
        read = {field: access(widget(stage.page.form))[1]() for field, widget in BOUND.items()}
        assert read == {field: attrgetter(field)(draft) for field in BOUND}
    stage.idle()
    stage.close()


@pytest.mark.parametrize("number", range(3))
def test_another_language_and_theme_keep_the_draft_to_the_bit(qtbot: QtBot, number: int) -> None:
    stage = Stage(qtbot)
    stage.idle()
    draft = random_one(100 + number)
    shown(stage, draft)
    stage.idle()
    before = kept(stage.controller.state.draft)
    changed_look(stage, theme="light")
    changed_look(stage, language="zh_CN")
    assert kept(stage.controller.state.draft) == before
    form = stage.workspace.create_page.form
    assert (form.prompt.toPlainText(), form.seed.value()) == (draft.prompt, draft.seed)
    assert form.steps.spin.accessibleName() == tr("Steps") != "Steps"
    changed_look(stage, language="en")
    assert kept(stage.controller.state.draft) == before
    stage.idle()
    stage.close()


def test_a_seed_is_locked_still_after_the_language_changed(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.page.form.seed.roll()
    stage.page.form.seed.lock.click()
    seed = stage.controller.state.draft.seed
    assert seed.locked
    changed_look(stage, language="zh_CN")
    assert stage.workspace.create_page.form.seed.value() == seed
    changed_look(stage, language="en")
    stage.idle()
    stage.close()


def test_open_rows_times_precision_and_the_shown_picture_stay_with_another_language(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.controller.session.settings.choose_precision("float32")
    stage.picture()
    stage.picture()
    newest, older = stage.page.history.paths()
    stage.page.pick(older)
    stage.page.form.hires_part.row.click()
    stage.page.form.lora_part.row.click()
    stage.page.form.hires_part.row.click()
    estimate = stage.page.form.estimate.text()
    assert estimate.startswith("About")
    for language in ("zh_CN", "en"):
        changed_look(stage, language=language)
        page, form = stage.workspace.create_page, stage.workspace.create_page.form
        assert [type(part).__name__ for part in form.parts if part.row.isChecked()] == ["LoraPart"]
        assert page.centre.shown is not None
        assert (page.centre.shown.facts.path, page.history.paths()) == (older, [newest, older])
    assert (form.estimate.text(), opened(form.numerics_part).precision.value()) == (estimate, "float32")
    stage.idle()
    stage.close()


@pytest.mark.parametrize("nan_check", ["off", "every-step"])
def test_no_part_of_the_page_is_ever_a_window_of_its_own(qtbot: QtBot, nan_check: NanCheck) -> None:
    numerics = Numerics(nan_check=nan_check)
    stage = Stage(qtbot, settings=Settings(first_run_done=True, language="zh_CN", numerics=numerics))
    with windows_shown() as seen:
        for language in ("en", "zh_CN"):
            changed_look(stage, language=language)
    assert seen == []
    stage.idle()
    stage.close()


def test_the_next_start_shows_the_draft_of_the_last_close(qtbot: QtBot) -> None:
    draft = random_one(7)
    stage = Stage(qtbot, settings=Settings(first_run_done=True, form=kept(draft)))
    stage.idle()
    assert replace(stage.controller.state.draft, defaults=None) == replace(draft, defaults=None)
    assert stage.page.form.prompt.toPlainText() == draft.prompt
    stage.close()


def test_a_picture_is_reused_as_its_request_says(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.idle()
    shown(stage, random_one(11))
    before = stage.controller.state.draft
    request = PictureRequest(prompt="sea", width=160, height=104, steps=12, seed=5, hires=Hires(strength=0.2), batch=2)
    stage.page._filler.reuse(unsaved(samples.picture_facts("/p/a.png"), request, b""))
    assert stage.controller.state.draft == from_request(before, request, "pocket")
    stage.idle()
    stage.close()


def test_what_is_typed_is_in_the_draft_as_it_is_typed(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.prompt.setFocus()
    QTest.keyClicks(form.prompt, "a  sun ")
    assert stage.controller.state.draft.prompt == "a  sun "
    assert form.request().prompt == "a  sun"
    assert form.prompt.textCursor().position() == 7, "the cursor stays where it is"
    form.steps.slider.setValue(33)
    form.seed.edit.setFocus()
    QTest.keyClicks(form.seed.edit, "42")
    draft = stage.controller.state.draft
    assert (draft.steps, draft.seed) == (33, Seed(42, locked=True))
    stage.idle()
    stage.close()


def test_typing_wakes_the_form_alone(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.idle()
    woken: list[str] = []
    stage.controller.changed.connect(lambda: woken.append("pages"))
    stage.controller.badges_changed.connect(lambda: woken.append("badges"))
    QTest.keyClicks(stage.page.form.prompt, "sea")
    assert woken == []
    stage.page.form.edit(vae="/none.safetensors")
    assert woken == ["badges"], "checks are made with it"
    stage.idle()
    stage.close()
