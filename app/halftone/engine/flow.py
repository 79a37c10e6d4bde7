"""Finds, by experiment, sets of parameters that can be scaled by a power of two without changing what a network computes.

How: the parameters of one layer are made 2**8 times as large and a call is run again, in a type with room. Every layer tells
what reaches it: the same numbers as before, the same times 2**8, or something else. A linear layer that is reached by scaled
numbers is given them divided again (its weight would be scaled back); a norm that is reached by them gives what it gave before.
When the network's result is what it was, those layers together are a group. When something else arrives where two things were
added, one of them was not scaled: the layer that wrote it joins, and so do its siblings in the other blocks (a residual
stream).

No names and no shapes of known architectures are used. Only a few hundred numbers of every tensor are looked at, so what is
found is offered, not believed: every plan is verified before it is suggested.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd  # pyright: ignore[reportPrivateUsage] - the base of every convolution
from torch.utils.hooks import RemovableHandle

from halftone.engine.rescale import INSIDE
from halftone.engine.tensors import map_tensors, tensors_in
from halftone.health.rescale import RescaleGroup

_BITS: Final = 8
_FACTOR: Final = 2.0**_BITS
_SAMPLES: Final = 256
_CLOSE: Final[Mapping[torch.dtype, float]] = {torch.float32: 2e-4, torch.bfloat16: 2e-2}
"""Largest difference, relative to the largest sample, at which numbers count as the same."""
_ALIKE: Final = 1e-2
_MOST: Final = 0.75
"""Share of the samples that must be alike for a layer to count as a norm."""
_LINEAR: Final = (nn.Linear, _ConvNd)

_RUNS: Final = 128
"""Calls that one search may run again."""
_SECONDS: Final = 90.0
"""Seconds that one search may take."""
_TRIES: Final = 4
"""Layers that are tried where one is looked for."""
_FEW: Final = 2
"""The same of those that are less likely."""
_TURNS: Final = 24
"""Writers of a stream that are found one by one; siblings join at once."""

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


class BudgetSpentError(Exception):
    """A search has run as many calls, or as long, as it may."""


class Trace:
    """What one run with scaled parameters gave.

    writing: the scaled layers; place: completed uses of leaves; mismatch: where it ended, None if it did not; readers: linear
    layers that were given scaled numbers; seen: class of what every module gave; inside: modules between whose layers scaled
    numbers went; same: the network gave what it gave before; fatal: it ended because a layer is not linear;
    at_norm: where it ended a norm stands.
    """

    def __init__(self, flow: "Flow", writing: Mapping[str, Rows]) -> None:
        self._flow = flow
        self.writing = writing
        self.place = 0
        self.mismatch: str | None = None
        self.readers: set[str] = set()
        self.seen: dict[str, Class] = {}
        self.inside: set[str] = set()
        self.same = False
        self.fatal = False
        self.at_norm = False
        self._entered: dict[str, Class] = {}

    @property
    def closed(self) -> bool:
        return self.mismatch is None and self.same

    def enter(self, name: str, use: int, value: torch.Tensor) -> torch.Tensor:
        """What a leaf gets: divided again where a linear one is reached by scaled numbers."""
        found = self._entered[name] = self._flow.class_of((name, use, "in"), [value])
        linear = self._flow.is_linear(name)
        if found == "scaled":
            self.inside.add(self._flow.runs_in)
            if linear:
                self.readers.add(name)
                return value / _FACTOR
        if found == "other" and linear:
            raise _MismatchError(name)
        return value

    def leave(self, name: str, use: int, args: Any, output: Any, leaf: bool) -> None:
        found = self._flow.class_of((name, use, "out"), list(tensors_in(output)))
        if leaf:
            self.place += 1
            if name in self.writing and (self.writing[name] is not None or found == "zero"):
                found = "scaled"  # some rows of it are
            if found == "other" or (name in self.writing and found == "same"):
                follows = self._flow.follows(name, args, output)
                self.at_norm = follows == "same"
                self.fatal = name in self.writing or (
                    self._entered.get(name) != "other" if follows is None else follows == "other"
                )
                raise _MismatchError(name)
            if found == "scaled":
                self.inside.add(self._flow.runs_in)
        self.seen[name] = _joint(self.seen.get(name), found)


class Flow:
    """One call of a component, run again with some parameters scaled.

    module: in a type with room (float32, or bfloat16); run: makes the call; check: raises when the job was cancelled.
    """

    def __init__(self, module: nn.Module, run: Callable[[], Any], check: Callable[[], None]) -> None:
        self._run = run
        self._check = check
        self._left = _RUNS
        self._end = time.monotonic() + _SECONDS
        self.modules = dict(module.named_modules())
        self.leaves = {name: own for name, own in self.modules.items() if not any(True for _ in own.children())}
        self.holders = [name for name, own in self.modules.items() if name not in self.leaves and own_tensors(own)]
        """Modules with layers in them and tensors of their own, such as a table of positions that is added."""
        self._base: dict[tuple[str, int, str], list[torch.Tensor]] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        """By leaf: number of values that went in and came out."""
        self.order: list[str] = []
        """Leaves in order of completion, each use."""
        self.ends: dict[str, int] = {}
        """By module: how many uses of leaves were complete when it first was."""
        self._running: list[str] = []
        self._result: list[torch.Tensor] = []
        self._record()

    # --- runs -------------------------------------------------------------------------------------------------------

    def _record(self) -> None:
        """What passes through the network as it is."""

        def before(name: str, use: int, value: torch.Tensor) -> torch.Tensor:
            self._base[name, use, "in"] = [_sample(value)]
            self._sizes[name] = (value.numel(), 0)
            return value

        def after(name: str, use: int, _args: Any, output: Any, leaf: bool) -> None:
            tensors = list(tensors_in(output))
            self._base[name, use, "out"] = [_sample(tensor) for tensor in tensors]
            if leaf:
                self.order.append(name)
                if tensors:
                    self._sizes[name] = (self._sizes.get(name, (0, 0))[0], tensors[0].numel())
            self.ends.setdefault(name, len(self.order))

        result = self._hooked(before, after)
        self._result = [_sample(tensor) for tensor in tensors_in(result)]

    def trace(self, writers: Iterable[Writer]) -> Trace:
        """One run with these parameters scaled, up to the first place where it cannot be a group. Raises BudgetSpentError."""
        self._check()
        if self._left <= 0 or time.monotonic() > self._end:
            raise BudgetSpentError
        self._left -= 1
        trace = Trace(self, {writer.name: writer.rows for writer in writers})
        with _scaled(self.modules, trace.writing):
            try:
                result = self._hooked(trace.enter, trace.leave)
            except _MismatchError as found:
                trace.mismatch = found.name
                return trace
        pairs = zip(tensors_in(result), self._result, strict=True)
        trace.same = all(_compare(_sample(tensor), base) in ("same", "zero") for tensor, base in pairs)
        return trace

    def _hooked(
        self,
        before: Callable[[str, int, torch.Tensor], torch.Tensor],
        after: Callable[[str, int, Any, Any, bool], None],
    ) -> Any:
        uses: dict[str, int] = {}
        handles: list[RemovableHandle] = []

        def enter(name: str, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            tensor = next(tensors_in((args, kwargs)), None)
            if tensor is None:
                return None
            changed = before(name, uses.get(name, 0), tensor)
            if changed is tensor:
                return None
            args, kwargs = map_tensors((args, kwargs), lambda value: changed if value is tensor else value)
            return args, kwargs

        def begin(name: str, _module: nn.Module, _args: Any) -> None:
            self._running.append(name)

        def leave(name: str, leaf: bool, _module: nn.Module, args: Any, output: Any) -> None:
            if not leaf:
                self._running.pop()
            after(name, uses.get(name, 0), args, output, leaf)
            uses[name] = uses.get(name, 0) + 1

        self._running.clear()
        try:
            for name, module in self.modules.items():
                leaf = name in self.leaves
                if leaf:
                    handles.append(module.register_forward_pre_hook(partial(enter, name), with_kwargs=True))
                else:
                    handles.append(module.register_forward_pre_hook(partial(begin, name)))
                handles.append(module.register_forward_hook(partial(leave, name, leaf)))
            with torch.no_grad():
                return self._run()
        finally:
            for handle in handles:
                handle.remove()

    def class_of(self, key: tuple[str, int, str], tensors: Sequence[torch.Tensor]) -> Class:
        """Of several tensors that of the one that was largest before."""
        base = self._base.get(key, [])
        if not tensors or len(base) != len(tensors):
            return "zero" if not tensors else "other"
        largest = max(range(len(base)), key=lambda index: float(base[index].abs().max()) if base[index].numel() else 0.0)
        return _compare(_sample(tensors[largest]), base[largest])

    def follows(self, name: str, args: tuple[Any, ...], output: Any) -> Class | None:
        """What a leaf gives for a scaled input: the same (a norm), or that scaled; None: cannot be tried. What comes to such a
        leaf otherwise, small as the difference may be, wants another writer.
        """
        if len(args) != 1 or not isinstance(args[0], torch.Tensor) or not isinstance(output, torch.Tensor):
            return None
        again = self.leaves[name].forward(args[0] * _FACTOR)
        now, before = _sample(again), _sample(output)
        alike = (now - before).abs() <= _ALIKE * before.abs().max()
        # the epsilon of a norm changes tokens that hold next to nothing
        return "same" if float(alike.double().mean()) >= _MOST else _compare(now, before)

    @property
    def runs_in(self) -> str:
        """The module whose own code runs now."""
        return self._running[-1] if self._running else ""

    # --- groups -----------------------------------------------------------------------------------------------------

    def completed(self, writers: tuple[Writer, ...], trace: Trace) -> tuple[tuple[Writer, ...], Trace] | None:
        """With what these writers need to make a group, and what is scaled then; None: there is no such group."""
        found = list(writers)
        for _ in range(_TURNS):
            if trace.closed:
                return tuple(found), trace
            if trace.mismatch is None or trace.fatal:
                return None
            joined = self._joined(found, trace)
            if joined is None:
                return None
            found, trace = joined
        return None

    def _joined(self, writers: list[Writer], trace: Trace) -> tuple[list[Writer], Trace] | None:
        """With more writers: those that let the numbers get further. The siblings of all that write already are tried first,
        where one of them has written by then: a residual stream is written alike in every block.
        """
        names = {writer.name for writer in writers}
        done = set(self.order[: trace.place])
        family = sorted({other for name in names for other in self._siblings(name)} - names)
        tries = [[Writer(name)] for name in self._candidates(names, trace)]
        if any(name in done for name in family):
            tries.insert(0, [Writer(name) for name in family])
        for more in tries:
            found = self.trace([*writers, *more])
            if found.closed or (not found.fatal and (found.mismatch is None or found.place > trace.place)):
                return [*writers, *more], found
        return None

    def _candidates(self, taken: set[str], trace: Trace) -> list[str]:
        """Layers with parameters that wrote as many numbers as are read at the mismatch, the latest first, then any."""
        assert trace.mismatch is not None
        size = self._sizes.get(trace.mismatch, (0, 0))[0]
        done = dict.fromkeys(reversed(self.order[: trace.place]))
        found = [name for name in done if name not in taken and name != trace.mismatch and self.has_parameters(name)]
        alike = [name for name in found if self._sizes.get(name, (0, 0))[1] == size]
        holders = [name for name in self.holders if name not in taken and self._has_begun(name, trace)]
        holders.sort(key=lambda name: -self.ends.get(name, len(self.order)))
        return list(dict.fromkeys([*alike[:_TRIES], *holders[:_FEW], *found[:_FEW]]))

    def _has_begun(self, holder: str, trace: Trace) -> bool:
        """It was done before the mismatch, or that is inside it."""
        inside = not holder or f"{trace.mismatch}.".startswith(f"{holder}.")
        return inside or self.ends.get(holder, len(self.order)) <= trace.place

    def _siblings(self, name: str) -> list[str]:
        """The same layer in the other members of its list of blocks."""
        found: list[str] = []
        for number in re.finditer(r"(?<=\.)\d+(?=\.)", name):
            pattern = re.compile(re.escape(name[: number.start()]) + r"\d+" + re.escape(name[number.end() :]))
            same = [other for other in self.leaves if other != name and pattern.fullmatch(other)]
            found += [other for other in same if type(self.leaves[other]) is type(self.leaves[name])]
            if found:
                break
        return found

    def is_linear(self, name: str) -> bool:
        return isinstance(self.leaves[name], _LINEAR)

    def has_parameters(self, name: str) -> bool:
        return any(True for _ in own_tensors(self.leaves[name]))

    def before(self, module: str) -> list[str]:
        """Leaves with parameters, the latest first, that were complete when this module first was."""
        done = dict.fromkeys(reversed(self.order[: self.ends.get(module, 0)]))
        return [name for name in done if self.has_parameters(name)]

    def first(self, module: str) -> list[str]:
        """Leaves of a module with parameters, in running order."""
        inside = f"{module}." if module else ""
        return [name for name in dict.fromkeys(self.order) if name.startswith(inside) and self.has_parameters(name)]


Start = tuple[tuple[Writer, ...], Trace]
"""Writers, and what they gave."""


def flow_groups(component: str, flow: Flow, sick: Sequence[str]) -> tuple[RescaleGroup, ...]:
    """Groups that scale these modules, as many as are found. sick: modules in running order, `.(inside)` after those whose own
    code made what is too large.
    """
    found: list[RescaleGroup] = []
    hopeless: set[str] = set()
    try:
        for site in sick:
            kind = re.sub(r"\d+", "*", site)
            if kind in hopeless or any(site in group.modules for group in found):
                continue
            group = _group_at(component, flow, site)
            if group is None:
                hopeless.add(kind)
                continue
            found.append(group)
    except BudgetSpentError:
        pass  # what was found until then is offered
    return tuple(found)


def _group_at(component: str, flow: Flow, site: str) -> RescaleGroup | None:
    """The simple ones first: a layer, or a part of one, that the next layers undo. Then those that others have to join."""
    waiting: list[Start] = []
    for writers in _alone(flow, site):
        trace = flow.trace(writers)
        if trace.closed and site in (group := _as_group(component, flow, site, writers, trace)).modules:
            return group
        if _may_grow(site, writers, trace):
            waiting.append((writers, trace))
    for writers, trace in (*_openings(flow, site), *waiting):
        found = flow.completed(writers, trace)
        if found is not None and site in (group := _as_group(component, flow, site, *found)).modules:
            return group
    return None


def _may_grow(site: str, writers: Sequence[Writer], trace: Trace) -> bool:
    """Others could join, and what they would make reaches the site."""
    reaches = trace.seen.get(_module(site)) != "same" or _module(site) in trace.inside
    return reaches and not trace.closed and not trace.fatal and not any(writer.rows for writer in writers)


def _module(site: str) -> str:
    return site.removesuffix(INSIDE).rstrip(".")


def _alone(flow: Flow, site: str) -> Iterator[tuple[Writer, ...]]:
    """Single layers that may write the numbers at a site: its own, and the latest ones before it; each also in parts."""
    module = _module(site)
    is_writer = site == module and module in flow.leaves and flow.has_parameters(module)
    latest = [name for name in flow.before(module) if name != module]
    for name in [module, *latest[:_TRIES]] if is_writer else latest[: 2 * _TRIES]:
        yield (Writer(name),)
        yield from ((Writer(name, rows),) for rows in _parts(flow.leaves[name]))


def _openings(flow: Flow, site: str) -> Iterator[Start]:
    """What may begin a residual stream that goes through a site: the first layers of the network, one by one and together (two
    streams may become one further on), then those of the modules around the site.
    """
    parts = _module(site).split(".")
    seen: set[str] = set()
    for length in range(len(parts)):
        begins: list[str] = []
        for name in flow.first(".".join(parts[:length]))[: _TRIES if length else 2 * _TRIES]:
            if name in seen:
                continue
            seen.add(name)
            writers = (Writer(name),)
            trace = flow.trace(writers)
            if _may_grow(site, writers, trace):
                yield writers, trace
            if trace.at_norm:
                begins.append(name)
        if len(begins) > 1:
            writers = tuple(Writer(name) for name in begins)
            yield writers, flow.trace(writers)


def _parts(leaf: nn.Module) -> Iterator[Rows]:
    """Parts of a fused projection, which gives several times as much as it gets: gate and value, or query, key and value."""
    weight = getattr(leaf, "weight", None)
    if not isinstance(leaf, _LINEAR) or not isinstance(weight, torch.Tensor):
        return
    rows, width = int(weight.shape[0]), int(weight.shape[1])
    if rows % 2 == 0 and rows >= 2 * width:
        yield 0, rows // 2
        yield rows // 2, rows
    if rows == 3 * width:
        yield 2 * width, rows


def _as_group(component: str, flow: Flow, site: str, writers: Sequence[Writer], trace: Trace) -> RescaleGroup:
    shrink = [
        f"{_path(writer.name, name)}{_suffix(writer.rows)}"
        for writer in writers
        for name in own_tensors(flow.modules[writer.name])
    ]
    grow = [f"{name}.weight" for name in sorted(trace.readers)]
    modules = [name for name, found in trace.seen.items() if found == "scaled"]
    modules += [f"{name}.{INSIDE}" if name else INSIDE for name in sorted(trace.inside)]
    return RescaleGroup(
        component=component,
        name=f"what reaches {site}",
        shrink=tuple(shrink),
        grow=tuple(grow),
        modules=tuple(modules),
        exact=False,
    )


def _suffix(rows: Rows) -> str:
    return "" if rows is None else f"[{rows[0] or ''}:{rows[1]}]"


def _path(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def own_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and stored buffers of a module itself, without those of its children, that hold numbers."""
    stored = set(module.state_dict()) if any(True for _ in module.buffers(recurse=False)) else set[str]()
    buffers = {name: buffer for name, buffer in module.named_buffers(recurse=False) if name in stored}
    own = {**{name: parameter.data for name, parameter in module.named_parameters(recurse=False)}, **buffers}
    return {name: tensor for name, tensor in own.items() if tensor.is_floating_point()}


