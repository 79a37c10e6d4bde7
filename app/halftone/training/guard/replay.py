"""The calls of one step, kept by reference, and run once more under the probe when the step went wrong."""

import logging
import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from halftone.contract.training import Cause
from halftone.engine.basics.tensors import map_tensors, peak_of, tensors_in
from halftone.measure.probe import Probe, Reading, floating_outputs
from halftone.measure.randomness import TorchState
from halftone.training.guard.cures import WideRegion
from halftone.training.guard.finite import NONE, Kinds, filled_kinds, kinds_in, looked_at, mended, read
from halftone.training.guard.networks import joined
from halftone.training.guard.outside import surroundings
from halftone.training.guard.state import accelerators_of

log = logging.getLogger(__name__)
_LARGE: Final = 1e15
"""Numbers in float32 whose products come near its limit; infinity out of smaller ones is a division or a logarithm of nothing."""
_POSITION: Final = "input {}"
"""Name of an argument that is given by its place."""
_MASK: Final[Kinds] = frozenset({"-inf"})
_MOST: Final = 64
"""Calls of one step that are kept; further ones are not run again."""


@dataclass(frozen=True)
class Origin:
    """Where the forward pass went wrong. name: as people see it; network, module: to find it; peak: in float32. reaches: whether
    the network's result shows it; else a loss may have read it from inside.
    """

    cause: Cause
    name: str
    network: str = ""
    module: str = ""
    kind: str = ""
    dtype: torch.dtype | None = None
    peak: float | None = None
    further: tuple[str, ...] = ()
    reaches: bool = True


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
            self._handles.append(network.register_forward_hook(self._gave))
        self._arrived: list[torch.Tensor | float] = []

    def begin(self) -> None:
        """Forget the calls of the step before."""
        self._kept.clear()
        self._arrived.clear()

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

    def _gave(self, _module: nn.Module, _args: object, output: object) -> None:
        """Look at the gradient that comes back to what a network gave: the loss function made that one."""
        if self.paused or not torch.is_grad_enabled():
            return
        for tensor in floating_outputs(output):
            if tensor.requires_grad:
                tensor.register_hook(lambda gradient: self._arrived.append(looked_at(gradient)))

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
            if (not name or parameter.startswith(f"{name}.")) and inside in dict(
                network.named_parameters(remove_duplicate=False)
            ):
                return name, inside.rpartition(".")[0]
        return "", None

    def computes_in(self, network: str, module: str | None) -> torch.dtype | None:
        """The type that a module computed in, in the last call of its network; None where that is not known."""
        call = next((call for call in reversed(self._kept) if call.network == network), None)
        if call is None or module is None:
            return None
        root = self._networks[network]
        return _computes_in(root, root.get_submodule(module), call)

    @torch.no_grad()
    def origin(self, meant: Mapping[str, Kinds]) -> Origin | None:
        """Repeat the calls until one is not finite, and find its origin; else the first bad value that the result does not show.
        None: all was finite. meant: what layers make on purpose.
        """
        self.largest = 0.0
        inside: Origin | None = None
        with self._quietly():
            for call in self._kept:
                found = self._look(call, meant)
                if found is not None and found.reaches:
                    return found
                inside = inside or found
        return inside

    @torch.no_grad()
    def same_when_wide(self, layers: Collection[str]) -> dict[str, Kinds] | None:
        """Kinds not finite by layer, where float32 gives the same: nothing was too large for its type. None: float32 differs, or
        these layers did not run.
        """
        with self._quietly():
            try:
                narrow = [_kinds_made(self._networks[call.network], call) for call in self._kept]
                wide = [_kinds_made(self._networks[call.network], call, wide=True) for call in self._kept]
            except (RuntimeError, TypeError, ValueError):
                return None  # it does not run in float32
        found: dict[str, Kinds] = {}
        for made in narrow:
            found |= {name: found.get(name, NONE) | kinds for name, kinds in made.items()}
        return found if narrow == wide and all(found.get(name) for name in layers) else None

    @torch.no_grad()
    def kinds_made(self) -> dict[str, Kinds]:
        """Values not finite by module name, nothing for finite ones; leaves out modules of calls that cannot run again."""
        found: dict[str, Kinds] = {}
        with self._quietly():
            for call in self._kept:
                try:
                    made = _kinds_made(self._networks[call.network], call, kinds_in)
                except (RuntimeError, TypeError, ValueError) as error:
                    log.info("a call of %s could not be run again: %s", call.network or "the network", error)
                    continue
                found |= {name: found.get(name, NONE) | kinds for name, kinds in made.items()}
        return found

    def overflowed_back(self, *, infinite: bool) -> bool:
        """Whether the backward pass failed only since a number passed the limit of a 16-bit type. infinite: whether a gradient
        holds infinity. Repeats it through the calls, with gradients of the size that came from the loss.
        """
        arrived = [*read([one for one in self._arrived if isinstance(one, torch.Tensor)])]
        arrived += [one for one in self._arrived if isinstance(one, float)]
        if not all(map(math.isfinite, arrived)):
            return not any(map(math.isnan, arrived))  # infinity passed the limit where it was cast; NaN the loss function made
        size = max(arrived, default=1.0) or 1.0
        with self._quietly():
            try:
                if not all(self._returns_finite(call, size, wide=True) for call in self._kept):
                    return False
                alone = all(self._returns_finite(call, size, wide=False) for call in self._kept)
            except (RuntimeError, TypeError, ValueError):
                return True  # it cannot be made again (a checkpoint that wants the whole way back, too little memory)
        return infinite or not alone

    def _returns_finite(self, call: _Call, size: float, *, wide: bool) -> bool:
        network = self._networks[call.network]
        with WideRegion(network, torch.float32, whole=True) if wide else nullcontext(), torch.enable_grad():
            made = [tensor for tensor in floating_outputs(_run(network, call)) if tensor.requires_grad]
            trained = [p for p in network.parameters() if p.requires_grad]
            back = [torch.randn_like(tensor) * (size / math.sqrt(max(tensor.numel(), 1))) for tensor in made]
            found = torch.autograd.grad(made, trained, back, allow_unused=True) if made and trained else ()
        return math.isfinite(peak_of(found))  # of a parameter that was not used there is none

    def _look(self, call: _Call, meant: Mapping[str, Kinds]) -> Origin | None:
        network = self._networks[call.network]
        left = kinds_in(_run(network, call)) - meant.get(call.network, NONE)
        bad = [name for name, value in _arguments(call).items() if not math.isfinite(peak_of(value))]
        if bad:
            clean = _with_mended(call, bad)
            if left - kinds_in(_run(network, clean)):
                name = next((one for one in bad if left - kinds_in(_run(network, _with_mended(call, [one])))), bad[0])
                return Origin("data-nonfinite", joined(call.network, name), call.network)
            call = clean  # a mask, or numbers that are missing and filled in
        with Probe(network, call.network, scores=False) as probe:
            _run(network, call)
        readings = probe.readings()
        failed = sorted((r for r in readings if r.failed_at is not None and r.inputs_finite), key=lambda r: r.failed_at or 0)
        failed = [r for r in failed if not r.weights_finite or self._is_news(call, r, meant)]
        if not failed and bad:  # the gradients may tell of it, if what the network gives does not
            return Origin("data-nonfinite", joined(call.network, bad[0]), call.network, reaches=False)
        if not failed:
            self.largest = max(self.largest, *(reading.peak for reading in readings))
            return None
        found = self._culprit(call, failed, left) or failed[0]
        if bad_weight := _bad_weight(network, found.module, {joined("", r.module) for r in readings if r.finite}):
            name = joined(call.network, bad_weight)
            return Origin("weights-nonfinite", name, call.network, found.module, found.kind, reaches=bool(left))
        bad = (joined(call.network, r.module) for r in readings if not r.finite and r.module != found.module)
        further = list(dict.fromkeys(bad))  # a compiled module and the one inside it have one name
        return replace(self._judged(call, found, tuple(further)), reaches=bool(left))

    def _is_news(self, call: _Call, reading: Reading, meant: Mapping[str, Kinds]) -> bool:
        """Whether a module that failed gave more than it gives on purpose."""
        known = meant.get(joined(call.network, reading.module))
        return known is None or bool(self._when_mended(call, reading.module)[0] - known)

    def _culprit(self, call: _Call, failed: Sequence[Reading], left: Kinds) -> Reading | None:
        """The first failing module without which the network's result gets better: what a mask makes, later layers remove.
        Containers come after their modules.
        """
        inner = [r for r in failed if not any(_holds(r.module, other.module) for other in failed)]
        if len(failed) == 1 or not left:
            return inner[0]
        made: list[Kinds] = []
        for reading in inner:
            seen, given = self._when_mended(call, reading.module)
            if left - given:
                return reading
            made.append(seen)
        if any(kinds - {"-inf"} for kinds in made):
            return None
        outer = (r for r in failed if r not in inner)
        return next((r for r in outer if left - self._when_mended(call, r.module)[1]), None)

    def _when_mended(self, call: _Call, module: str) -> tuple[Kinds, Kinds]:
        """(what a module gives that is not finite, what its network gives when that is made finite)."""
        network = self._networks[call.network]
        seen: list[Kinds] = []

        def mend(_module: nn.Module, _args: object, output: Any) -> Any:
            seen.append(kinds_in(output))
            return map_tensors(output, mended)

        with network.get_submodule(module).register_forward_hook(mend):
            given = kinds_in(_run(network, call))
        return NONE.union(*seen), given

    def _judged(self, call: _Call, found: Reading, further: tuple[str, ...]) -> Origin:
        network = self._networks[call.network]
        module = network.get_submodule(found.module)
        narrow = _computes_in(network, module, call)
        inside: list[float] = []
        after: list[float] = []
        region = WideRegion(module, torch.float32, seen=lambda made: inside.append(peak_of(made)))
        with region, module.register_forward_hook(lambda _m, _a, output: after.append(peak_of(output))):
            _run(network, call)
        wide = _wide_peak(inside, after, narrow)
        cause = _cause(found, module, narrow, wide)
        return Origin(
            cause, joined(call.network, found.module), call.network, found.module, found.kind, narrow, wide, further[:8]
        )

    @contextmanager
    def _quietly(self) -> Generator[None]:
        """Restore the random numbers afterwards."""
        state = TorchState.now(self._accelerators)
        self.paused = True
        try:
            yield
        finally:
            self.paused = False
            state.put_back()


