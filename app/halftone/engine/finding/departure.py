"""Finite and yet wrong: finds the first module whose output in the target precision departs from the range pass.

Whole activations would not fit, so a fixed sample of the elements of each output is compared.

A norm is where an offset shows, not where it comes from: beside a large number that all values share, a narrow type rounds their
differences away, and the norm subtracts the offset from what is left. Then the layer that adds the offset is named.
"""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
from torch import nn

from halftone.contract.facts import Finding
from halftone.contract.vocabulary import FLOAT_LIMITS, DType, FindingCode
from halftone.engine.basics.tensors import DTYPES, tensors_in
from halftone.engine.finding.findings import finite_or_none
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import streamed
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.recipe import Exact

SAMPLE: Final = 2048
"""Elements kept of each output."""
DEPARTED: Final = 0.1
"""Relative error of a sample from which a module counts as departed."""
_SHRUNK: Final = 0.5
"""A departed output that is less than this share of the expected size was lost to zero rather than clipped."""
_ROUNDED_AWAY: Final = 0.02
"""Rounding error of an offset, as a share of the spread around it, from which the spread counts as lost."""
_MOST: Final = 0.5
"""Share of an offset that the layer named as its cause must make."""
_OFFSET: Final = 8.0
"""Times its spread that a value must be on average to count as an offset."""


class Size(NamedTuple):
    """Root mean square of a tensor, and of the same without the mean of each channel."""

    rms: float
    spread: float

    @property
    def is_offset(self) -> bool:
        return self.rms >= _OFFSET * self.spread

    def is_lost(self, epsilon: float) -> bool:
        """A type that rounds with this relative error cannot hold the spread beside the offset."""
        return epsilon / 2 * self.rms >= _ROUNDED_AWAY * self.spread > 0


def departure_finding(loaded: Loaded, call: Call, step: int | None, masters: Exact, *, flat: bool, wide: DType) -> Finding:
    """The finding of a call whose result is finite but wrong (or of one colour). The component's state is put back."""
    name = call.component
    module, state = loaded.modules[name], loaded.states[name]
    with samples_of(module) as narrow:
        run_call(call, module, state.dtype)
    with streamed(loaded, name, wide, masters), samples_of(module) as expected:
        run_call(call, module, wide)
    shows, shrunk = _first_departure(narrow.kept, expected.kept)
    cause = offset_layer(expected, shows, state.dtype)
    where = shows if cause is None else cause
    peak, limit = finite_or_none(expected.peaks.get(where)), FLOAT_LIMITS[state.dtype]
    clipped = narrow.peaks.get(where, 0.0) == limit  # smaller than it should be, but from above
    code = code_of(peak, limit, flat=flat, shrunk=shrunk and cause is None and not clipped)
    facts: dict[str, str | int | float | bool] = {} if cause is None else {"shows": shows}
    return Finding(code=code, component=name, module=where, dtype=state.dtype, peak=peak, limit=limit, step=step, facts=facts)


def code_of(peak: float | None, limit: float, *, flat: bool, shrunk: bool) -> FindingCode:
    """What kind of wrong it is. peak: of the whole output in the range pass; only what passes the limit can stop there."""
    if flat:
        return "flat-output"
    if shrunk:
        return "underflow"
    return "saturated-output" if peak is not None and peak > limit else "inexact-output"


def offset_layer(expected: "Samples", shows: str, dtype: DType) -> str | None:
    """The first layer that makes the offset that `shows` reads in the range pass; None where `dtype` can hold it."""
    read = expected.read.get(shows)
    if read is None or not read.is_lost(torch.finfo(DTYPES[dtype]).eps):
        return None
    made = (name for name, size in expected.made.items() if size.is_offset and size.rms >= _MOST * read.rms)
    return next(made, None)


def _first_departure(narrow: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> tuple[str, bool]:
    for name, sample in narrow.items():
        reference = expected.get(name)
        if reference is None or reference.shape != sample.shape:
            continue
        scale = float(reference.norm())
        if scale > 0 and float((sample - reference).norm()) > DEPARTED * scale:
            return name, float(sample.norm()) < _SHRUNK * scale
    return "", False


@dataclass
class Samples:
    """By module, in order of completion: samples of first outputs (float32, CPU), their peaks, sizes made and read."""

    kept: dict[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    peaks: dict[str, float] = field(default_factory=dict[str, float])
    made: dict[str, Size] = field(default_factory=dict[str, Size])
    read: dict[str, Size] = field(default_factory=dict[str, Size])


def size_of(tensor: torch.Tensor) -> Size:
    """Channels: second dimension of pictures and videos, last of tokens. One value per channel counts as one."""
    values = tensor.detach().float()
    if values.dim() == 3:
        values = values.transpose(1, 2)
    rows = values.flatten(2) if values.dim() > 2 else values.reshape(1, -1)
    if rows.shape[-1] == 1:
        rows = rows.transpose(-1, -2)
    rms = float(torch.linalg.vector_norm(rows)) / rows.numel() ** 0.5
    return Size(rms, float(rows.var(dim=-1, correction=0).mean().sqrt()))


@contextmanager
def samples_of(module: nn.Module) -> Generator[Samples]:
    """What the modules give while the context is open."""
    samples = Samples()

    def keeper(name: str) -> Any:
        def keep(_module: nn.Module, args: Any, output: Any) -> None:
            tensor = next(tensors_in(output), None)
            if tensor is None or tensor.numel() == 0 or name in samples.kept:
                return
            flat = tensor.detach().reshape(-1)
            samples.kept[name] = flat[:: max(1, flat.numel() // SAMPLE)].float().cpu()
            samples.peaks[name] = float(flat.abs().max())
            samples.made[name] = size_of(tensor)
            if (entered := next(tensors_in(args), None)) is not None and entered.numel():
                samples.read[name] = size_of(entered)

        return keep

    with ExitStack() as hooks:
        for name, child in module.named_modules():
            hooks.enter_context(child.register_forward_hook(keeper(name)))
        yield samples
