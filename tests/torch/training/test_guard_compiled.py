"""Under torch.compile the guard tells the names that the network had before it was compiled."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from halftone.training.guard import TrainingGuard

pytestmark = [  # the first two are dynamo's own
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <function StorageWeakRef"),
    pytest.mark.processor("dynamo traces no mode that places tensors on the card"),
]
WAYS = ("plain", "whole", "part", "named")


def compiled(network: nn.Sequential, way: str) -> Any:
    """What a guard is given. The eager backend runs the traced graph as it is, so that no compiler is needed."""
    match way:
        case "whole":
            return torch.compile(network, backend="eager")
        case "part":
            network[1] = torch.compile(network[1], backend="eager")  # type: ignore[call-overload]
        case "named":
            return {"unet": torch.compile(network, backend="eager")}
        case _:
            pass
    return network


def small(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.SiLU()), nn.Linear(4, 1)).to(dtype)


def loss_of(given: Any, dtype: torch.dtype = torch.float32) -> Callable[[], Tensor]:
    network = given["unet"] if isinstance(given, dict) else given
    return lambda: network(torch.ones(2, 4, dtype=dtype)).float().mean()


def called(way: str, name: str) -> str:
    return f"unet.{name}" if way == "named" else name


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.logs("was noted, and nothing was changed", "left out before it touched")
def test_what_is_caught_has_the_names_of_the_network(way: str) -> None:
    network = small()
    layer: nn.Linear = network[1][0]  # type: ignore[index,assignment]
    given = compiled(network, way)
    guard = TrainingGuard(given, torch.optim.SGD(network.parameters(), lr=1e-3), on_bad="skip")
    loss = loss_of(given)
    assert guard.step(loss).caught == ()
    with torch.no_grad():
        layer.weight.fill_(3e38)
    changed, overflow = guard.step(loss).caught
    assert (changed.cause, changed.name) == ("weights-changed", called(way, "1.0.weight"))
    assert (overflow.watched, overflow.name, overflow.kind) == ("activations", called(way, "1.0"), "Linear")
    assert not [name for name in (*changed.further, *overflow.further) if "_orig_mod" in name]
    assert len(set(overflow.further)) == len(overflow.further)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.logs("reached 478")
def test_a_cure_is_kept_under_the_name_of_the_network_and_put_again_by_it(way: str) -> None:
    def trained() -> tuple[TrainingGuard, Callable[[], Tensor]]:
        network = small(torch.float16)
        with torch.no_grad():
            network[1][0].weight.fill_(3e4)  # type: ignore[index,union-attr]
            network[0].weight.fill_(1.0)  # type: ignore[union-attr]
            network[2].weight.fill_(1e-4)  # type: ignore[union-attr]
        network[2].requires_grad_(False)  # its gradient would be as large
        given = compiled(network, way)
        optimizer = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=1e-6)
        return TrainingGuard(given, optimizer, forecast="off"), loss_of(given, torch.float16)

    guard, loss = trained()
    report = guard.step(loss)
    assert (report.applied, [one.name for one in report.caught][:1]) == (True, [called(way, "1.0")])
    assert guard.cures
    assert {name for _, name in guard.cures} == {"unet" if way == "named" else ""}
    again, same = trained()
    again.go_on(1, [("float32-module", called(way, "1.0")), *guard.cures])
    assert again.cures == guard.cures, "the whole network takes the place of its layer"
    assert again.step(same).caught == ()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.logs("learning rate")
def test_what_is_foreseen_has_the_names_of_the_network(way: str) -> None:
    network = small()
    guard = TrainingGuard(compiled(network, way), torch.optim.AdamW(network.parameters(), lr=5.0))
    assert {omen.name for omen in guard.omens if omen.name} == {called(way, "0.weight")}
