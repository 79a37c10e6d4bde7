"""How the weights of convolutions lie in memory."""

import torch
from torch import nn

from halftone.engine.loading.plans import lay_out
from halftone.engine.weights.precision import ComponentState


def test_flat_convolutions_next_to_deep_ones_are_laid_out_alone() -> None:
    network = nn.ModuleList([nn.Conv2d(4, 8, 3), nn.Conv3d(4, 8, 3), nn.Linear(4, 8)]).to(torch.bfloat16)
    flat, deep = network[0].get_parameter("weight"), network[1].get_parameter("weight")
    before = deep.stride()
    lay_out(network, "decode", ComponentState(dtype="bfloat16"), torch.device("cpu"))
    assert flat.is_contiguous(memory_format=torch.channels_last)
    assert deep.stride() == before
    lay_out(network, "decode", ComponentState(dtype="float32"), torch.device("cpu"))
    assert flat.is_contiguous()
