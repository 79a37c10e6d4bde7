"""How the weights of convolutions lie in memory."""

from copy import deepcopy

import torch
from torch import nn

from halftone.engine.loading.plans import lay_out, layout_of
from halftone.engine.weights.precision import ComponentState, exact_weights, realise
from halftone.engine.weights.recipe import channels_last, mixed

CPU = torch.device("cpu")


def test_flat_convolutions_next_to_deep_ones_are_laid_out_alone() -> None:
    network = nn.ModuleList([nn.Conv2d(4, 8, 3), nn.Conv3d(4, 8, 3), nn.Linear(4, 8)]).to(torch.bfloat16)
    flat, deep = network[0].get_parameter("weight"), network[1].get_parameter("weight")
    before = deep.stride()
    narrow = layout_of("decode", ComponentState(dtype="bfloat16"), CPU)
    assert narrow is not None
    lay_out(network, narrow)
    assert flat.is_contiguous(memory_format=torch.channels_last)
    assert deep.stride() == before
    wide = layout_of("decode", ComponentState(dtype="float32"), CPU)
    assert wide is not None
    lay_out(network, wide)
    assert flat.is_contiguous()
    assert layout_of("encode", ComponentState(dtype="bfloat16"), CPU) is None


def test_convolutions_are_made_as_they_are_to_lie() -> None:
    """A second copy of each would take as long as reading it did. Bits are those of the usual order."""
    torch.manual_seed(0)
    network = nn.ModuleList([nn.Conv2d(40, 80, 3), nn.Conv2d(40, 80, 1), nn.Conv3d(4, 8, 3), nn.Linear(40, 80)])
    exact, usual = exact_weights(network.half()), deepcopy(network)
    for state in (
        ComponentState(dtype="bfloat16"),
        ComponentState(dtype="bfloat16", rescale={"0.weight[:30]": 3, "0.bias": -2, "3.weight": 1}),
        ComponentState(dtype="bfloat16", upcast=("0", "2")),
    ):
        realise(network, exact, state, layout=torch.channels_last)
        found = dict(network.named_parameters())
        assert found["0.weight"].is_contiguous(memory_format=torch.channels_last)
        assert all(tensor.is_contiguous() for name, tensor in found.items() if name != "0.weight")
        assert found["1.weight"].stride() == exact["1.weight"].stride(), "alike in both orders: no other kernel is chosen for it"
        realise(other := deepcopy(usual), exact, state)
        assert all(torch.equal(found[name], tensor) for name, tensor in other.named_parameters()), state


def test_a_large_convolution_is_put_in_order_piece_by_piece() -> None:
    torch.manual_seed(0)
    exact = torch.randn(60, 700, 3, 3).half()  # more than one piece, the last one smaller
    for dtype in (torch.bfloat16, torch.float32):
        for changes in ((), ((slice(7, 50), -9),)):
            made = mixed(exact, (), changes, dtype, channels_last)
            assert made.is_contiguous(memory_format=torch.channels_last)
            assert torch.equal(made, mixed(exact, (), changes, dtype))
