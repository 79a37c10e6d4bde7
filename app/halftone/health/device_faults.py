"""What the self-test found wrong that Halftone goes around: backends of attention, and copies that nobody waits for."""

from collections.abc import Sequence
from typing import Final

from halftone.contract.facts import OperationResult, SelfTestReport
from halftone.contract.words import AttentionBackend

_NAMES: Final[tuple[AttentionBackend, ...]] = ("flash", "efficient", "cudnn", "math")
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
_FAULTS: Final = frozenset({"wrong", "nonfinite", "zeros"})


def backend_of(test: OperationResult) -> AttentionBackend:
    """The backend of attention that a test ran on."""
    return next(name for name in _NAMES if test.size.startswith(f"{name},"))


def faulty_backends(tests: Sequence[OperationResult]) -> frozenset[AttentionBackend]:
    """Backends of attention that were wrong in any of these tests."""
    return frozenset(backend_of(one) for one in tests if one.operation == "attention-backend" and one.outcome in _FAULTS)


def sound_of(faulty: frozenset[AttentionBackend]) -> tuple[AttentionBackend, ...]:
    """Backends that attention must choose from; empty: torch's own choice. Where all are faulty none is better."""
    return tuple(name for name in _NAMES if name not in faulty) if 0 < len(faulty) < len(_NAMES) else ()


def avoided_backends(report: SelfTestReport | None) -> frozenset[AttentionBackend]:
    """Backends of attention that are wrong on this device, as the self-test found."""
    return faulty_backends(report.tests) if report else frozenset()


def copies_are_faulty(report: SelfTestReport | None) -> bool:
    """Whether a copy between the host and the device is wrong unless it is waited for."""
    return report is not None and any(one.operation == "copies" and one.outcome in _FAULTS for one in report.tests)


def detours(report: SelfTestReport | None, wanted: AttentionBackend) -> tuple[str, ...]:
    """A sentence for each fault of the device that Halftone goes around. wanted: the setting of the attention backend."""
    faulty = avoided_backends(report)
    found: list[str] = []
    if faulty and wanted == "auto":
        names = ", ".join(name for name in _NAMES if name in faulty)
        found.append(f"Attention runs on other backends than {names}, which the self-test found faulty on this device.")
    elif wanted in faulty:
        found.append(f"Attention runs on {wanted}, as set, though the self-test found it faulty on this device.")
    if copies_are_faulty(report):
        found.append("Copies to and from this device are waited for: the self-test found them wrong otherwise.")
    return tuple(found)
