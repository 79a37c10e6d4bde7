"""CFG rescale and shift in the window: from the form to the request, the receipt and the picture, and back into the form."""

from pathlib import Path

import pytest
from PIL import Image
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage, opened
from tests.helpers.model_files import write_folder
from tests.helpers.pictures import picture_facts, resolved

from halftone.contract.plan import Plan
from halftone.gallery.history import History
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.metadata.parameters import a1111_text, receipt_json
from halftone.metadata.picture import save_picture


@pytest.mark.parametrize(
    ("pipeline", "name", "label", "number", "absent"),
    [
        ("StableDiffusionPipeline", "guidance_rescale", "CFG rescale", 0.7, "shift"),
        ("StableDiffusion3Pipeline", "shift", "Shift", 4.25, "guidance_rescale"),
        ("SanaPipeline", "shift", "Shift", 8.0, "guidance_rescale"),
    ],
)
def test_an_option_goes_from_the_form_into_the_picture_and_back(
    qtbot: QtBot, tmp_path: Path, pipeline: str, name: str, label: str, number: float, absent: str
) -> None:
    model = str(write_folder(tmp_path / "mine", pipeline))
    stage = Stage(qtbot)
    form = stage.page.form
    part = opened(form.options_part)
    stage.controller.session.models.select(model)
    stage.wait(lambda: stage.controller.model is not None and stage.controller.model.id == model)
    assert (part.lines[name].isHidden(), part.lines[absent].isHidden()) == (False, True)
    part.boxes[name].setValue(number)
    assert form.request().options == {name: number}
    assert part.row.value.text() == f"{label} {number:.2f}"

    stage.picture()
    with History() as history:
        (made,) = history.recent()
    assert made.request.options == {name: number}
    assert (label, f"{number:g}") in receipt_rows(made.facts, made.request)

    part.boxes[name].setValue(0)
    assert (form.request().options, part.row.value.text()) == ({}, "")
    stage.page.reuse_settings()
    assert form.request().options == {name: number}

    part.boxes[name].setValue(0)
    request, picture = resolved(model=model, options={name: number}), picture_facts()
    file = tmp_path / "sun.png"
    save_picture(Image.new("RGB", (8, 8)), file, a1111_text(request, picture), receipt_json(request, picture, Plan()))
    stage.page._filler.take_picture(str(file))
    stage.wait(lambda: form.request().options == {name: number})
    assert part.boxes[name].value() == number
    stage.close()
