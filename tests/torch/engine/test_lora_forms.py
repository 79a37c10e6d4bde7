"""LoRA files in the names of many programs: what is merged is what those programs' own code makes of it."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.bench.families.table import CASES
from tests.helpers.lora_forms import FORMS, REFERENCES, SPELLINGS, Form, Tensors, drawn

from halftone.contract.facts import ModelFacts
from halftone.contract.request import Lora
from halftone.engine.patches.lora import Adapter, left_out, read_adapters
from halftone.library.add_ons.loras import check_loras

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made


@cache
def pipeline(family: str) -> Any:
    return next(case for case in CASES if case.name == family).build()


def read(family: str, file: Path) -> Adapter:
    loras = (Lora(path=str(file)),)
    check_loras(loras)
    facts = ModelFacts(
        id="m", name="m", path="m", family=family, format="diffusers", stored_dtype="float32", fingerprint="", size_bytes=1
    )
    (adapter,) = read_adapters(pipeline(family), facts, loras)
    return adapter


def written(form: Form, reference: Any, folder: Path) -> Path:
    """The file as its program writes it."""
    given: Tensors = {name: drawn(name, shape) for name, shape in reference["tensors"].items()}
    given |= {name: torch.tensor(value) for name, value in reference["values"].items()}
    tensors = {place + SPELLINGS[form.spelling](name): value for place in form.layers for name, value in given.items()}
    file = folder / ("adapter_model.safetensors" if form.beside == "folder" else "mine.safetensors")
    save_file(tensors, file)
    return file


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_what_is_merged_is_what_its_program_makes_of_it(tmp_path: Path, form: Form) -> None:
    pipe = pipeline(form.family)
    component = form.component or ("unet" if hasattr(pipe, "unet") else "transformer")
    network = getattr(pipe, component)
    (modules,) = form.layers.values()
    shapes = [list(network.get_submodule(module).weight.shape) for module in modules]
    shape = [sum(shape[0] for shape in shapes), *shapes[0][1:]]
    reference = REFERENCES[f"{form.kind} {'x'.join(map(str, shape))}"]
    adapter = read(form.family, written(form, reference, tmp_path))
    assert left_out([adapter]) == ()
    assert {name: set(own) for name, own in adapter.layers.items()} == {component: set(modules)}
    held = drawn("weight", shape).split([shape[0] for shape in shapes])
    added = [
        adapter.layers[component][module].merged({"weight": weight}, 1.0)["weight"] - weight
        for module, weight in zip(modules, held, strict=True)
    ]
    probe = drawn("probe", [math.prod(shape[1:])], 1.0).double()
    found = torch.cat(added).flatten(1).double() @ probe if len(shape) > 1 else torch.cat(added).double()[:, None] @ probe
    wanted = torch.tensor(reference["added"], dtype=torch.float64)
    assert float((found - wanted).abs().max()) <= 1e-5 * float(wanted.abs().max())
