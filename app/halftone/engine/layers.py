"""The fewest layers in float32 that keep a network finite, found by running: a layer joins where a number would pass the limit.

While a call runs in the narrow type, every layer is looked at. One whose result passes the limit, or that is given more than the
limit, runs in float32. Where the network's own code makes a number that is too large (a sum, a product of two layers), layers
that ran just before are tried, one by one: where one of them hands on its result in float32, computed as before, the sum is made
in that too, and the call gets further. Blocks need not follow one another as they do in `regions`: the embedding of a noise level
is read by one small layer of each block, a residual stream mostly by norms.

No names and no shapes of known architectures are used; what is found is verified before it is offered.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Final

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from halftone.contract.plan import RESULT
from halftone.contract.words import FLOAT_LIMITS, DType
from halftone.engine.borders import clear_borders, is_layer, take_float32
from halftone.engine.calls import Call, run_call
from halftone.engine.load import Loaded
from halftone.engine.plans import apply_state
from halftone.engine.precision import ComponentState, changes_by_tensor, rescaled
from halftone.engine.tensors import DTYPES, as_dtype, map_tensors, peak_of, tensors_in
from halftone.health.faults import ends_the_job, is_out_of_memory
from halftone.measure.stats import peak

log = logging.getLogger(__name__)

_RUNS: Final = 128
"""Times that a call may begin again."""
_SINGLE: Final = 8
"""Layers that are tried alone where a sum is too large, the latest first."""
_PAIRED: Final = 4
"""The same, tried two at a time."""
_AROUND: Final = 4
"""Modules around such a place whose layers are tried together, the innermost first."""
_CLIPPED: Final = 0.98
"""Share of the limit from which a narrow number counts as clipped to it, as some networks do."""


class _OverflowError(Exception):
    """A number passed the limit outside of the layers. reader: the layer that was given it, None: the result."""

    def __init__(self, reader: str | None) -> None:
        super().__init__(reader or "the result")
        self.reader = reader


@dataclass(frozen=True)
class _End:
    """Where a run ended. place: uses of layers that were complete; reader: the narrow layer that was given what was too large;
    running: modules that ran; done: layers whose results are narrow, the latest first; finite: it came to its end.
    """

    place: int
    reader: str | None
    running: tuple[str, ...]
    done: tuple[str, ...]
    finite: bool = False


@dataclass(frozen=True)
class Fewest:
    """layers: in the order of the module's list, with RESULT where only what one makes is meant; before: layers that ran before
    the first of them in the last call, the latest first.
    """

    layers: tuple[str, ...]
    before: tuple[str, ...] = ()

    def with_earlier(self, count: int) -> tuple[str, ...]:
        """With so many of the layers before them, whose rounding may be what they make larger."""
        earlier = self.before[:count][::-1]
        return (*earlier, *(name for name in self.layers if name.removesuffix(RESULT) not in earlier))


class Growth:
    """Grows the set of layers of one component.

    module: runs in dtype with `rescale` applied and no region, and is left with the layers that were found in float32: its state
    has to be written again. masters: exact weights; check: raises when the job was cancelled; patience: seconds.
    """

    def __init__(
        self,
        module: nn.Module,
        masters: Mapping[str, torch.Tensor],
        dtype: DType,
        rescale: Mapping[str, int],
        check: Callable[[], None],
        patience: float = float("inf"),
    ) -> None:
        self._module = module
        self._masters = masters
        self._dtype = DTYPES[dtype]
        self._limit = FLOAT_LIMITS[dtype]
        self._changes = changes_by_tensor(rescale)
        self._check = check
        self._deadline = time.monotonic() + patience
        self._names = {id(parameter): name for name, parameter in module.named_parameters()}
        self._leaves = {name: own for name, own in module.named_modules() if name and is_layer(module, name)}
        self._layers = {name: own for name, own in self._leaves.items() if any(p.is_floating_point() for p in own.parameters())}
        self._wide: dict[str, None] = {}
        self._done: list[str] = []
        self._running: list[str] = []
        self._given: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._left = _RUNS
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
        first = min((index for index, name in enumerate(order) if self._is_changed(name)), default=0)
        before = order[: first + 1] if order and f"{order[first]}{RESULT}" in self._wide else order[:first]
        earlier = tuple(name for name in reversed(before) if name in self._layers)
        found = [name if name in self._wide else f"{name}{RESULT}" for name in self._leaves if self._is_changed(name)]
        return Fewest(tuple(found), earlier)

    def _shed(self, runs: Sequence[Callable[[], Any]], names: Sequence[str]) -> None:
        """Give up those of these layers that nothing needs: all, or each half of them by itself."""
        held = [name for name in names if name in self._wide]
        if not held or self._is_spent():
            return
        before = list(self._wide)
        for name in held:
            self._narrow(name)
        if all(self._ran(run).finite for run in runs):
            return
        for name in [name for name in self._wide if name not in before]:
            self._narrow(name)
        for name in held:
            self._widen(name)
        half = len(held) // 2
        if half:
            self._shed(runs, held[:half])
            self._shed(runs, held[half:])

    def _is_spent(self) -> bool:
        return self._left <= 0 or time.monotonic() > self._deadline

    def _further(self, run: Callable[[], Any], end: _End) -> _End | None:
        """Where the run ends with the first of the tries that lets it get further; None if none does."""
        for more in _tries(end):
            if self._is_spent():
                return None
            before = set(self._wide)
            for name in more:
                self._widen(name)
            found = self._ran(run)
            if found.finite or found.place > end.place:
                self._together += [more] if len(more) > 2 else []
                return found
            for name in [name for name in self._wide if name not in before]:
                self._narrow(name)
        return None

    def _ran(self, run: Callable[[], Any]) -> _End:
        self._check()
        self._left -= 1
        self._given.clear()
        self._done.clear()
        self._running.clear()
        handles = self._hooks()
        reader = None
        finite = False
        try:
            with torch.no_grad():
                finite = peak_of(run()) < float("inf")
        except _OverflowError as found:
            reader = found.reader
        except (RuntimeError, TypeError, ValueError) as error:
            if ends_the_job(error):
                raise
            log.info("the types do not fit in %s: %s", self._running[-1:], error)
        finally:
            for handle in handles:
                handle.remove()
        done = tuple(name for name in dict.fromkeys(reversed(self._done)) if not self._is_changed(name))
        narrow = reader if reader is not None and self._is_narrow(reader) else None
        return _End(len(self._done), narrow, tuple(self._running), done, finite)

    # --- while it runs ------------------------------------------------------------------------------------------------

    def _hooks(self) -> list[RemovableHandle]:
        handles: list[RemovableHandle] = []
        for name, own in self._module.named_modules():
            if name in self._leaves:
                handles.append(own.register_forward_pre_hook(partial(self._enter, name), with_kwargs=True, prepend=True))
                handles.append(own.register_forward_hook(partial(self._leave, name)))
            else:
                handles.append(own.register_forward_pre_hook(partial(self._begin, name)))
                handles.append(own.register_forward_hook(self._end))
        return handles

    def _begin(self, name: str, _module: nn.Module, _args: Any) -> None:
        self._running.append(name)

    def _end(self, _module: nn.Module, _args: Any, _output: Any) -> None:
        self._running.pop()

    def _enter(self, name: str, _layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for tensor in tensors_in((args, list(kwargs.values()))):
            found = peak(tensor)
            if not found < float("inf") or (tensor.dtype == self._dtype and found >= _CLIPPED * self._limit):
                raise _OverflowError(name)
            if found > self._limit and self._is_narrow(name):
                self._widen(name)
        self._given[name] = (args, kwargs)
        if name not in self._wide:
            return None
        wide = as_dtype(torch.float32)
        return map_tensors(args, wide), map_tensors(kwargs, wide)

    def _leave(self, name: str, layer: nn.Module, _args: Any, output: Any) -> Any:
        self._done.append(name)
        args, kwargs = self._given.pop(name)
        if not self._is_sound(output) and self._is_narrow(name):
            self._widen(name)
            args, kwargs = map_tensors((args, kwargs), as_dtype(torch.float32))
            output = layer.forward(*args, **kwargs)
        if not self._is_sound(output):
            raise _OverflowError(name)
        return map_tensors(output, as_dtype(torch.float32)) if f"{name}{RESULT}" in self._wide else output

    def _is_sound(self, value: Any) -> bool:
        """Finite, and not at the narrow type's limit."""
        for tensor in tensors_in(value):
            limit = _CLIPPED * self._limit if tensor.dtype == self._dtype else float("inf")
            if not peak(tensor) < limit:
                return False
        return True

    def _is_narrow(self, name: str) -> bool:
        return name in self._layers and any(parameter.dtype == self._dtype for parameter in self._layers[name].parameters())

    def _is_changed(self, name: str) -> bool:
        """What it makes is in float32."""
        return name in self._wide or f"{name}{RESULT}" in self._wide

    def _widen(self, name: str) -> None:
        """This layer in float32, from the exact weights; or only what it makes."""
        self._wide[name] = None
        if name in self._layers:
            self._write(name, torch.float32)

    def _narrow(self, name: str) -> None:
        """This layer as it was."""
        del self._wide[name]
        if name in self._layers:
            self._write(name, self._dtype)

    def _write(self, name: str, dtype: torch.dtype) -> None:
        for parameter in self._layers[name].parameters():
            own = self._names[id(parameter)]
            exact = self._masters[own].to(parameter.device)
            if exact.is_floating_point():
                parameter.data = rescaled(exact, self._changes.get(own, ())).to(dtype)


def fewest_layers(
    loaded: Loaded,
    calls: Sequence[Call],
    masters: Mapping[str, torch.Tensor],
    narrow: ComponentState,
    check: Callable[[], None],
    patience: float = float("inf"),
) -> Fewest | None:
    """Layers of a component that have to run in float32 for these calls of it to be finite; None: no such set was found, or none
    is needed, or the search itself failed. narrow: the state without a region, in which the component is left. Raises what
    check raises.
    """
    if not calls or narrow.dtype == "float32":
        return None
    name = calls[0].component
    module = loaded.modules[name]
    apply_state(loaded, name, narrow, masters)
    growth = Growth(module, masters, narrow.dtype, narrow.rescale, check, patience)
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
    """Layers that may have written what was too large there: what single ones make, with the one that reads it, then all around,
    first what they make and then whole.
    """
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
