"""What a flight reports to its owner, and what it asks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from halftone.engine.basics.snapshot import Snapshot
from halftone.engine.basics.tensors import peak_of, tensors_in
from halftone.engine.sampling.frames import frame_count
from halftone.engine.weights.calls import Call
from halftone.measure.sentinel import Health
from halftone.measure.stats import ceiling, peak


class StepFailed(Exception):  # noqa: N818 - a turn of events, carried out of the pipeline
    """The latents after `step` (0-based) were not finite, or flat. calls: the step's denoiser calls; good: before it."""

    def __init__(self, health: Health, calls: tuple[Call, ...], good: Snapshot | None) -> None:
        super().__init__(f"step {health.step}")
        self.health = health
        self.calls = calls
        self.good = good


@dataclass(frozen=True)
class Decoded:
    """A call of a decoder, and what it gave: so many frames of a (height, width). picture: that, where it is a single one."""

    call: Call
    frames: int
    size: tuple[int, ...]
    picture: torch.Tensor | None = None

    @property
    def latents(self) -> torch.Tensor:
        return next(tensors_in((self.call.args, list(self.call.kwargs.values()))))


@dataclass
class Hooks:
    """What the owner of a flight hears, and decides."""

    check: Callable[[], None] = lambda: None
    keep: Callable[[], bool] = lambda: False
    on_phase: Callable[[str], None] = lambda _phase: None
    on_step: Callable[[int, int, Health | None, float], None] = lambda _step, _steps, _health, _seconds: None
    on_latents: Callable[[int, torch.Tensor, float], None] = lambda _step, _latents, _seconds: None
    before_call: Callable[[Call], None] | None = None
    """Given every call of a forward that is about to be made; may change the state of its component."""
    on_bad_call: Callable[[Call, Any], Any] | None = None
    """Given a call of an encoder or a decoder whose result is not finite; returns a better result or raises."""
    instead: Callable[[Call], Any] | None = None
    """Given a call of an encoder or a decoder that is about to be made; what it returns, if it is not None, is the result."""
    on_call: Callable[[Call, Any, float], None] | None = None
    """Called after every call of every component with its result and seconds; used by the check."""


def decoded(call: Call, result: Any) -> Decoded:
    """What is to be known of a finished call of a decoder."""
    made = next(tensors_in(result))
    frames = frame_count(made)
    return Decoded(call, frames, tuple(made.shape[-2:]), made if frames == 1 else None)


def is_in_range(value: Any) -> bool:
    """Whether a network's result is finite and below the limit of its type: at the limit of float16 or bfloat16 it was clipped.
    Not for inputs: masks hold the smallest number of a type on purpose.
    """
    return all(peak(tensor) < ceiling(tensor.dtype) for tensor in tensors_in(value))


def is_finite(value: Any) -> bool:
    """True when every number of a result is finite."""
    peak = peak_of(value)
    return peak < float("inf")
