"""From measured passes to findings: which module, which kind of trouble, in running order."""

import math
from collections.abc import Iterable, Mapping, Sequence

from halftone.contract.facts import Finding, LayerPeak
from halftone.contract.words import FLOAT_LIMITS, TIGHT_BITS, DType, FindingCode
from halftone.library.scan import TensorScan
from halftone.measure.probe import Reading, ScorePeak, origin


def finite_or_none(value: float | None) -> float | None:
    """A peak as a report may hold it."""
    return value if value is not None and math.isfinite(value) else None


def source_of(readings: Sequence[Reading]) -> Reading | None:
    """The origin; where the weights themselves left the range, the first module with such weights; else the first bad one."""
    found = origin(readings)
    if found is not None:
        return found
    failed = [reading for reading in readings if reading.failed_at is not None]
    broken = [reading for reading in failed if not reading.weights_finite]
    return min(broken or failed, key=lambda reading: reading.failed_at or 0, default=None)


def overflow_finding(
    source: Reading | None,
    component: str,
    dtype: DType,
    step: int | None,
    peaks: Mapping[str, float],
    scores: Iterable[ScorePeak],
) -> Finding:
    """What went wrong at the first module whose output is not finite in the target pass. peaks: of the range pass."""
    module = "" if source is None else source.module
    peak = finite_or_none(peaks.get(module))
    limit = FLOAT_LIMITS[dtype]
    score = next((score.peak for score in scores if score.module == module and score.peak > limit), None)
    code: FindingCode = "activation-overflow"
    if source is None:
        code = "nonfinite-output"
    elif not source.weights_finite:
        code = "weights-overflow"
    elif score is not None:
        code, peak = "attention-overflow", score
    elif peak is not None and peak <= limit:
        code = "accumulation-overflow"
    return Finding(code=code, component=component, module=module, dtype=dtype, peak=peak, limit=limit, step=step)


def peak_findings(component: str, dtype: DType, layers: Sequence[LayerPeak], known: set[str], overflowed: bool) -> list[Finding]:
    """Layers over the limit (only where the target pass really failed), and tight ones; the innermost module of each place."""
    limit = FLOAT_LIMITS[dtype]
    tight = limit * 2.0**-TIGHT_BITS
    found: list[Finding] = []
    for layer in layers:
        over = layer.peak > limit
        if layer.peak <= tight or layer.module in known or _explained_by_child(layer, layers, limit if over else tight):
            continue
        if over and not overflowed:
            continue
        code: FindingCode = "activation-overflow" if over else "tight"
        found.append(Finding(code=code, component=component, module=layer.module, dtype=dtype, peak=layer.peak, limit=limit))
    return found


def _explained_by_child(layer: LayerPeak, layers: Sequence[LayerPeak], bound: float) -> bool:
    inside = f"{layer.module}." if layer.module else ""
    return any(other.module != layer.module and other.module.startswith(inside) and other.peak > bound for other in layers)


def weight_findings(
    scans: Sequence[TensorScan], dtypes: Mapping[str, DType], modules: Mapping[str, Mapping[str, Reading]]
) -> list[Finding]:
    """Numbers that are bad in the files. modules: component -> module name -> its reading in the range pass.

    read: whether the run really used them, that is, whether the module gave bad numbers because of them.
    """
    found: list[Finding] = []
    for scan in scans:
        if scan.nonfinite == 0:
            continue
        readings = modules.get(scan.component, {})
        module = module_of(scan.tensor, readings)
        reading = readings.get(module) if module is not None else None
        facts: dict[str, str | int | float] = {
            "tensor": scan.tensor,
            "count": scan.nonfinite,
            "read": reading is not None and not reading.finite,
        }
        name = scan.tensor.rpartition(".")[0] if module is None else module
        dtype = dtypes.get(scan.component, "float32")
        found.append(
            Finding(
                code="weights-nonfinite", component=scan.component, module=name, dtype=dtype, peak=None, limit=None, facts=facts
            )
        )
    return found


def module_of(tensor: str, modules: Mapping[str, Reading]) -> str | None:
    """The module that owns a tensor of a file, None where that is not certain.

    The libraries drop or add prefixes, so the longest common ending decides; but it must be the only one, and a prefix with a
    number in it tells one block from another, so it is neither dropped nor added.
    """
    owner = tensor.rpartition(".")[0]
    while owner:
        if owner in modules:
            return owner
        endings = [name for name in modules if name.endswith(f".{owner}")]
        if endings:
            return endings[0] if len(endings) == 1 and not _numbered(endings[0].removesuffix(owner)) else None
        dropped, _, owner = owner.partition(".")
        if _numbered(dropped):
            return None
    return None


def _numbered(prefix: str) -> bool:
    return any(part.isdigit() for part in prefix.split("."))


def ordered(
    findings: Iterable[Finding], orders: Mapping[str, Mapping[str, int]], components: Sequence[str]
) -> tuple[Finding, ...]:
    """In execution order; tight layers after everything that fails."""
    far = 1 << 30

    def key(finding: Finding) -> tuple[bool, int, int]:
        order = orders.get(finding.component, {}).get(finding.module, far)
        rank = components.index(finding.component) if finding.component in components else far
        return finding.code == "tight", rank, order

    return tuple(sorted(findings, key=key))
