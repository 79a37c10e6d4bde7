"""LoRAs: read from their files by the names of the model's layers, added to a component's exact weights in float32.

So a LoRA costs nothing while a picture is made, and every module keeps its name and place: regions, groups that are rescaled
together, the probe and the comparison with the file see the same network.
"""

import copy
import logging
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

import torch
from accelerate import init_empty_weights
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import Finding, ModelFacts
from halftone.contract.request import Lora
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries, silent_loaders
from halftone.engine.patches.inversions import Learned, bundled_in
from halftone.engine.patches.lora_rows import (
    arrived,
    changed,
    file_layers,
    further,
    numbered,
    rows_in,
    with_lengths,
    without_lengths,
)
from halftone.engine.patches.lycoris import T5, Unusable, read_changes
from halftone.engine.weights.packed import Added, PackedLinear
from halftone.engine.weights.parts import components
from halftone.engine.weights.precision import changes_by_tensor
from halftone.engine.weights.recipe import Delta, Product, rescaled
from halftone.engine.weights.stored_tables import tables_left_empty
from halftone.health.faults import is_out_of_memory
from halftone.library.add_ons.lora_fit import other_base
from halftone.library.add_ons.loras import LORA, is_plain
from halftone.library.files.header import file_stamp, read_header
from halftone.library.files.scan import TensorScan, scan_files
from halftone.library.kinds.loras import place_of

log = logging.getLogger(__name__)

_ADAPTER: Final = "halftone"
_OWN: Final = ("weight", "bias")
"""The parameters of a layer that a LoRA may change."""
_DOWN: Final = re.compile(r"lora(?:_down|_A|\.down|_linear_layer\.down)(?:\.default)?\.weight$")
"""One of a LoRA's tensors for each layer, in every form."""
_UNFIT: Final = (RuntimeError, ValueError, KeyError, IndexError, TypeError, AttributeError, NotImplementedError)
"""What is raised for a file that does not fit."""
_LAST_ENCODERS: Final = ("text_encoder_2", "text_encoder_3")
_JOINED: Final = re.compile(r"qkv|in_proj|linear[12]")
"""Parts of the names of layers that diffusers splits into several."""


_Networks = Callable[[], Mapping[str, nn.Module]]


class Change(Protocol):
    """What a LoRA does to a layer."""

    @property
    def finite(self) -> bool:
        """Whether all of its numbers are numbers."""
        ...

    @property
    def has_bias(self) -> bool:
        """Whether it changes the bias."""
        ...

    def pair(self, weight: float) -> tuple[torch.Tensor, torch.Tensor] | None:
        """(outputs, rank) and (rank, inputs) in float32 whose product is all that it adds; None where there are none."""
        ...

    def delta(self, weight: float, like: torch.Tensor) -> Delta | None:
        """All that it does to a weight of that shape, if it only adds something that does not depend on the weight."""
        ...

    def merged(self, held: Mapping[str, torch.Tensor], weight: float) -> Mapping[str, torch.Tensor]:
        """The layer's weight and bias with this in them. held: they, exactly, in float32 on the CPU; weight: how much of it."""
        ...


@dataclass(frozen=True)
class Adapter:
    """A LoRA that was read. layers: component -> module -> change; version: of the file; bad: its tensors that are not finite;
    left_out: layers without a place in the model; total: its layers, 0 where unknown.
    """

    lora: Lora
    layers: Mapping[str, Mapping[str, Change]]
    version: str
    bad: tuple[TensorScan, ...]
    left_out: int = 0
    total: int = 0
    unread: int = 0
    """Tensors of it that hold changes of kinds that are not known for their layers."""
    inversions: tuple[Learned, ...] = ()
    """The embeddings in it."""
    unfit: tuple[str, ...] = ()
    """Names of embeddings in it that do not fit the model."""


