"""Casts at the borders of what runs in float32: of blocks, and of single layers."""

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final, cast
from weakref import WeakSet

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.conv import _ConvNd  # pyright: ignore[reportPrivateUsage] - the base of all convolutions
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from halftone.contract.plan import handed_on
from halftone.contract.vocabulary import DType
from halftone.engine.basics.tensors import as_dtype, cast_arguments, map_tensors, tensors_in
from halftone.engine.weights.packed import weight_type
from halftone.engine.weights.parts import units

_HOOKS: Final = "_halftone_border"
_CASTS: Final = "_halftone_casts"
_WIDE: Final = "_halftone_wide_inputs"
_ONE_TYPE: Final = frozenset(
    {
        functional.scaled_dot_product_attention,
        functional.multi_head_attention_forward,
        functional.linear,
        functional.rms_norm,
        functional.layer_norm,
        functional.group_norm,
        torch.matmul,
        torch.Tensor.matmul,
        torch.Tensor.__matmul__,
        torch.Tensor.__rmatmul__,
        torch.bmm,
        torch.Tensor.bmm,
        torch.baddbmm,
        torch.addmm,
        torch.einsum,
        functional.conv1d,
        functional.conv2d,
        functional.conv3d,
    }
)
"""Functions of torch that refuse numbers of several types."""
_NORMS: Final = (nn.LayerNorm, nn.GroupNorm)
"""Only these classes themselves: subclasses cast by themselves."""


def takes(module: nn.Module, dtype: DType) -> DType:
    """Input dtype of a component that runs in dtype: float32 where single layers stay in that, because a network makes other
    inputs (a time embedding) in the type of those it gets.
    """
    return "float32" if module.__dict__.get(_WIDE) else dtype


