"""What is applied to a component: its dtype, exact rescaling, float32 regions with casts at their borders."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec
import torch
from torch import nn

from halftone.contract.plan import Plan, handed_on, inputs_in, is_epsilon, is_input
from halftone.contract.vocabulary import DType
from halftone.engine.basics.tensors import DTYPES, as_dtype, cast_arguments, first_floating, map_tensors
from halftone.engine.weights.borders import clear_borders, mixing, put_borders, put_input_casts, takes
from halftone.engine.weights.epsilons import scale_epsilons
from halftone.engine.weights.offload import compute_with, onload, runs_on
from halftone.engine.weights.packed import PackedLinear, packed_layers
from halftone.engine.weights.recipe import Empty, Exact, Made, Recipe, channels_last, known_of, rescaled
from halftone.engine.weights.reused import Reused
from halftone.engine.weights.wide_kernels import put_wide_kernels

_INPUTS: Final = "_halftone_scaled_inputs"
"""On a module: argument of its forward -> k, the exponent by which `invoke` scales it."""
_OWN_INPUTS: Final = "_halftone_own_inputs"
"""The same of what the weights need as they are, in every state: those of a rescaled copy."""
_PACKED: Final = ".packed"
"""The bytes of a packed layer's weight."""


class ComponentState(msgspec.Struct, frozen=True, kw_only=True):
    """How a component runs. rescale: parameter, norm epsilon or input (`input_of`) -> k for 2**k; upcast: float32 modules."""

    dtype: DType
    rescale: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    upcast: tuple[str, ...] = ()


def state_in(plan: Plan, name: str, default: DType) -> ComponentState:
    """The state a plan wants for a component."""
    return ComponentState(
        dtype=plan.dtypes.get(name, default), rescale=plan.rescale.get(name, {}), upcast=plan.upcast.get(name, ())
    )


def split_rows(name: str) -> tuple[str, slice]:
    """A rescaled tensor's name, and which of its rows are meant: "proj.weight[:64]" -> ("proj.weight", slice(0, 64))."""
    base, _, rows = name.partition("[")
    first, _, end = rows.rstrip("]").partition(":")
    return base, slice(int(first or 0), int(end) if end else None)


def kept_float32(module: nn.Module, dtype: torch.dtype) -> Callable[[str], bool]:
    """Parameters that the libraries' own loaders keep in float32 when asked for dtype."""
    strict: Iterable[str] = getattr(module, "_keep_in_fp32_modules_strict", None) or ()
    always: Iterable[str] = getattr(module, "_keep_in_fp32_modules", None) or ()
    is_diffusers = hasattr(module, "register_to_config")
    kept: set[str] = set(strict) if dtype != torch.float32 else set()
    if dtype == torch.float16 or (is_diffusers and dtype == torch.bfloat16):
        kept |= set(always)
    return lambda name: bool(kept) and any(part in kept for part in name.split("."))


def realise(
    module: nn.Module,
    masters: Mapping[str, torch.Tensor],
    state: ComponentState,
    before: ComponentState | None = None,
    layout: torch.memory_format = torch.contiguous_format,
) -> None:
    """Give every parameter of module the value that state wants, from the exact weights, and casts at region borders.

    masters: parameter and buffer name -> exact tensor; may be the module's own while no precision is lost. Only those are read
    and written that change. before: the module's state, None if unknown; where its types are the same, the casts stay. layout: of
    flat convolutions' weights made on the processor; a master itself keeps its own.
    """
    exact = masters if isinstance(masters, Exact) else Exact(masters)
    changes = _changes(state)
    alike = before is not None and (before.dtype, before.upcast) == (state.dtype, state.upcast)
    module.__dict__[_INPUTS] = inputs_in(state.rescale)
    if not alike:
        clear_borders(module)
    scale_epsilons(module, state.rescale)
    for name, recipe in _recipes(module, exact, changes, state):
        _follow(module, name, recipe, exact, layout)
    if alike:
        return
    _put_types(module, state)
    put_input_casts(module, settled=True)


def put_stream(
    module: nn.Module, exact: Exact, state: ComponentState, layout: torch.memory_format = torch.contiguous_format
) -> None:
    """Compute a component as a state wants it, each weight made from the exact ones when its block runs. Its own weights stay,
    save what packed layers are set to; `compute_with` and `realise` end it. layout: of flat convolutions' weights, as in
    `realise`: kernels of different layouts round differently.
    """
    recipes = dict(_recipes(module, exact, _changes(state), state))
    packed = [name for name in recipes if packed_at(module, name) is not None]
    names = {id(tensor_at(module, name)): name for name in recipes if name not in packed}
    flat = {name for name in recipes if is_flat_weight(module, name)} if layout == torch.channels_last else set[str]()
    memory = Reused()

    def bring(tensor: torch.Tensor, device: torch.device) -> Made:
        name = names.get(id(tensor))
        if name is None:
            return Made(tensor.data)
        made = exact.make(name, recipes[name].changes, recipes[name].dtype, device, memory.empty)
        return made.laid_out(layout) if name in flat else made

    module.__dict__[_INPUTS] = inputs_in(state.rescale)
    clear_borders(module)
    scale_epsilons(module, state.rescale)
    for name in packed:
        _follow(module, name, recipes[name], exact)
    _put_types(module, state)
    put_input_casts(module)
    compute_with(module, bring)


