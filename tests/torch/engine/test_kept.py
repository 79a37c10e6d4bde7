"""Kept latents: decoded again they give the picture that was asked for, with its own receipt; nothing else is taken for them."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from tests.helpers.engine_runs import Meddler, faulty_copy, generate, pixels
from tests.helpers.loras import make_lora
from tests.helpers.read_back import read_picture

from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import PictureFacts
from halftone.contract.messages import StepDone
from halftone.contract.request import Extras, Lora, Numerics
from halftone.engine.sampling.latents import keep_latents
from halftone.engine.service import DiffusersEngine
from halftone.health.pictures.unfinished_pictures import read_kept
from halftone.library.learned import recall
from halftone.measure.devices import find_device
from halftone.settings.places import latents_dir

ASKED: dict[str, Any] = {
    "prompt": "a red sun",
    "negative": "rain",
    "steps": 4,
    "guidance": 3.0,
    "seed": 7,
    "sampler": "Euler",
    "width": 32,
    "height": 48,
}
OTHER: dict[str, Any] = {"prompt": "something else", "steps": 9, "seed": 1, "guidance": 8.0}


@pytest.fixture(scope="module")
def black(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its decoder overflows in float16."""
    return faulty_copy(models["sd15"], tmp_path_factory.mktemp("black") / "model", "vae", "stream of decoder", 16)


def stopped(engine: DiffusersEngine, model: Path, **changes: Any) -> PictureFacts:
    """A picture whose decode failed; its latents are kept."""
    report, _ = generate(engine, model, "float16", on_black="stop", **{**ASKED, **changes})
    assert report.images[-1].latents is not None
    return report.images[-1]


def parameters(path: str) -> str:
    return read_picture(Path(path)).parameters or ""


def test_the_receipt_is_that_of_the_picture_that_was_asked_for(engine: DiffusersEngine, black: Path) -> None:
    kept = stopped(engine, black)
    wide, _ = generate(engine, black, "float16", **ASKED)
    again, events = generate(engine, black, "float16", resume_latents=kept.latents, **OTHER)
    picture = again.images[0]
    assert not events.of(StepDone)
    assert (picture.seed, picture.steps, picture.width, picture.height) == (7, 4, 32, 48)
    asked, resumed = (parameters(report.images[0].path) for report in (wide, again))
    assert resumed.partition(", Precision")[0] == asked.partition(", Precision")[0]
    assert resumed.startswith("a red sun\nNegative prompt: rain\nSteps: 4, Sampler: Euler, CFG scale: 3, Seed: 7, Size: 32x48")
    assert (pixels(again) == pixels(wide)).all()


def test_what_cures_the_decoder_is_learned_of_the_model_alone(
    engine: DiffusersEngine, models: dict[str, Path], black: Path, tmp_path: Path
) -> None:
    lora = Lora(path=str(make_lora(models["sd15"], tmp_path / "a.safetensors")))
    kept = stopped(engine, black, loras=(lora,))
    Path(lora.path).unlink()
    again, _ = generate(engine, black, "float16", resume_latents=kept.latents, loras=(lora,))
    assert again.images[0].state == "recovered"
    assert engine.loaded is not None
    facts, device = engine.loaded.facts, find_device("auto")
    assert recall(facts, device, "float16", Numerics(precision="float16")) is not None
    assert recall(facts, device, "float16", Numerics(precision="float16"), Extras(loras=(lora,))) is None


def test_the_second_picture_of_a_batch_keeps_its_own_seed(engine: DiffusersEngine, black: Path) -> None:
    kept = stopped(engine, black, batch=2)
    again, _ = generate(engine, black, "float16", resume_latents=kept.latents)
    assert again.images[0].seed == 8
    assert "Seed: 8" in parameters(again.images[0].path)


def test_the_steps_stay_in_the_precision_they_were_made_in(engine: DiffusersEngine, black: Path) -> None:
    kept = stopped(engine, black)
    again, _ = generate(engine, black, "bfloat16", resume_latents=kept.latents)
    assert (again.images[0].dtypes["unet"], again.images[0].dtypes["vae"]) == ("float16", "bfloat16")
    assert again.images[0].room_bits == kept.room_bits


@pytest.mark.logs("was not saved")
def test_a_step_that_was_cured_stays_in_the_receipt(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    stumbling = faulty_copy(models["sd15"], tmp_path / "model", "unet", "stream of unet", 15)
    folder = tmp_path / "out"
    folder.mkdir()
    given: dict[str, Any] = {"output": str(folder / "a.png"), "control": Meddler(lambda: shutil.rmtree(folder))}
    with pytest.raises(HalftoneError) as caught:
        generate(engine, stumbling, "float16", **ASKED, **given)
    again, _ = generate(engine, stumbling, "float32", resume_latents=str(caught.value.facts["latents"]))
    picture = again.images[0]
    assert (picture.state, [event.action for event in picture.events]) == ("recovered", ["went-back-one-step"])
    receipt = read_picture(Path(picture.path)).receipt or ""
    assert msgspec.json.decode(receipt)["plan"]["dtypes"]["vae"] == "float32"
    assert msgspec.json.decode(receipt)["request"]["dtype"] == "float16"


def test_another_model_is_refused(engine: DiffusersEngine, black: Path, models: dict[str, Path]) -> None:
    kept = stopped(engine, black)
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], resume_latents=kept.latents)
    assert caught.value.code == "latents-other-model"
    assert str(black) in str(caught.value)
    assert Path(str(kept.latents)).is_file()


def test_one_file_is_one_picture(engine: DiffusersEngine, black: Path) -> None:
    kept = stopped(engine, black)
    with pytest.raises(HalftoneError) as caught:
        generate(engine, black, resume_latents=kept.latents, batch=2)
    assert (caught.value.code, caught.value.facts["value"]) == ("setting-bad-value", 2)


@pytest.mark.parametrize("content", [None, b"", b"no latents at all", "a model"])
def test_what_is_no_kept_picture_is_told_as_such(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, content: bytes | str | None
) -> None:
    path = tmp_path / "x.safetensors"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path = next((models["sd15"] / "vae").glob("*.safetensors"))
    expected: ErrorCode = "latents-missing" if content is None else "latents-unreadable"
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], resume_latents=str(path))
    assert caught.value.code == expected


def test_a_saved_picture_needs_its_latents_no_more(engine: DiffusersEngine, black: Path, tmp_path: Path) -> None:
    kept = stopped(engine, black)
    elsewhere = tmp_path / "mine.safetensors"
    elsewhere.write_bytes(Path(str(kept.latents)).read_bytes())
    generate(engine, black, "float16", resume_latents=str(elsewhere))
    assert elsewhere.is_file()  # a copy that the user made is the user's
    generate(engine, black, "float16", resume_latents=kept.latents)
    assert not Path(str(kept.latents)).exists()


def test_a_decode_that_stops_again_loses_nothing(engine: DiffusersEngine, black: Path) -> None:
    kept = stopped(engine, black)
    again, _ = generate(engine, black, "float16", resume_latents=kept.latents, on_black="stop")
    assert again.images[0].latents == kept.latents
    assert [path.name for path in latents_dir().iterdir()] == [Path(str(kept.latents)).name]


def test_the_folder_stays_within_its_bound(engine: DiffusersEngine, black: Path) -> None:
    record = read_kept(Path(str(stopped(engine, black).latents)))
    size = keep_latents(torch.zeros(1, 4, 6, 4), record).stat().st_size
    written = [keep_latents(torch.zeros(1, 4, 6, 4), record, 5 * size // 2) for _ in range(3)]
    assert sorted(latents_dir().iterdir()) == sorted(written[1:])
