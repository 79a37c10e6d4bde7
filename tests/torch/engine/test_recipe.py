"""What tensors are made of: another plan or another weight of a LoRA writes those that become others, and no more."""

from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.bench.faults.parts import t5
from tests.helpers.engine_runs import faulty_copy, generate
from tests.helpers.loras import make_lora
from tests.helpers.tiny import liven
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from halftone.contract.plan import Plan
from halftone.contract.request import Lora, Numerics
from halftone.contract.vocabulary import OffloadMode
from halftone.engine.loading.load import Loaded, exact_source, load_pipeline
from halftone.engine.loading.plans import apply_plan, base_plan, put_fp8, put_loras
from halftone.engine.rescaling.groups import scanned_peaks
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.offload import Places, stand
from halftone.engine.weights.precision import ComponentState, damaged, exact_weights, invoke, put_stream
from halftone.engine.weights.recipe import Product, Whole, known_of, mixed, rescaled
from halftone.engine.weights.reused import Reused
from halftone.library.files.scan import scan_weights
from halftone.library.models import describe

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
CHANGES: tuple[tuple[tuple[slice, int], ...], ...] = (
    (),
    ((slice(0, None), -9),),
    ((slice(None), 20),),
    ((slice(None), -30),),
    ((slice(100, 300), 5), (slice(200, None), -30)),
)


@pytest.mark.parametrize(("given", "wanted"), list(product(FLOATS, FLOATS)), ids=str)
def test_rows_give_the_same_bits_as_the_whole(given: torch.dtype, wanted: torch.dtype) -> None:
    torch.manual_seed(0)
    exact = torch.randn(700, 500).to(given)
    whole = Whole(torch.randn(700, 500), 0.3)
    merged = exact.float() + whole.numbers * whole.factor
    for changes in CHANGES:
        plain = rescaled(exact.float(), changes).to(wanted)
        assert torch.equal(mixed(exact, (), changes, wanted), plain)
        assert torch.equal(mixed(exact, (whole,), changes, wanted), rescaled(merged, changes).to(wanted))
        for laid_out in (exact.T.contiguous().T, exact.reshape(70, 500, 5, 2).to(memory_format=torch.channels_last)):
            assert torch.equal(mixed(laid_out.reshape(700, 500), (), changes, wanted), plain)
    assert mixed(exact, (), (), given) is exact
    for shape in ((), (0,), (3, 0), (1,), (7,)):
        small = torch.randn(shape).to(given)
        assert torch.equal(mixed(small, (), CHANGES[1], wanted), rescaled(small.float(), CHANGES[1]).to(wanted))


@pytest.mark.parametrize("stored", FLOATS, ids=str)
def test_a_product_is_added_as_exactly_as_float32_can(stored: torch.dtype) -> None:
    """No product is rounded to the LoRA's own type, as peft's is when it merges: only the sum is rounded."""
    torch.manual_seed(0)
    exact = (torch.randn(700, 500) * 0.04).to(stored)
    up, down = (torch.randn(700, 16) * 0.02).to(stored).float(), (torch.randn(16, 500) * 0.2).to(stored).float()
    true = exact.double() + 0.3 * (up.double() @ down.double())
    as_peft = exact.float() + ((up @ down) * 0.3).to(stored).float()
    found = mixed(exact, (Product(up, down, 0.3),), (), torch.float32)
    bound = 18 * 2.0**-24 * (exact.double().abs() + 0.3 * (up.double().abs() @ down.double().abs()))
    assert bool(((found - true).abs() <= bound).all())
    assert stored == torch.float32 or float((found - true).abs().mean()) < float((as_peft - true).abs().mean())
    narrow = mixed(exact, (Product(up, down, 0.3),), (), torch.bfloat16)
    assert torch.equal(narrow, found.bfloat16()), "each type is the same sum, rounded once"
    factors = Product(up.requires_grad_(), down.requires_grad_(), 0.3)
    assert not mixed(exact, (factors,), (), torch.float32).requires_grad, "no graph of it is kept"


