"""A quick check of a video model picks a length and a size that are computed quickly, and says what it ran."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import Recorder, Steady, check
from tests.helpers.tiny_video import save_video_model

from halftone.contract.facts import CheckReport
from halftone.contract.messages import Examine
from halftone.contract.request import CheckInputs, Numerics
from halftone.engine.inputs.check_sizes import few_frames, small_size
from halftone.engine.inputs.prompts import pictures_to_check
from halftone.engine.loading.load import load_pipeline
from halftone.engine.service import DiffusersEngine
from halftone.library.models import describe

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run


def checked(engine: DiffusersEngine, model: Path, **inputs: Any) -> CheckReport:
    command = Examine(job="c", model=str(model), numerics=Numerics(precision="float32"), inputs=CheckInputs(**inputs))
    return engine.examine(command, Recorder(), Steady())


@pytest.mark.parametrize(("own", "asked"), [(None, 9), (3, 3), (9, 9), (14, 9), (25, 9), (81, 9), (129, 9)])
def test_a_check_makes_few_frames(own: int | None, asked: int) -> None:
    assert few_frames(own) == asked


@pytest.mark.parametrize(
    ("own", "scale", "size"),
    [
        ((1024, 576), 8, (448, 256)),  # Stable Video Diffusion
        ((832, 480), 8, (448, 256)),  # Wan
        ((704, 512), 32, (704, 512)),  # LTX-Video
        ((1280, 720), 8, (448, 256)),  # HunyuanVideo
        ((720, 480), 8, (384, 256)),  # CogVideoX
        ((512, 512), 8, (320, 320)),  # AnimateDiff
        ((256, 256), 8, (256, 256)),
        ((1024, 576), 2, (64, 64)),
        ((16384, 64), 8, (5760, 64)),
    ],
)
def test_a_processor_checks_small_frames(own: tuple[int, int], scale: int, size: tuple[int, int]) -> None:
    assert small_size(own, scale, 2048) == size


@pytest.mark.parametrize(
    ("own", "scale", "size"),
    [((1024, 1024), 8, (1024, 1024)), ((512, 512), 8, (512, 512)), ((512, 512), 2, (256, 256)), ((4096, 4096), 32, (4096, 4096))],
)
def test_pictures_stay_as_large_as_published_models_make_them(own: tuple[int, int], scale: int, size: tuple[int, int]) -> None:
    assert small_size(own, scale, 128 * 128) == size


def test_a_model_that_names_no_size_is_checked_in_one_that_a_processor_can_do(models: dict[str, Path], tmp_path: Path) -> None:
    model = tmp_path / "sd15"
    shutil.copytree(models["sd15"], model)
    config = model / "unet" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "sample_size": None}))
    loaded = load_pipeline(describe(str(model)), torch.device("cpu"))
    ((asked, _seed),) = pictures_to_check(loaded, CheckInputs(), "quick")
    assert (asked.width, asked.height) == (256, 256)  # its decoder makes 2 pixels of a cell; 512 would be 65 536 cells
    ((given, _seed),) = pictures_to_check(loaded, CheckInputs(width=512, height=512), "quick")
    assert (given.width, given.height) == (512, 512)


def test_frames_are_made_small_on_a_processor_alone(tmp_path: Path) -> None:
    loaded = load_pipeline(describe(str(save_video_model(tmp_path / "m", "svd"))), DEVICE)
    ((asked, _seed),) = pictures_to_check(loaded, CheckInputs(), "quick")
    size = (64, 64) if DEVICE.type == "cpu" else (None, None)  # the pipeline's own, 1024 × 576
    assert (asked.num_frames, asked.width, asked.height) == (3, *size)


SMALL_FRAMES = pytest.mark.processor("elsewhere it is checked in 1024 × 576, which takes the card in software minutes")


@pytest.mark.parametrize(
    ("name", "ran"),
    [
        pytest.param("svd", (64, 64, 3), marks=SMALL_FRAMES),
        ("animatediff", (16, 16, 9)),
        ("cogvideox", (32, 32, 9)),
    ],
)
def test_a_video_model_is_checked_without_length_and_size(
    name: str, ran: tuple[int, int, int], engine: DiffusersEngine, tmp_path: Path
) -> None:
    report = checked(engine, save_video_model(tmp_path / "m", name))
    assert (report.verdict, report.sizes) == ("healthy", (ran,))


def test_the_length_and_the_size_that_the_user_gave_stay(engine: DiffusersEngine, tmp_path: Path) -> None:
    model = save_video_model(tmp_path / "m", "animatediff")
    assert checked(engine, model, width=32, height=24, num_frames=10).sizes == ((32, 24, 10),)


def test_a_thorough_check_says_each_size_once(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = check(engine, models["sd15"], "float32", depth="thorough", steps=1)
    assert report.sizes == ((32, 32, 1),)


def test_a_damaged_model_ran_nothing(engine: DiffusersEngine, tmp_path: Path) -> None:
    def damage(pipe: Any) -> None:
        next(pipe.unet.parameters()).view(-1)[0] = float("nan")

    assert checked(engine, save_video_model(tmp_path / "m", "animatediff", damage)).sizes == ()
