"""The calls of one step, kept by reference, and run once more under the probe when the step went wrong."""

import math
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from halftone.contract.training import Cause
from halftone.engine.basics.tensors import peak_of, tensors_in
from halftone.measure.probe import Probe, Reading, origin
from halftone.training.guard.cures import WideRegion
from halftone.training.guard.networks import joined
from halftone.training.guard.outside import surroundings
from halftone.training.guard.randomness import TorchState, accelerators_of

_LARGE: Final = 1e15
"""Numbers in float32 whose products come near its limit; infinity out of smaller ones is a division or a logarithm of nothing."""
_MOST: Final = 64
"""Calls of one step that are kept; further ones are not run again."""


@dataclass(frozen=True)
class Origin:
    """Where the way forward went wrong. name: as people see it; network, module: to find it; peak: in float32."""

    cause: Cause
    name: str
    network: str = ""
    module: str = ""
    kind: str = ""
    dtype: torch.dtype | None = None
    peak: float | None = None
    further: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Call:
    network: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    random: TorchState
    autocast: torch.dtype | None
    device: str


class Calls:
    """Keeps what each network was called with since `begin`; only calls that a gradient may come back from."""

    def __init__(self, networks: Mapping[str, nn.Module]) -> None:
        self._networks = dict(networks)
        self._accelerators = accelerators_of(networks)
        self._kept: list[_Call] = []
        self._handles: list[RemovableHandle] = []
        self.surroundings: dict[str, str] = {}
        self.largest = 0.0
        """Largest |x| that a layer made when the calls were run again and all of it was finite."""
        self.paused = False
        for name, network in networks.items():
            note = cast("Any", partial(self._note, name))
            self._handles.append(network.register_forward_pre_hook(note, with_kwargs=True))

    def begin(self) -> None:
        """Forget the calls of the step before."""
        self._kept.clear()

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()

    def _note(self, name: str, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.paused or not torch.is_grad_enabled() or len(self._kept) >= _MOST:
            return
        device = next((tensor.device.type for tensor in tensors_in((args, kwargs))), "cpu")
        on = torch.is_autocast_enabled(device)
        self.surroundings = surroundings(device)
        self._kept.append(
            _Call(
                name, args, kwargs, TorchState.now(self._accelerators), torch.get_autocast_dtype(device) if on else None, device
            )
        )

    def fed(self) -> dict[str, Any]:
        """What the networks were called with in this step, by name; of several calls the first."""
        found: dict[str, Any] = {}
        for call in reversed(self._kept):
            found |= {joined(call.network, name): value for name, value in _arguments(call).items()}
        return found

    def autocast(self) -> torch.dtype | None:
        """The type that autocast had in the first call of this step; None without it."""
        return self._kept[0].autocast if self._kept else None

    def owner(self, parameter: str) -> tuple[str, str | None]:
        """(network, module) that a parameter of this name belongs to; no module for one that none of the networks holds."""
        for name, network in self._networks.items():
            inside = parameter.removeprefix(f"{name}.") if name else parameter
            if (not name or parameter.startswith(f"{name}.")) and inside in self._own(network):
                return name, inside.rpartition(".")[0]
        return "", None

    def computes_in(self, network: str, module: str | None) -> torch.dtype | None:
        """The type that a module computed in, in the last call of its network; None where that is not known."""
        call = next((call for call in reversed(self._kept) if call.network == network), None)
        if call is None or module is None:
            return None
        root = self._networks[network]
        return _computes_in(root, root.get_submodule(module), call)

    @staticmethod
    def _own(network: nn.Module) -> set[str]:
        return {name for name, _ in network.named_parameters(remove_duplicate=False)}

    @torch.no_grad()
    def origin(self) -> Origin | None:
        """Runs the calls again until one goes wrong, and says where. None: all of them were finite."""
        self.largest = 0.0
        with self._quietly():
            for call in self._kept:
                if (found := self._look(call)) is not None:
                    return found
        return None

    @torch.no_grad()
    def only_masks(self, layers: Collection[str]) -> bool:
        """Whether all that is not finite in the calls is -inf in these layers, and is so in float32 as well: scores that are
        masked, which no number was too large for.
        """
        with self._quietly():
            try:
                narrow = [_masked_in(self._networks[call.network], call) for call in self._kept]
                wide = [_masked_in(self._networks[call.network], call, wide=True) for call in self._kept]
            except (RuntimeError, TypeError, ValueError):
                return False  # it does not run in float32
        found = {name for names in narrow for name in names or ()}
        return None not in narrow and narrow == wide and found >= set(layers)

    def _look(self, call: _Call) -> Origin | None:
        bad = _bad_input(call)
        if bad:
            return Origin("data-nonfinite", joined(call.network, bad), call.network)
        network = self._networks[call.network]
        with Probe(network, call.network, scores=False) as probe:
            _run(network, call)
        readings = probe.readings()
        broken = next((r for r in readings if not r.weights_finite), None)
        if broken is not None:
            name = _bad_weight(network, broken.module)
            return Origin("weights-nonfinite", joined(call.network, name), call.network, broken.module, broken.kind)
        found = origin(readings)
        if found is None:
            self.largest = max(self.largest, *(reading.peak for reading in readings))
            return None
        further = [joined(call.network, r.module) for r in readings if not r.finite and r.module != found.module]
        return self._judged(call, found, tuple(further))

    def _judged(self, call: _Call, found: Reading, further: tuple[str, ...]) -> Origin:
        network = self._networks[call.network]
        module = network.get_submodule(found.module)
        narrow = _computes_in(network, module, call)
        inside: list[float] = []
        after: list[float] = []
        region = WideRegion(module, torch.float32, seen=lambda made: inside.append(peak_of(made)))
        handle = module.register_forward_hook(lambda _m, _a, output: after.append(peak_of(output)))
        try:
            _run(network, call)
        finally:
            handle.remove()
            region.remove()
        wide = _wide_peak(inside, after, narrow)
        cause = _cause(found, module, narrow, wide)
        return Origin(
            cause, joined(call.network, found.module), call.network, found.module, found.kind, narrow, wide, further[:8]
        )

    @contextmanager
    def _quietly(self) -> Generator[None]:
        """Random numbers go on afterwards as if nothing had run."""
        state = TorchState.now(self._accelerators)
        self.paused = True
        try:
            yield
        finally:
            self.paused = False
            state.put_back()


def _run(network: nn.Module, call: _Call) -> None:
    call.random.put_back()
    if call.autocast is None:
        network(*call.args, **call.kwargs)
        return
    with torch.autocast(call.device, dtype=call.autocast):
        network(*call.args, **call.kwargs)


def _masked_in(network: nn.Module, call: _Call, *, wide: bool = False) -> set[str] | None:
    """Modules that give -inf, by name; None where one gives another number that is not finite."""
    found: set[str] = set()
    bad: list[str] = []

    def note(name: str, _module: nn.Module, _args: object, output: object) -> None:
        for tensor in tensors_in(output):
            infinite = tensor == -math.inf
            if bool(infinite.any()):
                found.add(joined(call.network, name))
            if not bool((infinite | torch.isfinite(tensor)).all()):
                bad.append(name)

    region = WideRegion(network, torch.float32, whole=True) if wide else None
    handles = [part.register_forward_hook(cast("Any", partial(note, name))) for name, part in network.named_modules()]
    try:
        _run(network, call)
    finally:
        for handle in handles:
            handle.remove()
        if region is not None:
            region.remove()
    return None if bad else found


def _bad_input(call: _Call) -> str:
    """Name of an argument that is not finite; a mask may hold -inf."""
    return next((name for name, value in _arguments(call).items() if not math.isfinite(peak_of(value))), "")


def _arguments(call: _Call) -> dict[str, Any]:
    """By name, masks left out: they hold -inf on purpose."""
    named = {**{f"input {place + 1}": value for place, value in enumerate(call.args)}, **call.kwargs}
    return {name: value for name, value in named.items() if "mask" not in name}


def _bad_weight(network: nn.Module, module: str) -> str:
    found = network.get_submodule(module)
    bad = next((name for name, p in found.named_parameters() if not math.isfinite(peak_of(p.detach()))), "")
    return joined(module, bad)


def _computes_in(network: nn.Module, module: nn.Module, call: _Call) -> torch.dtype:
    """Under autocast its type, else the type of the module's own parameters, else that of the network's."""
    if call.autocast is not None:
        return call.autocast
    for holder in (module, network):
        if (first := next((p for p in holder.parameters() if p.is_floating_point()), None)) is not None:
            return first.dtype
    return torch.float32


def _wide_peak(inside: Sequence[float], after: Sequence[float], narrow: torch.dtype) -> float | None:
    """The largest number that a module makes in float32; None where its first use makes one that is none. inside: before its
    hooks; after: behind them, where what passes the limit of `narrow` may be infinite again.
    """
    if not inside or not math.isfinite(inside[0]) or math.isnan(after[0]):
        return None
    if after[0] == math.inf and inside[0] <= torch.finfo(narrow).max:
        return None  # a hook made it
    return max(value for value in (*inside, *after) if math.isfinite(value))


def _cause(found: Reading, module: nn.Module, narrow: torch.dtype, wide: float | None) -> Cause:
    """wide: the peak in float32, None where that is not finite either."""
    if wide is None:
        overflows = narrow is torch.float32 and found.peak == math.inf and found.input_peak > _LARGE
        return "activation-overflow" if overflows else "activation-nonfinite"
    epsilon = getattr(module, "eps", None)
    nothing = isinstance(epsilon, float) and float(torch.tensor(epsilon, dtype=narrow)) == 0.0
    return "activation-nonfinite" if nothing and wide <= torch.finfo(narrow).max else "activation-overflow"
