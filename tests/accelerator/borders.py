"""Between the host and the card: weights that other code moved come back, and random numbers go on where they stood.

`test_card.py` runs this in a process of its own.
"""

from pathlib import Path

import pytest
import torch
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.engine_runs import generate
from tests.helpers.tiny import save_tiny
from torch import nn

from halftone.contract.request import Control
from halftone.engine.service import DiffusersEngine
from halftone.training.guard import TrainingGuard


def stands() -> list[bytes]:
    """Where torch's random numbers stand, on the host and on both devices."""
    module = torch.get_device_module("card")
    return [state.numpy().tobytes() for state in (torch.get_rng_state(), *map(module.get_rng_state, range(2)))]


@pytest.mark.logs("Other code changed the dtype or device of 0.weight")
def test_a_layer_that_other_code_moved_to_the_host_comes_back() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to("card")
    x = torch.ones(2, 4, device="card")
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters(), lr=1e-2))
    guard.step(lambda: network(x).square().mean())
    network[0].to("cpu")
    report = guard.step(lambda: network(x).square().mean())
    assert [(caught.cause, caught.did) for caught in report.caught] == [("cast-outside", "restored")]
    assert report.applied
    assert {parameter.device for parameter in network.parameters()} == {x.device}


def test_a_picture_leaves_the_users_random_numbers_as_they_were(tmp_path: Path) -> None:
    model = save_tiny(tmp_path / "sd15", "sd15")
    net = save_net(make_net(model), tmp_path / "net")
    control = Control(path=str(net), image=str(picture(tmp_path / "square.png")))
    before = stands()
    generate(DiffusersEngine(), model, "float16", controls=(control,))
    assert stands() == before