def read_adapters(pipe: Any, model: ModelFacts, loras: Iterable[Lora], known: Sequence[Adapter] = ()) -> tuple[Adapter, ...]:
    """Read the LoRAs with a weight other than 0. known: read into this pipeline before, and not read again. Raises HalftoneError
    lora-other-base, lora-unsupported or lora-not-a-lora.
    """
    at_hand = {(adapter.lora.path, adapter.version): adapter for adapter in known}
    found: list[Adapter] = []
    wanted = tuple(loras)
    networks = cache(lambda: _networks(_empty_copy(pipe, model)) | _t5_encoders(pipe, wanted))
    for lora in wanted:
        before = at_hand.get((lora.path, file_stamp(lora.path)))
        adapter = _read(pipe, model, lora, networks) if before is None else replace(before, lora=lora)
        if any(lora.weights):
            found.append(adapter)
    return tuple(found)


def _read(pipe: Any, model: ModelFacts, lora: Lora, networks: _Networks) -> Adapter:
    version = file_stamp(lora.path)
    bad = tuple(scan for scan in scan_files(((LORA, Path(lora.path)),)) if scan.nonfinite)
    path = Path(lora.path)
    try:
        read = _read_layers(networks, lambda: _empty_copy(pipe, model), path)
    except Unusable as error:
        raise HalftoneError("lora-unsupported", name=lora.name, model=model.name, detail=error.words) from error
    except (OSError, SafetensorError) as error:
        raise HalftoneError("lora-not-a-lora", str(error), path=lora.path, detail=Words("it cannot be read")) from error
    except _UNFIT as error:
        if is_out_of_memory(error):
            raise
        log.info("the LoRA %s does not fit", lora.path, exc_info=True)
        raise other_base(lora, model, Words("its tensors have other names or sizes than the model's"), str(error)) from error
    if not read.layers:
        raise other_base(lora, model, Words("none of its tensors fits the model"))
    return Adapter(lora, read.layers, version, bad, read.left_out, read.total, read.unread, *bundled_in(pipe, lora.path))


class _Read(NamedTuple):
    """Holds what was read of a file. layers: component -> module -> what is done there; the rest as an Adapter has it."""

    layers: Mapping[str, Mapping[str, Change]]
    total: int
    left_out: int
    unread: int = 0


def _read_layers(networks: _Networks, shell: Callable[[], Any], path: Path) -> _Read:
    """networks: of an empty copy of the pipeline; shell: makes another, which diffusers fills. Raises Unusable."""
    found = read_changes(path, networks())
    own = _Read(found.layers, found.total, found.total - found.placed, found.unread)
    names = [tensor.name for tensor in read_header(path).tensors]
    if (own.layers and not own.left_out) or not any(_DOWN.search(name) for name in names):
        return own
    try:
        theirs = _read_by_diffusers(shell, path, own.unread, plain=is_plain(names))
    except (Unusable, *_UNFIT) as error:
        if is_out_of_memory(error) or not own.layers:
            raise
        log.info("diffusers cannot read the LoRA %s", path, exc_info=True)
        return own
    return theirs if theirs.layers and (theirs.left_out < own.left_out or not own.layers) else own


def _read_by_diffusers(shell: Callable[[], Any], path: Path, unread: int, *, plain: bool) -> _Read:
    """It knows the names of more families, but none of them with magnitudes of DoRA. unread: tensors that are of no layer."""
    readings = _as_diffusers(shell(), path, None if plain else without_lengths(load_file(path)))
    if plain and (total := _layers_in(path)):
        return _Read(readings, total, max(0, total - sum(map(len, readings.values()))), unread)
    return _followed(shell(), path, readings)


def _followed(shell: Any, path: Path, readings: Mapping[str, Mapping[str, "_PeftLayer"]]) -> _Read:
    """Return what diffusers read of a file whose layers it renamed, with what it left out. Raises Unusable."""
    tensors = load_file(path)
    held = file_layers(tensors)
    probe = _as_diffusers(shell, path, numbered(tensors, held))
    rows = {(name, module): rows_in(layer) for name, own in probe.items() for module, layer in own.items()}
    found: dict[str, dict[str, Change]] = {}
    for component, own in readings.items():
        for module, layer in own.items():
            at = rows.get((component, module))
            if at is not None and changed(layer, at, tensors, held):
                raise Unusable(Words("diffusers would read other numbers from it than the file holds"))
            found.setdefault(component, {})[module] = layer if at is None else with_lengths(layer, at, held)
    known = sum(layer.has_bias for own in readings.values() for layer in own.values())
    left_out = len(held) - arrived((at for at in rows.values() if at is not None), held)
    return _Read(found, len(held), left_out, max(0, len(further(tensors)) - known))


