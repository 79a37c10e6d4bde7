"""The second, larger pass of the form: put into requests, taken back, timed, and told while it runs and afterwards."""

from pathlib import Path

from msgspec.structs import replace
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage, opened
from tests.helpers import samples

from halftone.contract.facts import PassFacts
from halftone.contract.messages import Generate, StepDone
from halftone.contract.request import Hires, PictureRequest
from halftone.contract.wording import Words
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.gui.create.picture.progress_panel import seconds_left
from halftone.gui.create.rows.hires_row import hires_line
from halftone.gui.text import step_sentence
from halftone.session.pictures.picture_time import Shape, shape_of
from halftone.session.state import Job

PASSES = (
    PassFacts(kind="first", width=512, height=512, steps=20, seconds=8.0, dtypes={}),
    PassFacts(kind="second", width=1024, height=1024, steps=10, seconds=16.0, dtypes={}),
)
MADE = replace(samples.picture_facts("a.png"), width=1024, height=1024, steps=30, passes=PASSES)


def test_it_is_off_until_it_is_wanted_and_comes_back(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    part = form.hires_part
    form.size_field.set_value((512, 768))
    assert (form.request().hires, part.row.value.text()) == (None, "Off")
    part.row.click()
    part.on.click()
    assert form.request().hires == Hires(scale=2.0, strength=0.7)
    assert part.row.value.text() == "1024 × 1536"
    part.upscaler.setCurrentIndex(1)
    assert form.request().hires == Hires(scale=2.0, upscaler="lanczos", strength=0.4), "each way has its usual strength"
    part.strength.setValue(0.55)
    part.steps.set_value(12)
    part.upscaler.setCurrentIndex(0)
    wanted = Hires(scale=2.0, steps=12, strength=0.55)
    assert form.request().hires == wanted, "one that was set stays"
    form.set_request(PictureRequest(prompt="a"))
    assert form.request().hires is None
    form.set_request(PictureRequest(prompt="a", hires=wanted))
    assert form.request().hires == wanted
    stage.close()


def test_the_time_and_the_memory_are_those_of_both_passes(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.size_field.set_value((512, 512))
    form.steps.set_value(20)
    form.set_request(PictureRequest(prompt="a", hires=Hires(scale=2.0, steps=10)))
    assert form._shape() == shape_of(MADE) == Shape(1024, 1024, 10, 512 * 512 * 20)
    stage.close()


def test_the_time_left_is_that_of_both_passes() -> None:
    done = tuple(
        StepDone(step=n, steps=10, peak=1.0, finite=True, seconds=2.0, in_pass=1, passes=2, ahead=20.0) for n in (1, 2, 3, 4)
    )
    job = Job(
        id="j",
        command=Generate(job="j", request=PictureRequest(prompt="a")),
        title="",
        phase="denoise",
        done=4,
        total=10,
        steps=done,
    )
    assert seconds_left(job) == 2.0 * (6 + 20)
    assert step_sentence(job, "Step 4 of 10") == "Pass 1 of 2, Step 4 of 10"


def test_the_receipt_tells_both() -> None:
    request = PictureRequest(prompt="a", steps=20, hires=Hires(scale=2.0, steps=10, strength=0.5))
    rows = dict(receipt_rows(MADE, request))
    assert rows["Hires. fix"] == hires_line(request.hires) == "2.0 ×, Latent, strength 0.50"
    assert rows["Pass 1"] == "512 × 512, 20 steps, 8.0\u00a0s"
    assert "1024 × 1024, 10 steps" in rows["Pass 2"]
    assert "Notes" not in rows
    ran = (Words("unet: 26 layers are stored in FP8."), Words("Compile: the first step took 9.0 s, the others 0.20 s each."))
    assert dict(receipt_rows(replace(MADE, ran=ran), request))["Notes"] == "\n".join(map(str, ran))
    assert "Steps" not in rows
    kept = replace(MADE, steps=20, stopped_of=28, passes=PASSES[:1])
    assert dict(receipt_rows(kept, request))["Steps"] == "stopped at step 20 of 28"


def test_an_upscale_model_comes_back_and_what_is_none_is_refused(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    part = opened(form.hires_part)
    wanted = Hires(scale=2.0, upscaler="/upscalers/4x-Sharp.safetensors", strength=0.4)
    form.set_request(PictureRequest(prompt="a", hires=wanted))
    assert (form.request().hires, part.upscaler.currentText()) == (wanted, "4x-Sharp")
    pickle = tmp_path / "x4.pth"
    pickle.write_bytes(b"PK\x03\x04")
    part.choose(str(pickle))
    assert "pickle" in part.note.text()
    assert form.request().hires == wanted
    stage.close()
