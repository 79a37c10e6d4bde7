"""Where a component's weights lie: on the device, or at home on the CPU, onloaded while they are used.

Home is always true: plans, LoRAs and cures are written to the weights at home, wherever the component runs. So weights are
settled on the CPU, the plan is applied there, and what runs is onloaded. The hooks of accelerate and diffusers do not allow that:
they replace `forward`, as flights and wide kernels do, and keep weights on the meta device or in copies of their own, which a
cure would not reach. These are torch's own hooks; they leave `forward` alone, and nothing is copied back, for running changes no
weight.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final, cast

import torch
from diffusers.hooks.hooks import HookRegistry
from diffusers.hooks.layerwise_casting import LayerwiseCastingHook
from torch import nn
from torch.utils.hooks import RemovableHandle

from halftone.contract.vocabulary import Offload, OffloadMode
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import hold
from halftone.engine.weights.fp8 import EIGHT, computed, storable, stored_exactly
from halftone.engine.weights.packed import PackedLinear
from halftone.engine.weights.parts import own_tensors, role, units
from halftone.engine.weights.recipe import Made
from halftone.engine.weights.staging import Staging, staging
from halftone.health.faults import is_out_of_memory
from halftone.measure.habits import SHARED
from halftone.measure.late import may_copy_ahead

_PLACED: Final = "_halftone_placed"
_ACCELERATE: Final = "_hf_hook"
"""Where pipelines look for a component's device, and what their VAEs call before they run."""
_DIFFUSERS: Final = "_diffusers_hook"
_LAYERWISE: Final = "layerwise_casting"
_HOME: Final = torch.device("cpu")
_PACKED: Final = 2
"""How deep a layer lies that is packed: in a block, and in a layer that comes by itself."""
_TURN: Final = 2**26
"""Bytes that are sent at once of a component that comes whole."""
_LAYERS: Final = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.Embedding,
    nn.LayerNorm,
    nn.GroupNorm,
    PackedLinear,
)
"""Layers of torch and our own that are onloaded by themselves, wherever they stand. Others are onloaded with their block."""


_READERS: Final = ("MultiheadAttention", "HunyuanDiTAttentionPool", "VectorQuantizer")
"""Modules that read the weights of layers in them, which they do not call."""


Bring = Callable[[torch.Tensor, torch.device], Made]
"""Makes what a parameter or buffer is used as, on a device."""


