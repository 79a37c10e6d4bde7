"""Between two steps: other code may have been at work. What it changed is named, and put back where that is wanted and safe."""

import math
from collections.abc import Mapping
from typing import Final

import torch
from torch import nn

from halftone.contract.training import Caught, Cause, Deed, TrainCure, Watched
from halftone.engine.basics.tensors import hold
from halftone.measure.stats import peak
from halftone.training.guard.networks import state_tensors
from halftone.training.guard.outside import (
    GONE,
    Fingerprint,
    Interference,
    Witness,
    differences,
    doubts,
    random_state,
    unseen,
)
from halftone.training.guard.state import GoodState
from halftone.training.guard.update import is_bad_moment

_ROWS: Final[dict[Cause, Watched]] = {"state-outside": "optimizer", "random-outside": "loss", "autocast-outside": "activations"}
_MAY_BE_MEANT: Final[frozenset[Cause]] = frozenset(
    {"weights-changed", "random-outside", "mode-outside", "frozen-outside", "autocast-outside", "state-outside"}
)
"""A script may clamp its weights, thaw layers, train two networks in turn or restart its moments: reported once, and left."""
_WRITTEN: Final[frozenset[Cause]] = frozenset({"weights-changed", "state-outside"})
"""Numbers that other code wrote, or took away."""
_REMEMBERED: Final = 4096
"""Steps whose random numbers are known again."""


class Between:
    """Remembers how everything stood after a step, and looks before the next one."""

    def __init__(
        self, networks: Mapping[str, nn.Module], parameters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer
    ) -> None:
        self._witness = Witness(networks, parameters, optimizer)
        self._parameters = parameters
        self._optimizer = optimizer
        self._names = {id(parameter): name for name, parameter in parameters.items()}
        first = next(iter(parameters.values()), None)
        self._device = torch.device("cpu") if first is None else first.device
        self._before: Fingerprint | None = None
        self._now: Fingerprint | None = None
        self._surroundings: dict[str, str] = {}
        self._starts: dict[str, int] = {}
        self._end = ""
        self._told: set[tuple[Cause, str]] = set()

    def know(self, further: Mapping[str, torch.Tensor]) -> None:
        """Parameters that came later."""
        self._parameters = {**self._parameters, **further}
        self._names |= {id(parameter): name for name, parameter in further.items()}

    def remember(self) -> None:
        """A step ended."""
        self._before = self._witness.take()
        self._end = random_state(self._device)

    def look(self, good: GoodState, *, put_back: bool) -> list[Caught]:
        """Return what is not as the last step left it, each thing once, unless it spoils numbers."""
        found: list[Interference] = []
        self._now = None
        if self._before is not None:
            now = self._witness.take()
            found = differences(self._before, now, self._names)
            self._now = None if found else now  # else numbers were put back, or taken over
        answers = [self._answered(one, good, put_back=put_back) for one in found + self._reseeded(good.steps + 1)]
        return [one for one in answers if self._is_news(one)]

    def doubts(self) -> list[torch.Tensor]:
        """Scalars on accelerators to be read with the step's own: above nothing where other code wrote there unseen by `look`."""
        return [] if self._before is None or self._now is None else doubts(self._before, self._now)

    def unseen(self, step: int) -> list[Caught]:
        """What a doubt was about. The step is made by now, with what was written or, where it was undone, without."""
        if self._before is None or self._now is None:
            return []
        found = [self._caught(one, step) for one in unseen(self._before, self._now, self._names)]
        return [one for one in found if self._is_news(one)]

    def passed(self, around: Mapping[str, str], step: int) -> list[Caught]:
        """What the forward pass of a step ran in that the one before did not. around: what it ran in."""
        return [one for one in (self._caught(change, step) for change in self._changed(around)) if self._is_news(one)]

    def _is_news(self, one: Caught) -> bool:
        """Whether to report it: what may be meant only once."""
        key = one.cause, one.name
        if one.did != "warned" or one.cause not in _MAY_BE_MEANT:
            return True
        known = key in self._told
        self._told.add(key)
        return not known

    def _reseeded(self, step: int) -> list[Interference]:
        """Random numbers that went on and then stand where an earlier step began: every such step draws the same noise."""
        now = random_state(self._device)
        earlier = self._starts.get(now)
        if len(self._starts) < _REMEMBERED:
            self._starts.setdefault(now, step)
        if earlier is None or not self._end or self._end == now:
            return []
        return [Interference("random-outside", "random numbers", f"after step {step - 1}", f"as at step {earlier}")]

    def _changed(self, around: Mapping[str, str]) -> list[Interference]:
        before, self._surroundings = self._surroundings, dict(around)
        return [
            Interference("autocast-outside", name, before[name], now)
            for name, now in around.items()
            if before.get(name, now) != now
        ]

    def _answered(self, one: Interference, good: GoodState, *, put_back: bool) -> Caught:
        names = (one.name, *one.further)
        step = good.steps + 1
        if one.cause in _WRITTEN and not self._is_spoiled(one, names):
            good.take_over()  # sound numbers that other code wrote may be meant; bad ones never are
        elif put_back and self._put_back(one, names, good):
            return self._caught(one, step, did="restored", cure="put-back", restored_to=good.steps)
        return self._caught(one, step)

    @staticmethod
    def _caught(
        one: Interference, step: int, did: Deed = "warned", cure: TrainCure = "none", restored_to: int | None = None
    ) -> Caught:
        return Caught(
            step=step,
            cause=one.cause,
            watched=_ROWS.get(one.cause, "weights"),
            name=one.name,
            did=did,
            cure=cure,
            was=one.was,
            now=one.now,
            restored_to=restored_to,
            further=one.further[:8],
        )

    def _put_back(self, one: Interference, names: tuple[str, ...], good: GoodState) -> bool:
        if one.cause == "cast-outside":
            self._put_types_back(names)
            return good.put_back() is not None if good.exact else True
        return one.cause in _WRITTEN and good.put_back() is not None

    def _is_spoiled(self, one: Interference, names: tuple[str, ...]) -> bool:
        """Whether what other code wrote cannot be meant: numbers that no step can be made with, moments of another type."""
        if one.cause == "weights-changed":
            return any(not math.isfinite(peak(self._parameters[name])) for name in names)
        return one.now not in ("changed", GONE) or any(is_bad_moment(n, v) for _, n, v in state_tensors(self._optimizer))

    def _put_types_back(self, names: tuple[str, ...]) -> None:
        """Types and places; what a narrower type rounded away comes back only with the copy of a trained parameter."""
        before = self._before
        for name in names:
            kind = None if before is None else before.kind_of(name)
            if kind is not None:
                parameter = self._parameters[name]
                hold(parameter, parameter.data.to(*kind))
