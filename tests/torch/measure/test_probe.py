import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from tests.helpers.clipping import LIMIT, Clipping
from torch import nn

from halftone.measure.probe import OriginReachedError, Probe, Reading, origin, saturation


class Residual(nn.Module):
    """x + second(act(first(x)))."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.act = nn.SiLU()
        self.second = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(self.act(self.first(x)))


class EagerAttention(nn.Module):
    """Scores are computed by the module's own code, in the type of its inputs."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.heads = 2
        self.scale = (width // 2) ** -0.5
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(width, width), nn.Dropout(0.0)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.to_q, self.to_k, self.to_v))
        scores = (q @ k.transpose(-1, -2)) * self.scale
        result = (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)
        for layer in self.to_out:
            result = layer(result)
        return result


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Residual(), EagerAttention(), Residual()])
        self.out = nn.Sequential(nn.LayerNorm(8), nn.SiLU(inplace=True), nn.Linear(8, 8))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        for block in self.blocks:
            x = block(x)
        return {"sample": self.out(x), "name": "text", "nothing": None}


def net(dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(0)
    return Net().to(dtype).eval()


def probed(module: nn.Module, *inputs: Any, run: Callable[..., Any] | None = None, **named: Any) -> Probe:
    with torch.no_grad(), Probe(module, "net") as probe:
        (run or module)(*inputs, **named)
    return probe


def signal(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(1)).to(dtype)


def by_name(probe: Probe) -> dict[str, Reading]:
    return {reading.module: reading for reading in probe.readings()}


def fill(layer: Any, value: float) -> None:
    with torch.no_grad():
        layer.weight.fill_(value)


def test_every_module_is_read_children_before_parents() -> None:
    readings = probed(net(), signal()).readings()
    names = [r.module for r in readings]
    assert names[:4] == ["blocks.0.first", "blocks.0.act", "blocks.0.second", "blocks.0"]
    assert names[-1] == ""
    assert {r.kind for r in readings} >= {"Linear", "Residual", "EagerAttention", "Net", "Sequential"}
    assert [r.order for r in readings] == sorted(r.order for r in readings)
    assert all(r.finite and r.peak > 0 and r.uses == 1 for r in readings)
    assert origin(readings) is None


def test_peaks_are_those_of_the_outputs() -> None:
    model = net()
    with torch.no_grad():
        first = model.blocks[0](signal())
    found = by_name(probed(model, signal()))
    assert found["blocks.0"].output_peak == pytest.approx(float(first.abs().max()))


def test_what_is_known_is_not_measured_again() -> None:
    """Inputs are outputs of others, a container hands up its last child: far fewer reductions than inputs and outputs."""
    probe = probed(net(), signal())
    reductions = len(probe._buffer)
    assert reductions < sum(reading.uses for reading in probe.readings()) + 4


def test_an_overflowing_leaf_is_the_origin() -> None:
    model = net(torch.float16)
    fill(model.blocks[2].second, 3e4)
    found = origin(probed(model, signal(torch.float16) * 100).readings())
    assert found is not None
    assert (found.module, found.kind, found.inputs_finite, found.weights_finite) == ("blocks.2.second", "Linear", True, True)
    assert found.failed_call == 0


def test_the_probe_can_leave_the_network_where_the_first_number_went_bad() -> None:
    model = net(torch.float16)
    model.blocks[1].to_out[0].weight.data.fill_(3e4)
    ran: list[int] = []
    model.blocks[2].register_forward_hook(lambda *_: ran.append(1))
    x = torch.randn(2, 4, 8, dtype=torch.float16) * 100
    with Probe(model, "unet") as probe:
        model(x)
    named = origin(probe.readings())
    assert named is not None
    ran.clear()
    short = Probe(model, "unet", until_origin=True)
    with short, pytest.raises(OriginReachedError):
        model(x)
    assert short.stopped
    assert not ran, "what comes after the origin was not run"
    found = origin(short.readings())
    assert found is not None
    assert (found.module, found.failed_at) == (named.module, named.failed_at)


def test_a_network_without_an_origin_is_run_to_its_end() -> None:
    model = net()
    with Probe(model, "unet", until_origin=True) as probe:
        model(torch.randn(2, 4, 8))
    assert not probe.stopped
    assert len(probe.readings()) == len(list(model.modules())) - 2, "lists of modules are not run"


def test_scores_that_overflow_between_modules_name_the_attention() -> None:
    model = net(torch.float16)
    for part in (model.blocks[1].to_q, model.blocks[1].to_k):
        fill(part, 100.0)
    readings = probed(model, signal(torch.float16) * 10).readings()
    found = origin(readings)
    assert found is not None
    assert found.module == "blocks.1"
    after = next(r for r in readings if r.module == "blocks.1.to_out.0")
    assert not after.finite
    assert not after.inputs_finite


def test_a_residual_sum_that_overflows_names_the_block() -> None:
    model = Residual().half().eval()
    with torch.no_grad():
        for layer in (model.first, model.second):
            layer.weight.zero_()
        model.second.bias.fill_(4e4)
    found = origin(probed(model, torch.full((1, 8), 4e4, dtype=torch.float16)).readings())
    assert found is not None
    assert found.module == ""


class Stream(nn.Module):
    """Its own code adds before a norm: the sum is no module's output."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.inner(x))


def test_the_peak_of_a_module_holds_what_its_code_made_inside() -> None:
    model = Stream().eval()
    with torch.no_grad():
        model.inner.weight.copy_(torch.eye(8))
        model.inner.bias.zero_()
    found = by_name(probed(model, signal() * 1000))[""]
    assert found.output_peak < 10
    assert found.peak == float(signal().abs().max() * 2000)


def test_values_that_only_pass_through_are_not_booked_on_the_module() -> None:
    class Flattener(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x.transpose(0, 1).contiguous())

    found = by_name(probed(Flattener().eval(), signal() * 1000))[""]
    assert found.peak == found.output_peak < 10


def test_bad_weights_are_not_an_overflow() -> None:
    model = net()
    fill(model.blocks[2].first, math.nan)
    readings = probed(model, signal()).readings()
    assert origin(readings) is None
    assert not next(r for r in readings if r.module == "blocks.2.first").weights_finite


def test_bad_inputs_are_nobodys_fault() -> None:
    readings = probed(net(), signal() * math.nan).readings()
    assert origin(readings) is None
    assert not any(r.finite or r.inputs_finite for r in readings)


def negated() -> nn.Sequential:
    """-x, then everything below zero cut off in place."""
    first = nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        first.weight.copy_(-torch.eye(4))
    return nn.Sequential(first, nn.ReLU(inplace=True))


def test_an_inplace_function_is_measured_anew() -> None:
    model = negated()
    found = by_name(probed(model, torch.full((1, 4), 7.0)))
    assert found["0"].output_peak == 7.0
    assert found["1"].output_peak == 0.0


class Doubled(nn.Module):
    """Writes into what it is given, without a word of it in its attributes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)