def _put_types(module: nn.Module, state: ComponentState) -> None:
    """Kernels for the type of a state, and casts at the borders of its regions."""
    dtype = DTYPES[state.dtype]
    put_wide_kernels(module, runs_on(module), dtype)
    if state.upcast and dtype != torch.float32:
        put_borders(module, state.upcast, dtype)


def _recipes(
    module: nn.Module, exact: Exact, changes: Mapping[str, list[tuple[slice, int]]], state: ComponentState
) -> Iterator[tuple[str, Recipe]]:
    """Recipes of every parameter, packed weight and stored buffer by name."""
    dtype = DTYPES[state.dtype]
    keep = kept_float32(module, dtype)
    regions = tuple(f"{name}." for name in state.upcast)
    packed = [f"{name}.weight" for name in packed_layers(module)]
    for name in (*(name for name, _ in module.named_parameters()), *packed):
        wide = keep(name) or name.startswith(regions)
        yield name, Recipe(exact.origin(name), tuple(changes.get(name, ())), torch.float32 if wide else dtype)
    for name in stored_buffers(module):
        if name in exact.plain:
            yield name, Recipe(exact.origin(name), tuple(changes.get(name, ())), dtype)


def _follow(
    module: nn.Module, name: str, recipe: Recipe, exact: Exact, layout: torch.memory_format = torch.contiguous_format
) -> None:
    """Make one tensor what its recipe says, unless it is."""
    known = known_of(module).held
    before = known.get(name)
    if before == recipe:
        return
    known.pop(name, None)  # the memory may end in between
    if (layer := packed_at(module, name)) is not None:
        same = before is not None and before.origin == recipe.origin
        layer.take(layer if same else exact.layer(name.removesuffix(".weight")), recipe.changes, recipe.dtype)
    else:
        last = layout == torch.channels_last and is_flat_weight(module, name)
        _write(tensor_at(module, name), exact, name, recipe, channels_last if last else None)
    known[name] = recipe


@torch.no_grad()
def _write(tensor: torch.Tensor, exact: Exact, name: str, recipe: Recipe, empty: Empty | None) -> None:
    tensor.data = exact.make(name, recipe.changes, recipe.dtype, tensor.device, empty).on(tensor.device)


def damaged(module: nn.Module, masters: Mapping[str, torch.Tensor], state: ComponentState) -> list[str]:
    """Parameters and stored buffers in memory that are not what the exact weights give in this state: damage, not arithmetic."""
    changes = _changes(state)
    found: list[str] = []
    stored = set(module.state_dict())
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if name not in masters or name not in stored:
            continue
        own, exact = changes.get(name, ()), masters[name].to(tensor.device)
        expected = rescaled(exact.float() if own else exact, own).to(tensor.dtype)
        if not _same_bits(tensor.data, expected):
            found.append(_weight_of(name))
    return found


def mend(exact: Exact, anew: Exact, names: Iterable[str]) -> list[str]:
    """Overwrite stored tensors that differ from a second read of the same files (anew); return their names."""
    found: list[str] = []
    for name in names:
        if name not in exact.plain or name not in anew.plain:
            continue
        ours = exact.plain[name]
        theirs = anew.plain[name].to(ours)
        if not _same_bits(ours, theirs):
            ours.copy_(theirs)
            found.append(_weight_of(name))
    return found


def _weight_of(name: str) -> str:
    """The tensor that a parameter or buffer holds; of a packed layer the one that was packed."""
    return f"{name.removesuffix(_PACKED)}.weight" if name.endswith(_PACKED) else name


