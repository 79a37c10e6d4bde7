"""What the card in software promises. `test_card.py` runs this in a process of its own: the device stays for the life of one."""

from typing import Any

import pytest
import torch
from tests.accelerator import card

NAMES = ("card:0", "card:1")


@pytest.fixture
def extension() -> Any:
    return card.install()


def test_its_memory_ends(extension: Any) -> None:
    extension.set_limit(0, extension.used(0) + 4096)
    with pytest.raises(torch.OutOfMemoryError, match="card out of memory"):
        torch.empty(4097, dtype=torch.uint8, device="card")
    kept = torch.empty(4096, dtype=torch.uint8, device="card")
    torch.empty(4097, dtype=torch.uint8, device="card:1")  # which has memory of its own
    del kept
    torch.empty(4096, dtype=torch.uint8, device="card")


def test_an_allocation_can_be_made_to_fail(extension: Any) -> None:
    extension.fail_allocations(0, 1, 1)
    first = torch.empty(4, device="card")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(4, device="card")
    assert torch.empty_like(first).device == first.device


def test_it_tells_its_memory(extension: Any) -> None:
    before = torch.get_device_module("card").memory_allocated(0)
    torch.accelerator.reset_peak_memory_stats("card:0")
    kept = torch.empty(3 << 20, dtype=torch.uint8, device="card")
    assert extension.used(0) == before + kept.numel()
    del kept
    assert torch.accelerator.max_memory_allocated("card:0") == before + (3 << 20)
    assert extension.used(0) == before


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda there: there.sum().item(), "item"),
        (lambda there: bool(there[0] > 0), "item"),
        (lambda there: there.cpu(), "copy to the host"),
        (lambda there: there.tolist(), "copy to the host"),
        (lambda there: there[there > 0], "aten::nonzero"),
        (lambda there: there.nonzero(), "aten::nonzero"),
        (lambda there: torch.tensor([1.0], device=there.device), "copy from pageable memory"),
        (lambda there: torch.accelerator.synchronize(there.device), "synchronize"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_every_wait_is_counted(extension: Any, name: str, act: Any, reason: str) -> None:
    there = torch.ones(4).to(name)
    extension.reset()
    act(there)
    assert extension.waits(there.device.index) == {reason: 1}
    assert not extension.waits(1 - there.device.index)


def test_nothing_else_waits(extension: Any) -> None:
    there, host = torch.ones(4, 4, device="card"), torch.ones(4, 4).pin_memory()
    extension.reset()
    (there @ there + 2.0).softmax(-1)[1:, :2].clone().add_(torch.tensor(1.0))
    there.copy_(host, non_blocking=True)
    host.copy_(there, non_blocking=True)
    torch.where(there > 0, there, 0.0)
    assert extension.waits(0) == {}


def test_a_wait_tells_who_waited(extension: Any) -> None:
    told: list[tuple[int, str]] = []
    extension.set_on_wait(lambda device, reason: told.append((device, reason)))
    torch.ones(1, device="card:1").item()
    extension.set_on_wait(None)
    assert told == [(1, "item")]


@pytest.mark.parametrize("other", ["cpu", "card:1"])
@pytest.mark.parametrize(
    "act",
    [
        torch.add,
        torch.matmul,
        lambda one, other: torch.cat([one, other]),
        torch.nn.functional.linear,
        lambda one, other: torch.nn.functional.conv1d(one[None], other[None]),
        lambda one, other: torch.nn.functional.layer_norm(one, (4,), other[0]),
        lambda one, other: torch.nn.functional.scaled_dot_product_attention(one[None], other[None], other[None]),
    ],
)
def test_devices_do_not_mix(act: Any, other: str) -> None:
    with pytest.raises(RuntimeError, match=r"same device|two devices"):
        act(torch.ones(4, 4, device="card"), torch.ones(4, 4, device=other))


def test_a_number_of_the_host_may_stand_beside_its_tensors() -> None:
    assert (torch.ones(2, device="card") * torch.tensor(3.0)).tolist() == [3.0, 3.0]


def test_a_copy_to_pinned_memory_is_late(extension: Any) -> None:
    host = torch.zeros(2, pin_memory=True)
    host.copy_(torch.ones(2, device="card"), non_blocking=True)
    event = torch.Event(device="card")
    event.record(torch.accelerator.current_stream("card:0"))
    assert host.tolist() == [0.0, 0.0]
    event.synchronize()
    assert host.tolist() == [1.0, 1.0]
    assert extension.waits(0) == {"event": 1}


def crossing(extension: Any, *, early: bool = False, late: bool = False, unseen: bool = False) -> tuple[list[float], int]:
    """What is computed with a copy on a stream of its own, and how often memory was out of order."""
    host, computing = torch.ones(2).pin_memory(), torch.accelerator.current_stream("card:0")
    side = torch.Stream(device="card:0")
    torch.zeros(2, device="card").add_(1)
    there = torch.empty(2, device="card")
    if not early:
        side.wait_event(computing.record_event())
    with side:
        there.copy_(host, non_blocking=True)
        arrived = side.record_event()
    if not unseen:
        computing.wait_event(arrived)
    made = there * 2
    if not late:
        arrived.synchronize()
    host.fill_(3)
    result = made.tolist(), extension.disorder(0)
    extension.reset()
    return result


def test_copies_on_a_stream_of_their_own_have_to_be_ordered(extension: Any) -> None:
    assert crossing(extension) == ([2.0, 2.0], 0)
    assert crossing(extension, early=True) == ([2.0, 2.0], 1)
    assert crossing(extension, late=True) == ([2.0, 2.0], 1)
    assert crossing(extension, unseen=True)[0] != [2.0, 2.0]


def test_memory_to_pin_can_end(extension: Any) -> None:
    extension.set_pinned_limit(extension.pinned() + 100)
    held = torch.empty(100, dtype=torch.uint8, pin_memory=True)
    with pytest.raises(RuntimeError, match="to pin"):
        torch.empty(1, pin_memory=True)
    assert held.is_pinned()


def test_an_event_of_another_device_does_not_tell_when_it_is_there() -> None:
    host = torch.zeros(1, pin_memory=True)
    host.copy_(torch.ones(1, device="card:1"), non_blocking=True)
    wrong = torch.Event(device="card")
    wrong.record()  # of the current device
    wrong.synchronize()
    assert host.item() == 0.0
    torch.accelerator.synchronize("card:1")
    assert host.item() == 1.0


def test_who_asks_again_and_again_gets_there() -> None:
    event = torch.Event(device="card")
    torch.ones(2, device="card").add_(1).add_(1)
    event.record(torch.accelerator.current_stream("card:0"))
    assert not event.query()
    assert any(event.query() for _ in range(20))


def test_pinned_memory_is_told_apart() -> None:
    assert torch.zeros(2, pin_memory=True).is_pinned()
    assert torch.zeros(4).pin_memory()[1:].is_pinned()
    assert not torch.zeros(2).is_pinned()


def test_its_random_numbers_are_its_own() -> None:
    def drawn(device: str) -> list[float]:
        return torch.randn(4, device=device, generator=torch.Generator(device).manual_seed(1)).tolist()

    assert drawn("card") == drawn("card:1")
    assert drawn("card") != drawn("cpu")
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(4, device="card", generator=torch.Generator().manual_seed(1))


def test_its_own_generator_can_be_put_back() -> None:
    module = torch.get_device_module("card")
    torch.manual_seed(3)
    state = module.get_rng_state(0)
    first = torch.rand(3, device="card").tolist()
    assert torch.rand(3, device="card").tolist() != first
    module.set_rng_state(state, 0)
    assert torch.rand(3, device="card").tolist() == first


@pytest.mark.parametrize(
    ("dtype", "masked", "kernel"),
    [
        (torch.float16, False, "flash"),
        (torch.bfloat16, False, "flash"),
        (torch.float16, True, "efficient"),
        (torch.float32, False, "efficient"),
    ],
)
def test_attention_is_fused_as_on_a_graphics_card(dtype: torch.dtype, masked: bool, kernel: str) -> None:
    query = torch.randn(1, 2, 8, 16, dtype=dtype)
    mask = torch.zeros(1, 1, 8, 8, dtype=dtype) if masked else None
    expected = torch.nn.functional.scaled_dot_product_attention(query, query, query, mask)
    there = query.to("card")
    with torch.profiler.profile() as profile:
        made = torch.nn.functional.scaled_dot_product_attention(there, there, there, None if mask is None else mask.to("card"))
    assert any(f"_{kernel}_attention" in event.name for event in profile.events() or [])
    assert torch.allclose(made.cpu(), expected, atol=1e-2)


def test_a_plain_product_takes_its_place_where_it_is_asked_for() -> None:
    there = torch.randn(1, 2, 8, 16).to("card")
    fused = torch.nn.functional.scaled_dot_product_attention(there, there, there)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        plain = torch.nn.functional.scaled_dot_product_attention(there, there, there)
    assert torch.allclose(fused.cpu(), plain.cpu(), atol=1e-5)


def test_norms_take_any_layout() -> None:
    images = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last)
    expected = torch.nn.functional.group_norm(images, 2)
    assert torch.allclose(torch.nn.functional.group_norm(images.to("card"), 2).cpu(), expected, atol=1e-6)
    turned = torch.randn(4, 6).t()
    assert torch.allclose(
        torch.nn.functional.layer_norm(turned.to("card"), (4,)).cpu(), torch.nn.functional.layer_norm(turned, (4,)), atol=1e-6
    )


