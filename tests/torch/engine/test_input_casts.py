"""A layer gets its input in the dtype of its own weights, however a network chooses it."""

import gc
import weakref
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from diffusers.models.normalization import AdaLayerNormSingle
from tests.bench.families.run import save
from tests.bench.families.table import CASES
from tests.helpers.engine_runs import generate
from torch import nn

from halftone.engine.basics.tensors import relative_error
from halftone.engine.service import DiffusersEngine
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


def _watched(network: nn.Module) -> list[str]:
    return [name for name, part in network.named_modules() if part._forward_pre_hooks]


@torch.no_grad()
def test_only_layers_that_need_a_cast_are_watched_after_the_first_call() -> None:
    network = _Network("timestep")
    realise(network, exact_weights(network), ComponentState(dtype="float16"))
    stream, timestep = torch.randn(2, WIDTH).half(), torch.tensor([501.25, 3.5])
    assert len(_watched(network)) == 6
    first = invoke(network, network, "float16", (stream,), {"timestep": timestep})
    assert _watched(network) == ["time.emb.timestep_embedder.linear_1"]
    assert torch.equal(invoke(network, network, "float16", (stream,), {"timestep": timestep}), first)


@torch.no_grad()
def test_arguments_of_other_types_are_looked_at_by_themselves() -> None:
    network = _Network("timestep")
    realise(network, exact_weights(network), ComponentState(dtype="float16"))
    stream, timestep = torch.randn(2, WIDTH).half(), torch.tensor([501.0, 3.0])
    invoke(network, network, "float16", (stream,), {"timestep": timestep.half()})
    assert _watched(network) == []
    invoke(network, network, "float16", (stream,), {"timestep": timestep})
    assert _watched(network) == ["time.emb.timestep_embedder.linear_1"]


class _Switched(nn.Module):
    """Takes another way where it is asked to, or where another argument is given."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, one: Any, other: Any, exact: bool = False, more: Any = None) -> torch.Tensor:
        hidden = one if other is None else other
        return self.second(self.first(hidden).float() if exact or "wide" in (more or {}) else hidden)


@torch.no_grad()
def test_each_way_through_a_network_is_looked_at_by_itself() -> None:
    network = _Switched()
    realise(network, exact_weights(network), ComponentState(dtype="float16"))
    given = torch.randn(2, WIDTH).half()
    for args in ((given, None), (None, given), (given, None, True), (given, None, False, {"wide": given})):
        assert invoke(network, network, "float16", args, {}).isfinite().all()


def test_a_network_that_is_let_go_leaves_at_once() -> None:
    network = _Network("stream")
    realise(network, exact_weights(network), ComponentState(dtype="float16"))
    with torch.no_grad():
        invoke(network, network, "float16", (torch.randn(2, WIDTH).half(),), {"timestep": torch.ones(2)})
    gc.disable()
    try:
        left = weakref.ref(network)
        del network
        assert left() is None
    finally:
        gc.enable()


class _Attention(nn.Module):
    """Multiplies what two layers make, one of which may hand on float32; notes whether torch watches its functions."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.watched = False

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        self.watched = bool(torch.overrides._get_current_function_mode())
        return self.last(self.query(hidden) @ self.key(hidden).mT @ hidden)


@torch.no_grad()
def test_functions_are_watched_only_where_types_meet() -> None:
    torch.manual_seed(3)
    network = nn.Sequential(_Attention(), _Attention())
    realise(network, exact_weights(network), ComponentState(dtype="float16", upcast=("0.query",)))
    stream = torch.randn(4, WIDTH).half()
    first = invoke(network, network, "float16", (stream,), {})
    assert [part.watched for part in network] == [True, True]
    assert torch.equal(invoke(network, network, "float16", (stream,), {}), first)
    assert [part.watched for part in network] == [True, False]


@pytest.mark.parametrize("family", ["Wan", "HunyuanDiT"])
def test_a_model_stored_in_the_type_it_runs_in_gets_its_casts(tmp_path: Path, family: str) -> None:
    """Some of its layers stay in float32, or its network makes float32 inside: no plan has to change it first."""
    case = next(case for case in CASES if case.name == family)
    wide = save(case, tmp_path / "wide")
    model = tmp_path / "half"
    diffusers.DiffusionPipeline.from_pretrained(wide).to(torch.float16).save_pretrained(model)
    more: dict[str, Any] = {"width": case.size, "height": case.size, "num_frames": case.frames, "options": case.options}
    report, _ = generate(DiffusersEngine(), model, "float16", steps=1, **more)
    assert report.images[0].state == "clean"
