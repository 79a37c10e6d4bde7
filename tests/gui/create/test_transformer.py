"""The transformer of the form: chosen from a file, sent with pictures and checks, refused where it does not fit."""

from pathlib import Path

import msgspec
from pytestqt.qtbot import QtBot
from safetensors.numpy import load_file, save_file
from tests.gui import lists
from tests.gui.stage import Stage
from tests.helpers import samples
from tests.unit.library.test_denoisers import packed

from halftone.contract.messages import Examine
from halftone.contract.request import Extras, PictureRequest
from halftone.gui.create.form.model_menu import ModelMenu
from halftone.gui.create.form.model_picker import ModelCard
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.gui.health import health_view
from halftone.settings.places import resources
from halftone.settings.store import Settings


def own(place: Path) -> str:
    """That of the demo model, as a file of its own."""
    (file,) = (resources() / "pocket" / "unet").glob("*.safetensors")
    save_file(load_file(file), place)
    return str(place)


def test_one_is_chosen_sent_and_given_up(qtbot: QtBot, tmp_path: Path) -> None:
    path = own(tmp_path / "unet.safetensors")
    stage = Stage(qtbot)
    form, controller = stage.page.form, stage.controller
    part = form.transformer_part
    assert (part.row.value.text(), form.request().transformer) == ("Model default", None)
    part.row.click()
    part.choose(path)
    stage.wait(lambda: part.file() == path)
    assert part._name.text() == "unet.safetensors"
    assert form.request().transformer == controller.state.extras.transformer == path
    model = controller.model
    assert model is not None
    controller.session.checks.check(model)
    command = next(job.command for job in controller.state.jobs)
    assert isinstance(command, Examine)
    assert command.inputs.transformer == path
    assert health_view.model_tags(model, controller.state.extras_of(model))[0] == "Transformer: unet"
    stage.idle()
    part._own.click()
    assert (part.row.value.text(), form.request().transformer, controller.state.extras) == ("Model default", None, Extras())
    stage.close()


def test_a_file_of_another_family_is_refused_in_a_sentence(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "flux.gguf").write_bytes(packed())
    stage = Stage(qtbot)
    part = stage.page.form.transformer_part
    part.choose(str(tmp_path / "flux.gguf"))
    stage.wait(lambda: "and the model is Stable Diffusion" in part.note.text())
    assert part.note.isVisible()
    assert part.file() is None
    stage.close()


def test_the_receipt_names_it_and_the_settings_of_a_picture_bring_it_back(qtbot: QtBot, tmp_path: Path) -> None:
    path = own(tmp_path / "unet.safetensors")
    request = PictureRequest(prompt="a red sun", transformer=path)
    assert ("Transformer", "unet.safetensors") in receipt_rows(samples.picture_facts("a.png"), request)
    stage = Stage(qtbot)
    stage.page.form.set_request(request)
    stage.wait(lambda: stage.page.form.request().transformer == path)
    stage.close()


def test_one_that_is_opened_as_a_model_runs_with_the_parts_of_one_that_it_fits(qtbot: QtBot, tmp_path: Path) -> None:
    path = own(tmp_path / "unet.safetensors")
    stage = Stage(qtbot)
    form, controller = stage.page.form, stage.controller
    controller.session.models.select(path)
    stage.wait(lambda: form.request().transformer == path)
    assert form.request().model == "pocket"
    assert controller.state.extras.transformer == path
    stage.wait(lambda: "unet.safetensors runs with the other parts of" in form.transformer_part.note.text())
    stage.close()


def test_a_transformer_is_hosted_after_another_language(qtbot: QtBot, tmp_path: Path) -> None:
    path = own(tmp_path / "unet.safetensors")
    stage = Stage(qtbot)
    before, session = stage.page, stage.controller.session
    session.settings.update(msgspec.structs.replace(stage.controller.settings, language="zh_CN"))
    stage.wait(lambda: stage.workspace.create_page is not before)
    session.models.select(path)
    part = stage.workspace.create_page.form.transformer_part
    stage.wait(lambda: "unet.safetensors" in part.note.text())
    stage.close()


def test_the_folders_files_of_the_family_are_offered(qtbot: QtBot, tmp_path: Path) -> None:
    path = own(tmp_path / "unet.safetensors")
    (tmp_path / "flux.gguf").write_bytes(packed())
    stage = Stage(qtbot, settings=Settings(model_folders=(str(tmp_path),)))
    part = stage.page.form.transformer_part
    part.row.click()
    stage.wait(lambda: part.known() == {"unet.safetensors": path})
    stage.close()


def opened(stage: Stage) -> ModelMenu:
    """The menu of models, open."""
    stage.page.form.model_part.row.click()
    *_, menu = stage.page.form.model_part.findChildren(ModelMenu)
    return menu


def cards(menu: ModelMenu) -> dict[str, ModelCard]:
    """What the menu shows, by their names."""
    return {choice.facts.name: menu.choices.card(choice) for choice in menu.choices.items}


def test_the_list_of_models_shows_them_as_what_they_are_and_one_that_is_chosen_runs(qtbot: QtBot, tmp_path: Path) -> None:
    path = own(tmp_path / "mine.safetensors")
    (tmp_path / "flux.gguf").write_bytes(packed())
    stage = Stage(qtbot, settings=Settings(model_folders=(str(tmp_path),)))
    listed, form = stage.controller.session.models, stage.page.form
    stage.wait(lambda: len(listed.found.parts) == 2)
    assert [model.id for model in listed.found.models.values()] == ["pocket"]
    menu = opened(stage)
    shown = cards(menu)
    assert shown["mine"].line.startswith("UNet of Stable Diffusion 1.x · FP16 · ")
    assert shown["flux"].line.startswith("Transformer of FLUX.1 schnell · ")
    assert shown["flux"].state == ""
    lists.click(menu.list, str(tmp_path / "flux.gguf"))
    stage.wait(lambda: any(notice.kind == "model-refused" for notice in stage.controller.state.notices))
    (refused,) = (notice for notice in stage.controller.state.notices if notice.kind == "model-refused")
    assert refused.error is not None
    assert refused.error.facts["family"] == "FLUX.1 schnell (huggingface.co/black-forest-labs/FLUX.1-schnell)"
    lists.click(opened(stage).list, path)
    stage.wait(lambda: form.request().transformer == path)
    assert form.request().model == "pocket"
    assert cards(opened(stage))["mine"].chosen
    stage.close()


def test_one_that_was_opened_stays_in_the_list_until_it_is_taken_off(qtbot: QtBot, tmp_path: Path) -> None:
    path = own(tmp_path / "mine.safetensors")
    stage = Stage(qtbot)
    listed = stage.controller.session.models
    stage.controller.session.models.select(path)
    stage.wait(lambda: [part.id for part in listed.found.parts.values()] == [path])
    assert stage.controller.settings.model_folders == (path,)
    stage.controller.session.models.forget(path)
    assert (listed.found.parts, stage.controller.settings.model_folders) == ({}, ())
    stage.close()
