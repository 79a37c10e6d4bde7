"""Turns measured passes into findings: which module, which kind of trouble, in running order."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from torch import nn
from torch.nn.modules.conv import _ConvNd  # pyright: ignore[reportPrivateUsage] - the base of all convolutions

from halftone.contract.facts import Finding, FurtherLayer, SelfTestReport
from halftone.contract.vocabulary import FLOAT_LIMITS, TIGHT_BITS, DType, FindingCode
from halftone.health.judge import innermost
from halftone.library.files.scan import TensorScan
from halftone.measure.probe import Reading, ScorePeak, origin

DENSE: Final = (nn.Linear, _ConvNd, nn.GroupNorm, nn.LayerNorm)
"""Layers in which every weight goes into every result."""


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


def peak_findings(
    component: str, dtype: DType, readings: Sequence[Reading], measured: Sequence[Finding], *, overflowed: bool
) -> list[Finding]:
    """The findings of the target pass, completed by the peaks of the range pass, the innermost module of each place.

    Layers over the limit count only where the target pass really failed (overflowed). One whose inputs are in range is an origin
    of its own; one that got values over the limit, or holds an origin and adds to it, is a further layer of that origin. Tight
    layers are one finding, of the tightest.
    """
    limit = FLOAT_LIMITS[dtype]
    bound = limit * 2.0**-TIGHT_BITS
    finite = [reading for reading in readings if math.isfinite(reading.peak)]
    known = {finding.module for finding in measured}
    over = [one for one in _innermost(finite, limit) if one.module not in known]
    tight = [one for one in _innermost(finite, bound) if one.peak <= limit and one.module not in known]
    orders = {reading.module: reading.order for reading in readings}
    found = _by_origin([*measured], over, orders, component, dtype) if overflowed else [*measured]
    return found + _tightest(tight, component, dtype)


def _innermost(readings: Sequence[Reading], bound: float) -> list[Reading]:
    """Modules whose peak is beyond the bound, without those that only hand on what another such module inside them made."""
    beyond = [reading for reading in readings if reading.peak > bound]
    counts = innermost([(one.component, one.module) for one in beyond], [one.peak for one in beyond])
    return [one for one, own in zip(beyond, counts, strict=True) if own]


def _inside(module: str, owner: str) -> bool:
    return module != owner and module.startswith(f"{owner}." if owner else "")


def _by_origin(
    found: list[Finding], over: Sequence[Reading], orders: Mapping[str, int], component: str, dtype: DType
) -> list[Finding]:
    """The layers over the limit, each by the origin it belongs to; found: origins that are known, orders: ranks of modules."""
    limit = FLOAT_LIMITS[dtype]
    for reading in over:
        before = [index for index, one in enumerate(found) if orders.get(one.module, -1) < reading.order]
        inside = [index for index in before if _inside(found[index].module, reading.module)]
        if not inside and (reading.input_peak <= limit or not before):
            found.append(_peak_finding("activation-overflow", reading, component, dtype))
            continue
        last = max(inside or before, key=lambda index: orders.get(found[index].module, -1))
        found[last] = msgspec.structs.replace(found[last], further=(*found[last].further, _further(reading)))
    return found


def _tightest(tight: Sequence[Reading], component: str, dtype: DType) -> list[Finding]:
    if not tight:
        return []
    first = max(tight, key=lambda reading: reading.peak)
    others = tuple(_further(reading) for reading in tight if reading is not first)
    return [msgspec.structs.replace(_peak_finding("tight", first, component, dtype), further=others)]


def _peak_finding(code: FindingCode, reading: Reading, component: str, dtype: DType) -> Finding:
    limit = FLOAT_LIMITS[dtype]
    return Finding(code=code, component=component, module=reading.module, dtype=dtype, peak=reading.peak, limit=limit)


def _further(reading: Reading) -> FurtherLayer:
    return FurtherLayer(module=reading.module, peak=reading.peak)


WITHOUT_PEAKS: Final = frozenset(
    {"accumulation-overflow", "nonfinite-output", "inexact-output", "flat-output", "underflow", "saturated-output"}
)
"""Codes of findings at modules whose peak stays below the limit."""


def device_findings(tested: SelfTestReport | None, dtype: DType) -> list[Finding]:
    """The device fault of the precision that was asked for, if the self-test saw one. It belongs to no component."""
    faulty = [report for report in tested.dtypes if report.dtype == dtype and report.state == "wrong"] if tested else []
    return [
        Finding(code="device-fault", component="", module="", dtype=dtype, peak=None, limit=None, failing=report.failing)
        for report in faulty
    ]


def damage_findings(scans: Sequence[TensorScan], dtypes: Mapping[str, DType], modules: Mapping[str, nn.Module]) -> list[Finding]:
    """Bad numbers in the files that every run must read: in layers whose every weight goes into every result.

    modules: component -> network. Embeddings are left out: the prompt decides which of their rows are read.
    """
    found: list[Finding] = []
    for scan in scans:
        if scan.nonfinite == 0 or scan.component not in modules:
            continue
        owners = dict(modules[scan.component].named_modules())
        module = module_of(scan.tensor, owners)
        if module is not None and isinstance(owners[module], DENSE):
            found.append(_weight_finding(scan, module, dtypes, read=True))
    return found


def weight_findings(
    scans: Sequence[TensorScan], dtypes: Mapping[str, DType], modules: Mapping[str, Mapping[str, Reading]]
) -> list[Finding]:
    """Bad numbers in the files. modules: component -> module name -> its reading in the range pass.

    read: whether the run used them, that is, whether the module gave bad values because of them.
    """
    found: list[Finding] = []
    for scan in scans:
        if scan.nonfinite == 0:
            continue
        readings = modules.get(scan.component, {})
        module = module_of(scan.tensor, readings)
        read = module is not None and not readings[module].finite
        found.append(_weight_finding(scan, scan.tensor.rpartition(".")[0] if module is None else module, dtypes, read=read))
    return found


def clipped_findings(scans: Sequence[TensorScan], dtypes: Mapping[str, DType], modules: Mapping[str, nn.Module]) -> list[Finding]:
    """Weights cut off at the limit of float16 when the file was made from a wider type.

    Only in layers whose every weight goes into every result, and only few: masks and other constants hold that number on purpose.
    """
    found: list[Finding] = []
    for scan in scans:
        if not scan.clipped or scan.clipped > math.prod(scan.shape) / 2 or scan.component not in modules:
            continue
        owners = dict(modules[scan.component].named_modules())
        module = module_of(scan.tensor, owners)
        if module is None or not isinstance(owners[module], DENSE):
            continue
        if scan.tensor.rpartition(".")[2] in dict(owners[module].named_parameters(recurse=False)):
            finding = _weight_finding(scan, module, dtypes, read=True)
            found.append(msgspec.structs.replace(finding, code="weights-clipped", facts={**finding.facts, "count": scan.clipped}))
    return found


def _weight_finding(scan: TensorScan, module: str, dtypes: Mapping[str, DType], *, read: bool) -> Finding:
    return Finding(
        code="weights-nonfinite",
        component=scan.component,
        module=module,
        dtype=dtypes.get(scan.component, "float32"),
        peak=None,
        limit=None,
        facts={"file": Path(scan.file).name, "tensor": scan.tensor, "count": scan.nonfinite, "read": read},
    )


def module_of(tensor: str, modules: Collection[str]) -> str | None:
    """The module that owns a tensor of a file, None where that is not certain.

    The libraries drop or add prefixes, so the longest common ending decides. It must be the only one, and a prefix with a number
    in it tells blocks apart, so it is neither dropped nor added.
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
    findings: Iterable[Finding],
    orders: Mapping[str, Mapping[str, int]],
    origins: Mapping[str, str] | None = None,
) -> tuple[Finding, ...]:
    """In execution order; the device before all, tight layers after everything that fails.

    orders: component -> module -> its place, components in the order in which they first ran. origins: by component the module at
    which the target pass failed first. It goes before what else passes the limit: an earlier module that was inside the limit
    then passes it at a later step.
    """
    far = 1 << 30
    first = origins or {}
    components = list(orders)

    def key(finding: Finding) -> tuple[bool, bool, int, bool, int]:
        order = orders.get(finding.component, {}).get(finding.module, far)
        rank = components.index(finding.component) if finding.component in components else far
        later = first.get(finding.component) != finding.module
        return finding.code != "device-fault", finding.code == "tight", rank, later, order

    return tuple(sorted(findings, key=key))
