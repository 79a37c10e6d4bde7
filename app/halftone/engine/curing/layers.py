"""The fewest layers in float32 that keep a network finite, found by running: a layer joins where a value would pass the limit.

While a call runs in the narrow type, every layer is watched. One whose result or input passes the limit computes with its input
times a power of two and returns its result in float32, which takes no parameter out of the narrow type; where it cannot, it runs
in float32. Where the network's own code makes a value that is too large (a sum, a product of two layers), layers that ran just
before are tried, one by one: where one returns its result in float32, computed as before, the sum is made in float32 too, and the
call gets further. Blocks need not follow one another as in `regions`: the embedding of a noise level is read by one small layer
of each block, a residual stream mostly by norms.

No names or shapes of known architectures are used; a result is verified before it is offered.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Final

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd  # pyright: ignore[reportPrivateUsage] - the base of all convolutions

from halftone.contract.plan import RESULT, handed_on, result_of
from halftone.contract.vocabulary import FLOAT_LIMITS, DType
from halftone.engine.basics.runs import Runs
from halftone.engine.basics.tensors import DTYPES, as_dtype, map_tensors, peak_of, relative_error, tensors_in
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import apply_state
from halftone.engine.weights.borders import clear_borders, is_layer, scaled_down, scaled_up, take_float32
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.packed import PackedLinear
from halftone.engine.weights.precision import ComponentState, changes_by_tensor, kept_float32
from halftone.engine.weights.recipe import Exact
from halftone.health.faults import ends_the_job, is_out_of_memory
from halftone.measure.stats import peak

log = logging.getLogger(__name__)

MOST_RUNS: Final = 128
"""Times that the calls of one search may begin again: most of them end early, where a number passes the limit."""
_SINGLE: Final = 8
"""Layers that are tried alone where a sum is too large, the latest first."""
_PAIRED: Final = 4
"""The same, tried two at a time."""
_AROUND: Final = 4
"""Modules around such a place whose layers are tried together, the innermost first."""
_CLIPPED: Final = 0.98
"""Share of the limit from which a narrow number counts as clipped to it, as some networks do."""


_ROOM: Final = 3
"""Bits that a layer with a scaled input keeps below the limit, for other prompts and sizes."""
_SAME: Final = 2.0**-8
"""Relative error against float32 up to which a layer may compute with a scaled input: some digits of the narrow type."""


class _OverflowError(Exception):
    """A number passed the limit outside of the layers. reader: the layer that was given it, None: the result."""

    def __init__(self, reader: str | None) -> None:
        super().__init__(reader or "the result")
        self.reader = reader


@dataclass(frozen=True)
class _End:
    """Where a run ended. place: completed uses of layers; reader: the narrow layer whose input was too large; running: modules
    that ran; done: layers with narrow results, the latest first; finite: it reached its end.
    """

    place: int
    reader: str | None
    running: tuple[str, ...]
    done: tuple[str, ...]
    finite: bool = False


@dataclass(frozen=True)
class Fewest:
    """layers: in the order of the module's list, with `result_of` for those of which only the result is meant; before: layers
    that ran before the first of them in the last call, the latest first.
    """

    layers: tuple[str, ...]
    before: tuple[str, ...] = ()

    def sets(self, earlier: Sequence[int]) -> Iterator[tuple[str, ...]]:
        """Yield these; then with float32 in place of scaled inputs; then with more layers before, whose rounding may grow."""
        yield self.layers
        whole = tuple(module if k else name for name in self.layers for module, k in (handed_on(name),))
        if whole != self.layers:
            yield whole
        for count in [count for count in earlier if count <= len(self.before)]:
            more = self.before[:count][::-1]
            yield (*more, *(name for name in whole if handed_on(name)[0] not in more))


class Growth:
    """Grows the set of layers of one component.

    module: runs in dtype with `rescale` applied and no region, and is left without casts at borders. masters: exact weights, of
    which a layer's are made while it computes in float32; runs: how often its calls may begin again.
    """

    def __init__(
        self,
        module: nn.Module,
        masters: Mapping[str, torch.Tensor],
        dtype: DType,
        rescale: Mapping[str, int],
        runs: Runs,
    ) -> None:
        self._module = module
        self._masters = masters if isinstance(masters, Exact) else Exact(masters)
        self._dtype = DTYPES[dtype]
        self._limit = FLOAT_LIMITS[dtype]
        self._changes = changes_by_tensor(rescale)
        self._runs = runs
        owners = Counter(id(parameter) for _, parameter in module.named_parameters(remove_duplicate=False))
        self._shared = {key for key, count in owners.items() if count > 1}
        self._names = {id(parameter): name for name, parameter in module.named_parameters()}
        self._kept = kept_float32(module, self._dtype)
        self._leaves = {name: own for name, own in module.named_modules() if name and is_layer(module, name)}
        self._layers = {
            name: own
            for name, own in self._leaves.items()
            if isinstance(own, PackedLinear) or any(p.is_floating_point() for p in own.parameters())
        }
        self._held: dict[str, int | None] = {}
        """Layers that hand on float32, with k as `handed_on` gives it."""
        self._fresh: set[str] = set()
        """Layers that passed the limit just now: a scaled input may be enough."""
        self._done: list[str] = []
        self._running: list[str] = []
        self._given: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._together: list[tuple[str, ...]] = []
        """Sets of layers that joined without a look at each of them."""

    def layers(self, runs: Sequence[Callable[[], Any]]) -> Fewest | None:
        """None where no set is found that makes all of these calls finite."""
        clear_borders(self._module)
        take_float32(self._module)
        for run in runs:
            end: _End | None = self._ran(run)
            while end is not None and not end.finite:
                end = self._further(run, end)
            if end is None:
                return None
        for together in self._together:
            self._shed(runs, together)
        order = tuple(dict.fromkeys(self._done))
        first = min((index for index, name in enumerate(order) if name in self._held), default=0)
        before = order[: first + 1] if order and self._held.get(order[first]) == 0 else order[:first]
        earlier = tuple(name for name in reversed(before) if name in self._layers)
        names = {name: name if k is None else result_of(name, k) for name, k in self._held.items()}
        return Fewest(tuple(names[name] for name in self._leaves if name in names), earlier)

    def _shed(self, runs: Sequence[Callable[[], Any]], names: Sequence[str]) -> None:
        """Drop those of these layers that nothing needs: all, or each half by itself."""
        held = [name for name in names if (part := handed_on(name))[0] in self._held and self._held[part[0]] == part[1]]
        if not held or self._runs.are_spent:
            return
        before = dict(self._held)
        for name in held:
            del self._held[handed_on(name)[0]]
        if all(self._ran(run).finite for run in runs):
            return
        self._held = before
        half = len(held) // 2
        if half:
            self._shed(runs, held[:half])
            self._shed(runs, held[half:])

    def _further(self, run: Callable[[], Any], end: _End) -> _End | None:
        """The end of the first try with which the run gets further; None if none does."""
        for more in _tries(end):
            if self._runs.are_spent:
                return None
            before = dict(self._held)
            self._held |= dict(map(handed_on, more))
            found = self._ran(run)
            if found.finite or found.place > end.place:
                self._together += [more] if len(more) > 2 else []
                return found
            self._held = before
        return None

    def _ran(self, run: Callable[[], Any]) -> _End:
        self._runs.begin()
        self._given.clear()
        self._fresh.clear()
        self._done.clear()
        self._running.clear()
        reader = None
        finite = False
        try:
            with ExitStack() as hooks, torch.no_grad():
                self._put_hooks(hooks)
                finite = peak_of(run()) < float("inf")
        except _OverflowError as found:
            reader = found.reader
        except (RuntimeError, TypeError, ValueError) as error:
            if ends_the_job(error):
                raise
            log.info("the types do not fit in %s: %s", self._running[-1:], error)
        done = tuple(name for name in dict.fromkeys(reversed(self._done)) if name not in self._held)
        narrow = reader if reader is not None and self._is_narrow(reader) else None
        return _End(len(self._done), narrow, tuple(self._running), done, finite)

    # --- while it runs ------------------------------------------------------------------------------------------------

    def _put_hooks(self, hooks: ExitStack) -> None:
        for name, own in self._module.named_modules():
            if name in self._leaves:
                enter = partial(self._enter, name)
                hooks.enter_context(own.register_forward_pre_hook(enter, with_kwargs=True, prepend=True))
                hooks.enter_context(own.register_forward_hook(partial(self._leave, name)))
            else:
                hooks.enter_context(own.register_forward_pre_hook(lambda *_, name=name: self._running.append(name)))
                hooks.enter_context(own.register_forward_hook(self._end))

    def _end(self, _module: nn.Module, _args: Any, _output: Any) -> None:
        self._running.pop()

    def _enter(self, name: str, _layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for tensor in tensors_in((args, list(kwargs.values()))):
            found = peak(tensor)
            if not found < float("inf") or (tensor.dtype == self._dtype and found >= _CLIPPED * self._limit):
                raise _OverflowError(name)
            if found * 2.0 ** -(self._held.get(name) or 0) > self._limit and self._is_narrow(name):
                self._pass_limit(name)
        self._given[name] = (args, kwargs)

    def _leave(self, name: str, layer: nn.Module, _args: Any, output: Any) -> Any:
        self._done.append(name)
        given = self._given.pop(name)
        if self._held.get(name, 0) != 0:
            output = self._computed(name, layer, given)
        if not self._is_sound(output) and self._is_narrow(name):
            self._pass_limit(name)
            output = self._computed(name, layer, given)
        if not self._is_sound(output):
            raise _OverflowError(name)
        if name in self._fresh:
            self._fresh.discard(name)
            return self._with_scaled_input(name, layer, given, output)
        k = self._held.get(name)
        return output if k is None else map_tensors(output, partial(scaled_up, k))

    def _with_scaled_input(self, name: str, layer: nn.Module, given: tuple[tuple[Any, ...], dict[str, Any]], wide: Any) -> Any:
        """What a layer makes with its input scaled, where that is as good as what it made in float32 (wide); it stays so."""
        largest = max(peak_of(given), peak_of(wide))
        if not isinstance(layer, (nn.Linear, _ConvNd)) or not 0 < largest < float("inf") or id(layer.bias) in self._shared:
            return wide
        k = self._held[name] = max(1, math.ceil(math.log2(largest / self._limit)) + _ROOM)
        output = self._computed(name, layer, given)
        if self._is_sound(output):
            output = map_tensors(output, partial(scaled_up, k))
            if relative_error(output, wide) <= _SAME:
                return output
        self._held[name] = None
        return wide

    def _is_sound(self, value: Any) -> bool:
        """Finite, and not at the narrow type's limit."""
        for tensor in tensors_in(value):
            limit = _CLIPPED * self._limit if tensor.dtype == self._dtype else float("inf")
            if not peak(tensor) < limit:
                return False
        return True

    def _is_narrow(self, name: str) -> bool:
        """Whether a layer computes in the narrow type."""
        if name not in self._layers or (name in self._held and self._held[name] is None):
            return False
        packed = (f"{name}.weight",) if isinstance(self._layers[name], PackedLinear) else ()
        return not all(map(self._kept, (*packed, *(own for _, own in self._own(name)))))

    def _own(self, name: str) -> list[tuple[nn.Parameter, str]]:
        """Parameters of a layer that hold numbers of a floating type, and their names."""
        found = self._layers[name].parameters() if name in self._layers else ()
        return [(parameter, self._names[id(parameter)]) for parameter in found if parameter.is_floating_point()]

    def _pass_limit(self, name: str) -> None:
        """Note a layer that passes the limit; it runs on in float32 and then shows whether it has to."""
        self._fresh.add(name)
        self._held[name] = None

    def _computed(self, name: str, layer: nn.Module, given: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        """What a layer makes in float32, from the exact weights, or with its input scaled. It keeps its own weights."""
        k = self._held[name]
        dtype = torch.float32 if k is None else self._dtype
        args, kwargs = map_tensors(given, as_dtype(dtype) if k is None else partial(scaled_down, k, dtype))
        before = [(parameter, parameter.data) for parameter, _ in self._own(name)]
        packed = [(layer, layer.dtype)] if isinstance(layer, PackedLinear) else []
        try:
            for parameter, own in self._own(name):
                scaled = [(slice(None), -k)] if k and own.endswith(".bias") else []
                changes = (*self._changes.get(own, ()), *scaled)
                parameter.data = self._masters.make(own, changes, dtype, parameter.device).on(parameter.device)
            for one, _ in packed:
                one.dtype = dtype
            return layer.forward(*args, **kwargs)
        finally:
            for parameter, data in before:
                parameter.data = data
            for one, own in packed:
                one.dtype = own


def fewest_layers(
    loaded: Loaded,
    calls: Sequence[Call],
    masters: Mapping[str, torch.Tensor],
    narrow: ComponentState,
    runs: Runs,
) -> Fewest | None:
    """Layers of a component that must run in float32 for these calls to be finite; None: none were found or needed, or the search
    failed. narrow: the state without a region, in which the component is left. Raises what `runs` raises.
    """
    if not calls or narrow.dtype == "float32":
        return None
    name = calls[0].component
    module = loaded.modules[name]
    apply_state(loaded, name, narrow, masters)
    growth = Growth(module, masters, narrow.dtype, narrow.rescale, runs)
    found = None
    try:
        found = growth.layers([partial(run_call, call, module, narrow.dtype) for call in calls])
    except Exception as error:
        if ends_the_job(error) and not is_out_of_memory(error):
            raise
        log.info("the search for the fewest layers of %s failed", name, exc_info=True)
    finally:
        apply_state(loaded, name, narrow, masters, force=True)
    return found if found is not None and found.layers else None


def _tries(end: _End) -> Iterator[tuple[str, ...]]:
    """Layers that may have written what was too large: single results with the reader, then all around, last whole layers."""
    reader = () if end.reader is None else (end.reader,)
    made = [f"{name}{RESULT}" for name in end.done]
    yield from ((name,) for name in made[:_SINGLE])
    yield from combinations(made[:_PAIRED], 2)  # two streams that become one
    if reader:
        yield reader
        yield from ((name, *reader) for name in made[:_SINGLE])
    for holder in [*reversed(end.running), ""][:_AROUND]:
        inside = tuple(name for name in end.done if not holder or name.startswith(f"{holder}."))
        if len(inside) > 1:
            yield (*(f"{name}{RESULT}" for name in inside), *reader)
