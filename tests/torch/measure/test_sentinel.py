"""The watch over the latents: what it calls bad, and that it never waits for the device within a step."""

import math

import pytest
import torch

from halftone.measure.sentinel import Health, Sentinel

CPU = torch.device("cpu")
QUEUED = torch.device("mps")
"""A device that runs behind; its tensors here are the CPU's."""


def latents(*values: float) -> torch.Tensor:
    return torch.tensor(values).reshape(1, 1, 1, -1)


@pytest.mark.parametrize(
    ("values", "peak", "finite", "flat"),
    [
        ((1.0, -3.0, 2.0), 3.0, True, False),
        ((1.0, math.nan, 2.0), math.nan, False, False),
        ((1.0, math.inf, 2.0), math.inf, False, False),
        ((1.0, -math.inf, 2.0), math.inf, False, False),
        ((0.5, 0.5, 0.5), 0.5, True, True),
        ((0.0, 0.0, 0.0), 0.0, True, True),
    ],
)
def test_one_bad_element_is_enough(values: tuple[float, ...], peak: float, finite: bool, flat: bool) -> None:
    found = Sentinel(CPU).note(4, latents(*values))
    assert found is not None
    assert (found.step, found.finite, found.flat) == (4, finite, flat)
    assert found.peak == pytest.approx(peak, nan_ok=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_format_is_looked_at(dtype: torch.dtype) -> None:
    found = Sentinel(CPU).note(0, latents(1.0, math.nan).to(dtype))
    assert found is not None
    assert not found.finite


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_latents_clipped_at_the_limit_are_an_overflow(dtype: torch.dtype, sign: float) -> None:
    limit = torch.finfo(dtype).max
    clipped = torch.tensor([1.0, sign * limit], dtype=dtype).reshape(1, 1, 1, -1)
    found = Sentinel(CPU).note(0, clipped)
    assert found is not None
    assert not found.finite
    queued = Sentinel(QUEUED)
    queued.note(0, clipped)
    assert queued.settle() == found
    below = torch.nextafter(torch.tensor(limit, dtype=dtype), torch.tensor(0.0, dtype=dtype))
    sound = Sentinel(CPU).note(0, torch.stack([below, -below]).reshape(1, 1, 1, -1))
    assert sound == Health(0, float(below), True, False)


@pytest.mark.parametrize("device", [CPU, QUEUED])
def test_a_denoiser_that_clips_is_seen_though_the_latents_are_small(device: torch.device) -> None:
    sentinel = Sentinel(device)
    seen: list[Health | None] = []
    for step, largest in enumerate((1.0, 65504.0, -65504.0, 2.0)):
        sentinel.see(latents(0.5, largest).half())
        sentinel.see(latents(0.25, -1.0).half())
        seen.append(sentinel.note(step, latents(1.0, 2.0)))
    found = [health for health in (*seen, sentinel.settle()) if health is not None]
    assert [(health.step, health.finite) for health in found] == [(0, True), (1, False), (2, False), (3, True)]
    assert {health.peak for health in found} == {2.0}, "of the latents"
    sentinel.see(latents(65504.0, 1.0))
    assert (sentinel.note(4, latents(1.0, 2.0)) or sentinel.settle()) == Health(4, 2.0, True, False), "float32 holds more"


def test_the_limit_of_a_narrow_type_is_a_number_like_others_in_float32() -> None:
    found = Sentinel(CPU).note(0, latents(1.0, 65504.0))
    assert found == Health(0, 65504.0, True, False)


def test_a_device_with_a_queue_answers_one_step_later() -> None:
    sentinel = Sentinel(QUEUED)
    assert sentinel.note(0, latents(1.0, 2.0)) is None
    assert sentinel.note(1, latents(math.nan, 2.0)) == Health(0, 2.0, True, False)
    late = sentinel.note(2, latents(1.0, 2.0))
    assert late is not None
    assert (late.step, late.finite) == (1, False)
    assert sentinel.settle() == Health(2, 2.0, True, False)
    assert sentinel.settle() is None


def test_what_is_on_its_way_can_be_dropped() -> None:
    sentinel = Sentinel(QUEUED)
    sentinel.note(0, latents(math.nan, 2.0))
    sentinel.forget()
    assert sentinel.note(1, latents(1.0, 2.0)) is None
    assert sentinel.settle() == Health(1, 2.0, True, False)


def test_a_step_is_noted_without_waiting_for_its_numbers() -> None:
    """A tensor without data cannot be read: to read it now is an error, as it would be a wait on a device."""
    sentinel = Sentinel(torch.device("meta"))
    assert sentinel.note(0, torch.empty(1, 4, 8, 8, device="meta")) is None
    with pytest.raises((RuntimeError, NotImplementedError)):
        sentinel.settle()
