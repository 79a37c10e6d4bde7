"""Lists that a network hands to its blocks, to be written into, work across the borders of float32 regions."""

from pathlib import Path

import pytest
import torch
from torch import nn

from halftone.contract.plan import Plan, result_of
from halftone.engine.basics.tensors import as_dtype, map_tensors, relative_error
from halftone.engine.loading.load import load_pipeline
from halftone.engine.loading.plans import fitting
from halftone.engine.weights.precision import ComponentState, exact_weights, invoke, realise
from halftone.library.models import describe

WIDTH = 4


def test_what_does_not_change_is_the_same_object() -> None:
    narrow, wide = torch.ones(2).half(), torch.ones(2)
    for same in ([0], [narrow, None], (narrow, "Rep"), {"a": [narrow]}, [[1], {}]):
        assert map_tensors(same, as_dtype(torch.float16)) is same
    given = [wide, narrow, [0]]
    found = map_tensors(given, as_dtype(torch.float16))
    assert found is not given
    assert found[1] is narrow
    assert found[2] is given[2]


class _Block(nn.Module):
    """Adds what it made of the slice before, and leaves its own in the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: torch.Tensor, cache: list[torch.Tensor | None], at: list[int]) -> torch.Tensor:
        for layer in (self.first, self.second):
            before = cache[at[0]]
            cache[at[0]] = hidden
            at[0] += 1
            hidden = layer(hidden if before is None else hidden + before)
        return hidden


class _Sliced(nn.Module):
    """Runs slice after slice, as decoders of video do."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([_Block(), _Block(), _Block()])

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        cache: list[torch.Tensor | None] = [None] * 6
        made: list[torch.Tensor] = []
        for part in hidden:
            at = [0]
            for block in self.blocks:
                part = block(part, cache, at)  # noqa: PLW2901 - the stream goes on
            assert at == [6]
            assert None not in cache
            made.append(part)
        return torch.stack(made)


@pytest.mark.parametrize("upcast", [(), ("blocks.1",), ("blocks.0", "blocks.2"), ("blocks.1.second",)])
def test_a_cache_that_is_written_into_crosses_borders(upcast: tuple[str, ...]) -> None:
    torch.manual_seed(2)
    network = _Sliced()
    exact = {name: tensor.clone() for name, tensor in exact_weights(network).items()}
    hidden = torch.randn(3, 2, WIDTH)
    with torch.no_grad():
        expected = network(hidden)
        realise(network, exact, ComponentState(dtype="float16", upcast=upcast))
        found = invoke(network, network, "float16", (hidden,), {})
    assert 0 < relative_error(found, expected) < 1e-2


@pytest.mark.logs("names parts")
def test_a_plan_of_another_version_loses_what_the_model_has_not(models: dict[str, Path]) -> None:
    loaded = load_pipeline(describe(str(models["sd15"])), torch.device("cpu"))
    gone = ("gone", result_of("gone"), result_of("conv_norm_out", 3), "conv_in.(result*2^2000)")
    plan = Plan(
        upcast={"unet": ("conv_in", *gone, result_of("conv_out", 3))},
        rescale={"vae": {"gone.weight": 3, "decoder.conv_in.weight": 1}, "text_encoder": {}},
    )
    kept = fitting(loaded, plan)
    assert kept.upcast == {"unet": ("conv_in", result_of("conv_out", 3))}
    assert kept.rescale == {"vae": {"decoder.conv_in.weight": 1}, "text_encoder": {}}
    assert fitting(loaded, kept) == kept