def _replaced() -> nn.Module:
    """A layer of torch with another forward put on it."""
    layer = nn.Identity()
    setattr(layer, "forward", lambda x: x.mul_(2))  # noqa: B010 - as casts of other programs do it
    return layer


@pytest.mark.parametrize("layer", [nn.LeakyReLU(2.0, inplace=True), Doubled(), _replaced()])
def test_what_a_layer_was_given_is_measured_before_it_writes_into_it(layer: nn.Module) -> None:
    found = by_name(probed(nn.Sequential(layer), torch.full((1, 4), -7.0)))
    assert (found["0"].input_peak, found["0"].output_peak) == (7.0, 14.0)


@pytest.mark.parametrize("layer", [nn.LeakyReLU(1e30, inplace=True), Doubled()])
def test_a_layer_that_spoils_its_own_input_is_the_origin(layer: nn.Module) -> None:
    found = origin(probed(nn.Sequential(layer), torch.full((1, 4), -3e38)).readings())
    assert found is not None
    assert (found.module, found.inputs_finite) == ("0", True)


def test_inference_mode_works_without_versions() -> None:
    model = negated()
    with torch.inference_mode(), Probe(model, "net") as probe:
        model(torch.full((1, 4), 7.0))
    assert by_name(probe)["1"].output_peak == 0.0