@pytest.fixture(scope="module")
def loras(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("loras")
    return {
        "values": make_lora(models["sd15"], folder / "values.safetensors", layers=("to_v",)),
        "outputs": make_lora(models["sd15"], folder / "outputs.safetensors", layers=("to_out.0",), seed=2),
    }


@pytest.fixture
def loaded(models: dict[str, Path]) -> Loaded:
    found = load_pipeline(describe(str(models["sd15"])), torch.device("cpu"))
    apply_plan(found, base_plan(found, "bfloat16", Numerics()))
    return found


def places(module: nn.Module) -> dict[str, torch.Tensor]:
    """The tensors themselves: while they live nothing else can come to where they lie."""
    return {name: parameter.data for name, parameter in module.named_parameters()}


def written(before: dict[str, torch.Tensor], module: nn.Module) -> set[str]:
    return {name for name, tensor in places(module).items() if tensor.data_ptr() != before[name].data_ptr()}


def named(module: nn.Module, *ends: str) -> set[str]:
    return {name for name, _ in module.named_parameters() if name.endswith(ends)}


def test_another_weight_of_a_lora_writes_its_own_layers_alone(loaded: Loaded, loras: dict[str, Path]) -> None:
    unet = loaded.modules["unet"]

    def wanted(values: float, outputs: float) -> set[str]:
        before = places(unet)
        chosen = {"values": values, "outputs": outputs}
        put_loras(loaded, [Lora(path=str(loras[name]), weight=weight) for name, weight in chosen.items() if weight])
        apply_plan(loaded, base_plan(loaded, "bfloat16", Numerics()))
        assert damaged(unet, exact_source(loaded, "unet", anew=True), loaded.states["unet"]) == []
        return written(before, unet)

    file = {name: tensor.clone() for name, tensor in places(unet).items()}
    values, outputs = named(unet, "to_v.weight"), named(unet, "to_out.0.weight")
    assert wanted(1.0, 0.0) == values
    assert wanted(1.0, 0.5) == outputs
    assert wanted(0.5, 0.5) == values
    assert wanted(0.5, 0.5) == set()
    assert wanted(0.0, 0.0) == values | outputs
    assert all(torch.equal(tensor, file[name]) for name, tensor in places(unet).items())


def test_another_plan_writes_what_it_changes(loaded: Loaded) -> None:
    unet = loaded.modules["unet"]
    base = base_plan(loaded, "bfloat16", Numerics())

    def wanted(**changes: Any) -> set[str]:
        before = places(unet)
        apply_plan(loaded, Plan(dtypes=base.dtypes, **changes))
        assert damaged(unet, exact_source(loaded, "unet", anew=True), loaded.states["unet"]) == []
        return written(before, unet)

    inside = {name for name in places(unet) if name.startswith("mid_block.resnets.0.")}
    assert wanted(upcast={"unet": ("mid_block.resnets.0",)}) == inside
    assert wanted(upcast={"unet": ("mid_block.resnets.0", "conv_in")}) == {"conv_in.weight", "conv_in.bias"}
    assert wanted(rescale={"unet": {"conv_out.weight": -2}}) == {*inside, "conv_in.weight", "conv_in.bias", "conv_out.weight"}
    assert wanted() == {"conv_out.weight"}


def test_weights_in_eight_bits_come_and_go_with_a_lora_in_them(loaded: Loaded, loras: dict[str, Path]) -> None:
    unet = loaded.modules["unet"]
    file = {name: tensor.clone() for name, tensor in places(unet).items()}
    put_loras(loaded, [Lora(path=str(loras["values"]))])
    for eight in (True, False):
        put_fp8(loaded, wanted=eight)
        apply_plan(loaded, base_plan(loaded, "bfloat16", Numerics()))
        assert damaged(unet, exact_source(loaded, "unet", anew=True), loaded.states["unet"]) == []
        same = {name for name, tensor in places(unet).items() if torch.equal(tensor, file[name])}
        assert same == ({name for name in file if name not in named(unet, "to_v.weight")} if not eight else same)
        assert ("mid_block.resnets.0.conv1.weight" in same) is not eight


def test_what_is_read_of_files_is_mapped_and_stays_at_hand(loaded: Loaded) -> None:
    for name, module in loaded.modules.items():
        base = known_of(module).base
        assert base is not None, name
        assert exact_source(loaded, name).plain is base.plain


def test_an_overflow_is_recovered_and_the_network_is_never_whole_in_float32(models: dict[str, Path], tmp_path: Path) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "unet", "stream of unet", 17)
    engine = DiffusersEngine()
    generate(engine, model, "float16", steps=1, on_black="stop")
    assert engine.loaded is not None
    unet = engine.loaded.modules["unet"]
    most = 0

    def count(_module: nn.Module, _args: Any) -> None:
        nonlocal most
        most = max(most, sum(one.numel() for one in unet.parameters() if one.dtype == torch.float32))

    handle = register_module_forward_pre_hook(count)
    try:
        made, _ = generate(engine, model, "float16")
    finally:
        handle.remove()
    assert made.images[0].state == "recovered"
    assert made.plan.upcast_parameters == 0
    assert 0 < most < 0.4 * sum(one.numel() for one in unet.parameters())


@pytest.mark.parametrize("mode", ["none", "sequential"])
@pytest.mark.parametrize("multilingual", [False, True])
@torch.no_grad()
def test_a_stream_computes_what_the_whole_does_where_a_layer_is_asked_for_its_type(multilingual: bool, mode: OffloadMode) -> None:
    """A feed-forward of T5 casts its states to the type of its last layer before that runs."""
    torch.manual_seed(0)
    module = t5(multilingual=multilingual).eval()
    liven(module)
    module.bfloat16()
    whole = deepcopy(module).float()
    tokens = torch.arange(12)[None]
    stand("text_encoder", module, Places(torch.device("cpu"), apart=False, mode=mode))
    put_stream(module, exact_weights(module), ComponentState(dtype="float32"))
    assert torch.equal(invoke(module, module.forward, "float32", (tokens,), {})[0], whole(tokens)[0])


def test_the_scan_of_the_files_tells_peaks_of_what_nothing_changes(loaded: Loaded, loras: dict[str, Path]) -> None:
    put_loras(loaded, [Lora(path=str(loras["values"]))])
    masters = {"unet": exact_source(loaded, "unet")}
    found = scanned_peaks(scan_weights(loaded.facts, lambda: False, lambda _done, _total: None), masters)["unet"]
    unet = loaded.modules["unet"]
    assert found.keys() == {name for name, _ in unet.named_parameters()} - named(unet, "to_v.weight")
    for name, own in found.items():
        assert own == float(masters["unet"][name].abs().max()), name


def test_memory_is_used_again_only_once_nothing_uses_it() -> None:
    memory, shape = Reused(), torch.Size((1100, 1000))
    first = memory.empty(shape, torch.float32).fill_(1.0)
    at, view = first.data_ptr(), first[:2]
    del first
    second = memory.empty(shape, torch.float32).fill_(2.0)
    assert second.data_ptr() != at
    assert bool((view == 1.0).all()), "a part of it is still in use"
    del view
    assert memory.empty(shape, torch.float32).data_ptr() == at
    wide = memory.empty(torch.Size((3000, 1000)), torch.float32)
    assert wide.shape == (3000, 1000)
    assert bool((second == 2.0).all())
