"""FLUX.1 and Stable Diffusion 3 in one file, as ComfyUI writes them: recognised, told what is missing, loaded, run, checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.helpers.all_in_one import put_small_files, save_all_in_one
from tests.helpers.engine_runs import Recorder, Steady, check, generate

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Repair
from halftone.contract.request import Extras, Lora
from halftone.engine.inputs.memory import weight_bytes
from halftone.engine.loading.load import load_pipeline
from halftone.engine.loading.single_file import exponents_in_file, merged_in_file
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.file_tensors import mapped, misfit
from halftone.engine.weights.packed import PackedLinear, packed_layers
from halftone.health.forecasts.activations import Size
from halftone.health.forecasts.memory_forecast import Job, need
from halftone.library.add_ons.lora_fit import check_lora_fit
from halftone.library.families.networks import known_networks
from halftone.library.families.single_files import SINGLES, places
from halftone.library.files.header import read_header
from halftone.library.files.small_files import T5, lacking
from halftone.library.models import describe, runnable
from halftone.library.prompts.tokens import make_counter

Saved = Callable[[str], tuple[dict[str, Any], Path]]
FAMILIES = {"flux": "FLUX", "sd3": "SD 3"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    folder = tmp_path_factory.mktemp("all")
    made: dict[str, tuple[dict[str, Any], Path]] = {}

    def save(kind: str) -> tuple[dict[str, Any], Path]:
        if kind not in made:
            path = folder / f"{kind}.safetensors"
            made[kind] = save_all_in_one(kind, path), path
        return made[kind]

    return save


def saved_lora(path: Path, width: int) -> Path:
    """Of one layer of FLUX, which lies in one tensor of the file with others."""
    name = "transformer.single_transformer_blocks.0.attn.to_k"
    save_file({f"{name}.lora_A.weight": torch.ones(2, width), f"{name}.lora_B.weight": torch.ones(64, 2)}, path)
    return path


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_number_of_the_file_is_where_it_belongs(saved: Saved, kind: str) -> None:
    parts, path = saved(kind)
    facts = describe(str(path))
    assert (facts.family, facts.format, facts.why) == (FAMILIES[kind], "single-file", None)
    with pytest.raises(HalftoneError) as caught:
        runnable(facts)
    assert caught.value.code == "model-needs-files"
    assert "google-t5/t5-base/tokenizer.json (1.4\u00a0MB)" in str(caught.value)
    assert caught.value.facts["folder"] == str(T5.place.parent)
    assert T5.place.parent.is_dir()
    put_small_files()
    runnable(facts)
    loaded = load_pipeline(facts, torch.device("cpu"))
    assert set(loaded.modules) == set(parts) == set(SINGLES[facts.family].prefixes)
    for name, module in loaded.modules.items():
        assert loaded.stored[name] == torch.bfloat16
        assert sum(value.numel() for value in module.parameters()) == sum(value.numel() for value in parts[name].parameters())
        theirs = {key.removeprefix("text_model."): value for key, value in parts[name].state_dict().items()}
        ours = {key.removeprefix("text_model."): value for key, value in module.state_dict().items()}
        assert ours.keys() == theirs.keys(), name
        assert all(torch.equal(value, theirs[key]) for key, value in ours.items()), name


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_parameter_has_its_place_in_the_file(saved: Saved, kind: str) -> None:
    parts, path = saved(kind)
    found = places(FAMILIES[kind], read_header(path))
    for component, part in parts.items():
        wanted = {name.removeprefix("text_model.") for name, _ in part.named_parameters()}
        assert wanted <= {name for own, name in found if own == component}


@pytest.mark.parametrize("kind", FAMILIES)
def test_pictures_are_made_and_the_file_is_called_healthy(saved: Saved, kind: str) -> None:
    put_small_files()
    engine = DiffusersEngine()
    report, _ = generate(engine, saved(kind)[1], "float32", steps=2, options={"max_sequence_length": 64})
    assert report.images[0].state == "clean"
    counter = make_counter(describe(str(saved(kind)[1])))
    assert counter is not None
    assert counter("a b", {}) == {"flux": 4, "sd3": 2}[kind]  # T5's tiny one reads letters and spaces, CLIP's words
    found, _ = check(engine, saved(kind)[1], "bfloat16")
    assert (found.verdict, found.findings) == ("healthy", ())


@pytest.mark.parametrize("kind", FAMILIES)
def test_what_is_merged_goes_back_to_where_it_came_from(saved: Saved, kind: str) -> None:
    parts, path = saved(kind)
    values = {name: dict(part.named_parameters()) for name, part in parts.items()}
    with torch.no_grad():
        merged = merged_in_file(path, FAMILIES[kind], values)
    held = load_file(path)
    assert all(torch.equal(value, held[name]) for name, value in merged.items())
    assert len(merged) == len(held) - sum(name.endswith(("logit_scale", "pos_embed")) for name in held)


def test_exponents_are_told_of_the_rows_that_a_parameter_has_in_the_file(saved: Saved) -> None:
    own = {"single_transformer_blocks.0.attn.to_k.weight": 2, "norm_out.linear.weight[0:64]": 3, "proj_out.weight": 1}
    assert exponents_in_file(saved("flux")[1], "FLUX", {"transformer": own}) == {
        "model.diffusion_model.single_blocks.0.linear1.weight[64:128]": 2,
        "model.diffusion_model.final_layer.adaLN_modulation.1.weight[64:128]": 3,
        "model.diffusion_model.final_layer.linear.weight": 1,
    }


def test_stable_diffusion_3_without_t5_needs_no_file_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "clips.safetensors"
    save_all_in_one("sd3", path, without="text_encoders.t5xxl.")
    facts = describe(str(path))
    assert (lacking(facts), "text_encoder_3" in facts.components) == ((), False)
    report, _ = generate(DiffusersEngine(), path, "float32", steps=2)
    assert report.images[0].state == "clean"


@pytest.mark.parametrize(
    ("kind", "left_out", "lacks"),
    [
        ("flux", "text_encoders.clip_l.", "it and the folders vae and text_encoders lack the text encoder CLIP-L."),
        ("flux", "vae.", "it and the folders vae and text_encoders lack the VAE."),
        ("sd3", "text_encoders.clip_g.", "it and the folders vae and text_encoders lack the text encoder OpenCLIP-G."),
    ],
)
def test_a_file_that_is_not_whole_says_what_it_lacks(tmp_path: Path, kind: str, left_out: str, lacks: str) -> None:
    path = tmp_path / "part.safetensors"
    save_all_in_one(kind, path, without=left_out)
    with pytest.raises(HalftoneError) as caught:
        runnable(describe(str(path)))
    assert lacks in str(caught.value)


@pytest.mark.parametrize("scaled", ["", "whole", "rows"])
def test_a_file_in_eight_bits_stays_so_in_memory(saved: Saved, tmp_path: Path, scaled: str) -> None:
    put_small_files()
    path = tmp_path / "eight.safetensors"
    tensors, stands_for = {}, {}
    for name, value in load_file(saved("flux")[1]).items():
        wide = value.dim() == 2 and name.endswith(".weight") and name.startswith(("model.", "text_encoders.t5xxl"))
        factor = torch.tensor([1.0])
        if scaled and wide:
            factor = (value.abs().amax(1, keepdim=True) if scaled == "rows" else value.abs().max().reshape(1)).float() / 448
        tensors[name] = (value.float() / factor).to(torch.float8_e4m3fn) if wide else value
        if scaled and wide:
            tensors[name.removesuffix(".weight") + ".scale_weight"] = factor
        stands_for[name] = tensors[name].float() * factor
    save_file(tensors, path)
    facts = describe(str(path))
    runnable(facts)
    loaded = load_pipeline(facts, torch.device("cpu"))
    own, start = loaded.modules["transformer"], "model.diffusion_model."
    key, last = (own.get_submodule(name) for name in ("single_transformer_blocks.0.attn.to_k", "norm_out.linear"))
    assert isinstance(key, PackedLinear)
    assert isinstance(last, PackedLinear)
    assert torch.equal(key.exact, stands_for[f"{start}single_blocks.0.linear1.weight"][64:128])
    halves = stands_for[f"{start}final_layer.adaLN_modulation.1.weight"].chunk(2)
    assert torch.equal(last.exact, torch.cat(halves[::-1]))
    engine = DiffusersEngine()
    loras = (Lora(path=str(saved_lora(tmp_path / "lora.safetensors", 64))),)
    report, _ = generate(engine, path, "bfloat16", steps=2, options={"max_sequence_length": 64}, loras=loras)
    assert report.images[0].state == "clean"
    assert engine.loaded is not None
    added = packed_layers(engine.loaded.modules["transformer"]).values()
    beside = sum(part.nbytes for layer in added for one in layer.added for part in one)
    planned, alone = (
        need(known_networks(facts, extras), Job(Size(32, 32)), lambda _: "bfloat16", "cpu").resident
        for extras in (Extras(loras=loras), Extras())
    )
    assert alone == pytest.approx(weight_bytes(engine.loaded), rel=0.005)
    assert planned - alone == beside > 0
    with pytest.raises(HalftoneError) as caught:
        engine.repair(Repair(job="r", model=str(path), output=str(tmp_path / "copy")), Recorder(), Steady())
    assert caught.value.code == "repair-eight-bits"


def test_factors_that_belong_to_no_row_are_refused(tmp_path: Path) -> None:
    held = {"a.weight": torch.ones(4, 2).to(torch.float8_e4m3fn), "a.scale_weight": torch.ones(2, 1)}
    save_file(held, tmp_path / "blocks.safetensors")
    header = read_header(tmp_path / "blocks.safetensors")
    with pytest.raises(ValueError, match=r"8-bit tensor a\.weight are neither"):
        mapped(tmp_path / "blocks.safetensors", [(tensor.name, tensor) for tensor in header.tensors])


@pytest.mark.parametrize(("shape", "fits"), [((3, 2), True), ((3, 2, 1, 1), True), ((2, 3), False), ((6,), False)])
def test_a_tensor_of_as_many_numbers_in_another_order_does_not_fit(shape: tuple[int, ...], fits: bool) -> None:
    why = misfit(torch.nn.Linear(2, 3, bias=False), {"weight": torch.ones(shape)})
    assert (why and str(why)) == (
        None if fits else f"its tensor weight is {' × '.join(map(str, shape))}, and the model's own is 3 × 2"
    )


def test_a_lora_of_the_model_fits_layers_that_lie_in_one_tensor(saved: Saved, tmp_path: Path) -> None:
    for width, fits in ((64, True), (48, False)):
        path = saved_lora(tmp_path / f"{width}.safetensors", width)
        wanted, model = [Lora(path=str(path))], describe(str(saved("flux")[1]))
        if fits:
            check_lora_fit(wanted, model)
            continue
        with pytest.raises(HalftoneError) as caught:
            check_lora_fit(wanted, model)
        assert caught.value.code == "lora-other-base"
