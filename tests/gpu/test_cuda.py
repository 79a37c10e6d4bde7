"""On a machine with an NVIDIA or AMD card: `python -m pytest tests/gpu`. Elsewhere every test is skipped, with that reason."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.helpers.engine_runs import Recorder, Steady

from halftone.contract.messages import Examine, Generate, SelfTest
from halftone.contract.request import Numerics, PictureRequest
from halftone.contract.vocabulary import Precision
from halftone.engine.checks.fragile import make_fragile
from halftone.engine.service import DiffusersEngine
from halftone.measure.pictures import psnr
from halftone.settings.places import resources

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA or ROCm device here")


def picture(engine: DiffusersEngine, model: str, precision: Precision, output: Path) -> tuple[NDArray[np.uint8], str]:
    request = PictureRequest(
        prompt="a red sun over green hills", model=model, seed=3, output=str(output), numerics=Numerics(precision=precision)
    )
    report = engine.generate(Generate(job="g", request=request), Recorder(), Steady())
    return np.asarray(Image.open(output)), report.images[0].state


def test_the_card_measures_itself() -> None:
    report = DiffusersEngine().self_test(SelfTest(job="s", device="cuda:0"), Recorder(), Steady())
    assert {found.dtype for found in report.dtypes} == {"float16", "bfloat16", "float32"}


def test_pocket_looks_the_same_in_every_precision(tmp_path: Path) -> None:
    engine = DiffusersEngine()
    reference, _ = picture(engine, "pocket", "float32", tmp_path / "f32.png")
    half, state = picture(engine, "pocket", "float16", tmp_path / "f16.png")
    assert state == "clean"
    assert psnr(reference, half) >= 30


def test_the_fragile_twin_is_named_cured_and_recovered(tmp_path: Path) -> None:
    engine = DiffusersEngine()
    fragile = str(make_fragile(resources() / "pocket", tmp_path / "fragile"))
    report = engine.examine(
        Examine(job="e", model=fragile, device="cuda:0", numerics=Numerics(precision="float16")), Recorder(), Steady()
    )
    assert report.verdict == "fixable"
    assert report.plan.verified
    assert report.cures[0].kind == "rescale"
    reference, _ = picture(engine, "pocket", "float32", tmp_path / "f32.png")
    recovered, state = picture(engine, fragile, "float16", tmp_path / "f16.png")
    assert state == "recovered"
    assert psnr(reference, recovered) >= 30
