"""Faults in the self-test that Halftone avoids: backends of attention, and asynchronous copies."""

from collections.abc import Sequence
from typing import Final

from halftone.contract.facts import OperationResult, SelfTestReport
from halftone.contract.vocabulary import DTYPE_NAMES, AttentionBackend
from halftone.contract.wording import Words

_NAMES: Final[tuple[AttentionBackend, ...]] = ("flash", "efficient", "cudnn", "math")
ON_CPU: Final[tuple[AttentionBackend, ...]] = ("flash", "math")
OPERATIONS: Final = {
    "matmul": "Matrix product",
    "convolution": "Convolution",
    "attention": "Attention",
    "attention-backend": "Attention backends",
    "softmax": "Softmax",
    "group-norm": "Group norm",
    "layer-norm": "Layer norm",
    "upsampling": "Upsampling",
    "functions": "exp, erf, sin",
    "long-sums": "Long sums",
    "casting": "Casting",
}
"""Tests that judge a type, by their plain names."""
HABITS: Final = {
    "near-limit": "Near the limit",
    "tiny-values": "Tiny values",
    "random-numbers": "Random numbers",
    "copies": "Copies",
    "memory": "Memory integrity",
}
"""The other tests."""
_FAULTS: Final = frozenset({"wrong", "nonfinite", "zeros"})


def faulty_backends(tests: Sequence[OperationResult]) -> frozenset[AttentionBackend]:
    """Backends of attention that were wrong in any of these tests."""
    return _backends_with(_FAULTS, tests)


def _backends_with(outcomes: frozenset[str], tests: Sequence[OperationResult]) -> frozenset[AttentionBackend]:
    """Backends with such an outcome in a type itself; modes that share a type (TF32, FP16 sums) do not count."""
    own = (one for one in tests if one.backend is not None and one.mode in DTYPE_NAMES)
    return frozenset(one.backend for one in own if one.backend and one.outcome in outcomes)


def sound_of(
    faulty: frozenset[AttentionBackend], right: frozenset[AttentionBackend] = frozenset(_NAMES)
) -> tuple[AttentionBackend, ...]:
    """Backends for attention; empty: torch's own choice. Where all are faulty none is better. right: those that passed a test.
    Math is always last: only it takes every shape.
    """
    fused: list[AttentionBackend] = [name for name in _NAMES if name != "math" and name in right - faulty]
    return (*fused, "math") if faulty and (fused or "math" not in faulty) else ()


def sound_backends(tests: Sequence[OperationResult]) -> tuple[AttentionBackend, ...]:
    """Backends that attention must choose from after these tests; empty: torch's own choice."""
    return sound_of(faulty_backends(tests), _backends_with(frozenset({"right"}), tests))


def is_absent(backend: AttentionBackend, kind: str) -> bool:
    """Whether this kind of device has no such backend of attention."""
    return kind == "cpu" and backend not in ("auto", *ON_CPU)


def avoided_backends(report: SelfTestReport | None) -> frozenset[AttentionBackend]:
    """Backends of attention that are wrong on this device, as the self-test found."""
    return faulty_backends(report.tests) if report else frozenset()


def copies_are_faulty(report: SelfTestReport | None) -> bool:
    """Whether a copy between the host and the device is wrong unless it is waited for."""
    return report is not None and any(one.operation == "copies" and one.outcome in _FAULTS for one in report.tests)


def detours(report: SelfTestReport | None, wanted: AttentionBackend) -> tuple[Words, ...]:
    """A sentence for each fault of the device that Halftone avoids. wanted: the setting of the attention backend."""
    faulty = avoided_backends(report)
    found: list[Words] = []
    open_choice = report is not None and (wanted == "auto" or is_absent(wanted, report.device.backend))
    if report is not None and open_choice and sound_backends(report.tests):
        names = tuple(name for name in _NAMES if name in faulty)
        found.append(Words("Attention avoids {0}, which failed the self-test on this device.", (names,)))
    elif wanted in faulty:
        found.append(Words("Attention uses {0}, your setting, though it failed the self-test on this device.", (wanted,)))
    if copies_are_faulty(report):
        found.append(Words("Copies are synchronous: others failed the self-test on this device."))
    return tuple(found)