def test_views_share_its_memory() -> None:
    there = torch.zeros(2, 3, 2, device="card")
    torch.view_as_complex(there)[0, 0] = torch.tensor(1 + 2j)
    torch.view_as_real(torch.view_as_complex(there))[1, 2, 0] = 5
    there.unfold(1, 2, 1)[0, 1, 0, 0] = 7
    assert there.tolist() == [[[1, 2], [7, 0], [0, 0]], [[0, 0], [0, 0], [5, 0]]]


def test_gradients_are_those_of_the_processor() -> None:
    def gradients(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        layers = (torch.nn.Conv2d(3, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.Flatten(), torch.nn.Linear(64, 2))
        network = torch.nn.Sequential(*layers)
        inputs = torch.randn(2, 3, 6, 6)
        network.to(device)(inputs.to(device)).square().sum().backward()
        return [parameter.grad.cpu() for parameter in network.parameters() if parameter.grad is not None]

    ours, theirs = gradients("card"), gradients("cpu")
    assert len(ours) == len(theirs) == 6
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(ours, theirs, strict=True))


def test_autocast_narrows_its_products() -> None:
    there = torch.ones(2, 2, device="card")
    with torch.autocast("card", torch.float16):
        assert (there @ there).dtype == torch.float16
        assert there.softmax(-1).dtype == torch.float32


def test_tied_weights_stay_tied() -> None:
    network = torch.nn.Module()
    network.one = torch.nn.Linear(2, 2)
    network.other = torch.nn.Linear(2, 2)
    network.other.weight = network.one.weight
    network.to("card")
    assert network.one.weight is network.other.weight


def test_without_arithmetic_the_memory_is_the_same(extension: Any) -> None:
    """Of large tensors alone; small ones are computed."""

    def peak(*, idle: bool) -> int:
        extension.set_idle(idle)
        layers = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.GroupNorm(2, 16), torch.nn.SiLU()).to("card")
        images = torch.randn(1, 8, 256, 256, device="card")
        torch.accelerator.reset_peak_memory_stats("card:0")
        before = extension.used(0)
        with torch.no_grad():
            made = layers(images).flatten(2).transpose(1, 2)
            torch.nn.functional.scaled_dot_product_attention(made[:, None], made[:, None, :64], made[:, None, :64]).abs()
        return extension.peak(0) - before

    assert peak(idle=True) == peak(idle=False) > 0
    extension.set_idle(True)
    assert (torch.ones(3, device="card") * 2).tolist() == [2.0, 2.0, 2.0]
