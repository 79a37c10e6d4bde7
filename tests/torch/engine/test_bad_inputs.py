"""Whatever a user gives: one clear sentence and what to do about it, or a sound picture; never a fault of ours."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.helpers import tiny
from tests.helpers.engine_runs import check, generate
from tests.helpers.gguf_files import gguf
from tests.helpers.model_files import ramp, safetensors

from halftone.contract.errors import HalftoneError, remedy, sentence
from halftone.contract.request import Start
from halftone.engine.service import DiffusersEngine


def told(error: HalftoneError) -> str:
    """Its sentence; that and the remedy are plain words that name no place in the code."""
    facts = error.as_facts()
    said, advice = sentence(facts), remedy(facts)
    assert facts.code != "internal"
    for words in (said, advice):
        assert words
        assert "\n" not in words
        assert "Traceback" not in words
        assert "(" + "name)" not in words
    assert said.endswith(".")
    return said


def refusal(run: Callable[..., object], *args: Any, **changes: Any) -> HalftoneError:
    with pytest.raises(HalftoneError) as caught:
        run(*args, **changes)
    told(caught.value)
    return caught.value


NUMBERS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("no steps", {"steps": 0}, "Steps cannot be 0."),
    ("steps below none", {"steps": -3}, "Steps cannot be -3."),
    ("100 000 steps", {"steps": 100_000}, "Steps cannot be 100000."),
    ("width 7", {"width": 7}, "Width cannot be 7."),
    ("width 12", {"width": 12}, "Width is 12, which is not a multiple of 8."),
    ("width 1e9", {"width": 10**9}, "Width cannot be 1000000000."),
    ("height 0", {"height": 0}, "Height cannot be 0."),
    ("endless guidance", {"guidance": math.inf}, "Guidance cannot be inf."),
    ("guidance that is no number", {"guidance": math.nan}, "Guidance cannot be nan."),
    ("guidance below none", {"guidance": -1.0}, "Guidance cannot be -1.0."),
    ("seed below none", {"seed": -1}, "Seed cannot be -1."),
    ("no frames", {"num_frames": 0}, "Number of frames cannot be 0."),
)


@pytest.mark.parametrize(("changes", "said"), [case[1:] for case in NUMBERS], ids=[case[0] for case in NUMBERS])
def test_numbers_out_of_range(engine: DiffusersEngine, models: dict[str, Path], changes: dict[str, Any], said: str) -> None:
    assert told(refusal(generate, engine, models["sd15"], **changes)) == said
    given = {name: value for name, value in changes.items() if name not in {"width", "height"}}
    if given:
        assert told(refusal(check, engine, models["sd15"], **given)) == said


def test_no_picture_at_all(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    assert told(refusal(generate, engine, models["sd15"], batch=0)) == "Number of pictures cannot be 0."


def _picture(path: Path, width: int = 32, height: int = 32) -> str:
    colours = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    Image.fromarray(colours).save(path)
    return str(path)


@pytest.mark.parametrize("kind", ["text", "empty", "cut", "page", "folder", "nothing", "other ending"])
@pytest.mark.parametrize("role", ["image", "mask"])
def test_a_picture_that_is_none(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, kind: str, role: str) -> None:
    whole = _picture(tmp_path / "whole.png")
    path = tmp_path / ("given.txt" if kind == "other ending" else "given.png")
    contents = {"text": b"no picture", "empty": b"", "cut": Path(whole).read_bytes()[:200], "page": b"<html></html>"}
    if kind == "folder":
        path.mkdir()
    elif kind == "other ending":
        path.write_bytes(Path(whole).read_bytes())
    elif kind != "nothing":
        path.write_bytes(contents[kind])
    given = {"image": whole, role: str(path)}
    error = refusal(generate, engine, models["sd15"], **given)
    codes = {"nothing": "image-missing", "folder": "image-not-file", "cut": "image-damaged"}
    assert error.code == codes.get(kind, "image-unreadable")
    assert error.facts["path"] == str(path)


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
@pytest.mark.parametrize("size", [{}, {"width": None, "height": None}], ids=["asked for", "of the picture"])
def test_a_mask_of_another_size(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, family: str, size: dict[str, Any]
) -> None:
    image = _picture(tmp_path / "image.png", 48, 40)
    alike, other = _picture(tmp_path / "alike.png", 24, 20), _picture(tmp_path / "mask.png", 24, 72)
    report, _ = generate(engine, models[family], family=family, image=image, mask=alike, steps=2, **size)
    assert (report.images[0].state, report.images[0].finite) == ("clean", True)
    error = refusal(generate, engine, models[family], family=family, image=image, mask=other, steps=2, **size)
    assert told(error) == f"The mask {other} is 24 × 72, but the picture is 48 × 40."


def test_a_mask_that_is_black_everywhere(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    image, mask = _picture(tmp_path / "image.png"), str(tmp_path / "mask.png")
    for black in (Image.new("L", (32, 32)), Image.new("RGBA", (32, 32), (255, 255, 255, 0))):
        black.save(mask)
        assert refusal(generate, engine, models["sd15"], image=image, mask=mask).code == "mask-empty"


START: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("strength above 1", {"start": Start(strength=1.5)}, "Denoising strength cannot be 1.5."),
    ("strength that is no number", {"start": Start(strength=math.nan)}, "Denoising strength cannot be nan."),
    ("blur below none", {"start": Start(mask_blur=-1)}, "Mask blur cannot be -1."),
    ("padding below none", {"mask": "mask", "start": Start(only_masked=-1)}, "Masked area padding cannot be -1."),
    ("padding without a mask", {"start": Start(only_masked=8)}, "--only-masked cannot be used without a mask."),
    ("a side below none", {"width": None, "height": None, "start": Start(outpaint=(-8, 0, 0, 0))}, "--outpaint cannot be -8."),
    ("a side and a size", {"start": Start(outpaint=(8, 0, 0, 0))}, "--outpaint cannot be given together with a size."),
    ("strength without a picture", {"image": None, "start": Start(strength=0.5)}, "--strength cannot be used without a picture."),
    ("a mask without a picture", {"image": None, "mask": "mask"}, "--mask cannot be used without a picture."),
    (
        "sides without a picture",
        {"image": None, "start": Start(outpaint=(8, 0, 0, 0))},
        "--outpaint cannot be used without a picture.",
    ),
    ("more layers than there are", {"options": {"clip_skip": 11}}, "--clip-skip cannot be 12."),
    ("strength as an option", {"options": {"strength": 0.5}}, "--option cannot be strength=0.5."),
)


@pytest.mark.parametrize(("changes", "said"), [case[1:] for case in START], ids=[case[0] for case in START])
def test_what_cannot_be_done_with_a_start_picture(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    given = {"image": _picture(tmp_path / "image.png"), **changes}
    if "mask" in given:
        given["mask"] = _picture(tmp_path / "mask.png")
    assert told(refusal(generate, engine, models["sd15"], **given)) == said


@pytest.mark.parametrize("family", ["sd15", "sana"])
def test_a_prompt_of_ten_thousand_words(engine: DiffusersEngine, models: dict[str, Path], family: str) -> None:
    report, _ = generate(engine, models[family], family=family, prompt="a " * 10_000, steps=1)
    assert (report.images[0].state, report.images[0].finite) == ("clean", True)


NAMED: tuple[tuple[str, str, str], ...] = (
    ("__../secret__", "wildcard-missing", "There is no wildcard ../secret."),
    ("__../../*__", "wildcard-missing", "There is no wildcard ../../*."),
    ("{__/etc/passwd__|a}", "wildcard-missing", "There is no wildcard /etc/passwd."),
    ("{<lora:../secret:1>|a}", "lora-unknown", "No LoRA ../secret in "),
    ("__line__", "lora-unknown", "No LoRA /nowhere/secret in "),
)
"""Prompts in which a name leads out of the folders, the last by a line of a wildcard."""


@pytest.mark.parametrize(("prompt", "code", "said"), NAMED)
def test_a_name_in_a_prompt_reads_nothing_outside_of_its_folders(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, prompt: str, code: str, said: str
) -> None:
    words, loras = tmp_path / "words", tmp_path / "loras"
    for folder in (words, loras):
        folder.mkdir()
    (words / "line.txt").write_text("a <lora:/nowhere/secret:1>")
    (tmp_path / "secret.txt").write_text("secret")
    lora = safetensors({"lora_unet_a.lora_down.weight": ramp(2)})
    for path in (tmp_path / "secret.safetensors", loras / "ink.safetensors"):
        path.write_bytes(lora)
    error = refusal(generate, engine, models["sd15"], prompt=prompt, wildcards=(str(words),), lora_folders=(str(loras),))
    assert error.code == code
    assert told(error).startswith(said)


@pytest.mark.parametrize(
    ("output", "codes"),
    [
        ("nowhere/picture.png", {"output-folder-missing"}),
        ("file.txt/picture.png", {"output-not-folder", "output-folder-missing"}),
        ("picture.gif", {"output-bad-type"}),
        ("there.png", {"output-exists"}),
        ("/proc/picture.png", {"output-read-only", "output-failed", "output-folder-missing"}),
        ("/dev/full/picture.png", {"output-not-folder", "output-folder-missing"}),
        ("x" * 300 + ".png", {"output-failed", "output-folder-missing", "output-read-only"}),
        ("nul\0.png", {"output-failed", "output-folder-missing", "output-bad-type"}),
    ],
)
def test_an_output_that_cannot_be_written(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, output: str, codes: set[str]
) -> None:
    (tmp_path / "file.txt").write_text("")
    (tmp_path / "there.png").write_bytes(b"mine")
    assert refusal(generate, engine, models["sd15"], output=str(tmp_path / output)).code in codes
    assert (tmp_path / "there.png").read_bytes() == b"mine"


# --- models ------------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(models: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(models["sd15"], tmp_path / "copy"))


def test_a_vae_that_takes_other_channels_than_the_denoiser_gives(engine: DiffusersEngine, copy: Path) -> None:
    shutil.rmtree(copy / "vae")
    tiny.vae(16).save_pretrained(copy / "vae")
    for run in (generate, check):
        error = refusal(run, engine, copy)
        assert error.code == "model-cannot-run"
        assert "its VAE takes 16 channels, its denoiser gives 4" in told(error)


def test_a_text_encoder_of_another_width(engine: DiffusersEngine, copy: Path) -> None:
    shutil.rmtree(copy / "text_encoder")
    config = tiny.clip_text().config
    config.hidden_size = 24
    tiny.CLIPTextModel(config).save_pretrained(copy / "text_encoder")
    for run in (generate, check):
        error = refusal(run, engine, copy)
        assert error.code == "model-parts-misfit"


@pytest.mark.parametrize(
    "part", ["text_encoder", "text_encoder/model.safetensors", "text_encoder/config.json", "tokenizer", "vae"]
)
def test_a_folder_that_lacks_a_part(engine: DiffusersEngine, copy: Path, part: str) -> None:
    target = copy / part
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    for run in (generate, check):
        error = refusal(run, engine, copy)
        assert error.code == "model-incomplete"
        assert part.partition("/")[0] in told(error)


@pytest.mark.parametrize("kept", [0, 4, 100, -1000])
def test_a_file_that_came_only_in_part(engine: DiffusersEngine, copy: Path, kept: int) -> None:
    file = copy / "unet" / "diffusion_pytorch_model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    for run in (generate, check):
        assert refusal(run, engine, copy).code == ("model-truncated" if kept else "file-empty")


def test_an_index_that_points_outside_of_its_folder(engine: DiffusersEngine, copy: Path) -> None:
    index = json.loads((copy / "model_index.json").read_text())
    shutil.copytree(copy / "vae", copy.parent / "outside")
    (copy / "model_index.json").write_text(json.dumps(index | {"../outside": ["diffusers", "AutoencoderKL"]}))
    assert refusal(generate, engine, copy).code == "model-incomplete"


@pytest.mark.parametrize("kind", ["NoSuchPipeline", "AutoencoderKL", ""])
def test_an_index_of_a_class_that_is_no_pipeline(engine: DiffusersEngine, copy: Path, kind: str) -> None:
    index = json.loads((copy / "model_index.json").read_text())
    (copy / "model_index.json").write_text(json.dumps(index | {"_class_name": kind}))
    for run in (generate, check):
        assert refusal(run, engine, copy).code in {"model-load-failed", "model-not-a-model"}


@pytest.mark.parametrize("name", ["llama", "no such thing", ""])
def test_a_gguf_file_of_an_unknown_kind(engine: DiffusersEngine, tmp_path: Path, name: str) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf({"token_embd.weight": ("F32", (8, 4))}, {"general.architecture": name}))
    for run in (generate, check):
        error = refusal(run, engine, file)
        assert error.code == "model-unsupported"
        assert "it is not clear what model it is" in told(error)
