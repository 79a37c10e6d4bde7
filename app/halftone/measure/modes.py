"""The number formats a device is tested in, and the torch switches each of them needs."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import torch

from halftone.contract.facts import DeviceFacts
from halftone.contract.vocabulary import DType


class Mode(msgspec.Struct, frozen=True, kw_only=True):
    """A format with its way of summing. bits: significant, the implicit one included; epsilon: from 1 to the next number."""

    name: str
    dtype: DType
    bits: int
    limit: float
    tf32: bool = False
    half_sums: bool = False

    @property
    def epsilon(self) -> float:
        return 2.0 ** (1 - self.bits)

    @property
    def torch_dtype(self) -> torch.dtype:
        return getattr(torch, self.dtype)


_FULL: Final = 3.4028234663852886e38
MODES: Final = (
    Mode(name="float32", dtype="float32", bits=24, limit=_FULL),
    Mode(name="tf32", dtype="float32", bits=11, limit=_FULL, tf32=True),
    Mode(name="float16", dtype="float16", bits=11, limit=65504.0),
    Mode(name="float16-sums", dtype="float16", bits=11, limit=65504.0, half_sums=True),
    Mode(name="bfloat16", dtype="bfloat16", bits=8, limit=3.3895313892515355e38),
)

WITHOUT_SWITCHES: Final = ("cpu", "mps", "xpu", "rocm")
"""Backends of torch's own that do not heed the switches of CUDA's matrix products."""


def modes_for(device: DeviceFacts) -> tuple[Mode, ...]:
    """The modes that mean something on this device: TF32 and float16 sums are switches of NVIDIA's matrix units. Whether a device
    that its maker added to torch heeds the first is measured.
    """
    nvidia = device.backend == "cuda"
    tf32 = _major(device) >= 8 if nvidia else device.backend not in WITHOUT_SWITCHES and _heeds_tf32(device.id)
    half_sums = nvidia and _major(device) >= 7 and hasattr(torch.backends.cuda.matmul, "allow_fp16_accumulation")
    return tuple(m for m in MODES if (tf32 or not m.tf32) and (half_sums or not m.half_sums))


def _heeds_tf32(device: str) -> bool:
    """Whether the switch changes a matrix product or a convolution there."""
    values = torch.randn(1, 8, 16, 16, generator=torch.Generator().manual_seed(3))
    made: list[torch.Tensor] = []
    try:
        there = values.to(device)
        for mode in MODES[:2]:
            with in_mode(mode):
                made += [(there @ there).cpu(), torch.nn.functional.conv2d(there, there).cpu()]
    except RuntimeError:  # what it lacks, the tests tell
        return False
    return not (torch.equal(made[0], made[2]) and torch.equal(made[1], made[3]))


def _major(device: DeviceFacts) -> int:
    major = (device.capability or "0").partition(".")[0]
    return int(major) if major.isdigit() else 0


@contextmanager
def switched(changes: list[tuple[Any, str, object]]) -> Generator[None]:
    """Set attributes of torch's switchboards inside the block. A switch that this torch lacks is left out."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes if hasattr(owner, name)]
    try:
        for owner, name, value in changes:
            if hasattr(owner, name):
                setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@contextmanager
def in_mode(mode: Mode) -> Generator[None]:
    """No gradients, and sums as the mode says; on devices other than NVIDIA's the switches do nothing."""
    matmul = torch.backends.cuda.matmul
    switches: list[tuple[Any, str, object]] = [
        (matmul, "allow_fp16_accumulation", mode.half_sums),
        (matmul, "allow_fp16_reduced_precision_reduction", False),
        (matmul, "allow_bf16_reduced_precision_reduction", False),
        (matmul, "allow_tf32", mode.tf32),
        (torch.backends.cudnn, "allow_tf32", mode.tf32),
    ]
    with torch.no_grad(), switched(switches):
        yield


def synchronize(device: str) -> None:
    """Wait for the device; a CPU is never behind."""
    if device != "cpu":
        torch.accelerator.synchronize(torch.device(device))


def seconds_of(run: Callable[[], object], device: str, *, budget: float = 0.1, rounds: int = 5) -> float:
    """Shortest of the timed runs, in seconds, that fit into `budget` seconds: at least one after a warm-up."""
    best = _timed(run, device)
    spent = best
    while rounds and (spent < budget or best == spent < 2 * budget):
        latest = _timed(run, device)
        best, spent, rounds = min(best, latest), spent + latest, rounds - 1
    return max(best, 1e-7)


def in_turns(
    runs: Sequence[Callable[[], object]], device: str, *, rounds: int = 7, least: int = 3, budget: float = 1.0
) -> list[tuple[float, ...]]:
    """Seconds of these runs, made in turns (the first, the second, …, the first again), so that a load that lasts a while falls
    on all. Each runs once before to warm up; at least `least` rounds, and no more once `budget` seconds are spent.
    """
    for run in runs:
        _timed(run, device)
    taken: list[list[float]] = [[] for _ in runs]
    started = time.perf_counter()
    for done in range(rounds):
        if done >= least and time.perf_counter() - started > budget:
            break
        for seconds, run in zip(taken, runs, strict=True):
            seconds.append(max(_timed(run, device), 1e-7))
    return [tuple(seconds) for seconds in taken]


def _timed(run: Callable[[], object], device: str) -> float:
    synchronize(device)
    start = time.perf_counter()
    run()
    synchronize(device)
    return time.perf_counter() - start
