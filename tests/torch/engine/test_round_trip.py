"""`generate --from` over pictures that Halftone made: each comes back to the bit, or a sentence says why not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from tests.helpers.engine_runs import Steady, generate

from halftone.cli import main
from halftone.metadata.reading import parse_parameters, read_picture
from halftone.settings.store import Settings, save
from halftone.training.service import TrainingEngine

SMALL = ("--steps", "6", "--seed", "5", "--precision", "float32", "--device", "cpu")


def size(words: tuple[str, ...]) -> tuple[str, ...]:
    """The usual inputs; an extended picture has a size of its own."""
    extended = "--outpaint" in words and "--only-masked" not in words
    return SMALL if extended else (*SMALL, "--width", "32", "--height", "32")


@pytest.fixture(scope="module")
def engine() -> TrainingEngine:
    """The whole engine, as a command has it."""
    return TrainingEngine()


@pytest.fixture
def place(models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a start picture, a mask and a LoRA, in which the commands run."""
    save(Settings(model_folders=(str(models["sd15"].parent),), lora_folders=(str(tmp_path / "loras"),), last_model="pocket"))
    noise = np.random.default_rng(3).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((52, 44), Image.Resampling.BICUBIC).save(tmp_path / "hills.png")
    mask = Image.new("L", (52, 44))
    mask.paste(255, (16, 12, 36, 30))
    mask.save(tmp_path / "mask.png")
    torch.manual_seed(1)
    name = "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_q"
    width = 16
    (tmp_path / "loras").mkdir()
    tensors = {f"{name}.lora_down.weight": torch.randn(2, width), f"{name}.lora_up.weight": torch.randn(width, 2)}
    save_file(tensors, tmp_path / "loras" / "ink.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(engine: TrainingEngine, *words: str, name: str) -> Path:
    assert main(["generate", *words, "--output", name], engine=lambda: engine) == 0
    return Path(name).absolute()


def pixels(path: Path) -> Any:
    with Image.open(path) as opened:
        return np.asarray(opened)


def fields(path: Path) -> dict[str, str]:
    return parse_parameters(read_picture(path).parameters or "").fields


IMAGE = ("--image", "hills.png")
MASKED = (*IMAGE, "--mask", "mask.png")


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ((), ()),
        (("--negative", "", "--guidance", "3.14159265", "--sampler", "DPM++ 2M Karras"), ()),
        (("--sampler", "Euler a", "--option", "eta=0.5", "--option", "guidance_rescale=0.3"), ()),
        (("--guidance-rescale", "0.71234567", "--clip-skip", "2"), ()),
        (("--lora", "loras/ink.safetensors:0.123456789"), ()),
        (("--variation-seed", "3", "--variation-strength", "0.1234567", "--seed-resize-from", "64x32"), ()),
        (("--no-draw", "--negative", "{grey|brown} sky"), ()),
        (("--hires", "1.5", "--hires-upscaler", "lanczos", "--hires-strength", "0.5"), ()),
        (("--hires", "2", "--hires-steps", "3"), ()),
        ((*IMAGE, "--strength", "0.5"), IMAGE),
        (IMAGE, IMAGE),
        ((*IMAGE, "--strength", "0.5", "--resize", "crop"), IMAGE),
        ((*IMAGE, "--strength", "0.5", "--resize", "fill", "--hires", "1.5", "--hires-upscaler", "lanczos"), IMAGE),
        ((*MASKED, "--strength", "0.8", "--mask-blur", "2", "--masked-content", "noise"), MASKED),
        ((*MASKED, "--strength", "0.8", "--only-masked", "6"), MASKED),
        ((*IMAGE, "--outpaint", "8,0,16,0", "--strength", "0.9"), IMAGE),
        ((*IMAGE, "--outpaint", "8,0,16,0", "--only-masked", "4", "--mask-blur", "1"), IMAGE),
    ],
)  # fmt: skip
def test_a_picture_comes_back_to_the_bit(
    engine: TrainingEngine,
    models: dict[str, Path],
    place: Path,
    capfd: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    again: tuple[str, ...],
) -> None:
    first = made(engine, "a red sun", "--model", str(models["sd15"]), *size(words), *words, name="first.png")
    capfd.readouterr()
    second = made(engine, "--from", str(first), "--precision", "float32", "--device", "cpu", *again, name="second.png")
    said = capfd.readouterr().err
    assert "first.png" not in said, said
    assert np.array_equal(pixels(first), pixels(second))
    assert fields(first) == fields(second)


def test_a_shift_comes_back_to_the_bit(
    engine: TrainingEngine, models: dict[str, Path], place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("--option", "max_sequence_length=64", "--shift", "4.123456789")
    first = made(engine, "a red sun", "--model", str(models["sd3"]), *size(()), *words, name="first.png")
    assert (fields(first)["Shift"], fields(first)["Options"]) == ("4.123456789", '{"max_sequence_length": 64}')
    capfd.readouterr()
    same, own = (
        made(engine, "--from", str(first), "--precision", "float32", "--device", "cpu", *more, name=name)
        for more, name in (((), "second.png"), (("--shift", "9"), "third.png"))
    )
    assert "first.png" not in capfd.readouterr().err
    assert np.array_equal(pixels(first), pixels(same))
    assert not np.array_equal(pixels(first), pixels(own))


def test_the_bundled_model_makes_its_picture_again(
    engine: TrainingEngine, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = made(engine, "a red sun", "--model", "pocket", *size(()), *IMAGE, "--strength", "0.5", name="first.png")
    assert (fields(first)["Steps"], fields(first)["Denoising strength"]) == ("6", "0.5")
    capfd.readouterr()
    second = made(engine, "--from", str(first), "--precision", "float32", "--device", "cpu", *IMAGE, name="second.png")
    assert "first.png" not in capfd.readouterr().err
    assert np.array_equal(pixels(first), pixels(second))


def test_what_is_given_counts_before_how_the_start_picture_was_used(engine: TrainingEngine, place: Path) -> None:
    used = (*IMAGE, "--resize", "crop", "--strength", "0.5")
    first = made(engine, "a sun", "--model", "pocket", *size(()), *used, name="first.png")
    second = made(engine, "--from", str(first), *IMAGE, "--resize", "stretch", name="second.png")
    assert (fields(second)["Resize mode"], fields(second)["Denoising strength"]) == ("Just resize", "0.5")


def test_a_start_picture_that_is_not_given_again_is_asked_for(
    engine: TrainingEngine, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = made(engine, "a sun", "--model", "pocket", *size(()), *IMAGE, "--resize", "crop", name="first.png")
    capfd.readouterr()
    words = ["generate", "--from", str(first), "--precision", "float32", "--output", "second.png"]
    assert main(words, engine=lambda: engine) == 2
    told = capfd.readouterr().err
    assert "hills.png" in told
    assert "--image" in told
    assert not (place / "second.png").exists()


def test_a_picture_that_was_kept_early_says_so(engine: TrainingEngine, models: dict[str, Path], tmp_path: Path) -> None:
    report, _ = generate(engine, models["sd15"], steps=6, output=str(tmp_path / "kept.png"), control=Steady(keep_after=2))
    assert (report.images[0].steps, report.images[0].stopped_of) == (2, 6)
    assert (fields(tmp_path / "kept.png")["Steps"], fields(tmp_path / "kept.png")["Stopped after step"]) == ("6", "2 of 6")
    whole, _ = generate(engine, models["sd15"], steps=6, output=str(tmp_path / "whole.png"), control=Steady(keep_after=6))
    assert whole.images[0].stopped_of is None, "its last step was done"