def _networks(shell: Any) -> dict[str, nn.Module]:
    """The networks to which diffusers itself adds LoRAs."""
    names = cast("list[str]", getattr(type(shell), "_lora_loadable_modules", []))
    return {name: part for name in names if isinstance(part := getattr(shell, name, None), nn.Module)}


def _t5_encoders(pipe: Any, loras: Iterable[Lora]) -> dict[str, nn.Module]:
    """Empty T5 encoders, where one of the LoRAs may be for them: kohya's scripts, OneTrainer and ComfyUI add LoRAs there, too."""
    names = (tensor.name for lora in loras for tensor in read_header(Path(lora.path)).tensors)
    if not any(place_of(name)[0] > 1 for name in names):
        return {}
    parts = {name: getattr(pipe, name, None) for name in _LAST_ENCODERS}
    return {name: _empty(part) for name, part in parts.items() if part is not None and type(part).__name__ == T5}


def _as_diffusers(
    shell: Any, path: Path, instead: Mapping[str, torch.Tensor] | None = None
) -> dict[str, dict[str, "_PeftLayer"]]:
    """Component -> module -> what diffusers and peft read there. instead: tensors in the place of the file's."""
    with quiet_libraries(), silent_loaders():
        if instead is not None:
            shell.load_lora_weights(dict(instead), adapter_name=_ADAPTER)
        else:
            shell.load_lora_weights(str(path.parent), weight_name=path.name, adapter_name=_ADAPTER, local_files_only=True)
    found = {name: _layers(part) for name, part in components(shell).items()}
    return {name: {module: _PeftLayer(layer) for module, layer in own.items()} for name, own in found.items() if own}


def _layers_in(path: Path) -> int:
    """How many layers a file changes; 0 where its layers are not those of diffusers, and nothing can be counted."""
    names = [tensor.name for tensor in read_header(path).tensors]
    return 0 if any(_JOINED.search(name) for name in names) else sum(_DOWN.search(name) is not None for name in names)


def left_out(adapters: Iterable[Adapter]) -> tuple[Words, ...]:
    """Note each LoRA that reaches the model only in part."""
    found = tuple(adapters)
    template = "{0} of {1} layers of the LoRA {2} do not fit this model and were left out."
    layers = [Words(template, (one.left_out, one.total, one.lora.name)) for one in found if one.left_out]
    tensors = [
        Words(
            "{0} tensors of the LoRA {1} hold changes of a kind that this model cannot use and were left out.",
            (adapter.unread, adapter.lora.name),
            one="1 tensor of the LoRA {1} holds a change of a kind that this model cannot use and was left out.",
        )
        for adapter in found
        if adapter.unread
    ]
    own = "The embedding {0} in the LoRA {1} does not fit this model and was left out."
    embeddings = [Words(own, (name, adapter.lora.name)) for adapter in found for name in adapter.unfit]
    return (*layers, *tensors, *embeddings)


def _empty_copy(pipe: Any, model: ModelFacts) -> Any:
    """The pipeline with components that have their shapes, but no memory: what is loaded stays as it is. Raises Unusable."""
    parts = _networks(pipe)
    takes = [part for part in parts.values() if hasattr(part, "load_lora_adapter")]
    if not takes or not callable(getattr(pipe, "load_lora_weights", None)):
        raise Unusable(Words("diffusers cannot add LoRAs to {0} models", (model.family,)))
    shell = copy.copy(pipe)
    vars(shell).update({name: _empty(part) for name, part in parts.items()})
    return shell


