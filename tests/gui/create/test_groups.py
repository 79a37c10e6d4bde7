"""The order of the form: a few rows, what is set is seen while they are folded, what the model cannot use is not there."""

from msgspec.structs import replace
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage, opened
from tests.helpers import samples

from halftone.contract.request import Control, Lora, Refiner
from halftone.gui.create.form.form_parts import FoldedRow
from halftone.gui.create.form.request_form import CreateForm
from halftone.library.add_ons.inversions import Inversion
from halftone.library.families.known_families import SDXL, WAN
from halftone.session.events import PrecisionChosen, Replaced
from halftone.session.state import Embeddings

XL = replace(samples.POCKET, family=SDXL.name, pipeline="StableDiffusionXLPipeline", name="XL")
VIDEO = replace(samples.POCKET, family=WAN.name, pipeline="WanPipeline", name="Wan")


def rows(form: CreateForm) -> list[str]:
    """What can be read from top to bottom."""
    seen = [row for row in form.findChildren(FoldedRow) if row.isVisibleTo(form)]
    return [row.accessibleName() for row in sorted(seen, key=lambda row: row.mapTo(form, row.rect().topLeft()).y())]


def test_a_few_rows_stand_in_the_order_of_the_work(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    assert rows(form) == ["Styles and wildcards", "Image to image", "Extras", "Finish", "Advanced"]
    for group in form.groups:
        group.row.setChecked(True)
    stage.idle()
    assert rows(form)[2:] == [
        *("Extras", "LoRA", "ControlNet", "IP-Adapter"),
        *("Finish", "Hires. fix", "Upscale"),
        *("Advanced", "Variation", "VAE", "Transformer", "Options", "Numerics"),
    ]
    stage.close()


def test_a_folded_group_shows_what_is_set_in_it(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    stage.window.resize(1440, 900)
    extras, finish, advanced = (group._summary for group in form.groups)
    assert (extras.property("tone"), extras.accessibleName()) == ("muted", "LoRA, ControlNet, IP-Adapter")
    form.edit(loras=(Lora(path="/l/grain.safetensors", weight=0.5),))
    assert (extras.property("tone"), extras.accessibleName()) == ("accent", "LoRA grain 0.50")
    form.edit(controls=(Control(path="/c/edges", image="/e.png"),), hires_on=True, variation_strength=0.2)
    assert extras.accessibleName() == "LoRA, ControlNet"
    assert finish.accessibleName() == "Hires. fix 256 × 256"
    assert advanced.accessibleName() == "Variation 0.2"
    stage.controller.take(PrecisionChosen(precision="float32"))
    assert advanced.accessibleName() == "Variation, Numerics"
    form.groups[0].row.setChecked(True)
    assert extras.isHidden(), "the rows below say it"
    form.edit(loras=(), controls=())
    stage.idle()
    stage.close()


def test_what_the_model_cannot_use_is_not_there_and_comes_back_with_another(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.edit(refiner="/models/refiner.safetensors", refiner_at=0.7)
    assert form.unused_note.text() == "Not used by Pocket (demo): Refiner."
    assert (form.request().refiner, form.refusal()) == (None, "")
    form.follow(XL)
    assert (form.unused_note.isHidden(), form.request().refiner) == (True, Refiner(path="/models/refiner.safetensors", at=0.7))
    assert form.groups[1]._summary.accessibleName() == "Refiner refiner, 0.70"
    form.follow(VIDEO)
    assert form.groups[1].isHidden()
    assert not form.video_part.row.isHidden()
    assert form.control_part.row.isHidden()
    form.edit(refiner=None)
    stage.idle()
    stage.close()


def test_a_group_opens_with_its_part_and_stays_open_in_another_language(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    opened(form.hires_part)
    assert form.groups[1].row.isChecked()
    form.groups[1].row.setChecked(False)
    assert not form.hires_part.isVisible()
    form.hires_part.open()
    assert form.hires_part.isVisible()
    form.groups[1].row.setChecked(False)
    form.groups[2].row.setChecked(True)
    again = CreateForm(stage.controller)
    qtbot.addWidget(again)
    assert [group.row.isChecked() for group in again.groups] == [False, False, True]
    assert again.hires_part.row.isChecked()
    stage.idle()
    stage.close()


def test_a_precision_chosen_here_is_not_shown_as_the_setting(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    status = stage.workspace.status.precision
    assert status.accessibleName().startswith("Precision Auto")
    stage.controller.take(PrecisionChosen(precision="float32"))
    assert status.accessibleName() == "Precision of the next pictures FP32"
    assert status.toolTip().startswith("Chosen on Create. The global setting stays.")
    stage.controller.go("health")
    stage.wait(lambda: stage.shows("health"))
    page = stage.workspace.page("health")
    assert any(shown.text() == "FP32 for the next pictures" for shown in page.findChildren(QLabel))
    stage.controller.take(PrecisionChosen(precision=None))
    assert status.accessibleName().startswith("Precision Auto")
    stage.idle()
    stage.close()


def test_embeddings_are_there_while_the_model_can_read_one(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form, part = stage.page.form, stage.page.form.embedding_part
    stage.idle()
    form.groups[0].row.setChecked(True)
    assert part.row.isHidden()
    one = Inversion(path="/e/easy.safetensors", tensors={"": "v"}, widths={"": 7}, vectors=1)
    stage.controller.take(Replaced(part=Embeddings(known=(one,), widths=(7,))))
    assert not part.row.isHidden()
    form.edit(prompt="a sun", negative="")
    assert [action.text() for action in part.menu_for("negative").actions()] == ["easy"]
    part.add("negative", "easy")
    part.add("prompt", "easy")
    draft = stage.controller.state.draft
    assert (draft.prompt, draft.negative, part.row.value.text(), part.used()) == ("a sun, easy", "easy", "easy", True)
    stage.idle()
    stage.close()
