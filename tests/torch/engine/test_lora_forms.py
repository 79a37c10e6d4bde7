"""LoRA files in the names of many programs: what is merged is what those programs' own code makes of it."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import save_file
from tests.bench.families.table import CASES
from tests.helpers import makers_names
from tests.helpers.lora_forms import (
    CHROMA,
    CONV,
    FLUX,
    FLUX2,
    FORMS,
    LINEAR,
    LUMINA,
    POINT,
    QWEN,
    REFERENCES,
    SD1,
    SD3,
    SDXL,
    SPELLINGS,
    WAN,
    Z_IMAGE,
    Form,
    Tensors,
    drawn,
    flat,
)
from tests.helpers.makers_names import theirs
from tests.helpers.originals import unet_name
from tests.helpers.transformer_files import flux_original, sd3_original

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Lora
from halftone.engine.patches.lora import Adapter, left_out, read_adapters
from halftone.library.add_ons.loras import check_loras

CLOSE = 1e-5

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made


@cache
def pipeline(family: str) -> Any:
    return next(case for case in CASES if case.name == family).build()


def read(family: str, files: Sequence[Path]) -> tuple[Adapter, ...]:
    loras = [Lora(path=str(file)) for file in files]
    check_loras(loras)
    facts = ModelFacts(
        id="m", name="m", path="m", family=family, format="diffusers", stored_dtype="float32", fingerprint="", size_bytes=1
    )
    return read_adapters(pipeline(family), facts, loras)


def written(form: Form, reference: Any, folder: Path) -> Path:
    """The file as its program writes it."""
    given: Tensors = {name: drawn(name, shape) for name, shape in reference["tensors"].items()}
    given |= {name: torch.tensor(value) for name, value in reference["values"].items()}
    tensors = {place + SPELLINGS[form.spelling](name): value for place in form.layers for name, value in given.items()}
    file = folder / ("adapter_model.safetensors" if form.beside == "folder" else f"{form}.safetensors")
    config = for_layer(reference.get("config", {}), next(iter(*form.layers.values())))
    folder.mkdir()
    if form.beside == "folder":
        (folder / "adapter_config.json").write_text(json.dumps(config))
    component = "unet" if next(iter(form.layers)).startswith("unet") else "transformer"
    said = {"lora_adapter_metadata": json.dumps({f"{component}.{name}": value for name, value in config.items()})}
    save_file(tensors, file, said if form.beside == "metadata" else None)
    return file


def for_layer(config: dict[str, Any], layer: str) -> dict[str, Any]:
    """peft's configuration with the layer's name in its patterns."""
    return {
        name: dict.fromkeys([layer], *cast("dict[str, float]", value).values()) if isinstance(value, dict) else value
        for name, value in config.items()
    }


def wanted(form: Form) -> tuple[str, tuple[str, ...], list[list[int]], Any]:
    """(component, its layers that are changed, their shapes, what the reference says)"""
    pipe = pipeline(form.family)
    component = form.component or ("unet" if hasattr(pipe, "unet") else "transformer")
    (modules,) = form.layers.values()
    shapes = [list(getattr(pipe, component).get_submodule(module).weight.shape) for module in modules]
    edges = [sum(shape[0] for shape in shapes), *shapes[0][1:]]
    return component, modules, shapes, REFERENCES[f"{form.kind} {'x'.join(map(str, edges))}"]


def differs(form: Form, adapter: Adapter) -> str | float:
    """What is not as its program has it, or the relative error of what is added."""
    component, modules, shapes, reference = wanted(form)
    if left_out([adapter]):
        return str(left_out([adapter]))
    if {name: set(own) for name, own in adapter.layers.items()} != {component: set(modules)}:
        return f"changed: {adapter.layers}"
    held = drawn("weight", reference["weight"]).split([shape[0] for shape in shapes])
    added = torch.cat(
        [
            adapter.layers[component][module].merged({"weight": weight}, 1.0)["weight"] - weight
            for module, weight in zip(modules, held, strict=True)
        ]
    )
    found = added.reshape(len(added), -1).double() @ drawn("probe", [added[0].numel()], 1.0).double()
    there = torch.tensor(reference["added"], dtype=torch.float64)
    return float((found - there).abs().max() / there.abs().max())


@pytest.mark.parametrize("family", sorted({form.family for form in FORMS}))
def test_what_is_merged_is_what_its_program_makes_of_it(tmp_path: Path, family: str) -> None:
    forms = [form for form in FORMS if form.family == family]
    files = [written(form, wanted(form)[-1], tmp_path / str(number)) for number, form in enumerate(forms)]
    found = {str(form): differs(form, adapter) for form, adapter in zip(forms, read(family, files), strict=True)}
    assert {form: why for form, why in found.items() if isinstance(why, str)} == {}
    errors = {form: why for form, why in found.items() if isinstance(why, float)}
    worst = max(errors, key=errors.__getitem__)
    print(f"{family}: {len(forms)} forms, the largest relative error {errors[worst]:.1e} ({worst})")
    assert errors[worst] <= CLOSE


def test_there_are_enough_of_them() -> None:
    assert len(set(map(str, FORMS))) == len(FORMS) >= 80


K = "lora_unet_" + flat(LINEAR)
QKV = "lora_unet_double_blocks_0_img_attn_qkv"
TUCKED: dict[str, list[int]] = {"lora_down.weight": [3, 32], "lora_up.weight": [96, 3]}
REFUSED: dict[str, tuple[str, dict[str, list[int]], str, str]] = {
    "OFT of old peft": (SD1, {f"unet.{LINEAR}.oft_r": [4, 4, 4]}, "lora-kind", "unsupported kind OFT (old peft)"),
    "BOFT of peft": (SD1, {f"unet.{LINEAR}.boft_R": [1, 4, 4, 4]}, "lora-kind", "unsupported kind BOFT (peft)"),
    "VeRA": (SD1, {f"unet.{LINEAR}.vera_lambda_b": [8]}, "lora-kind", "unsupported kind VeRA"),
    "half a layer": (SD1, {f"{K}.lora_down.weight": [3, 16]}, "lora-unsupported", f"its layer {K} lacks lora_up"),
    "half a LoHa": (SD1, {f"{K}.hada_w1_a": [8, 3], f"{K}.hada_w1_b": [3, 16]}, "lora-unsupported", "lacks hada_w2_a"),
    "another width": (SD1, {f"{K}.lora_down.weight": [3, 24], f"{K}.lora_up.weight": [8, 3]}, "lora-other-base", "sizes"),
    "another family": (
        SD1,
        {f"{QKV}.{name}": shape for name, shape in TUCKED.items()},
        "lora-other-base",
        "other names or sizes",
    ),
    "DoRA of columns over q, k and v": (
        FLUX,
        {f"{QKV}.{name}": shape for name, shape in (TUCKED | {"dora_scale": [1, 32]}).items()},
        "lora-unsupported",
        "it is a DoRA whose magnitudes span layers that this model keeps separate",
    ),
    "OFT over q, k and v": (
        FLUX,
        {f"{QKV}.oft_blocks": [2, 48, 48]},
        "lora-unsupported",
        "it is an OFT whose blocks span layers that this model keeps separate",
    ),
    "BOFT over q, k and v": (
        FLUX,
        {f"{QKV}.oft_blocks": [3, 24, 4, 4]},
        "lora-unsupported",
        "it is a BOFT over layers that this model keeps separate",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_the_reason(tmp_path: Path, case: str) -> None:
    family, shapes, code, words = REFUSED[case]
    save_file({name: drawn(name, shape) for name, shape in shapes.items()}, tmp_path / "mine.safetensors")
    with pytest.raises(HalftoneError) as caught:
        read(family, [tmp_path / "mine.safetensors"])
    assert caught.value.code == code
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text", ["{", "\xff", '{"r": -1, "use_rslora": true}', '{"r": "x"}', '{"lora_alpha": [2]}', '{"alpha_pattern": 3}']
)
def test_a_configuration_that_cannot_be_read_is_the_reason(tmp_path: Path, text: str) -> None:
    shapes = {"lokr_w1": [2, 4], "lokr_w2": [4, 4]}
    tensors = {f"base_model.model.{LINEAR}.{name}": drawn(name, shape) for name, shape in shapes.items()}
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(HalftoneError) as caught:
        read(SD1, [tmp_path / "adapter_model.safetensors"])
    assert "its configuration cannot be read" in str(caught.value)


@pytest.mark.parametrize("terms", ["3", "1e12", '"x"'])
def test_a_series_of_terms_that_nobody_writes_is_refused(tmp_path: Path, terms: str) -> None:
    tensors = {f"base_model.model.{LINEAR}.oft_R.weight": drawn("oft_R.weight", [4, 6])}
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    said = f'{{"use_cayley_neumann": true, "num_cayley_neumann_terms": {terms}}}'
    (tmp_path / "adapter_config.json").write_text(said)
    with pytest.raises(HalftoneError) as caught:
        read(SD1, [tmp_path / "adapter_model.safetensors"])
    assert "its configuration cannot be read" in str(caught.value)


GOOD: dict[str, list[int]] = {f"{K}.lora_down.weight": [3, 16], f"{K}.lora_up.weight": [8, 3]}
OTHER = "lora_unet_down_blocks_9_resnets_0_conv1"
ONE_TENSOR = "1 tensor of the LoRA mine holds a change of a kind that this model cannot use and was left out."
SAID: dict[str, tuple[dict[str, list[int]], str]] = {
    "one of two layers": (
        {f"{OTHER}.lora_down.weight": [3, 8], f"{OTHER}.lora_up.weight": [8, 3]},
        "1 of 2 layers of the LoRA mine do not fit this model and were left out.",
    ),
    "the same layer twice": (
        {f"unet.{LINEAR}.lora_A.weight": [3, 16], f"unet.{LINEAR}.lora_B.weight": [8, 3]},
        "1 of 2 layers of the LoRA mine do not fit this model and were left out.",
    ),
    "a bias that the layer lacks": ({f"{K}.diff_b": [8]}, ONE_TENSOR),
    "an unknown tensor": ({f"{K}.reshape_weight": [2]}, ONE_TENSOR),
    "another kind in the same layer": ({f"{K}.diff": [8, 16]}, ONE_TENSOR),
    "an embedding": (
        {"bundle_emb.sunny.string_to_param.*": [2, 17]},
        "The embedding sunny in the LoRA mine does not fit this model and was left out.",
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_left_out_is_named(tmp_path: Path, case: str) -> None:
    more, words = SAID[case]
    save_file({name: drawn(name, shape) for name, shape in (GOOD | more).items()}, tmp_path / "mine.safetensors")
    (adapter,) = read(SD1, [tmp_path / "mine.safetensors"])
    assert list(map(str, left_out([adapter]))) == [words]
    assert list(adapter.layers["unet"]) == [LINEAR]


@pytest.mark.parametrize("end", ["string_to_param.*", "emb_params"])
def test_an_embedding_in_it_that_fits_is_read(tmp_path: Path, end: str) -> None:
    width = pipeline(SD1).text_encoder.config.hidden_size
    own = drawn("sunny", [2, width])
    tensors = {name: drawn(name, shape) for name, shape in GOOD.items()}
    save_file(tensors | {f"bundle_emb.sunny.{end}": own}, tmp_path / "mine.safetensors")
    (adapter,) = read(SD1, [tmp_path / "mine.safetensors"])
    assert left_out([adapter]) == ()
    (found,) = adapter.inversions
    assert found.inversion.name == "sunny"
    assert torch.equal(found.vectors["text_encoder"], own)


def test_an_up_factor_without_the_dimensions_of_its_kernel_is_one_all_the_same(tmp_path: Path) -> None:
    """LyCORIS writes a convolution's DyLoRA so."""
    down, up = drawn("lora_down.weight", [3, 8, 3, 3]), drawn("lora_up.weight", [16, 3])
    place = f"lora_unet_{flat(CONV)}"
    save_file({f"{place}.lora_down.weight": down, f"{place}.lora_up.weight": up}, tmp_path / "mine.safetensors")
    (adapter,) = read(SD1, [tmp_path / "mine.safetensors"])
    added = adapter.layers["unet"][CONV].merged({"weight": torch.zeros(16, 8, 3, 3)}, 1.0)["weight"]
    assert torch.allclose(added, torch.einsum("or,rikl->oikl", up, down), atol=1e-6)