class _scaled:  # noqa: N801 - a context manager reads as a verb
    """The parameters of some layers times the factor, and back."""

    def __init__(self, modules: Mapping[str, nn.Module], writing: Mapping[str, Rows]) -> None:
        self._parts = [
            tensor if rows is None else tensor[slice(*rows)]
            for name, rows in writing.items()
            for tensor in own_tensors(modules[name]).values()
        ]

    def __enter__(self) -> None:
        for part in self._parts:
            part.mul_(_FACTOR)

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            part.mul_(1 / _FACTOR)


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """The same few hundred numbers of every tensor of a shape."""
    values = tensor.detach()
    count = values.numel()
    if count <= _SAMPLES:
        return values.reshape(-1).clone()
    places = torch.randint(count, (_SAMPLES,), generator=torch.Generator().manual_seed(count)).to(values.device)
    return values[torch.unravel_index(places, values.shape)]


def _compare(now: torch.Tensor, before: torch.Tensor) -> Class:
    if now.shape != before.shape or now.numel() == 0:
        return "other" if now.numel() else "zero"
    largest = float(before.abs().max())
    if largest == 0.0:
        return "zero" if float(now.abs().max()) == 0.0 else "other"
    close = _CLOSE.get(before.dtype, 2e-2)
    if float((now.double() - before.double()).abs().max()) <= close * largest:
        return "same"
    difference = float((now.double() - before.double() * _FACTOR).abs().max())
    return "scaled" if difference <= close * largest * _FACTOR else "other"


def _joint(earlier: Class | None, found: Class) -> Class:
    """Of several uses of one module in a call: scaled if all are."""
    if earlier is None or earlier == "zero" or earlier == found:
        return found
    return earlier if found == "zero" else "other"
