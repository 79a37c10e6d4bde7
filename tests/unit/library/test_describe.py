import json
import os
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.model_files import ramp, safetensors, write_folder, write_json

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.library.files.copies import REPAIRED
from halftone.library.models import closed_folders, describe, list_models, runnable, weight_files


def refusal(model: Path | str) -> HalftoneError:
    with pytest.raises(HalftoneError) as caught:
        describe(str(model))
    return caught.value


def test_a_diffusers_folder_is_described(tmp_path: Path) -> None:
    facts = describe(str(write_folder(tmp_path / "tiny")))
    assert (facts.family, facts.format, facts.stored_dtype) == ("Stable Diffusion 1.x", "diffusers", "float16")
    assert (facts.native_width, facts.native_height) == (128, 128), "sample_size 32 times 2 ** (3 levels - 1)"
    assert facts.components == ("scheduler", "text_encoder", "tokenizer", "unet", "vae")
    assert facts.stored == {"text_encoder": "float16", "unet": "float16", "vae": "float16"}
    assert facts.prompt_tokens == 77
    assert [name for name, _ in weight_files(facts)] == ["text_encoder", "unet", "vae"]
    runnable(facts)


@pytest.mark.parametrize(
    ("pipeline", "family"),
    [
        ("StableDiffusionImg2ImgPipeline", "Stable Diffusion 1.x"),
        ("StableDiffusionXLPipeline", "SDXL"),
        ("StableDiffusion3Pipeline", "SD 3"),
        ("SanaPipeline", "Sana"),
        ("KolorsPipeline", "Kolors"),
        ("Flux2KleinPipeline", "FLUX.2"),
        ("QwenImageEditPlusPipeline", "Qwen-Image"),
        ("QwenImage21Pipeline", "QwenImage21Pipeline"),
        ("SomethingNewPipeline", "SomethingNewPipeline"),
    ],
)
def test_the_pipeline_class_names_the_family(tmp_path: Path, pipeline: str, family: str) -> None:
    assert describe(str(write_folder(tmp_path / "m", pipeline))).family == family