def _empty(module: nn.Module) -> nn.Module:
    kind, config = cast("Any", type(module)), cast("Any", module).config
    with init_empty_weights(), tables_left_empty():
        made = cast("nn.Module", kind.from_config(config) if hasattr(module, "register_to_config") else kind(config))
    for name, parameter in list(made.named_parameters()):
        owner, _, own = name.rpartition(".")
        setattr(made.get_submodule(owner), own, nn.Parameter(torch.zeros(()).expand(*parameter.shape), requires_grad=False))
    return made


def _layers(part: nn.Module) -> dict[str, Any]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return {name: layer for name, layer in part.named_modules() if isinstance(layer, BaseTunerLayer)}


def lora_damage(adapters: Iterable[Adapter], dtype: DType) -> list[Finding]:
    """Numbers that are bad in the LoRAs' own files: no cure can help, and the layer that gets them is named."""
    found: list[Finding] = []
    for adapter in adapters:
        if adapter.bad:
            layers = ((component, name, layer) for component, own in adapter.layers.items() for name, layer in own.items())
            bad = ((component, name) for component, name, layer in layers if not layer.finite)
            component, module = next(bad, (next(iter(adapter.layers)), ""))
            first = adapter.bad[0]
            facts: dict[str, str | int | float | bool] = {
                "lora": adapter.lora.name,
                "file": Path(adapter.lora.path).name,
                "tensor": first.tensor,
                "count": first.nonfinite,
                "read": True,
            }
            found.append(
                Finding(
                    code="weights-nonfinite",
                    component=component,
                    module=module,
                    dtype=dtype,
                    peak=None,
                    limit=None,
                    facts=facts,
                )
            )
    return found


def changed_components(adapters: Iterable[Adapter]) -> set[str]:
    """Components to whose weights something is added."""
    return {name for adapter in adapters for name in adapter.layers}


