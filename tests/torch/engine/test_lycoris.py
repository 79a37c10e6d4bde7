"""LyCORIS files: what each kind adds to a layer, against its formula in double precision, computed here."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.tiny import load_tiny

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Lora
from halftone.engine.loading.load import exact_source
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.precision import damaged
from halftone.library.families.original_names import original_unet_names, unet_names

Tensors = dict[str, torch.Tensor]
RANK, ALPHA = 3, 1.5
LINEAR = "down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k"
CONV = "down_blocks.0.resnets.0.conv2"
POINT = "down_blocks.0.attentions.0.proj_in"
NORM = "down_blocks.0.resnets.0.norm1"
ORIGINAL = {
    LINEAR: "input_blocks.1.1.transformer_blocks.0.attn2.to_k",
    CONV: "input_blocks.1.0.out_layers.3",
    POINT: "input_blocks.1.1.proj_in",
    NORM: "input_blocks.1.0.in_layers.0",
}
TEXT = "encoder.layers.1.self_attn.q_proj"

pytestmark = pytest.mark.usefixtures("made_on_the_device")


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape) * 0.3


def lora(shape: torch.Size) -> Tensors:
    return {
        "lora_down.weight": numbers(RANK, *shape[1:]),
        "lora_up.weight": numbers(shape[0], RANK, *[1] * (len(shape) - 2)),
        "alpha": torch.tensor(ALPHA),
    }


def tucker(shape: torch.Size) -> Tensors:
    return {
        "lora_down.weight": numbers(RANK, shape[1], 1, 1),
        "lora_mid.weight": numbers(RANK, RANK, *shape[2:]),
        "lora_up.weight": numbers(shape[0], RANK, 1, 1),
        "alpha": torch.tensor(ALPHA),
    }


def loha(shape: torch.Size) -> Tensors:
    inward = int(torch.tensor(shape[1:]).prod())
    sides = {"a": (shape[0], RANK), "b": (RANK, inward)}
    return {f"hada_w{i}_{end}": numbers(*size) for i in (1, 2) for end, size in sides.items()} | {"alpha": torch.tensor(ALPHA)}


def loha_tucker(shape: torch.Size) -> Tensors:
    sides = {f"w{i}_{end}": (RANK, size) for i in (1, 2) for end, size in (("a", shape[0]), ("b", shape[1]))}
    cores = {f"t{i}": (RANK, RANK, *shape[2:]) for i in (1, 2)}
    return {f"hada_{name}": numbers(*size) for name, size in (sides | cores).items()} | {"alpha": torch.tensor(ALPHA)}


def lokr(shape: torch.Size) -> Tensors:
    inner = int(torch.tensor(shape[2:]).prod()) if len(shape) > 2 else 1
    return {
        "lokr_w1": numbers(2, 4),
        "lokr_w2_a": numbers(shape[0] // 2, RANK),
        "lokr_w2_b": numbers(RANK, shape[1] // 4 * inner),
        "alpha": torch.tensor(ALPHA),
    }


def lokr_whole(shape: torch.Size) -> Tensors:
    """alpha says nothing where no factor has a rank."""
    return {
        "lokr_w1": numbers(2, 4),
        "lokr_w2": numbers(shape[0] // 2, shape[1] // 4, *shape[2:]),
        "alpha": torch.tensor(ALPHA),
    }


def lokr_tucker(shape: torch.Size) -> Tensors:
    return {
        "lokr_w1_a": numbers(2, RANK),
        "lokr_w1_b": numbers(RANK, 4),
        "lokr_t2": numbers(RANK, RANK, *shape[2:]),
        "lokr_w2_a": numbers(RANK, shape[0] // 2),
        "lokr_w2_b": numbers(RANK, shape[1] // 4),
        "alpha": torch.tensor(ALPHA),
    }


def diff(shape: torch.Size) -> Tensors:
    return {"diff": numbers(*shape), "diff_b": numbers(shape[0])}


def ia3(shape: torch.Size) -> Tensors:
    return {"weight": numbers(shape[1]), "on_input": torch.tensor(True)}


def ia3_output(shape: torch.Size) -> Tensors:
    return {"weight": numbers(shape[0]), "on_input": torch.tensor(False)}


def norm(shape: torch.Size) -> Tensors:
    return {"w_norm": numbers(*shape), "b_norm": numbers(*shape)}


def dora(shape: torch.Size) -> Tensors:
    return lora(shape) | {"dora_scale": numbers(shape[0], *[1] * (len(shape) - 1)).abs() + 0.5}


def dora_of_inputs(shape: torch.Size) -> Tensors:
    return loha(shape) | {"dora_scale": numbers(1, shape[1], *[1] * (len(shape) - 2)).abs() + 0.5}


def delta(exact: torch.Tensor, given: Tensors) -> torch.Tensor:
    """What the whole file adds to a weight, from the formulas of the papers; all in float64."""
    own = {name.removesuffix(".weight"): value.double() for name, value in given.items()}
    scale = ALPHA / RANK
    if "dora_scale" in own:  # arXiv 2402.09353
        changed = exact + delta(exact, {name: value for name, value in given.items() if name != "dora_scale"})
        rows = changed.reshape(changed.shape[0], -1) if own["dora_scale"].shape[0] > 1 else changed.transpose(0, 1).flatten(1)
        length = torch.stack([row.square().sum().sqrt() for row in rows]).reshape(own["dora_scale"].shape)
        return own["dora_scale"] * changed / length - exact
    if "lora_mid" in own:
        up, mid, down = own["lora_up"][:, :, 0, 0], own["lora_mid"], own["lora_down"][:, :, 0, 0]
        return scale * torch.stack([up @ mid[:, :, x, y] @ down for x in range(3) for y in range(3)], -1).reshape(exact.shape)
    if "lora_up" in own:
        return scale * (own["lora_up"].flatten(1) @ own["lora_down"].flatten(1)).reshape(exact.shape)
    if "hada_t1" in own:  # arXiv 2108.06098, proposition 3
        parts = [
            torch.stack(
                [own[f"hada_w{i}_a"].T @ own[f"hada_t{i}"][:, :, x, y] @ own[f"hada_w{i}_b"] for x in range(3) for y in range(3)],
                -1,
            )
            for i in (1, 2)
        ]
        return scale * (parts[0] * parts[1]).reshape(exact.shape)
    if "hada_w1_a" in own:  # arXiv 2108.06098, proposition 1
        first, second = (own[f"hada_w{i}_a"] @ own[f"hada_w{i}_b"] for i in (1, 2))
        return scale * (first * second).reshape(exact.shape)
    if any(name.startswith("lokr") for name in own):
        return kronecker(own, exact)
    if "on_input" in own:  # arXiv 2205.05638
        return exact * (own["weight"][None, :] if bool(own["on_input"]) else own["weight"][:, None])
    return own["w_norm"] if "w_norm" in own else own["diff"]


def kronecker(own: Tensors, exact: torch.Tensor) -> torch.Tensor:
    """arXiv 2309.14859, section 3: block (i, j) is w1[i, j] times w2."""
    first = own["lokr_w1"] if "lokr_w1" in own else own["lokr_w1_a"] @ own["lokr_w1_b"]
    if "lokr_t2" in own:
        a, core, b = own["lokr_w2_a"], own["lokr_t2"], own["lokr_w2_b"]
        second = torch.stack([a.T @ core[:, :, x, y] @ b for x in range(3) for y in range(3)], -1)
    else:
        second = own["lokr_w2"] if "lokr_w2" in own else own["lokr_w2_a"] @ own["lokr_w2_b"]
    second = second.reshape(exact.shape[0] // 2, exact.shape[1] // 4, *exact.shape[2:])
    scale = 1.0 if "lokr_w2" in own else ALPHA / RANK
    rows = [torch.cat([scale * first[i, j] * second for j in range(4)], dim=1) for i in range(2)]
    return torch.cat(rows, dim=0)


CASES: dict[str, tuple[Callable[[torch.Size], Tensors], str]] = {
    "LoRA": (lora, LINEAR),
    "LoCon": (lora, CONV),
    "LoCon, Tucker": (tucker, CONV),
    "LoRA of a convolution of one pixel": (lora, POINT),
    "LoHa": (loha, LINEAR),
    "LoHa of a convolution": (loha, CONV),
    "LoHa, Tucker": (loha_tucker, CONV),
    "LoKr": (lokr, LINEAR),
    "LoKr of a convolution": (lokr, CONV),
    "LoKr, whole": (lokr_whole, LINEAR),
    "LoKr, whole, of a convolution": (lokr_whole, CONV),
    "LoKr, Tucker": (lokr_tucker, CONV),
    "difference": (diff, LINEAR),
    "difference of a convolution": (diff, CONV),
    "IA3": (ia3, LINEAR),
    "IA3 of the output": (ia3_output, LINEAR),
    "norm": (norm, NORM),
    "DoRA": (dora, LINEAR),
    "DoRA of a convolution": (dora, CONV),
    "DoRA of the inputs, LoHa": (dora_of_inputs, LINEAR),
    "DoRA of the inputs, LoHa of a convolution": (dora_of_inputs, CONV),
}


WAYS = [
    (case, names)
    for case in CASES
    for names in ("kohya", "original", "peft")
    if names != "peft" or CASES[case][0] is not dora_of_inputs
]
"""peft's magnitudes are over the outputs."""