def _run(network: nn.Module, call: _Call) -> Any:
    call.random.put_back()
    if call.autocast is None:
        return network(*call.args, **call.kwargs)
    with torch.autocast(call.device, dtype=call.autocast):
        return network(*call.args, **call.kwargs)


def _kinds_made(
    network: nn.Module, call: _Call, kinds_of: Callable[[Any], Kinds] = filled_kinds, *, wide: bool = False
) -> dict[str, Kinds]:
    """What each module that ran gives that is not finite, by name."""
    found: dict[str, Kinds] = {}

    def note(name: str, _module: nn.Module, _args: object, output: object) -> None:
        place = joined(call.network, name)
        found[place] = found.get(place, NONE) | kinds_of(list(floating_outputs(output)))

    with ExitStack() as hooks:
        if wide:
            hooks.enter_context(WideRegion(network, torch.float32, whole=True))
        for name, part in network.named_modules():
            hooks.enter_context(part.register_forward_hook(cast("Any", partial(note, name))))
        _run(network, call)
    return found


def _holds(outer: str, inner: str) -> bool:
    """Whether a module is inside another one, by their names."""
    return outer != inner and (not outer or inner.startswith(f"{outer}."))


def _with_mended(call: _Call, names: Collection[str]) -> _Call:
    """The call with these arguments made finite."""
    args = [
        map_tensors(value, mended) if _POSITION.format(place + 1) in names else value for place, value in enumerate(call.args)
    ]
    kwargs = {name: map_tensors(value, mended) if name in names else value for name, value in call.kwargs.items()}
    return replace(call, args=tuple(args), kwargs=kwargs)


