"""Offload on a card: the same picture, less of its memory. Not run where there is none."""

from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from numpy.typing import NDArray
from PIL import Image
from tests.helpers.engine_runs import Recorder, Steady, check, faulty_copy, generate, pixels
from tests.helpers.tiny import FAMILIES, save_tiny

from halftone.contract.messages import Generate
from halftone.contract.request import Numerics, PictureRequest
from halftone.contract.vocabulary import Offload
from halftone.engine.service import DiffusersEngine

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA or ROCm device here")
MODES: tuple[Offload, ...] = ("model", "group", "sequential")


def pocket(engine: DiffusersEngine, mode: Offload, output: Path) -> tuple[NDArray[np.uint8], int]:
    """The picture, and the most bytes that the card held at once while it was made."""
    request = PictureRequest(
        prompt="a red sun over green hills",
        seed=3,
        device="cuda:0",
        output=str(output),
        numerics=Numerics(precision="float16", offload=mode),
    )
    engine.generate(Generate(job="g", request=request), Recorder(), Steady())
    torch.cuda.reset_peak_memory_stats()
    engine.generate(Generate(job="g", request=replace(request, overwrite=True)), Recorder(), Steady())
    return np.asarray(Image.open(output)), torch.cuda.max_memory_allocated()


def test_the_picture_is_the_same_and_the_card_holds_less(tmp_path: Path) -> None:
    whole, most = pocket(DiffusersEngine(), "none", tmp_path / "whole.png")
    for mode in MODES:
        made, held = pocket(DiffusersEngine(), mode, tmp_path / f"{mode}.png")
        assert (made == whole).all(), mode
        assert held < most, mode


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_part_of_a_pipeline_finds_its_weights_on_the_card(tmp_path: Path, family: str, mode: Offload) -> None:
    model = save_tiny(tmp_path / family, family)
    whole, _ = generate(DiffusersEngine(), model, family=family, device="cuda:0", offload="none")
    made, _ = generate(DiffusersEngine(), model, family=family, device="cuda:0", offload=mode)
    assert (pixels(made) == pixels(whole)).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_check_and_a_cure_reach_weights_that_are_offloaded(tmp_path: Path, mode: Offload) -> None:
    model = faulty_copy(save_tiny(tmp_path / "sd15", "sd15"), tmp_path / "faulty", "unet", "stream of unet", 17)
    made, _ = generate(DiffusersEngine(), model, "float16", device="cuda:0", offload=mode)
    assert made.images[0].state == "recovered"
    report, _ = check(DiffusersEngine(), model, offload=mode)
    assert report.verdict == "fixable"