@pytest.fixture(scope="module")
def unet(models: dict[str, Path]) -> Any:
    """As its file has it; for looking at only."""
    return load_tiny(models["sd15"]).unet


@pytest.mark.parametrize(("case", "names"), WAYS)
def test_what_is_added_is_what_the_formula_says(
    engine: DiffusersEngine, models: dict[str, Path], unet: Any, tmp_path: Path, case: str, names: str
) -> None:
    make, layer = CASES[case]
    torch.manual_seed(len(case))
    plain = unet.get_submodule(layer)
    given = make(plain.weight.shape)
    prefix = {
        "kohya": "lora_unet_" + layer.replace(".", "_"),
        "original": "lora_unet_" + ORIGINAL[layer].replace(".", "_"),
        "peft": f"unet.{layer}",
    }[names]
    spelled = {"lora_down": "lora_A", "lora_up": "lora_B", "dora_scale": "lora_magnitude_vector"} if names == "peft" else {}
    tensors = {f"{prefix}.{respelled(name, spelled)}": value.contiguous() for name, value in given.items()}
    save_file(tensors, tmp_path / "mine.safetensors")
    report, _ = generate(engine, models["sd15"], loras=(Lora(path=str(tmp_path / "mine.safetensors"), weight=0.7),), steps=1)
    assert engine.loaded is not None
    ours = engine.loaded.modules["unet"].get_submodule(layer)
    wanted = plain.weight.data.double() + 0.7 * delta(plain.weight.data.double(), given)
    torch.testing.assert_close(ours.weight.data.double(), wanted, rtol=2e-6, atol=2e-7)
    own = next((given[name] for name in ("diff_b", "b_norm") if name in given), None)
    if own is not None and plain.bias is not None:
        torch.testing.assert_close(ours.bias.data, plain.bias.data + 0.7 * own)
    lost = own is not None and plain.bias is None
    assert [reason for reason in map(str, report.plan.reasons) if "left out" in reason] == (
        ["1 tensor of the LoRA mine holds a change of a kind that this model cannot use and was left out."] if lost else []
    )


