"""Finite and yet wrong: finds the first module whose output in the target precision departs from the range pass.

Whole activations would not fit, so each output leaves a fixed sample of its elements behind, and the samples are compared.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn

from halftone.contract.facts import Finding
from halftone.contract.words import FLOAT_LIMITS, DType, FindingCode
from halftone.engine.basics.tensors import tensors_in
from halftone.engine.finding.findings import finite_or_none
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import apply_state
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.precision import ComponentState

SAMPLE: Final = 2048
"""Elements kept of each output."""
DEPARTED: Final = 0.1
"""Relative error of a sample from which a module counts as departed."""
_SHRUNK: Final = 0.5
"""A departed output that is less than this share of the expected size was lost to zero rather than clipped."""


def departure_finding(
    loaded: Loaded, call: Call, step: int | None, masters: Mapping[str, torch.Tensor], *, flat: bool, wide: DType
) -> Finding:
    """The finding of a call whose result is finite but wrong (or of one colour). The component's state is put back."""
    name = call.component
    module, state = loaded.modules[name], loaded.states[name]
    with samples_of(module) as narrow:
        run_call(call, module, state.dtype)
    apply_state(loaded, name, ComponentState(dtype=wide), masters)
    with samples_of(module) as expected:
        run_call(call, module, wide)
    apply_state(loaded, name, state, masters)
    where, shrunk = _first_departure(narrow.kept, expected.kept)
    peak, limit = finite_or_none(expected.peaks.get(where)), FLOAT_LIMITS[state.dtype]
    code = code_of(peak, limit, flat=flat, shrunk=shrunk)
    return Finding(code=code, component=name, module=where, dtype=state.dtype, peak=peak, limit=limit, step=step)


def code_of(peak: float | None, limit: float, *, flat: bool, shrunk: bool) -> FindingCode:
    """What kind of wrong it is. peak: of the whole output in the range pass; only what passes the limit can stop there."""
    if flat:
        return "flat-output"
    if shrunk:
        return "underflow"
    return "saturated-output" if peak is not None and peak > limit else "inexact-output"


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
    """By module, in order of completion: a sample of its first output, float32 on the CPU, and the peak of the whole output."""

    kept: dict[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    peaks: dict[str, float] = field(default_factory=dict[str, float])


@contextmanager
def samples_of(module: nn.Module) -> Generator[Samples]:
    """What the modules give while the context is open."""
    samples = Samples()

    def keeper(name: str) -> Any:
        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            tensor = next(tensors_in(output), None)
            if tensor is not None and name not in samples.kept:
                flat = tensor.detach().reshape(-1)
                samples.kept[name] = flat[:: max(1, flat.numel() // SAMPLE)].float().cpu()
                samples.peaks[name] = float(flat.abs().max()) if flat.numel() else 0.0

        return keep

    handles = [child.register_forward_hook(keeper(name)) for name, child in module.named_modules()]
    try:
        yield samples
    finally:
        for handle in handles:
            handle.remove()
