"""LoRAs in the names of other programs, whose layers diffusers splits: what it would drop is computed, told or refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import HunyuanVideoPipeline, HunyuanVideoTransformer3DModel
from safetensors.torch import save_file
from tests.bench.families import run
from tests.bench.families.table import CASES

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Lora
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.patches.lora import Adapter, left_out, patches_of, read_adapters
from halftone.engine.weights.precision import exact_weights
from halftone.library.models import describe

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made

Tensors = dict[str, torch.Tensor]
RANK, ALPHA, WEIGHT = 4, 2.0, 0.7
FLUX = {
    "double_blocks.0.img_attn.qkv": ("transformer_blocks.0.attn", ("to_q", "to_k", "to_v")),
    "double_blocks.0.txt_attn.qkv": ("transformer_blocks.0.attn", ("add_q_proj", "add_k_proj", "add_v_proj")),
    "double_blocks.0.img_attn.proj": ("transformer_blocks.0.attn", ("to_out.0",)),
    "double_blocks.0.txt_mlp.2": ("transformer_blocks.0", ("ff_context.net.2",)),
}
FLUX2 = {layer: place for layer, place in FLUX.items() if "attn" in layer}
WAN = {
    "blocks.0.self_attn.q": ("blocks.0.attn1", ("to_q",)),
    "blocks.0.cross_attn.o": ("blocks.0.attn2", ("to_out.0",)),
}
FORMS = [
    ("FLUX.1 dev", "lora_unet_", "_", FLUX),
    ("Wan", "diffusion_model.", ".", WAN),
    ("FLUX.2 klein", "lora_unet_", "_", FLUX2),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def pipelines(folder: Path) -> dict[str, Loaded]:
    made: dict[str, Loaded] = {}
    for name in {name for name, *_ in FORMS}:
        case = next(case for case in CASES if case.name == name)
        made[name] = load_pipeline(describe(str(run.save(case, folder / name))), torch.device("cpu"))
    return made


def lora_of(network: Any, prefix: str, sep: str, table: Any, *, dora: str = "", alpha: float = ALPHA) -> tuple[Tensors, Tensors]:
    """(the file, module -> what the whole of it adds). dora: "" or over what its magnitudes go, "rows" or "columns"."""
    torch.manual_seed(1)
    tensors: Tensors = {}
    wanted: Tensors = {}
    down, up = ("lora_down", "lora_up") if sep == "_" else ("lora_A", "lora_B")
    for layer, (owner, names) in table.items():
        modules = [f"{owner}.{name}" for name in names]
        exact = torch.cat([network.get_submodule(module).weight.detach().float() for module in modules])
        first, second = torch.randn(RANK, exact.shape[1]) * 0.1, torch.randn(exact.shape[0], RANK) * 0.1
        key = prefix + layer.replace(".", sep)
        tensors |= {f"{key}.{down}.weight": first, f"{key}.{up}.weight": second, f"{key}.alpha": torch.tensor(alpha)}
        added = second @ first * (alpha / RANK)
        if dora:
            over = 1 if dora == "rows" else 0
            lengths = exact.norm(dim=over, keepdim=True) * (1 + 0.3 * torch.rand(1))
            tensors[f"{key}.dora_scale"] = lengths
            new = exact + added
            added = new * (lengths / new.norm(dim=over, keepdim=True)) - exact
        sizes = [network.get_submodule(module).weight.shape[0] for module in modules]
        wanted |= dict(zip(modules, added.split(sizes), strict=True))
    return tensors, wanted


def read(loaded: Loaded, tensors: Tensors, path: Path) -> Adapter:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    (adapter,) = read_adapters(loaded.pipe, loaded.facts, [Lora(path=str(path), weight=WEIGHT)])
    return adapter


def check_added(loaded: Loaded, adapter: Adapter, wanted: Tensors) -> None:
    exact = exact_weights(loaded.pipe.transformer).but(patches_of([adapter], "transformer"))
    for module, added in wanted.items():
        own = exact[f"{module}.weight"] - loaded.pipe.transformer.get_submodule(module).weight.float()
        assert torch.allclose(own, WEIGHT * added, atol=1e-6), module


@pytest.mark.parametrize("dora", ["", "rows"])
@pytest.mark.parametrize(("name", "prefix", "sep", "table"), FORMS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_added_is_what_the_file_says(
    pipelines: dict[str, Loaded], tmp_path: Path, name: str, prefix: str, sep: str, table: Any, dora: str
) -> None:
    loaded = pipelines[name]
    tensors, wanted = lora_of(loaded.pipe.transformer, prefix, sep, table, dora=dora)
    adapter = read(loaded, tensors, tmp_path / "a.safetensors")
    check_added(loaded, adapter, wanted)
    assert left_out([adapter]) == ()


def test_magnitudes_of_columns_are_computed_where_the_layer_is_whole(pipelines: dict[str, Loaded], tmp_path: Path) -> None:
    loaded = pipelines["FLUX.1 dev"]
    whole = {layer: place for layer, place in FLUX.items() if len(place[1]) == 1}
    tensors, wanted = lora_of(loaded.pipe.transformer, "lora_unet_", "_", whole, dora="columns")
    check_added(loaded, read(loaded, tensors, tmp_path / "a.safetensors"), wanted)


def test_magnitudes_that_go_over_several_layers_are_refused(pipelines: dict[str, Loaded], tmp_path: Path) -> None:
    loaded = pipelines["FLUX.1 dev"]
    tensors, _ = lora_of(loaded.pipe.transformer, "lora_unet_", "_", FLUX, dora="columns")
    with pytest.raises(HalftoneError) as caught:
        read(loaded, tensors, tmp_path / "a.safetensors")
    assert caught.value.code == "lora-unsupported"
    assert "DoRA" in str(caught.value)


def test_t5_is_changed_under_every_name(pipelines: dict[str, Loaded], tmp_path: Path) -> None:
    """diffusers adds no LoRA to it."""
    loaded = pipelines["FLUX.1 dev"]
    layer = "encoder.block.0.layer.0.SelfAttention.q"
    places = [prefix + layer.replace(".", "_") for prefix in ("lora_te2_", "lora_te3_")]
    places += [prefix + layer for prefix in ("text_encoder_2.", "text_encoders.t5xxl.transformer.")]
    exact = exact_weights(loaded.pipe.text_encoder_2)
    for place in places:
        tensors = {f"{place}.lora_down.weight": torch.ones(RANK, 32), f"{place}.lora_up.weight": torch.ones(16, RANK)}
        adapter = read(loaded, tensors, tmp_path / "a.safetensors")
        assert left_out([adapter]) == ()
        added = exact.but(patches_of([adapter], "text_encoder_2"))[f"{layer}.weight"] - exact[f"{layer}.weight"]
        assert torch.allclose(added, torch.full((16, 32), WEIGHT * RANK), atol=1e-6)


def test_a_bias_is_changed_beside_the_magnitudes(pipelines: dict[str, Loaded], tmp_path: Path) -> None:
    loaded = pipelines["FLUX.1 dev"]
    tensors, wanted = lora_of(loaded.pipe.transformer, "lora_unet_", "_", FLUX, dora="rows")
    tensors["lora_unet_double_blocks_0_img_attn_proj.diff_b"] = torch.ones(32)
    adapter = read(loaded, tensors, tmp_path / "a.safetensors")
    check_added(loaded, adapter, wanted)
    changed = exact_weights(loaded.pipe.transformer).but(patches_of([adapter], "transformer"))
    own = loaded.pipe.transformer.get_submodule("transformer_blocks.0.attn.to_out.0").bias
    assert torch.allclose(changed["transformer_blocks.0.attn.to_out.0.bias"], own + WEIGHT)
    assert left_out([adapter]) == ()


def test_a_tensor_that_nobody_knows_is_named(pipelines: dict[str, Loaded], tmp_path: Path) -> None:
    loaded = pipelines["FLUX.1 dev"]
    tensors, wanted = lora_of(loaded.pipe.transformer, "lora_unet_", "_", FLUX, dora="rows")
    more = {**tensors, "lora_unet_double_blocks_0_img_attn_proj.what": torch.ones(32)}
    adapter = read(loaded, more, tmp_path / "a.safetensors")
    check_added(loaded, adapter, wanted)
    said = "1 tensor of the LoRA a holds a change of a kind that this model cannot use and was left out."
    assert list(map(str, left_out([adapter]))) == [said]


HUNYUAN = {
    "double_blocks.0.img_attn_qkv": ("transformer_blocks.0.attn", ("to_q", "to_k", "to_v")),
    "single_blocks.0.linear2": ("single_transformer_blocks.0", ("proj_out",)),
}


@pytest.mark.parametrize("dora", ["", "rows"])
def test_names_that_only_diffusers_knows_are_followed(tmp_path: Path, dora: str) -> None:
    network: Any = HunyuanVideoTransformer3DModel(
        in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=16, num_layers=1, num_single_layers=1,
        num_refiner_layers=1, text_embed_dim=16, pooled_projection_dim=8, rope_axes_dim=(4, 4, 8),
    )  # fmt: skip
    parts: Any = dict.fromkeys(("text_encoder", "tokenizer", "vae", "scheduler", "text_encoder_2", "tokenizer_2"))
    pipe = HunyuanVideoPipeline(transformer=network, **parts)
    tensors, wanted = lora_of(network, "transformer.", ".", HUNYUAN, dora=dora, alpha=RANK)
    plain = {name: value for name, value in tensors.items() if not name.endswith("alpha")}
    file = tmp_path / "a.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in plain.items()}, file)
    model = ModelFacts(
        id="m", name="m", path="m", family="", format="diffusers", stored_dtype="float32", fingerprint="", size_bytes=1
    )
    (adapter,) = read_adapters(pipe, model, [Lora(path=str(file))])
    assert adapter.layers["transformer"].keys() == wanted.keys()
    assert left_out([adapter]) == ()
    for module, change in adapter.layers["transformer"].items():
        held = {"weight": network.get_submodule(module).weight.detach()}
        held |= {"bias": network.get_submodule(module).bias.detach()}
        added = change.merged(held, 1.0)["weight"] - held["weight"]
        assert torch.allclose(added, wanted[module], atol=1e-6), module
