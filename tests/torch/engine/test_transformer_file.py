"""A transformer of one file in the place of the model's own: the picture of the numbers that it stands for, its cures, the way
back.
"""

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.bench.families import flows
from tests.bench.families.remade import remade
from tests.bench.faults import videos
from tests.helpers.engine_runs import check, generate, pixels
from tests.helpers.originals import original_names, save_original, tiny_original
from tests.helpers.read_back import parse_parameters, read_picture
from tests.helpers.tiny import liven, load_tiny
from tests.helpers.transformer_files import ltx_names, save_float8, save_gguf, sd3_original
from tests.helpers.wording import translated

from halftone.contract.facts import GenerateReport
from halftone.contract.messages import ModelChanged
from halftone.contract.request import Lora
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.loading.load import Loaded, exact_source
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.packed import PackedLinear, packed_layers
from halftone.engine.weights.precision import damaged
from halftone.library.files.gguf_header import read_any
from halftone.measure.pictures import psnr

SHORT = {"max_sequence_length": 32}


def of(engine: DiffusersEngine) -> Loaded:
    assert engine.loaded is not None
    return engine.loaded


def saved(build: Callable[[], Any], place: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        pipe = build()
        liven(pipe.transformer)
        pipe.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(flows.flux_dev, tmp_path_factory.mktemp("flux") / "model")


@pytest.fixture(scope="module")
def other(flux: Path) -> Any:
    """A transformer with other numbers than the model's own."""
    torch.manual_seed(11)
    own = load_tiny(flux).transformer
    made = type(own).from_config(own.config)
    liven(made)
    return made.eval()


@pytest.fixture(scope="module")
def packed(other: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "other-Q8_0.gguf"
    save_gguf(other.state_dict(), path)
    return path


def made(engine: DiffusersEngine, model: Path, precision: Any = "float32", **changes: Any) -> GenerateReport:
    return generate(engine, model, precision, family="sd15", options=SHORT, **changes)[0]


def by_diffusers(model: Path, tensors: Mapping[str, torch.Tensor]) -> Any:
    pipe = load_tiny(model)
    pipe.transformer.load_state_dict(dict(tensors))
    generator = torch.Generator("cpu").manual_seed(5)
    options: dict[str, Any] = {"width": 32, "height": 32, "num_inference_steps": 3, "generator": generator, "output_type": "np"}
    with quiet_libraries():
        return pipe("a red sun", **options, **SHORT).images[0]


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q5_1", "BF16", "F16"])
def test_the_picture_is_the_one_of_the_numbers_that_a_gguf_stands_for(
    engine: DiffusersEngine, flux: Path, other: Any, tmp_path: Path, kind: str
) -> None:
    numbers = save_gguf(other.state_dict(), tmp_path / "other.gguf", kind)
    report = made(engine, flux, transformer=str(tmp_path / "other.gguf"))
    assert abs(pixels(report).astype(float) - by_diffusers(flux, numbers) * 255).max() <= 1
    layers = packed_layers(of(engine).modules["transformer"])
    assert bool(layers) == kind.startswith("Q")
    assert report.images[0].state == "clean"


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_eight_bit_numbers_stay_so_in_memory(
    engine: DiffusersEngine, flux: Path, other: Any, tmp_path: Path, scaled: bool
) -> None:
    numbers = save_float8(other.state_dict(), tmp_path / "other.safetensors", scaled=scaled)
    report = made(engine, flux, transformer=str(tmp_path / "other.safetensors"))
    assert abs(pixels(report).astype(float) - by_diffusers(flux, numbers) * 255).max() <= 1
    layers = packed_layers(of(engine).modules["transformer"])
    assert {layer.packed.element_size() for layer in layers.values()} == {1}


@pytest.mark.parametrize("prefix", ["", "model.diffusion_model."])
def test_a_plain_file_is_taken_as_it_is(engine: DiffusersEngine, flux: Path, other: Any, tmp_path: Path, prefix: str) -> None:
    tensors = {prefix + name: value.half() for name, value in other.state_dict().items()}
    save_file(tensors, tmp_path / "other.safetensors")
    report = made(engine, flux, transformer=str(tmp_path / "other.safetensors"))
    wanted = by_diffusers(flux, {name: value.half().float() for name, value in other.state_dict().items()})
    assert abs(pixels(report).astype(float) - wanted * 255).max() <= 1
    assert of(engine).stored["transformer"] == torch.float16


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_it_computes_in_the_precision_that_is_asked_for_from_the_same_bytes(
    engine: DiffusersEngine, flux: Path, packed: Path, precision: Any
) -> None:
    wide = pixels(made(engine, flux, transformer=str(packed)))
    layer = next(iter(packed_layers(of(engine).modules["transformer"]).values()))
    before = layer.packed.clone()
    report = made(engine, flux, precision, transformer=str(packed))
    assert (report.images[0].state, report.images[0].finite) == ("clean", True)
    assert layer.dtype == getattr(torch, precision)
    assert torch.equal(layer.packed, before)
    assert abs(pixels(report).astype(int) - wide).mean() < 8
    assert (pixels(made(engine, flux, transformer=str(packed))) == wide).all()


def test_nothing_else_is_loaded_anew_and_going_back_gives_the_picture_from_before(
    engine: DiffusersEngine, flux: Path, packed: Path
) -> None:
    first = made(engine, flux, "bfloat16")
    loaded = of(engine)
    before = {name: id(module) for name, module in loaded.modules.items() if name != "transformer"}
    there, events = generate(engine, flux, "bfloat16", options=SHORT, transformer=str(packed))
    back, more = generate(engine, flux, "bfloat16", options=SHORT)
    assert of(engine) is loaded
    assert {name: id(module) for name, module in loaded.modules.items() if name != "transformer"} == before
    assert not [*events.of(ModelChanged), *more.of(ModelChanged)]
    assert (pixels(first) == pixels(back)).all()
    assert (pixels(first) != pixels(there)).any()
    found = read_picture(Path(there.images[0].path))
    assert parse_parameters(found.parameters or "").fields["Transformer"] == packed.name
    assert json.loads(found.receipt or "")["request"]["transformer"] == packed.name
    assert "Transformer" not in parse_parameters(read_picture(Path(back.images[0].path)).parameters or "").fields


def test_a_file_that_was_written_anew_is_read_again(engine: DiffusersEngine, flux: Path, other: Any, tmp_path: Path) -> None:
    path = tmp_path / "changing.gguf"
    save_gguf(other.state_dict(), path)
    first = pixels(made(engine, flux, transformer=str(path)))
    path.unlink()
    save_gguf({name: value * 1.5 for name, value in other.state_dict().items()}, path, "Q4_0")
    assert (pixels(made(engine, flux, transformer=str(path))) != first).any()


def test_names_of_its_makers_are_turned_into_those_of_diffusers(engine: DiffusersEngine, tmp_path: Path) -> None:
    model = saved(videos.ltx, tmp_path / "ltx")
    module = load_tiny(model).transformer
    numbers = save_gguf(module.state_dict(), tmp_path / "ltx.gguf", "Q8_0", ltx_names, "ltxv")
    pipe = load_tiny(model)
    pipe.transformer.load_state_dict(numbers)
    made(engine, model, transformer=str(tmp_path / "ltx.gguf"), num_frames=9)
    ours = dict(of(engine).modules["transformer"].state_dict())
    layers = packed_layers(of(engine).modules["transformer"])
    assert "transformer_blocks.0.attn1.to_q" in layers
    for name, value in pipe.transformer.state_dict().items():
        layer = layers.get(name.removesuffix(".weight"))
        assert torch.equal(ours[name] if layer is None or not name.endswith(".weight") else layer.exact, value), name


@pytest.mark.parametrize(("kind", "near"), [("Q8_0", 0.01), ("Q4_0", 0.15)])
def test_joined_projections_are_taken_apart_while_they_stay_packed(
    engine: DiffusersEngine, tmp_path: Path, kind: str, near: float
) -> None:
    def build() -> Any:
        pipe = flows.sd3()
        wide = remade(pipe.transformer, attention_head_dim=16, caption_projection_dim=32)
        pipe.register_modules(transformer=wide)
        return pipe

    model = saved(build, tmp_path / "sd3")
    module = load_tiny(model).transformer
    save_gguf(sd3_original(module), tmp_path / "sd3.gguf", kind)
    made(engine, model, transformer=str(tmp_path / "sd3.gguf"))
    layers = packed_layers(of(engine).modules["transformer"])
    assert {"transformer_blocks.0.attn.to_k", "norm_out.linear"} <= layers.keys()
    for name, layer in layers.items():
        wanted = module.get_submodule(name).weight.detach()
        assert float((layer.exact - wanted).abs().max()) <= near * float(wanted.abs().max()), name


@pytest.mark.parametrize("form", ["safetensors", "gguf"])
def test_a_unet_of_a_file_in_the_place_of_that_of_a_file(engine: DiffusersEngine, tmp_path: Path, form: str) -> None:
    pipe, other = tiny_original("sd1"), tiny_original("sd1", seed=3)
    model = save_original(pipe, tmp_path / "model.safetensors", dtype=torch.float32)
    numbers = {name: value.contiguous() for name, value in other.unet.state_dict().items()}
    if form == "gguf":
        parts = {name: part for name, part in other.components.items() if isinstance(part, torch.nn.Module)}
        start = "model.diffusion_model."
        unet = {name.removeprefix(start): value for name, value in original_names(parts).items() if name.startswith(start)}
        save_gguf(unet, tmp_path / "unet.gguf", "F32", architecture="sd1")
    else:
        save_file(numbers, tmp_path / "unet.safetensors")
    first = pixels(generate(engine, model)[0])
    there = pixels(generate(engine, model, transformer=str(tmp_path / f"unet.{form}"))[0])
    assert (pixels(generate(engine, model)[0]) == first).all()
    pipe.unet.load_state_dict(numbers)
    whole = save_original(pipe, tmp_path / "whole.safetensors", dtype=torch.float32)
    assert abs(there.astype(int) - pixels(generate(engine, whole)[0])).max() <= 1
    assert (first != there).any()


def lora(path: Path, module: Any) -> str:
    generator = torch.Generator().manual_seed(1)
    tensors: dict[str, torch.Tensor] = {}
    for name in ("transformer_blocks.0.attn.to_q", "single_transformer_blocks.0.proj_out"):
        rows, columns = module.get_submodule(name).weight.shape
        tensors[f"transformer.{name}.lora_A.weight"] = torch.randn(4, columns, generator=generator)
        tensors[f"transformer.{name}.lora_B.weight"] = torch.randn(rows, 4, generator=generator)
    save_file(tensors, path)
    return str(path)


def test_a_lora_adds_to_packed_weights_what_it_adds_to_plain_ones(
    engine: DiffusersEngine, flux: Path, other: Any, tmp_path: Path
) -> None:
    numbers = save_gguf(other.state_dict(), tmp_path / "packed.gguf", "Q4_0")
    save_file(numbers, tmp_path / "plain.safetensors")
    given = {"loras": (Lora(path=lora(tmp_path / "lora.safetensors", other), weight=0.7),)}
    files = [str(tmp_path / name) for name in ("packed.gguf", "plain.safetensors")]
    bare, without = (pixels(made(engine, flux, transformer=file)) for file in files)
    first, second = (pixels(made(engine, flux, transformer=file, **given)) for file in files)
    assert abs(first.astype(int) - second).max() <= 1
    assert abs(first.astype(int) - bare).max() > 8
    assert (pixels(made(engine, flux, transformer=files[0])) == bare).all()
    assert (pixels(made(engine, flux, transformer=files[1])) == without).all()


def test_what_is_applied_is_a_layer_like_any_other() -> None:
    assert issubclass(PackedLinear, torch.nn.Linear)


def overflowing(other: Any) -> dict[str, torch.Tensor]:
    """The values of one attention far beyond float16; what reads them takes that back."""
    tensors = dict(other.state_dict())
    for name in ("attn.to_v", "attn.add_v_proj"):
        for end in ("weight", "bias"):
            tensors[f"transformer_blocks.0.{name}.{end}"] = tensors[f"transformer_blocks.0.{name}.{end}"] * 2.0**22
    for name in ("attn.to_out.0", "attn.to_add_out"):
        tensors[f"transformer_blocks.0.{name}.weight"] = tensors[f"transformer_blocks.0.{name}.weight"] * 2.0**-22
    return tensors


def test_an_overflow_is_found_and_cured_while_the_weights_stay_packed(
    engine: DiffusersEngine, flux: Path, other: Any, tmp_path: Path
) -> None:
    path = tmp_path / "overflowing.safetensors"
    save_float8(overflowing(other), path, scaled=True)
    report, _ = check(engine, flux, "float16", family="sd3", transformer=str(path), steps=2)
    assert report.verdict == "fixable"
    assert {finding.component for finding in report.findings if finding.code != "tight"} == {"transformer"}
    assert report.plan.verified
    assert report.transformer == str(path)
    picture = made(engine, flux, "float16", transformer=str(path))
    assert (picture.images[0].state, picture.images[0].finite) == ("recovered", True)
    layers = packed_layers(of(engine).modules["transformer"])
    assert {layer.packed.dtype for layer in layers.values()} == {torch.uint8}
    assert made(engine, flux, "float16", transformer=str(path)).images[0].state == "clean"
    # what was learned belongs to the file: the model's own transformer starts without it
    assert not made(engine, flux, "float16").plan.upcast


def test_bad_numbers_of_the_file_are_named_as_the_network_calls_them(engine: DiffusersEngine, tmp_path: Path) -> None:
    model = saved(videos.ltx, tmp_path / "ltx")
    path = tmp_path / "ltx.gguf"
    save_gguf(load_tiny(model).transformer.state_dict(), path, "Q8_0", ltx_names, "ltxv")
    bad = next(tensor for tensor in read_any(path).tensors if tensor.name == "transformer_blocks.0.attn1.to_q.weight")
    with path.open("r+b") as file:
        file.seek(bad.start)
        file.write(b"\x00\x7c")  # infinity, the factor of its first block
    report, _ = check(engine, model, "float16", family="sd3", transformer=str(path), steps=2, num_frames=9)
    assert report.verdict == "broken"
    (finding,) = report.findings
    assert (finding.code, finding.component) == ("weights-nonfinite", "transformer")
    assert finding.module == "transformer_blocks.0.attn1.to_q"
    assert (finding.facts["count"], finding.facts["read"]) == (32, True)


def test_fp8_storage_leaves_a_file_of_its_own_as_it_is_and_is_there_again_without_it(
    engine: DiffusersEngine, flux: Path, other: Any, tmp_path: Path
) -> None:
    path = tmp_path / "other.gguf"
    save_gguf(other.state_dict(), path, "F16")
    plain = made(engine, flux, transformer=str(path))
    eight = made(engine, flux, transformer=str(path), fp8_storage=True)
    assert (pixels(eight) == pixels(plain)).all()
    (told,) = [reason for reason in eight.plan.reasons if "FP8" in str(reason)]
    assert translated(told)
    masters = exact_source(of(engine), "transformer")
    assert damaged(of(engine).modules["transformer"], masters, of(engine).states["transformer"]) == []
    back, alone = made(engine, flux, fp8_storage=True), made(DiffusersEngine(), flux, fp8_storage=True)
    assert (pixels(back) == pixels(alone)).all()
    assert not (pixels(back) == pixels(made(engine, flux))).all()


def test_packed_weights_stay_as_they_are_where_the_others_are_stored_in_eight_bits(
    engine: DiffusersEngine, flux: Path, packed: Path
) -> None:
    plain = made(engine, flux, transformer=str(packed))
    kept = len(packed_layers(of(engine).modules["transformer"]))
    eight = made(engine, flux, transformer=str(packed), fp8_storage=True)
    assert kept == len(packed_layers(of(engine).modules["transformer"])) > 0
    assert eight.images[0].state == plain.images[0].state == "clean"
    assert psnr(pixels(eight), pixels(plain)) > 20
