"""The VAE of the form: chosen from a file or folder, sent with pictures and checks, refused where it does not fit."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot
from tests.gui.health import kit
from tests.gui.stage import Stage, opened
from tests.helpers import samples
from tests.helpers.model_files import ramp, safetensors

from halftone.contract.messages import Examine
from halftone.contract.request import Extras, PictureRequest
from halftone.gui.background import Background
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.gui.health import health_view
from halftone.gui.health.finding_and_cure_cards import copy_refusal
from halftone.session.pictures.draft import kept
from halftone.session.state import Found
from halftone.settings.places import resources
from halftone.settings.store import Settings

OWN = resources() / "pocket" / "vae"
"""That of the demo model, as a folder of its own."""


def test_one_is_chosen_sent_and_given_up(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form, controller = stage.page.form, stage.controller
    part = form.vae_part
    assert (part.row.value.text(), form.request().vae) == ("Model default", None)
    part.row.click()
    part.choose(str(OWN))
    stage.wait(lambda: part.file() == str(OWN))
    assert part.row.value.text() == part._name.text() == "vae"
    assert form.request().vae == controller.state.extras.vae == str(OWN)
    model = controller.model
    assert model is not None
    controller.session.checks.check(model)
    command = next(job.command for job in controller.state.jobs)
    assert isinstance(command, Examine)
    assert command.inputs.vae == str(OWN)
    assert health_view.model_tags(model, controller.state.extras_of(model))[0] == "VAE: vae"
    stage.idle()
    part._own.click()
    assert (part.row.value.text(), form.request().vae, controller.state.extras) == ("Model default", None, Extras())
    stage.close()


@pytest.mark.parametrize(("name", "said"), [("lora", " as a VAE: it is a LoRA."), ("none", "no VAE at")])
def test_another_file_is_refused_in_a_sentence(qtbot: QtBot, tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "lora.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    stage = Stage(qtbot)
    part = stage.page.form.vae_part
    part.choose(str(tmp_path / f"{name}.safetensors"))
    stage.wait(lambda: said in part.note.text())
    assert part.note.isVisible()
    assert part.file() is None
    stage.close()


class Held(Background):
    """Begins what it is given only when the test says so."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.waiting: list[Callable[[], None]] = []

    def run(
        self,
        work: Callable[[], Any],
        ready: Callable[[Any], None],
        failed: Callable[[Exception], None] | None = None,
        *,
        receiver: QObject | None = None,
    ) -> None:
        self.waiting.append(partial(super().run, work, ready, failed, receiver=receiver))

    def answer(self, stage: Stage, index: int = 0) -> None:
        self.waiting.pop(index)()
        stage.wait(lambda: not self.busy)


@pytest.fixture
def held(qtbot: QtBot) -> Iterator[tuple[Stage, Held]]:
    stage = Stage(qtbot)
    stage.idle()
    usual, stage.controller.background = stage.controller.background, (found := Held(stage.window))
    yield stage, found
    stage.controller.background = usual
    stage.close()


def test_the_last_that_was_chosen_is_taken_whichever_answer_comes_first(held: tuple[Stage, Held], tmp_path: Path) -> None:
    stage, background = held
    part = stage.page.form.vae_part
    fast = str(shutil.copytree(OWN, tmp_path / "fast"))
    part.choose(str(OWN))
    part.choose(fast)
    background.answer(stage, 1)
    assert part.file() == fast
    while background.waiting:
        background.answer(stage)
    assert (part.file(), part.note.text()) == (fast, "")


def test_a_refusal_is_not_told_of_one_that_was_given_up(held: tuple[Stage, Held], tmp_path: Path) -> None:
    stage, background = held
    part = opened(stage.page.form.vae_part)
    part.set_file(str(tmp_path / "none.safetensors"))
    part._own.click()
    while background.waiting:
        background.answer(stage)
    assert (part.file(), part.note.text()) == (None, "")


def test_a_refusal_goes_with_the_model_it_was_told_of(held: tuple[Stage, Held], tmp_path: Path) -> None:
    stage, background = held
    part, model = stage.page.form.vae_part, stage.controller.model
    assert model is not None
    part.choose(str(tmp_path / "none.safetensors"))
    background.answer(stage)
    assert "no VAE at" in part.note.text()
    stage.controller.models_changed.emit()
    assert "no VAE at" in part.note.text(), "it is the same model still"
    other = msgspec.structs.replace(model, id="/m/other")
    stage.controller.session.models.show(Found({model.id: model, other.id: other}, {}, {}, {}))
    stage.controller.session.models.select(other.id)
    assert part.note.text() == ""


def test_those_of_the_model_folders_are_offered(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "crisp.safetensors").write_bytes(safetensors({"decoder.conv_in.weight": ramp(2)}))
    (tmp_path / "other.safetensors").write_bytes(safetensors({"something": ramp(2)}))
    stage = Stage(qtbot, settings=Settings(first_run_done=True, model_folders=(str(tmp_path),)))
    part = stage.page.form.vae_part
    part.row.click()
    stage.wait(lambda: part.known() == {"crisp.safetensors": str(tmp_path / "crisp.safetensors")})
    part._open_menu()
    (menu,) = part.findChildren(QMenu)
    offered = {action.text(): action.toolTip() for action in menu.actions() if not action.isSeparator()}
    assert offered["crisp.safetensors"] == str(tmp_path / "crisp.safetensors")
    assert "other.safetensors" not in offered
    menu.close()
    stage.close()


def test_it_comes_back_with_the_settings_of_a_picture(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.vae_part.set_file(str(OWN))
    assert '"vae":' in kept(stage.controller.state.draft)
    form.set_request(PictureRequest(prompt="sea"))
    assert form.request().vae is None
    request = PictureRequest(prompt="sea", vae=str(OWN))
    form.set_request(request)
    assert form.request().vae == str(OWN)
    assert ("VAE", "vae") in receipt_rows(samples.picture_facts("a.png"), request)
    stage.idle()
    stage.close()


def test_no_copy_is_offered_of_a_model_that_was_checked_with_another() -> None:
    report = kit.report()
    exact = [cure for cure in report.cures if cure.kind == "rescale"]
    assert exact
    view = health_view.HealthView("overflows", "", "", cures=tuple(exact), report=report)
    assert copy_refusal(view) == ""
    other = replace(view, report=msgspec.structs.replace(report, vae="/v/crisp.safetensors"))
    assert copy_refusal(other) == "A copy contains only the model. Reset VAE on Create and check again."
