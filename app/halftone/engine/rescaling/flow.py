"""Experiments with the flow of numbers through a network: what becomes 2**8 times as large when some of its parameters do.

A call is repeated in a wide type with the parameters of some layers scaled. Every layer reports what reaches it: the same numbers
as before, the same times 2**8, or something else. A linear layer reached by scaled numbers gets them divided again (its weight
would be scaled back); a norm reached by them gives what it gave before. When the network's result is unchanged, those layers
together can be scaled. Only a few hundred numbers of every tensor are looked at, so the result is proven once more with the real
weights (`deviation`).

No names or shapes of known architectures are used.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd  # pyright: ignore[reportPrivateUsage] - the base of every convolution

from halftone.contract.plan import EPSILONS
from halftone.engine.basics.runs import Runs
from halftone.engine.basics.tensors import map_tensors, relative_error, tensors_in
from halftone.engine.weights.epsilons import scale_epsilons
from halftone.engine.weights.packed import PackedLinear
from halftone.engine.weights.precision import plain_weights, split_rows
from halftone.health.planning.rescaling import RescaleGroup

_BITS: Final = 8
_FACTOR: Final = 2.0**_BITS
_SAMPLES: Final = 256
_CLOSE: Final[Mapping[torch.dtype, float]] = {torch.float32: 2e-4, torch.bfloat16: 2e-2}
"""Largest difference, relative to the largest sample, at which numbers count as the same."""
_PROVEN: Final[Mapping[torch.dtype, float]] = {torch.float32: 1e-2, torch.bfloat16: 3e-2}
"""Relative error that a group may cost in a type with headroom: layers that add next to nothing to a stream and are not scaled
with it. At 1 % the pictures of the fault bench still agree to more than 50 dB. A group's cost is kept with it and reported.
"""
_ALIKE: Final = 1e-2
_MOST: Final = 0.75
"""Share of the samples that must be alike for a layer to count as a norm."""
LINEAR: Final = (nn.Linear, _ConvNd)

Class = Literal["same", "scaled", "other", "zero"]
Rows = tuple[int, int] | None


@dataclass(frozen=True)
class Writer:
    """A layer whose parameters are scaled. rows: only these rows of them, first to before last; None: all."""

    name: str
    rows: Rows = None


class _MismatchError(Exception):
    """What reaches a layer, or comes out of it, is neither what it was before nor that times the factor."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Trace:
    """A run with scaled parameters.

    writing: the scaled layers; place: completed uses of leaves; mismatch: where it ended, None if it did not; seen: class of what
    every module gave; inside: modules between whose layers scaled numbers went; same: the network gave what it gave before;
    fatal: it ended because a layer is not linear; at_norm: a norm stands where it ended.
    """

    def __init__(self, flow: "Flow", writing: Mapping[str, Rows]) -> None:
        self._flow = flow
        self.writing = writing
        self.place = 0
        self.mismatch: str | None = None
        self.seen: dict[str, Class] = {}
        self.inside: set[str] = set()
        self.same = False
        self.fatal = False
        self.at_norm = False
        self._entered: dict[str, Class] = {}
        self._fed: dict[str, Class] = {}
        """Holds what all uses of a leaf were given together."""
        self._read: dict[str, set[Class]] = {}
        self._begins = min(map(flow.starts, writing), default=0)
        """Place of the first layer that writes: before it everything is as it was, and need not be looked at."""

    @property
    def readers(self) -> list[str]:
        """Linear layers that were given scaled numbers."""
        return sorted(name for name, found in self._read.items() if "scaled" in found)

    @property
    def norms(self) -> list[str]:
        """Leaves that were given scaled numbers and gave what they gave before."""
        fed = [name for name, found in self._fed.items() if found == "scaled" and self.seen.get(name) == "same"]
        return [name for name in fed if not self._flow.is_linear(name)]

    @property
    def closed(self) -> bool:
        """The layers can be scaled together; a reader whose weight is scaled back must be so for all that it reads."""
        whole = all(self._read[name] <= {"scaled", "zero"} for name in self.readers)
        return self.mismatch is None and self.same and whole

    def enter(self, name: str, use: int, value: torch.Tensor) -> torch.Tensor:
        """What a leaf gets: divided again where a linear one is reached by scaled numbers."""
        if self.place < self._begins:
            self._read.setdefault(name, set()).add("same")
            self._fed[name] = "same"
            return value
        found = self._entered[name] = self._flow.class_of((name, use, "in"), [value])
        self._fed[name] = _joint(self._fed.get(name), found)
        if found == "scaled":
            self.inside.add(self._flow.runs_in)
        if self._flow.is_linear(name):
            self._read.setdefault(name, set()).add(found)
            if found == "other":
                raise _MismatchError(name)
            return value / _FACTOR if found == "scaled" else value
        return value

    def leave(self, name: str, use: int, args: tuple[Any, ...], output: Any) -> None:
        """What a leaf gives."""
        if self.place < self._begins:
            self.place += 1
            self.seen[name] = _joint(self.seen.get(name), "same")
            return
        found = self._flow.class_of((name, use, "out"), list(tensors_in(output)))
        self.place += 1
        if name in self.writing and (self.writing[name] is not None or found == "zero"):
            found = "scaled"  # some rows of it are
        if found == "other" or (name in self.writing and found == "same"):
            follows = self._flow.follows(name, args, output)
            self.at_norm = follows == "same"
            stuck = self._entered.get(name) != "other" if follows is None else follows == "other"
            self.fatal = stuck or name in self.writing
            raise _MismatchError(name)
        if found == "scaled":
            self.inside.add(self._flow.runs_in)
        self.seen[name] = _joint(self.seen.get(name), found)

    def leave_holder(self, name: str, use: int, output: Any) -> None:
        """What a module gives that holds others."""
        if self.place <= self._begins:
            self.seen[name] = _joint(self.seen.get(name), "same")
            return
        found = self._flow.class_of((name, use, "out"), list(tensors_in(output)))
        self.seen[name] = _joint(self.seen.get(name), found)