class _Widened(TorchFunctionMode):
    """Gives a function that takes one type only the widest of its arguments' types: a float32 query with narrow keys, say."""

    def __init__(self, note: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = kwargs or {}
        if func in _ONE_TYPE:
            given = {tensor.dtype for tensor in tensors_in((args, kwargs))}
            if len(given) > 1 and torch.float32 in given:
                self._note()
                args, kwargs = map_tensors((args, kwargs), as_dtype(torch.float32))
        return func(*args, **kwargs)


def clear_borders(module: nn.Module) -> None:
    """Remove the casts of an earlier state."""
    module.__dict__.pop(_WIDE, None)
    forget_input_casts(module)
    for handle in cast("list[RemovableHandle]", module.__dict__.pop(_HOOKS, [])):
        handle.remove()


def put_borders(module: nn.Module, regions: Sequence[str], dtype: torch.dtype) -> None:
    """Cast at the borders of what runs in float32: of units (blocks), of what lies inside one, of single layers.

    Between two neighbouring units of a region the stream stays float32: the cast down happens where the next unit outside begins,
    because a value that leaves float32 too early overflows at the border. A module inside a unit is closed: cast up on the way
    in, down on the way out. Where no unit is meant as a whole, single layers are open: each keeps its result in float32, every
    other layer casts what it reads, and what is added or multiplied between them takes the wider type. A name made by `result_of`
    means only a layer's result: the layer computes as it is, or with its input times 2**-k, and returns its result in float32.
    """
    handles: list[RemovableHandle] = []
    names = {name for name, _ in units(module)}
    parts = [handed_on(name) for name in regions]
    results = [(name, k) for name, k in parts if k is not None]
    regions = [name for name, k in parts if k is None]
    layers = [name for name in regions if is_layer(module, name)]
    blocks = [name for name in regions if name not in layers and any(f"{unit}.".startswith(f"{name}.") for unit in names)]
    if blocks:
        inside = tuple(f"{name}." for name in (*blocks, *(name for name in layers if name in names)))
        for name, unit in units(module):
            handles += _Border(torch.float32 if f"{name}.".startswith(inside) else dtype).put(unit)
        layers = [name for name in layers if name not in names]
    for name in (name for name in regions if name not in blocks and name not in names | set(layers)):
        handles += _closed(module.get_submodule(name), dtype)
    for name in layers:
        layer = module.get_submodule(name)
        handles += _closed(layer, dtype) if blocks else _Border(torch.float32).put(layer)
    for name, k in results:
        handles += put_result(module.get_submodule(name), k)
    if results or (layers and not blocks):
        take_float32(module)
    module.__dict__[_HOOKS] = handles


def put_result(layer: nn.Module, k: int) -> list[RemovableHandle]:
    """Have a layer return its result in float32; k: its input is scaled by 2**-k (its bias already is)."""

    def leave(_layer: nn.Module, _args: Any, output: Any) -> Any:
        return map_tensors(output, partial(scaled_up, k))

    def enter(layer: Any, args: Any, kwargs: Any) -> Any:
        return map_tensors((args, kwargs), partial(scaled_down, k, weight_type(layer) or torch.float32))

    left = layer.register_forward_hook(leave)
    # before the cast to the weights' own type, in which it may be too large
    return [left, layer.register_forward_pre_hook(enter, with_kwargs=True, prepend=True)] if k else [left]


def can_hand_on(module: nn.Module | None, name: str) -> bool:
    """Whether a name of a plan means something for a module: what computes with a scaled input multiplies and adds, no more."""
    return module is not None and (not handed_on(name)[1] or isinstance(module, (nn.Linear, _ConvNd)))


def scaled_up(k: int, tensor: torch.Tensor) -> torch.Tensor:
    """tensor times 2**k, in float32."""
    wide = as_dtype(torch.float32)(tensor)
    return wide * 2.0**k if k else wide


def scaled_down(k: int, dtype: torch.dtype, tensor: torch.Tensor) -> torch.Tensor:
    """tensor times 2**-k, in dtype; integers stay as they are."""
    return (tensor * 2.0**-k).to(dtype) if tensor.is_floating_point() else tensor


def take_float32(module: nn.Module) -> None:
    """Call a component with float32 until its borders are cleared."""
    module.__dict__[_WIDE] = True
    put_input_casts(module)


def is_layer(module: nn.Module, name: str) -> bool:
    """Not a module that holds others."""
    return not any(True for _ in module.get_submodule(name).children())


def _closed(part: nn.Module, dtype: torch.dtype) -> list[RemovableHandle]:
    down = part.register_forward_hook(lambda _module, _args, output: map_tensors(output, as_dtype(dtype)))
    return [*_Border(torch.float32).put(part), down]


class _Border:
    """Casts what enters a unit: activations and dtypes. Copies back what the unit writes into a list it was given."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._running: list[list[tuple[list[Any], list[Any], list[Any]]]] = []

    def put(self, unit: nn.Module) -> list[RemovableHandle]:
        return [
            unit.register_forward_pre_hook(self._enter, with_kwargs=True),
            unit.register_forward_hook(self._leave, always_call=True),
        ]

    def _enter(self, _unit: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        cast_args, cast_kwargs = cast_arguments(args, kwargs, self._dtype)
        pairs = zip((*args, *kwargs.values()), (*cast_args, *cast_kwargs.values()), strict=True)
        self._running.append([(given, own, list(own)) for given, own in pairs if isinstance(given, list) and given is not own])
        return (
            tuple(_told(value, self._dtype) for value in cast_args),
            {name: _told(value, self._dtype) for name, value in cast_kwargs.items()},
        )

    def _leave(self, _unit: nn.Module, _args: Any, _output: Any) -> None:
        for given, own, before in self._running.pop() if self._running else ():
            untouched = [index < len(before) and item is before[index] for index, item in enumerate(own)]
            given[:] = [given[index] if untouched[index] else item for index, item in enumerate(own)]


def _told(value: Any, dtype: torch.dtype) -> Any:
    return dtype if isinstance(value, torch.dtype) and value.is_floating_point else value


def put_input_casts(module: nn.Module, *, settled: bool = False) -> None:
    """Cast the inputs of every layer that multiplies to the type of its weights, wherever a network makes them from something
    else (an exact noise level, say).

    settled: the layers keep their types until the next call, so casts that no call needs may go.
    """
    forget_input_casts(module)
    module.__dict__[_CASTS] = _InputCasts(module, settled=settled)


def forget_input_casts(module: nn.Module) -> None:
    """Remove those casts; the next `put_input_casts` looks at the layers again."""
    casts = cast("_InputCasts | None", module.__dict__.pop(_CASTS, None))
    if casts is not None:
        casts.remove()


def mixing(module: nn.Module, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AbstractContextManager[object]:
    """The context in which a component's function runs whose layers may differ in type."""
    casts = cast("_InputCasts | None", module.__dict__.get(_CASTS))
    if casts is not None:
        return casts.during(module, (name, _shape_of((args, kwargs))))
    return nullcontext()


def _shape_of(value: Any) -> Hashable:
    """What of an argument may decide the way through a network: types, nesting, switches; no numbers."""
    if isinstance(value, torch.Tensor):
        return value.dtype
    if isinstance(value, Mapping):
        held = cast("Mapping[Any, Any]", value)
        return tuple((str(key), _shape_of(item)) for key, item in held.items())
    if isinstance(value, (tuple, list)):
        return tuple(map(_shape_of, cast("list[Any]", value)))
    return value if isinstance(value, bool | str | torch.dtype | None) else type(value)


class _InputCasts:
    """Casts of what layers and functions read.

    A hook costs about 3 µs for each layer and step, and the watch over torch's functions 2 µs for each of them. So a network of
    settled types is watched as a whole only in its first call with arguments of given types, and afterwards where it needed a
    cast.
    """

    def __init__(self, module: nn.Module, *, settled: bool) -> None:
        # weakly: the module holds this, and what was replaced shall leave the memory at once
        held = [one for one in module.modules() if isinstance(one, (nn.Linear, _ConvNd)) or type(one) in _NORMS]
        self._layers = WeakSet(held)
        self._settled = settled
        self._known: set[Hashable] = set()
        self._ran = WeakSet[nn.Module]()
        self._cast = WeakSet[nn.Module]()
        self._mixed = WeakSet[nn.Module]()
        self._handles: list[RemovableHandle] = []
        self._put(self._layers)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _put(self, layers: Iterable[nn.Module]) -> None:
        self.remove()
        self._handles = [layer.register_forward_pre_hook(_as_weights, with_kwargs=True) for layer in layers]

    @contextmanager
    def during(self, module: nn.Module, call: Hashable) -> Generator[None]:
        """call: the function and what its arguments are."""
        wide = bool(module.__dict__.get(_WIDE))
        if call in self._known:
            with _Widened() if module in self._mixed else nullcontext():  # a network's own hooks may not run
                yield
        elif self._settled and not any(getattr(one, "_compiled_call_impl", None) is not None for one in module.modules()):
            yield from self._watched(module, wide=wide)
            self._known.add(call)
        else:
            if self._known:
                self._known.clear()
                self._put(self._layers)
            with _Widened() if wide else nullcontext():
                yield

    def _watched(self, module: nn.Module, *, wide: bool) -> Generator[None]:
        running: list[nn.Module] = [module]

        def enter(part: nn.Module, _args: Any) -> None:
            running.append(part)

        def leave(_part: nn.Module, _args: Any, _output: Any) -> None:
            running.pop()

        def cast_and_note(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
            self._ran.add(layer)
            changed = _as_weights(layer, args, kwargs)
            if changed is not None:
                self._cast.add(layer)
            return changed

        self.remove()
        self._handles = [layer.register_forward_pre_hook(cast_and_note, with_kwargs=True) for layer in self._layers]
        inner = list(module.modules())[1:] if wide else []
        self._handles += [part.register_forward_pre_hook(enter) for part in inner]
        self._handles += [part.register_forward_hook(leave, always_call=True) for part in inner]
        try:
            with _Widened(lambda: self._mixed.add(running[-1])) if wide else nullcontext():
                yield
        except BaseException:
            self._put(self._layers)
            raise
        self._put(layer for layer in self._layers if layer in self._cast or layer not in self._ran)
        for part in self._mixed:
            if part is not module:
                self._handles += _widened_in(part)


def _widened_in(part: nn.Module) -> list[RemovableHandle]:
    modes: list[_Widened] = []

    def enter(_part: nn.Module, _args: Any) -> None:
        modes.append(_Widened())
        modes[-1].__enter__()

    def leave(_part: nn.Module, _args: Any, _output: Any) -> None:
        if modes:  # the memory may have ended in a hook before this one's
            modes.pop().__exit__(None, None, None)

    return [part.register_forward_pre_hook(enter), part.register_forward_hook(leave, always_call=True)]


def _as_weights(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    dtype = weight_type(layer)
    if dtype is None:
        return None
    if len(args) == 1 and isinstance(args[0], torch.Tensor) and args[0].dtype is dtype:
        return None  # nearly always, and every layer of every step asks
    given = args, kwargs
    cast_given = map_tensors(given, as_dtype(dtype))
    return None if cast_given is given else cast_given
