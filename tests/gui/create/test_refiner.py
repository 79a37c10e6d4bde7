"""The refiner of the form: chosen, put into requests, taken back, refused where it is none, told in the receipt."""

from pathlib import Path

from msgspec.structs import replace
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage, opened
from tests.helpers import samples

from halftone.contract.facts import PassFacts
from halftone.contract.request import PictureRequest, Refiner
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.library.families.known_families import SDXL
from halftone.settings.places import resources

WANTED = Refiner(path="/models/sd_xl_refiner_1.0.safetensors", at=0.65)


def test_it_is_off_until_one_is_chosen_and_comes_back(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.follow(replace(samples.POCKET, family=SDXL.name))
    part = opened(form.refiner_part)
    assert (form.request().refiner, part.row.value.text(), part.at.isHidden()) == (None, "Off", True)
    form.set_request(PictureRequest(prompt="a", refiner=WANTED))
    assert form.request().refiner == WANTED
    assert part.row.value.text().endswith("0.65")
    part.at.set_value(0.7)
    assert form.request().refiner == Refiner(path=WANTED.path, at=0.7)
    part.by_steps.click()
    assert form.request().refiner == Refiner(path=WANTED.path, at=0.7, by_steps=True)
    part._own.click()
    assert (form.request().refiner, part.row.value.text()) == (None, "Off")
    form.set_request(PictureRequest(prompt="a", refiner=WANTED))
    assert form.request().refiner == WANTED
    stage.close()


def test_another_model_is_refused_in_a_sentence(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    part = stage.page.form.refiner_part
    part.choose(str(resources() / "pocket"))
    stage.wait(lambda: bool(part.note.text()))
    assert part.note.text() == (
        "The refiner cannot be used with Pocket (demo), a Stable Diffusion 1.x model. Use it with an SDXL base model."
    )
    assert part.file() is None
    stage.close()


def test_the_receipt_tells_it(tmp_path: Path) -> None:
    def one(kind: str, steps: int) -> PassFacts:
        return PassFacts(kind=kind, width=512, height=512, steps=steps, seconds=8.0, dtypes={})

    made = replace(samples.picture_facts(str(tmp_path)), steps=20, passes=(one("first", 16), one("second", 4)))
    request = PictureRequest(prompt="a", steps=20, refiner=WANTED)
    rows = dict(receipt_rows(made, request))
    assert rows["Refiner"] == "sd_xl_refiner_1.0, switch at 0.65"
    by_steps = replace(request, refiner=replace(WANTED, by_steps=True))
    assert dict(receipt_rows(made, by_steps))["Refiner"] == "sd_xl_refiner_1.0, switch at 0.65 of the steps"
    assert "Steps" not in rows
    kept = replace(made, steps=10, stopped_of=16, passes=made.passes[:1])
    assert dict(receipt_rows(kept, request))["Steps"] == "stopped at step 10 of 16"