@dataclass(frozen=True)
class LayerPatch:
    """What LoRAs do to one layer, in order. changes: of a rescaled copy, by weight and bias, which are 2**k times those that the
    LoRAs were made for: what is added is scaled alike.
    """

    key: Hashable
    steps: tuple[tuple[Change, float], ...]
    changes: Mapping[str, Sequence[tuple[slice, int]]]

    def touches(self, own: str) -> bool:
        """Whether they change the weight or the bias."""
        return own == "weight" or bool(self.changes.get(own)) or any(change.has_bias for change, _ in self.steps)

    @torch.no_grad()
    def deltas(self, like: torch.Tensor) -> list[Delta] | None:
        """What they add to the weight, one after another; None where they do more than that."""
        found = () if self.changes else (change.delta(weight, like) for change, weight in self.steps)
        known = [delta for delta in found if delta is not None]
        return known if len(known) == len(self.steps) else None

    @torch.no_grad()
    def merged(self, held: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The layer's weight and bias with the LoRAs in them; the weight in float32, and so what else they change."""
        found = dict(held)
        for change, weight in self.steps:
            found = self._scaled(found, back=True)
            exact = {own: tensor.to("cpu", torch.float32) for own, tensor in found.items()}
            for own, value in change.merged(exact, weight).items():
                if own == "weight" or not torch.equal(value, exact[own]):
                    found[own] = value
            found = self._scaled(found)
        return found

    @torch.no_grad()
    def added_to(self, layer: PackedLinear) -> PackedLinear:
        """A layer like this one, with what the LoRAs add beside its bytes."""
        made = layer.like()
        for change, weight in self.steps:
            made.added = (*made.added, _added(change, weight, made))
        return made

    def _scaled(self, found: dict[str, torch.Tensor], *, back: bool = False) -> dict[str, torch.Tensor]:
        """Compute in float32, where powers of two are exact."""
        changes = {own: [(rows, -k if back else k) for rows, k in self.changes.get(own, ())] for own in found}
        return {own: rescaled(tensor.float(), changes[own]) if changes[own] else tensor for own, tensor in found.items()}


def patches_of(adapters: Iterable[Adapter], component: str, exponents: Mapping[str, int] | None = None) -> dict[str, LayerPatch]:
    """LoRA patches by module. exponents: tensor -> k where the weights are 2**k times those that the LoRAs were made for."""
    by_module: dict[str, list[tuple[Adapter, Change]]] = {}
    for adapter in adapters:
        for name, change in adapter.layers.get(component, {}).items():
            by_module.setdefault(name, []).append((adapter, change))
    scaled = changes_by_tensor(exponents or {})
    return {
        name: LayerPatch(
            tuple((one.lora.path, one.version, one.lora.weight_in(component)) for one, _ in found),
            tuple((change, one.lora.weight_in(component)) for one, change in found),
            {own: changes for own in _OWN if (changes := scaled.get(f"{name}.{own}"))},
        )
        for name, found in by_module.items()
    }


def _added(change: Change, weight: float, target: PackedLinear) -> Added:
    """What a LoRA adds to a weight that stays packed: its two factors where it has them, else all the numbers."""
    if (pair := change.pair(weight)) is not None:
        return pair
    held = {"weight": target.exact.cpu().float()}
    if target.bias is not None:
        held["bias"] = target.bias.data.cpu().float()
    merged = change.merged(held, weight)
    if target.bias is not None:
        target.bias.data = merged["bias"].to(target.bias.device)
    return (merged["weight"] - held["weight"],)


class _PeftLayer:
    """A layer of peft around an empty one of the component."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    @property
    def finite(self) -> bool:
        own = (tensor for name, tensor in self._layer.named_parameters() if "base_layer" not in name)
        return all(bool(tensor.isfinite().all()) for tensor in own)

    @property
    def has_bias(self) -> bool:
        """Whether a change of the bias was read."""
        up = getattr(self._layer, "lora_B", {})
        return _ADAPTER in up and up[_ADAPTER].bias is not None

    def factors(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """(rows, rank) and (rank, columns) in float32, alpha among them; None where it has no such two."""
        layer = self._layer
        layer.set_scale(_ADAPTER, 1.0)
        up, down = (getattr(layer, name, {}) for name in ("lora_B", "lora_A"))
        if _ADAPTER not in up or _ADAPTER not in down or getattr(layer, "use_dora", {}).get(_ADAPTER, False):
            return None
        rows, columns = (one[_ADAPTER].weight.data.float().flatten(1) for one in (up, down))
        return rows * layer.scaling[_ADAPTER], columns

    def pair(self, weight: float) -> tuple[torch.Tensor, torch.Tensor] | None:
        found = self.factors()
        if found is None or self.has_bias or not isinstance(self._layer.lora_B[_ADAPTER], nn.Linear):
            return None
        return found[0] * weight, found[1]

    def delta(self, weight: float, like: torch.Tensor) -> Delta | None:
        """Return what peft's `get_delta_weight` makes, in float32 whatever the file's type; None where it does more than add."""
        del like
        layer = self._layer
        if type(layer.get_base_layer()) is not nn.Linear or _ADAPTER in layer.lora_variant or self.has_bias:
            return None
        layer.set_scale(_ADAPTER, weight)
        up, down = (side[_ADAPTER].weight for side in (layer.lora_B, layer.lora_A))
        return Product(up.float(), down.float(), layer.scaling[_ADAPTER])

    def merged(self, held: Mapping[str, torch.Tensor], weight: float) -> dict[str, torch.Tensor]:
        """Merge as peft does, with the real weights in the place of the empty ones for that moment."""
        layer = self._layer
        base = layer.get_base_layer()
        empty = {own: getattr(base, own) for own in held}
        try:
            for own, tensor in held.items():
                setattr(base, own, nn.Parameter(tensor.clone(), requires_grad=False))
            layer.set_scale(_ADAPTER, weight)
            layer.merge(adapter_names=[_ADAPTER])
            return {own: getattr(base, own).data for own in held}
        finally:
            layer.merged_adapters.clear()
            for own, placeholder in empty.items():
                setattr(base, own, placeholder)