def _arguments(call: _Call) -> dict[str, Any]:
    """Arguments by name, without masks: they hold -inf on purpose."""
    named = {**{_POSITION.format(place + 1): value for place, value in enumerate(call.args)}, **call.kwargs}
    return {name: value for name, value in named.items() if "mask" not in name}


def _bad_weight(network: nn.Module, module: str, sound: Collection[str]) -> str:
    """Name of a module's parameter or buffer that is not finite, "" if none. sound: modules whose results were finite."""
    found = network.get_submodule(module)
    held = {joined(module, name): (p, NONE) for name, p in found.named_parameters()}
    held |= {joined(module, name): (buffer, _MASK) for name, buffer in found.named_buffers()}
    return next(
        (name for name, (t, fine) in held.items() if name.rpartition(".")[0] not in sound and kinds_in(t.detach()) - fine), ""
    )


def _computes_in(network: nn.Module, module: nn.Module, call: _Call) -> torch.dtype:
    """The type under autocast, else that of the module's parameters, else the network's."""
    if call.autocast is not None:
        return call.autocast
    for holder in (module, network):
        if (first := next((p for p in holder.parameters() if p.is_floating_point()), None)) is not None:
            return first.dtype
    return torch.float32


def _wide_peak(inside: Sequence[float], after: Sequence[float], narrow: torch.dtype) -> float | None:
    """The largest number that a module makes in float32; None where its first use is not finite. inside: before its hooks; after:
    behind them, where what passes the limit of `narrow` may be infinite again.
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
