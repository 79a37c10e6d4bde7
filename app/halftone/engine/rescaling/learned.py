"""Groups that were found in a network's twin, now or when a model of the same architecture was checked before."""

import json
import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, Final

import torch
from torch import nn

from halftone.engine.basics.runs import BudgetSpentError, Runs
from halftone.engine.rescaling.flow import Flow
from halftone.engine.rescaling.flow_groups import SEARCH, group_at
from halftone.engine.rescaling.twin import Likeness, config_of, twins_of, with_shares
from halftone.engine.sampling.hooks import is_finite
from halftone.health.faults import ends_the_job
from halftone.health.planning.rescaling import RescaleGroup
from halftone.library.learned import FoundGroup, FoundGroups, recall_groups, remember_groups

log = logging.getLogger(__name__)

MOST_RUNS: Final = 256
"""Runs of a twin that one search may take: four times what the two streams of FLUX.1 take, and each takes milliseconds."""


def learned_groups(
    component: str,
    network: nn.Module,
    sites: Sequence[str],
    run: Callable[[nn.Module], Any],
    begins: Callable[[], None],
    device: torch.device,
) -> list[RescaleGroup] | None:
    """Groups, still to be proven, that scale these modules of a network by its twin's. None: it has no twin. sites: in running
    order; run: makes a call of the network with the twin in its place; begins: as `Runs` has it; device: of the call's inputs,
    and for the twin. The network's own weights may lie elsewhere.
    """
    kind = type(network)
    library = kind.__module__.partition(".")[0]
    # a network of ours is built of diffusers' layers; its own name tells it apart
    library = "diffusers" if library == "halftone" else library
    config = json.dumps(config_of(network), sort_keys=True, default=str)
    architecture = "\0".join((f"{kind.__module__}.{kind.__qualname__}", version(library), str(SEARCH), config))
    known = recall_groups(architecture)
    remembered = dict(known)
    try:
        return _groups(component, Likeness(network), known, sites, run, begins, device)
    finally:
        if known != remembered:
            remember_groups(architecture, known)


def _groups(
    component: str,
    likeness: Likeness,
    known: FoundGroups,
    sites: Sequence[str],
    run: Callable[[nn.Module], Any],
    begins: Callable[[], None],
    device: torch.device,
) -> list[RescaleGroup] | None:
    """Groups of these sites; what is looked for is added to the known ones."""
    flow: Flow | None = None
    groups: list[RescaleGroup] = []
    for site in sites:
        if any(site in group.modules for group in groups):
            continue
        place = likeness.in_twin(site)
        if place in known and not _is_sound(component, likeness, known[place], site):
            del known[place]
        if place not in known:
            flow = flow or _flow(likeness, run, begins, device)
            if flow is None:
                return groups or None
            try:
                known[place] = _found(component, flow, place)
            except BudgetSpentError:
                break  # what is not known now may be found another time
        groups += _carried(component, likeness, known[place], site)
    return groups


def _is_sound(component: str, likeness: Likeness, found: FoundGroup | None, site: str) -> bool:
    """Whether what was remembered can be read: its rows are shares, and its blocks are those of the twin."""
    try:
        _carried(component, likeness, found, site)
    except (ValueError, OverflowError, IndexError):
        log.info("A group that was remembered for %s is damaged and is looked for again", site, exc_info=True)
        return False
    return True


def _carried(component: str, likeness: Likeness, found: FoundGroup | None, site: str) -> list[RescaleGroup]:
    """The group of a site in the network, where there is one."""
    if found is None:
        return []
    own = RescaleGroup(component, "", found.shrink, found.grow, found.modules, found.epsilons, wide=True)
    group = likeness.carried_over(own, site)
    return [group] if site in group.modules else []


def _flow(likeness: Likeness, run: Callable[[nn.Module], Any], begins: Callable[[], None], device: torch.device) -> Flow | None:
    """Experiments with the narrowest twin that runs; None where none does."""
    for twin in twins_of(likeness):
        try:
            begins()
            if is_finite(run(twin.to(device))):
                return Flow(twin, lambda twin=twin: run(twin), Runs(MOST_RUNS, begins))
        except Exception as error:
            if ends_the_job(error):
                raise
            log.debug("a twin does not run", exc_info=True)
    return None


def _found(component: str, flow: Flow, place: str) -> FoundGroup | None:
    group = group_at(component, flow, place)
    if group is None:
        return None
    whole = with_shares(group, flow.modules[""])
    return FoundGroup(shrink=whole.shrink, grow=whole.grow, modules=whole.modules, epsilons=whole.epsilons)
