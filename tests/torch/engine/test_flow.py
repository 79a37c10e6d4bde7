"""Groups found by experiment, in networks of shapes that nothing in Halftone knows."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import nn
from transformers import T5Config, T5EncoderModel

from halftone.contract.facts import LayerPeak
from halftone.contract.vocabulary import DType
from halftone.engine.basics.runs import BudgetSpentError, Runs
from halftone.engine.basics.tensors import DTYPES
from halftone.engine.rescaling.flow import Flow
from halftone.engine.rescaling.flow_groups import flow_groups
from halftone.engine.rescaling.groups import groups_of, tensor_peaks
from halftone.engine.weights.precision import ComponentState, damaged, exact_weights, realise
from halftone.health.planning.rescaling import RescaleGroup, exponents

WIDTH = 16


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.scale_q, self.scale_k = nn.RMSNorm(WIDTH // 2), nn.RMSNorm(WIDTH // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).unflatten(-1, (2, -1)).transpose(1, 2) for part in (self.wq, self.wk, self.wv))
        mixed = F.scaled_dot_product_attention(self.scale_q(q), self.scale_k(k), v)
        return self.wo(mixed.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    """The gate and the value in one projection, cut by the module's own code."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.both(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * value)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_mix, self.mix = nn.LayerNorm(WIDTH), Attention()
        self.before_gate, self.gate = nn.RMSNorm(WIDTH), Gated()
        self.strength = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        x = x + self.mix(self.before_mix(x)) * self.strength(condition)[:, None]
        return x + self.gate(self.before_gate(x))


class Network(nn.Module):
    """A transformer with a table of positions, blocks that a condition modulates, and a norm before the end."""

    places: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(4, WIDTH)
        self.register_buffer("places", torch.randn(1, 6, WIDTH))
        self.deep = nn.ModuleList(Block() for _ in range(3))
        self.last = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.leave = nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        x = self.enter(x) + self.places
        for block in self.deep:
            x = block(x, condition)
        return self.leave(self.last(x))


class Plain(nn.Module):
    """What stands before a function that is not linear cannot be scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        del condition
        return self.second(F.gelu(self.first(x)))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(2, 6, 4, generator=generator), torch.randn(2, WIDTH, generator=generator)


def free(most: int = 64) -> Runs:
    return Runs(most, lambda: None)


def search(module: nn.Module, *sick: str) -> tuple[RescaleGroup, ...]:
    return flow_groups("transformer", Flow(module, lambda: module(*inputs()), free()), sick)


@pytest.fixture
def network() -> Network:
    torch.manual_seed(1)
    return Network().eval()


def results_under(module: nn.Module, group: RescaleGroup, k: int) -> tuple[torch.Tensor, dict[str, float]]:
    """The network's result with a group shrunk by 2**k, through the code that applies plans, and the peak of each module."""
    masters = {name: tensor.clone() for name, tensor in exact_weights(module).items()}
    peaks: dict[str, float] = {}

    def take(name: str, output: Any) -> None:
        peaks[name] = float(output.abs().max())

    handles = [
        own.register_forward_hook(lambda _m, _a, output, name=name: take(name, output)) for name, own in module.named_modules()
    ]
    state = ComponentState(dtype="float32", rescale=exponents([group], [k]).get("transformer", {}))
    realise(module, masters, state)
    with torch.no_grad():
        result = module(*inputs())
    realise(module, masters, ComponentState(dtype="float32"))
    for handle in handles:
        handle.remove()
    return result, peaks


SITES: dict[str, tuple[set[str], set[str]]] = {
    "deep.1.mix.wv": ({"deep.1.mix.wv.weight", "deep.1.mix.wv.bias"}, {"deep.1.mix.wo.weight"}),
    "deep.0.mix.wq": ({"deep.0.mix.wq.weight", "deep.0.mix.wq.bias"}, set()),
    "deep.2.gate.both": ({"deep.2.gate.both.weight[32:64]"}, {"deep.2.gate.down.weight"}),
    "deep.2.gate.(inside)": ({"deep.2.gate.both.weight[32:64]"}, {"deep.2.gate.down.weight"}),
    "deep.1.before_gate": ({"deep.1.before_gate.weight"}, {"deep.1.gate.both.weight"}),
}
STREAM = ["deep.1", "deep.0.mix.wo", "enter", "deep.2.gate.down"]


@pytest.mark.parametrize("site", SITES)
def test_a_layer_and_what_undoes_it(network: Network, site: str) -> None:
    (group,) = search(network, site)
    assert (set(group.shrink), set(group.grow)) == SITES[site]
    assert site in group.modules


@pytest.mark.parametrize("site", STREAM)
def test_a_residual_stream_is_all_that_writes_into_it(network: Network, site: str) -> None:
    (group,) = search(network, site)
    writers = {"enter", *(f"deep.{block}.{part}" for block in range(3) for part in ("mix.wo", "gate.down"))}
    assert set(group.shrink) == {f"{name}.{kind}" for name in writers for kind in ("weight", "bias")} | {"places"}
    assert not group.grow
    assert {"enter", "deep.0", "deep.1", "deep.2"} <= set(group.modules)
    assert not {"last", "leave", "deep.0.before_mix", "deep.1.mix.wv"} & set(group.modules)


