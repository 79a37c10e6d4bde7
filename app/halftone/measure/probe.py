"""Watches every module of a network while it runs: the peak of each output, and where the first value went bad.

Forward hooks on all modules write one fused reduction per new tensor into a buffer that is read once (see `stats`). A tensor
measured before (the output of the last child passed up, a view of it, the input of the next module) is recognised by its storage
and version, and not measured again. What is left are values that a module's own code made *between* its children: the sum of a
residual, the product of a gate, the result of attention. They reach the probe as the input of the next child and are booked on
the module whose code made them, as `inside`.

Origin: the first use, in order of completion, with finite inputs and weights whose outputs or inside values are not finite.
Children complete before their parents, so this is the innermost module; a parent is named when all of its children read and gave
finite values, and the damage arose in its own code.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, cast
from weakref import ref

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from halftone.health.planning.rescaling import larger
from halftone.measure.scores import ScoreWatch, find_score_watches
from halftone.measure.stats import PeakBuffer, ceiling, has_values, peak

_NOT_VALUES: Final = ("mask", "bias")
"""Arguments with these words in their name carry -inf or the smallest number of the type on purpose."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One module over all its uses under the probe.

    peak: largest |x| of its outputs and of what its own code made inside (inf or nan when not finite); output_peak: of its
    outputs alone; input_peak: of what came in. inputs_finite and weights_finite: of the first use that failed, True when none
    failed; weights are looked at only then. order: rank of its first completion. failed_at: rank of the first completion that was
    not finite, and failed_call the forward call it belonged to, from 0; None when all was finite. clipped_at: rank of the first
    completion in which it made numbers at the very limit of a narrow type from inputs that were below it.
    """

    component: str
    module: str
    kind: str
    peak: float
    output_peak: float
    input_peak: float
    finite: bool
    inputs_finite: bool
    weights_finite: bool
    order: int
    uses: int
    failed_at: int | None = None
    failed_call: int | None = None
    clipped_at: int | None = None


@dataclass(frozen=True, slots=True)
class ScorePeak:
    """Largest attention score of one attention module. exact: False when it is a lower bound, found among the longest vectors."""

    component: str
    module: str
    peak: float
    exact: bool
    order: int


def origin(readings: Sequence[Reading]) -> Reading | None:
    """The first module whose result is not finite though its inputs and weights are; None when there is none."""
    failed = [r for r in readings if r.failed_at is not None and r.inputs_finite and r.weights_finite]
    return min(failed, key=lambda r: cast(int, r.failed_at), default=None)


def saturation(readings: Sequence[Reading]) -> Reading | None:
    """The first module that made numbers at the very limit of float16 or bfloat16: an overflow that was clipped. None when there
    is none.

    A number that is exactly the limit is finite, but it is what is left of a larger one: some devices and settings clip where
    others give infinity. Several models clip on purpose, too: the blocks of FLUX, Chroma and Qwen-Image in float16. Measured on a
    small FLUX transformer, against float32: one channel of a stream clipped from 275 000 leaves the result as it is (an
    error of 0.0008, against 0.0007 below the limit), as only norms read it; all channels clipped from 181 000 give 0.28. So it
    is only told where it happened; whether it matters, a comparison with a wide type says.
    """
    clipped = [reading for reading in readings if reading.clipped_at is not None]
    return min(clipped, key=lambda reading: cast(int, reading.clipped_at), default=None)


@dataclass(slots=True)
class _Frame:
    """A module that is running: slots of its inputs and of values its own code made."""

    index: int
    inputs: list[int]
    inside: list[int] = field(default_factory=list[int])


class _Use(NamedTuple):
    """One completed forward of one module; place: of the module among all; inputs, inside, outputs are slots."""

    place: int
    call: int
    inputs: list[int]
    inside: list[int]
    outputs: list[int]


class _Known(NamedTuple):
    """A part of a storage that was measured, while it is unchanged: `size` numbers in the places `first` to before `end`."""

    storage: StorageWeakRef
    version: int
    first: int
    end: int
    size: int
    slot: int

    def holds(self, first: int, end: int, size: int) -> bool:
        """Whether numbers in these places were measured. Streams that were split lie in one storage, too, and not only they."""
        whole = self.end - self.first <= self.size
        return self.first <= first and end <= self.end and (whole or (first, end, size) == (self.first, self.end, self.size))


class OriginReachedError(Exception):
    """Leaves the network where the first number went bad."""


class Probe:
    """Context manager around any number of forward calls of `module`. Read after it ended (or between calls, at one
    synchronisation).

    A call begins whenever a module without a running parent is entered for a second time (so one decode of a VAE, which runs two
    modules one after the other, counts as one call). scores: also watch attention scores. until_origin: raise OriginReachedError
    at the first result that is not finite though what came in is (`stopped`); an accelerator, which tells its values late, runs
    to the end.
    """

    def __init__(self, module: nn.Module, component: str, *, scores: bool = True, until_origin: bool = False) -> None:
        self.component = component
        self.stopped = False
        self._until_origin = until_origin
        named = list(module.named_modules())
        self._names = [name for name, _ in named]
        self._modules = [found for _, found in named]
        self._buffer = PeakBuffer()
        self._ceilings: dict[int, float] = {}
        self._hooks = ExitStack()
        self._stack: list[_Frame] = []
        self._uses: list[_Use] = []
        self._known: dict[int, _Known] = {}
        self._last: Callable[[], torch.Tensor | None] = lambda: None
        self._last_version = self._last_slot = 0
        self._tops: set[int] = set()
        self._told = 0
        self._call = -1
        watches, self._roles = find_score_watches(module) if scores else ({}, {})
        self._watches: dict[str, ScoreWatch] = watches
        self._scores: list[tuple[str, int, bool, int]] = []

    def __enter__(self) -> Self:
        for index, module in enumerate(self._modules):
            own = type(module).__module__.startswith("torch.nn.modules.") and "forward" not in vars(module)
            if own and not any(True for _ in module.children()) and not getattr(module, "inplace", False):
                both = cast(Callable[..., None], partial(self._ran, index))
                self._hooks.enter_context(module.register_forward_hook(both, with_kwargs=True))
                continue
            before = cast(Callable[..., None], partial(self._before, index))
            after = cast(Callable[..., None], partial(self._after, index))
            self._hooks.enter_context(module.register_forward_pre_hook(before, with_kwargs=True))
            self._hooks.enter_context(module.register_forward_hook(after, always_call=True))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hooks.close()
        self._stack.clear()
        self._known.clear()

    @property
    def calls(self) -> int:
        """Forward calls that began so far."""
        return self._call + 1

    def ran(self) -> frozenset[str]:
        """The modules that ran since this was last asked."""
        fresh = {self._names[use.place] for use in self._uses[self._told :]}
        self._told = len(self._uses)
        return frozenset(fresh)

    def readings(self) -> tuple[Reading, ...]:
        """One per module that ran, in order of first completion."""
        values = self._buffer.read()
        readings: dict[int, Reading] = {}
        for order, use in enumerate(self._uses):
            found = self._reading(order, use, values)
            before = readings.get(use.place)
            readings[use.place] = found if before is None else _joined(before, found)
        return self._with_weights(tuple(readings.values()))

    def scores(self) -> tuple[ScorePeak, ...]:
        """One per attention module whose query and key were seen, in order of first completion."""
        values = self._buffer.read()
        found: dict[str, ScorePeak] = {}
        for name, slot, exact, order in self._scores:
            before = found.get(name, ScorePeak(self.component, name, 0.0, True, order))
            found[name] = replace(before, peak=larger(before.peak, values[slot]), exact=before.exact and exact)
        return tuple(found.values())

    def _before(self, index: int, _module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self._stack.append(_Frame(index, self._taken(index, args, kwargs)))

    def _after(self, index: int, _module: nn.Module, _args: tuple[object, ...], output: object) -> None:
        frame = _Frame(index, [])
        while self._stack:
            frame = self._stack.pop()
            if frame.index == index:
                break  # what stood above it are children that were left by an exception
        if output is not None:
            self._gave(frame, output)

    def _ran(self, index: int, _module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object], output: object) -> None:
        """Measure a module that runs no other and leaves its input as it is: once, when it is done."""
        self._gave(_Frame(index, self._taken(index, args, kwargs)), output)

    def _taken(self, index: int, args: tuple[object, ...], kwargs: Mapping[str, object]) -> list[int]:
        """Slots of what a module is given. What was not seen yet the running module's own code made."""
        if not self._stack:
            if index in self._tops or self._call < 0:
                self._call += 1
                self._tops.clear()
                self._known = {key: known for key, known in self._known.items() if not known.storage.expired()}
            self._tops.add(index)
        inside = self._stack[-1].inside if self._stack else None
        inputs: list[int] = []
        for tensor in _inputs(args, kwargs):
            slot, fresh = self._slot(tensor)
            inputs.append(slot)
            if fresh and inside is not None:
                inside.append(slot)
        return inputs

    def _gave(self, frame: _Frame, output: object) -> None:
        if self._roles:
            name = self._names[frame.index]
            if name in self._roles:
                watch, role = self._roles[name]
                watch.take(role, output)
            if name in self._watches and (found := self._watches[name].finish()) is not None:
                self._scores.append((name, self._buffer.add(found[0]), found[1], len(self._uses)))
        slots = [self._slot(tensor)[0] for tensor in floating_outputs(output)]
        self._uses.append(_Use(frame.index, self._call, frame.inputs, frame.inside, slots))
        if self._until_origin and self._all_finite(frame.inputs) and not self._all_finite((*slots, *frame.inside)):
            self.stopped = True
            raise OriginReachedError

    def _all_finite(self, slots: Sequence[int]) -> bool:
        return all(value is None or math.isfinite(value) for value in map(self._buffer.at_once, slots))

    def _slot(self, tensor: torch.Tensor) -> tuple[int, bool]:
        """(slot with the peak of this tensor or of one it is part of, True when it had to be measured)."""
        if tensor is self._last() and tensor._version == self._last_version:  # noqa: SLF001
            return self._last_slot, False  # what one module hands on the next one takes, and its holder hands up
        if tensor.is_inference() or not has_values(tensor):
            return self._measured(tensor), True  # no version to tell an in-place change by
        storage = tensor.untyped_storage()
        identity = cast("Any", storage)._cdata  # noqa: SLF001 - what a weak reference to it is compared by, without making one
        version = tensor._version  # noqa: SLF001 - the documented way to see an in-place change
        first, end, count = *_places(tensor), tensor.numel()
        known = self._known.get(identity)
        if known and known.version == version and known.holds(first, end, count) and not known.storage.expired():
            return known.slot, False
        slot = self._measured(tensor)
        self._known[identity] = _Known(StorageWeakRef(storage), version, first, end, count, slot)
        self._last, self._last_version, self._last_slot = ref(tensor), version, slot
        return slot, True

    def _measured(self, tensor: torch.Tensor) -> int:
        """The new slot with its peak."""
        slot = self._buffer.add(tensor)
        self._ceilings[slot] = ceiling(tensor.dtype)
        return slot

    def _clips(self, use: _Use, values: list[float]) -> bool:
        """Whether it made numbers at the limit of their type from what was below it."""

        def at_limit(slots: Sequence[int]) -> bool:
            return any(math.isfinite(values[slot]) and values[slot] == self._ceilings[slot] for slot in slots)

        return at_limit((*use.inside, *use.outputs)) and not at_limit(use.inputs)

    def _reading(self, order: int, use: _Use, values: list[float]) -> Reading:
        entered = _largest(values, use.inputs)
        inside = _largest(values, use.inside)
        leaving = _largest(values, use.outputs)
        # What only passes through (a reshaped copy, two streams laid side by side) is no larger than what came in.
        made = inside if not math.isfinite(inside) or inside > entered else 0.0
        found = larger(leaving, made)
        finite = math.isfinite(found)
        return Reading(
            component=self.component,
            module=self._names[use.place],
            kind=type(self._modules[use.place]).__name__,
            peak=found,
            output_peak=leaving,
            input_peak=entered,
            finite=finite,
            inputs_finite=finite or math.isfinite(entered),
            weights_finite=True,
            order=order,
            uses=1,
            failed_at=None if finite else order,
            failed_call=None if finite else use.call,
            clipped_at=order if self._clips(use, values) else None,
        )

    def _with_weights(self, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        """Look at weights only where the answer matters: at the candidates for the origin, until one is sound."""
        broken: set[str] = set()
        modules = dict(zip(self._names, self._modules, strict=True))
        while (found := origin([r for r in readings if r.module not in broken])) is not None:
            if all(math.isfinite(peak(p)) for p in modules[found.module].parameters()):
                break
            broken.add(found.module)
        return tuple(replace(r, weights_finite=False) if r.module in broken else r for r in readings)


def _places(tensor: torch.Tensor) -> tuple[int, int]:
    """Where in its storage the numbers of a tensor begin and end."""
    first = int(tensor.storage_offset())
    if tensor.is_contiguous():
        return first, first + tensor.numel()
    return first, first + 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _joined(before: Reading, after: Reading) -> Reading:
    """Two uses of one module, `before` the earlier one."""
    failed = before if before.failed_at is not None or after.failed_at is None else after
    return replace(
        before,
        peak=larger(before.peak, after.peak),
        output_peak=larger(before.output_peak, after.output_peak),
        input_peak=larger(before.input_peak, after.input_peak),
        finite=before.finite and after.finite,
        inputs_finite=failed.inputs_finite,
        weights_finite=failed.weights_finite,
        uses=before.uses + 1,
        failed_at=failed.failed_at,
        failed_call=failed.failed_call,
        clipped_at=after.clipped_at if before.clipped_at is None else before.clipped_at,
    )


def _largest(values: list[float], slots: list[int]) -> float:
    found = 0.0
    for slot in slots:
        found = larger(found, values[slot])
    return found


def _inputs(args: tuple[object, ...], kwargs: Mapping[str, object]) -> Sequence[torch.Tensor]:
    found = floating_outputs(args[0] if len(args) == 1 else args)
    if not kwargs:
        return found
    named = [value for name, value in kwargs.items() if value is not None and not any(word in name for word in _NOT_VALUES)]
    return [*found, *_floating(named)]


def floating_outputs(value: object) -> Sequence[torch.Tensor]:
    """Floating tensors of one value or several, without those of more dimensions than the first: they are no signals."""
    if isinstance(value, torch.Tensor):  # nearly always
        return (value,) if value.is_floating_point() or value.is_complex() else ()
    found = list(_floating(value))
    return [tensor for tensor in found if tensor.ndim <= found[0].ndim]


def _floating(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() or value.is_complex():
            yield value
    elif isinstance(value, list | tuple):
        for part in cast(Sequence[object], value):
            yield from _floating(part)
    elif value is not None and isinstance(value, Mapping):
        for part in cast(Mapping[Any, object], value).values():
            yield from _floating(part)