class Piece:
    """Parameters and buffers of some modules that move together. bring: makes what is used from what is at home."""

    def __init__(self, modules: Iterable[nn.Module], bring: Bring | None = None) -> None:
        self.next: Piece | None = None
        """The piece that ran after this one, as far as is known."""
        self._bring = bring
        self._modules = [weakref.ref(module) for module in modules]
        self._away: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self._sent: dict[int, Made] = {}
        """Maps the identity of a tensor at home to its copy on the device, or on its way there."""
        self._arrival: tuple[Staging, torch.Event] | None = None

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self._tensors())

    def send(self, staging: Staging) -> None:
        """Begin to copy what lies on the host; `onload` or `drop` comes next, also where the memory ended."""
        try:
            for tensor in self._tensors():
                source, finish = self._made(tensor, staging.device)
                if source.device == _HOME:  # not with another piece that has a share in it
                    self._sent[id(tensor)] = Made(staging.send(source), finish)
        finally:
            self._arrival = staging, staging.end()

    def onload(self, device: torch.device, staging: Staging | None = None) -> None:
        """Copies take the place of what is at home; if the device has no room for all of them, of none."""
        try:
            if staging is not None and self._arrival is None:
                self.send(staging)
            self._arrive()
            for tensor in self._tensors():
                home = tensor.data
                there = self._there(tensor, device)
                hold(tensor, there)
                self._away.append((tensor, home, there))
        except BaseException:
            self.offload()
            raise

    def offload(self) -> None:
        """What was at home is there again; what was written to the device meanwhile goes home."""
        self.drop()
        while self._away:
            tensor, home, there = self._away.pop()
            untouched = tensor.dtype == there.dtype and tensor.data_ptr() == there.data_ptr()
            hold(tensor, home if untouched else tensor.data.to(_HOME))

    def drop(self) -> None:
        """Release what was sent and is not used."""
        self._arrive()
        self._sent.clear()

    def _arrive(self) -> None:
        if self._arrival is not None:
            staging, event = self._arrival
            staging.await_on_device(event)
            self._arrival = None

    def _there(self, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        if (sent := self._sent.pop(id(tensor), None)) is not None:
            return sent.finish(sent.source)
        if self._bring is None:
            return tensor.data.to(device, copy=True)
        return self._made(tensor, device).on(device)

    def _made(self, tensor: torch.Tensor, device: torch.device) -> Made:
        return Made(tensor.data) if self._bring is None else self._bring(tensor, device)

    def _tensors(self) -> list[torch.Tensor]:
        modules = [module for reference in self._modules if (module := reference()) is not None]
        own = (tensor for module in modules for tensor in own_tensors(module))
        return list({id(tensor): tensor for tensor in own}.values())


@dataclass
class Places:
    """Where a model's components lie. apart: the device has memory of its own; present: the onloaded ones."""

    device: torch.device
    apart: bool
    mode: OffloadMode = "none"
    packed: bool = False
    """Whether denoisers keep their weights in eight bits while they do not compute with them."""
    present: "list[Placed]" = field(default_factory=list)
    ahead: bool = True
    """Whether what runs next comes while what runs now computes."""
    _staging: tuple[int, Staging | None] = (0, None)

    def staging(self, size: int) -> Staging | None:
        """The buffers through which blocks of so many bytes come; None where the device takes them as they lie."""
        if self.device.type in SHARED or not may_copy_ahead(self.device):
            return None
        if size > self._staging[0]:
            self._staging = 0, None  # first, so that both are never there at once
            self._staging = size, staging(self.device, size)
        return self._staging[1]

    def unstage(self) -> None:
        """Release the staging buffers."""
        self._staging = 0, None


class Placed:
    """One component and its place. It is the `_hf_hook` that diffusers knows, while the component is offloaded."""

    def __init__(self, name: str, module: nn.Module, places: Places) -> None:
        self.name = name
        self.role = role(name, module)
        self._module = weakref.ref(module)  # which holds this: no circle
        self._places = places
        self._laid: tuple[OffloadMode, bool] | None = None
        """The mode that it is laid out for, and whether packed; None: not laid out yet."""
        self._made_by: Bring | None = None
        """What makes the weights that are used instead of those that lie here."""
        self.packed: list[tuple[nn.Module, int, torch.dtype]] = []
        """Layers in eight bits, with their exponents and the types they are computed in."""
        self.wide = 0
        """Layers that were to be, and lose by it."""
        self._whole: Piece | None = None
        """What is onloaded for as long as the component is present: all that is in no piece."""
        self._pieces: list[tuple[int, Piece]] = []
        """What is onloaded now beside that: a block, and a layer in it, with how deep they lie."""
        self._ahead: dict[int, Piece] = {}
        """What is on its way to the device, by how deep it lies, while what runs before it computes."""
        self._last: dict[int, Piece] = {}
        self._alone = False
        """Whether the device had no room for a second one."""
        self._staged = 0
        """Bytes of the largest piece that comes and goes."""
        self._handles: list[RemovableHandle] = []

    @property
    def execution_device(self) -> torch.device:
        """The device that the component runs on, by the name in accelerate's hooks."""
        return self._places.device

    def pre_forward(self, _module: nn.Module, *_args: Any, **_kwargs: Any) -> None:
        """diffusers calls this before a VAE encodes or decodes."""
        self.onload()

    def place(self) -> None:
        """Lay the component out: whole on the device, or at home, ready to be onloaded."""
        wanted = (self._places.mode, self._places.packed and self._may_be_packed)
        if self._laid != wanted:
            self._lay_out(*wanted)

    def forget(self) -> None:
        """Lay the component out again at its next placing."""
        self.settle()
        self._laid = None

    def compute_with(self, bring: Bring | None) -> None:
        """Use weights that are made when a block runs, and gone when the next one does; None: its own again."""
        self.forget()
        self._made_by = bring

    def onload(self) -> None:
        """Onload a component whole, or prepare it to come in pieces. Others go home."""
        self.place()
        self._last.clear()  # a call begins: what runs last in it is followed by nothing
        present = self._places.present
        if self._whole is None or self in present:
            return
        for other in [other for other in present if not self._runs_with(other)]:
            other.offload()
        self._whole.onload(self.execution_device, self._places.staging(self._staged))
        present.append(self)

    def offload(self) -> None:
        """All weights at home; of a component that is not offloaded: where they are."""
        self._leave(0)
        while self._ahead:
            self._ahead.popitem()[1].drop()
        if self._whole is not None:
            self._whole.offload()
        if self in self._places.present:
            self._places.present.remove(self)

    def settle(self) -> None:
        """All weights at home and as wide as they are computed with, until the component is placed again."""
        self.offload()
        module = self._module()
        if not self.packed or module is None:
            return
        self._laid = None
        module.to(_HOME)
        while self.packed:
            layer, k, dtype = self.packed[-1]
            weight = cast("Any", layer).weight
            weight.data = computed(weight.data, k, dtype)
            layer.__dict__.pop(_DIFFUSERS, None)
            self.packed.pop()  # only now: the memory may end in between, and the rest is unpacked later

    @property
    def _may_be_packed(self) -> bool:
        return self.role == "denoise" and not self.name.startswith("controlnet") and self._made_by is None

    def _runs_with(self, other: "Placed") -> bool:
        """A ControlNet and its denoiser are called in turns."""
        kinds = {self.role, other.role}
        return kinds == {"denoise"} and any(one.name.startswith("controlnet") for one in (self, other))

    def _lay_out(self, mode: OffloadMode, packed: bool) -> None:
        module = self._module()
        assert module is not None
        self.settle()
        self._laid = None  # the memory may end in between
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._whole = None
        module.__dict__.pop(_ACCELERATE, None)
        if packed:
            self._pack(module)
        module.to(self.execution_device if mode == "none" else _HOME)
        self._laid = (mode, packed)
        if mode == "none" and self._made_by is None:
            return
        module.__dict__[_ACCELERATE] = self
        blocks = [] if mode == "model" and self._made_by is None else blocks_of(module)
        blocks = blocks if self._made_by is None else [part for block in blocks for part in taken_apart(block)]
        inside = {id(part) for block in blocks for part in block}
        self._whole = Piece([part for part in module.modules() if id(part) not in inside], self._made_by)
        pieces: list[Piece] = []
        layered: list[Piece] = []
        for block in blocks:
            # a module may read the type of a layer's weight before that layer runs: what is made in another type comes whole
            layers = layers_of(block) if mode == "sequential" and self._made_by is None else []
            layered += [self._put_hooks(1, [layer], [layer]) for layer in layers]
            # put last, it acts first
            pieces.append(self._put_hooks(0, block, [part for part in block if part not in layers], self._made_by))
        for one, other in (*pairwise(pieces), *pairwise(layered)):
            one.next = other
        self._alone = False
        self._staged = max((piece.nbytes for piece in (*pieces, *layered)), default=min(_TURN, self._whole.nbytes))

    def _pack(self, module: nn.Module) -> None:
        self.wide = 0
        for layer in storable(module):
            weight = cast("Any", layer).weight
            found = stored_exactly(weight.data)
            if found is None:
                self.wide += 1
                continue
            dtype, (weight.data, k) = weight.dtype, found
            self.packed.append((layer, k, dtype))
            self._put_hooks(_PACKED, [layer], [layer], partial(_unpacked, k, dtype))
            registry = HookRegistry(layer)  # where diffusers looks for the type that a layer computes in
            registry.hooks[_LAYERWISE] = LayerwiseCastingHook(EIGHT, dtype, non_blocking=False)
            layer.__dict__[_DIFFUSERS] = registry

    def _put_hooks(
        self, depth: int, callers: Iterable[nn.Module], parts: Iterable[nn.Module], bring: Bring | None = None
    ) -> Piece:
        """Let the first of the callers bring the parts. They stay until others of that depth come, for later hooks."""
        piece = Piece(parts, bring)

        def enter(_module: nn.Module, _args: Any) -> None:
            if any(present is piece for _, present in self._pieces):
                return
            self._leave(depth)
            ahead = self._ahead.pop(depth, None)
            if ahead is not None and ahead is not piece:
                ahead.drop()
            staging = None if depth == _PACKED else self._places.staging(self._staged)
            piece.onload(self.execution_device, staging)
            self._pieces.append((depth, piece))
            if staging is not None:
                self._send_next(depth, piece, staging)

        holding = (part for part in callers if _reads(part) or any(True for _ in own_tensors(part)))
        self._handles += [part.register_forward_pre_hook(enter, prepend=True) for part in holding]
        return piece

    def _send_next(self, depth: int, piece: Piece, staging: Staging) -> None:
        """Send what runs after a piece while that computes, if the device has memory for both."""
        if (last := self._last.get(depth)) is not None:
            last.next = piece
        self._last[depth] = piece
        if self._alone or not self._places.ahead or piece.next is None or piece.next is piece:
            return
        self._ahead[depth] = piece.next
        try:
            piece.next.send(staging)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            self._ahead.pop(depth).drop()
            self._alone = True

    def _leave(self, depth: int) -> None:
        while self._pieces and self._pieces[-1][0] >= depth:
            self._pieces.pop()[1].offload()


def _unpacked(k: int, dtype: torch.dtype, tensor: torch.Tensor, _device: torch.device) -> Made:
    """Compute a packed weight on the device it is wanted on; what else a packed layer holds is used as it is."""
    return Made(tensor.data, lambda there: computed(there, k, dtype)) if tensor.dtype == EIGHT else Made(tensor.data)


def blocks_of(module: nn.Module) -> list[list[nn.Module]]:
    """The modules of each block, and of what stands beside them."""
    found = {id(unit): unit for _, unit in units(module)}
    return [list(unit.modules()) for unit in found.values()]


def taken_apart(block: list[nn.Module]) -> list[list[nn.Module]]:
    """Transformer blocks listed in a block, then the rest: a block's weights are still in the processor's cache when used."""
    inner = [
        list(child.modules()) for part in block if isinstance(part, nn.ModuleList) for child in part if hasattr(child, "attn1")
    ]
    inside = {id(part) for own in inner for part in own}
    return [[part for part in block if id(part) not in inside], *inner]


def layers_of(block: Iterable[nn.Module]) -> list[nn.Module]:
    """Layers of a block whose weights nothing but their own forward reads."""
    closed = {id(part) for holder in block if _reads(holder) for part in holder.modules()}
    return [part for part in block if type(part) in _LAYERS and id(part) not in closed]


def _reads(module: nn.Module) -> bool:
    return any(kind.__name__ in _READERS for kind in type(module).__mro__)


def stand(name: str, module: nn.Module, places: Places) -> None:
    """Place a component that was just read; it lies on the CPU until it is onloaded."""
    module.__dict__[_PLACED] = Placed(name, module, places)


def place(module: nn.Module) -> None:
    """Lay out a component as the model is offloaded; without offload, on the device."""
    if (placed := module.__dict__.get(_PLACED)) is not None:
        placed.place()


def onload(module: nn.Module) -> None:
    """Bring a component where it can run."""
    if (placed := module.__dict__.get(_PLACED)) is not None:
        placed.onload()


def offload(module: nn.Module) -> None:
    """Bring its weights home, where they can be written; those of a component without offload stay on the device."""
    if (placed := module.__dict__.get(_PLACED)) is not None:
        placed.offload()


def settle_weights(module: nn.Module) -> None:
    """Bring its weights where they can be written, as wide as they are computed with."""
    if (placed := module.__dict__.get(_PLACED)) is not None:
        placed.settle()


def compute_with(module: nn.Module, bring: Bring | None) -> None:
    """Compute with weights that `bring` makes, block by block, beside its own, which stay; None: with its own again."""
    if (placed := module.__dict__.get(_PLACED)) is not None:
        placed.compute_with(bring)


def told_packing(modules: Mapping[str, nn.Module]) -> tuple[Words, ...]:
    """What became of the layers that were to be stored in eight bits, a sentence for each component."""
    placed = {name: module.__dict__.get(_PLACED) for name, module in modules.items()}
    return tuple(
        Words(
            "{0}: {1} of {2} layers are stored in FP8; the others would lose accuracy.",
            (name, len(own.packed), len(own.packed) + own.wide),
            about="run",
        )
        if own.wide
        else Words("{0}: {1} layers are stored in FP8.", (name, len(own.packed)), about="run")
        for name, own in placed.items()
        if own is not None and own.packed
    )


def forget_place(module: nn.Module) -> None:
    """Lay it out again at its next placing: layers came or went."""
    if (placed := module.__dict__.get(_PLACED)) is not None:
        placed.forget()


def runs_on(module: nn.Module) -> torch.device:
    """The device on which a component computes, wherever its weights lie now."""
    if (placed := module.__dict__.get(_PLACED)) is not None:
        return placed.execution_device
    return next((parameter.device for parameter in module.parameters()), _HOME)


def put_offload(places: Places, wanted: Offload, *, packed: bool = False) -> None:
    """Set how the model is offloaded and whether denoisers are packed, from the next placing on. Offloads everything."""
    places.packed = packed
    for placed in list(places.present):
        placed.offload()
    places.mode = chosen(places, wanted)
    if places.mode == "none":
        places.unstage()


def leave_device(places: Places, modules: Iterable[nn.Module]) -> None:
    """Bring every component home that does not run now. In the mode just set only text encoders, a VAE or a ControlNet that wait:
    on the device they would lie beside what does not fit.
    """
    for module in modules if places.mode != "none" else ():
        if (placed := module.__dict__.get(_PLACED)) is not None:
            placed.place()


def chosen(places: Places, wanted: Offload) -> OffloadMode:
    """The mode for a setting: none where it would gain nothing."""
    return wanted if places.apart and wanted != "auto" else "none"
