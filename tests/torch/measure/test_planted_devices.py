"""A processor in which one operation is made wrong: the self-test names it, with format and size, and Auto keeps away from it."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from halftone.contract.facts import DTypeReport, SelfTestReport
from halftone.measure.devices import find_device
from halftone.measure.selftest import run_self_test

CPU = find_device("cpu")
Spoil = Callable[[torch.Tensor], torch.Tensor]


class Clocked(TorchDispatchMode):
    """A processor whose operations take the time that its own clock shows: every one the same, large ones in float32 longer."""

    def __init__(self, float32: float) -> None:
        super().__init__()
        self.seconds = 0.0
        self._float32 = float32

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        is_large = isinstance(result, torch.Tensor) and result.dtype == torch.float32 and result.numel() >= 8 * 256 * 40
        slow = is_large and any(name in str(func) for name in ("aten.mm", "convolution"))
        self.seconds += self._float32 if slow else 0.05
        return result


class Planted(Clocked):
    """The results of one operation are spoiled where they are of that format and have at least so many elements."""

    def __init__(self, operation: str, dtype: torch.dtype, spoil: Spoil, at_least: int = 1) -> None:
        super().__init__(20.0)
        self._operation = operation
        self._dtype = dtype
        self._spoil = spoil
        self._at_least = at_least

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if self._operation not in str(func):
            return result
        first = result[0] if isinstance(result, tuple) else result
        if first.dtype != self._dtype or first.numel() < self._at_least:
            return result
        spoiled = self._spoil(first)
        return (spoiled, *result[1:]) if isinstance(result, tuple) else spoiled


def measured(planted: TorchDispatchMode) -> SelfTestReport:
    with pytest.MonkeyPatch.context() as patched, planted:
        if isinstance(planted, Clocked):
            patched.setattr(time, "perf_counter", lambda: planted.seconds)
        return run_self_test(CPU, lambda *_: None, lambda: None)


def verdict(report: SelfTestReport, dtype: str) -> DTypeReport:
    return next(found for found in report.dtypes if found.dtype == dtype)


def _nan_in_one(result: torch.Tensor) -> torch.Tensor:
    spoiled = result.clone()
    spoiled[(-1,) * spoiled.dim()] = float("nan")
    return spoiled


@pytest.mark.parametrize(
    ("operation", "dtype", "spoil", "at_least", "named", "outcome", "reason"),
    [
        ("aten.mm", "float16", torch.zeros_like, 1, "matmul", "zeros", "Matrix product (16 × 64 × 32) gives zeros."),
        (
            "aten.mm",
            "bfloat16",
            lambda x: x * 1.5,
            512 * 512,
            "matmul",
            "wrong",
            "Matrix product (512 × 512 × 512) gives wrong values.",
        ),
        (
            "convolution",
            "float16",
            _nan_in_one,
            1,
            "convolution",
            "nonfinite",
            "Convolution (3 × 3, 1 × 16 × 8 × 8) gives NaN or infinity.",
        ),
        ("scaled_dot_product", "bfloat16", _nan_in_one, 10**4, "attention", "nonfinite", "gives NaN or infinity."),
        ("native_group_norm", "float16", lambda x: x + 1, 10**5, "group-norm", "wrong", "Group norm (2 × 320 × 32 × 32) gives"),
        ("native_layer_norm", "float16", torch.zeros_like, 1, "layer-norm", "zeros", "Layer norm (16 × 64) gives zeros."),
        ("aten._softmax", "bfloat16", lambda x: x * 2, 1, "softmax", "wrong", "Softmax (16 × 64) gives wrong values."),
        ("aten.gelu", "float16", _nan_in_one, 1, "functions", "nonfinite", "Functions (GELU) gives NaN or infinity."),
        ("aten.sum", "bfloat16", lambda x: x * 0.5, 1, "long-sums", "wrong", "Long sum (32 768 terms) gives wrong values."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_size(
    operation: str, dtype: str, spoil: Spoil, at_least: int, named: str, outcome: str, reason: str
) -> None:
    report = measured(Planted(operation, getattr(torch, dtype), spoil, at_least))
    found = verdict(report, dtype)
    assert found.state == "wrong"
    assert found.failing is not None
    assert (found.failing.operation, found.failing.outcome, found.failing.mode) == (named, outcome, dtype)
    assert reason in str(found.reason)
    assert report.auto != dtype
    others = {one.state for one in report.dtypes if one.dtype != dtype}
    assert "wrong" not in others


@pytest.mark.parametrize(("float32", "state"), [(20.0, "works"), (0.0, "slow")])
def test_slow_is_measured_against_float32(float32: float, state: str) -> None:
    found = verdict(measured(Clocked(float32)), "bfloat16")
    assert found.state == state
    assert found.speed is not None
    assert (found.speed > 1) is (state == "works")


class Lacking(TorchDispatchMode):
    """Half of what is asked of bfloat16 is not there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [value for value in args if isinstance(value, torch.Tensor)]
        copies = any(name in str(func) for name in ("_to_copy", "detach", "clone", "copy_"))
        if given and given[0].dtype == torch.bfloat16 and not copies:
            raise NotImplementedError("not implemented for 'BFloat16'")
        return func(*args, **(kwargs or {}))


@pytest.mark.logs("bits of bfloat16", "unet-step in bfloat16", "transformer-step in bfloat16")
def test_a_format_that_is_not_there_is_missing() -> None:
    report = measured(Lacking())
    assert verdict(report, "bfloat16").state == "missing"
    assert report.auto != "bfloat16"
    assert {str(effect.note) for effect in report.effects if (effect.setting, effect.value) == ("precision", "bfloat16")} == {
        "This device cannot compute in it."
    }