class Flow:
    """A call of a component, repeated with scaled parameters. module: in a wide type; runs: how often it may run."""

    def __init__(self, module: nn.Module, run: Callable[[], Any], runs: Runs) -> None:
        self._run = run
        self._runs = runs
        self.modules = dict(module.named_modules())
        self.leaves = {name: own for name, own in self.modules.items() if not any(True for _ in own.children())}
        self.tensors = {name: tensor for name, tensor in plain_weights(module).items() if tensor.is_floating_point()}
        """Parameters and stored buffers under the name that a plan uses, however many layers share one."""
        stored = set(module.state_dict(keep_vars=True))
        self._names = {
            id(tensor): name
            for name, tensor in (*module.named_buffers(), *module.named_parameters())
            if name in self.tensors and name in stored
        }
        self.holders = [name for name in self.modules if name not in self.leaves and self.own(name)]
        """Modules with layers in them and tensors of their own, such as a table of positions that is added."""
        self._base: dict[tuple[str, int, str], list[torch.Tensor]] = {}
        self.sizes: dict[str, tuple[int, int]] = {}
        """By leaf: number of values read and made."""
        self.order: list[str] = []
        """Leaves in order of completion, each use."""
        self.ends: dict[str, int] = {}
        """By module: completed uses of leaves when it first was complete."""
        self._running: list[str] = []
        self._places: dict[torch.Size, tuple[torch.Tensor, ...]] = {}
        self._result = self._record()
        self._first_use = {name: place for place, name in reversed(list(enumerate(self.order)))}

    # --- runs -------------------------------------------------------------------------------------------------------

    def _record(self) -> Any:
        """What passes through the network as it is."""

        def before(name: str, use: int, value: torch.Tensor) -> torch.Tensor:
            self._base[name, use, "in"] = [self._sample(value)]
            self.sizes[name] = (value.numel(), 0)
            return value

        def after(name: str, use: int, _args: tuple[Any, ...], output: Any) -> None:
            self.order.append(name)
            holder(name, use, output)
            if (tensor := next(tensors_in(output), None)) is not None:
                self.sizes[name] = (self.sizes.get(name, (0, 0))[0], tensor.numel())

        def holder(name: str, use: int, output: Any) -> None:
            self._base[name, use, "out"] = [self._sample(tensor) for tensor in tensors_in(output)]
            self.ends.setdefault(name, len(self.order))

        return self._hooked(before, after, holder)

    def trace(self, writers: Iterable[Writer]) -> Trace:
        """One run with these parameters scaled, up to the first place where it cannot be a group. Raises BudgetSpentError."""
        self._runs.spend()
        trace = Trace(self, {writer.name: writer.rows for writer in writers})
        parts = {(name, rows): self.tensors[name] for owner, rows in trace.writing.items() for name in self.own(owner)}
        with _scaled((tensor if rows is None else tensor[slice(*rows)], _BITS) for (_, rows), tensor in parts.items()):
            try:
                result = self._hooked(trace.enter, trace.leave, trace.leave_holder)
            except _MismatchError as found:
                trace.mismatch = found.name
                return trace
        pairs = zip(tensors_in(result), tensors_in(self._result), strict=True)
        trace.same = all(_compare(self._sample(tensor), self._sample(base)) in ("same", "zero") for tensor, base in pairs)
        return trace

    def deviation(self, group: RescaleGroup, k: int) -> float | None:
        """The relative change of the result with the group shrunk by 2**k; None: too much. Raises BudgetSpentError."""
        self._runs.spend()
        parts = [(self._part(name), -k) for name in group.shrink] + [(self._part(name), k) for name in group.grow]
        root = self.modules[""]
        try:
            scale_epsilons(root, dict.fromkeys(group.epsilons, -2 * k))
            with _scaled(parts), torch.no_grad():
                return proven(self._run(), self._result)
        finally:
            scale_epsilons(root, {})

    def _part(self, name: str) -> torch.Tensor:
        base, rows = split_rows(name)
        return self.tensors[base][rows] if self.tensors[base].dim() else self.tensors[base]

    def _hooked(
        self,
        before: Callable[[str, int, torch.Tensor], torch.Tensor],
        after: Callable[[str, int, tuple[Any, ...], Any], None],
        holder: Callable[[str, int, Any], None],
    ) -> Any:
        """Run with what is called before and after every leaf, and after every module that holds others."""
        uses: dict[str, int] = {}

        def enter(name: str, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            tensor = next(tensors_in((args, kwargs)), None)
            if tensor is None:
                return None
            changed = before(name, uses.get(name, 0), tensor)
            if changed is tensor:
                return None
            args, kwargs = map_tensors((args, kwargs), lambda value: changed if value is tensor else value)
            return args, kwargs

        def leave(name: str, _module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            after(name, uses.get(name, 0), args, output)
            uses[name] = uses.get(name, 0) + 1

        def begin(name: str, _module: nn.Module, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
            self._running.append(name)

        def end(name: str, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            self._running.pop()
            holder(name, uses.get(name, 0), output)
            uses[name] = uses.get(name, 0) + 1

        self._running.clear()
        with ExitStack() as hooks, torch.no_grad():
            for name, module in self.modules.items():
                first, last = (enter, leave) if name in self.leaves else (begin, end)
                hooks.enter_context(module.register_forward_pre_hook(partial(first, name), with_kwargs=True))
                hooks.enter_context(module.register_forward_hook(partial(last, name)))
            return self._run()

    # --- what a run asks --------------------------------------------------------------------------------------------

    def class_of(self, key: tuple[str, int, str], tensors: Sequence[torch.Tensor]) -> Class:
        """What tensors are against those of the recorded run; of several that of the one that was largest."""
        base = self._base.get(key, [])
        if not tensors or len(base) != len(tensors):
            return "zero" if not tensors else "other"
        largest = max(range(len(base)), key=lambda index: float(base[index].abs().max()) if base[index].numel() else 0.0)
        return _compare(self._sample(tensors[largest]), base[largest])

    def _sample(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same few hundred numbers of every tensor of a shape; drawn once: that takes longer than to read them."""
        values, shape = tensor.detach(), tensor.shape
        if values.numel() <= _SAMPLES:
            return values.reshape(-1).clone()
        if shape not in self._places:
            drawn = torch.randint(shape.numel(), (_SAMPLES,), generator=torch.Generator().manual_seed(shape.numel()))
            self._places[shape] = tuple(index.to(values.device) for index in torch.unravel_index(drawn, shape))
        return values[self._places[shape]]

    def follows(self, name: str, args: tuple[Any, ...], output: Any) -> Class | None:
        """The result of a leaf with a scaled input: the same (a norm), or scaled; None: cannot be tried. Anything else that
        reaches such a leaf, however small the difference, needs another writer.
        """
        if len(args) != 1 or not isinstance(args[0], torch.Tensor) or not isinstance(output, torch.Tensor):
            return None
        again = self.leaves[name].forward(args[0] * _FACTOR)
        now, before = self._sample(again), self._sample(output)
        alike = (now - before).abs() <= _ALIKE * before.abs().max()
        # the epsilon of a norm changes tokens that hold next to nothing
        return "same" if float(alike.float().mean()) >= _MOST else _compare(now, before)

    @property
    def runs_in(self) -> str:
        """The module whose own code runs now."""
        return self._running[-1] if self._running else ""

    def is_linear(self, leaf: str) -> bool:
        return isinstance(self.leaves[leaf], LINEAR)

    def starts(self, module: str) -> int:
        """How many uses of leaves are complete before a module first is, or before anything in it is."""
        if module in self.leaves:
            return self._first_use.get(module, 0)
        inside = f"{module}." if module else ""
        return min((place for name, place in self._first_use.items() if name.startswith(inside)), default=0)

    def own(self, module: str) -> list[str]:
        """Names of the parameters and stored buffers of a module itself, without those of its children, that hold numbers."""
        own = self.modules[module]
        if isinstance(own, PackedLinear):
            return []  # its weight is no tensor that could be written over for an experiment
        found = (*own.parameters(recurse=False), *own.buffers(recurse=False))
        return [self._names[id(tensor)] for tensor in found if id(tensor) in self._names]

    def weight(self, leaf: str) -> str | None:
        """The name of a linear layer's weight; None where it is made of something else."""
        own = self.leaves[leaf]
        return None if isinstance(own, PackedLinear) else self._names.get(id(getattr(own, "weight", None)))

    def epsilon(self, leaf: str) -> str | None:
        """The name of a norm's epsilon; None where the leaf has none."""
        own = next((name for name in EPSILONS if isinstance(self.leaves[leaf].__dict__.get(name), float)), None)
        return own and (f"{leaf}.{own}" if leaf else own)

    def before(self, module: str) -> list[str]:
        """Leaves with parameters, the latest first, that were complete when this module first was."""
        done = dict.fromkeys(reversed(self.order[: self.ends.get(module, 0)]))
        return [name for name in done if self.own(name)]

    def first(self, module: str) -> list[str]:
        """Leaves of a module with parameters, in running order."""
        inside = f"{module}." if module else ""
        return [name for name in dict.fromkeys(self.order) if name.startswith(inside) and self.own(name)]


@contextmanager
def _scaled(parts: Iterable[tuple[torch.Tensor, int]]) -> Generator[None]:
    """Tensors times 2**bits, and back whatever happens."""
    done: list[tuple[torch.Tensor, int]] = []
    try:
        for tensor, bits in parts:
            tensor.mul_(2.0**bits)
            done.append((tensor, bits))
        yield
    finally:
        for tensor, bits in done:
            tensor.mul_(2.0**-bits)


def proven(result: Any, reference: Any) -> float | None:
    """The relative change of a result by a group that is shrunk; None where that is too much."""
    error = relative_error(result, reference)
    dtype = next((tensor.dtype for tensor in tensors_in(reference)), torch.float32)
    return error if error <= _PROVEN.get(dtype, 3e-2) else None


def _compare(now: torch.Tensor, before: torch.Tensor) -> Class:
    if now.shape != before.shape or now.numel() == 0:
        return "other" if now.numel() else "zero"
    largest = float(before.abs().max())
    if largest == 0.0:
        return "zero" if float(now.abs().max()) == 0.0 else "other"
    close = _CLOSE.get(before.dtype, 2e-2)
    if float((now.float() - before.float()).abs().max()) <= close * largest:
        return "same"
    difference = float((now.float() - before.float() * _FACTOR).abs().max())
    return "scaled" if difference <= close * largest * _FACTOR else "other"


def _joint(earlier: Class | None, found: Class) -> Class:
    """Join several uses of one module in a call: scaled if all are."""
    if earlier is None or earlier == "zero" or earlier == found:
        return found
    return earlier if found == "zero" else "other"