def respelled(name: str, spelled: dict[str, str]) -> str:
    first, _, rest = name.partition(".")
    return ".".join(filter(None, (spelled.get(first, first), rest)))


def test_one_in_the_form_of_peft_takes_alpha_and_rank_from_the_file_beside_it(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    plain = load_tiny(models["sd15"]).unet.get_submodule(LINEAR).weight.data
    given = loha(plain.shape)
    del given["alpha"]
    save_file(
        {f"base_model.model.{LINEAR}.{name}": value for name, value in given.items()}, tmp_path / "adapter_model.safetensors"
    )
    config = {"r": 8, "alpha": 4, "rank_pattern": {"attn2.to_k": 3}, "alpha_pattern": {}}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    generate(engine, models["sd15"], loras=(Lora(path=str(tmp_path / "adapter_model.safetensors")),))
    assert engine.loaded is not None
    ours = engine.loaded.modules["unet"].get_submodule(LINEAR).weight.data
    added = delta(plain.double(), given) * (4 / 3) / (ALPHA / RANK)
    torch.testing.assert_close(ours.double(), plain.double() + added, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize(
    ("family", "place"), [("sdxl", "lora_te2_text_model_"), ("sd15", "lora_te_text_model_"), ("sdxl", "te2.")]
)
def test_text_encoders_are_changed_too(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, family: str, place: str
) -> None:
    torch.manual_seed(0)
    name = "text_encoder_2" if family == "sdxl" else "text_encoder"
    plain = {key: value.data for key, value in getattr(load_tiny(models[family]), name).named_parameters()}
    key = next(key for key in plain if key.endswith(f"{TEXT}.weight"))
    given = loha(plain[key].shape)
    prefix = place + TEXT.replace(".", "_") if place.endswith("_") else f"text_encoder_2.text_model.{TEXT}"
    save_file({f"{prefix}.{factor}": value for factor, value in given.items()}, tmp_path / "mine.safetensors")
    generate(engine, models[family], family=family, loras=(Lora(path=str(tmp_path / "mine.safetensors")),))
    assert engine.loaded is not None
    ours = dict(engine.loaded.modules[name].named_parameters())
    wanted = plain[key].double() + delta(plain[key].double(), given)
    torch.testing.assert_close(ours[key].data.double(), wanted, rtol=2e-6, atol=2e-7)
    assert all(torch.equal(value.data, plain[other]) for other, value in ours.items() if other != key)


def test_the_names_of_a_unet_lead_to_the_original_and_back(models: dict[str, Path]) -> None:
    for family in ("sd15", "sdxl"):
        unet = load_tiny(models[family]).unet
        names = [name for name, _ in unet.named_parameters()]
        modules = {name.rpartition(".")[0] for name in names}
        original = original_unet_names(modules, unet.config.layers_per_block)
        assert set(original.values()) == modules
        ends = {
            f"{theirs}.{name.rpartition('.')[2]}": name
            for theirs, ours in original.items()
            for name in names
            if name.startswith(f"{ours}.")
        }
        assert {theirs: ours for theirs, ours in unet_names(ends).items() if ours != ends[theirs]} == {}


def lycoris_file(models: dict[str, Path], path: Path, seed: int) -> Path:
    """One of every kind, in one file."""
    torch.manual_seed(seed)
    unet = load_tiny(models["sd15"]).unet
    made = {LINEAR: lokr, CONV: loha, POINT: dora, NORM: norm}
    tensors = {
        f"lora_unet_{layer.replace('.', '_')}.{name}": value
        for layer, make in made.items()
        for name, value in make(unet.get_submodule(layer).weight.shape).items()
    }
    save_file(tensors, path)
    return path


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_several_come_and_go_and_leave_nothing(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, precision: Any
) -> None:
    files = [lycoris_file(models, tmp_path / f"{seed}.safetensors", seed) for seed in (1, 2)]
    both = tuple(Lora(path=str(file), weight=weight) for file, weight in zip(files, (0.4, -0.3), strict=True))
    plain, _ = generate(engine, models["sd15"], precision)
    first, _ = generate(engine, models["sd15"], precision, loras=both)
    loaded = engine.loaded
    assert loaded is not None
    masters = exact_source(loaded, "unet")
    assert damaged(loaded.modules["unet"], masters, loaded.states["unet"]) == []
    generate(engine, models["sd15"], precision, loras=both[1:])
    again, _ = generate(engine, models["sd15"], precision, loras=both)
    without, _ = generate(engine, models["sd15"], precision)
    assert (pixels(first) == pixels(again)).all()
    assert (pixels(plain) == pixels(without)).all()
    assert not (pixels(plain) == pixels(first)).all()


def test_layers_of_another_size_and_layers_without_a_place(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "mine.safetensors"
    place = "lora_unet_" + LINEAR.replace(".", "_")
    torch.manual_seed(0)
    for given in (loha(torch.Size((8, 12))), loha(torch.Size((16, 8)))):
        save_file({f"{place}.{name}": value for name, value in given.items()}, file)
        with pytest.raises(HalftoneError) as caught:
            generate(engine, models["sd15"], loras=(Lora(path=str(file)),))
        assert caught.value.code == "lora-other-base"
        assert caught.value.facts["family"] == models["sd15"].name, "it is for this family already"
    shape = load_tiny(models["sd15"]).unet.get_submodule(LINEAR).weight.shape
    tensors = {f"{place}{end}.{name}": value for end in ("", "_x") for name, value in loha(shape).items()}
    save_file(tensors, file)
    report, _ = generate(engine, models["sd15"], loras=(Lora(path=str(file)),))
    said = "1 of 2 layers of the LoRA mine do not fit this model and were left out."
    assert said in map(str, report.plan.reasons)
