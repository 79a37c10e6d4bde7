"""The form filled from pictures that are dropped on the page and from texts that are pasted; clip skip; variations."""

from pathlib import Path

import msgspec
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage, opened
from tests.helpers import model_files, samples
from tests.helpers.hub import WHOLE, save_flux
from tests.helpers.model_files import ramp, safetensors

from halftone.contract.request import Lora, Numerics, PictureRequest
from halftone.gui.create.form.form_fields import NumberBox
from halftone.gui.create.form.settings_from_pictures import taken_words
from halftone.gui.create.picture.picture_receipt import option_rows
from halftone.health.pictures.imported_settings import Imported
from halftone.library.files.small_files import T5
from halftone.metadata.picture import exif_of
from halftone.metadata.reading import Parameters
from halftone.session.pictures.picture_list import unsaved
from halftone.settings.store import Settings

TEXT = (
    "a sun <lora:sepia:0.4> {x|y}\nNegative prompt: blurry\n"
    "Steps: 31, Sampler: Euler a, CFG scale: 4.5, Seed: 42, Size: 128x192, Clip skip: 3, Hires upscale: 1.5, "
    "Hires upscaler: Lanczos, Denoising strength: 0.3, Token merging ratio: 0.5, Version: v1.10"
)


def dropped(stage: Stage, path: str) -> bool:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(path)])
    keys, buttons, copy = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton, Qt.DropAction.CopyAction
    entered = QDragEnterEvent(QPoint(5, 5), copy, data, buttons, keys)
    QApplication.sendEvent(stage.page, entered)
    QApplication.sendEvent(stage.page, QDropEvent(QPointF(5, 5), copy, data, buttons, keys))
    return entered.isAccepted()


