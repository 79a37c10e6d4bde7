"""How long a plan makes a picture take: the runs that verify it beside those of the target pass, and more only where in doubt."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from halftone.contract.plan import Plan
from halftone.contract.request import Numerics
from halftone.engine.basics.torch_settings import torch_settings
from halftone.engine.finding.capture import Range
from halftone.engine.finding.pace import ROUNDS, SHORT, Pace, in_pairs, pace_ratio
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import Masters, apply_state
from halftone.engine.sampling.hooks import is_finite
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.precision import ComponentState, state_in

Calls = Sequence[tuple[Call, Any]]
"""Calls of the range pass with their results."""
Runs = Mapping[str, Mapping[str, Sequence[float]]]
"""By component and what was called: seconds of single runs."""


@dataclass(frozen=True)
class Bare:
    """What the target pass measured of a component without a cure: seconds of all its calls, and of each that was really run by
    what was called; errors by id of the call.
    """

    seconds: float
    runs: Mapping[str, Sequence[float]]
    errors: Mapping[int, float]


class Timing:
    """Times plans on the calls of the range pass, against the base plan."""

    def __init__(
        self,
        loaded: Loaded,
        masters: Masters,
        wide: Range,
        base: Plan,
        numerics: Numerics,
        bare: Mapping[str, Bare],
        check: Callable[[], None],
    ) -> None:
        self._loaded = loaded
        self._masters = masters
        self._wide = wide
        self._base = base
        self._numerics = numerics
        self._bare = bare
        self._check = check

    def state(self, plan: Plan, name: str) -> ComponentState:
        return state_in(plan, name, self._base.dtypes[name])

    def ratio(self, plan: Plan, reached: Sequence[str], runs: Runs) -> float | None:
        """Seconds of a picture with the plan over seconds without it; None if nothing was run. Components that the plan leaves
        alone take as long as before. reached: components that it does not; runs: of the comparison with it.

        The runs that were needed anyway settle it where the work is the same and shows no difference; else short calls run
        again in turns.
        """
        same_work = not plan.settings and all(self.same_work(plan, name) for name in reached)
        seen = [pace for name in reached for pace in self._seen(name, runs.get(name, {})).values()]
        ratio = pace_ratio(seen, same_work=same_work)
        if not (same_work and ratio == 1.0):
            paces = [pace for name in reached for pace in self._paces(plan, name, runs.get(name, {}))]
            ratio = pace_ratio(paces, same_work=same_work)
        total = sum(bare.seconds for bare in self._bare.values())
        part = sum(self._bare[name].seconds for name in reached)
        if not part:
            return 1.0 if not reached and total > 0 else None
        return None if ratio is None else 1.0 + (ratio - 1.0) * part / total

    def same_work(self, plan: Plan, name: str) -> bool:
        """The same kernels on the same shapes, with other numbers."""
        before, after = self.state(self._base, name), self.state(plan, name)
        return (before.dtype, before.upcast) == (after.dtype, after.upcast)

    def _seen(self, name: str, runs: Mapping[str, Sequence[float]]) -> dict[str, Pace]:
        """What the target pass took and what the comparison took, as many runs of each, by what was called."""
        bare = self._bare[name].runs
        groups = self.calls_by_method(name)
        return {method: in_pairs(bare.get(method, ()), runs.get(method, ()), len(calls)) for method, calls in groups.items()}

    def _paces(self, plan: Plan, name: str, runs: Mapping[str, Sequence[float]]) -> list[Pace]:
        groups = self.calls_by_method(name)
        if self._bare[name].seconds > SHORT * sum(map(len, groups.values())):
            longer = {method: runs.get(method) or self._runs(calls[0][0], 1) for method, calls in groups.items()}
            return list(self._seen(name, longer).values())
        settled = self._settled(plan, name, self._seen(name, runs), groups)
        doubtful = {method: calls for method, calls in groups.items() if method not in settled}
        if not doubtful:
            return list(settled.values())
        return [*settled.values(), *self._turns(name, self.state(self._base, name), self.state(plan, name), doubtful)]

    def _settled(self, plan: Plan, name: str, seen: Mapping[str, Pace], groups: Mapping[str, Calls]) -> dict[str, Pace]:
        """What shows no difference where the work is the same, at once or after some more runs with the plan."""
        if plan.settings or not self.same_work(plan, name):
            return {}
        found: dict[str, Pace] = {}
        for method, first in seen.items():
            again = self._runs(groups[method][0][0], ROUNDS) if pace_ratio([first], same_work=True) != 1.0 else ()
            pace = replace(first, after=first.after + again)
            if pace_ratio([pace], same_work=True) == 1.0:
                found[method] = pace
        return found

    def _turns(self, name: str, before: ComponentState, after: ComponentState, groups: Mapping[str, Calls]) -> list[Pace]:
        """Short calls with the plan, without it and with it again, several times each, so that another program's load shows on
        both sides.
        """
        first = {method: calls[0][0] for method, calls in groups.items()}
        with_plan = {method: self._runs(call, ROUNDS) for method, call in first.items()}
        apply_state(self._loaded, name, before, self._masters[name])
        with torch_settings(self._numerics, self._loaded.device):
            without = {method: self._runs(call, ROUNDS) for method, call in first.items()}
        apply_state(self._loaded, name, after, self._masters[name])
        with_plan = {method: runs + self._runs(first[method], ROUNDS) for method, runs in with_plan.items()}
        return [Pace(without[method], with_plan[method], len(calls)) for method, calls in groups.items()]

    def _runs(self, call: Call, count: int) -> tuple[float, ...]:
        """Seconds of single runs of a call, as its component is now."""
        seconds: list[float] = []
        for _ in range(count):
            self._check()
            seconds.append(self.timed(call)[1])
        return tuple(seconds)

    def timed(self, call: Call) -> tuple[Any, float]:
        """The result of a call and the seconds until all of it was there."""
        started = time.perf_counter()
        result = run_call(call, self._loaded.modules[call.component], self._loaded.states[call.component].dtype)
        is_finite(result)  # waits for the device
        return result, time.perf_counter() - started

    def calls_by_method(self, name: str) -> dict[str, list[tuple[Call, Any]]]:
        """The calls that were sound in the range pass, by what was called: calls of one kind take about the same time."""
        groups: dict[str, list[tuple[Call, Any]]] = {}
        for call, result in self._wide.of(name):
            if is_finite(result) and is_finite((call.args, call.kwargs)):
                groups.setdefault(call.method, []).append((call, result))
        return groups
