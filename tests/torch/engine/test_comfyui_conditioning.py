"""Prompts in ComfyUI's syntax for SD 3 and FLUX.1: what CLIP and T5 give, against ComfyUI's own code with the same encoders."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from PIL import Image
from tests.bench.families.flows import flux_dev
from tests.helpers import comfyui_encoders
from tests.helpers.engine_runs import generate, pixels

from halftone.engine.patches.embeddings import encode
from halftone.engine.service import DiffusersEngine
from halftone.library.prompts.prompt_syntax import Rules, Syntax, family_notes, plain

COMFYUI: Final = Rules(Syntax.COMFYUI)
KNOWN: Final = json.loads((Path(__file__).parents[2] / "references" / "comfyui_conditioning.json").read_text("utf-8"))


def given(pipe: Any, prompt: str, rules: Rules = COMFYUI, **more: Any) -> tuple[Any, ...]:
    """What encode_prompt gives, with as much as the pipeline passes to it."""
    more = {"max_sequence_length": 64, "num_images_per_prompt": 1, **more}
    with torch.no_grad():
        ((_, result),) = encode(pipe, pipe.encode_prompt, 4, (), {"prompt": prompt, "prompt_2": None, **more}, rules=rules)
    return result


def sd3(pipe: Any, prompt: str) -> tuple[torch.Tensor, torch.Tensor]:
    result = given(pipe, prompt, prompt_3=None, negative_prompt=prompt)
    assert all(torch.equal(result[side], result[side + 1]) for side in (0, 2)), "the negative one is read alike"
    return result[0], result[2]


def flux(pipe: Any, prompt: str) -> tuple[torch.Tensor, torch.Tensor]:
    states, pooled, places = given(pipe, prompt)
    assert places.shape == (states.shape[1], 3)
    return states, pooled


def apart(own: torch.Tensor, expected: list[float]) -> float:
    there = torch.tensor(expected)
    return float((own.float().cpu() - there).norm() / there.norm()) if own.shape == there.shape else float("inf")


@pytest.mark.parametrize("family", ["sd3", "flux"])
def test_prompts_condition_as_in_comfyui(models: dict[str, Path], family: str) -> None:
    pipe = comfyui_encoders.sd3(models["sd3"]) if family == "sd3" else comfyui_encoders.flux()
    line = torch.cos(torch.arange(32, dtype=torch.float32, device=pipe.device))
    errors: dict[str, float] = {}
    for row in KNOWN[family]:
        states, pooled = (sd3 if family == "sd3" else flux)(pipe, row["prompt"])
        errors[row["prompt"]] = max(apart(states[0].float() @ line, row["states"]), apart(pooled[0], row["pooled"]))
    print(f"{family}: {len(errors)} prompts, worst {max(errors.values()):.1e}")
    assert {prompt: error for prompt, error in errors.items() if not error <= 1e-4} == {}
    assert len(errors) >= 30


def test_the_shorter_prompt_is_padded_to_the_longer_one(models: dict[str, Path]) -> None:
    pipe = comfyui_encoders.sd3(models["sd3"])
    long = "a photograph of a red sun, " * 4
    own = given(pipe, long, prompt_3=None, negative_prompt="b")
    assert own[0].shape == own[1].shape
    assert own[0].shape[1] == sd3(pipe, long)[0].shape[1]


def test_a_length_that_is_asked_for_is_kept(models: dict[str, Path]) -> None:
    rules = COMFYUI._replace(longest=20)
    states = given(comfyui_encoders.flux(), "a (red:1.4) sun " * 9, rules, max_sequence_length=20)[0]
    assert states.shape[1] == 20
    pipe = comfyui_encoders.sd3(models["sd3"])
    assert given(pipe, "a (red:1.4) sun", rules, prompt_3=None, negative_prompt="")[0].shape[1] == 77 + 20


def test_without_t5_nothing_stands_in_its_place(models: dict[str, Path]) -> None:
    pipe = comfyui_encoders.sd3(models["sd3"])
    with_t5 = given(pipe, "a (red:1.4) sun", prompt_3=None, negative_prompt="")[0]
    pipe.register_modules(text_encoder_3=None, tokenizer_3=None)
    for prompt in ("a (red:1.4) sun", "a red sun"):
        states = given(pipe, prompt, prompt_3=None, negative_prompt="")[0]
        assert states.shape[1] == 77
    assert torch.equal(given(pipe, "a (red:1.4) sun", prompt_3=None, negative_prompt="")[0], with_t5[:, :77])


def test_a_picture_of_flux_follows_weights_in_comfyuis_syntax(engine: DiffusersEngine, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = tmp_path / "flux"
    flux_dev().save_pretrained(model)

    def picture(prompt: str, syntax: int) -> Any:
        options = {"prompt_syntax": syntax, "max_sequence_length": 64}
        report, _ = generate(engine, model, family="flux", prompt=prompt, steps=2, options=options)
        with Image.open(report.images[0].path) as image:
            return pixels(report), "has no prompt weights" in str(image.info)

    plain, _ = picture("a red sun", 2)
    weighed, said = picture("a (red:1.9) sun", 2)
    assert not said
    assert not np.array_equal(weighed, plain)
    elsewhere, said = picture("a (red:1.9) sun", 1)
    assert said
    assert np.array_equal(elsewhere, picture("a red sun", 1)[0])


def test_language_models_read_the_signs_as_comfyui_writes_them() -> None:
    rules = COMFYUI
    assert plain(r"a (red:1.2) \(sun\)", rules, literal=True) == "a (red:1.2) (sun)"
    assert plain(r"a (red:1.2) \(sun\)", rules) == "a red (sun)"
    assert plain("a (red:1.2)", Rules(Syntax.A1111), literal=True) == "a red"
    for family, said in (("Qwen-Image", "as in ComfyUI"), ("Wan", "has no prompt weights"), ("SD 3", ""), ("FLUX", "")):
        words = " ".join(map(str, family_notes(("a (red:1.2)",), family, rules)))
        assert said in words if said else not words
    assert "has no prompt weights" in str(family_notes(("a (red:1.2)",), "FLUX")[0])