def _same_bits(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Equal, a NaN of the file counting as equal to itself."""
    return torch.equal(ours, theirs) or bool(((ours == theirs) | (ours.isnan() & theirs.isnan())).all())


def _changes(state: ComponentState) -> dict[str, list[tuple[slice, int]]]:
    """What a state multiplies by powers of two: what it rescales, and the bias of a layer whose input is scaled."""
    changes = changes_by_tensor(state.rescale)
    for module, k in map(handed_on, state.upcast if state.dtype != "float32" else ()):
        if k:
            changes.setdefault(f"{module}.bias", []).append((slice(None), -k))
    return changes


def changes_by_tensor(rescale: Mapping[str, int]) -> dict[str, list[tuple[slice, int]]]:
    """Exponents by tensor and its rows, as `rescaled` takes them."""
    changes: dict[str, list[tuple[slice, int]]] = {}
    for name, k in rescale.items():
        base, rows = split_rows(name)
        if k and not is_epsilon(name) and not is_input(name):
            changes.setdefault(base, []).append((rows, k))
    return changes


def tensor_at(module: nn.Module, name: str) -> torch.Tensor:
    """A parameter or buffer by name."""
    owner, _, own = name.rpartition(".")
    return cast("torch.Tensor", getattr(module.get_submodule(owner), own))


def stored_buffers(module: nn.Module) -> list[str]:
    """Floating-point buffers that a checkpoint holds; computed ones (positions, frequencies) stay as they were made."""
    named = [name for name, buffer in module.named_buffers() if buffer.is_floating_point()]
    stored = module.state_dict(keep_vars=True) if named else {}  # most networks have none, and it takes long
    return [name for name in named if name in stored]


def is_flat_weight(module: nn.Module, name: str) -> bool:
    """Whether this is the weight of a flat convolution."""
    owner, _, own = name.rpartition(".")
    return own == "weight" and isinstance(module.get_submodule(owner), nn.Conv2d)


def packed_at(module: nn.Module, name: str) -> PackedLinear | None:
    """The layer whose weight this is, if it is a packed one."""
    owner, _, own = name.rpartition(".")
    layer = module.get_submodule(owner) if own == "weight" else None
    return layer if isinstance(layer, PackedLinear) else None


def exact_weights(module: nn.Module, base: object = None) -> Exact:
    """Parameters and buffers by name, without a copy, as they are now. base: as `Exact` has it; None: like no other."""
    layers = {name: layer.like() for name, layer in packed_layers(module).items()}
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    every = module.named_parameters(remove_duplicate=False)
    aliases = {name: names[id(parameter)] for name, parameter in every if names[id(parameter)] != name}
    return Exact(plain_weights(module), layers, aliases, base=object() if base is None else base)


def own_weights(module: nn.Module) -> Exact:
    """The same of a component that holds exactly what its files do."""
    return exact_weights(module, known_of(module).origin)


def plain_weights(module: nn.Module) -> dict[str, torch.Tensor]:
    """The same without the weights of packed layers."""
    named = (*module.named_buffers(), *module.named_parameters())
    return {name: tensor.data for name, tensor in named}  # of its own: what the module holds is written over


def invoke(
    module: nn.Module,
    function: Callable[..., Any],
    dtype: DType,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    back: torch.dtype | None = None,
) -> Any:
    """Call a function of a component where it runs, inputs cast, the result in the dtype of the call (or `back`)."""
    onload(module)
    outside = back or first_floating(args, kwargs)
    args, kwargs = _with_scaled_inputs(module, function, args, kwargs)  # before the cast: one may be too large as it is
    args, kwargs = cast_arguments(args, kwargs, DTYPES[takes(module, dtype)])
    with mixing(module, getattr(function, "__name__", ""), args, kwargs):
        result = function(*args, **kwargs)
    return result if outside is None else map_tensors(result, as_dtype(outside))


def _with_scaled_inputs(
    module: nn.Module, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, those that enter a rescaled stream scaled as it is."""
    given: dict[str, int] = module.__dict__.get(_INPUTS) or {}
    own = own_inputs(module)
    wanted = {name: given.get(name, 0) + own.get(name, 0) for name in {**given, **own}}
    if not wanted:
        return args, kwargs
    names = [name for name, own in inspect.signature(function).parameters.items() if own.kind is not own.VAR_KEYWORD]
    placed = tuple(_times(value, wanted.get(name, 0)) for name, value in zip(names, args, strict=False))
    return (*placed, *args[len(placed) :]), {name: _times(value, wanted.get(name, 0)) for name, value in kwargs.items()}


def own_inputs(module: nn.Module) -> dict[str, int]:
    """Argument of forward -> k, by which it is scaled in every state: the weights are those of a rescaled copy."""
    return module.__dict__.get(_OWN_INPUTS) or {}


def put_own_inputs(module: nn.Module, exponents: Mapping[str, int]) -> None:
    module.__dict__[_OWN_INPUTS] = dict(exponents)


def _times(value: Any, k: int) -> Any:
    """Nested tensors times 2**k; in float32, as a narrower type may not hold it."""
    return map_tensors(value, lambda tensor: tensor.float() * 2.0**k) if k else value


def bytes_in(module: nn.Module, parameters: Iterable[tuple[str, nn.Parameter]], run: DType, upcast: tuple[str, ...]) -> int:
    """Bytes of these named parameters of module once it runs in `run` with these modules in float32, whatever it runs in now."""
    dtype = DTYPES[run]
    keep = kept_float32(module, dtype)
    regions = tuple(f"{name}." for name in upcast)
    total = 0
    for name, parameter in parameters:
        wide = keep(name) or name.startswith(regions)
        size = parameter.element_size() if not parameter.is_floating_point() else 4 if wide else dtype.itemsize
        total += parameter.numel() * size
    return total


def upcast_parameters(module: nn.Module, state: ComponentState) -> int:
    """Parameters that run in float32 because of the state's regions, not because of the loader."""
    if not state.upcast:
        return 0
    regions = tuple(f"{name}." for name in state.upcast)
    plain = sum(parameter.numel() for name, parameter in module.named_parameters() if name.startswith(regions))
    return plain + sum(layer.numbers for name, layer in packed_layers(module).items() if f"{name}.".startswith(regions))
