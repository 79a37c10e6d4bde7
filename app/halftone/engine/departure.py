"""Finite and yet wrong: finds the first module whose output in the target precision departs from the range pass.

Whole activations would not fit, so each output leaves a fixed sample of its elements behind, and the samples are compared.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import nn

from halftone.contract.facts import Finding
from halftone.contract.words import FLOAT_LIMITS, DType, FindingCode
from halftone.engine.calls import Call, run_call
from halftone.engine.findings import finite_or_none
from halftone.engine.load import Loaded
from halftone.engine.plans import apply_state
from halftone.engine.precision import ComponentState
from halftone.engine.tensors import tensors_in

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
    with _samples(module) as narrow:
        run_call(call, module, state.dtype)
    apply_state(loaded, name, ComponentState(dtype=wide), masters)
    with _samples(module) as expected:
        run_call(call, module, wide)
    apply_state(loaded, name, state, masters)
    where, shrunk = _first_departure(narrow, expected)
    code: FindingCode = "flat-output" if flat else "underflow" if shrunk else "saturated-output"
    peak = finite_or_none(float(expected[where].abs().max())) if where in expected else None
    return Finding(
        code=code, component=name, module=where, dtype=state.dtype, peak=peak, limit=FLOAT_LIMITS[state.dtype], step=step
    )


def _first_departure(narrow: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> tuple[str, bool]:
    for name, sample in narrow.items():
        reference = expected.get(name)
        if reference is None or reference.shape != sample.shape:
            continue
        scale = float(reference.norm())
        if scale > 0 and float((sample - reference).norm()) > DEPARTED * scale:
            return name, float(sample.norm()) < _SHRUNK * scale
    return "", False


@contextmanager
def _samples(module: nn.Module) -> Generator[dict[str, torch.Tensor]]:
    """Module name -> sample of its first output, in order of completion, float32 on the CPU."""
    kept: dict[str, torch.Tensor] = {}

    def keeper(name: str) -> Any:
        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            tensor = next(tensors_in(output), None)
            if tensor is not None and name not in kept:
                flat = tensor.detach().reshape(-1)
                kept[name] = flat[:: max(1, flat.numel() // SAMPLE)].float().cpu()

        return keep

    handles = [child.register_forward_hook(keeper(name)) for name, child in module.named_modules()]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()