def test_peaks_over_several_calls() -> None:
    model = nn.Sequential(nn.Identity())
    with Probe(model, "net") as probe:
        for size in (1.0, 5.0, 3.0):
            model(torch.tensor([size]))
    assert probe.calls == 3
    assert by_name(probe)["0"].peak == 5.0
    assert by_name(probe)["0"].uses == 3


def test_the_first_failing_call_is_named() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Identity()).half()
    fill(model[0], 100.0)
    with torch.no_grad(), Probe(model, "net") as probe:
        for size in (1.0, 10.0, 6e4, 1.0):
            model(torch.full((1, 4), size, dtype=torch.float16))
    found = origin(probe.readings())
    assert found is not None
    assert (found.module, found.failed_call, found.uses) == ("0", 2, 4)


def test_modules_run_one_after_the_other_without_the_root_are_one_call() -> None:
    quant, decoder = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4))

    def decode(x: torch.Tensor) -> None:
        decoder(quant(x))

    with torch.no_grad(), Probe(nn.ModuleDict({"quant": quant, "decoder": decoder}), "vae") as probe:
        decode(torch.ones(1, 4))
        decode(torch.ones(1, 4))
    assert probe.calls == 2
    assert "" not in by_name(probe)


def test_masks_full_of_minus_infinity_are_no_bad_input() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, bias: torch.Tensor, attention_mask: torch.Tensor | None = None) -> Any:
            scores = bias if attention_mask is None else bias + attention_mask
            return (scores.softmax(-1) @ self.value(x)[None, None])[0, 0], scores

    mask = torch.full((1, 1, 3, 3), -math.inf).triu(1)
    readings = probed(Masked(), torch.ones(3, 4), torch.zeros(1, 1, 3, 3), attention_mask=mask).readings()
    assert all(r.finite and r.inputs_finite and r.peak < 100 for r in readings)
    readings = probed(Masked(), torch.ones(3, 4), mask).readings()
    assert all(r.finite and r.peak < 100 for r in readings)


def test_integers_booleans_and_nothing_are_passed_over() -> None:
    class Odd(nn.Module):
        def forward(self, *parts: Any) -> Any:
            return (torch.tensor([1]), None, {"mask": torch.tensor([True])}, [torch.zeros(0)], torch.tensor(3.0))

    found = by_name(probed(Odd(), torch.tensor([5]), torch.zeros(2, 0), None, "text"))
    assert found[""].peak == 3.0


def test_an_exception_leaves_the_probe_usable_and_the_model_clean() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if float(x.sum()) > 5:
                raise ValueError("too much")
            return x

    model = nn.Sequential(nn.Identity(), Fails())
    with Probe(model, "net") as probe:
        with pytest.raises(ValueError, match="too much"):
            model(torch.full((2,), 9.0))
        model(torch.ones(2))
    assert by_name(probe)[""].uses == 1
    assert by_name(probe)[""].peak == 1.0
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_attention_scores_are_watched() -> None:
    model = net()
    probe = probed(model, signal())
    with torch.no_grad():
        x = model.blocks[0](signal())
        q, k = (part(x).unflatten(-1, (2, -1)).transpose(1, 2) for part in (model.blocks[1].to_q, model.blocks[1].to_k))
    (score,) = probe.scores()
    assert score.module == "blocks.1"
    assert score.exact
    assert score.peak == pytest.approx(float((q @ k.transpose(-1, -2)).abs().max()) * 0.5, rel=1e-5)


def test_without_scores_nothing_is_held() -> None:
    model = net()
    with torch.no_grad(), Probe(model, "net", scores=False) as probe:
        model(signal())
    assert probe.scores() == ()


