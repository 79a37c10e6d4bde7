"""Tiny models, made once, and one engine for all tests of a module: it keeps the last model loaded."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.helpers.tiny import FAMILIES, save_tiny

from halftone.engine.service import DiffusersEngine


@pytest.fixture(autouse=True)
def gradients_stay_on() -> Iterator[None]:
    """Fails the test that leaves gradients switched off: a training in the same worker could not learn."""
    yield
    on = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert on, "gradients were left switched off"


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Family -> folder with a tiny model in float32."""
    folder = tmp_path_factory.mktemp("models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the libraries say while a model is made is no matter of these tests
        return {family: save_tiny(folder / family, family) for family in FAMILIES}


@pytest.fixture(scope="module")
def engine() -> DiffusersEngine:
    return DiffusersEngine()


@pytest.fixture(scope="session")
def refiner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny one of SDXL."""
    from tests.bench.families import kin

    folder = tmp_path_factory.mktemp("refiner") / "refiner"
    torch.manual_seed(3)
    kin.refiner().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def faulty(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny SD 1.5 whose UNet overflows in float16."""
    from tests.helpers.engine_runs import faulty_copy

    return faulty_copy(models["sd15"], tmp_path_factory.mktemp("faulty") / "unet", "unet", "stream of unet", 17)
