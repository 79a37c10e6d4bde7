"""The fewest layers in float32, found by running, in networks of shapes that nothing in Halftone knows."""

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import nn

from halftone.contract.errors import JobCancelled
from halftone.contract.plan import RESULT, handed_on, result_of
from halftone.contract.vocabulary import FLOAT_LIMITS
from halftone.engine.basics.runs import Runs
from halftone.engine.basics.tensors import relative_error
from halftone.engine.curing.layers import MOST_RUNS, Fewest, Growth
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.precision import ComponentState, damaged, exact_weights, realise

WIDTH = 16


class Block(nn.Module):
    """Reads a condition, and adds attention and a gated product to a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Linear(WIDTH, WIDTH)
        self.norm, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.value, self.down = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        read = self.norm(x) + self.shift(F.silu(condition))[:, None]
        x = x + self.out(F.scaled_dot_product_attention(self.q(read), self.k(read), self.v(read)))
        read = self.second(x)
        return x + self.down(F.silu(self.gate(read)) * self.value(read))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, WIDTH)
        self.time = nn.Sequential(nn.Linear(1, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)
        self.last = nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        condition = self.time(timestep[:, None].to(x.dtype) / 1000)
        x = self.first(x)
        for block in self.blocks:
            x = block(x, condition)
        return self.last(self.norm(x))


def _network() -> Network:
    torch.manual_seed(5)
    return Network().requires_grad_(False)


def _scale(network: nn.Module, name: str, k: int) -> None:
    network.get_parameter(name).mul_(2.0**k)


def _grown(network: nn.Module, **found: Any) -> tuple[tuple[str, ...] | None, float]:
    """The layers, and the relative error of the network with them in float32 (infinite where it is not finite)."""
    exact = {name: tensor.clone() for name, tensor in exact_weights(network).items()}
    call = Call("net", "forward", (torch.randn(2, 5, 4),), {"timestep": torch.tensor([700.0, 20.0])})
    reference = run_call(call, network, "float32")
    rescale = found.get("rescale", {})
    realise(network, exact, ComponentState(dtype="float16", rescale=rescale))
    bare = run_call(call, network, "float16")
    assert not bool(bare.isfinite().all()), "the fault shows"
    growth = Growth(network, exact, "float16", rescale, Runs(MOST_RUNS, found.get("begins", lambda: None)))
    fewest = growth.layers([lambda: run_call(call, network, "float16")])
    sets = [] if fewest is None else list(fewest.sets(()))
    layers = sets[min(found.get("try_", 0), len(sets) - 1)] if sets else None
    state = ComponentState(dtype="float16", rescale=rescale, upcast=layers or ())
    realise(network, exact, state)
    assert damaged(network, exact, state) == []
    result = run_call(call, network, "float16")
    assert result.dtype == torch.float32, "as it was called"
    return layers, relative_error(result, reference)


def test_what_every_block_reads_takes_one_small_layer_of_each() -> None:
    network = _network()
    _scale(network, "time.0.weight", 6)
    _scale(network, "time.2.weight", 14)
    layers, error = _grown(network)
    assert layers is not None
    own = {name: k for name, k in map(handed_on, layers) if name == "time.2" or name.endswith(".shift")}
    assert list(own) == ["time.2", *(f"blocks.{index}.shift" for index in range(3))]
    assert all(own.values()), "a scaled input is enough"
    assert "time.0" not in _modules(layers)
    assert error < 0.01


def test_a_stream_stays_wide_with_the_layer_that_writes_it() -> None:
    network = _network()
    _scale(network, "first.weight", 20)
    layers, error = _grown(network)
    assert layers is not None
    assert handed_on(layers[0])[0] == "first"
    read = {"blocks.0.q", "blocks.0.out", "blocks.1.q", "last"}
    assert not read & set(_modules(layers)), "what reads it through a norm stays narrow"
    assert error < 0.01


def test_a_product_that_no_layer_makes_takes_one_of_its_writers_and_its_reader() -> None:
    network = _network()
    for name in ("gate", "value"):
        _scale(network, f"blocks.1.{name}.weight", 10)
    _scale(network, "blocks.1.down.weight", -20)
    layers, error = _grown(network)
    assert layers is not None
    assert len(layers) == 2
    assert "blocks.1.down" in _modules(layers)
    assert {f"blocks.1.{name}{RESULT}" for name in ("gate", "value")} & set(layers), "what a writer makes is enough"
    assert error < 0.01


@pytest.mark.parametrize("try_", [0, 1])
def test_a_layer_whose_result_is_too_large_computes_with_a_scaled_input_or_in_float32(try_: int) -> None:
    network = _network()
    _scale(network, "blocks.1.value.weight", 17)
    _scale(network, "blocks.1.down.weight", -10)
    layers, error = _grown(network, try_=try_)
    assert layers is not None
    assert _modules(layers) == ["blocks.1.value", "blocks.1.down"]
    assert [k is None for _, k in map(handed_on, layers)] == [bool(try_)] * 2
    assert error < 0.01


def _fewest(network: nn.Module) -> Fewest:
    exact = {name: tensor.clone() for name, tensor in exact_weights(network).items()}
    call = Call("net", "forward", (torch.randn(2, 5, 4),), {"timestep": torch.tensor([700.0, 20.0])})
    realise(network, exact, ComponentState(dtype="float16"))
    fewest = Growth(network, exact, "float16", {}, Runs(MOST_RUNS, lambda: None)).layers(
        [lambda: run_call(call, network, "float16")]
    )
    assert fewest is not None
    return fewest


def test_layers_before_begin_with_one_that_computes_as_it_is_but_not_with_one_that_does_not() -> None:
    scaled = _network()
    _scale(scaled, "blocks.1.value.weight", 17)
    _scale(scaled, "blocks.1.down.weight", -10)
    assert _fewest(scaled).before[:2] == ("blocks.1.gate", "blocks.1.second"), "blocks.1.value is tried whole anyway"
    product = _network()
    for name in ("gate", "value"):
        _scale(product, f"blocks.1.{name}.weight", 10)
    _scale(product, "blocks.1.down.weight", -20)
    fewest = _fewest(product)
    assert fewest.before[0] == handed_on(fewest.layers[0])[0]


class Pair(nn.Module):
    """Two layers that read numbers of their own; the second one is too large for float16. shared: they have one bias."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__()
        self.small, self.large = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=shared)
        if shared:
            self.large.bias = self.small.bias

    def forward(self, x: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        del timestep
        return self.small(x) + self.large(input=x)


def _pair_fewest(pair: Pair, *given: torch.Tensor) -> tuple[Fewest | None, float]:
    exact = {name: tensor.clone() for name, tensor in exact_weights(pair).items()}
    calls = [Call("net", "forward", (x,), {"timestep": torch.zeros(1)}) for x in given]
    references = [run_call(call, pair, "float32") for call in calls]
    realise(pair, exact, ComponentState(dtype="float16"))
    runs = [partial(run_call, call, pair, "float16") for call in calls]
    fewest = Growth(pair, exact, "float16", {}, Runs(MOST_RUNS, lambda: None)).layers(runs)
    state = ComponentState(dtype="float16", upcast=fewest.layers if fewest else ())
    realise(pair, exact, state)
    return fewest, max(relative_error(run_call(call, pair, "float16"), own) for call, own in zip(calls, references, strict=True))


def _pair(*, shared: bool = False) -> Pair:
    torch.manual_seed(5)
    pair = Pair(shared=shared).requires_grad_(False)
    pair.large.weight.mul_(2.0**17)
    return pair


def test_an_input_is_scaled_also_where_it_is_given_by_name_and_keeps_room_for_other_prompts() -> None:
    pair = _pair()
    x = 8 * torch.randn(3, WIDTH)
    largest = float(pair.large(x).abs().max())
    fewest, error = _pair_fewest(pair, x)
    assert fewest is not None
    ((module, k),) = map(handed_on, fewest.layers)
    assert module == "large"
    assert k is not None
    assert largest * 2.0**-k <= FLOAT_LIMITS["float16"] / 8
    assert error < 0.01


def test_a_bias_that_another_layer_reads_as_well_is_not_scaled() -> None:
    fewest, error = _pair_fewest(_pair(shared=True), 8 * torch.randn(3, WIDTH))
    assert fewest is not None
    assert fewest.layers == ("large",)
    assert error < 0.01


@pytest.mark.parametrize("also", [False, True])
def test_a_call_of_zeros_alone_does_not_end_the_search(also: bool) -> None:
    pair = _pair()
    pair.large.weight[0, 0] = 1e9  # does not fit, and infinite times zero is no number
    given = [torch.zeros(3, WIDTH), *([torch.randn(3, WIDTH)] if also else [])]
    fewest, error = _pair_fewest(pair, *given)
    assert fewest is not None
    assert fewest.layers == ("large",)
    assert error < 0.01


def test_a_bias_counts_as_much_as_before_where_the_input_is_scaled() -> None:
    network = _network()
    _scale(network, "blocks.1.value.weight", 17)
    network.get_parameter("blocks.1.value.bias").fill_(20_000.0)
    _scale(network, "blocks.1.down.weight", -10)
    layers, error = _grown(network)
    assert layers is not None
    assert all(handed_on(name)[1] for name in layers)
    assert error < 0.01


def test_a_layer_whose_weights_do_not_fit_runs_in_float32() -> None:
    network = _network()
    _scale(network, "blocks.1.value.weight", 24)
    _scale(network, "blocks.1.down.weight", -18)
    layers, error = _grown(network)
    assert layers is not None
    assert layers[0] == "blocks.1.value"
    assert error < 0.01


def test_a_layer_that_loses_too_much_with_a_scaled_input_runs_in_float32() -> None:
    """One number of its input is huge and meets no weight; the others would be too small to be told apart."""
    network = _network()
    network.get_parameter("blocks.1.norm.weight").fill_(1e-4)
    network.get_parameter("blocks.1.norm.bias").zero_()[0] = 4e7
    for name in ("q", "k", "v"):
        network.get_parameter(f"blocks.1.{name}.weight")[:, 0] = 0
    network.get_parameter("blocks.1.v.bias").zero_()
    network.get_parameter("blocks.1.shift.weight").zero_()
    network.get_parameter("blocks.1.shift.bias").zero_()
    layers, error = _grown(network)
    assert layers is not None
    assert "blocks.1.v" in layers
    assert error < 0.01


class Narrowing(nn.Module):
    """Its product takes the type of what it reads, so that several layers have to hand on float32 together."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, WIDTH)
        self.passes = nn.ModuleList(nn.Sequential(nn.Identity()) for _ in range(6))
        self.a, self.b, self.c, self.d, self.down = (nn.Linear(WIDTH, WIDTH) for _ in range(5))

    def forward(self, x: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        del timestep
        x = self.first(x)
        read = self.c(x) + self.d(x)
        for holder in self.passes:
            read = holder(read)
        return self.down((self.a(read) * self.b(read)).type_as(x))


def test_layers_that_joined_together_are_given_up_again_where_nothing_needs_them() -> None:
    torch.manual_seed(5)
    network = Narrowing().requires_grad_(False)
    for name in ("a", "b"):
        network.get_parameter(f"{name}.weight").mul_(2.0**12)
    network.get_parameter("down.weight").mul_(2.0**-20)
    layers, error = _grown(network)
    assert layers is not None
    assert layers[0] == f"first{RESULT}"
    assert len({f"a{RESULT}", f"b{RESULT}"} & set(layers)) == 1, "one of the two is enough"
    assert not {"c", "d"} & set(_modules(layers))
    assert handed_on(layers[-1]) == ("down", handed_on(layers[-1])[1])
    assert error < 0.01


def test_sets_become_larger_step_by_step() -> None:
    fewest = Fewest((f"b{RESULT}", result_of("c", 3)), before=("b", "a"))
    assert list(fewest.sets((1, 2, 4))) == [
        (f"b{RESULT}", result_of("c", 3)),
        (f"b{RESULT}", "c"),
        ("b", "c"),
        ("a", "b", "c"),
    ]


def _modules(layers: tuple[str, ...]) -> list[str]:
    return [module for module, _ in map(handed_on, layers)]


def test_attention_takes_layers_of_different_types() -> None:
    network = _network()
    _scale(network, "blocks.0.v.weight", 20)
    _scale(network, "blocks.0.out.weight", -20)
    layers, error = _grown(network, try_=1)
    assert layers == ("blocks.0.v", "blocks.0.out")
    assert error < 0.01


def test_what_is_rescaled_needs_fewer_layers() -> None:
    network = _network()
    _scale(network, "blocks.0.v.weight", 20)
    _scale(network, "blocks.0.v.bias", 20)
    _scale(network, "blocks.0.out.weight", -20)
    _scale(network, "blocks.2.value.weight", 20)
    _scale(network, "blocks.2.down.weight", -20)
    rescale = {"blocks.0.v.weight": -20, "blocks.0.v.bias": -20, "blocks.0.out.weight": 20}
    layers, error = _grown(network, rescale=rescale)
    assert layers is not None
    assert _modules(layers) == ["blocks.2.value", "blocks.2.down"]
    assert error < 0.01


def test_what_is_infinite_in_float32_too_has_none() -> None:
    network = _network()
    network.get_parameter("blocks.1.out.weight")[0, 0] = float("inf")
    layers, _ = _grown(network)
    assert layers is None


def test_it_can_be_stopped() -> None:
    def stop() -> None:
        raise JobCancelled

    network = _network()
    _scale(network, "first.weight", 20)
    with pytest.raises(JobCancelled):
        _grown(network, begins=stop)