@pytest.mark.parametrize("site", [*SITES, *STREAM])
def test_the_network_computes_the_same_and_the_named_modules_shrink(network: Network, site: str) -> None:
    (group,) = search(network, site)
    before, plain = results_under(network, group, 0)
    after, peaks = results_under(network, group, 5)
    torch.testing.assert_close(after, before, rtol=2e-2, atol=2e-3)  # the epsilon of a norm sees smaller numbers
    for name in group.modules:
        if name in plain and not name.endswith(".both"):  # of a fused projection one half shrinks
            assert peaks[name] == pytest.approx(plain[name] / 32, rel=1e-2), name
    assert tensor_peaks(exact_weights(network), [group]).keys() == {*group.shrink, *group.grow}


def test_nothing_is_found_before_a_function_that_is_not_linear() -> None:
    torch.manual_seed(1)
    assert search(Plain().eval(), "first", "(inside)") == ()


def test_a_search_leaves_every_bit_as_it_was(network: Network) -> None:
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    search(network, *SITES, "deep.1", "leave")
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


def test_a_search_ends_when_it_is_told_to(network: Network) -> None:
    class StoppedError(Exception):
        pass

    def stop() -> None:
        raise StoppedError

    flow = Flow(network, lambda: network(*inputs()), Runs(9, stop))
    with pytest.raises(StoppedError):
        flow_groups("transformer", flow, ["deep.1"])


def test_a_search_makes_no_more_runs_than_it_may(network: Network) -> None:
    """The simple group takes two of them, and the stream would take more than are left: what was found is offered."""
    runs: list[int] = []
    flow = Flow(network, lambda: network(*inputs()), Runs(5, lambda: runs.append(1)))
    (found,) = flow_groups("transformer", flow, ["deep.1.mix.wv", "deep.1"])
    assert "deep.1.mix.wv.weight" in found.shrink
    assert len(runs) == 5
    with pytest.raises(BudgetSpentError):
        flow.deviation(found, 1)


class Shared(nn.Module):
    """One layer reads a value that can be scaled, and another one that cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.other, self.out = nn.Linear(4, WIDTH), nn.Linear(4, WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        del condition
        return self.out(self.value(x)) + self.out(F.gelu(self.other(x)))


def test_a_reader_of_something_else_cannot_be_scaled_back() -> None:
    torch.manual_seed(1)
    assert search(Shared().eval(), "value") == ()


class Faint(nn.Module):
    """A stream of large numbers, and a layer that adds next to nothing to it."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.whisper, self.out = nn.Linear(4, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        with torch.no_grad():
            self.enter.weight.mul_(3e4)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        del condition
        x = self.enter(x)
        return self.out(self.last(x + self.whisper(self.norm(x))))


def test_a_group_that_leaves_out_a_faint_writer_is_not_proven() -> None:
    torch.manual_seed(1)
    module = Faint().eval()
    flow = Flow(module, lambda: module(*inputs()), free())
    whole = RescaleGroup(
        "transformer", "", ("enter.weight", "enter.bias", "whisper.weight", "whisper.bias"), (), ("enter",), wide=True
    )
    part = RescaleGroup("transformer", "", ("enter.weight", "enter.bias"), (), ("enter",), wide=True)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    assert flow.deviation(whole, 8) == 0.0
    assert flow.deviation(part, 12) is None
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_tied_weights_have_the_name_that_a_plan_knows() -> None:
    torch.manual_seed(1)
    config = T5Config(
        d_model=WIDTH, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=40, feed_forward_proj="gated-gelu", dropout_rate=0.0
    )
    module = T5EncoderModel(config).eval()
    with torch.no_grad():
        module.shared.weight.mul_(100)
    tokens = torch.arange(12)[None]
    flow = Flow(module, lambda: module(tokens), free())
    (group,) = flow_groups("text_encoder", flow, ["encoder.block.0"])
    assert "shared.weight" in group.shrink
    assert {*group.shrink, *group.grow} <= exact_weights(module).keys()
    assert flow.deviation(group, 4) is not None


@pytest.mark.logs("the search for groups of transformer failed")
def test_a_failing_search_costs_nothing_but_its_groups(network: Network) -> None:
    def broken(_site: str) -> Flow:
        raise KeyError("encoder.embed_tokens.weight")

    layers = [LayerPeak(component="transformer", module="deep.1", kind="Block", peak=1e6)]
    assert groups_of("transformer", network, layers, [], "float16", exact_weights(network), broken) == ()


@pytest.mark.parametrize(("stored", "asked"), [("float16", "float16"), ("float32", "float16"), ("float32", "float32")])
def test_a_rescaled_table_comes_back(network: Network, stored: DType, asked: DType) -> None:
    """With the network's own tensors as the exact ones, as a check has them."""
    network.to(DTYPES[stored])
    masters = exact_weights(network)
    before = {name: tensor.clone() for name, tensor in masters.items()}
    plain = ComponentState(dtype=asked)
    cured = ComponentState(dtype=asked, rescale={"places": -5, "enter.weight": -5})
    realise(network, masters, plain)
    for _ in range(2):
        realise(network, masters, cured, plain)
        assert torch.equal(network.places.float(), (before["places"].float() / 32).to(DTYPES[asked]).float())
        assert damaged(network, masters, cured) == []
        assert set(damaged(network, masters, plain)) == {"places", "enter.weight"}
        realise(network, masters, plain, cured)
        assert torch.equal(network.places, before["places"].to(DTYPES[asked]))
        assert all(torch.equal(tensor, before[name]) for name, tensor in masters.items())