def test_results_are_the_same_under_the_probe() -> None:
    model = net()
    with torch.no_grad():
        bare = model(signal())["sample"]
        with Probe(model, "net"):
            watched = model(signal())["sample"]
    assert torch.equal(bare, watched)


def test_functions_of_torch_inside_a_leaf_are_its_own() -> None:
    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.proj = nn.Linear(4, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            value, gate = self.proj(x).chunk(2, dim=-1)
            return value * F.gelu(gate)

    model = Gate().half()
    fill(model.proj, 100.0)
    found = origin(probed(model, torch.ones(1, 4, dtype=torch.float16)).readings())
    assert found is not None
    assert found.module == ""


def test_it_tells_what_ran_since_it_was_last_asked() -> None:
    module = Residual()
    with Probe(module, "unet") as probe:
        assert probe.ran() == frozenset()
        module(torch.ones(1, 8))
        assert probe.ran() == {"", "first", "act", "second"}
        module.first(torch.ones(1, 8))
        assert probe.ran() == {"first"}


class Split(nn.Module):
    """Two streams from one product, as joint attention makes them: the second one is bad, and is used last."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = torch.cat([x, x[:, :2] * torch.inf], dim=1)
        return self.first(both[:, :5]).sum() + self.second(both[:, 5:]).sum()


def test_a_part_of_a_storage_is_not_known_by_another_part() -> None:
    network = Split()
    with Probe(network, "c") as probe:
        network(torch.ones(2, 5, 4))
    found = origin(probe.readings())
    assert found is not None
    assert found.module == "", "the network's own code, not the layer that was given bad numbers"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_an_overflow_that_was_clipped_names_the_layer_that_made_it(dtype: torch.dtype) -> None:
    limit = limit_of(dtype)
    first = nn.Linear(8, 8).to(dtype)
    network = nn.Sequential(first, nn.Hardtanh(-limit, limit), nn.Linear(8, 8).to(dtype))
    with torch.no_grad():
        first.bias[3] = math.inf
    with Probe(network, "unet") as probe:
        network(torch.ones(1, 8, dtype=dtype))
    found = saturation(probe.readings())
    assert found is not None
    assert (found.module, found.peak) == ("1", limit)


def limit_of(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max


def test_on_a_device_that_clips_the_layer_is_named_as_where_others_overflow() -> None:
    network = net(torch.float16)
    network.blocks[1].to_v.weight.data *= 1e5
    x = torch.randn(2, 5, 8, dtype=torch.float16)
    with Probe(network, "unet") as bare:
        network(x)
    expected = origin(bare.readings())
    assert expected is not None
    with Clipping():
        network.blocks[1].to_v.weight.data.clamp_(-LIMIT, LIMIT)
        with Probe(network, "unet") as clipping:
            network(x)
    assert origin(clipping.readings()) is None, "all is finite there"
    found = saturation(clipping.readings())
    assert found is not None
    assert (found.module, found.peak) == ("blocks.1.to_v", LIMIT)


def test_a_residual_sum_that_was_clipped_names_the_block() -> None:
    pair = (Residual().half(), Residual().half())
    blocks = nn.Sequential(*pair)
    for block in pair:
        nn.init.zeros_(block.first.weight)
        nn.init.constant_(block.second.bias, 60000.0)
    with Clipping(), Probe(blocks, "unet") as probe:
        blocks(torch.zeros(1, 2, 8, dtype=torch.float16))
    found = saturation(probe.readings())
    assert found is not None
    assert found.module == "1"


def test_what_is_given_at_the_limit_and_a_wide_type_are_no_saturation() -> None:
    layer = nn.Identity()
    with Probe(layer, "unet") as probe:
        layer(torch.full((2,), LIMIT, dtype=torch.float16))
        layer(torch.full((2,), LIMIT))
    assert saturation(probe.readings()) is None
    below = nn.Linear(1, 1, bias=False)
    below.weight.data.fill_(LIMIT)
    with Probe(below, "unet") as probe:
        below(torch.ones(1, 1))
    assert saturation(probe.readings()) is None, "float32 holds more"
