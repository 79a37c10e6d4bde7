"""Looks, by experiment, for sets of parameters that can be scaled by a power of two without changing what a network computes.

A layer and what undoes it need one run (`flow`). When something else arrives where two things were added, one of them was not
scaled: the layer that wrote it joins, and so do its siblings in the other blocks: a residual stream.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

import torch

from halftone.engine.basics.runs import BudgetSpentError
from halftone.engine.rescaling.flow import LINEAR, Flow, Rows, Trace, Writer
from halftone.engine.rescaling.rescale import INSIDE
from halftone.engine.weights.packed import PackedLinear
from halftone.health.planning.rescaling import RescaleGroup

SEARCH: Final = 2
"""Version of the search in twins. To be raised with each change that may find other groups: those remembered are found again."""
_TRIES: Final = 4
"""Layers that are tried where one is looked for."""
_FEW: Final = 2
"""The same of those that are less likely."""
_TURNS: Final = 24
"""Writers of a stream that are found one by one; siblings join at once."""

Start = tuple[tuple[Writer, ...], Trace]
"""Writers, and what they gave."""


def flow_groups(component: str, flow: Flow, sick: Sequence[str]) -> tuple[RescaleGroup, ...]:
    """Groups that scale these modules. sick: in running order, `.(inside)` for those whose own code made the peak."""
    found: list[RescaleGroup] = []
    hopeless: set[str] = set()
    try:
        for site in sick:
            kind = re.sub(r"\d+", "*", site)
            if kind in hopeless or any(site in group.modules for group in found):
                continue
            group = group_at(component, flow, site)
            if group is None:
                hopeless.add(kind)
                continue
            found.append(group)
    except BudgetSpentError:
        pass  # what was found until then is offered
    return tuple(found)


def group_at(component: str, flow: Flow, site: str) -> RescaleGroup | None:
    """The simple ones first: a layer, or a part of one, that the next layers undo. Then those that others have to join."""
    waiting: list[Start] = []
    for writers in _alone(flow, site):
        trace = flow.trace(writers)
        if (group := _as_group(component, flow, site, writers, trace)) is not None:
            return group
        if _may_grow(site, writers, trace):
            waiting.append((writers, trace))
    for start in (*_openings(flow, site), *waiting):
        found = _completed(flow, *start)
        if found is not None and (group := _as_group(component, flow, site, *found)) is not None:
            return group
    return None


def _may_grow(site: str, writers: Sequence[Writer], trace: Trace) -> bool:
    """Others could join, and what they would make reaches the site."""
    reaches = trace.seen.get(_module(site)) != "same" or _module(site) in trace.inside
    return reaches and trace.mismatch is not None and not trace.fatal and not any(writer.rows for writer in writers)


def _module(site: str) -> str:
    return site.removesuffix(INSIDE).rstrip(".")


# --- where to begin --------------------------------------------------------------------------------


def _alone(flow: Flow, site: str) -> Iterator[tuple[Writer, ...]]:
    """Single layers that may write the numbers at a site: its own, and the latest ones before it; each also in parts."""
    module = _module(site)
    is_writer = site == module and module in flow.leaves and bool(flow.own(module))
    latest = [name for name in flow.before(module) if name != module]
    for name in [module, *latest[:_TRIES]] if is_writer else latest[: 2 * _TRIES]:
        yield (Writer(name),)
        yield from ((Writer(name, rows),) for rows in _parts(flow, name))


def _parts(flow: Flow, name: str) -> Iterator[Rows]:
    """Parts of a fused projection, which gives several times as much as it gets: gate and value, or query, key and value."""
    leaf = flow.leaves[name]
    weight = None if isinstance(leaf, PackedLinear) else getattr(leaf, "weight", None)
    if not isinstance(leaf, LINEAR) or not isinstance(weight, torch.Tensor):
        return
    rows, width = int(weight.shape[0]), int(weight.shape[1])
    if rows % 2 == 0 and rows >= 2 * width:
        yield 0, rows // 2
        yield rows // 2, rows
    if rows == 3 * width:
        yield 2 * width, rows


def _openings(flow: Flow, site: str) -> Iterator[Start]:
    """What may begin a residual stream through a site: the first layers of the network, one by one and together (two streams may
    join later), then those of the modules around the site.
    """
    parts = _module(site).split(".")
    seen: set[str] = set()
    for length in range(len(parts)):
        begins: list[str] = []
        for name in flow.first(".".join(parts[:length]))[: _TRIES if length else 2 * _TRIES]:
            if name in seen:
                continue
            seen.add(name)
            writers = (Writer(name),)
            trace = flow.trace(writers)
            if _may_grow(site, writers, trace):
                yield writers, trace
            if trace.at_norm:
                begins.append(name)
        if len(begins) > 1:
            writers = tuple(Writer(name) for name in begins)
            yield writers, flow.trace(writers)


# --- what has to join ------------------------------------------------------------------------------


def _completed(flow: Flow, writers: tuple[Writer, ...], trace: Trace) -> Start | None:
    """Complete a group for these writers, and what is scaled then; None: there is no such group."""
    found = writers
    for _ in range(_TURNS):
        if trace.closed:
            return found, trace
        if trace.mismatch is None or trace.fatal:
            return None
        joined = _joined(flow, found, trace)
        if joined is None:
            return None
        found, trace = joined
    return None


def _joined(flow: Flow, writers: tuple[Writer, ...], trace: Trace) -> Start | None:
    """Add writers that let the numbers get further. The siblings of all writers come first, where one of them has written by
    then: a residual stream is written alike in every block.
    """
    names = {writer.name for writer in writers}
    done = set(flow.order[: trace.place])
    family = sorted({other for name in names for other in _siblings(flow, name)} - names)
    tries: list[tuple[Writer, ...]] = [(Writer(name),) for name in _candidates(flow, names, trace)]
    if any(name in done for name in family):
        tries.insert(0, tuple(Writer(name) for name in family))
    tries += _side_by_side(flow, names, trace)
    for more in tries:
        found = flow.trace((*writers, *more))
        if found.closed or (not found.fatal and (found.mismatch is None or found.place > trace.place)):
            return (*writers, *more), found
    return None


def _candidates(flow: Flow, taken: set[str], trace: Trace) -> list[str]:
    """Layers that wrote as many values as the mismatch reads, the latest first, then tables around it, then any layer."""
    mismatch = trace.mismatch or ""
    size = flow.sizes.get(mismatch, (0, 0))[0]
    done = dict.fromkeys(reversed(flow.order[: trace.place]))
    found = [name for name in done if name not in taken and name != mismatch and flow.own(name)]
    alike = [name for name in found if flow.sizes.get(name, (0, 0))[1] == size]
    holders = [name for name in flow.holders if name not in taken and _has_begun(flow, name, trace)]
    holders.sort(key=lambda name: -flow.ends.get(name, len(flow.order)))
    return list(dict.fromkeys([*alike[:_TRIES], *holders[:_FEW], *found[:_FEW]]))


def _side_by_side(flow: Flow, taken: set[str], trace: Trace) -> list[tuple[Writer, ...]]:
    """Pairs of layers that together wrote as many values as the mismatch reads, the latest first: two streams laid together."""
    size = flow.sizes.get(trace.mismatch or "", (0, 0))[0]
    done = dict.fromkeys(reversed(flow.order[: trace.place]))
    latest = [name for name in done if name not in taken and flow.own(name)][: 2 * _TRIES]
    pairs = [pair for pair in combinations(latest, 2) if sum(flow.sizes.get(name, (0, 0))[1] for name in pair) == size]
    return [(Writer(one), Writer(other)) for one, other in pairs[:_FEW]]


def _has_begun(flow: Flow, holder: str, trace: Trace) -> bool:
    """It was done before the mismatch, or that is inside it."""
    inside = not holder or f"{trace.mismatch}.".startswith(f"{holder}.")
    return inside or flow.ends.get(holder, len(flow.order)) <= trace.place


def _siblings(flow: Flow, name: str) -> list[str]:
    """The same layer in the other members of its list of blocks."""
    for number in re.finditer(r"(?<=\.)\d+(?=\.)", name):
        pattern = re.compile(re.escape(name[: number.start()]) + r"\d+" + re.escape(name[number.end() :]))
        alike = [other for other in flow.modules if other != name and pattern.fullmatch(other)]
        found = [other for other in alike if type(flow.modules[other]) is type(flow.modules[name]) and flow.own(other)]
        if found:
            return found
    return []


# --- what it gives ---------------------------------------------------------------------------------


def _as_group(component: str, flow: Flow, site: str, writers: Sequence[Writer], trace: Trace) -> RescaleGroup | None:
    """None where it is no group, or not one of this site."""
    modules = [name for name, found in trace.seen.items() if found == "scaled"]
    modules += [f"{name}.{INSIDE}" if name else INSIDE for name in sorted(trace.inside)]
    grow = [flow.weight(name) for name in trace.readers]
    if not trace.closed or site not in modules or None in grow:
        return None
    shrink = {f"{name}{_suffix(writer.rows)}": None for writer in writers for name in flow.own(writer.name)}
    grown = tuple(dict.fromkeys(name for name in grow if name is not None))
    epsilons = tuple(own for name in trace.norms if (own := flow.epsilon(name)) is not None)
    return RescaleGroup(component, f"what reaches {site}", tuple(shrink), grown, tuple(modules), epsilons, wide=True)


def _suffix(rows: Rows) -> str:
    return "" if rows is None else f"[{rows[0] or ''}:{rows[1]}]"
