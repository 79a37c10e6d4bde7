"""Weights that come to the card through two buffers of pinned memory, while it computes.

`test_card.py` runs this in a process of its own; `on_card.py` fails what copies out of order.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.models.autoencoders.vae import VectorQuantizer
from diffusers.models.embeddings import HunyuanDiTAttentionPool
from tests.accelerator import card
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.tiny import save_tiny
from torch import nn

from halftone.contract.vocabulary import OffloadMode
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.offload import Places, compute_with, offload, onload, stand
from halftone.engine.weights.recipe import Made
from halftone.measure.late import await_copies

EDGE = 256
LAYER = 4 * (EDGE * EDGE + EDGE)
DEVICE = torch.device("card:0")
MODES: tuple[OffloadMode, ...] = ("group", "sequential")


class Blocks(nn.Module):
    """Layers of one size, each of which is a block."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(EDGE, EDGE) for _ in range(5))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            inputs = block(inputs)
        return inputs


@pytest.fixture
def extension() -> Any:
    return card.install()


@pytest.fixture
def network() -> Blocks:
    torch.manual_seed(0)
    return Blocks().requires_grad_(requires_grad=False)


def run(network: nn.Module) -> torch.Tensor:
    onload(network)
    with torch.no_grad():
        return network(torch.ones(1, EDGE).to(DEVICE)).cpu()


def peak(extension: Any, network: nn.Module) -> float:
    """Layers that lay on the card at once."""
    before = extension.used(0)
    torch.accelerator.reset_peak_memory_stats(DEVICE)
    run(network)
    return (extension.peak(0) - before) / LAYER


@pytest.mark.parametrize("mode", MODES)
def test_two_blocks_are_there_at_once_and_two_in_pinned_memory(extension: Any, network: Blocks, mode: OffloadMode) -> None:
    expected = network(torch.ones(1, EDGE))
    pinned = extension.pinned()
    stand("unet", network, Places(DEVICE, apart=True, mode=mode))
    assert peak(extension, network) == pytest.approx(2, abs=0.1)
    assert extension.pinned() - pinned == 2 * LAYER
    assert torch.equal(run(network), expected)
    offload(network)
    assert all(parameter.device.type == "cpu" for parameter in network.parameters())


@pytest.mark.parametrize("mode", MODES)
def test_one_block_is_there_where_two_find_no_room(extension: Any, network: Blocks, mode: OffloadMode) -> None:
    expected = network(torch.ones(1, EDGE))
    stand("unet", network, Places(DEVICE, apart=True, mode=mode))
    extension.set_limit(0, extension.used(0) + LAYER * 3 // 2)
    assert torch.equal(run(network), expected)
    extension.set_limit(0, 1 << 40)
    before = extension.allocations(0)
    run(network)
    assert extension.allocations(0) - before < 20


def test_without_memory_to_pin_copies_are_waited_for(extension: Any, network: Blocks) -> None:
    expected = network(torch.ones(1, EDGE))
    stand("unet", network, Places(DEVICE, apart=True, mode="group"))
    extension.set_pinned_limit(extension.pinned() + LAYER)
    assert peak(extension, network) == pytest.approx(1, abs=0.1)
    assert torch.equal(run(network), expected)
    assert extension.waits(0)["copy from pageable memory"] > 5


def test_where_copies_are_wrong_unless_they_are_waited_for_they_are(extension: Any, network: Blocks) -> None:
    expected = network(torch.ones(1, EDGE))
    stand("unet", network, Places(DEVICE, apart=True, mode="group"))
    run(network)
    offload(network)
    await_copies(DEVICE, wanted=True)
    try:
        assert peak(extension, network) == pytest.approx(1, abs=0.1)
        assert torch.equal(run(network), expected)
    finally:
        await_copies(DEVICE, wanted=False)


@pytest.mark.parametrize("mode", ["none", *MODES])
def test_what_is_made_of_other_numbers_comes_the_same_way(extension: Any, network: Blocks, mode: OffloadMode) -> None:
    """Each weight times two, sent in the type that it is stored in."""
    stand("unet", network, Places(DEVICE, apart=True, mode=mode))
    run(network)

    def doubled(tensor: torch.Tensor, _device: torch.device) -> Made:
        return Made(tensor.data.cpu().double(), lambda there: (there * 2).to(torch.float32))

    expected = Blocks().requires_grad_(requires_grad=False)
    expected.load_state_dict({name: tensor.cpu() * 2 for name, tensor in network.state_dict().items()})
    compute_with(network, doubled)
    assert torch.equal(run(network), expected(torch.ones(1, EDGE)))
    compute_with(network, None)
    assert not torch.equal(run(network), expected(torch.ones(1, EDGE)))


def test_a_tied_weight_comes_once(extension: Any, network: Blocks) -> None:
    network.blocks[2].weight = network.blocks[1].weight
    expected = network(torch.ones(1, EDGE))
    stand("unet", network, Places(DEVICE, apart=True, mode="group"))
    assert torch.equal(run(network), expected)
    assert torch.equal(run(network), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("kind", "numbers", "shape"),
    [(HunyuanDiTAttentionPool, (5, 16, 2), (1, 5, 16)), (VectorQuantizer, (8, 4, 0.25), (1, 4, 2, 2))],
)
def test_weights_come_that_a_module_reads_without_calling_their_layer(
    extension: Any, kind: type[nn.Module], numbers: tuple[Any, ...], shape: tuple[int, ...], mode: OffloadMode
) -> None:
    network, reader = nn.Module(), kind(*numbers)
    network.blocks = nn.ModuleList([nn.Linear(4, 4), reader]).requires_grad_(requires_grad=False)
    stand("unet", network, Places(DEVICE, apart=True, mode=mode))
    inputs = torch.randn(shape)

    def made(device: torch.device) -> torch.Tensor:
        found = reader(inputs.to(device))
        return (found[0] if isinstance(found, tuple) else found).cpu()

    expected = made(torch.device("cpu"))
    onload(network)
    assert torch.allclose(made(DEVICE), expected, atol=1e-5)


@pytest.mark.parametrize("family", ["sd15", "sd3"])
def test_the_picture_is_the_same_to_the_bit(tmp_path: Path, family: str) -> None:
    model = save_tiny(tmp_path / family, family)
    whole, _ = generate(DiffusersEngine(), model, "float16", offload="none")
    for mode in ("model", *MODES):
        engine = DiffusersEngine()
        for _ in range(2):  # what comes next is known the second time
            made, _ = generate(engine, model, "float16", offload=mode, prompt="a red sun")
            assert (pixels(made) == pixels(whole)).all(), mode