def check_filled(request: PictureRequest) -> None:
    assert (request.prompt, request.negative) == ("a sun {x|y}", "blurry")
    assert [(lora.name, lora.weight) for lora in request.loras] == [("sepia", 0.4)]
    assert (request.steps, request.guidance, request.seed, request.sampler) == (31, 4.5, 42, "Euler a Normal")
    assert (request.width, request.height, request.options) == (128, 192, {"clip_skip": 2, "noise_source": 1})
    assert request.hires is not None
    assert (request.hires.scale, request.hires.upscaler, request.hires.strength) == (1.5, "lanczos", 0.3)


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "pasted"])
def test_what_a1111_wrote_fills_the_form(qtbot: QtBot, tmp_path: Path, ending: str) -> None:
    (tmp_path / "sepia.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    stage = Stage(qtbot, settings=Settings(first_run_done=True, lora_folders=(str(tmp_path),)))
    form = stage.page.form
    path, image = tmp_path / f"sun.{ending}", Image.new("RGB", (8, 8))
    if ending == "pasted":
        data = QMimeData()
        data.setText(TEXT)
        form.prompt.insertFromMimeData(data)
    elif ending == "png":
        chunks = PngInfo()
        chunks.add_text("parameters", TEXT)
        image.save(path, pnginfo=chunks)
    else:
        image.save(path, exif=exif_of(TEXT, ""))
    assert ending == "pasted" or dropped(stage, str(path))
    if ending == "pasted":  # all but the files at once, and no picture before they are known
        assert (form.prompt.toPlainText(), form.request().seed, form.taken.text()) == ("a sun {x|y}", 42, "Reading…")
        assert not form.submit()
        form.negative.setPlainText("mine")
    stage.wait(lambda: not form.refusal())
    told = "Prompt, negative prompt, seed, size, steps, sampler, guidance, clip skip from A1111. LoRA added: sepia. "
    told += "Not found: Token merging ratio: 0.5."
    assert (stage.page.centre.imported.words, form.taken.text()) == (told, "")
    if ending == "pasted":
        assert form.request().negative == "mine"
        form.negative.setPlainText("blurry")
    check_filled(form.request())
    assert form.submit()
    assert stage.page.centre.imported.isHidden()
    assert form.request().seed == 42
    stage.close()


def test_a_model_of_the_same_name_with_another_hash_is_told(qtbot: QtBot, tmp_path: Path) -> None:
    T5.place.parent.mkdir(parents=True)
    T5.place.write_bytes(WHOLE)
    path = str(save_flux(tmp_path / "flux.safetensors"))
    stage = Stage(qtbot, settings=Settings(first_run_done=True, model_folders=(path,), last_model=path))
    data = QMimeData()
    data.setText("a sun\nSteps: 5, Sampler: Euler, Seed: 4, Model hash: 1a2b3c4d5e, Model: flux")
    stage.page.form.prompt.insertFromMimeData(data)
    taken = stage.page.form.taken
    stage.wait(lambda: "different file" in taken.text())
    assert taken.text().startswith("flux is a different file: hash ")
    assert taken.text().endswith(", expected 1a2b3c4d5e.")
    stage.close()


def test_another_precision_than_that_of_the_next_picture_is_told(qtbot: QtBot, tmp_path: Path) -> None:
    text = 'a sun\nSteps: 5, Sampler: Euler, Seed: 4, Precision: "unet {}, vae float32", Version: Halftone 0.1.0'
    stage = Stage(qtbot, settings=Settings(first_run_done=True, numerics=Numerics(precision="float32")))
    taken, chunks = stage.page.form.taken, PngInfo()
    chunks.add_text("parameters", text.format("float16"))
    Image.new("RGB", (8, 8)).save(tmp_path / "sun.png", pnginfo=chunks)
    assert dropped(stage, str(tmp_path / "sun.png"))
    stage.wait(lambda: not stage.page.form.refusal())
    assert taken.text() == "Made in FP16, now FP32. Choose FP16 to reproduce it."
    data = QMimeData()
    data.setText(text.format("float32"))
    stage.page.form.prompt.insertFromMimeData(data)
    stage.wait(lambda: not stage.page.form.refusal())
    assert taken.text() == ""
    assert stage.page.centre.imported.words == "Prompt, seed, steps, sampler from Halftone."
    stage.close()


def test_a_workflow_of_comfyui_that_is_not_plain_is_told(qtbot: QtBot, tmp_path: Path) -> None:
    chunks = PngInfo()
    chunks.add_text("prompt", '{"1": {"class_type": "SaveImage", "inputs": {"images": ["2", 0]}}, "2": {"class_type": "Blur"}}')
    Image.new("RGB", (8, 8)).save(tmp_path / "sun.png", pnginfo=chunks)
    stage = Stage(qtbot, settings=Settings(first_run_done=True))
    taken = stage.page.form.taken
    assert dropped(stage, str(tmp_path / "sun.png"))
    stage.wait(lambda: "Blur" in taken.text())
    assert taken.text().startswith(
        "sun.png comes from a ComfyUI workflow that Halftone cannot read: it has the node Blur. Enter the"
    )
    stage.close()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("plain.png", None, "plain.png contains no settings. To use it as input, drop it on Image to image."),
        ("text.png", b"no picture", "text.png is not a readable picture."),
    ],
)
def test_a_picture_without_settings_says_so(qtbot: QtBot, tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    path = tmp_path / name
    if content is None:
        Image.new("RGB", (8, 8)).save(path)
    else:
        path.write_bytes(content)
    stage = Stage(qtbot)
    stage.page.form.prompt.setPlainText("mine")
    dropped(stage, str(path))
    stage.wait(lambda: not stage.page.form.refusal())
    assert said in stage.page.form.taken.text()
    assert stage.page.form.prompt.toPlainText() == "mine"
    stage.close()


def test_of_very_many_unknown_settings_some_are_told_and_the_rest_counted() -> None:
    left, said = tuple(f"Strange {number}: 1" for number in range(50_000)), Parameters(prompt="a")
    told = ", ".join(left[:8])
    assert taken_words(said, Imported(PictureRequest(prompt="a"), left)) == f"Prompt. Not found: {told} and 49992 more."
    assert taken_words(said, Imported(PictureRequest(prompt="a"), left[:1])) == "Prompt. Not found: Strange 0: 1."


def test_loras_and_clip_skip_are_told() -> None:
    said = Parameters(prompt="a <lora:film:1>", fields={"Clip skip": "2"})
    request = PictureRequest(prompt="a", loras=(Lora(path="/loras/film.safetensors"),))
    assert taken_words(said, Imported(request, ())) == "Prompt, clip skip. LoRA added: film."
    assert taken_words(said, Imported(PictureRequest(prompt="a"), ("Clip skip: 2",))) == "Prompt. Not found: Clip skip: 2."


def test_a_plain_text_is_pasted_as_one_and_a_file_is_left_to_the_page(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    prompt, data = stage.page.form.prompt, QMimeData()
    data.setText("a sun: red")
    prompt.insertFromMimeData(data)
    assert prompt.toPlainText() == "a sun: red"
    data.setUrls([QUrl.fromLocalFile("/p/hills.png")])
    assert not prompt.canInsertFromMimeData(data)
    stage.close()


def test_options_come_with_a_picture_and_go_when_they_are_removed(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.set_request(PictureRequest(prompt="a", options={"clip_skip": 1, "eta": 0.5}))
    part = opened(form.options_part)
    assert (part.row.value.text(), part.others.text()) == ("Clip skip 2", "Other options: eta 0.5")
    assert form.request().options == {"clip_skip": 1, "eta": 0.5}
    part.remove.click()
    part.boxes["clip_skip"].setValue(1)
    assert form.request().options == {}
    stage.close()


def test_cfg_rescale_comes_back_to_the_digit_and_goes_where_a_start_picture_runs_another_pipeline(
    qtbot: QtBot, tmp_path: Path
) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    part, box = form.options_part, opened(form.options_part).boxes["guidance_rescale"]
    form.set_request(PictureRequest(prompt="a", options={"guidance_rescale": 0.71234}))
    assert (form.request().options, part.row.value.text()) == ({"guidance_rescale": 0.71234}, "CFG rescale 0.71")
    box.setValue(0.5)
    assert form.request().options == {"guidance_rescale": 0.5}
    Image.new("RGB", (32, 32)).save(path := tmp_path / "sun.png")
    form.start_part.choose(str(path))
    stage.wait(lambda: form.request().image is not None)
    assert (form.request().options, part.note.text()) == ({}, "Not with image to image: CFG rescale.")
    form.start_part.choose(None)
    assert (form.request().options, part.note.text()) == ({"guidance_rescale": 0.5}, "")
    opened(form.hires_part).on.setChecked(True)
    assert (form.request().options, part.note.text()) == ({"guidance_rescale": 0.5}, "Not in the second pass: CFG rescale.")
    box.setValue(0)
    assert part.note.text() == ""
    assert form.request().options == {}
    stage.close()


def test_options_of_a_sampler_are_there_with_it(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    part = form.options_part
    box = opened(part).boxes["eta_ancestral"]
    assert isinstance(box, NumberBox)
    form.set_request(PictureRequest(prompt="a", sampler="Euler a Karras", options={"eta_ancestral": 0.5}))
    assert (part.lines["eta_ancestral"].isHidden(), box.value(), part.row.value.text()) == (False, 0.5, "Eta 0.50")
    form.sampler.set_value("Euler Karras")
    assert (part.lines["eta_ancestral"].isHidden(), part.row.value.text()) == (True, "")
    assert form.request().options == {}
    form.sampler.set_value("Euler a Karras")
    assert form.request().options == {"eta_ancestral": 0.5}
    part.boxes["noise_source"].setValue(1)
    assert (part.row.value.text(), form.request().options["noise_source"]) == ("Eta 0.50, Noise source NV", 1)
    part.boxes["eta_noise_seed_delta"].setValue(31337)
    assert part.row.value.text().endswith("…"), "it never makes the form wider"
    form.set_request(PictureRequest(prompt="a", sampler="Euler a Karras", options={"eta_ancestral": 0.5}))
    box.setValue(box.minimum())
    assert (box.text(), form.request().options) == ("–", {})
    stage.close()


def test_minus_one_is_a_random_seed(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    seed = stage.page.form.seed
    seed.edit.setFocus()
    qtbot.keyClicks(seed.edit, "-1")
    assert (seed.edit.text(), seed.value().number, seed.lock.isChecked()) == ("-1", None, False)
    qtbot.keyClicks(seed.edit, "5")
    assert seed.edit.text() == "-1", "no other number is below none"
    stage.page.form.prompt.setFocus()
    assert seed.edit.text() == ""
    stage.close()


def test_a_video_says_that_it_is_no_start_picture(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    request = PictureRequest(prompt="a")
    facts = msgspec.structs.replace(samples.picture_facts("/p/waves.mp4"), frames=9)
    stage.page.acts.start_from(unsaved(facts, request, b""))
    assert stage.page.form.taken.text() == "waves.mp4 is a video. Use a picture, such as a saved frame."
    assert stage.page.form.request().image is None
    stage.close()


def test_an_empty_prompt_is_an_example_at_first_and_a_note_goes_with_the_next_change(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    stage.page.generate()
    assert form.taken.text() == "Empty prompt: using the example."
    stage.idle()
    assert not form.taken.isHidden()
    form.prompt.setPlainText("a green sun")
    assert form.taken.isHidden()
    stage.idle()
    form.prompt.setPlainText("")
    stage.page.generate()
    stage.idle()
    assert form.taken.isHidden()
    assert form.request().prompt == "", "whoever has made a picture may want one without words"
    form.tell("said")
    model_files.write_folder(tmp_path / "other")
    stage.controller.session.models.select(str(tmp_path / "other"))
    stage.wait(lambda: stage.controller.settings.last_model == str(tmp_path / "other"))
    assert form.taken.isHidden(), "another model is a change, too"
    stage.controller.session.models.select("pocket")
    stage.idle()
    (tmp_path / "bad.png").write_bytes(b"no picture")
    assert dropped(stage, str(tmp_path / "bad.png"))
    stage.wait(lambda: "bad.png" in form.taken.text())
    assert form.taken.property("tone") == "warn"
    form.steps.set_value(form.steps.value() + 1)
    assert form.taken.isHidden()
    stage.close()


def test_a_receipt_names_the_options() -> None:
    rows = dict(option_rows(PictureRequest(prompt="a", options={"clip_skip": 1, "eta": 0.5})))
    assert rows == {"Clip skip": "2", "Other options": "eta 0.5"}
