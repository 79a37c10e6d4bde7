"""Quantised files of other programs: the numbers that they stand for, or the true reason why they are not read."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers import quantised_forms as forms
from tests.helpers.comfy_split import SPLITS, save_split
from tests.helpers.file_forms import save
from tests.torch.engine.test_split_families import exact

from halftone.contract.errors import HalftoneError
from halftone.engine.loading.load import load_pipeline
from halftone.engine.weights.packed import PackedLinear
from halftone.library.models import describe, runnable

E4M3, E5M2 = {"format": "float8_e4m3fn"}, {"format": "float8_e5m2"}
READ: dict[str, forms.Change] = {
    "FP8": forms.eight_bits(),
    "FP8, E5M2": forms.eight_bits(dtype=torch.float8_e5m2),
    "scale_weight": forms.eight_bits("scale_weight"),
    "scale_weight, E5M2": forms.eight_bits("scale_weight", torch.float8_e5m2),
    "scale_weight, scaled_fp8": lambda tensors: forms.eight_bits("scale_weight")(tensors) | {"scaled_fp8": torch.zeros(2)},
    "weight_scale": forms.eight_bits("weight_scale"),
    "weight_scale of each row": forms.eight_bits("weight_scale", rows=True),
    "weight_scale of each row, flat": forms.eight_bits("weight_scale", rows=True, flat=True),
    "comfy_quant": forms.eight_bits("weight_scale", said=E4M3),
    "comfy_quant, E5M2": forms.eight_bits("weight_scale", torch.float8_e5m2, said=E5M2),
    "comfy_quant, full precision": forms.eight_bits("weight_scale", said={**E4M3, "full_precision_matrix_mult": True}),
    "comfy_quant of each row": forms.eight_bits("weight_scale", rows=True, said=E4M3),
}
REFUSED: dict[str, tuple[forms.Change, str]] = {
    "NVFP4": (forms.with_factor("nvfp4", torch.uint8, torch.float8_e4m3fn, 16, second=True), "NVFP4"),
    "MXFP8": (forms.with_factor("mxfp8", torch.float8_e4m3fn, torch.float8_e8m0fnu, 4), "MXFP8"),
    "FP8 in blocks": (forms.with_factor("float8", torch.float8_e4m3fn, torch.float8_e4m3fn, 4), "FP8 in blocks"),
    "INT8": (forms.with_factor("int8_tensorwise", torch.int8, torch.uint8, 2**20), "INT8"),
    "bitsandbytes NF4": (forms.with_states(".absmax", ".quant_map", ".quant_state.bitsandbytes__nf4", kept=True), "NF4"),
    "bitsandbytes FP4": (forms.with_states(".absmax", ".quant_map", ".quant_state.bitsandbytes__fp4", kept=True), "FP4"),
    "bitsandbytes INT8": (forms.with_states(".SCB", kept=True), "INT8"),
    "nunchaku": (forms.with_states(".wscales", ".smooth_factor", ".proj_down"), "SVDQuant"),
    "nunchaku, NVFP4": (forms.with_states(".wscales", ".wcscales", ".wtscale"), "SVDQuant"),
}
NAME = "Z-Image"


def write(change: forms.Change, folder: Path, part: str) -> tuple[Path, dict[str, torch.Tensor]]:
    """The transformer's file of a split model, and the tensors of the part that was changed."""
    split = SPLITS[NAME]
    pipe, path = save_split(split, folder)
    if part == "transformer":
        tensors = change(split.original(pipe.transformer))
        save(tensors, path)
    else:
        name, own = split.files[part]
        tensors = change(own(getattr(pipe, part)))
        save(tensors, folder / name)
    return path, tensors


BOTH = ("scale_weight, scaled_fp8", "weight_scale of each row", "comfy_quant")
TRIED = [*((form, "transformer") for form in READ), *((form, "text_encoder") for form in BOTH)]


@pytest.mark.parametrize(("form", "part"), TRIED)
def test_the_numbers_are_those_that_the_file_stands_for(form: str, part: str, tmp_path: Path) -> None:
    path, tensors = write(READ[form], tmp_path, part)
    facts = describe(str(path))
    runnable(facts)
    module, split = load_pipeline(facts, torch.device("cpu")).modules[part], SPLITS[NAME]
    named = split.original if part == "transformer" else split.files[part][1]
    ours, theirs = named(exact(module)), forms.stand_for(tensors)
    assert any(isinstance(layer, PackedLinear) for layer in module.modules())
    assert ours.keys() == theirs.keys()
    worst = max(float((ours[name] - value.reshape(ours[name].shape)).abs().max()) for name, value in theirs.items())
    print(f"{form}, {part}: equal, worst difference {worst:.1e}")
    assert worst == 0


@pytest.mark.parametrize("form", REFUSED)
def test_a_transformer_that_is_not_read_names_its_scheme(form: str, tmp_path: Path) -> None:
    change, scheme = REFUSED[form]
    path, _ = write(change, tmp_path, "transformer")
    with pytest.raises(HalftoneError) as caught:
        runnable(describe(str(path)))
    said = str(caught.value.facts["detail"])
    print(f"{form}, transformer: refused, {said}")
    assert said.startswith(f"its weights are quantised ({scheme}), which Halftone does not read")


@pytest.mark.parametrize("form", REFUSED)
def test_a_text_encoder_that_is_not_read_names_its_scheme(form: str, tmp_path: Path) -> None:
    change, scheme = REFUSED[form]
    path, _ = write(change, tmp_path, "text_encoder")
    with pytest.raises(HalftoneError) as caught:
        runnable(describe(str(path)))
    said = str(caught.value.facts["detail"])
    print(f"{form}, text encoder: refused, {said}")
    name = Path(SPLITS[NAME].files["text_encoder"][0]).name
    beside = f"the weights of {name}, which lies beside it, are quantised ({scheme}), and Halftone does not read such a part"
    gone = form.startswith("nunchaku") and said.endswith("lack the text encoder Qwen3 4B")  # none of its layers has its name
    assert said == beside or gone


@pytest.mark.logs("loading .* failed")
@pytest.mark.parametrize("said", [{"format": "float8_e4m3fn", "convrot": True}, {"format": "unheard_of"}], ids=str)
def test_a_note_of_more_than_a_factor_is_heeded(said: dict[str, Any], tmp_path: Path) -> None:
    path, _ = write(forms.eight_bits("weight_scale", said=said), tmp_path, "transformer")
    with pytest.raises(HalftoneError) as caught:
        load_pipeline(describe(str(path)), torch.device("cpu"))
    scheme = f"{said['format']}, convrot" if said.get("convrot") else said["format"]
    assert str(caught.value.facts["detail"]) == f"its weights are quantised ({scheme}), which Halftone does not read"
