"""The groups of a component that a rescaling may use: of known shapes, and for what those leave, found by experiment."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import torch
from torch import nn

from halftone.contract.facts import LayerPeak
from halftone.contract.plan import is_input
from halftone.contract.vocabulary import FLOAT_LIMITS, DType
from halftone.engine.basics.runs import BudgetSpentError
from halftone.engine.rescaling.flow import Flow
from halftone.engine.rescaling.flow_groups import flow_groups
from halftone.engine.rescaling.rescale import rescale_groups
from halftone.engine.weights.precision import split_rows
from halftone.engine.weights.recipe import Exact
from halftone.health.faults import ends_the_job
from halftone.health.planning.rescaling import RescaleGroup, choose_shifts, peaks_after
from halftone.library.files.scan import TensorScan
from halftone.measure.stats import peak

log = logging.getLogger(__name__)

WithInputs = Callable[[RescaleGroup, int], RescaleGroup | None]
Deviation = Callable[[RescaleGroup, int], float | None]
"""The relative change of a component's result by a group that is shrunk by 2**k; None where that is too much."""
_ROUNDING: Final = 1e-6
"""Relative change that float32 makes by itself: a group that changes no more is exact."""


def groups_of(
    component: str,
    module: nn.Module,
    layers: Sequence[LayerPeak],
    named: Sequence[str],
    asked: DType,
    masters: Mapping[str, torch.Tensor],
    flow_at: Callable[[str], Flow | None],
    peaks: dict[str, float] | None = None,
    with_inputs: WithInputs = lambda group, _k: group,
    learned: Callable[[Sequence[str]], Iterable[RescaleGroup]] = lambda _sites: (),
    deviation: Deviation = lambda _group, _k: None,
) -> tuple[RescaleGroup, ...]:
    """layers: peaks of the component in running order, as the planner reads them; named: modules with a finding that a scale can
    cure; asked: the precision that has to hold them; flow_at: the experiment in which a module runs, used where known shapes do
    not reach; peaks: of tensors, filled as they are read; with_inputs: a group shrunk by 2**k, completed by the inputs that scale
    with it, or None if not exact; learned: known groups of the architecture, which `deviation` proves before experiments begin. A
    search that fails costs nothing but its groups.
    """
    known = rescale_groups(component, module)
    left = _left(component, known, layers, named, asked, tensor_peaks(masters, known, peaks))
    prove = partial(_proven, layers=layers, asked=asked, masters=masters, peaks=peaks, with_inputs=with_inputs)
    try:
        found = prove(deviation, learned(left) if left else ())
        by_flow: dict[int, tuple[Flow, list[str]]] = {}
        for site in left:
            if not any(site in group.modules for group in found) and (flow := flow_at(site)) is not None:
                by_flow.setdefault(id(flow), (flow, []))[1].append(site)
        for flow, own in by_flow.values():
            found += prove(flow.deviation, flow_groups(component, flow, own))
    except Exception as error:
        if ends_the_job(error):
            raise
        log.warning("the search for groups of %s failed", component, exc_info=True)
        return known
    return (*known, *found)


def _left(
    component: str,
    known: Sequence[RescaleGroup],
    layers: Sequence[LayerPeak],
    named: Sequence[str],
    asked: DType,
    tensors: Mapping[str, float],
) -> list[str]:
    """Modules that known groups leave over the limit, in running order."""
    if not all(math.isfinite(layer.peak) for layer in layers):
        return []  # what is bad in a type with room is no matter of scale
    shifts = choose_shifts(known, layers, asked, tensors={component: tensors})
    after = peaks_after(known, shifts, layers)
    limit = FLOAT_LIMITS[asked]
    over = [layer.module for layer in layers if layer.component == component and after[component, layer.module] > limit]
    reached = {module for group, k in zip(known, shifts, strict=True) if k for module in group.modules}
    return list(dict.fromkeys([*over, *(module for module in named if module not in reached)]))


def _proven(
    deviation: Deviation,
    found: Iterable[RescaleGroup],
    layers: Sequence[LayerPeak],
    asked: DType,
    masters: Mapping[str, torch.Tensor],
    peaks: dict[str, float] | None,
    with_inputs: WithInputs,
) -> list[RescaleGroup]:
    """Keep groups that change nothing when shrunk by as much as is needed: the search looks at samples only, and a layer that
    adds next to nothing to a stream is not seen, but counts once the rest is shrunk.
    """
    kept: list[RescaleGroup] = []
    try:
        for group in found:
            if not {split_rows(name)[0] for name in (*group.shrink, *group.grow)} <= masters.keys():
                continue
            (k,) = choose_shifts([group], layers, asked, tensors={group.component: tensor_peaks(masters, [group], peaks)})
            change = deviation(group, k) if k else None
            whole = None if change is None else with_inputs(group, k)
            if change is not None and whole is not None:
                kept.append(replace(whole, deviation=change if change > _ROUNDING else 0.0))
            else:
                log.info("%s cannot be scaled by 2^-%d", group.name, k)
    except BudgetSpentError:
        pass  # what is not proven is not offered
    return kept


def tensor_peaks(
    masters: Mapping[str, torch.Tensor], groups: Sequence[RescaleGroup], read: dict[str, float] | None = None
) -> dict[str, float]:
    """Largest absolute value of every parameter that a group may scale, by the group's name for it, added to `read`."""
    peaks = {} if read is None else read
    for name in {name for group in groups for name in (*group.shrink, *group.grow) if not is_input(name)} - peaks.keys():
        base, rows = split_rows(name)
        tensor = masters[base]
        peaks[name] = peak(tensor[rows] if tensor.dim() else tensor)
    return peaks


def scanned_peaks(scans: Iterable[TensorScan], masters: Mapping[str, Exact]) -> dict[str, dict[str, float]]:
    """Component -> parameter -> largest absolute value, of those whose exact weight is what the scan of the files has read."""
    peaks: dict[str, dict[str, float]] = {name: {} for name in masters}
    for scan in scans:
        exact = masters.get(scan.component)
        stored = exact.plain[scan.tensor] if exact is not None and exact.is_stored(scan.tensor) else None
        if stored is not None and stored.shape == scan.shape and not scan.nonfinite:
            peaks[scan.component][scan.tensor] = scan.peak
    return peaks
