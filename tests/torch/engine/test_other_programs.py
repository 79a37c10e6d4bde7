"""The code for diffusers makes the picture that it makes in FP32, where FP16 alone makes a black one."""

import inspect
import sys
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from tests.helpers.engine_runs import check
from tests.helpers.tiny import load_tiny

from halftone.contract.facts import CheckReport
from halftone.engine.service import DiffusersEngine
from halftone.health.other_programs import UPCASTING, export
from halftone.measure.pictures import psnr

pytestmark = pytest.mark.filterwarnings("ignore")


def overflowing(source: Path, folder: Path, part: str) -> Path:
    """A copy whose VAE, or text encoder, passes the limit of FP16 inside a pair of layers that undo each other."""
    pipe = load_tiny(source)
    pipe.vae.register_to_config(force_upcast=False)
    with torch.no_grad():
        if part == "vae":
            attention = pipe.vae.decoder.mid_block.attentions[0]
            writer, reader = attention.to_v, attention.to_out[0]
        else:
            attention = pipe.text_encoder.encoder.layers[1].self_attn
            writer, reader = attention.v_proj, attention.out_proj
        for value in (writer.weight, writer.bias):
            value.mul_(2.0**20)
        reader.weight.mul_(2.0**-20)
    pipe.save_pretrained(folder)
    return folder


def picture(code: str) -> Any:
    """Run the lines that a person copies, then make a picture."""
    names: dict[str, Any] = {}
    exec(code, names)
    made = names["pipe"](
        "a red sun", width=32, height=32, num_inference_steps=2, output_type="np", generator=torch.Generator().manual_seed(5)
    )
    return made.images[0]


@pytest.mark.parametrize(("family", "part"), [("sd15", "vae"), ("sdxl", "vae"), ("sd15", "text_encoder")])
def test_the_code_for_diffusers_makes_the_picture(
    models: dict[str, Path], engine: DiffusersEngine, tmp_path: Path, family: str, part: str
) -> None:
    report: CheckReport = check(engine, overflowing(models[family], tmp_path / family, part), "float16")[0]
    assert {finding.component for finding in report.findings if finding.code != "tight"} == {part}
    (told,) = export(report, "diffusers").settings
    plain = f"import torch, diffusers\npipe = diffusers.DiffusionPipeline.from_pretrained({report.model.path!r}, torch_dtype="
    wide, narrow = (picture(f"{plain}torch.{dtype})") for dtype in ("float32", "float16"))
    assert not np.isfinite(narrow).all() or psnr(narrow, wide) < 20
    assert psnr(picture(told.value), wide) >= 30


def test_the_pipelines_that_follow_force_upcast_are_those_of_the_table() -> None:
    others = ("Flax", "Onnx", "Modular")
    names = [name for name in dir(diffusers) if name.endswith("Pipeline") and not any(other in name for other in others)]
    kinds = {name: getattr(diffusers, name) for name in names if name.startswith(UPCASTING)}
    assert kinds
    modules = {name: sys.modules[kind.__module__] for name, kind in kinds.items()}
    assert [name for name, module in modules.items() if "force_upcast" not in inspect.getsource(module)] == []
