"""What a device does beside computing, with known answers: random numbers, copies that nobody waits for, memory that stays."""

import time
from collections.abc import Callable
from typing import Final

import torch

from halftone.contract.facts import OperationResult
from halftone.contract.wording import Words
from halftone.health.faults import raise_if_lost
from halftone.measure.late import Courier
from halftone.measure.modes import Mode

SHARED: Final = ("cpu", "mps")
"""Devices whose memory the host reads itself."""
_DRAWN: Final = 65536
_SENT: Final = 4096
_GUARDED: Final = 2**20


class Guarded:
    """A block of the device's memory that nothing writes to, and what must stand in it."""

    def __init__(self, device: str) -> None:
        self._block = torch.full((_GUARDED,), 0x5A, dtype=torch.uint8, device=device)

    def is_whole(self) -> bool:
        """Whether it still holds what was put there."""
        return bool((self._block == 0x5A).all())


def check_random_numbers(mode: Mode, device: str, _guarded: Guarded) -> OperationResult:
    """The device's own noise: the same again from the same seed, other numbers from another, of mean 0 and spread 1."""

    def drawn(seed: int) -> torch.Tensor:
        return torch.randn(
            _DRAWN, device=device, dtype=mode.torch_dtype, generator=torch.Generator(device).manual_seed(seed)
        ).cpu()

    def right() -> bool:
        first, again, other = drawn(1), drawn(1), drawn(2)
        spread = torch.std_mean(first.float())
        usual = abs(float(spread[1])) < 0.05 and abs(float(spread[0]) - 1.0) < 0.05
        return torch.equal(first, again) and not torch.equal(first, other) and usual

    return _result(mode, "random-numbers", Words("65 536 drawn with a seed"), right)


def check_copies(mode: Mode, device: str, _guarded: Guarded) -> OperationResult:
    """Copy to the device and back without waiting, and compare bit by bit."""

    def right() -> bool:
        values = torch.randn(_SENT, generator=torch.Generator().manual_seed(9)).to(mode.torch_dtype)
        there = values.pin_memory().to(device, non_blocking=True)
        return torch.equal(Courier(heeding=False).send(there).read(), values)

    return _result(mode, "copies", Words("4 096 numbers without a wait"), right)


def check_memory(mode: Mode, _device: str, guarded: Guarded) -> OperationResult:
    """What no test wrote to still holds what it held."""
    return _result(mode, "memory", Words("1 MiB kept"), guarded.is_whole)


def _result(mode: Mode, operation: str, size: Words, right: Callable[[], bool]) -> OperationResult:
    """An answer of yes or no. What this device or torch lacks is "missing"."""
    started = time.perf_counter()
    try:
        outcome = "right" if right() else "wrong"
    except (RuntimeError, NotImplementedError, TypeError) as error:
        raise_if_lost(error, f"{operation} in {mode.name}")
        outcome = "missing"
    seconds = time.perf_counter() - started
    return OperationResult(mode=mode.name, operation=operation, size=size, outcome=outcome, seconds=seconds)
