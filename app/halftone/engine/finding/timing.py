"""How long a plan makes a picture take: the runs that verify it beside those of the target pass, and more only where in doubt."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from halftone.contract.plan import Plan
from halftone.contract.request import Numerics
from halftone.engine.basics.torch_settings import torch_settings
from halftone.engine.finding.capture import Range
from halftone.engine.finding.pace import LONG_ROUNDS, PATIENCE, ROUNDS, SHORT, Pace, in_pairs, pace_ratio
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import Masters, apply_state
from halftone.engine.sampling.hooks import is_finite
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.precision import ComponentState, state_in
from halftone.health.forecasts.timing import Ratio

Calls = Sequence[tuple[Call, Any]]
"""Calls of the range pass with their results."""
Runs = Mapping[str, Mapping[str, Sequence[float]]]
"""By component and method: seconds of single runs."""


@dataclass(frozen=True)
class Bare:
    """A component without a cure in the target pass: seconds of all calls, of single runs by method; errors by id of call."""

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

    def ratio(self, plan: Plan, reached: Sequence[str], runs: Runs) -> Ratio | None:
        """Seconds of a picture with the plan over seconds without it; None if nothing ran. Components that the plan leaves alone
        take as long as before. reached: those it changes; runs: of the comparison with it.

        The runs that were needed anyway settle it where the work is the same and shows no difference; else calls alternate: short
        ones always, long ones where the work is the same and yet seems to take another time.
        """
        total = sum(bare.seconds for bare in self._bare.values())
        part = sum(self._bare[name].seconds for name in reached)
        if not part:
            return Ratio(1.0, 0.0) if not reached and total > 0 else None
        same_work = not plan.settings and all(self.same_work(plan, name) for name in reached)
        if same_work and all(name in self._loaded.streams for name in reached):
            return Ratio(1.0, 0.0)  # here weights are read and made, which takes longer than any difference that is looked for
        seen = {name: self._seen(name, runs.get(name, {})) for name in reached}
        found = pace_ratio([pace for own in seen.values() for pace in own.values()], in_turns=False)
        if not (same_work and found is not None and not found.is_measurable):
            settled = {name: _settled(own) if same_work else {} for name, own in seen.items()}
            found = self._in_turns(plan, reached, found, settled, same_work=same_work)
        share = part / total
        return None if found is None else Ratio(1.0 + (found.value - 1.0) * share, found.spread * share)

    def _in_turns(
        self,
        plan: Plan,
        reached: Sequence[str],
        seen: Ratio | None,
        settled: Mapping[str, Mapping[str, float]],
        *,
        same_work: bool,
    ) -> Ratio | None:
        """The ratio of alternating runs. seen: that of single runs, which stands for long calls of other work; settled: by
        component and method, seconds of what takes as long as before and is not run again.
        """
        calls = {name: self.calls_by_method(name) for name in reached}
        count = sum(len(own) for groups in calls.values() for own in groups.values())
        short = sum(self._bare[name].seconds for name in reached) <= SHORT * count
        if not short and not same_work and seen is not None:
            return seen
        paces: list[Pace] = []
        for name in reached:
            doubtful = {method: own for method, own in calls[name].items() if method not in settled[name]}
            paces += self._turns(plan, name, doubtful, ROUNDS if short else LONG_ROUNDS)
            for method, seconds in settled[name].items():
                paces.append(Pace((seconds,) * ROUNDS, (seconds,) * ROUNDS, len(calls[name][method])))
        return pace_ratio(paces, in_turns=True)

    def same_work(self, plan: Plan, name: str) -> bool:
        """The same kernels on the same shapes, with other numbers."""
        before, after = self.state(self._base, name), self.state(plan, name)
        return (before.dtype, before.upcast) == (after.dtype, after.upcast)

    def _seen(self, name: str, runs: Mapping[str, Sequence[float]]) -> dict[str, Pace]:
        """What the target pass took and what the comparison took, as many runs of each, by what was called."""
        bare = self._bare[name].runs
        groups = self.calls_by_method(name)
        return {method: in_pairs(bare.get(method, ()), runs.get(method, ()), len(calls)) for method, calls in groups.items()}

    def _turns(self, plan: Plan, name: str, groups: Mapping[str, Calls], rounds: int) -> list[Pace]:
        """Run the first call of each kind without and with the plan, in turns. Leaves the component in the plan's state."""
        before, after = self.state(self._base, name), self.state(plan, name)
        taken: dict[str, tuple[list[float], list[float]]] = {method: ([], []) for method in groups}
        started = time.perf_counter()
        for done in range(rounds):
            if done >= LONG_ROUNDS and time.perf_counter() - started > PATIENCE:
                break  # to bring a large model from one state into the other takes longer than its calls
            apply_state(self._loaded, name, before, self._masters[name])
            with torch_settings(self._numerics, self._loaded.device):
                for method, calls in groups.items():
                    taken[method][0].append(self._one_run(calls[0][0]))
            apply_state(self._loaded, name, after, self._masters[name])
            for method, calls in groups.items():
                taken[method][1].append(self._one_run(calls[0][0]))
        return [Pace(tuple(without), tuple(with_it), len(groups[method])) for method, (without, with_it) in taken.items()]

    def _one_run(self, call: Call) -> float:
        """Seconds of a call, as its component is now."""
        self._check()
        return self.timed(call)[1]

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


def _settled(seen: Mapping[str, Pace]) -> dict[str, float]:
    """Seconds of one call, by what was called, where single runs of the same work show no difference."""
    alone = {method: pace_ratio([pace], in_turns=False) for method, pace in seen.items()}
    return {method: median(seen[method].before) for method, found in alone.items() if found and not found.is_measurable}
