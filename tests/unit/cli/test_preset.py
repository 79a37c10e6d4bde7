"""Pictures made with the settings of a preset."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.helpers.model_files import ramp, safetensors, write_folder
from tests.helpers.scripted import ScriptedEngine

from halftone.cli import main
from halftone.contract.request import Hires, Lora, PictureRequest
from halftone.gallery.history import History
from halftone.session.pictures.draft import EMPTY, Draft, Seed
from halftone.session.pictures.presets import FIELDS, preset_of, presets_file, save_preset


@pytest.fixture
def draft(tmp_path: Path) -> Draft:
    """All fields of a preset for a model that lies in no folder of the settings."""
    write_folder(tmp_path / "tiny")
    (tmp_path / "ink.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    made = replace(
        EMPTY,
        model=str(tmp_path / "tiny"),
        prompt="a sun",
        negative="blurry",
        size=(128, 192),
        steps=31,
        guidance=4.5,
        sampler="Euler a",
        seed=Seed(42, locked=True),
        batch=2,
        loras=(Lora(path=str(tmp_path / "ink.safetensors"), weight=0.4),),
        hires_on=True,
        hires=Hires(scale=1.5, upscaler="lanczos", strength=0.3),
        options={"clip_skip": 2},
    )
    save_preset(preset_of("Whole", made, FIELDS), presets_file())
    save_preset(preset_of("Small", made, ("size", "steps")), presets_file())
    return made


def asked(*words: str) -> PictureRequest:
    assert main(["generate", *words], engine=lambda: ScriptedEngine({})) == 0
    with History() as history:
        return history.recent()[0].request


def test_all_of_a_preset_is_used(draft: Draft, capfd: pytest.CaptureFixture[str]) -> None:
    made = asked("--preset", "Whole")
    assert (made.prompt, made.negative, made.steps, made.guidance, made.seed) == ("a sun", "blurry", 31, 4.5, 42)
    assert (made.sampler, made.width, made.height, made.batch) == ("Euler a", 128, 192, 2)
    assert (made.model, made.loras, made.hires, made.options) == (draft.model, draft.loras, draft.hires, {"clip_skip": 2})
    assert "no --model" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (("a moon",), {"prompt": "a moon", "negative": "blurry"}),
        (("--steps", "5", "--batch", "1"), {"steps": 5, "batch": 1, "guidance": 4.5}),
        (("--seed", "7", "--hires", "2"), {"seed": 7, "hires": Hires(scale=2.0)}),
        (("--clip-skip", "2"), {"options": {"clip_skip": 1}}),
        (("--model", "pocket", "--width", "64"), {"model": "pocket", "width": 64, "height": 192}),
    ],
)
def test_options_count_before_it(draft: Draft, words: tuple[str, ...], fields: dict[str, Any]) -> None:
    made = asked("--preset", "Whole", *words)
    assert {name: getattr(made, name) for name in fields} == fields


def test_what_is_not_ticked_stays_as_without_a_preset(draft: Draft) -> None:
    made = asked("a moon", "--preset", "Small")
    plain = asked("a moon")
    kept = replace(made, width=plain.width, height=plain.height, steps=plain.steps, numerics=plain.numerics)
    assert (kept, made.width, made.height, made.steps) == (plain, 128, 192, 31)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preset", "No"], "--preset cannot be No. Use Whole or Small"),
        (["--preset", "Small"], "needs a prompt"),
        (["--preset", "Small", "--from", "a.png"], "--preset cannot be given together with --from"),
        (["--preset", "Small", "--latents", "a"], "--preset cannot be given together with --latents"),
    ],
)
def test_what_cannot_be_used_is_refused(draft: Draft, words: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", *words], engine=lambda: ScriptedEngine({})) == 2
    assert said in " ".join(capfd.readouterr().err.split())


def test_without_any_preset_the_refusal_says_where_they_come_from(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "a", "--preset", "No"], engine=lambda: ScriptedEngine({})) == 2
    assert "a preset that you saved in Create" in " ".join(capfd.readouterr().err.split())


def test_a_field_that_cannot_be_read_is_named(draft: Draft, capfd: pytest.CaptureFixture[str]) -> None:
    preset = preset_of("Odd", draft, ("steps",))
    save_preset(replace(preset, values={**preset.values, "size": "large"}), presets_file())
    assert asked("a", "--preset", "Odd").steps == 31
    assert "size of the preset Odd cannot be read and is not used." in capfd.readouterr().err


def test_an_upscale_model_is_named_and_left_to_its_own_command(draft: Draft, capfd: pytest.CaptureFixture[str]) -> None:
    save_preset(preset_of("Large", replace(draft, upscaler="/up/4x.safetensors"), ("upscaler", "steps")), presets_file())
    assert asked("a", "--preset", "Large").steps == 31
    said = " ".join(capfd.readouterr().err.split())
    assert "The upscale model of the preset Large is not used. Use halftone upscale on the finished picture." in said
