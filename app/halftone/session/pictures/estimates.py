"""How long the next picture takes and whether it fits, as far as models and finished pictures tell."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec

from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType, Precision
from halftone.gallery.timed import Conditions, names_of
from halftone.health.forecasts.picture_memory import Forecast, memory_key
from halftone.library.families.networks import Network, known_networks
from halftone.session.checks import Checks
from halftone.session.events import Replaced
from halftone.session.pictures.memory_estimate import NetworkKey, Networks, Shortage, memory_estimate, network_key, shortage
from halftone.session.pictures.picture_time import Shape, computed
from halftone.session.pictures.request_cost import request_shape
from halftone.session.ports import Executor
from halftone.session.state import AppState
from halftone.session.store import Store


def _wanted(state: AppState) -> NetworkKey | None:
    """Whose networks are to be known."""
    return None if state.model is None else network_key(state.model, state.extras)


class Estimates:
    """Reads the networks of the selected model and of what is used with it."""

    def __init__(self, store: Store, executor: Executor, checks: Checks) -> None:
        self._store = store
        self._executor = executor
        self._checks = checks
        store.subscribe(_wanted, self._follow)

    def _follow(self, key: NetworkKey | None) -> None:
        state = self._store.state
        before = state.networks
        same_model = key is not None and before.key is not None and key[:2] == before.key[:2]
        accepted = before.accepted if same_model else frozenset[tuple[Shape, DType]]()
        self._store.take(Replaced(part=Networks(key=key, accepted=accepted)))
        if state.model is not None and key is not None:
            self._executor.run(partial(known_networks, state.model, state.extras), partial(self._read, key))

    def _read(self, key: NetworkKey, networks: tuple[Network, ...]) -> None:
        known = self._store.state.networks
        if key == known.key:
            self._store.take(Replaced(part=replace(known, networks=networks)))

    def conditions(self) -> Conditions:
        """Under which the next picture is made."""
        state, checks = self._store.state, self._checks
        device, numerics, report = state.device, state.numerics, checks.report(state.model)
        names = names_of(device, state.devices) if device is not None else frozenset({state.settings.device})
        plan = report.plan if report is not None and report.applied else None
        dtype = checks.precision_of(state.model)[0]
        return Conditions(state.settings.last_model, names, numerics.precision, dtype, numerics.compile, plan)

    def dtype(self, precision: Precision | None = None) -> DType:
        """The dtype that the next picture runs in. precision: None for the one in use."""
        return "float32" if precision == "float32" else self._checks.precision_of(self._store.state.model)[0]

    def memory(self, request: PictureRequest, precision: Precision | None = None) -> Forecast | None:
        """The memory of the next picture; None where nothing is known of its model or its device. precision: None for the one in
        use.
        """
        state = self._store.state
        if state.model is None or state.device is None:
            return None
        made = state.history.timed.measured(self.conditions()) if precision is None else ()
        picture = request, state.model, self.dtype(precision)
        return memory_estimate(picture, state.device, state.networks.networks, state.memory, made)

    def shortage(self, requests: Sequence[PictureRequest], precision: Precision | None = None) -> tuple[Shortage, DType] | None:
        """What the largest of these pictures lacks, and its dtype; None where all fit, or the user accepted those that do not.
        The memory of other models than the selected one is not known.
        """
        state, lacking = self._store.state, list[tuple[Shortage, DType]]()
        known = dict[tuple[bytes, Precision | None], Forecast | None]()
        for request in requests:
            if state.model is None or request.model != state.model.id:
                continue
            full = request.numerics.precision == "float32" != state.numerics.precision
            shape, kind = request_shape(request, state.model), precision or ("float32" if full else None)
            key = memory_key(request, state.model), kind
            if key not in known:
                known[key] = self.memory(request, kind)
            short, dtype = shortage(shape, known[key]), self.dtype(kind)
            if short is not None and (shape, dtype) not in state.networks.accepted:
                lacking.append((short, dtype))
        return max(lacking, key=lambda one: one[0].needed, default=None)

    def seconds(self, requests: Sequence[PictureRequest]) -> float | None:
        """How long all of these take, the steps and sizes of each considered; None where nothing like one was measured."""
        state, now, counts = self._store.state, self.conditions(), Counter[tuple[str, Shape]]()
        for request in requests:
            if (model := state.models.models.get(request.model)) is None:
                return None
            counts[request.model, request_shape(request, model)] += request.batch
        total = 0.0
        for (name, shape), count in counts.items():
            under = msgspec.structs.replace(now, model=name)
            if (known := computed(name, shape, state.history.timed.times(under))) is None:
                return None
            total += known.seconds * count
        return total

    def accept(self, shape: Shape, dtype: DType) -> None:
        """Try this size all the same; the user is not asked again."""
        known = self._store.state.networks
        self._store.take(Replaced(part=replace(known, accepted=known.accepted | {(shape, dtype)})))