def test_the_bias_of_an_up_factor_is_scaled_with_it(tmp_path: Path) -> None:
    """peft trains it with `lora_bias`."""
    place = f"unet.{POINT}"
    shapes = {"lora_A.weight": [3, 8, 1, 1], "lora_B.weight": [16, 3, 1, 1], "lora_B.bias": [16]}
    tensors = {f"{place}.{name}": drawn(name, shape) for name, shape in shapes.items()}
    save_file(tensors | {f"{place}.alpha": torch.tensor(6.0)}, tmp_path / "mine.safetensors")
    (adapter,) = read(SD1, [tmp_path / "mine.safetensors"])
    assert left_out([adapter]) == ()
    held = {"weight": drawn("weight", [16, 8, 1, 1]), "bias": drawn("bias", [16])}
    found = adapter.layers["unet"][POINT].merged(held, 0.5)
    assert torch.allclose(found["bias"], held["bias"] + drawn("lora_B.bias", [16]))


@pytest.mark.parametrize(("family", "width"), [(FLUX, 32), (FLUX2, 32), (SD3, 16)])
@pytest.mark.parametrize("kind", ["lora", "lokr", "dora"])
def test_halves_that_diffusers_swaps_are_swapped(tmp_path: Path, family: str, width: int, kind: str) -> None:
    """The last modulation of a maker is shift and scale, diffusers' is scale and shift."""
    shapes = {
        "lora": {"lora_down.weight": [3, width], "lora_up.weight": [2 * width, 3]},
        "lokr": {"lokr_w1": [4, 4], "lokr_w2": [width // 2, width // 4]},
        "dora": {"lora_down.weight": [3, width], "lora_up.weight": [2 * width, 3], "dora_scale": [1, width]},
    }[kind]
    files: list[Path] = []
    for place in ("lora_unet_final_layer_adaLN_modulation_1", "lora_transformer_norm_out_linear"):
        files.append(tmp_path / f"{place}.safetensors")
        save_file({f"{place}.{name}": drawn(name, shape) for name, shape in shapes.items()}, files[-1])
    theirs, ours = (adapter.layers["transformer"]["norm_out.linear"] for adapter in read(family, files))
    shift, scale = (held := drawn("weight", [2 * width, width])).chunk(2)
    added = ours.merged({"weight": held}, 1.0)["weight"] - held
    swapped = torch.cat([scale, shift])
    found = theirs.merged({"weight": swapped}, 1.0)["weight"] - swapped
    assert torch.allclose(torch.cat([*reversed(found.chunk(2))]), added, atol=1e-6)


WHOLE: dict[str, Callable[[Any], Tensors]] = {
    FLUX: flux_original,
    "SD 3": sd3_original,
    FLUX2: lambda network: theirs(network, makers_names.FLUX2),
    CHROMA: lambda network: theirs(network, makers_names.CHROMA),
    QWEN: lambda network: dict(network.state_dict()),
    WAN: lambda network: theirs(network, makers_names.WAN),
    Z_IMAGE: lambda network: theirs(network, makers_names.Z_IMAGE),
    LUMINA: lambda network: theirs(network, makers_names.LUMINA2),
}
ENDS = {"weight": "diff", "scale": "diff", "bias": "diff_b"}


def as_difference(tensors: Tensors, prefix: str, file: Path) -> Path:
    """A file with these numbers as a difference from nothing."""
    found: Tensors = {}
    for name, value in tensors.items():
        layer, _, end = name.rpartition(".")
        if end in ENDS and layer != "norm_final":  # which diffusers lacks
            place = layer if prefix.endswith(".") else flat(layer)
            found[f"{prefix}{place}.{ENDS[end]}"] = value.clone().contiguous()
    save_file(found, file)
    return file


def lacking(network: Any, adapter: Adapter, component: str) -> set[str]:
    """Parameters of a network that the adapter does not make of nothing."""
    found: Tensors = {}
    for module, change in adapter.layers[component].items():
        held = {name: torch.zeros_like(value) for name, value in network.get_submodule(module).named_parameters(recurse=False)}
        found |= {f"{module}.{name}": value for name, value in change.merged(held, 1.0).items()}
    own = {name: value for name, value in network.named_parameters() if name.endswith((".weight", ".bias"))}
    return {name for name, value in own.items() if name not in found or not torch.equal(found[name], value)}


@pytest.mark.parametrize("family", WHOLE)
@pytest.mark.parametrize("prefix", ["diffusion_model.", "lora_unet_"])
def test_every_layer_of_a_transformer_has_a_place(tmp_path: Path, family: str, prefix: str) -> None:
    network = pipeline(family).transformer
    (adapter,) = read(family, [as_difference(WHOLE[family](network), prefix, tmp_path / "mine.safetensors")])
    assert left_out([adapter]) == ()
    assert lacking(network, adapter, "transformer") == set()


@pytest.mark.parametrize("family", [SD1, SDXL, "SD 2.x"])
@pytest.mark.parametrize("prefix", ["diffusion_model.", "lora_unet_"])
def test_every_layer_of_a_unet_has_a_place(tmp_path: Path, family: str, prefix: str) -> None:
    network = pipeline(family).unet
    tensors = {unet_name(name, network): value for name, value in network.state_dict().items()}
    (adapter,) = read(family, [as_difference(tensors, prefix, tmp_path / "mine.safetensors")])
    assert left_out([adapter]) == ()
    assert lacking(network, adapter, "unet") == set()


@pytest.mark.parametrize(
    ("component", "prefix"),
    [
        ("text_encoder", "lora_te1_"),
        ("text_encoder", "text_encoders.clip_l.transformer."),
        ("text_encoder_2", "lora_te2_"),
        ("text_encoder_2", "text_encoders.clip_g.transformer."),
    ],
)
def test_every_layer_of_a_text_encoder_has_a_place(tmp_path: Path, component: str, prefix: str) -> None:
    network = getattr(pipeline(SDXL), component)
    wrapper = "" if any(name.startswith("text_model.") for name in network.state_dict()) else "text_model."
    tensors = {
        name if name == "text_projection.weight" else wrapper + name: value for name, value in network.state_dict().items()
    }
    (adapter,) = read(SDXL, [as_difference(tensors, prefix, tmp_path / "mine.safetensors")])
    assert left_out([adapter]) == ()
    assert lacking(network, adapter, component) == set()