def test_a_wide_text_input_means_stable_diffusion_2(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    write_json(root / "unet" / "config.json", {"sample_size": [40, 60], "cross_attention_dim": 1024})
    facts = describe(str(root))
    assert (facts.family, facts.native_width, facts.native_height) == ("Stable Diffusion 2.x", 240, 160)


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        ("unet/config.json", "unet/config.json"),
        ("unet/diffusion_pytorch_model.safetensors", "weights of unet"),
        ("scheduler/scheduler_config.json", "scheduler/scheduler_config.json"),
        ("tokenizer/merges.txt", "tokenizer/tokenizer.json"),
    ],
)
def test_a_missing_part_is_named(tmp_path: Path, lost: str, named: str) -> None:
    root = write_folder(tmp_path / "m")
    (root / lost).unlink()
    error = refusal(root)
    assert error.code == "model-incomplete"
    assert named in str(error)


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    (root / "unet" / "config.json").unlink()
    (root / "tokenizer" / "merges.txt").unlink()
    (root / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    error = refusal(root)
    weights = Words("weights of {0} (a .safetensors file)", ("vae",))
    assert error.facts["missing"] == ("tokenizer/tokenizer.json", "unet/config.json", weights)
    assert "lacks tokenizer/tokenizer.json, unet/config.json, weights of vae (a .safetensors file)." in str(error)


def test_a_missing_component_folder_is_named(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    index = {"_class_name": "StableDiffusionPipeline", "image_encoder": ["transformers", "CLIPVisionModel"]}
    write_json(root / "model_index.json", index)
    assert "image_encoder" in str(refusal(root))


def test_a_deleted_safety_checker_is_no_loss(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    index = json.loads((root / "model_index.json").read_text())
    write_json(root / "model_index.json", index | {"safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"]})
    assert "safety_checker" not in describe(str(root)).components


def test_a_component_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    write_folder(tmp_path / "other")
    write_json(root / "model_index.json", {"_class_name": "X", "../other/unet": ["diffusers", "UNet2DConditionModel"]})
    assert refusal(root).code == "model-incomplete"


def shard(root: Path, weight_map: dict[str, str]) -> None:
    (root / "unet" / "diffusion_pytorch_model.safetensors").unlink()
    write_json(root / "unet" / "diffusion_pytorch_model.safetensors.index.json", {"weight_map": weight_map})


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    names = [f"diffusion_pytorch_model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    shard(root, {"a": names[0], "b": names[1]})
    for name, tensor in zip(names, "ab", strict=True):
        (root / "unet" / name).write_bytes(safetensors({tensor: ramp(2)}))
    assert len([name for name, _ in weight_files(describe(str(root))) if name == "unet"]) == 2

    (root / "unet" / names[1]).write_bytes(safetensors({"c": ramp(2)}))
    assert "tensor b" in str(refusal(root))
    (root / "unet" / names[1]).unlink()
    assert names[1] in str(refusal(root))


def test_a_shard_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    (tmp_path / "far.safetensors").write_bytes(safetensors({"a": ramp(2)}))
    shard(root, {"a": "../../far.safetensors"})
    assert refusal(root).code == "model-incomplete"


def test_damage_inside_a_folder_is_found(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    weights = root / "vae" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert refusal(root).code == "model-truncated"
    (root / "model_index.json").write_text("{" * 100_000)
    assert refusal(root).code == "model-bad-header"


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    for name in ("a.ckpt", "a.pt", "a.pth", "a.bin"):
        (tmp_path / name).write_bytes(b"\x80\x04.")
        assert refusal(tmp_path / name).code == "model-pickle"
        (tmp_path / name).write_bytes(b"<!DOCTYPE html><html>")
        assert "it is a web page" in str(refusal(tmp_path / name))
    root = write_folder(tmp_path / "m")
    (root / "unet" / "diffusion_pytorch_model.safetensors").rename(root / "unet" / "diffusion_pytorch_model.bin")
    assert refusal(root).code == "model-pickle"
    (root / "unet" / "diffusion_pytorch_model.bin").write_bytes(b"")
    assert refusal(root).code == "file-empty"


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "none.safetensors").write_bytes(safetensors({}))
    assert refusal(tmp_path / "empty").code == "model-empty-folder"
    assert refusal(tmp_path).code == "model-not-a-model"
    assert refusal(tmp_path / "notes.txt").code == "model-not-a-model"
    assert refusal(tmp_path / "none.safetensors").code == "model-not-a-model"
    for missing in (tmp_path / "nothing", "", "a\0b", "~nobody-of-that-name/x", "x" * 5000):
        assert refusal(missing).code == "model-missing"


@pytest.mark.parametrize(
    ("keys", "family"),
    [
        ("model.diffusion_model.input_blocks.0.0.weight model.diffusion_model.out.2.weight", "Stable Diffusion 1.x"),
        ("cond_stage_model.model.ln_final.weight", "Stable Diffusion 2.x"),
        ("conditioner.embedders.1.model.ln_final.weight", "SDXL"),
        ("model.diffusion_model.joint_blocks.0.x_block.attn.qkv.weight", "SD 3"),
        ("double_blocks.0.img_attn.qkv.weight", "FLUX"),
        ("lora_unet_down_blocks_0_attentions_0.lora_down.weight", "LoRA"),
        ("unet.down_blocks.0.attn1.to_q.lora_A.weight", "LoRA"),
        ("decoder.up_blocks.0.resnets.0.conv1.weight", "VAE"),
        ("something.else", "Unknown"),
    ],
)
def test_a_single_file_is_recognised_by_its_names(tmp_path: Path, keys: str, family: str) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors({key: ("BF16", np.zeros(4, np.uint16)) for key in keys.split()}))
    facts = describe(str(path))
    assert (facts.family, facts.format, facts.stored_dtype) == (family, "single-file", "bfloat16")
    with pytest.raises(HalftoneError) as caught:
        runnable(facts)
    part = "it holds only the denoiser of "
    whole = "it holds only the denoiser of "
    why = {"LoRA": "it is a LoRA", "VAE": "it is a VAE", "Unknown": "it is not clear", "SD 3": whole, "FLUX": whole}.get(
        family, part
    )
    alone = facts.takes_place  # which runs with the other parts of a folder
    assert caught.value.code == ("model-needs-parts" if alone else "model-unsupported")
    assert f"cannot run {path}{' alone' if alone else ''}: {why}" in str(caught.value)
    assert ("Add a diffusers folder" if alone else "Choose a whole model") in str(caught.value)


def test_the_fingerprint_follows_the_files(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    before = describe(str(root)).fingerprint
    assert describe(str(root)).fingerprint == before
    (root / "vae" / "diffusion_pytorch_model.safetensors").write_bytes(safetensors({"vae.weight": ramp(5, 5)}))
    assert describe(str(root)).fingerprint != before


def test_a_model_may_carry_its_defaults(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    write_json(root / "halftone.json", {"name": "Small", "native_width": 96, "steps": 9, "guidance": 2, "sampler": "x"})
    facts = describe(str(root))
    assert (facts.name, facts.native_width, facts.default_steps, facts.default_guidance) == ("Small", 96, 9, 2.0)
    write_json(root / "halftone.json", {"steps": "many"})
    assert refusal(root).code == "model-bad-header"


def test_a_repaired_copy_is_told_from_its_original_by_name(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    write_json(root / "halftone.json", {"name": "Small"})
    file = root / "vae" / "diffusion_pytorch_model.safetensors"

    def name_after(change: str) -> str:
        file.write_bytes(safetensors({"vae.weight": ramp(4, 4)}, {"halftone": change}))
        return describe(str(root)).name

    assert name_after(json.dumps({"change": REPAIRED, "exponents": {"vae.weight": 1}})) == "Repaired Small"
    (root / "halftone.json").unlink()
    assert describe(str(root)).name == "Repaired m"
    named = root.rename(tmp_path / "m-repaired")
    assert describe(str(named)).name == "m-repaired", "its own name says so already"
    root = named.rename(root)
    assert name_after(json.dumps({"change": "scaled up", "exponents": {}})) == "m"
    for foreign in ("no JSON", "[]", '{"change": 3}', "[" * 100_000):
        assert name_after(foreign) == "m"


def test_listing_finds_models_and_leaves_out_what_is_damaged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "halftone.library")
    write_folder(tmp_path / "hub" / "snapshots" / "abc")
    (tmp_path / "one.safetensors").write_bytes(safetensors({"lora_unet_x.lora_down.weight": ramp(2)}))
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    (tmp_path / ".hidden.safetensors").write_bytes(safetensors({"a": ramp(2)}))
    assert [facts.name for facts in list_models([str(tmp_path), str(tmp_path)]) if facts.id != "pocket"] == ["abc", "one"]
    assert any("broken.safetensors" in message for message in caplog.messages)


@pytest.mark.parametrize("deep", [5, 60])
def test_listing_goes_to_any_depth_and_links_in_a_circle_end(tmp_path: Path, deep: int) -> None:
    folder = tmp_path.joinpath(*(str(number) for number in range(deep)))
    write_folder(folder / "whole")
    (folder / "one.safetensors").write_bytes(safetensors({"lora_unet_x.lora_down.weight": ramp(2)}))
    (folder / "round").symlink_to(tmp_path, target_is_directory=True)
    (folder / "site-packages").mkdir()
    (folder / "site-packages" / "part.safetensors").write_bytes(safetensors({"lora_unet_y.lora_down.weight": ramp(2)}))
    assert [facts.name for facts in list_models([str(tmp_path)]) if facts.id != "pocket"] == ["one", "whole"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has another limit")
def test_a_folder_too_deep_for_the_system_is_named(tmp_path: Path) -> None:
    upper, lower = (tmp_path.joinpath(name, *["x" * 250] * 9) for name in ("upper", "lower"))
    upper.mkdir(parents=True)
    lower.mkdir(parents=True)
    (tmp_path / "lower").rename(upper / "lower")
    try:
        (closed,) = closed_folders([str(tmp_path)])
    finally:
        (upper / "lower").rename(tmp_path / "lower")
    assert closed.startswith(str(upper / "lower"))
    assert len(closed) > 4000


def test_a_guider_and_a_tokenizer_of_bytes_are_parts(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    for name, file, content in (
        ("guider", "guider_config.json", {}),
        ("tokenizer_2", "tokenizer_config.json", {"tokenizer_class": "ByT5Tokenizer"}),
    ):
        (root / name).mkdir()
        write_json(root / name / file, content)
    index = json.loads((root / "model_index.json").read_text())
    write_json(root / "model_index.json", {**index, "guider": ["a", "B"], "tokenizer_2": ["transformers", "ByT5Tokenizer"]})
    assert {"guider", "tokenizer_2"} <= set(describe(str(root)).components)
    (root / "guider" / "guider_config.json").unlink()
    assert "guider/guider_config.json" in str(refusal(root))
    write_json(root / "tokenizer_2" / "tokenizer_config.json", {"tokenizer_class": "CLIPTokenizer"})
    (root / "guider" / "guider_config.json").write_text("{}")
    assert "tokenizer_2/tokenizer.json" in str(refusal(root))


def test_the_demo_model_is_found_by_its_name_as_the_guide_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert describe("Pocket") == describe("pocket")
    (tmp_path / "Pocket").mkdir()
    with pytest.raises(HalftoneError):
        describe("Pocket")
