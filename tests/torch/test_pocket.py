"""The bundled model draws what it is asked for, and alike in every precision."""

from __future__ import annotations

import importlib
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("diffusers")

# The libraries' own deprecations say nothing about the model.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]

POCKET = Path(__file__).resolve().parents[2] / "resources" / "pocket"
TRAINING = POCKET / "training"
PROMPT = "a red sun over green hills"
SIZE_LIMIT = 25_000_000


def training_module(name: str) -> Any:
    """One of the training scripts, which import each other by bare name."""
    if str(TRAINING) not in sys.path:
        sys.path.insert(0, str(TRAINING))
    return importlib.import_module(name)


@pytest.fixture(scope="module")
def evaluate() -> Any:
    return training_module("evaluate")


@pytest.fixture(scope="module")
def pipeline(evaluate: Any) -> Any:
    return evaluate.load(POCKET)


def test_folder_stays_small() -> None:
    files = [path for path in POCKET.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) <= SIZE_LIMIT


def test_default_prompt_is_right(evaluate: Any, pipeline: Any) -> None:
    assert evaluate.default_prompt(pipeline, 3) == 1.0


def test_held_out_prompts_are_right(evaluate: Any, pipeline: Any) -> None:
    report, _ = evaluate.obedience(pipeline, 8)
    assert report["right"] >= 7 / 8, report["failures"]


def test_precisions_agree(evaluate: Any) -> None:
    images = [evaluate.paint(evaluate.load(POCKET, dtype), [PROMPT], [1], steps=6)[0] for dtype in evaluate.DTYPES.values()]
    assert min(evaluate.psnr(first, second) for first, second in combinations(images, 2)) >= 30


def test_drawings_repeat() -> None:
    draw = training_module("draw")
    scene = draw.random_scene(np.random.default_rng(1))
    assert np.array_equal(np.asarray(draw.draw(scene, 3)), np.asarray(draw.draw(scene, 3)))
    assert not np.array_equal(np.asarray(draw.draw(scene, 3)), np.asarray(draw.draw(scene, 4)))


def test_training_scenes_are_never_held_out() -> None:
    draw = training_module("draw")
    rng = np.random.default_rng(1)
    assert not any(draw.held_out(draw.training_scene(rng)) for _ in range(200))
    assert all(draw.held_out(draw.test_scene(rng)) for _ in range(50))


@pytest.mark.parametrize("prompt", ["", "ünïcode ☃ 12 dragons!", "a red sun " * 60])
def test_any_text_tokenises(pipeline: Any, prompt: str) -> None:
    tokens = pipeline.tokenizer(prompt, padding="max_length", max_length=77, truncation=True).input_ids
    assert len(tokens) == 77
    assert tokens[0] == pipeline.tokenizer.bos_token_id
    assert tokens[-1] == pipeline.tokenizer.eos_token_id
