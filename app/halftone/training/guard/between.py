"""Between two steps: other code may have been at work. What it changed is named, and put back where that is wanted and safe."""

import math
from collections.abc import Mapping
from typing import Final

import torch
from torch import nn

from halftone.contract.training import Caught, Cause, Deed, TrainCure, Watched
from halftone.measure.stats import peak
from halftone.training.guard.networks import state_tensors
from halftone.training.guard.outside import Fingerprint, Interference, Witness, differences, random_state
from halftone.training.guard.state import GoodState

_ROWS: Final[dict[Cause, Watched]] = {"state-outside": "optimizer", "random-outside": "loss", "autocast-outside": "activations"}
_MAY_BE_MEANT: Final[frozenset[Cause]] = frozenset(
    {"weights-changed", "random-outside", "mode-outside", "frozen-outside", "autocast-outside"}
)
"""A script may clamp its weights, thaw layers or train two networks in turn: told once, and left as it is."""
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

    def look(self, good: GoodState, around: Mapping[str, str], *, put_back: bool) -> list[Caught]:
        """What is not as the last step left it, each thing told once. around: what the last forward pass ran in."""
        found: list[Interference] = []
        if self._before is not None:
            found = differences(self._before, self._witness.take(), self._names)
        found += self._reseeded(good.steps + 1) + self._changed(around)
        fresh = [one for one in found if (one.cause, one.name) not in self._told]
        self._told |= {(one.cause, one.name) for one in fresh if one.cause in _MAY_BE_MEANT}
        return [self._answered(one, good, put_back=put_back) for one in fresh]

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
        did: Deed = "warned"
        cure: TrainCure = "none"
        step = good.steps + 1
        names = (one.name, *one.further)
        if put_back and self._put_back(one, names, good):
            did, cure = "restored", "put-back"
        return Caught(
            step=step,
            cause=one.cause,
            watched=_ROWS.get(one.cause, "weights"),
            name=one.name,
            did=did,
            cure=cure,
            was=one.was,
            now=one.now,
            restored_to=good.steps if did == "restored" else None,
            further=one.further[:8],
        )

    def _put_back(self, one: Interference, names: tuple[str, ...], good: GoodState) -> bool:
        match one.cause:
            case "cast-outside":
                self._put_types_back(names)
                return good.put_back() is not None if good.exact else True
            case "weights-changed":
                bad = any(not math.isfinite(peak(self._parameters[name])) for name in names)
                return self._restored_or_accepted(good, bad=bad)
            case "state-outside":
                bad = one.now != "changed" or any(not math.isfinite(peak(v)) for _, _, v in state_tensors(self._optimizer))
                return self._restored_or_accepted(good, bad=bad)
            case _:
                return False

    def _restored_or_accepted(self, good: GoodState, *, bad: bool) -> bool:
        """Sound numbers that other code wrote may be meant; bad ones never are."""
        if bad:
            return good.put_back() is not None
        good.take_over()
        return False

    def _put_types_back(self, names: tuple[str, ...]) -> None:
        """Types and places; what a narrower type rounded away comes back only with the copy of a trained parameter."""
        before = self._before
        for name in names:
            kind = None if before is None else before.kind_of(name)
            if kind is not None:
                parameter = self._parameters[name]
                parameter.data = parameter.data.to(*kind)
