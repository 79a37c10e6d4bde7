"""Dynamic thresholding against the numbers of Forge's built-in extension, and in whole pictures."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.tiny import load_tiny
from tests.helpers.waves import unet_of_waves, wave

from halftone.contract.errors import HalftoneError
from halftone.contract.parameters import OPTION_PARAMETERS
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.sampling.thresholding import Thresholding, thresholded
from halftone.engine.service import DiffusersEngine

REFERENCE: Final = json.loads((Path(__file__).parents[2] / "references" / "steering.json").read_text())["thresholding"]
TIME: Final = 301
ASKED: Final[dict[str, Any]] = {"sampler": "Euler Karras", "guidance": 12.0, "negative": "blue"}


def relative(made: torch.Tensor, wanted: list[float]) -> float:
    aim = torch.tensor(wanted).reshape(made.shape)
    return float((made - aim).norm() / aim.norm())


def mode(name: str) -> int:
    found = OPTION_PARAMETERS["threshold_mode"].named(name)
    assert found is not None
    return found


def asked(given: dict[str, Any]) -> Thresholding:
    """Their settings in our words."""
    return Thresholding(
        given["mimic_scale"],
        given.get("threshold_percentile", 1.0),
        (mode(given.get("mimic_mode", "Constant")), given.get("mimic_scale_min", 0.0)),
        (mode(given.get("cfg_mode", "Constant")), given.get("cfg_scale_min", 0.0)),
        given.get("sched_val", 1.0),
        given.get("separate_feature_channels", True),
        given.get("scaling_startpoint", "MEAN") == "MEAN",
        given.get("variability_measure", "AD") == "AD",
        given.get("interpolate_phi", 1.0),
    )


@pytest.mark.parametrize("case", range(len(REFERENCE["core"])))
def test_it_is_that_of_the_extension(case: int) -> None:
    given, wanted = REFERENCE["core"][case]
    made = thresholded(asked(given), wave((1, 4, 4, 4), 5.0), wave((1, 4, 4, 4), 6.0), 9.0, TIME)
    assert relative(made, wanted) <= 1e-4


def test_a_step_sees_what_a_step_of_comfyui_sees(models: dict[str, Path]) -> None:
    given, wanted = REFERENCE["whole"]
    options = {"threshold_scale": given["mimic_scale"], "threshold_mode": mode(given["mimic_mode"]), "threshold_value": 3.0,
        "threshold_scale_min": given["mimic_scale_min"], "threshold_cfg_mode": mode(given["cfg_mode"]),
        "threshold_cfg_scale_min": given["cfg_scale_min"]}  # fmt: skip
    scheduler = make_scheduler(load_tiny(models["sd15"]).scheduler, "Euler Karras", options)
    scheduler.set_timesteps(4)
    sigma = float(scheduler.trained_table[TIME])
    scheduler.calls[0] = (0, 0, sigma)
    latents = wave((1, 4, 16, 16), 1.0)
    words = torch.cat([wave((1, 7, 32), 3.0), wave((1, 7, 32), 2.0)])
    scheduler.given, scheduler.guidance = unet_of_waves()(latents.repeat(2, 1, 1, 1), TIME, words).sample, 9.0
    negative, own = scheduler.given.chunk(2)
    added = wave((1, 4, 16, 16), 8.0)
    scaled = latents * (sigma**2 + 1) ** 0.5
    made = scheduler.step(negative + 9 * (own - negative) + added, scheduler.timesteps[0], scaled).pred_original_sample
    assert relative(made + sigma * added, wanted) <= 1e-4


def test_a_picture_follows_it_beside_others(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    made = [
        pixels(generate(engine, models["sd15"], options=options, **ASKED)[0])
        for options in ({}, {"threshold_scale": 3.0}, {"threshold_scale": 3.0, "pag_scale": 9.0, "freeu": 1})
    ]
    assert len({picture.tobytes() for picture in made}) == len(made)
    alike = {"threshold_scale": 3.0, "threshold_phi": 0.0}
    assert np.abs(pixels(generate(engine, models["sd15"], options=alike, **ASKED)[0]).astype(int) - made[0]).max() <= 1


@pytest.mark.parametrize(
    ("options", "changes", "said"),
    [
        ({}, {"sampler": "Euler"}, "--threshold cannot be used with the sampler Euler, which takes none"),
        ({}, {"guidance": 1.0}, "--threshold cannot be set at guidance 1, where it does nothing"),
        ({"guidance_rescale": 0.7}, {}, "--threshold cannot be used with --guidance-rescale"),
    ],
)
def test_what_cannot_follow_it_is_refused(
    options: dict[str, Any], changes: dict[str, Any], said: str, engine: DiffusersEngine, models: dict[str, Path]
) -> None:
    with pytest.raises(HalftoneError, match=said):
        generate(engine, models["sd15"], options={"threshold_scale": 3.0, **options}, **{**ASKED, **changes})
