"""Encoded prompts are kept for the next picture, under a key of all that decides; what watches the encoders works for chunks."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.helpers.engine_runs import check, generate, pixels
from tests.helpers.loras import TEXT, make_lora
from tests.helpers.tiny import load_tiny

from halftone.contract.request import Lora
from halftone.engine.patches.embeddings import PromptCache
from halftone.engine.service import DiffusersEngine
from halftone.measure.pictures import psnr


@contextmanager
def counted(engine: DiffusersEngine, name: str = "text_encoder") -> Generator[list[Any]]:
    """The calls that an encoder of the loaded model really computes."""
    assert engine.loaded is not None
    calls: list[Any] = []
    hook = engine.loaded.modules[name].register_forward_pre_hook(
        lambda _module, args, kwargs: calls.append((args, kwargs)), with_kwargs=True
    )
    try:
        yield calls
    finally:
        hook.remove()


def reads(engine: DiffusersEngine, model: Path, precision: Any = "float32", **changes: Any) -> int:
    """How often the first text encoder is called for one picture."""
    with counted(engine) as calls:
        generate(engine, model, precision, **changes)
    return len(calls)


@pytest.fixture
def warm(models: dict[str, Path]) -> DiffusersEngine:
    """An engine that has drawn one picture of sd15."""
    engine = DiffusersEngine()
    generate(engine, models["sd15"])
    return engine


def test_the_same_prompt_is_read_once(warm: DiffusersEngine, models: dict[str, Path]) -> None:
    first, _ = generate(DiffusersEngine(), models["sd15"], seed=9, prompt="a (red:1.4) [sun:moon:0.5]")
    assert reads(warm, models["sd15"], seed=9, prompt="a (red:1.4) [sun:moon:0.5]") > 0
    assert reads(warm, models["sd15"], seed=8, prompt="a (red:1.4) [sun:moon:0.5]") == 0
    again, _ = generate(warm, models["sd15"], seed=9, prompt="a (red:1.4) [sun:moon:0.5]")
    assert np.array_equal(pixels(first), pixels(again))
    assert reads(warm, models["sd15"], width=64, sampler="Euler a") == 0


CHANGES: dict[str, dict[str, Any]] = {
    "prompt": {"prompt": "a blue sun"},
    "negative": {"negative": "bad"},
    "guidance": {"guidance": 1.0},
    "option": {"options": {"clip_skip": 1}},
    "precision": {"precision": "float16"},
    "setting": {"upcast_sampling": False},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_decides_about_it_makes_it_be_read_again(
    warm: DiffusersEngine, models: dict[str, Path], change: dict[str, Any]
) -> None:
    assert reads(warm, models["sd15"]) == 0
    assert reads(warm, models["sd15"], **change) > 0
    assert reads(warm, models["sd15"], **change) == 0


def test_steps_decide_only_where_words_change_with_them(warm: DiffusersEngine, models: dict[str, Path]) -> None:
    assert reads(warm, models["sd15"], steps=5) == 0
    assert reads(warm, models["sd15"], prompt="[a:b:0.5]", steps=5) > 0
    assert reads(warm, models["sd15"], prompt="[a:b:0.5]", steps=4) > 0


def test_a_lora_its_weight_and_its_file_decide(warm: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    file = make_lora(models["sd15"], tmp_path / "style.safetensors", text=TEXT)
    lora = Lora(path=str(file))
    assert reads(warm, models["sd15"], loras=(lora,)) > 0
    assert reads(warm, models["sd15"], loras=(lora,)) == 0
    assert reads(warm, models["sd15"], loras=(Lora(path=str(file), weight=0.5),)) > 0
    make_lora(models["sd15"], file, text=TEXT, seed=2, strength=2.0)
    assert reads(warm, models["sd15"], loras=(lora,)) > 0
    assert reads(warm, models["sd15"]) == 0, "without it as before"


def test_another_model_begins_anew(warm: DiffusersEngine, models: dict[str, Path]) -> None:
    generate(warm, models["sdxl"], family="sdxl")
    generate(warm, models["sd15"], prompt="another one")
    assert reads(warm, models["sd15"]) > 0


def test_only_the_last_prompts_are_held(warm: DiffusersEngine, models: dict[str, Path]) -> None:
    for index in range(PromptCache.KEPT):
        generate(warm, models["sd15"], prompt=f"number {index}", steps=1)
    assert reads(warm, models["sd15"], steps=1) > 0


def test_a_check_reads_all_itself(warm: DiffusersEngine, models: dict[str, Path]) -> None:
    with counted(warm) as calls:
        check(warm, models["sd15"], prompt="a red sun")
    assert calls


# --- the watch -------------------------------------------------------------------------------------------


def far_letter(source: Path, target: Path, letter: str) -> Path:
    """A model in which one letter gives numbers beyond what FP16 holds."""
    pipe = load_tiny(source)
    with torch.no_grad():
        table = pipe.text_encoder.get_input_embeddings().weight
        for row in (ord(letter) - ord("!"), ord(letter) - ord("!") + 94):
            table[row] *= 1e5 / table[row].abs().max()
    pipe.save_pretrained(target)
    return target


def test_a_later_chunk_that_fails_is_seen_and_cured(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    model = far_letter(models["sd15"], tmp_path / "model", "z")
    prompt = "a (red:1.3) sun BREAK [z:b:0.7]"
    report, _ = generate(engine, model, "float16", prompt=prompt)
    assert (report.images[0].state, report.images[0].finite) == ("recovered", True)
    assert {event.component for event in report.events} == {"text_encoder"}
    wide, _ = generate(engine, model, "float32", prompt=prompt)
    assert psnr(pixels(report), pixels(wide)) > 30
    again, _ = generate(engine, model, "float16", prompt=prompt)
    assert again.images[0].state == "clean", "the cure is known by then"


def test_a_step_that_failed_goes_on_with_the_prompt_of_its_step(warm: DiffusersEngine, models: dict[str, Path]) -> None:
    prompt = "[a red sun:(blue:1.5) hills:0.5]"
    whole, _ = generate(warm, models["sd15"], prompt=prompt, steps=4)
    assert warm.loaded is not None
    calls: list[int] = []

    def fails_once(_module: Any, _args: Any, result: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return result * float("nan") if len(calls) == 4 else result

    hook = cast("Any", warm.loaded.modules["unet"]).conv_out.register_forward_hook(fails_once)
    try:
        report, _ = generate(warm, models["sd15"], prompt=prompt, steps=4)
    finally:
        hook.remove()
    assert report.images[0].state == "recovered"
    assert np.array_equal(pixels(report), pixels(whole))
