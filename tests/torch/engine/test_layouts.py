"""A model in the other layout holds the same numbers, and a repaired one makes its picture in FP16 in diffusers, too."""

from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file
from tests.helpers.all_in_one import put_small_files, save_all_in_one
from tests.helpers.engine_runs import Recorder, Steady, check, generate, pixels
from tests.helpers.originals import original_names, published, save_original, tiny_original

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Repair
from halftone.engine.checks.layouts import write_as_file, write_as_folder
from halftone.engine.service import DiffusersEngine
from halftone.library.families.original_layout import one_file
from halftone.library.files.folder import read_json
from halftone.library.models import describe
from halftone.measure.pictures import psnr

pytestmark = pytest.mark.filterwarnings("ignore")
FAMILIES = {
    "sd1": "Stable Diffusion 1.x",
    "sd2": "Stable Diffusion 2.x",
    "sdxl": "SDXL",
    "sdxl-refiner": "SDXL refiner",
    "inpaint": "Stable Diffusion 1.x",
}
VELOCITY = {"modelspec.prediction_type": "v"}


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_folder_becomes_the_file_that_its_makers_would_write(tmp_path: Path, kind: str) -> None:
    pipe = tiny_original(kind)
    for encoder in (pipe.components.get("text_encoder"), pipe.components.get("text_encoder_2")):
        if encoder is not None and (encoder is not pipe.text_encoder or kind == "sd2"):
            encoder.config.hidden_act = "gelu"  # as OpenCLIP computes
    if kind.startswith("sdxl"):
        pipe.vae.register_to_config(scaling_factor=0.13025)
    pipe.save_pretrained(tmp_path / "folder")
    facts = replace(describe(str(tmp_path / "folder")), family=FAMILIES[kind])  # a tiny SD 2 is as wide as SD 1
    write_as_file(facts, tmp_path / "made.safetensors", Recorder(), Steady())
    made = load_file(tmp_path / "made.safetensors")
    theirs = load_file(save_original(pipe, tmp_path / "theirs.safetensors", dtype=torch.float32))
    del theirs["alphas_cumprod"]
    assert made.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in made.items())


@pytest.mark.parametrize("kind", ["flux", "sd3"])
def test_a_transformer_file_becomes_a_folder_and_the_same_file_again(tmp_path: Path, kind: str) -> None:
    put_small_files()
    path = tmp_path / "one.safetensors"
    save_all_in_one(kind, path)
    write_as_folder(describe(str(path)), tmp_path / "folder", Recorder())
    write_as_file(describe(str(tmp_path / "folder")), tmp_path / "again.safetensors", Recorder(), Steady())
    before = {name.replace("vae.", "first_stage_model."): value for name, value in load_file(path).items()}
    after = load_file(tmp_path / "again.safetensors")
    assert {name for name in before if not name.endswith("logit_scale")} == after.keys()
    assert all(torch.equal(value, before[name]) for name, value in after.items())


def overflowing(folder: Path) -> Any:
    """A tiny SD 1.5 whose VAE passes the limit of FP16 in a pair of layers that a scale cures."""
    pipe = tiny_original("sd1")
    pipe.scheduler.register_to_config(prediction_type="v_prediction")
    with torch.no_grad():
        attention = pipe.vae.decoder.mid_block.attentions[0]
        for value in (attention.to_v.weight, attention.to_v.bias):
            value.mul_(2.0**20)
        attention.to_out[0].weight.mul_(2.0**-20)
    pipe.save_pretrained(folder)
    return pipe


def drawn(pipe: Any) -> Any:
    return pipe(
        "a red sun", width=32, height=32, num_inference_steps=3, output_type="np", generator=torch.Generator().manual_seed(5)
    ).images[0]


def test_a_repaired_folder_is_one_file_for_other_programs(tmp_path: Path, engine: DiffusersEngine) -> None:
    folder, target = tmp_path / "sick", tmp_path / "whole.safetensors"
    pipe = overflowing(folder)
    sick = save_original(pipe, tmp_path / "sick.safetensors", dtype=torch.float32, metadata=VELOCITY)
    report = engine.repair(Repair(job="r", model=str(folder), output=str(target), layout="file"), Recorder(), Steady())
    assert (report.path, report.float16_finite) == (str(target), True)
    assert report.float32_error <= 1e-4
    assert "v_pred" in load_file(target)
    assert check(engine, target, "float16")[0].verdict in ("healthy", "tight")
    wide, made = generate(engine, sick, "float32")[0], generate(engine, target, "float16")[0]
    assert generate(engine, sick, "float16")[0].images[0].state == "recovered"
    assert made.images[0].state == "clean"
    assert psnr(pixels(made), pixels(wide)) >= 30
    theirs = diffusers.StableDiffusionPipeline.from_single_file(
        str(target), config=str(folder), local_files_only=True, torch_dtype=torch.float16
    )
    assert psnr(drawn(theirs), drawn(pipe)) >= 30


def test_a_repaired_file_is_a_folder_for_diffusers(tmp_path: Path, engine: DiffusersEngine) -> None:
    pipe = overflowing(tmp_path / "folder")
    path = save_original(pipe, tmp_path / "sick.safetensors", dtype=torch.float32, metadata=VELOCITY)
    wide = generate(engine, path, "float32")[0]
    target = tmp_path / "whole"
    report = engine.repair(Repair(job="r", model=str(path), output=str(target), layout="folder"), Recorder(), Steady())
    assert (report.path, report.float16_finite) == (str(target), True)
    assert not read_json(target / "vae" / "config.json")["force_upcast"]
    made = generate(engine, target, "float16")[0]
    assert made.images[0].state == "clean"
    assert psnr(pixels(made), pixels(wide)) >= 30
    narrow, reference = (
        drawn(diffusers.DiffusionPipeline.from_pretrained(target, torch_dtype=dtype)) for dtype in (torch.float16, torch.float32)
    )
    assert psnr(narrow, reference) >= 30


@pytest.mark.parametrize("model", ["sana", "pocket"])
def test_a_model_that_no_such_file_can_hold_is_refused_before_the_check(
    models: dict[str, Path], engine: DiffusersEngine, tmp_path: Path, model: str
) -> None:
    """Pocket is like SD 1.5, but with other groups and another vocabulary, which a file does not tell."""
    command = Repair(job="r", model=str(models.get(model, model)), output=str(tmp_path / "x.safetensors"), layout="file")
    with pytest.raises(HalftoneError) as caught:
        engine.repair(command, Recorder(), Steady())
    assert caught.value.code == "no-one-file"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["sd1", "sd2", "sdxl", "sdxl-refiner"])
def test_the_published_sizes_have_the_published_names(kind: str) -> None:
    shapes = {
        name: {key: tuple(value.shape) for key, value in part.state_dict().items()} for name, part in published(kind).items()
    }
    made = {one.name: one.shape[::-1] if one.turned else one.shape for one in one_file(FAMILIES[kind], shapes)}
    theirs = {name: tuple(value.shape) for name, value in original_names(published(kind)).items()}
    assert made == theirs
