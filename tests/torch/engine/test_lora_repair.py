"""Rescaled copies and LoRAs: merged into a copy, and added to one that was rescaled before."""

import json
from pathlib import Path

from tests.helpers.engine_runs import Recorder, Steady, faulty_copy, generate, pixels
from tests.helpers.loras import TEXT, VALUES, make_lora
from tests.helpers.tiny import load_tiny

from halftone.contract.facts import RepairReport
from halftone.contract.messages import Repair
from halftone.contract.request import Lora
from halftone.engine.checks.fragile import exponents_up
from halftone.engine.checks.repair import write_copy
from halftone.engine.rescaling.rescale import rescale_groups
from halftone.engine.service import DiffusersEngine
from halftone.library.files.copies import MERGED, is_repaired
from halftone.library.files.header import read_header
from halftone.measure.pictures import psnr


def repaired(engine: DiffusersEngine, model: Path, copy: Path, *loras: Lora) -> RepairReport:
    return engine.repair(Repair(job="r", model=str(model), output=str(copy), loras=loras), Recorder(), Steady())


def test_a_lora_goes_with_a_rescaled_copy_as_with_the_original(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    lora = Lora(path=str(make_lora(models["sd15"], tmp_path / "a.safetensors")))
    group = next(group for group in rescale_groups("unet", load_tiny(models["sd15"]).unet) if "values of" in group.name)
    exponents = exponents_up(group, -6)
    assert any(".to_v." in name or ".to_out." in name for name in exponents), "a layer of the LoRA is scaled"
    copy = tmp_path / "copy"
    copy.mkdir()
    write_copy(models["sd15"], copy, {"unet": exponents}, Recorder(), Steady())
    plain, _ = generate(engine, models["sd15"])
    original, _ = generate(engine, models["sd15"], loras=(lora,))
    same, _ = generate(engine, copy, loras=(lora,))
    assert psnr(pixels(same), pixels(original)) > 45 > psnr(pixels(plain), pixels(original))


def test_loras_are_merged_into_the_copy(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    family = "sd3"
    lora = Lora(path=str(make_lora(models[family], tmp_path / "a.safetensors", layers=VALUES, strength=3e3)), weight=0.8)
    report = repaired(engine, models[family], tmp_path / "copy", lora)
    assert report.float16_finite
    assert report.float32_error < 1e-2
    assert report.loras == (lora.name,)
    wide, _ = generate(engine, models[family], family=family, loras=(lora,))
    merged, _ = generate(engine, tmp_path / "copy", "float16", family=family)
    assert merged.images[0].state == "clean"
    assert psnr(pixels(merged), pixels(wide)) >= 30


def test_the_text_encoder_of_a_copy_is_merged_too(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "vae", "stream of decoder", 16)
    lora = Lora(path=str(make_lora(models["sd15"], tmp_path / "a.safetensors", text=TEXT, kohya=True)))
    repaired(engine, model, tmp_path / "copy", lora)
    merged_only = read_header(next((tmp_path / "copy" / "text_encoder").glob("*.safetensors")))
    assert json.loads(merged_only.metadata["halftone"]) == {"change": MERGED, "loras": ["a 1"], "exponents": {}}
    assert not is_repaired([merged_only])
    rescaled = read_header(next((tmp_path / "copy" / "vae").glob("*.safetensors")))
    assert is_repaired([rescaled])
    assert "loras" not in json.loads(rescaled.metadata["halftone"])
    wide, _ = generate(engine, model, loras=(lora,))
    merged, _ = generate(engine, tmp_path / "copy")
    assert psnr(pixels(merged), pixels(wide)) > 60
