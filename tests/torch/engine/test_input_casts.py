"""A layer gets its input in the dtype of its own weights, however a network chooses it."""

from typing import Any

import pytest
import torch
from diffusers.models.normalization import AdaLayerNormSingle
from torch import nn

from halftone.engine.basics.tensors import relative_error
from halftone.engine.weights.precision import ComponentState, exact_weights, invoke, realise

WIDTH = 8


class _Network(nn.Module):
    """Takes the dtype of its time embedding from the noise level or from the stream, as transformers of diffusers do."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.time = AdaLayerNormSingle(WIDTH)
        self.blocks = nn.ModuleList([nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)])

    def forward(self, hidden: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        dtype = timestep.dtype if self.source == "timestep" else hidden.dtype
        table, _ = self.time(timestep, batch_size=len(hidden), hidden_dtype=dtype)
        for block in self.blocks:
            hidden = block(hidden + table[:, :WIDTH])
        return hidden


@pytest.mark.parametrize("upcast", [(), ("time",), ("blocks.0",), ("time", "blocks.0"), ("blocks.1",)])
@pytest.mark.parametrize("source", ["timestep", "stream"])
def test_a_network_that_chooses_a_dtype_runs_in_every_state(source: str, upcast: tuple[str, ...]) -> None:
    torch.manual_seed(3)
    network = _Network(source)
    exact = {name: tensor.clone() for name, tensor in exact_weights(network).items()}
    inputs: tuple[Any, ...] = (torch.randn(2, WIDTH), torch.tensor([501.25, 3.5]))
    with torch.no_grad():
        expected = network(*inputs)
        for _ in range(2):
            realise(network, exact, ComponentState(dtype="float16", upcast=upcast))
        found = invoke(network, network, "float16", inputs[:1], {"timestep": inputs[1]})
    assert found.dtype == torch.float32, "as it was called"
    assert 0 < relative_error(found, expected) < 1e-2
    assert network.time.linear.weight.dtype == (torch.float32 if "time" in upcast else torch.float16)
